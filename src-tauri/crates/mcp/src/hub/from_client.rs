//! What a client says: answered here, passed on, held, or refused.

use super::{
    modern::GUESSED_CAPABILITIES,
    rounds::{self, Round},
    state::{
        Answer, Call, Caller, ClientKey, Due, Effects, FIRST_LIST_WAIT, ForModern, Link,
        OPEN_REQUESTS, Speech, State, cancelled, refusal,
    },
};
use crate::{
    Envelope, Kind, ambiguity,
    frame::{self, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, UNAVAILABLE},
    modern::{self, Context, LEVELS},
    revision,
};
use bytes::Bytes;
use serde_json::json;
use std::{ops::Range, time::Duration};
use tokio::time::Instant;

/// A cancellation of more bytes is not passed on as it is.
const FAT: usize = 16 * 1024;

/// Methods that list something, the member of their result, and the capability they belong to.
const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "tools"),
    ("prompts/list", "prompts", "prompts"),
    ("resources/list", "resources", "resources"),
    ("resources/templates/list", "resourceTemplates", "resources"),
];

impl State {
    /// Takes one message of a client.
    pub fn take_from_client(
        &mut self,
        key: ClientKey,
        message: Envelope,
        now: Instant,
        effects: &mut Effects,
    ) -> Result<(), Bytes> {
        let id = message.id().unwrap_or("null");
        if !self.clients.contains_key(&key) {
            let why = "this client was detached as it did not read its messages; connect again";
            return Err(frame::error(id, UNAVAILABLE, why, None).freeze());
        }
        if let Some(why) = ambiguity::of(&message) {
            let why = format!("{why}; nothing was passed on");
            return Err(frame::error(id, INVALID_REQUEST, &why, None).freeze());
        }
        match message.kind() {
            Kind::Request => {
                let busy = self.clients.get(&key).is_some_and(|client| client.is_busy_with(id))
                    || self
                        .held
                        .iter()
                        .any(|held| held.key == key && held.message.id() == Some(id));
                if busy {
                    let why = "a request with this id is still running";
                    return Err(frame::error(id, INVALID_REQUEST, why, None).freeze());
                }
                self.request(key, message, now, effects);
            }
            Kind::Notification => {
                if !self.notification(key, &message, effects) {
                    return Err(self.unavailable("null", "its input is full").freeze());
                }
            }
            Kind::Result | Kind::Error => self.answer(key, &message, now, effects),
        }
        Ok(())
    }

    /// A request, new or held until now.
    pub(super) fn request(
        &mut self,
        key: ClientKey,
        message: Envelope,
        now: Instant,
        effects: &mut Effects,
    ) {
        if message.param(&["_meta"]).and_then(modern::version_in).is_some() {
            return self.modern_request(key, message, now, effects);
        }
        let id = message.id().unwrap_or("null");
        let reply = |line: bytes::BytesMut| (line.freeze(), Some(id.to_owned()));
        let (line, concerning) = match message.method() {
            "initialize" => reply(self.initialize(key, &message)),
            "ping" => reply(frame::result(id, "{}")),
            // Without a word of the revision it is none of 2026-07-28. A plain -32601 makes a
            // client that knows both eras fall back to `initialize`.
            "server/discover" => {
                reply(frame::error(id, METHOD_NOT_FOUND, "Method not found: server/discover", None))
            }
            "tools/list" => match self.tools(key, &message, false, effects) {
                Some(line) => reply(line),
                None => return self.list(key, message, false, now, effects),
            },
            "prompts/list" | "resources/list" | "resources/templates/list" => {
                return self.list(key, message, false, now, effects);
            }
            _ => return self.call(key, message, false, now, self.start_wait, effects),
        };
        self.deliver(key, line, concerning, true, effects);
    }

    /// A request for the server, unless it calls a tool that is switched off.
    pub(super) fn call(
        &mut self,
        key: ClientKey,
        message: Envelope,
        modern: bool,
        now: Instant,
        wait: Duration,
        effects: &mut Effects,
    ) {
        let refused =
            if message.method() == "tools/call" { self.refused_tool(&message) } else { None };
        let Some(error) = refused else {
            return self.pass_on(key, message, modern, now, wait, effects);
        };
        let id = message.id().unwrap_or("null");
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
        self.deliver(key, Bytes::from(line), Some(id.to_owned()), true, effects);
    }

