//! Several servers as one: whose is what, and under which name.
//!
//! Every server has a hub of its own; this is one client of each of them. Requests that
//! belong to one server go there as they are, only a name that two servers share
//! is changed back; lists are put together; answers and notifications pass.

mod modern;

use super::{
    front::{Front, Requests},
    merge::{self, List, Table},
    shutdown::Gate,
    stdio::Output,
    upstream::START_WAIT,
};
use gantry_mcp::{
    Client, Envelope, Full, Hub, Kind, Outlet, ToClient,
    frame::{self, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND},
    hub::ListenFilter,
    revision,
};
use gantry_supervisor::Scope;
use serde_json::{Value, json, value::RawValue};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};
use tokio::sync::oneshot;

/// Pages of one list of one server; more is taken for endless.
const PAGES: usize = 1000;
/// Resource not found, as the revisions with `initialize` say it.
const RESOURCE_NOT_FOUND: i64 = -32002;

const CAPABILITIES: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"logging":{},"completions":{}}"#;

struct Member {
    name: String,
    client: OnceLock<Client>,
}

/// Several servers as one. Clones are the same.
#[derive(Clone)]
pub struct Aggregate {
    inner: Arc<Inner>,
}

struct Inner {
    members: Vec<Member>,
    output: Output,
    requests: Requests,
    scope: Scope,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Our own requests to members, by raw id.
    own: HashMap<String, oneshot::Sender<Envelope>>,
    /// What members asked of the client: our id → whose it is and its id there.
    asked: HashMap<u64, (usize, String)>,
    tables: HashMap<List, Arc<Table>>,
    /// Every name that a table had, and whose it was then. A name that two servers share is
    /// changed when the second one comes; who was listed the old one may still use it.
    listed: HashMap<(List, String), (usize, String)>,
    /// Subscriptions and calls that were routed: raw id → member, to find it for a cancel.
    routed: HashMap<String, usize>,
    /// Requests that were cancelled before it was known whose they are.
    cancelled: HashSet<String>,
    /// Whether the client has used `initialize`, and hears what belongs to no request of its.
    initialized: bool,
    /// Whether the members have been, be it for us alone.
    watched: bool,
    /// `subscriptions/listen` of the client, by raw id.
    listens: HashMap<String, ListenFilter>,
    /// Resources that the client subscribed to the older way.
    subscribed: HashSet<String>,
}

struct FromMember {
    aggregate: Weak<Inner>,
    index: usize,
}

impl Outlet for FromMember {
    fn deliver(&self, message: ToClient) -> Result<(), Full> {
        match self.aggregate.upgrade() {
            Some(inner) => inner.take_from_member(self.index, message),
            None => Err(Full),
        }
    }
}

impl Aggregate {
    /// `scope` owns the tasks that put lists together.
    pub fn new(hubs: &[Hub], output: Output, gate: Gate, scope: Scope) -> Self {
        let member = |hub: &Hub| Member { name: hub.name().to_owned(), client: OnceLock::new() };
        let inner = Arc::new(Inner {
            members: hubs.iter().map(member).collect(),
            output,
            requests: Requests::new(gate),
            scope,
            state: Mutex::default(),
        });
        for (index, (member, hub)) in inner.members.iter().zip(hubs).enumerate() {
            let outlet = FromMember { aggregate: Arc::downgrade(&inner), index };
            // Set once, here.
            let _ = member.client.set(hub.attach_to("stdio", Arc::new(outlet)));
        }
        Self { inner }
    }
}

impl Front for Aggregate {
    fn take(&self, message: Envelope) {
        match message.kind() {
            Kind::Request => self.request(message),
            Kind::Notification => self.inner.notification(&message),
            Kind::Result | Kind::Error => self.inner.answer(&message),
        }
    }
}

