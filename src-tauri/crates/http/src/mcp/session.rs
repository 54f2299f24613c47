//! One MCP session: which message goes to which open connection of its client.

use super::unread::Lane;
use gantry_mcp::{Client, Full, Hub, Meter, Outlet, ToClient, outlet};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{sync::mpsc, time::Instant};

/// Messages kept for a client that has no stream open now.
const BACKLOG: usize = 256;
/// The same in bytes: most clients never open one.
const BACKLOG_BYTES: usize = 1024 * 1024;

/// One MCP session of one client with one server.
pub(super) struct Session {
    id: String,
    pub server: String,
    /// The Gantry session of the token that opened it.
    pub owner: Option<String>,
    pub begun: Instant,
    pub client: Client,
    switch: Arc<Switch>,
}

/// Where the messages of the hub go on to.
struct Switch {
    meter: Meter,
    lines: Mutex<Connections>,
}

struct Connections {
    /// Requests without a response yet, by raw id. `None`: the connection is gone, which in
    /// these revisions does not cancel the request.
    requests: HashMap<String, Option<Connection>>,
    /// Streams for everything else, newest last.
    streams: Vec<Connection>,
    backlog: VecDeque<ToClient>,
    used: Instant,
    /// Nothing is delivered any more; a request that comes just now must not wait for ever.
    ended: bool,
}

/// Why a session does not take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// A request with this id is running.
    InUse,
    /// The session has ended.
    Ended,
}

impl Switch {
    fn lines(&self) -> MutexGuard<'_, Connections> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outlet for Switch {
    fn deliver(&self, mut message: ToClient) -> Result<(), Full> {
        let Ok(line) = self.meter.admit(message.line) else {
            // The client leaves too much unread. Its connections end, the session stays.
            let mut lines = self.lines();
            lines.connections().for_each(|connection| connection.lane.end());
            lines.hang_up();
            return Ok(());
        };
        message.line = line;
        self.lines().deliver(message);
        Ok(())
    }
}

impl Connections {
    fn deliver(&mut self, message: ToClient) {
        if let Some(id) = &message.concerning {
            if message.last {
                self.used = Instant::now();
                if let Some(Some(connection)) = self.requests.remove(id) {
                    // A connection that is gone or does not read loses its answer; the
                    // protocol offers no other place for it.
                    let _ = connection.try_send(message);
                }
                return;
            }
            if let Some(Some(connection)) = self.requests.get(id) {
                match connection.try_send(message) {
                    Ok(()) => {}
                    Err(mpsc::error::TrySendError::Closed(message)) => {
                        self.requests.insert(id_of(&message), None);
                        self.general(message);
                    }
                    Err(mpsc::error::TrySendError::Full(message)) => {
                        tracing::warn!(
                            "a client does not read the stream of its request; it was ended"
                        );
                        self.requests.insert(id_of(&message), None);
                    }
                }
                return;
            }
        }
        self.general(message);
    }

    /// To exactly one stream: a message must not appear on two.
    fn general(&mut self, mut message: ToClient) {
        while let Some(stream) = self.streams.last() {
            match stream.try_send(message) {
                Ok(()) => return,
                Err(error) => {
                    message = error.into_inner();
                    self.streams.pop();
                }
            }
        }
        if self.backlog.iter().any(|kept| kept.line == message.line) {
            return;
        }
        self.backlog.push_back(message);
        let bytes = |backlog: &VecDeque<ToClient>| -> usize {
            backlog.iter().map(|kept| kept.line.len()).sum()
        };
        while self.backlog.len() > BACKLOG
            || (self.backlog.len() > 1 && bytes(&self.backlog) > BACKLOG_BYTES)
        {
            self.backlog.pop_front();
        }
    }

    fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.streams.iter().chain(self.requests.values().flatten())
    }

    fn hang_up(&mut self) {
        self.streams.clear();
        self.backlog.clear();
        for connection in self.requests.values_mut() {
            *connection = None;
        }
    }

    fn is_busy(&mut self) -> bool {
        self.streams.retain(|stream| !stream.is_closed());
        !self.streams.is_empty() || !self.requests.is_empty()
    }
}

