//! `subscriptions/listen`: what a client wants to hear of the one server that all share.
//!
//! A client of revision 2026-07-28 opens as many of these as it likes; each message on one
//! bears its id. The server knows nothing of them: an older one has `resources/subscribe` and
//! sends the rest unasked, one of this revision has a single one of ours, with everything that
//! anybody wants.

use super::state::{
    Attached, Call, Caller, ClientKey, Effects, Link, Listening, RESOURCES, Speech, State,
};
use crate::{
    Envelope,
    catalogue::Known,
    frame::{self, INVALID_PARAMS, UNAVAILABLE},
    modern::SUBSCRIPTION,
};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tokio::time::Instant;

/// Open at a time, of one client.
const MOST: usize = 1024;

/// Which notifications a `subscriptions/listen` wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    tools: bool,
    prompts: bool,
    resource_lists: bool,
    /// Addresses.
    pub resources: BTreeSet<String>,
}

impl Filter {
    /// Reads the `notifications` of the request; `None` when they are no object.
    pub fn read(notifications: &str) -> Option<Self> {
        frame::fields(notifications)?;
        let flag = |name: &str| frame::field(notifications, name) == Some("true");
        let resources = frame::field(notifications, "resourceSubscriptions");
        Some(Self {
            tools: flag("toolsListChanged"),
            prompts: flag("promptsListChanged"),
            resource_lists: flag("resourcesListChanged"),
            resources: resources.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default(),
        })
    }

    /// What of it the server has at all.
    fn granted(self, known: &Known) -> Self {
        let resources = known.declares("resources");
        Self {
            tools: self.tools && known.declares("tools"),
            prompts: self.prompts && known.declares("prompts"),
            resource_lists: self.resource_lists && resources,
            resources: if known.has_subscriptions() { self.resources } else { BTreeSet::new() },
        }
    }

    /// As the acknowledgement says it.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        let flags = [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resource_lists),
        ];
        for (name, _) in flags.into_iter().filter(|(_, wanted)| *wanted) {
            object.insert(name.to_owned(), json!(true));
        }
        if !self.resources.is_empty() {
            object.insert("resourceSubscriptions".to_owned(), json!(self.resources));
        }
        Value::Object(object)
    }

    /// Whether a list that changed is one of them.
    pub fn wants(&self, method: &str) -> bool {
        match method {
            "notifications/tools/list_changed" => self.tools,
            "notifications/prompts/list_changed" => self.prompts,
            "notifications/resources/list_changed" => self.resource_lists,
            _ => false,
        }
    }
}

/// Why a subscription is refused.
pub(super) fn too_many_resources() -> String {
    format!("a client can have news of {RESOURCES} resources and of no more")
}

/// A notification with the (raw) id of the subscription it is sent for, or with none.
pub fn tagged(message: &Envelope, id: Option<&str>) -> Bytes {
    let meta = message.param(&["_meta"]);
    let old = meta.and_then(|meta| frame::field(meta, SUBSCRIPTION));
    if old.is_none() && id.is_none() {
        return message.line.clone();
    }
    let set: &[(&str, &str)] = &id.map(|id| (SUBSCRIPTION, id)).into_iter().collect::<Vec<_>>();
    let meta = frame::rebuilt(meta, &[SUBSCRIPTION], set);
    match frame::with_meta(message, &meta) {
        Some((range, text)) => frame::splice(&message.line, &mut [(range, text.as_str())]).freeze(),
        None => message.line.clone(),
    }
}

impl State {
    /// Opens one. Held until something is known of the server.
    pub fn listen(
        &mut self,
        key: ClientKey,
        message: Envelope,
        now: Instant,
        effects: &mut Effects,
    ) {
        let id = message.id().unwrap_or("null").to_owned();
        let refuse = |state: &Self, code, why: &str, effects: &mut Effects| {
            let line = frame::error(&id, code, why, None).freeze();
            state.deliver(key, line, Some(id.clone()), true, effects);
        };
        let Some(known) = &self.known else {
            if let Link::Down { starting: false, .. } = self.link {
                let why = self.why_not_ready();
                return refuse(self, UNAVAILABLE, &why, effects);
            }
            let until = now + self.start_wait;
            return self.hold(key, message, until, effects);
        };
        let open = self.clients.get(&key).map_or(0, Attached::resources);
        let Some(wish) = message.param(&["notifications"]).and_then(Filter::read) else {
            let why = "`notifications`, which says what is wanted, is not an object";
            return refuse(self, INVALID_PARAMS, why, effects);
        };
        if open + wish.resources.len() > RESOURCES {
            return refuse(self, INVALID_PARAMS, &too_many_resources(), effects);
        }
        let filter = wish.granted(known);
        let new: Vec<String> =
            filter.resources.iter().filter(|uri| !self.is_needed(uri)).cloned().collect();
        let Some(client) = self.clients.get_mut(&key) else { return };
        if client.listens.len() >= MOST {
            let why = format!("{MOST} subscriptions are open already");
            return refuse(self, UNAVAILABLE, &why, effects);
        }
        let line = acknowledged(&id, &filter);
        client.listens.insert(id.clone(), filter);
        self.deliver(key, line, Some(id), false, effects);
        self.needed(&new);
    }

    /// Ends one by its client's wish; `false` when there is none.
    pub fn unlisten(&mut self, key: ClientKey, id: &str) -> bool {
        let filter = self.clients.get_mut(&key).and_then(|client| client.listens.remove(id));
        let was_open = filter.is_some();
        self.unneeded(filter.unwrap_or_default().resources.into_iter().collect());
        was_open
    }

