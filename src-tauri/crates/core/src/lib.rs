//! The product: engines, sessions, the bridge and the application service.
//! Knows no host: neither Tauri nor HTTP (rule 1).

pub mod api;
pub mod app;
pub mod bridge;
mod error;
pub mod events;
pub mod session;
pub mod wire;

pub use error::{Error, ErrorCode, Result};
