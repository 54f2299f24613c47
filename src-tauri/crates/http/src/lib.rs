//! The loopback listener: `/mcp`, `/api`, `/events`, `/computer`, `/health`,
//! `/metrics` and the user interface's files (contract, section 2).
//!
//! A host starts its [`App`](gantry_core::app::App), binds with [`bind`], and
//! gives both to [`serve`] with a scope that owns every task of it. The
//! listener closes itself when the shutdown begins.

#![deny(missing_docs)]

mod answer;
mod api;
mod at_once;
mod body;
mod computer;
mod door;
mod feed;
mod gate;
mod head;
mod listen;
pub mod mcp;
mod metrics;
mod pages;
mod progress;
mod query;
mod reference;
mod routes;
mod sse;
mod table;
mod tally;

pub use door::Door;
pub use listen::{HttpOptions, bind, serve, url};
