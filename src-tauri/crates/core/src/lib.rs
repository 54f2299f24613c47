//! The product: engines, sessions, the bridge and the application service.
//! Knows no host: neither Tauri nor HTTP (rule 1).

#![deny(missing_docs)]

mod agents;
pub mod api;
pub mod app;
pub mod bridge;
pub mod data_dir;
pub mod desktop_entry;
pub mod engine;
mod error;
pub mod events;
mod files;
pub mod import;
pub mod instance;
pub mod logging;
pub mod programs;
pub mod session;
pub mod shutdown;
mod traffic;
pub mod wire;

pub use error::{Error, ErrorCode, Result};

/// Gantry's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
