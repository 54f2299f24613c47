//! What goes over the wire, for whoever looks on.

use std::sync::Arc;

/// Which way a line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The agent wrote it.
    FromAgent,
    /// We wrote it.
    ToAgent,
}

/// Sees every line, without its end, in the order of its direction. Called where
/// the lines are read and written: it must be quick and must not wait.
pub type Tap = Arc<dyn Fn(Direction, &str) + Send + Sync>;
