//! Starting a process: the only place that does (rule 2).

use crate::{Cause, Deadline, Ended, ProcessId, ProcessTree, Scope};
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// What a process is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// An MCP server.
    Server,
    /// An ACP agent.
    Engine,
    /// A terminal that an agent asked for.
    Terminal,
}

/// What to start.
#[derive(Clone, Debug)]
pub struct Launch {
    /// For the log and the process view; also the start of the tree's id.
    pub name: String,
    /// What it is to us.
    pub role: Role,
    /// A path, or a name that is looked up in the child's `PATH`.
    pub program: OsString,
    /// Arguments, passed byte for byte.
    pub args: Vec<OsString>,
    /// Added to [`crate::environment::for_children`]; wins over it.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory; ours when `None`.
    pub cwd: Option<PathBuf>,
    /// How long the warden waits between TERM and KILL when it acts on its own
    /// (the app is gone, or the program ended and left children).
    pub grace: Duration,
}

/// Why a program could not be started. The message says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No such program.
    #[error("`{program}` was not found in {searched}; install it, or give its full path")]
    NotFound {
        /// The name that was looked for.
        program: String,
        /// The `PATH` that was searched.
        searched: String,
    },
    /// The working directory is not there.
    #[error("the working directory {0} does not exist; create it, or choose another")]
    NoDirectory(PathBuf),
    /// The system refused.
    #[error("`{program}` could not be started: {source}")]
    System {
        /// The program.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Gantry is shutting down and starts nothing any more.
    #[error("Gantry is shutting down and starts no more programs")]
    ShuttingDown,
}

/// A started program and its streams.
#[derive(Debug)]
pub struct Child {
    /// The program and everything it starts.
    pub tree: ProcessTree,
    /// Its standard input; [`ProcessTree::stop`] closes it first.
    pub stdin: Stdin,
    /// Its standard output.
    pub stdout: Stdout,
    /// What it wrote to standard error lately; always drained.
    pub stderr: StderrTail,
}

/// A child's standard input ([`tokio::io::AsyncWrite`]). The tree holds a second handle, so
/// that a stop can close it while somebody is writing.
#[derive(Debug)]
pub struct Stdin {}

/// A child's standard output ([`tokio::io::AsyncRead`]).
#[derive(Debug)]
pub struct Stdout {}

/// The last lines of a child's standard error, bounded. Clones share the tail.
#[derive(Clone, Debug)]
pub struct StderrTail {}

impl StderrTail {
    /// The last `count` lines, oldest first, without line ends.
    pub fn lines(&self, count: usize) -> Vec<String> {
        unimplemented!()
    }
    /// The number of lines seen so far; grows with each line (to follow the log).
    pub fn seen(&self) -> u64 {
        unimplemented!()
    }
}

/// Starts and ends processes for one Gantry instance. Clones are the same supervisor.
#[derive(Clone, Debug)]
pub struct Supervisor {}

impl Supervisor {
    /// `warden` is the path of `gantry-warden`; without it (or where the platform has none)
    /// trees are kept by group, snapshot and cookie alone.
    pub fn new(scope: Scope, warden: Option<PathBuf>) -> Self {
        unimplemented!()
    }

    /// Starts a program in a tree of its own. Returns once the program runs.
    ///
    /// # Errors
    /// See [`LaunchError`].
    pub async fn launch(&self, launch: Launch) -> Result<Child, LaunchError> {
        unimplemented!()
    }

    /// The trees that have a living member.
    pub fn trees(&self) -> Vec<ProcessTree> {
        unimplemented!()
    }

    /// Refuses further launches, then stops all trees at once.
    pub async fn stop_all(&self, cause: Cause, deadline: Deadline) -> Vec<(ProcessTree, Ended)> {
        unimplemented!()
    }

    /// Every living process that bears a cookie of this instance, members of
    /// the trees included. Empty after a complete stop.
    pub fn survivors(&self) -> Vec<ProcessId> {
        unimplemented!()
    }

    /// Kills every survivor without a runtime, in at most `limit`: the last
    /// resort of the shutdown's watchdog thread. Returns what is left.
    pub fn kill_now(&self, limit: Duration) -> Vec<ProcessId> {
        unimplemented!()
    }
}
