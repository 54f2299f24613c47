//! Where messages for a client go, within bounds.

use bytes::Bytes;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::mpsc;

/// A message for a client.
#[derive(Clone, Debug)]
pub struct ToClient {
    /// One JSON-RPC message, no line end, ids as the client knows them.
    pub line: Bytes,
    /// The client's own request (its `id` as raw JSON) that this belongs to: its
    /// response, or progress, logging and requests sent on its behalf. `None`
    /// goes to the general stream.
    pub concerning: Option<String>,
    /// Whether this is the response that ends `concerning`.
    pub last: bool,
}

/// The client does not read: it is to be detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Takes the messages for one client. Called in the order in which they were decided, from the task that reads
/// the server or from a [`Client::send`](crate::Client::send), never under the hub's lock; it must
/// neither block nor call back into the hub.
pub trait Outlet: Send + Sync + 'static {
    /// Takes one message.
    ///
    /// # Errors
    /// [`Full`] detaches the client.
    fn deliver(&self, message: ToClient) -> Result<(), Full>;
}

/// Messages a mailbox holds.
pub const MAILBOX_MESSAGES: usize = 16 * 1024;
/// Bytes a mailbox holds in large messages.
pub const MAILBOX_BYTES: usize = 128 * 1024 * 1024;
/// Below this a message is bounded by the count alone.
const SMALL: usize = 1024;

/// Counts the bytes that wait for one reader. Clones count together.
#[derive(Clone, Debug)]
pub struct Meter {
    used: Arc<AtomicUsize>,
    limit: usize,
}

struct Metered {
    line: Bytes,
    used: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Metered {
    fn as_ref(&self) -> &[u8] {
        &self.line
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        self.used.fetch_sub(self.line.len(), Ordering::Relaxed);
    }
}

impl Meter {
    /// A meter that admits `limit` bytes at a time.
    pub fn new(limit: usize) -> Self {
        Self { used: Arc::default(), limit }
    }

    /// The line, counted until its last clone is dropped.
    ///
    /// # Errors
    /// [`Full`] when it does not fit; a line that is alone always fits.
    pub fn admit(&self, line: Bytes) -> Result<Bytes, Full> {
        if line.len() < SMALL {
            return Ok(line);
        }
        let size = line.len();
        let before = self.used.fetch_add(size, Ordering::Relaxed);
        if before > 0 && before + size > self.limit {
            self.used.fetch_sub(size, Ordering::Relaxed);
            return Err(Full);
        }
        Ok(Bytes::from_owner(Metered { line, used: self.used.clone() }))
    }
}

/// The sending end of a bounded channel with a byte limit.
#[derive(Debug)]
pub struct Mailbox {
    sender: mpsc::Sender<ToClient>,
    meter: Meter,
}

/// A bounded channel for one client.
pub fn mailbox() -> (Mailbox, mpsc::Receiver<ToClient>) {
    let (sender, receiver) = mpsc::channel(MAILBOX_MESSAGES);
    (Mailbox { sender, meter: Meter::new(MAILBOX_BYTES) }, receiver)
}

impl Outlet for Mailbox {
    fn deliver(&self, mut message: ToClient) -> Result<(), Full> {
        message.line = self.meter.admit(message.line)?;
        self.sender.try_send(message).map_err(|_| Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_counts_until_the_last_clone_is_dropped() {
        let meter = Meter::new(100_000);
        let line = Bytes::from(vec![b'x'; 60_000]);
        let first = meter.admit(line.clone()).expect("fits");
        let clone = first.clone();
        assert_eq!(meter.admit(line.clone()), Err(Full));
        drop(first);
        assert_eq!(meter.admit(line.clone()), Err(Full));
        drop(clone);
        let alone = meter.admit(Bytes::from(vec![b'x'; 1_000_000])).expect("alone it fits");
        drop(alone);
        assert_eq!(meter.used.load(Ordering::Relaxed), 0);
    }
}
