//! What clients leave unread, all together: bounded, whoever they are and however many.
//!
//! Each client has a bound of its own; a hundred that do not read would be a hundred times that.
//! Beyond [`TOTAL`] the connections of those that have read nothing for a while end, the ones with
//! the most first, and with a connection goes what waits for it, also in the system's buffers.

use bytes::Bytes;
use gantry_mcp::{Full, Mailbox, Outlet, ToClient};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Bytes that may wait for clients that do not read.
const TOTAL: usize = 64 * 1024 * 1024;
/// Bytes that may wait at all: several clients may be in the middle of a large answer each.
const MOST: usize = 192 * 1024 * 1024;
/// Who has taken no message for so long does not read.
const STALLED: Duration = Duration::from_secs(10);
/// Below this a message is bounded by the count of its queue alone.
const SMALL: usize = 1024;
/// After so many bytes were let go of, the memory is given back.
const GIVEN_BACK: usize = 32 * 1024 * 1024;
/// As long as more than this waits, more will be let go of soon.
const NEARLY_NOTHING: usize = 1024 * 1024;

/// Ends the one connection that it belongs to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cut(CancellationToken);

impl Cut {
    fn end(&self) {
        self.0.cancel();
    }

    /// Resolves when the connection is to end at once.
    pub async fn ended(&self) {
        self.0.cancelled().await;
    }
}

/// The bytes that wait for clients. Clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct Unread(Arc<Mutex<Ledger>>);

#[derive(Debug, Default)]
struct Ledger {
    total: usize,
    /// Since memory was given back last.
    let_go: usize,
    next: u64,
    /// Connections for which something waits.
    waiting: HashMap<u64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    bytes: usize,
    /// When it took something last, or something came to wait for it.
    since: Instant,
    cut: Cut,
}

impl Ledger {
    /// Makes room for `size` more bytes: the connections that end for it.
    fn make_room(&mut self, size: usize, now: Instant) -> Vec<Cut> {
        let mut ended = Vec::new();
        while self.total > 0 && self.total + size > TOTAL {
            let must = self.total + size > MOST;
            let stalled = self
                .waiting
                .iter()
                .filter(|(_, waiting)| now - waiting.since >= STALLED)
                .max_by_key(|(_, waiting)| waiting.bytes);
            let largest = || self.waiting.iter().max_by_key(|(_, waiting)| waiting.bytes);
            let chosen = stalled.or_else(|| largest().filter(|_| must)).map(|(number, _)| *number);
            let Some(chosen) = chosen.and_then(|number| self.waiting.remove(&number)) else {
                break;
            };
            self.total -= chosen.bytes;
            ended.push(chosen.cut);
        }
        ended
    }
}

impl Unread {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The way to one connection.
    pub fn lane(&self, cut: Cut) -> Lane {
        let mut ledger = self.ledger();
        ledger.next += 1;
        Lane { unread: self.clone(), number: ledger.next, cut }
    }
}

/// The way to one connection. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    unread: Unread,
    number: u64,
    cut: Cut,
}

impl Lane {
    /// The line, counted until its last clone is dropped.
    ///
    /// # Errors
    /// [`Full`]: the connection was ended, as its client does not read.
    pub fn admit(&self, line: Bytes) -> Result<Bytes, Full> {
        let size = line.len();
        if size < SMALL {
            return Ok(line);
        }
        let now = Instant::now();
        let ended = {
            let mut ledger = self.unread.ledger();
            let ended = ledger.make_room(size, now);
            for cut in &ended {
                cut.end();
            }
            if self.cut.0.is_cancelled() {
                return Err(Full);
            }
            ledger.total += size;
            let new = || Waiting { bytes: 0, since: now, cut: self.cut.clone() };
            ledger.waiting.entry(self.number).or_insert_with(new).bytes += size;
            ended.len()
        };
        if ended > 0 {
            tracing::warn!(ended, "connections of clients that do not read were ended");
        }
        let counted = Counted { line, unread: self.unread.clone(), number: self.number };
        Ok(Bytes::from_owner(counted))
    }