fn id_of(message: &ToClient) -> String {
    message.concerning.clone().unwrap_or_default()
}

/// The sending end of one connection's queue.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    queue: mpsc::Sender<ToClient>,
    lane: Lane,
}

impl Connection {
    /// Queues a message, when there is room for it.
    pub fn try_send(&self, message: ToClient) -> Result<(), mpsc::error::TrySendError<ToClient>> {
        use mpsc::error::TrySendError::{Closed, Full};
        let whole = message.line.clone();
        // Counted for this connection only if it is this one that takes it.
        let uncounted = |message| ToClient { line: whole, ..message };
        match self.lane.admit(message.line.clone()) {
            Ok(line) => {
                let sent = self.queue.try_send(ToClient { line, ..message });
                sent.map_err(|error| match error {
                    Full(message) => Full(uncounted(message)),
                    Closed(message) => Closed(uncounted(message)),
                })
            }
            Err(_) => Err(Full(message)),
        }
    }

    fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

pub(super) fn connection(lane: &Lane) -> (Connection, mpsc::Receiver<ToClient>) {
    let (queue, receiver) = mpsc::channel(outlet::MAILBOX_MESSAGES);
    (Connection { queue, lane: lane.clone() }, receiver)
}

impl Session {
    pub fn new(id: String, server: &str, owner: Option<String>, hub: &Hub) -> Self {
        let (requests, streams, backlog) = (HashMap::new(), Vec::new(), VecDeque::new());
        let lines = Connections { requests, streams, backlog, used: Instant::now(), ended: false };
        let meter = Meter::new(outlet::MAILBOX_BYTES);
        let switch = Arc::new(Switch { meter, lines: Mutex::new(lines) });
        let label = owner.as_deref().unwrap_or("mcp");
        let client = hub.attach_to(label, switch.clone());
        let (server, begun) = (server.to_owned(), Instant::now());
        Self { id, server, owner, begun, client, switch }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// What belongs to the request `id` goes to this connection from now on.
    ///
    /// # Errors
    /// Why it does not.
    pub fn expect(&self, id: &str, connection: &Connection) -> Result<(), NotTaken> {
        let mut lines = self.switch.lines();
        lines.used = Instant::now();
        if lines.ended {
            return Err(NotTaken::Ended);
        }
        if lines.requests.contains_key(id) {
            return Err(NotTaken::InUse);
        }
        lines.requests.insert(id.to_owned(), Some(connection.clone()));
        Ok(())
    }

    /// The request `id` was not taken.
    pub fn forget(&self, id: &str) {
        self.switch.lines().requests.remove(id);
    }

    /// A stream for what concerns no request, beginning with what waited for one.
    pub fn open_stream(&self, lane: &Lane) -> mpsc::Receiver<ToClient> {
        let (sender, receiver) = connection(lane);
        let mut lines = self.switch.lines();
        lines.used = Instant::now();
        for message in std::mem::take(&mut lines.backlog) {
            // Its queue is longer than the backlog.
            let _ = sender.try_send(message);
        }
        lines.streams.retain(|stream| !stream.is_closed());
        if !lines.ended {
            lines.streams.push(sender);
        }
        receiver
    }

    /// Notes that the client used it.
    pub fn touch(&self) {
        self.switch.lines().used = Instant::now();
    }

    /// Since when it has been idle; `None` when a request is running or a stream is open.
    pub fn idle_since(&self) -> Option<Instant> {
        let mut lines = self.switch.lines();
        if lines.is_busy() {
            lines.used = Instant::now();
            return None;
        }
        Some(lines.used)
    }

    /// Whether a request has no response yet.
    pub fn is_working(&self) -> bool {
        !self.switch.lines().requests.is_empty()
    }

    /// Ends the streams that end with nothing else.
    pub fn end_streams(&self) {
        self.switch.lines().streams.clear();
    }

    /// Ends every connection, now and in future.
    pub fn end(&self) {
        let mut lines = self.switch.lines();
        lines.ended = true;
        lines.hang_up();
    }
}
