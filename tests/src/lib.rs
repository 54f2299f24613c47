//! Harness of the end-to-end tests: a [`Stage`] with fresh directories and
//! foreign bystanders, an [`Instance`] of the real program on it, clients for
//! what it serves, and a census of processes that does not rely on the product.
//!
//! The tests read `/proc`, so they run on Linux.

#![cfg(unix)]
#![allow(
    clippy::disallowed_methods,
    reason = "tests start and kill the programs under test themselves, and tasks end with the test"
)]

pub mod agents;
pub mod api;
pub mod authority;
pub mod bystanders;
pub mod census;
pub mod conformance;
pub mod desktop;
pub mod figures;
pub mod front;
pub mod full_client;
pub mod held;
pub mod instance;
pub mod mcp_client;
pub mod misbehave;
pub mod model;
pub mod npm;
pub mod programs;
pub mod progress;
pub mod proxy;
pub mod python;
pub mod record;
pub mod stage;
pub mod tray;
pub mod wait;

pub use agents::RealAgent;
pub use api::{Answer, Api};
pub use authority::{Authority, Faults};
pub use desktop::Desktop;
pub use front::Front;
pub use full_client::FullClient;
pub use held::Held;
pub use instance::Instance;
pub use mcp_client::McpClient;
pub use model::Model;
pub use progress::{Event, Progress};
pub use proxy::Proxy;
pub use stage::Stage;
pub use wait::wait_until;