    /// Ends all of them in good order: there will be no more news.
    pub fn end_listens(&mut self, effects: &mut Effects) {
        let mut ended = Vec::new();
        for (key, client) in &mut self.clients {
            ended.extend(std::mem::take(&mut client.listens).into_keys().map(|id| (*key, id)));
        }
        for (key, id) in ended {
            let line = frame::result(&id, &last_word(&id)).freeze();
            self.deliver(key, line, Some(id), true, effects);
        }
    }

    /// Hands news of the server to everybody who wants them.
    pub fn announce(&self, line: &Bytes, effects: &mut Effects) {
        let Ok(message) = Envelope::parse(line.clone()) else { return };
        self.broadcast(&tagged(&message, None), effects);
        self.to_subscribers_of(line, effects);
    }

    /// Hands a notification to those whose filter fits; how many that are.
    pub fn to_listeners(
        &self,
        message: &Envelope,
        fits: impl Fn(&Filter) -> bool,
        effects: &mut Effects,
    ) -> usize {
        let mut count = 0;
        for (key, client) in &self.clients {
            for (id, _) in client.listens.iter().filter(|(_, filter)| fits(filter)) {
                self.deliver(*key, tagged(message, Some(id)), Some(id.clone()), false, effects);
                count += 1;
            }
        }
        count
    }

    /// News of our own making for those who asked for such.
    pub fn to_subscribers_of(&self, line: &Bytes, effects: &mut Effects) {
        if let Ok(message) = Envelope::parse(line.clone()) {
            self.to_listeners(&message, |filter| filter.wants(message.method()), effects);
        }
    }

    /// A notification for a client that knows no subscriptions of this kind.
    pub fn untagged(message: &Envelope) -> Bytes {
        tagged(message, None)
    }

    /// Whether anybody wants to hear of this resource.
    pub fn is_needed(&self, uri: &str) -> bool {
        self.clients.values().any(|client| {
            client.subscriptions.contains(uri)
                || client.listens.values().any(|filter| filter.resources.contains(uri))
        })
    }

    /// Everything that anybody wants to hear of.
    pub fn wanted_resources(&self) -> BTreeSet<String> {
        let of = |client: &super::state::Attached| {
            let listened = client.listens.values().flat_map(|filter| filter.resources.iter());
            client.subscriptions.iter().chain(listened).cloned().collect::<Vec<_>>()
        };
        self.clients.values().flat_map(of).collect()
    }

    /// Subscribes at the server to what was not needed before.
    pub fn needed(&mut self, uris: &[String]) {
        self.tell_of(uris, "resources/subscribe");
    }

    /// Takes subscriptions back, as far as nobody else needs them.
    pub fn unneeded(&mut self, uris: Vec<String>) {
        let uris: Vec<String> = uris.into_iter().filter(|uri| !self.is_needed(uri)).collect();
        self.tell_of(&uris, "resources/unsubscribe");
    }

    fn tell_of(&mut self, uris: &[String], method: &str) {
        match &self.link {
            Link::Up(upstream) if upstream.ready => match upstream.speech {
                Speech::Modern => self.listen_upstream(),
                Speech::Initialized { .. } => {
                    for uri in uris {
                        self.tell(method, &json!({ "uri": uri }).to_string());
                    }
                }
            },
            // Told when it is ready.
            _ => {}
        }
    }

    /// Has the server of this revision send what anybody wants, and no more.
    pub fn listen_upstream(&mut self) {
        let resources = self.wanted_resources();
        let Link::Up(upstream) = &self.link else { return };
        let is_heard = |listening: &Listening| listening.resources == resources;
        if upstream.speech != Speech::Modern
            || !upstream.ready
            || upstream.listening.as_ref().is_some_and(is_heard)
        {
            return;
        }
        let id = self.fresh_id();
        let all = Filter {
            tools: true,
            prompts: true,
            resource_lists: true,
            resources: resources.clone(),
        };
        let params = json!({ "notifications": all.to_json() }).to_string();
        if !self.write_own(id, "subscriptions/listen", Some(&params)) {
            return;
        }
        self.calls.insert(id, Call::own(Caller::Listen, false));
        let Link::Up(upstream) = &mut self.link else { return };
        // The new one first: in between, nothing is lost, and what comes twice does no harm.
        if let Some(old) = upstream.listening.replace(Listening { id, resources }) {
            self.abandon(old.id, "another one took its place");
        }
    }

    /// The server ended our subscription by itself.
    pub fn upstream_ended(&mut self, id: u64, answer: &Envelope) {
        if let Link::Up(upstream) = &mut self.link
            && upstream.listening.as_ref().is_some_and(|listening| listening.id == id)
        {
            tracing::info!(
                server = %self.name,
                answer = answer.outcome(),
                "it ended our subscription; changes of its lists go unnoticed until it restarts"
            );
        }
    }
}

/// What says that a subscription (raw `id`) is open, and for what.
pub fn acknowledged(id: &str, filter: &Filter) -> Bytes {
    let wanted = filter.to_json();
    let params = format!(r#"{{"_meta":{{"{SUBSCRIPTION}":{id}}},"notifications":{wanted}}}"#);
    frame::notification("notifications/subscriptions/acknowledged", Some(&params)).freeze()
}

/// The result that ends a subscription in good order (raw `id`).
///
/// For a transport that ends one by itself.
pub fn last_word(id: &str) -> String {
    format!(r#"{{"resultType":"complete","_meta":{{"{SUBSCRIPTION}":{id}}}}}"#)
}
