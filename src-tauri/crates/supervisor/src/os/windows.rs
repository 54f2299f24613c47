//! Windows: a child in a Job Object.
//!
//! **Untested**: written without such a machine at hand. The job has kill-on-close, and we hold
//! its only handle: whatever the program started ends when we let go of it, or are killed. What
//! the program starts in the moment before it is in the job is found by its parent and its
//! cookie only.

use super::{Start, Started};
use std::{
    io,
    os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle},
    process::Stdio,
    ptr,
};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
    SetInformationJobObject,
};

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

/// A job with kill-on-close: dropping it ends everybody in it.
#[derive(Debug)]
pub(crate) struct Job {
    _handle: OwnedHandle,
}

impl Job {
    /// Puts a child, and all that it starts from now on, into a job of its own.
    fn around(child: &Child) -> io::Result<Self> {
        // SAFETY: neither attributes nor a name are given, which is allowed.
        let raw = unsafe { CreateJobObjectW(ptr::null(), ptr::null()) };
        if raw.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was created just now, and nobody else closes it.
        let handle = unsafe { OwnedHandle::from_raw_handle(raw) };
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        let size = u32::try_from(size_of_val(&limits)).map_err(io::Error::other)?;
        // SAFETY: the handle is open, and pointer and size are those of `limits`.
        let set = unsafe {
            SetInformationJobObject(
                handle.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size,
            )
        };
        let program = child.raw_handle().ok_or_else(|| io::Error::other("it has ended"))?;
        // SAFETY: both handles are open: the child is not reaped while it is borrowed.
        let done =
            set != 0 && unsafe { AssignProcessToJobObject(handle.as_raw_handle(), program) } != 0;
        if done { Ok(Self { _handle: handle }) } else { Err(io::Error::last_os_error()) }
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
    let job = Job::around(&child)
        .inspect_err(|error| tracing::warn!("no job for a program: {error}"))
        .ok();
    let missing = || io::Error::other("a stream is missing");
    let stdin: ChildStdin = child.stdin.take().ok_or_else(missing)?;
    let stdout: ChildStdout = child.stdout.take().ok_or_else(missing)?;
    let stderr: ChildStderr = child.stderr.take().ok_or_else(missing)?;
    let (stdout, stderr) = (Box::new(stdout), Box::new(stderr));
    Ok((Started { child, stdin, stdout, stderr, control: None, job }, None))
}
