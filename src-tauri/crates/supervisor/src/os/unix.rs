//! Every Unix: pipes of our own around a child, and on Linux the warden's socket.
//!
//! Nothing runs between fork and exec, so the standard library may use
//! `posix_spawn`, which does not copy the page tables of a large program; the
//! program's standard input reaches the warden over its control socket instead.

use super::{Start, Started};
use rustix::{
    fd::{AsFd, OwnedFd},
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown},
};
use std::{
    io::{self, IoSlice, PipeReader, PipeWriter},
    mem::MaybeUninit,
    os::unix::net::UnixStream,
    process::Stdio,
};
use tokio::{net::unix::pipe, process::Command};

/// Neither waits nor raises SIGPIPE (which Apple has no flag for, and the standard library
/// ignores anyway).
#[cfg(not(target_vendor = "apple"))]
const QUIETLY: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
#[cfg(target_vendor = "apple")]
const QUIETLY: SendFlags = SendFlags::DONTWAIT;

/// Our end of a child's standard input.
pub(crate) type StdinPipe = pipe::Sender;
/// Our end of a child's standard output or error.
pub(crate) type OutputPipe = pipe::Receiver;
/// The reading half of the control socket.
pub(crate) type ControlReader = tokio::net::UnixStream;

/// There is no such thing here: a warden or a reaper ends a tree when we cannot.
#[derive(Debug)]
pub(crate) enum Job {}

/// Our end of a warden's control socket. Dropping it, and the reader, ends the tree.
#[derive(Debug)]
pub(crate) struct Control(OwnedFd);

impl Control {
    fn new(socket: &UnixStream) -> io::Result<Self> {
        Ok(Self(socket.try_clone()?.into()))
    }

    /// Says a line. Never blocks: the socket holds hundreds of lines, and whoever
    /// reads so slowly is past listening.
    pub fn say(&self, order: gantry_warden::words::Order) {
        // An error means that the warden is gone, which its keeper sees.
        let _ = rustix::net::send(&self.0, format!("{order}\n").as_bytes(), QUIETLY);
    }

    /// What the warden sees when we die: the end of the socket.
    pub fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.0, Shutdown::Write);
    }
}

/// Starts a program, or its warden. Must be called within a runtime.
pub(crate) fn start(start: &Start<'_>) -> io::Result<(Started, Option<ControlReader>)> {
    let (input, stdin) = io::pipe()?;
    let (stdout, output) = io::pipe()?;
    let (stderr, error) = io::pipe()?;
    let (mut command, control) = match &start.warden {
        Some((warden, grace)) => {
            let (ours, theirs) = UnixStream::pair()?;
            send_ahead(&ours, input)?;
            let mut command = Command::new(warden);
            command.arg(grace.as_millis().to_string()).arg(start.program);
            command.stdin(Stdio::from(OwnedFd::from(theirs)));
            (command, Some(ours))
        }
        None => {
            let mut command = Command::new(start.program);
            command.stdin(Stdio::from(input));
            (command, None)
        }
    };
    command.args(start.args).env_clear().current_dir(start.cwd).process_group(0);
    command.envs(start.env.iter().map(|(name, value)| (name, value)));
    command.stdout(Stdio::from(output)).stderr(Stdio::from(error));
    let streams = Streams::new(stdin, stdout, stderr)?;
    let (control, reader) = match control {
        Some(socket) => {
            let control = Control::new(&socket)?;
            socket.set_nonblocking(true)?;
            (Some(control), Some(ControlReader::from_std(socket)?))
        }
        None => (None, None),
    };
    #[expect(clippy::disallowed_methods, reason = "rule 2: the one place that starts a process")]
    let child = command.spawn()?;
    let Streams { stdin, stdout, stderr } = streams;
    Ok((Started { child, stdin, stdout, stderr, control, job: None }, reader))
}

/// Our ends, made ready before the start so that nothing can fail after it.
struct Streams {
    stdin: StdinPipe,
    stdout: OutputPipe,
    stderr: OutputPipe,
}

impl Streams {
    fn new(stdin: PipeWriter, stdout: PipeReader, stderr: PipeReader) -> io::Result<Self> {
        Ok(Self {
            stdin: pipe::Sender::from_owned_fd(stdin.into())?,
            stdout: pipe::Receiver::from_owned_fd(stdout.into())?,
            stderr: pipe::Receiver::from_owned_fd(stderr.into())?,
        })
    }
}

/// Puts one byte with the program's standard input into the socket.
fn send_ahead(socket: &UnixStream, input: PipeReader) -> io::Result<()> {
    let fds = [input.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    rustix::net::sendmsg(socket, &[IoSlice::new(b"i")], &mut ancillary, SendFlags::empty())?;
    Ok(())
}
