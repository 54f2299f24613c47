//! One upstream server, many clients.
//!
//! A hub outlives the connections (generations) of its server: clients attach
//! once and keep their handle over restarts. Request ids and progress tokens
//! of clients are mapped so that they never meet. `initialize` and `tools/list`
//! are answered from the [`Catalogue`].
//!
//! ```text
//! Client::send ──► from_client ─┐                  ┌─► writer ─► server
//!                               ├─ State (a lock) ─┤
//! server ─► reader ─► from_server                  └─► Outlet of each client
//! ```
//!
//! All decisions are made by [`state::State`], a plain value behind one lock that is
//! never held across an await nor while a client takes a message.

mod connection;
mod from_client;
mod from_server;
mod input;
mod levels;
mod link;
mod listen;
mod modern;
mod rounds;
mod state;
mod waiting;

#[cfg(test)]
mod tests;

pub use listen::{Filter as ListenFilter, acknowledged, last_word, tagged};

use crate::{
    Catalogue, Envelope, ToolFilter,
    frame::{self, INVALID_REQUEST, PARSE_ERROR, UNAVAILABLE},
    headers::Mirrored,
    outlet::{Outlet, ToClient, mailbox},
};
use bytes::Bytes;
use state::{ClientKey, Delivery, Effects, State};
use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, watch},
    time::Instant,
};

/// What a hub is made with.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// The server's name, for messages.
    pub name: String,
    /// Which tools pass.
    pub filter: ToolFilter,
    /// Longest line accepted from the server, bytes (64 MiB is usual).
    pub line_limit: usize,
    /// How long a call waits for a server that is starting before it gets an error that names the state.
    pub start_wait: Duration,
}

/// What the hub knows of its upstream connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No connection. The text says why, for callers (`stopped`, `restarting after exit code 1`).
    Down(String),
    /// Connected, handshake not done.
    Handshake {
        /// Of the connection.
        generation: u64,
    },
    /// Every page of `tools/list` has been answered.
    Ready {
        /// Of the connection.
        generation: u64,
        /// Tools that pass the filter.
        tools: usize,
    },
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disconnected {
    /// Of the connection.
    pub generation: u64,
    /// For people: `closed its output`, `answered initialize with an error: …`.
    pub why: String,
}

/// One upstream server, many clients. Clones are the same hub.
#[derive(Clone)]
pub struct Hub {
    shared: Arc<Shared>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = self.shared.phase.borrow().clone();
        f.debug_struct("Hub")
            .field("name", &self.shared.options.name)
            .field("phase", &phase)
            .finish()
    }
}

/// What all handles of a hub share.
struct Shared {
    options: HubOptions,
    phase: watch::Sender<Phase>,
    /// When the clock looks at what is due; see [`Shared::wind`].
    due: watch::Sender<Option<Instant>>,
    receipts: watch::Sender<u64>,
    /// Why the tools of this connection could not be listed again after they changed.
    fault: watch::Sender<Option<(u64, String)>>,
    /// The sequence number of the phase that was published last.
    published: Mutex<u64>,
    /// The notification that is for the hub's owner alone, and who takes it.
    aside: OnceLock<(&'static str, Aside)>,
    state: Mutex<State>,
    /// What the state decided to deliver and is not delivered yet. Filled under the state's lock
    /// and emptied by one task at a time, so that each client hears things in the order in which
    /// they were decided, whoever decided them.
    outbox: Mutex<VecDeque<Delivery>>,
}

/// Takes a notification for the hub's owner.
type Aside = Box<dyn Fn(&Envelope) + Send + Sync>;

impl Shared {
    /// Hands a notification to the hub's owner, when it is for them.
    fn takes_aside(&self, message: &Envelope) -> bool {
        let Some((method, hear)) = self.aside.get() else { return false };
        let is_it = message.kind() == frame::Kind::Notification && message.method() == *method;
        if is_it {
            hear(message);
        }
        is_it
    }

    /// Lets the state decide, then hands out what came of it.
    fn act<T>(&self, decide: impl FnOnce(&mut State, &mut Effects) -> T) -> T {
        let mut effects = Effects::default();
        let result = self.decide(decide, &mut effects);
        self.hand_out(effects);
        result
    }