impl Aggregate {
    fn request(&self, message: Envelope) {
        let inner = &self.inner;
        if let Err(line) = inner.requests.begin(&message) {
            // A client that does not read is noticed elsewhere.
            let _ = inner.output.send(line);
            return;
        }
        let id = message.id().unwrap_or("null");
        // A cancel may have come too late for a request that had this id before.
        inner.state().cancelled.remove(id);
        if modern::is_modern(&message) {
            return self.modern_request(message);
        }
        match message.method() {
            "initialize" => {
                let line = inner.initialize(&message);
                inner.reply(id, line);
            }
            "ping" => inner.reply(id, frame::result(id, "{}")),
            "logging/setLevel" => {
                let params = message.params().unwrap_or("{}");
                for index in 0..inner.members.len() {
                    // A server without logs refuses, which concerns nobody.
                    drop(inner.ask(index, "logging/setLevel", params));
                }
                inner.reply(id, frame::result(id, "{}"));
            }
            // Without a word of the revision it is none of 2026-07-28: as every hub answers it.
            "server/discover" => {
                inner.refuse(id, METHOD_NOT_FOUND, "Method not found: server/discover")
            }
            method => match List::of_list_method(method) {
                Some(list) => self.in_background(message, move |inner, message| async move {
                    let table = inner.table(list).await;
                    let id = message.id().unwrap_or("null");
                    inner.reply(id, frame::result(id, &table.result));
                }),
                None => self.route(message),
            },
        }
    }

    fn in_background<F>(
        &self,
        message: Envelope,
        work: impl FnOnce(Arc<Inner>, Envelope) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let inner = self.inner.clone();
        let name = message.method().to_owned();
        let id = message.id().unwrap_or("null").to_owned();
        let work = async move {
            let _answered = AnsweredIfPanicked { inner: inner.clone(), id };
            work(inner, message).await;
        };
        // Dropping the handle does not end the task.
        drop(self.inner.scope.spawn(name, work));
    }

    /// A request for one of the servers. Without a table it has to be made first.
    fn route(&self, message: Envelope) {
        let Some((list, _)) = named(&message) else {
            let (id, method) = (message.id().unwrap_or("null"), message.method());
            let why = format!("Method not found: {method}");
            return self.inner.refuse(id, METHOD_NOT_FOUND, &why);
        };
        let known = self.inner.state().tables.get(&list).cloned();
        match known {
            Some(table) if self.inner.forward(&message, list, &table) => {}
            _ => self.in_background(message, move |inner, message| async move {
                let table = inner.table(list).await;
                if inner.forward(&message, list, &table) {
                    return;
                }
                // It may belong to one that is still starting.
                inner.settled().await;
                let table = inner.table(list).await;
                if !inner.forward(&message, list, &table)
                    && !inner.forward_as_listed(&message, list)
                {
                    inner.unknown(&message).await;
                }
            }),
        }
    }
}

/// A request whose work panics would otherwise run for ever, and hold up our end.
struct AnsweredIfPanicked {
    inner: Arc<Inner>,
    id: String,
}

impl Drop for AnsweredIfPanicked {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.inner.refuse(&self.id, INTERNAL_ERROR, "it failed inside; this is a bug");
        }
    }
}

/// What a request names, and in which list that is.
fn named(message: &Envelope) -> Option<(List, &str)> {
    let (list, path): (_, &[&str]) = match message.method() {
        "tools/call" => (List::Tools, &["name"]),
        "prompts/get" => (List::Prompts, &["name"]),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
            (List::Resources, &["uri"])
        }
        "completion/complete" => match message.param(&["ref", "name"]) {
            Some(_) => (List::Prompts, &["ref", "name"]),
            None => (List::Templates, &["ref", "uri"]),
        },
        _ => return None,
    };
    Some((list, message.param(path)?))
}

