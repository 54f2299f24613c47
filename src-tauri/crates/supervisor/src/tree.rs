//! A child and everything it started, and the one way to end it.

use crate::{Deadline, ProcessId, Role};
use std::{path::PathBuf, time::Duration};

/// Why a tree is stopped; for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nobody needs it any more.
    Unused,
    /// Its configuration changed or the user asked for a restart.
    Restart,
    /// The user stopped it.
    Stopped,
    /// It failed (no handshake, no answer to a ping).
    Failed,
    /// Gantry ends.
    Quit,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Unknown (its warden was killed).
    Unknown,
}

/// How a tree ended, worst member first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// By itself, after its input was closed.
    Exited,
    /// After TERM.
    Terminated,
    /// After KILL.
    Killed,
    /// These members still run.
    Left(Vec<ProcessId>),
}

/// The result of [`ProcessTree::stop`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How the tree ended.
    pub how: How,
    /// Members that were alive when the stop began and have ended.
    pub processes: usize,
    /// Of those, how many needed KILL.
    pub forced: usize,
    /// From the call to the end.
    pub took: Duration,
}

/// A child and everything it started. Clones are the same tree.
#[derive(Clone, Debug)]
pub struct ProcessTree {}

impl ProcessTree {
    /// Unique within this instance; the third part of the cookie.
    pub fn id(&self) -> &str {
        unimplemented!()
    }
    /// The name from the launch.
    pub fn name(&self) -> &str {
        unimplemented!()
    }
    /// What it is to us.
    pub fn role(&self) -> Role {
        unimplemented!()
    }
    /// The program itself (not its warden).
    pub fn program(&self) -> ProcessId {
        unimplemented!()
    }
    /// The executable that was run, after the search in `PATH`.
    pub fn executable(&self) -> &PathBuf {
        unimplemented!()
    }
    /// The members that are alive now, the warden not among them.
    pub fn members(&self) -> Vec<ProcessId> {
        unimplemented!()
    }
    /// How the program ended, once it has.
    pub fn exit(&self) -> Option<Exit> {
        unimplemented!()
    }
    /// Resolves when the program has ended (its children may still live; the
    /// warden is ending them).
    pub async fn exited(&self) -> Exit {
        unimplemented!()
    }
    /// Ends the tree: snapshot → close stdin → TERM → wait → KILL of the group, the snapshot
    /// and every bearer of the cookie, until none is left or the deadline is
    /// reached. Idempotent: all callers get the same result, and a later,
    /// earlier deadline shortens the wait.
    pub async fn stop(&self, cause: Cause, deadline: Deadline) -> Ended {
        unimplemented!()
    }
}
