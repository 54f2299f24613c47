//! The warden's end of the control socket.

use gantry_warden::words::{Order, Report};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    io::{Errno, read},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send},
    stdio,
};
use std::{
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    process::ExitCode,
};

/// The socket, and the part of a line that has arrived so far.
pub struct Control {
    socket: Option<OwnedFd>,
    pending: Vec<u8>,
}

impl Control {
    /// Takes standard input, and from it the program's standard input, which is
    /// sent ahead of everything else.
    pub fn from_standard_input() -> io::Result<(Self, OwnedFd)> {
        let socket = rustix::io::fcntl_dupfd_cloexec(stdio::stdin(), 3)?;
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        recvmsg(
            &socket,
            &mut [IoSliceMut::new(&mut byte)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let input = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        let input = input.ok_or_else(|| io::Error::other("no standard input came with it"))?;
        Ok((Self { socket: Some(socket), pending: Vec::new() }, input))
    }

    /// What to poll; `None` once the app is gone.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Tells the app. If it is gone, or so busy that the socket is full, nobody is told:
    /// the warden waits for nobody.
    pub fn say(&mut self, report: &Report) {
        if let Some(socket) = &self.socket {
            let line = format!("{report}\n");
            let _ = send(socket, line.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }

    /// Tells the app that the program did not start.
    pub fn refuse(&mut self, error: &io::Error) -> ExitCode {
        let errno = error.raw_os_error().unwrap_or(0);
        self.say(&Report::Refused { errno, text: error.to_string() });
        ExitCode::from(127)
    }

    /// The orders that have arrived; call it when the socket is readable. After the
    /// end of the socket [`Control::fd`] is `None`.
    pub fn orders(&mut self) -> Vec<Order> {
        let Some(socket) = &self.socket else { return Vec::new() };
        let mut buffer = [0; 256];
        match read(socket, &mut buffer) {
            Ok(0) => self.socket = None,
            Ok(length) => self.pending.extend_from_slice(&buffer[..length]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.socket = None,
        }
        let mut orders = Vec::new();
        while let Some(end) = self.pending.iter().position(|&b| b == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            // A word that we do not know is a newer app's; what we know still holds.
            orders.extend(
                std::str::from_utf8(&line).ok().and_then(|l| l.trim_end().parse::<Order>().ok()),
            );
        }
        orders
    }
}
