//! The way to a server's input: a queue that is bounded for what clients ask, with room besides
//! for what must not get lost.

use crate::{Meter, frame};
use bytes::{Bytes, BytesMut};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::mpsc;

/// Requests and notifications of clients that wait to be written; beyond that it does not read.
const MOST: usize = 1024;
/// The same in bytes.
const MOST_BYTES: usize = 128 * 1024 * 1024;

/// The sending end.
#[derive(Clone, Debug)]
pub(super) struct ServerInput {
    queue: mpsc::UnboundedSender<Line>,
    /// How many of clients wait.
    waiting: Arc<AtomicUsize>,
    meter: Meter,
}

/// A line that waits to be written.
#[derive(Debug)]
pub(super) struct Line {
    pub bytes: Bytes,
    /// Other calls are open, so that more may come at any moment.
    pub in_company: bool,
    _place: Option<Place>,
}

/// A place among those that are counted, until it is dropped.
#[derive(Debug)]
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A queue and its reading end, which hands the lines on in their order.
pub(super) fn server_input() -> (ServerInput, mpsc::UnboundedReceiver<Line>) {
    let (queue, lines) = mpsc::unbounded_channel();
    (ServerInput { queue, waiting: Arc::default(), meter: Meter::new(MOST_BYTES) }, lines)
}

impl ServerInput {
    /// Takes what somebody asked for; `false` when there is no room, or no server.
    pub fn offer(&self, message: BytesMut, in_company: bool) -> bool {
        if self.waiting.load(Ordering::Relaxed) >= MOST {
            return false;
        }
        let Ok(bytes) = self.meter.admit(frame::to_line(message)) else { return false };
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let place = Some(Place(self.waiting.clone()));
        self.queue.send(Line { bytes, in_company, _place: place }).is_ok()
    }

    /// Takes what belongs to something that was taken before (a cancellation, a subscription of
    /// a client that is there), whose number is bounded by that; `false` when there is no server.
    pub fn push(&self, message: BytesMut) -> bool {
        let bytes = frame::to_line(message);
        self.queue.send(Line { bytes, in_company: false, _place: None }).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_ask_is_bounded_and_the_rest_has_room_besides() {
        let (input, mut lines) = server_input();
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
        drop(lines);
        assert!(!input.offer(line("gone"), true) && !input.push(line("gone")));
    }
}
