//! Everything a hub knows, and the decisions that concern no message.

use super::{
    HubOptions, Phase,
    input::ServerInput,
    listen::{Filter, too_many_resources},
    rounds::{Asking, Round},
};
use crate::{
    Envelope, ToolFilter,
    catalogue::Known,
    frame::{self, INTERNAL_ERROR, INVALID_PARAMS, UNAVAILABLE},
    modern::{self, Context},
    outlet::{Outlet, ToClient},
};
use bytes::{Bytes, BytesMut};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{Notify, oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// How long the first question for a list waits when nothing is known: agents give a
/// server about a second before they run their turn without it.
pub(super) const FIRST_LIST_WAIT: Duration = Duration::from_millis(800);
/// Calls that wait for the server to come up.
pub(super) const HELD_CALLS: usize = 1024;
/// Bytes in calls that wait.
pub(super) const HELD_BYTES: usize = 64 * 1024 * 1024;
/// Requests of clients that a server may leave unanswered, and its own that clients may.
pub(super) const OPEN_REQUESTS: usize = 16 * 1024;
/// Resources that one client may want to hear of.
pub(super) const RESOURCES: usize = 4096;
/// Progress tokens remembered after their call was answered (a task goes on).
const RETIRED_TOKENS: usize = 1024;
/// Labels of which the receipt is remembered.
const RECEIPTS: usize = 4096;

/// A client of this hub; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ClientKey(pub u64);

/// A message for a client, and where it goes.
pub(super) type Delivery = (ClientKey, Arc<dyn Outlet>, ToClient);

/// What is to be done once the lock is released.
#[derive(Default)]
pub(super) struct Effects {
    pub deliveries: Vec<Delivery>,
    pub phase: Option<(u64, Phase)>,
    pub served: Option<watch::Sender<bool>>,
}

/// The connection, or why there is none.
pub(super) enum Link {
    Down { why: String, starting: bool },
    Up(Upstream),
}

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speech {
    /// It was initialised. Whether it takes requests of revision 2026-07-28 besides is found
    /// out when the first client comes with one.
    Initialized { modern: Option<bool> },
    /// It knows no `initialize`: every request is one of revision 2026-07-28.
    Modern,
}

/// Our own `subscriptions/listen` at a server that knows no `initialize`.
pub(super) struct Listening {
    pub id: u64,
    pub resources: BTreeSet<String>,
}

pub(super) struct Upstream {
    pub generation: u64,
    pub ready: bool,
    pub speech: Speech,
    pub listening: Option<Listening>,
    pub input: ServerInput,
    /// Ends the future that carries this connection.
    pub stop: CancellationToken,
    /// Asks that future to fetch the tools again.
    pub refetch: Arc<Notify>,
}

pub(super) struct Attached {
    pub label: String,
    pub outlet: Arc<dyn Outlet>,
    pub served: watch::Sender<bool>,
    /// What the client can do: `roots`, `sampling`, `elicitation`.
    pub abilities: HashSet<String>,
    pub initialized: bool,
    /// It was told more capabilities than the server may have, as nothing was known.
    pub guessed: bool,
    /// It has been told a list of tools.
    pub listed: bool,
    /// Index into [`LEVELS`].
    pub level: Option<usize>,
    pub subscriptions: HashSet<String>,
    /// What it declared in `initialize`, raw: `capabilities`, `clientInfo`.
    pub declared: (Option<String>, Option<String>),
    /// Its `subscriptions/listen`, by raw id.
    pub listens: BTreeMap<String, Filter>,
    /// Its calls in flight: raw id → ours.
    pub calls: HashMap<String, u64>,
}

impl Attached {
    /// How many resources it wants to hear of.
    pub fn resources(&self) -> usize {
        let listened = self.listens.values().map(|filter| filter.resources.len()).sum::<usize>();
        self.subscriptions.len() + listened
    }

    /// Notes that it wants to hear of a resource; whether it did not before.
    ///
    /// # Errors
    /// It wants to hear of too many.
    pub fn subscribe(&mut self, uri: &str) -> Result<bool, String> {
        if self.subscriptions.contains(uri) {
            return Ok(false);
        }
        if self.resources() >= RESOURCES {
            return Err(too_many_resources());
        }
        Ok(self.subscriptions.insert(uri.to_owned()))
    }

    /// Whether a request of its with this id (raw) has no answer yet.
    pub fn is_busy_with(&self, id: &str) -> bool {
        self.calls.contains_key(id) || self.listens.contains_key(id)
    }
}

pub(super) enum Caller {
    Client {
        key: ClientKey,
        id: String,
    },
    Own(oneshot::Sender<Envelope>),
    /// Ours: does the server take requests of revision 2026-07-28?
    Probe,
    /// Ours: see [`Listening`].
    Listen,
}

pub(super) struct Call {
    pub caller: Caller,
    /// The client's own progress token, raw.
    pub token: Option<String>,
    /// It does the user's work, so that questions of the server may belong to it.
    pub work: bool,
    /// The resource that it subscribes to; taken back when the server refuses.
    pub subscribes: Option<String>,
    /// When a tool has had long enough.
    pub due: Option<Due>,
    /// What its answer needs before its client takes it.
    pub answer: Answer,
}

/// The end of what a tool may take.
pub(super) struct Due {
    pub at: Instant,
    pub limit: Duration,
    pub tool: String,
}

/// How the two sides of a call differ.
pub(super) enum Answer {
    /// Not at all.
    AsItIs,
    /// The client is of revision 2026-07-28, the server is not.
    ForModern(ForModern),
    /// The other way round.
    ForInitialized(Box<Round>),
    /// Both are of revision 2026-07-28, and from this severity on the client wants the log.
    Logged(Option<usize>),
}

/// A call of a client of revision 2026-07-28 at an older server.
pub(super) struct ForModern {
    pub cacheable: bool,
    pub is_tool: bool,
    pub context: Context,
    /// What the server asked of the client in the middle of it, which this client cannot be asked.
    pub refused: Option<String>,
}

impl Call {
    /// A request of our own.
    pub fn own(caller: Caller, work: bool) -> Self {
        Self { caller, token: None, work, subscribes: None, due: None, answer: Answer::AsItIs }
    }

    /// From which severity on it wants the log, for a call of revision 2026-07-28; the inner
    /// `None`: not at all.
    pub fn log_level(&self) -> Option<Option<usize>> {
        match &self.answer {
            Answer::ForModern(modern) => Some(modern.context.log_level),
            Answer::Logged(level) => Some(*level),
            Answer::AsItIs | Answer::ForInitialized(_) => None,
        }
    }
}

/// A request of the server that a client is to answer.
pub(super) struct Asked {
    pub key: ClientKey,
    /// The server's id, raw.
    pub id: String,
    pub concerning: Option<String>,
    /// The call that waits for this answer among others, and what the server calls the question.
    pub round: Option<(u64, String)>,
}

/// A client's request that waits for the server.
pub(super) struct Held {
    pub key: ClientKey,
    pub message: Envelope,
    pub until: Instant,
}

pub(super) struct Receipts {
    counts: HashMap<String, usize>,
    order: VecDeque<String>,
}

impl Receipts {
    pub fn get(&self, label: &str) -> Option<usize> {
        self.counts.get(label).copied()
    }

    pub fn forget(&mut self, label: &str) {
        if self.counts.remove(label).is_some() {
            self.order.retain(|known| known != label);
        }
    }

    pub fn set(&mut self, label: &str, tools: usize) {
        if self.counts.insert(label.to_owned(), tools).is_none() {
            self.order.push_back(label.to_owned());
        }
        while self.order.len() > RECEIPTS {
            if let Some(oldest) = self.order.pop_front() {
                self.counts.remove(&oldest);
            }
        }
    }
}

pub(super) struct State {
    pub name: String,
    pub filter: ToolFilter,
    pub start_wait: Duration,
    /// How long a tool may take.
    pub call_limit: Option<Duration>,
    pub link: Link,
    /// The newest generation that ever connected.
    pub newest: Option<u64>,
    pub known: Option<Known>,
    pub clients: BTreeMap<ClientKey, Attached>,
    pub calls: BTreeMap<u64, Call>,
    pub retired: VecDeque<(u64, ClientKey, String)>,
    pub asked: HashMap<u64, Asked>,
    /// Calls that wait for their client's answers.
    pub asking: BTreeMap<u64, Asking>,
    pub held: VecDeque<Held>,
    pub receipts: Receipts,
    /// A `tools/list_changed` that waits until the tools have been fetched again.
    pub change: Option<Bytes>,
    /// The server asked for roots when no client had any.
    pub roots_wanted: bool,
    /// Whose roots changed: the server's next question for roots is meant for it.
    pub roots_news: Option<ClientKey>,
    /// The severity that the server was told; index into [`LEVELS`].
    pub told_level: Option<usize>,
    next: u64,
    sequence: u64,
}

/// The JSON-RPC error object for a tool that is switched off.
pub(super) fn refusal(server: &str, tool: &str) -> serde_json::Value {
    json!({
        "code": INVALID_PARAMS,
        "message": format!("the tool `{tool}` of the server `{server}` is switched off in its tool filter"),
        "data": { "server": server, "tool": tool },
    })
}

/// Tells the server that one of our requests is of no use any more.
pub(super) fn cancelled(id: u64, reason: &str) -> BytesMut {
    let params = json!({ "requestId": id, "reason": reason }).to_string();
    frame::notification("notifications/cancelled", Some(&params))
}

impl State {
    pub fn new(options: &HubOptions) -> Self {
        Self {
            name: options.name.clone(),
            filter: options.filter.clone(),
            start_wait: options.start_wait,
            call_limit: None,
            link: Link::Down { why: "starting".into(), starting: true },
            newest: None,
            known: None,
            clients: BTreeMap::new(),
            calls: BTreeMap::new(),
            retired: VecDeque::new(),
            asked: HashMap::new(),
            asking: BTreeMap::new(),
            held: VecDeque::new(),
            receipts: Receipts { counts: HashMap::new(), order: VecDeque::new() },
            change: None,
            roots_wanted: false,
            roots_news: None,
            told_level: None,
            next: 1,
            sequence: 0,
        }
    }

    pub fn fresh_id(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    pub fn set_phase(&mut self, phase: Phase, effects: &mut Effects) {
        self.sequence += 1;
        effects.phase = Some((self.sequence, phase));
    }

    pub fn tool_count(&self) -> usize {
        self.known.as_ref().map_or(0, |known| known.catalogue.tools.len())
    }

    /// Whether it is worth waiting: there is no usable connection yet, but one is on its way.
    pub fn is_starting(&self) -> bool {
        match &self.link {
            Link::Down { starting, .. } => *starting,
            Link::Up(upstream) => !upstream.ready,
        }
    }

    pub fn why_not_ready(&self) -> String {
        let name = &self.name;
        match &self.link {
            Link::Down { why, starting: true } => {
                format!("the server `{name}` is not ready yet: {why}; try again shortly")
            }
            Link::Down { why, starting: false } => {
                format!("the server `{name}` is not running: {why}")
            }
            Link::Up(upstream) if !upstream.ready => {
                format!(
                    "the server `{name}` is starting and has not listed its tools yet; try again shortly"
                )
            }
            Link::Up(_) => {
                format!("the server `{name}` takes no more messages now; try again shortly")
            }
        }
    }

    /// An error of the hub about the server's state.
    pub fn unavailable(&self, id: &str, why: &str) -> BytesMut {
        let message = self.why_not_ready();
        frame::error(id, UNAVAILABLE, &message, Some(json!({ "server": self.name, "reason": why })))
    }

    /// How the present server is spoken to.
    pub fn speech(&self) -> Option<Speech> {
        match &self.link {
            Link::Up(upstream) => Some(upstream.speech),
            Link::Down { .. } => None,
        }
    }

    /// Whether the present server knows no `initialize`.
    pub fn is_modern_only(&self) -> bool {
        self.speech() == Some(Speech::Modern)
    }

    // Our own requests.

    /// Sends a request of our own. With a generation only on that connection, else only
    /// on one that is ready.
    pub fn ask(
        &mut self,
        generation: Option<u64>,
        method: &str,
        params: Option<&str>,
        work: bool,
    ) -> Result<(u64, oneshot::Receiver<Envelope>), String> {
        let usable = match (&self.link, generation) {
            (Link::Up(upstream), Some(generation)) => upstream.generation == generation,
            (Link::Up(upstream), None) => upstream.ready,
            (Link::Down { .. }, _) => false,
        };
        if !usable {
            return Err(self.why_not_ready());
        }
        let id = self.fresh_id();
        let message = self.own_request(id, method, params);
        // What somebody wants done waits like the calls of clients.
        let is_taken = message.is_some_and(|message| match work {
            true => self.calls.len() < OPEN_REQUESTS && self.write(message),
            false => self.push(message),
        });
        if !is_taken {
            return Err(self.why_not_ready());
        }
        let (sender, receiver) = oneshot::channel();
        self.calls.insert(id, Call::own(Caller::Own(sender), work));
        Ok((id, receiver))
    }

    /// A request whose answer nobody needs.
    pub fn tell(&mut self, method: &str, params: &str) {
        let id = self.fresh_id();
        self.write_own(id, method, Some(params));
    }

    /// Forgets a call of ours and tells the server.
    pub fn abandon(&mut self, id: u64, reason: &str) {
        if self.calls.remove(&id).is_some() {
            self.push(cancelled(id, reason));
        }
    }

    /// Writes a request of our own in the way that the server understands.
    pub fn write_own(&mut self, id: u64, method: &str, params: Option<&str>) -> bool {
        self.own_request(id, method, params).is_some_and(|message| self.push(message))
    }

    fn own_request(&self, id: u64, method: &str, params: Option<&str>) -> Option<BytesMut> {
        if !self.is_modern_only() {
            return Some(frame::request(id, method, params));
        }
        let meta = format!(r#""_meta":{}"#, modern::own_meta());
        let params = params.unwrap_or("{}");
        let (at, piece) = frame::insertion(params, &meta)?;
        let params = format!("{}{piece}{}", &params[..at], &params[at..]);
        Some(frame::request(id, method, Some(&params)))
    }

    /// Hands a message to the writer; `false` when it is full or gone.
    pub fn write(&mut self, message: BytesMut) -> bool {
        let in_company = self.calls.values().any(|call| call.work);
        self.input().is_some_and(|input| input.offer(message, in_company))
    }

    /// The same for what belongs to something that was taken before; see [`ServerInput::push`].
    pub fn push(&mut self, message: BytesMut) -> bool {
        self.input().is_some_and(|input| input.push(message))
    }

    fn input(&self) -> Option<&ServerInput> {
        match &self.link {
            Link::Up(Upstream { input, .. }) => Some(input),
            Link::Down { .. } => None,
        }
    }

    // The clients.

    pub fn attach(
        &mut self,
        label: &str,
        outlet: Arc<dyn Outlet>,
        served: watch::Sender<bool>,
    ) -> ClientKey {
        let key = ClientKey(self.fresh_id());
        let client = Attached {
            label: label.to_owned(),
            outlet,
            served,
            abilities: HashSet::new(),
            initialized: false,
            guessed: false,
            listed: false,
            level: None,
            subscriptions: HashSet::new(),
            declared: (None, None),
            listens: BTreeMap::new(),
            calls: HashMap::new(),
        };
        self.clients.insert(key, client);
        key
    }

    /// The client is gone: nothing of it stays, here or in the server.
    pub fn detach(&mut self, key: ClientKey, why: &str) {
        let Some(client) = self.clients.remove(&key) else { return };
        for id in client.calls.into_values() {
            self.drop_round(id);
            self.abandon(id, why);
        }
        self.held.retain(|held| held.key != key);
        if client.level.is_some() {
            self.level_again();
        }
        self.retired.retain(|(_, owner, _)| *owner != key);
        let open: Vec<u64> = self
            .asked
            .iter()
            .filter(|(_, asked)| asked.key == key)
            .map(|(ours, _)| *ours)
            .collect();
        for ours in open {
            if let Some(asked) = self.asked.remove(&ours).filter(|asked| asked.round.is_none()) {
                self.push(frame::error(&asked.id, INTERNAL_ERROR, why, None));
            }
        }
        let listened = client.listens.into_values().flat_map(|filter| filter.resources);
        self.unneeded(client.subscriptions.into_iter().chain(listened).collect());
    }

    pub fn deliver(
        &self,
        key: ClientKey,
        line: Bytes,
        concerning: Option<String>,
        last: bool,
        effects: &mut Effects,
    ) {
        if let Some(client) = self.clients.get(&key) {
            let message = ToClient { line, concerning, last };
            effects.deliveries.push((key, client.outlet.clone(), message));
        }
    }

    pub fn broadcast(&self, line: &Bytes, effects: &mut Effects) {
        for (key, client) in &self.clients {
            if client.initialized {
                self.deliver(*key, line.clone(), None, false, effects);
            }
        }
    }

    pub fn retire(&mut self, id: u64, key: ClientKey, token: String) {
        if self.retired.len() >= RETIRED_TOKENS {
            self.retired.pop_front();
        }
        self.retired.push_back((id, key, token));
    }
}
