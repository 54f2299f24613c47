//! The net of the next start: orphans of instances that no longer live.

use crate::{Deadline, ProcessId};

/// What a sweep found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Orphans that were ended, with their command lines (first 200 bytes).
    pub ended: Vec<(ProcessId, String)>,
    /// Orphans that could not be ended by the deadline.
    pub left: Vec<ProcessId>,
}

/// Ends every process that bears a cookie whose owner no longer lives: TERM,
/// then KILL. Never touches a process of a living owner.
pub async fn sweep(deadline: Deadline) -> SweepReport {
    unimplemented!()
}
