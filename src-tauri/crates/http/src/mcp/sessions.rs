//! All MCP sessions, and when they end.

use super::{
    Endpoint,
    session::Session,
    unread::{Cut, Lane, Unread},
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// An idle session ends after this long.
const IDLE: Duration = Duration::from_secs(24 * 60 * 60);
/// Beyond so many idle ones the least recently used ends.
const MOST_IDLE: usize = 2000;
/// Between two looks for sessions that were idle too long.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// All MCP sessions of all servers. Clones are the same table.
#[derive(Clone, Default)]
pub struct Sessions {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    table: Mutex<Table>,
    unread: Unread,
    closed: AtomicBool,
}

#[derive(Default)]
struct Table {
    sessions: HashMap<String, Arc<Session>>,
    /// Requests without a session, while they last.
    visits: HashMap<u64, Guest>,
    next: u64,
    swept: Option<Instant>,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("open", &self.count()).finish_non_exhaustive()
    }
}

impl Sessions {
    /// No sessions.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.table().sessions.len()
    }

    /// How many have a request without a response. One without a session counts as one.
    pub fn working(&self) -> usize {
        let table = self.table();
        let sessions = table.sessions.values().filter(|session| session.is_working()).count();
        sessions + table.visits.values().filter(|guest| !guest.only_listens).count()
    }

    /// Shutdown, first half: nothing new is accepted (503) and the streams that end with
    /// nothing else end; requests that run keep their connection.
    pub fn drain(&self) {
        self.inner.closed.store(true, Ordering::Release);
        let table = self.table();
        for session in table.sessions.values() {
            session.end_streams();
        }
        table.end_visits(|guest| guest.only_listens);
    }

    /// Shutdown, second half: every session and every connection ends.
    pub fn close(&self) {
        self.drain();
        let sessions = {
            let mut table = self.table();
            table.end_visits(|_| true);
            std::mem::take(&mut table.sessions)
        };
        for session in sessions.values() {
            session.end();
        }
    }

    /// The way to a connection.
    pub(super) fn lane(&self, cut: Cut) -> Lane {
        self.inner.unread.lane(cut)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::Acquire)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.inner.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new session. Others that were idle too long end on this occasion.
    pub(super) fn begin(&self, server: &str, endpoint: &Endpoint) -> Arc<Session> {
        let owner = endpoint.session.clone();
        let session = Arc::new(Session::new(random_id(), server, owner, &endpoint.hub));
        let ended = {
            let mut table = self.table();
            table.sessions.insert(session.id().to_owned(), session.clone());
            table.sweep(session.id())
        };
        // Outside the lock: the end of a session is told to its hub.
        drop(ended);
        session
    }

    /// A new session, for a test that only counts them.
    #[cfg(test)]
    pub(crate) fn begin_one(&self, server: &str, endpoint: &Endpoint) {
        drop(self.begin(server, endpoint));
    }

    /// The session with this id, if it is one of this server and of this token's owner.
    pub(super) fn find(&self, id: &str, server: &str, endpoint: &Endpoint) -> Option<Arc<Session>> {
        let (found, ended) = {
            let mut table = self.table();
            (table.sessions.get(id).cloned(), table.sweep(id))
        };
        drop(ended);
        let found = found?;
        if found.server != server || found.owner != endpoint.session {
            return None;
        }
        if !found.client.hub().is_same(&endpoint.hub) {
            // The server was replaced: another process, another state. The client is to begin anew.
            self.end(id);
            return None;
        }
        found.touch();
        Some(found)
    }

    /// Ends those of a Gantry session that was over at `seen`: its agent is gone, or has left it,
    /// and will say so to nobody. What began later belongs to a new life of that session.
    pub fn end_of(&self, owner: &str, seen: Instant) {
        let ended: Vec<_> = {
            let mut table = self.table();
            table.end_visits(|guest| guest.owner.as_deref() == Some(owner) && guest.begun <= seen);
            let is_its = |session: &Session| {
                session.owner.as_deref() == Some(owner) && session.begun <= seen
            };
            table.sessions.extract_if(|_, session| is_its(session)).collect()
        };
        for (_, session) in ended {
            session.end();
        }
    }

    /// The Gantry sessions that have some.
    pub fn owners(&self) -> BTreeSet<String> {
        let table = self.table();
        let visits = table.visits.values().filter_map(|guest| guest.owner.clone());
        let sessions = table.sessions.values().filter_map(|session| session.owner.clone());
        visits.chain(sessions).collect()
    }

    pub(super) fn end(&self, id: &str) {
        let ended = self.table().sessions.remove(id);
        if let Some(session) = ended {
            session.end();
        }
    }
}

/// A request without a session.
struct Guest {
    owner: Option<String>,
    begun: Instant,
    /// It waits for nothing but news.
    only_listens: bool,
    ended: CancellationToken,
}

/// Held as long as a request without a session lasts.
pub(super) struct Visit {
    sessions: Sessions,
    number: u64,
    ended: CancellationToken,
}

impl Visit {
    /// Resolves when it is to end by our wish.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.sessions.table().visits.remove(&self.number);
    }
}

impl Sessions {
    /// Notes a request without a session; `owner` is the Gantry session of its token.
    pub(super) fn enter(&self, owner: Option<String>, only_listens: bool) -> Visit {
        let ended = CancellationToken::new();
        let begun = Instant::now();
        let guest = Guest { owner, begun, only_listens, ended: ended.clone() };
        let mut table = self.table();
        table.next += 1;
        let number = table.next;
        table.visits.insert(number, guest);
        drop(table);
        if only_listens && self.is_closed() {
            // It came between the two halves of the end.
            ended.cancel();
        }
        Visit { sessions: self.clone(), number, ended }
    }
}

impl Table {
    fn end_visits(&self, which: impl Fn(&Guest) -> bool) {
        for guest in self.visits.values().filter(|guest| which(guest)) {
            guest.ended.cancel();
        }
    }

    /// Takes out what has been idle too long, and the least recently used of too many idle
    /// ones; never `keep`.
    fn sweep(&mut self, keep: &str) -> Vec<Arc<Session>> {
        let now = Instant::now();
        let due = self.swept.is_none_or(|swept| now - swept >= SWEEP_EVERY);
        if !due && self.sessions.len() <= MOST_IDLE {
            return Vec::new();
        }
        self.swept = Some(now);
        let mut idle: Vec<(Instant, String)> = self
            .sessions
            .values()
            .filter(|session| session.id() != keep)
            .filter_map(|session| Some((session.idle_since()?, session.id().to_owned())))
            .collect();
        idle.sort();
        let too_many = idle.len().saturating_sub(MOST_IDLE);
        let ends = idle
            .into_iter()
            .enumerate()
            .filter(|(index, (since, _))| *index < too_many || now - *since >= IDLE);
        ends.filter_map(|(_, (_, id))| self.sessions.remove(&id)).collect()
    }
}

/// 128 random bits in hexadecimal: an id is not to be guessed.
fn random_id() -> String {
    let mut bits = [0_u8; 16];
    // Without randomness from the system nothing here is safe; it does not fail on any
    // system that we run on.
    getrandom::fill(&mut bits).expect("the system has a source of randomness");
    bits.iter().map(|byte| format!("{byte:02x}")).collect()
}