    fn decide<T>(
        &self,
        decide: impl FnOnce(&mut State, &mut Effects) -> T,
        effects: &mut Effects,
    ) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = decide(&mut state, effects);
        if !effects.deliveries.is_empty() {
            self.outbox().extend(effects.deliveries.drain(..));
        }
        let due = state.next_due();
        drop(state);
        self.wind(due);
        result
    }

    /// Has the clock look at `due`, or earlier. One that is set to an earlier time is left alone
    /// and finds nothing then: with every call and every answer the next due time is another
    /// one, and to set the clock to each of them would wake it twice a call.
    fn wind(&self, due: Option<Instant>) {
        let Some(due) = due else { return };
        self.due.send_if_modified(|set| {
            let is_earlier = set.is_none_or(|set| due < set);
            if is_earlier {
                *set = Some(due);
            }
            is_earlier
        });
    }

    /// The clock has come to the time that it was set to.
    fn ring(&self) {
        // First: what the state decides from here on sets it anew.
        self.due.send_if_modified(|set| {
            *set = None;
            false
        });
        self.act(|state, effects| state.expire(Instant::now(), effects));
    }

    fn outbox(&self) -> MutexGuard<'_, VecDeque<Delivery>> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_out(&self, mut effects: Effects) {
        if let Some((sequence, phase)) = effects.phase.take() {
            // Not under the state's lock: a watcher may ask the hub something while it
            // looks at the phase. The sequence keeps the order all the same.
            let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
            if sequence > *published {
                *published = sequence;
                self.phase.send_replace(phase);
            }
        }
        if let Some(served) = effects.served.take() {
            served.send_replace(true);
            self.receipts.send_modify(|count| *count += 1);
        }
        let mut gone: Vec<ClientKey> = Vec::new();
        let mut outbox = self.outbox();
        while let Some((key, outlet, message)) = outbox.pop_front() {
            if !gone.contains(&key) && outlet.deliver(message).is_err() {
                gone.push(key);
            }
        }
        drop(outbox);
        for key in gone {
            let server = &self.options.name;
            tracing::warn!(server, "a client does not read its messages and was detached");
            let detach =
                |state: &mut State, _: &mut Effects| state.detach(key, "the client does not read");
            self.decide(detach, &mut Effects::default());
        }
    }
}

impl Hub {
    /// A hub without a connection. Until the first [`Hub::announce_down`] or
    /// [`Hub::connect`] its server counts as starting. Run [`Hub::clock`] beside it.
    pub fn new(options: HubOptions) -> Self {
        let (phase, _) = watch::channel(Phase::Down("starting".into()));
        let state = Mutex::new(State::new(&options));
        let (due, receipts) = (watch::Sender::new(None), watch::Sender::new(0));
        Self {
            shared: Arc::new(Shared {
                options,
                phase,
                due,
                receipts,
                fault: watch::Sender::new(None),
                published: Mutex::default(),
                aside: OnceLock::new(),
                state,
                outbox: Mutex::default(),
            }),
        }
    }

    /// The name from the options.
    pub fn name(&self) -> &str {
        &self.shared.options.name
    }

    /// Whether both are handles of one hub.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Has `hear` take the server's notifications of this name, which no client then sees. The
    /// first one stays. It is called by the task that reads the server: it must not block.
    pub fn set_aside(
        &self,
        method: &'static str,
        hear: impl Fn(&Envelope) + Send + Sync + 'static,
    ) {
        let _ = self.shared.aside.set((method, Box::new(hear)));
    }