/// Who answers for all of them.
fn info() -> Value {
    json!({ "name": "gantry", "title": "Gantry", "version": env!("CARGO_PKG_VERSION") })
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reply(&self, id: &str, line: bytes::BytesMut) {
        if self.state().cancelled.remove(id) {
            // Nobody waits for it any more.
            return self.requests.end(id);
        }
        // A client that does not read is noticed elsewhere.
        let _ = self.requests.answer(id, line.freeze(), &self.output);
    }

    fn refuse(&self, id: &str, code: i64, why: &str) {
        self.reply(id, frame::error(id, code, why, None));
    }

    fn initialize(self: &Arc<Self>, message: &Envelope) -> bytes::BytesMut {
        self.state().initialized = true;
        // What the client can do is for each hub to know.
        self.watch(message.params().unwrap_or("{}"));
        let asked = message.param(&["protocolVersion"]).and_then(frame::string).unwrap_or_default();
        let version = revision::negotiate(&asked);
        let info = info();
        let result = format!(
            r#"{{"protocolVersion":"{version}","capabilities":{CAPABILITIES},"serverInfo":{info}}}"#
        );
        frame::result(message.id().unwrap_or("null"), &result)
    }

    /// Initialises the members; their hubs answer at once by themselves.
    fn watch(&self, params: &str) {
        self.state().watched = true;
        for index in 0..self.members.len() {
            drop(self.ask(index, "initialize", params));
            self.send(index, frame::notification("notifications/initialized", None));
        }
    }

    fn notification(self: &Arc<Self>, message: &Envelope) {
        let request = message.param(&["requestId"]).unwrap_or_default();
        if message.method() == "notifications/cancelled" && self.unlisten(request) {
            return;
        }
        let only = match message.method() {
            // Each hub had its own when it was initialised.
            "notifications/initialized" => return,
            "notifications/cancelled" => {
                let mut state = self.state();
                match state.routed.get(request) {
                    Some(index) => Some(*index),
                    None => {
                        if self.requests.has(request) {
                            state.cancelled.insert(request.to_owned());
                        }
                        return;
                    }
                }
            }
            _ => None,
        };
        for index in (0..self.members.len()).filter(|index| only.is_none_or(|only| only == *index))
        {
            self.send(index, message.line.clone().into());
        }
    }

    /// The client's answer to something a member asked.
    fn answer(&self, message: &Envelope) {
        let ours = message.id().and_then(|id| id.parse::<u64>().ok());
        let asked = ours.and_then(|ours| self.state().asked.remove(&ours));
        if let (Some((index, theirs)), Some(span)) = (asked, message.id_span()) {
            self.send(index, frame::splice(&message.line, &mut [(span, &theirs)]));
        }
    }

    /// Hands a message to a member; what it refuses is answered by its outlet or not at all.
    fn send(&self, index: usize, message: bytes::BytesMut) -> bool {
        let client = self.members.get(index).and_then(|member| member.client.get());
        client.is_some_and(|client| client.send(message.freeze()).is_ok())
    }

    fn fresh(&self) -> u64 {
        let mut state = self.state();
        state.next += 1;
        state.next
    }

    /// A request of our own to a member.
    fn ask(&self, index: usize, method: &str, params: &str) -> oneshot::Receiver<Envelope> {
        let id = json!(format!("gantry-own-{}", self.fresh())).to_string();
        let (sender, receiver) = oneshot::channel();
        self.state().own.insert(id.clone(), sender);
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        if !self.send(index, line.as_bytes().into()) {
            self.state().own.remove(&id);
        }
        receiver
    }

    fn take_from_member(&self, index: usize, message: ToClient) -> Result<(), Full> {
        let ToClient { line, concerning, last } = message;
        let is_of_a_request = concerning.is_some();
        if let Some(id) = concerning.filter(|_| last) {
            let (own, _) = {
                let mut state = self.state();
                (state.own.remove(&id), state.routed.remove(&id))
            };
            if let Some(waiting) = own {
                if let Ok(answer) = Envelope::parse(line) {
                    // Who asked may not need it any more.
                    let _ = waiting.send(answer);
                }
                return Ok(());
            }
            return self.requests.answer(&id, line, &self.output);
        }
        let Ok(parsed) = Envelope::parse(line.clone()) else { return Ok(()) };
        if parsed.kind() == Kind::Request {
            let Some((theirs, span)) = parsed.id().zip(parsed.id_span()) else { return Ok(()) };
            let ours = self.fresh();
            self.state().asked.insert(ours, (index, theirs.to_owned()));
            let line = frame::splice(&line, &mut [(span, &ours.to_string())]);
            return self.output.send(line.freeze());
        }
        if parsed.method() == "notifications/cancelled" {
            return self.withdrawn(index, &parsed);
        }
        let changed = List::ALL.iter().filter(|list| parsed.method() == list.changed());
        let initialized = {
            let mut state = self.state();
            for list in changed {
                state.tables.remove(list);
            }
            state.initialized
        };
        if !is_of_a_request {
            self.to_listeners(&parsed)?;
        }
        if initialized || is_of_a_request { self.output.send(line) } else { Ok(()) }
    }

    /// A member takes back something it asked.
    fn withdrawn(&self, index: usize, message: &Envelope) -> Result<(), Full> {
        let Some(raw) = message.param(&["requestId"]) else { return Ok(()) };
        let mut state = self.state();
        let found = state.asked.iter().find(|(_, (whose, id))| *whose == index && id == raw);
        let Some(ours) = found.map(|(ours, _)| *ours) else { return Ok(()) };
        state.asked.remove(&ours);
        drop(state);
        let line = frame::splice(&message.line, &mut [(message.span(raw), &ours.to_string())]);
        self.output.send(line.freeze())
    }

    /// Sends a request to whom the table says it belongs; `false` when it says nothing.
    fn forward(&self, message: &Envelope, list: List, table: &Table) -> bool {
        let owner = |name: &str| table.find(name).map(|(index, own)| (index, own.clone()));
        self.forward_to(owner, message, list)
    }

    /// The same for a name of an earlier table.
    fn forward_as_listed(&self, message: &Envelope, list: List) -> bool {
        let owner = |name: &str| self.state().listed.get(&(list, name.to_owned())).cloned();
        self.forward_to(owner, message, list)
    }

    fn forward_to(
        &self,
        owner: impl FnOnce(&str) -> Option<(usize, String)>,
        message: &Envelope,
        list: List,
    ) -> bool {
        let Some((_, raw)) = named(message) else { return false };
        let Some(name) = frame::string(raw) else { return false };
        let Some((index, original)) = owner(&name) else { return false };
        let id = message.id().unwrap_or("null");
        self.note_subscription(message.method(), &name);
        let line = if list.is_renamed() && original != name {
            let original = json!(original).to_string();
            frame::splice(&message.line, &mut [(message.span(raw), &original)])
        } else {
            message.line.clone().into()
        };
        self.hand_over(index, id, line);
        true
    }

    fn hand_over(&self, index: usize, id: &str, line: bytes::BytesMut) {
        {
            let mut state = self.state();
            if state.cancelled.remove(id) {
                drop(state);
                // Nobody waits for an answer any more.
                return self.requests.end(id);
            }
            state.routed.insert(id.to_owned(), index);
        }
        if !self.send(index, line) {
            self.state().routed.remove(id);
            let name = self.members.get(index).map_or("", |member| member.name.as_str());
            let why = format!("the server `{name}` did not take the request");
            self.refuse(id, frame::UNAVAILABLE, &why);
        }
    }

    /// A request that names something no list has. A resource may come from a template.
    async fn unknown(self: &Arc<Self>, message: &Envelope) {
        let (id, raw) =
            (message.id().unwrap_or("null"), named(message).map_or("", |named| named.1));
        if message.method().starts_with("resources/") {
            let uri = frame::string(raw).unwrap_or_default();
            let (templates, resources) =
                (self.table(List::Templates).await, self.table(List::Resources).await);
            let index = templates.by_prefix(&uri).or_else(|| resources.only_member());
            return match index {
                Some(index) => self.hand_over(index, id, message.line.clone().into()),
                None => {
                    let is_modern = modern::is_modern(message);
                    let code = if is_modern { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
                    self.refuse(id, code, &format!("no server here has the resource {raw}"));
                }
            };
        }
        self.refuse(id, INVALID_PARAMS, &format!("no server here offers {raw}"));
    }

    /// The table of a list, made anew when a server said that its part changed.
    async fn table(self: &Arc<Self>, list: List) -> Arc<Table> {
        if let Some(table) = self.state().tables.get(&list) {
            return table.clone();
        }
        let members = 0..self.members.len();
        let parts = futures::future::join_all(members.map(|index| self.pages(index, list))).await;
        let complete = parts.iter().all(|(_, complete)| *complete);
        let names: Vec<&str> = self.members.iter().map(|member| member.name.as_str()).collect();
        let parts = parts.into_iter().map(|(items, _)| items).collect();
        let table = Arc::new(merge::merge(list, &names, parts));
        let mut state = self.state();
        if list.is_renamed() {
            table.note(list, &mut state.listed);
        }
        if complete {
            state.tables.insert(list, table.clone());
        }
        drop(state);
        table
    }

    /// What one member lists, and whether that will hold until it says otherwise. A hub of which
    /// nothing is known yet answers within a second, with an empty list.
    async fn pages(&self, index: usize, list: List) -> (Vec<Box<RawValue>>, bool) {
        let (mut items, mut params) = (Vec::new(), "{}".to_owned());
        for _ in 0..PAGES {
            let Ok(answer) = self.ask(index, list.method(), &params).await else {
                return (items, false);
            };
            let page = answer.outcome().unwrap_or("null");
            if answer.kind() == Kind::Error {
                // It has no such list (that holds), or it is down (that may change).
                let code = frame::field(page, "code");
                return (items, code == Some(&METHOD_NOT_FOUND.to_string()));
            }
            let listed = frame::field(page, list.member());
            items.extend(
                listed
                    .and_then(|raw| serde_json::from_str::<Vec<Box<RawValue>>>(raw).ok())
                    .unwrap_or_default(),
            );
            match frame::field(page, "nextCursor") {
                Some(cursor) if cursor != "\"\"" => params = format!(r#"{{"cursor":{cursor}}}"#),
                _ => break,
            }
        }
        // An empty list may be the hub's own, for want of knowledge.
        let known = !items.is_empty() || self.knows(index);
        (items, known)
    }

    /// Waits until it is known of every member what it has, or that it does not come; not for ever.
    async fn settled(&self) {
        let clients = self.members.iter().filter_map(|member| member.client.get());
        let all = futures::future::join_all(clients.map(|client| {
            let hub = client.hub();
            async move { hub.settled().await }
        }));
        // After that it is not there.
        let _ = tokio::time::timeout(START_WAIT, all).await;
    }

    fn knows(&self, index: usize) -> bool {
        let client = self.members.get(index).and_then(|member| member.client.get());
        client.is_some_and(|client| client.hub().catalogue().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::tests::Peer;

    #[tokio::test]
    async fn a_request_whose_work_panics_is_answered_and_leaves_the_gate() {
        let (mut peer, scope) = (Peer::new(), Scope::root("test"));
        let front = Aggregate::new(&[], peer.output.clone(), peer.gate.clone(), scope);
        let line = r#"{"jsonrpc":"2.0","id":4,"method":"tools/list"}"#;
        let message = Envelope::parse(line.as_bytes().to_vec().into()).expect("a request");
        front.inner.requests.begin(&message).expect("open");
        assert_eq!(peer.gate.running(), ["tools/list 4"]);
        front.in_background(message, |_, _| async { panic!("as the test wants it") });
        let answer = peer.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(4), &json!(INTERNAL_ERROR)));
        while !peer.gate.running().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}
