//! A child and everything it started, and the one way to end it.

mod keep;
mod shared;
mod stop;

pub(crate) use keep::keep;
pub(crate) use shared::{Beginning, Parts, Shared};
pub(crate) use stop::Terms;

use crate::{Cookie, Deadline, ProcessId, Role};
use std::{path::PathBuf, sync::Arc, time::Duration};

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

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("an unknown status"),
        }
    }
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

/// A child and everything it started. Clones are the same tree; when the last one is
/// dropped, the tree ends as if the app had died: TERM, its grace, KILL.
#[derive(Clone, Debug)]
pub struct ProcessTree {
    handle: Arc<Handle>,
}

/// Counts the holders of a tree.
#[derive(Debug)]
pub(crate) struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.abandon();
    }
}

impl ProcessTree {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { handle: Arc::new(Handle { shared }) }
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    pub(crate) fn from_handle(handle: Arc<Handle>) -> Self {
        Self { handle }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// Unique within this instance; the third part of the cookie.
    pub fn id(&self) -> &str {
        &self.shared().cookie.tree
    }

    /// The name from the launch.
    pub fn name(&self) -> &str {
        &self.shared().name
    }

    /// What it is to us.
    pub fn role(&self) -> Role {
        self.shared().role
    }

    /// The program itself (not its warden).
    pub fn program(&self) -> ProcessId {
        self.shared().program()
    }

    /// The warden around it, where there is one.
    pub fn warden(&self) -> Option<ProcessId> {
        self.shared().warden
    }

    /// Whether a process that bears this cookie belongs to the tree.
    pub fn is_marked_by(&self, cookie: &Cookie) -> bool {
        self.shared().cookie.is_same_tree(cookie)
    }

    /// The executable that was run, after the search in `PATH`.
    pub fn executable(&self) -> &PathBuf {
        &self.shared().executable
    }

    /// The members that are alive now, the warden not among them. Reads the process
    /// table: a few milliseconds.
    pub fn members(&self) -> Vec<ProcessId> {
        self.shared().find(true).iter().map(ProcessId::from).collect()
    }

    /// How the program ended, once it has.
    pub fn exit(&self) -> Option<Exit> {
        *self.shared().exit.borrow()
    }

    /// Resolves when the program has ended (its children may still live; the
    /// warden is ending them).
    pub async fn exited(&self) -> Exit {
        let mut exit = self.shared().exit.subscribe();
        match exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit::Unknown),
            // The sender lives in `shared`, which we hold.
            Err(_) => Exit::Unknown,
        }
    }

    /// Ends the tree: snapshot → close stdin → TERM → wait → KILL of the group, the snapshot
    /// and every bearer of the cookie, until none is left or the deadline is
    /// reached. Idempotent: all callers get the same result, and a later,
    /// earlier deadline shortens the wait.
    ///
    /// Of the time until the deadline the first quarter (at most 1 s) is for the end of
    /// input and the last fifth (at most 0.75 s) for KILL; TERM has what is between. A
    /// phase ends as soon as the tree has. Dropping the future does not end the stop.
    pub async fn stop(&self, cause: Cause, deadline: Deadline) -> Ended {
        stop::stop(self.shared(), cause, Terms::new(deadline)).await
    }

    /// The same with at most `input` for the end of input: for a caller that must be done
    /// soon when a program ignores it, yet leaves TERM its time.
    pub async fn stop_soon(&self, cause: Cause, deadline: Deadline, input: Duration) -> Ended {
        stop::stop(self.shared(), cause, Terms { deadline, input }).await
    }

    pub(crate) async fn stop_by(&self, cause: Cause, terms: Terms) -> Ended {
        stop::stop(self.shared(), cause, terms).await
    }
}
