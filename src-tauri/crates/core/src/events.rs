//! The event log: every change, numbered, for every reader.
//!
//! A reader takes a snapshot at sequence *n*, then the events after *n*. One
//! that lags is told so and takes a new snapshot; no event is the only copy of
//! a fact. Each session also has a feed of its own that can be read from its
//! beginning ([`Feed`]).

mod feed;
pub(crate) mod merge;
mod stream;

pub use feed::{Feed, FeedItem, FeedReader};
pub use stream::{EventStream, StreamItem};

use crate::wire::{Event, Happening};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::sync::broadcast;

/// Events that a reader may lag behind before it is told to take a new snapshot.
const READER_CAPACITY: usize = 4096;

/// The event log of an instance. Clones are the same log.
#[derive(Clone, Debug)]
pub struct Events {
    inner: Arc<Mutex<Log>>,
}

struct Log {
    /// What the numbers of this run are greater than.
    base: u64,
    seq: u64,
    readers: broadcast::Sender<Arc<Event>>,
    feeds: HashMap<String, Feed>,
    observers: Vec<Observer>,
}

/// Sees each event as it happens.
type Observer = Box<dyn Fn(&Event) + Send + Sync>;

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("seq", &self.seq)
            .field("feeds", &self.feeds.len())
            .field("observers", &self.observers.len())
            .finish_non_exhaustive()
    }
}

impl Default for Events {
    fn default() -> Self {
        Self::new()
    }
}

impl Events {
    /// An empty log, whose numbers begin with 1.
    pub fn new() -> Self {
        Self::after(0)
    }

    /// An empty log of a run: its numbers are greater than those of every earlier run, so that
    /// a reader that comes back with an old one can be told.
    pub fn of_this_run() -> Self {
        // Below 2^53, which is what JavaScript can count to.
        Self::after(u64::try_from(now()).unwrap_or_default().saturating_mul(1000))
    }

    fn after(base: u64) -> Self {
        let (readers, _) = broadcast::channel(READER_CAPACITY);
        let log = Log { base, seq: base, readers, feeds: HashMap::new(), observers: Vec::new() };
        Self { inner: Arc::new(Mutex::new(log)) }
    }

    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an event and returns its number.
    pub fn publish(&self, what: Happening) -> u64 {
        self.publish_all([what])
    }

    /// Appends events one after the other, with nothing between them, and returns the number
    /// of the last. Neighbours of one session reach its feed together.
    pub fn publish_all(&self, happenings: impl IntoIterator<Item = Happening>) -> u64 {
        let at = now();
        let mut log = self.log();
        let mut together: Vec<Arc<Event>> = Vec::new();
        for what in happenings {
            log.seq += 1;
            let event = Arc::new(Event { seq: log.seq, at, what });
            for observer in &log.observers {
                observer(&event);
            }
            let session = session_of(&event.what);
            if together.first().is_some_and(|first| session_of(&first.what) != session) {
                log.feed(&mut together);
            }
            if session.is_some() {
                together.push(event.clone());
            } else if let Happening::SessionRemoved { id } = &event.what
                && let Some(feed) = log.feeds.remove(id)
            {
                feed.close();
            }
            // Nobody listening is fine: the log is not the only copy of a fact.
            let _ = log.readers.send(event);
        }
        log.feed(&mut together);
        log.seq
    }

    /// The number of the newest event.
    pub fn seq(&self) -> u64 {
        self.log().seq
    }

    /// A reader of all events from now on, and the number of the last event before them.
    pub fn subscribe(&self) -> (u64, broadcast::Receiver<Arc<Event>>) {
        let log = self.log();
        (log.seq, log.readers.subscribe())
    }

    /// Shows `observer` every event from now on, in order and without a gap, which no reader
    /// has: one that cannot follow misses some. It is called while the log is locked, so it must
    /// be done at once and must not come back here.
    pub fn observe(&self, observer: impl Fn(&Event) + Send + Sync + 'static) {
        self.log().observers.push(Box::new(observer));
    }

    /// Reads a session's feed from the event after number `after` (0: from the first one kept).
    /// A number of another run is no place in it: the reader is told so, and starts over.
    pub fn read(&self, session: &str, after: u64) -> FeedReader {
        let mut log = self.log();
        let is_ours = after == 0 || (log.base..=log.seq).contains(&after);
        let feed = log.feeds.entry(session.to_owned()).or_default();
        if is_ours { feed.read(after) } else { feed.read_anew() }
    }

    /// The feed of one session, kept from its first event in this run.
    pub fn feed(&self, session: &str) -> Feed {
        self.log().feeds.entry(session.to_owned()).or_default().clone()
    }
}

impl Log {
    /// Hands events of one session to its feed.
    fn feed(&mut self, events: &mut Vec<Arc<Event>>) {
        let Some(session) = events.first().and_then(|event| session_of(&event.what)) else {
            return;
        };
        if !self.feeds.contains_key(session) {
            self.feeds.insert(session.to_owned(), Feed::default());
        }
        if let Some(feed) = self.feeds.get(session) {
            feed.push(std::mem::take(events));
        }
    }
}

/// The session whose feed an event belongs to.
fn session_of(what: &Happening) -> Option<&str> {
    match what {
        Happening::TurnStarted { session, .. }
        | Happening::Update { session, .. }
        | Happening::PermissionRequested { session, .. }
        | Happening::PermissionResolved { session, .. }
        | Happening::QuestionAsked { session, .. }
        | Happening::QuestionAnswered { session, .. }
        | Happening::QuestionCompleted { session, .. }
        | Happening::TurnEnded { session, .. } => Some(session),
        _ => None,
    }
}

/// Milliseconds since the Unix epoch.
pub fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |span| i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
}
