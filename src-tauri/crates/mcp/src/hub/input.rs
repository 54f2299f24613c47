//! The way to a server's input: a queue that is bounded for what clients ask, with room besides
//! for what must not get lost. A server that lets even that run over is given up.

use crate::{Meter, frame};
use bytes::{Bytes, BytesMut};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Requests and notifications of clients that wait to be written; beyond that it does not read.
const MOST: usize = 1024;
/// The same in bytes.
const MOST_BYTES: usize = 128 * 1024 * 1024;
/// What must not get lost, in bytes with [`LINE`] for each: a hundred thousand subscriptions.
const MOST_OWED: usize = 32 * 1024 * 1024;
/// What a line that waits takes besides its bytes.
const LINE: usize = 128;

/// The sending end.
#[derive(Clone, Debug)]
pub(super) struct ServerInput {
    queue: mpsc::UnboundedSender<Line>,
    /// How many of clients wait.
    waiting: Arc<AtomicUsize>,
    meter: Meter,
    /// How much waits that must not get lost.
    owed: Arc<AtomicUsize>,
    glut: CancellationToken,
}

/// A line that waits to be written.
#[derive(Debug)]
pub(super) struct Line {
    pub bytes: Bytes,
    /// Other calls are open, so that more may come at any moment.
    pub in_company: bool,
    _place: Place,
}

/// What a line counts for, until it is dropped.
#[derive(Debug)]
struct Place {
    count: Arc<AtomicUsize>,
    amount: usize,
}

impl Place {
    fn take(count: &Arc<AtomicUsize>, amount: usize) -> Self {
        count.fetch_add(amount, Ordering::Relaxed);
        Self { count: count.clone(), amount }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.count.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

/// A queue, its reading end, which hands the lines on in their order, and what says that the
/// server does not read.
pub(super) fn server_input() -> (ServerInput, mpsc::UnboundedReceiver<Line>, CancellationToken) {
    let (queue, lines) = mpsc::unbounded_channel();
    let glut = CancellationToken::new();
    let meter = Meter::new(MOST_BYTES);
    let (waiting, owed) = Default::default();
    (ServerInput { queue, waiting, meter, owed, glut: glut.clone() }, lines, glut)
}

impl ServerInput {
    /// Takes what somebody asked for; `false` when there is no room, or no server.
    pub fn offer(&self, message: BytesMut, in_company: bool) -> bool {
        if self.waiting.load(Ordering::Relaxed) >= MOST {
            return false;
        }
        let Ok(bytes) = self.meter.admit(frame::to_line(message)) else { return false };
        let place = Place::take(&self.waiting, 1);
        self.queue.send(Line { bytes, in_company, _place: place }).is_ok()
    }

    /// Takes what belongs to something that was taken before (a cancellation, a subscription of
    /// a client that is there); `false` when there is no server. One that has let
    /// [`MOST_OWED`] of it wait is none any more.
    pub fn push(&self, message: BytesMut) -> bool {
        let bytes = frame::to_line(message);
        if self.owed.load(Ordering::Relaxed) > MOST_OWED {
            self.glut.cancel();
            return false;
        }
        let place = Place::take(&self.owed, bytes.len() + LINE);
        self.queue.send(Line { bytes, in_company: false, _place: place }).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_ask_is_bounded_and_the_rest_has_room_besides() {
        let (input, mut lines, glut) = server_input();
        let line = |text: &str| BytesMut::from(text.as_bytes());
        for _ in 0..MOST {
            assert!(input.offer(line("asked"), true));
        }
        assert!(!input.offer(line("one too many"), true));
        assert!(input.push(line("cancelled")));
        drop(lines.try_recv());
        assert!(input.offer(line("last"), true));
        let rest: Vec<Bytes> =
            std::iter::from_fn(|| lines.try_recv().ok()).map(|line| line.bytes).collect();
        assert_eq!(rest.len(), MOST + 1);
        assert_eq!((&rest[MOST - 1][..], &rest[MOST][..]), (&b"cancelled\n"[..], &b"last\n"[..]));
        let mut count = 0;
        while !glut.is_cancelled() {
            input.push(line("told"));
            count += 1;
        }
        assert!(count > 100_000 && !input.push(line("told")));
        while lines.try_recv().is_ok() {}
        assert!(input.offer(line("asked"), true) && input.push(line("told")));
        drop(lines);
        assert!(!input.offer(line("gone"), true) && !input.push(line("gone")));
    }
}