    fn initialize(&mut self, key: ClientKey, message: &Envelope) -> bytes::BytesMut {
        let asked = message.param(&["protocolVersion"]).and_then(frame::string).unwrap_or_default();
        let version = revision::negotiate(&asked);
        let abilities =
            message.param(&["capabilities"]).and_then(frame::fields).unwrap_or_default();
        let guessed = self.known.is_none();
        let declared = (message.param(&["capabilities"]), message.param(&["clientInfo"]));
        if let Some(client) = self.clients.get_mut(&key) {
            client.declared = (declared.0.map(str::to_owned), declared.1.map(str::to_owned));
            client.abilities = abilities
                .into_iter()
                .filter(|(_, value)| value.get() != "null")
                .map(|(name, _)| name.into_owned())
                .collect();
            client.initialized = true;
            client.guessed = guessed;
            let has_roots = client.abilities.contains("roots");
            if has_roots && std::mem::take(&mut self.roots_wanted) && !self.is_modern_only() {
                // The server asked before anybody could answer; now it is worth asking again.
                self.roots_news = Some(key);
                self.write(frame::notification("notifications/roots/list_changed", None));
            }
        }
        self.level_again();
        let id = message.id().unwrap_or("null");
        let Some(known) = &self.known else {
            let name = json!({ "name": self.name, "version": env!("CARGO_PKG_VERSION") });
            let result = format!(
                r#"{{"protocolVersion":"{version}","capabilities":{GUESSED_CAPABILITIES},"serverInfo":{name}}}"#
            );
            return frame::result(id, &result);
        };
        let result = known.catalogue.initialize.get();
        let version = format!("\"{version}\"");
        match frame::field(result, "protocolVersion") {
            Some(theirs) => {
                let start = theirs.as_ptr() as usize - result.as_ptr() as usize;
                let mut edits = [(start..start + theirs.len(), version.as_str())];
                let result = frame::splice(result.as_bytes(), &mut edits);
                frame::result(id, &String::from_utf8_lossy(&result))
            }
            None => frame::result(id, result),
        }
    }

    /// The answer to `tools/list`, when it is known.
    pub(super) fn tools(
        &mut self,
        key: ClientKey,
        message: &Envelope,
        modern: bool,
        effects: &mut Effects,
    ) -> Option<bytes::BytesMut> {
        let id = message.id()?;
        let known = self.known.as_ref()?;
        let tools = known.tools.clone()?;
        if message.param(&["cursor"]).is_some() {
            let why = "unknown cursor: all tools are on the first page";
            return Some(frame::error(id, INVALID_PARAMS, why, None));
        }
        let count = known.catalogue.tools.len();
        let completed = modern.then(|| modern::complete(&tools, true, known.server_info()));
        let client = self.clients.get_mut(&key)?;
        client.listed = true;
        effects.served = Some(client.served.clone());
        self.receipts.set(&client.label, count);
        Some(frame::result(id, completed.as_deref().unwrap_or(&tools)))
    }

    /// A question for a list that the server itself has to answer. As long as nothing
    /// is known it waits only shortly: an agent that waits longer runs without us.
    pub(super) fn list(
        &mut self,
        key: ClientKey,
        message: Envelope,
        modern: bool,
        now: Instant,
        effects: &mut Effects,
    ) {
        match &self.known {
            None => {
                let wait = FIRST_LIST_WAIT.min(self.start_wait);
                self.pass_on(key, message, modern, now, wait, effects);
            }
            Some(known) => {
                // The client was promised more than there is; it must not get an error for it.
                let guessed = self.clients.get(&key).is_some_and(|client| client.guessed);
                let capability = LISTS.iter().find(|list| list.0 == message.method());
                if guessed && capability.is_some_and(|list| !known.declares(list.2)) {
                    return self.answer_empty(key, &message, effects);
                }
                self.pass_on(key, message, modern, now, self.start_wait, effects);
            }
        }
    }

