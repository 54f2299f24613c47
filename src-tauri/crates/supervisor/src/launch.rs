//! What to start, and what a start gives. [`Supervisor::launch`] does it.

use crate::ProcessTree;
pub use crate::{
    streams::{StderrTail, Stdin, Stdout},
    supervisor::Supervisor,
};
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
    /// Something short that Gantry runs for itself.
    Own,
}

/// What to start.
#[derive(Clone)]
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
    /// (the app is gone, or the program ended and left children). Nothing is left two
    /// seconds after the app was killed if this is at most 1.5 s.
    pub grace: Duration,
}

/// Without arguments and values of the environment: both may be secrets.
impl std::fmt::Debug for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Launch")
            .field("name", &self.name)
            .field("role", &self.role)
            .field("program", &self.program)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// Why a program could not be started. The message says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No such program.
    #[error("`{program}` was not found in {searched}; {}", advice(program))]
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

/// What to do about a program that is not there.
fn advice(program: &str) -> String {
    let base = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let brings = match base.trim_end_matches(".exe").trim_end_matches(".cmd") {
        "node" | "npx" | "npm" => "Node.js (https://nodejs.org), which brings it",
        "uvx" | "uv" => "uv (https://docs.astral.sh/uv), which brings it",
        "python" | "python3" | "pip" => "Python (https://www.python.org), which brings it",
        "pipx" => "pipx (https://pipx.pypa.io)",
        "bun" | "bunx" => "Bun (https://bun.sh), which brings it",
        "deno" => "Deno (https://deno.com)",
        "docker" => "Docker (https://docs.docker.com/get-docker)",
        _ => "it",
    };
    format!("install {brings}, or give its full path")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_where_it_comes_from() {
        let text = |program: &str| {
            let searched = "/usr/bin:/bin".to_owned();
            LaunchError::NotFound { program: program.to_owned(), searched }.to_string()
        };
        assert_eq!(
            text("npx"),
            "`npx` was not found in /usr/bin:/bin; install Node.js (https://nodejs.org), \
             which brings it, or give its full path"
        );
        assert!(text("/opt/uv/uvx").contains("install uv "));
        assert!(text("my-server").ends_with("install it, or give its full path"));
    }
}
