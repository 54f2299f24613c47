//! The process table, read at once: for the process view and the census.

use crate::{Cookie, ProcessId};

/// One process as the system reports it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Who it is.
    pub id: ProcessId,
    /// Its parent's pid.
    pub parent: u32,
    /// The short name.
    pub name: String,
    /// The command line, arguments separated by spaces, secrets included: never log it.
    pub command: String,
    /// The cookie it bears, when we may read it.
    pub cookie: Option<Cookie>,
    /// Share of one core since the last reading of the same process, in percent.
    pub cpu: f32,
    /// Resident memory in bytes.
    pub rss: u64,
    /// Since its start.
    pub uptime: std::time::Duration,
    /// Ended and not yet reaped by its parent.
    pub zombie: bool,
}

/// Reads the table. One instance keeps what is needed to compute `cpu`.
#[derive(Debug, Default)]
pub struct Table {}

impl Table {
    /// All processes that bear a cookie, ourselves included, and what hangs below them.
    pub fn read(&mut self) -> Vec<Row> {
        unimplemented!()
    }
}
