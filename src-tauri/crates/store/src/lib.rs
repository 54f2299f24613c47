//! SQLite on one thread. Knows no protocol and no process: what it keeps of
//! messages is JSON text, of which it reads only the words that search needs.
//!
//! [`Store`] owns a database; [`Reader`] looks into one that another program owns.

#![deny(missing_docs)]

mod migrations;
mod open;
mod query;
mod reader;
pub mod records;
mod rows;
mod search;
mod store;
mod texts;
mod thread;

pub use query::QueryProblem;
pub use reader::{Patience, Presence, ReadError, Reader};
pub use records::*;
pub use search::{Extent, Filter, MOST_HITS, Passage};
pub use store::{Store, StoreError};