    /// Ends the waits of held calls in time. Whoever makes a hub runs this as a
    /// task; it ends when the last handle of the hub is dropped.
    pub fn clock(&self) -> impl Future<Output = ()> + Send + 'static {
        connection::clock(Arc::downgrade(&self.shared), self.shared.due.subscribe())
    }

    /// Takes the streams of a server that was just started. The returned
    /// future does the handshake (`initialize`, `notifications/initialized`,
    /// every page of `tools/list`), then carries messages until the stream ends
    /// or a newer generation connects. Its owner runs it as a task. Calls in
    /// flight at the end get an error that says why; they are never repeated.
    /// The phase is [`Phase::Handshake`] from this call on.
    pub fn connect<R, W>(
        &self,
        generation: u64,
        reader: R,
        writer: W,
    ) -> impl Future<Output = Disconnected> + Send + 'static
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        connection::begin(&self.shared, generation, Box::new(reader), Box::new(writer))
    }

    /// Says that there is no connection, and why; `starting` makes calls wait up to
    /// `start_wait` instead of failing at once. Ends a running [`Hub::connect`].
    pub fn announce_down(&self, why: &str, starting: bool) {
        self.shared.act(|state, effects| state.announce_down(why, starting, effects));
    }

    /// The phase, now and on every change.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.shared.phase.subscribe()
    }

    /// Why the tools of a connection (its generation) could not be listed again after the server
    /// said that they changed: what clients are listed is what was known before. It is tried
    /// again until it can be.
    pub fn fault(&self) -> watch::Receiver<Option<(u64, String)>> {
        self.shared.fault.subscribe()
    }

    /// Resolves when it is known what the server has, or when it is not expected to come.
    pub async fn settled(&self) {
        let is_settled =
            || self.shared.act(|state, _| state.known.is_some() || !state.is_expected());
        // The sender lives in the hub.
        let _ = self.phase().wait_for(|_| is_settled()).await;
    }

    /// Lets other tools pass from the next list and call on; clients are told that the
    /// list changed.
    pub fn set_filter(&self, filter: ToolFilter) {
        self.shared.act(|state, effects| state.set_filter(filter, effects));
    }

    /// How long a client's `tools/call` may take from now on; after that the client gets an
    /// error and the server a cancellation.
    pub fn set_call_limit(&self, limit: Option<Duration>) {
        self.shared.act(|state, _| state.call_limit = limit);
    }

    /// Requests of clients, and calls of our own, that the server has not answered yet.
    pub fn in_flight(&self) -> usize {
        self.shared.act(|state, _| state.calls.values().filter(|call| call.work).count())
    }

    /// What is known of the server; kept over restarts until a new handshake replaces it.
    pub fn catalogue(&self) -> Option<Arc<Catalogue>> {
        self.shared.act(|state, _| state.known.as_ref().map(|known| known.catalogue.clone()))
    }

    /// A new client. `label` names it in the log and in [`Hub::receipt`]. Its receiver is bounded; a
    /// client that does not read is detached.
    pub fn attach(&self, label: &str) -> (Client, mpsc::Receiver<ToClient>) {
        let (sender, receiver) = mailbox();
        (self.attach_to(label, Arc::new(sender)), receiver)
    }

    /// A new client whose messages go to `outlet`, without a channel between.
    pub fn attach_to(&self, label: &str, outlet: Arc<dyn Outlet>) -> Client {
        let served = watch::Sender::new(false);
        let has_tools = served.subscribe();
        let key = self.shared.act(|state, _| state.attach(label, outlet, served));
        Client { shared: self.shared.clone(), key, has_tools }
    }

    /// How many tools were listed last to a client with this label: the receipt.
    /// It outlives the client; the latest few thousand labels are remembered.
    pub fn receipt(&self, label: &str) -> Option<usize> {
        self.shared.act(|state, _| state.receipts.get(label))
    }

    /// Forgets the receipt of a label whose clients are of the past.
    pub fn forget_receipt(&self, label: &str) {
        self.shared.act(|state, _| state.receipts.forget(label));
    }

    /// Changes with every receipt.
    pub fn receipts(&self) -> watch::Receiver<u64> {
        self.shared.receipts.subscribe()
    }

    /// The parameters of a tool that revision 2026-07-28 has repeated in headers.
    pub fn mirrored(&self, tool: &str) -> Option<Arc<[Mirrored]>> {
        self.shared.act(|state, _| state.known.as_ref()?.mirrored.get(tool).cloned())
    }

    /// Asks the server for a `ping`; one that knows none, for `server/discover`.
    ///
    /// # Errors
    /// The reason, when no answer came within `limit`.
    pub async fn ping(&self, limit: Duration) -> Result<Duration, String> {
        let begun = Instant::now();
        let asked = self.shared.act(|state, _| {
            let ping = if state.is_modern_only() { "server/discover" } else { "ping" };
            state.ask(None, ping, None, false)
        })?;
        // An error is an answer too: some servers do not know `ping`, but they live.
        match tokio::time::timeout(limit, connection::answer(&self.shared, asked)).await {
            Ok(Ok(_)) => Ok(begun.elapsed()),
            Ok(Err(why)) => Err(why),
            Err(_) => Err(format!("no answer to a ping within {} ms", limit.as_millis())),
        }
    }

    /// Calls a tool on our own behalf and returns the MCP result, or the JSON-RPC error object as `Err`.
    ///
    /// # Errors
    /// The JSON-RPC error of the server or of the hub.
    pub async fn call_tool(
        &self,
        tool: &str,
        arguments: serde_json::Value,
        limit: Duration,
    ) -> Result<serde_json::Value, serde_json::Value> {
        let refuse = |message: String| {
            let server = self.name();
            serde_json::json!({ "code": UNAVAILABLE, "message": message, "data": { "server": server } })
        };
        if !self.shared.act(|state, _| state.filter.passes(tool)) {
            return Err(state::refusal(self.name(), tool));
        }
        let until = Instant::now() + limit;
        let ready = Instant::now() + self.shared.options.start_wait.min(limit);
        let mut phase = self.phase();
        let waited = async {
            while self.shared.act(|state, _| state.is_starting()) {
                if phase.changed().await.is_err() {
                    break;
                }
            }
        };
        if tokio::time::timeout_at(ready, waited).await.is_err() {
            return Err(refuse(self.shared.act(|state, _| state.why_not_ready())));
        }
        let params = serde_json::json!({ "name": tool, "arguments": arguments }).to_string();
        let asked = self
            .shared
            .act(|state, _| state.ask(None, "tools/call", Some(&params), true))
            .map_err(refuse)?;
        match tokio::time::timeout_at(until, connection::answer(&self.shared, asked)).await {
            Ok(Ok(answer)) => {
                let outcome = serde_json::from_str(answer.outcome().unwrap_or("null"));
                let outcome: serde_json::Value = outcome.map_err(|error| {
                    refuse(format!("the result of `{tool}` cannot be shown: {error}"))
                })?;
                if answer.kind() == frame::Kind::Error { Err(outcome) } else { Ok(outcome) }
            }
            Ok(Err(why)) => Err(refuse(why)),
            Err(_) => Err(refuse(format!(
                "`{tool}` gave no result within {} ms; it was cancelled",
                limit.as_millis()
            ))),
        }
    }
}

