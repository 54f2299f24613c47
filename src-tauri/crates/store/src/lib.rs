//! SQLite on one thread. Knows no protocol and no process: what it keeps of
//! messages is JSON text that it does not read.

#![deny(missing_docs)]

pub mod records;
mod store;

pub use records::*;
pub use store::{Store, StoreError};