    /// Ends the connection at once, with everything that waits for it.
    pub fn end(&self) {
        self.cut.end();
    }
}

struct Counted {
    line: Bytes,
    unread: Unread,
    number: u64,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.line
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let size = self.line.len();
        // Freed before the memory is given back.
        self.line = Bytes::new();
        let mut ledger = self.unread.ledger();
        if let Some(waiting) = ledger.waiting.get_mut(&self.number) {
            waiting.bytes = waiting.bytes.saturating_sub(size);
            waiting.since = Instant::now();
            if waiting.bytes == 0 {
                ledger.waiting.remove(&self.number);
            }
            ledger.total = ledger.total.saturating_sub(size);
        }
        ledger.let_go += size;
        let is_due = ledger.let_go >= GIVEN_BACK && ledger.total <= NEARLY_NOTHING;
        if is_due {
            ledger.let_go = 0;
        }
        drop(ledger);
        if is_due {
            give_back();
        }
    }
}

/// Gives free memory back to the system. Many small pieces that were freed stay with the
/// program otherwise: the allocator gives back what is at an end of its areas only.
fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointer and may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The messages for one request, on the connection that made it.
pub(super) struct Mail {
    pub mailbox: Mailbox,
    pub lane: Lane,
}

impl Outlet for Mail {
    fn deliver(&self, mut message: ToClient) -> Result<(), Full> {
        message.line = self.lane.admit(message.line)?;
        self.mailbox.deliver(message).inspect_err(|Full| self.lane.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(mebibytes: usize) -> Bytes {
        Bytes::from(vec![b'x'; mebibytes << 20])
    }

    fn lanes(unread: &Unread) -> [Lane; 3] {
        [(); 3].map(|()| unread.lane(Cut::default()))
    }

    fn ended(lane: &Lane) -> bool {
        lane.cut.0.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_makes_room_for_the_others() {
        let unread = Unread::default();
        let [silent, other, reader] = lanes(&unread);
        let kept = [silent.admit(line(40)).expect("room"), other.admit(line(10)).expect("room")];
        // It reads: what comes is taken.
        drop(reader.admit(line(10)).expect("room"));
        tokio::time::advance(STALLED).await;
        let answer = reader.admit(line(20)).expect("room is made");
        assert!(ended(&silent) && !ended(&other) && !ended(&reader));
        assert_eq!(silent.admit(line(1)), Err(Full), "its connection is gone");
        assert_eq!(unread.ledger().total, 30 << 20);
        // What an ended one held is not counted twice when it goes.
        drop((kept, answer));
        let ledger = unread.ledger();
        assert_eq!((ledger.total, ledger.waiting.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn many_may_be_in_the_middle_of_a_large_answer_but_not_without_a_bound() {
        let unread = Unread::default();
        let [a, b, c] = lanes(&unread);
        let mut kept = vec![a.admit(line(60)).expect("alone"), b.admit(line(60)).expect("new")];
        kept.push(c.admit(line(60)).expect("new"));
        assert!(![&a, &b, &c].into_iter().any(ended));
        kept.push(a.admit(line(10)).expect("new"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(a.admit(line(20)), Err(Full), "the one with the most");
        assert!(ended(&a) && !ended(&b) && !ended(&c));
        assert_eq!(unread.ledger().total, 120 << 20);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_alone_is_bounded_by_its_own_limit() {
        let unread = Unread::default();
        let lane = unread.lane(Cut::default());
        let first = lane.admit(line(100)).expect("alone it fits");
        let clone = first.clone();
        drop(first);
        assert_eq!(unread.ledger().total, 100 << 20);
        drop(clone);
        tokio::time::advance(STALLED).await;
        drop(lane.admit(line(100)).expect("nothing waits"));
        assert!(!ended(&lane));
    }
}