    fn answer_empty(&mut self, key: ClientKey, message: &Envelope, effects: &mut Effects) {
        let member =
            LISTS.iter().find(|list| list.0 == message.method()).map_or("tools", |list| list.1);
        let id = message.id().unwrap_or("null");
        let mut result = format!(r#"{{"{member}":[]}}"#);
        if modern::version(message).is_some() {
            result = modern::complete(&result, true, None);
        }
        let line = frame::result(id, &result);
        if let Some(client) = self.clients.get_mut(&key) {
            client.listed |= message.method() == "tools/list";
        }
        self.deliver(key, line.freeze(), Some(id.to_owned()), true, effects);
    }

    /// Answers a list that waited in vain for a server that is on its way with an empty one, not with an error after which an agent would never ask again; a
    /// `list_changed` follows when the server is ready.
    pub(super) fn answer_empty_list(
        &mut self,
        key: ClientKey,
        message: &Envelope,
        effects: &mut Effects,
    ) -> bool {
        let is_list = LISTS.iter().any(|list| list.0 == message.method());
        let unknown = self.known.is_none() && is_list && self.is_starting();
        if unknown {
            self.answer_empty(key, message, effects);
        }
        unknown
    }

    fn refused_tool(&self, message: &Envelope) -> Option<serde_json::Value> {
        if self.filter.is_open() {
            return None;
        }
        let Some(name) = message.param(&["name"]).and_then(frame::string) else {
            // Not to be judged, and a lenient server may make a name of it all the same.
            let why = "`name`, which says which tool is called, is not a text";
            return Some(json!({ "code": INVALID_PARAMS, "message": why }));
        };
        // For some readers a text ends there.
        let is_odd = name.contains('\0');
        (is_odd || !self.filter.passes(&name)).then(|| refusal(&self.name, &name))
    }

    /// Passes a request on, or holds it until the server is up.
    fn pass_on(
        &mut self,
        key: ClientKey,
        message: Envelope,
        modern: bool,
        now: Instant,
        wait: Duration,
        effects: &mut Effects,
    ) {
        match &self.link {
            Link::Up(upstream) if upstream.ready => {
                if modern && self.is_undecided() {
                    self.hold_for_probe(key, message, now, effects);
                } else {
                    self.forward(key, &message, modern, now, effects);
                }
            }
            Link::Down { starting: false, why } => {
                let id = message.id().unwrap_or("null");
                let line = self.unavailable(id, why).freeze();
                self.deliver(key, line, Some(id.to_owned()), true, effects);
            }
            _ => self.hold(key, message, now + wait, effects),
        }
    }

    pub(super) fn forward(
        &mut self,
        key: ClientKey,
        message: &Envelope,
        modern: bool,
        now: Instant,
        effects: &mut Effects,
    ) {
        let Some((id, id_span)) = message.id().zip(message.id_span()) else { return };
        let Some(speech) = self.speech() else { return };
        if !modern
            && speech == Speech::Modern
            && let Some(line) = self.answered_for_modern(key, message)
        {
            return self.deliver(key, line, Some(id.to_owned()), true, effects);
        }
        let (method, ours) = (message.method(), self.fresh_id());
        let is_subscription = method.ends_with("subscribe");
        let uri = if is_subscription { message.param(&["uri"]) } else { None };
        let uri = uri.and_then(frame::string);
        if method == "resources/unsubscribe"
            && let Some(uri) = &uri
            && self.unsubscribe(key, uri)
        {
            let line = frame::result(id, "{}").freeze();
            return self.deliver(key, line, Some(id.to_owned()), true, effects);
        }
        let number = ours.to_string();
        let mut edits: Vec<(Range<usize>, &str)> = vec![(id_span, &number)];
        let meta = message.param(&["_meta"]);
        let token = meta.and_then(|meta| frame::field(meta, "progressToken"));
        let foreign = match speech {
            Speech::Modern => !modern,
            Speech::Initialized { modern: takes } => modern && takes != Some(true),
        };
        let translated;
        if foreign {
            translated = self.translated_meta(key, message, modern, token.map(|_| &*number));
            edits.extend(translated.iter().map(|(range, text)| (range.clone(), text.as_str())));
        } else if let Some(token) = token {
            edits.push((message.span(token), &number));
        }
        let level;
        let mut levels_before = None;
        if method == "logging/setLevel"
            && let Some(raw) = message.param(&["level"])
            && let Some(index) = modern::level(raw)
        {
            if let Some(client) = self.clients.get_mut(&key) {
                levels_before = Some((client.level.replace(index), self.told_level));
            }
            // The server has one level for all: the most talkative one that anybody wants.
            // What a client did not ask for is left out on the way to it.
            let lowest = self.lowest_level().unwrap_or(index);
            self.told_level = Some(lowest);
            level = format!("\"{}\"", LEVELS[lowest]);
            edits.push((message.span(raw), &level));
        }
        let mut subscribes = None;
        if method == "resources/subscribe"
            && let (Some(uri), Some(client)) = (uri, self.clients.get_mut(&key))
        {
            match client.subscribe(&uri) {
                Ok(is_new) => subscribes = is_new.then_some(uri),
                Err(why) => {
                    let line = frame::error(id, INVALID_PARAMS, &why, None).freeze();
                    return self.deliver(key, line, Some(id.to_owned()), true, effects);
                }
            }
        }
        let answer = answer_of(message, meta, modern, speech);
        if let Answer::ForModern(modern) = &answer {
            self.lower_level(modern.context.log_level);
        }
        let room = self.calls.len() < OPEN_REQUESTS;
        if !room || !self.write(frame::splice(&message.line, &mut edits)) {
            if let Some(client) = self.clients.get_mut(&key) {
                if let Some((level, told)) = levels_before {
                    (client.level, self.told_level) = (level, told);
                }
                subscribes.inspect(|uri| _ = client.subscriptions.remove(uri));
            }
            let line = self.unavailable(id, "its input is full").freeze();
            return self.deliver(key, line, Some(id.to_owned()), true, effects);
        }
        let caller = Caller::Client { key, id: id.to_owned() };
        let token = token.map(str::to_owned);
        let due = self.call_limit.filter(|_| method == "tools/call").map(|limit| {
            let tool = message.param(&["name"]).and_then(frame::string).unwrap_or_default();
            Due { at: now + limit, limit, tool }
        });
        self.calls.insert(ours, Call { caller, token, work: true, subscribes, due, answer });
        if let Some(client) = self.clients.get_mut(&key) {
            client.calls.insert(id.to_owned(), ours);
        }
    }

    /// Takes a subscription back; whether somebody else needs it (also when this client never
    /// had one).
    fn unsubscribe(&mut self, key: ClientKey, uri: &str) -> bool {
        if let Some(client) = self.clients.get_mut(&key) {
            client.subscriptions.remove(uri);
        }
        self.is_needed(uri)
    }

    /// `false`: there is no room for it.
    fn notification(&mut self, key: ClientKey, message: &Envelope, effects: &mut Effects) -> bool {
        match message.method() {
            // The server has had one.
            "notifications/initialized" => {}
            "notifications/cancelled" => {
                let Some(request) = message.param(&["requestId"]) else { return true };
                let notice = |ours: u64| {
                    // It finds room where calls do not, so it must be small.
                    if message.line.len() > FAT {
                        return cancelled(ours, "the client cancelled the request");
                    }
                    let ours = ours.to_string();
                    frame::splice(&message.line, &mut [(message.span(request), &ours)])
                };
                self.cancel_with(key, request, notice, effects);
            }
            // Nobody waits for an answer, but a lenient server may carry it out.
            "tools/call" if self.refused_tool(message).is_some() => {
                tracing::debug!(server = %self.name, "a notification calls a tool that is switched off");
            }
            _ => {
                // A server that is not there yet asks anew when it is; one that knows no
                // `initialize` takes no other notification.
                if matches!(&self.link, Link::Up(upstream) if upstream.ready)
                    && !self.is_modern_only()
                {
                    if message.method() == "notifications/roots/list_changed" {
                        self.roots_news = Some(key);
                    }
                    return self.write(frame::splice(&message.line, &mut []));
                }
            }
        }
        true
    }

    /// The answer to something the server asked of this client.
    fn answer(&mut self, key: ClientKey, message: &Envelope, now: Instant, effects: &mut Effects) {
        let ours = message.id().and_then(frame::number);
        let asked = ours.filter(|ours| self.asked.get(ours).is_some_and(|asked| asked.key == key));
        let Some((asked, span)) =
            asked.and_then(|ours| self.asked.remove(&ours)).zip(message.id_span())
        else {
            tracing::debug!(server = %self.name, "an answer to nothing that was asked, ignored");
            return;
        };
        match asked.round {
            Some((call, name)) => self.round_answered(call, &name, message, now, effects),
            None => {
                let line = frame::splice(&message.line, &mut [(span, &asked.id)]);
                if !self.write(line) {
                    // It waits for one.
                    let why = "the answer to this came while too much waited to be read";
                    self.push(frame::error(&asked.id, INTERNAL_ERROR, why, None));
                }
            }
        }
    }
}

/// How the answer to a call has to be changed on its way back.
fn answer_of(message: &Envelope, meta: Option<&str>, modern: bool, speech: Speech) -> Answer {
    let method = message.method();
    if !modern {
        let may_ask = speech == Speech::Modern && rounds::may_ask(method);
        return if may_ask {
            Answer::ForInitialized(Box::new(Round { message: message.clone(), again: 0 }))
        } else {
            Answer::AsItIs
        };
    }
    let Ok(context) = Context::read_meta(meta.unwrap_or("{}")) else { return Answer::AsItIs };
    match speech {
        Speech::Modern | Speech::Initialized { modern: Some(true) } => {
            Answer::Logged(context.log_level)
        }
        Speech::Initialized { .. } => Answer::ForModern(ForModern {
            cacheable: modern::is_cacheable(method),
            is_tool: method == "tools/call",
            context,
            refused: None,
        }),
    }
}