/// A client's way to the server. Dropping it detaches: its calls in flight are
/// cancelled upstream (`notifications/cancelled`).
pub struct Client {
    shared: Arc<Shared>,
    key: ClientKey,
    has_tools: watch::Receiver<bool>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = &self.shared.options.name;
        f.debug_struct("Client").field("server", server).field("key", &self.key).finish()
    }
}

impl Client {
    /// Sends one JSON-RPC message (request, notification or response) of the client.
    ///
    /// # Errors
    /// A JSON-RPC error response line for the client when the message is not valid or the hub is full.
    pub fn send(&self, line: Bytes) -> Result<(), Bytes> {
        match Envelope::parse(line.clone()) {
            Ok(message) => self.send_parsed(message),
            Err(why) => {
                let json = serde_json::from_slice::<serde::de::IgnoredAny>(&line).is_ok();
                let code = if json { INVALID_REQUEST } else { PARSE_ERROR };
                Err(frame::error("null", code, &why.to_string(), None).freeze())
            }
        }
    }

    /// The same for a message whose envelope was read already.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub fn send_parsed(&self, message: Envelope) -> Result<(), Bytes> {
        let now = Instant::now();
        self.shared.act(|state, effects| state.take_from_client(self.key, message, now, effects))
    }

    /// Cancels the client's own request as if it had sent `notifications/cancelled`.
    pub fn cancel(&self, request: &str, reason: &str) {
        self.shared.act(|state, effects| {
            let notice = |id| state::cancelled(id, reason);
            state.cancel_with(self.key, request, notice, effects);
        });
    }

    /// Whether `tools/list` was answered to this client: the receipt.
    pub fn has_tools(&self) -> watch::Receiver<bool> {
        self.has_tools.clone()
    }

    /// The hub that this is a client of.
    pub fn hub(&self) -> Hub {
        Hub { shared: self.shared.clone() }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.act(|state, _| state.detach(self.key, "the client went away"));
    }
}

/// A hub that does not keep itself alive.
type WeakShared = Weak<Shared>;
