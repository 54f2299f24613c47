//! Windows: a plain child.
//!
//! **Untested**: written without such a machine at hand. A Job Object with
//! kill-on-close belongs here; until then a tree is what hangs below the program
//! and what bears the cookie.

use super::{Start, Started};
use std::{io, process::Stdio};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

/// Our end of a child's standard input.
pub(crate) type StdinPipe = ChildStdin;
/// Our end of a child's standard output or error.
pub(crate) type OutputPipe = Box<dyn tokio::io::AsyncRead + Send + Sync + Unpin>;
/// There is no control socket.
pub(crate) type ControlReader = tokio::io::Empty;

/// There is no warden.
#[derive(Debug)]
pub(crate) enum Control {}

impl Control {
    /// Cannot be called.
    pub fn say(&self, _order: gantry_warden::words::Order) {
        match *self {}
    }

    /// Cannot be called.
    pub fn hang_up(&self) {
        match *self {}
    }
}

/// Starts a program. Must be called within a runtime.
pub(crate) fn start(start: &Start<'_>) -> io::Result<(Started, Option<ControlReader>)> {
    let mut command = Command::new(start.program);
    command.args(start.args).env_clear().current_dir(start.cwd);
    command.envs(start.env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[expect(clippy::disallowed_methods, reason = "rule 2: the one place that starts a process")]
    let mut child = command.spawn()?;
    let missing = || io::Error::other("a stream is missing");
    let stdin: ChildStdin = child.stdin.take().ok_or_else(missing)?;
    let stdout: ChildStdout = child.stdout.take().ok_or_else(missing)?;
    let stderr: ChildStderr = child.stderr.take().ok_or_else(missing)?;
    let (stdout, stderr) = (Box::new(stdout), Box::new(stderr));
    Ok((Started { child, stdin, stdout, stderr, control: None }, None))
}
