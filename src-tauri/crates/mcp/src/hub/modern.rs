//! Clients of revision 2026-07-28, in front of whatever the server speaks.
//!
//! Which era a request is of, it says itself, so that one client may mix both. A server that was
//! initialised is asked once, with the first such request, whether it takes them as they are;
//! else they are translated: their `_meta` is taken off, and what a result lacks is added.

use super::state::{Answer, Call, Caller, ClientKey, Effects, ForModern, Link, Speech, State};
use crate::{
    Envelope, Kind,
    frame::{self, INTERNAL_ERROR, METHOD_NOT_FOUND, MISSING_CAPABILITY},
    modern::{self, Context, LEVELS, REMOVED},
    revision,
};
use bytes::Bytes;
use serde_json::{json, value::RawValue};
use std::{ops::Range, time::Duration};
use tokio::time::Instant;

/// How long a server may take to say whether it knows this revision; then it does not.
const PROBE: Duration = Duration::from_secs(5);
/// How long a client that asks what the server is waits for that: agents give a server about a
/// second. What was learned when it was initialised is as good an answer.
const DISCOVER: Duration = Duration::from_secs(1);

/// What is told of a server of which nothing is known yet.
pub(super) const GUESSED_CAPABILITIES: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"logging":{},"completions":{}}"#;

/// Whether a `server/discover` result offers the revision.
pub(super) fn offers(discover: &str) -> bool {
    let versions = frame::field(discover, "supportedVersions");
    let versions: Vec<String> =
        versions.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
    versions.iter().any(|version| version == revision::MODERN)
}

/// What a server that knows no `initialize` would have answered to it.
pub(super) fn as_initialize(discover: &str, name: &str) -> Box<RawValue> {
    let part = |part: &str| frame::field(discover, part);
    let info = part("_meta").and_then(|meta| frame::field(meta, modern::SERVER_INFO));
    let unnamed = json!({ "name": name, "version": "" }).to_string();
    let version = format!("\"{}\"", revision::MODERN);
    let mut members = vec![
        ("protocolVersion", version.as_str()),
        ("capabilities", part("capabilities").unwrap_or("{}")),
        ("serverInfo", info.unwrap_or(&unnamed)),
    ];
    members.extend(part("instructions").map(|text| ("instructions", text)));
    let text = frame::rebuilt(None, &[], &members);
    RawValue::from_string(text).unwrap_or_default()
}

impl State {
    /// A request of this revision, new or held until now.
    pub fn modern_request(
        &mut self,
        key: ClientKey,
        message: Envelope,
        now: Instant,
        effects: &mut Effects,
    ) {
        let id = message.id().unwrap_or("null");
        if let Err(wrong) = Context::read(&message) {
            let line = frame::error(id, wrong.code, &wrong.message, wrong.data).freeze();
            let id = id.to_owned();
            return self.deliver(key, line, Some(id), true, effects);
        }
        let line = match message.method() {
            method if REMOVED.contains(&method) => {
                let why =
                    format!("Method not found: revision {} has no {method}", revision::MODERN);
                frame::error(id, METHOD_NOT_FOUND, &why, None)
            }
            "subscriptions/listen" => return self.listen(key, message, now, effects),
            "server/discover" if self.known.is_some() && self.is_undecided() => {
                return self.hold_for_probe(key, message, now, effects);
            }
            "server/discover" => self.discover(id),
            "tools/list" => match self.tools(key, &message, true, effects) {
                Some(line) => line,
                None => return self.list(key, message, true, now, effects),
            },
            "prompts/list" | "resources/list" | "resources/templates/list" => {
                return self.list(key, message, true, now, effects);
            }
            _ => {
                let wait = self.start_wait;
                return self.call(key, message, true, now, wait, effects);
            }
        };
        let id = id.to_owned();
        self.deliver(key, line.freeze(), Some(id), true, effects);
    }

    /// Answers a `server/discover` that has waited long enough for the server's own words.
    pub fn discover_without(&self, key: ClientKey, message: &Envelope, effects: &mut Effects) {
        let id = message.id().unwrap_or("null");
        self.deliver(key, self.discover(id).freeze(), Some(id.to_owned()), true, effects);
    }

    fn discover(&self, id: &str) -> bytes::BytesMut {
        let known = self.known.as_ref();
        let ours = json!({ "name": self.name, "version": env!("CARGO_PKG_VERSION") }).to_string();
        let info = known.and_then(|known| known.server_info()).unwrap_or(&ours);
        let versions = ("supportedVersions", revision::SPOKEN);
        let result = match known {
            Some(known) => match &known.discover {
                Some(theirs) => frame::rebuilt(Some(theirs.get()), &[], &[versions]),
                None => {
                    let part = |part| frame::field(known.catalogue.initialize.get(), part);
                    let capabilities = ("capabilities", part("capabilities").unwrap_or("{}"));
                    let mut members = vec![versions, capabilities];
                    members.extend(part("instructions").map(|text| ("instructions", text)));
                    frame::rebuilt(None, &[], &members)
                }
            },
            None => frame::rebuilt(None, &[], &[versions, ("capabilities", GUESSED_CAPABILITIES)]),
        };
        frame::result(id, &modern::complete(&result, true, Some(info)))
    }

    /// Whether it is not known yet if the present server takes requests of this revision.
    pub fn is_undecided(&self) -> bool {
        matches!(&self.link, Link::Up(upstream)
            if upstream.ready && upstream.speech == Speech::Initialized { modern: None })
    }

    /// Holds a request until the server has said whether it knows this revision; asks it.
    pub fn hold_for_probe(
        &mut self,
        key: ClientKey,
        message: Envelope,
        now: Instant,
        effects: &mut Effects,
    ) {
        let asked = self.calls.values().any(|call| matches!(call.caller, Caller::Probe));
        if !asked {
            let id = self.fresh_id();
            let params = format!(r#"{{"_meta":{}}}"#, modern::own_meta());
            if self.write(frame::request(id, "server/discover", Some(&params))) {
                self.calls.insert(id, Call::own(Caller::Probe, false));
            }
        }
        let wait = if message.method() == "server/discover" { DISCOVER } else { PROBE };
        self.hold(key, message, now + wait, effects);
    }

    /// The server has said it, or (`None`) has said nothing in time.
    pub fn probed(&mut self, answer: Option<&Envelope>, now: Instant, effects: &mut Effects) {
        let result = answer.filter(|answer| answer.kind() == Kind::Result);
        let discover = result.and_then(Envelope::outcome).filter(|outcome| offers(outcome));
        let Link::Up(upstream) = &mut self.link else { return };
        if upstream.speech != (Speech::Initialized { modern: None }) {
            return;
        }
        upstream.speech = Speech::Initialized { modern: Some(discover.is_some()) };
        if let (Some(discover), Some(known)) = (discover, &mut self.known) {
            known.discover = RawValue::from_string(discover.to_owned()).ok();
        }
        for held in std::mem::take(&mut self.held) {
            self.request(held.key, held.message, now, effects);
        }
    }

    /// The change to the `_meta` of a request for a server of the other era; `token` is its
    /// progress token there.
    pub fn translated_meta(
        &self,
        key: ClientKey,
        message: &Envelope,
        modern: bool,
        token: Option<&str>,
    ) -> Option<(Range<usize>, String)> {
        let meta = message.param(&["_meta"]);
        let token = token.map(|token| ("progressToken", token));
        if modern {
            let set: Vec<_> = token.into_iter().collect();
            let meta = frame::rebuilt(meta, &modern::OF_A_REQUEST, &set);
            return frame::with_meta(message, &meta);
        }
        let client = self.clients.get(&key)?;
        let (capabilities, info) = &client.declared;
        let version = format!("\"{}\"", revision::MODERN);
        let level = client.level.map(|level| format!("\"{}\"", LEVELS[level]));
        let mut set = vec![
            (modern::VERSION, version.as_str()),
            (modern::CAPABILITIES, capabilities.as_deref().unwrap_or("{}")),
        ];
        set.extend(info.as_deref().map(|info| (modern::CLIENT_INFO, info)));
        set.extend(level.as_deref().map(|level| (modern::LOG_LEVEL, level)));
        set.extend(token);
        frame::with_meta(message, &frame::rebuilt(meta, &[], &set))
    }

    /// A request that an older client makes of a server of this revision, which has no such
    /// method; `None` when it has.
    pub fn answered_for_modern(&mut self, key: ClientKey, message: &Envelope) -> Option<Bytes> {
        let id = message.id()?;
        let client = self.clients.get_mut(&key)?;
        match message.method() {
            "logging/setLevel" => {
                let Some(level) = message.param(&["level"]).and_then(modern::level) else {
                    let why = format!("`level` is none of {}", LEVELS.join(", "));
                    return Some(frame::error(id, frame::INVALID_PARAMS, &why, None).freeze());
                };
                client.level = Some(level);
            }
            method @ ("resources/subscribe" | "resources/unsubscribe") => {
                let Some(uri) = message.param(&["uri"]).and_then(frame::string) else {
                    let why = "`uri` is missing";
                    return Some(frame::error(id, frame::INVALID_PARAMS, why, None).freeze());
                };
                if method == "resources/subscribe" {
                    if let Err(why) = client.subscribe(&uri) {
                        return Some(frame::error(id, frame::INVALID_PARAMS, &why, None).freeze());
                    }
                } else {
                    client.subscriptions.remove(&uri);
                }
                self.listen_upstream();
            }
            _ => return None,
        }
        Some(frame::result(id, "{}").freeze())
    }

    /// An older server's answer, as a client of this revision has it.
    pub fn for_modern(&self, message: &Envelope, id: &str, call: ForModern) -> Bytes {
        let Some((span, outcome)) = message.id_span().zip(message.outcome()) else {
            return message.line.clone();
        };
        let is_error = message.kind() == Kind::Error;
        if let Some(refused) = &call.refused
            && (is_error || frame::field(outcome, "isError") == Some("true"))
        {
            return self.asked_in_vain(id, refused, &call, outcome, is_error);
        }
        let mut edits = vec![(span, id.to_owned())];
        if !is_error {
            let start = message.span(outcome).start;
            let info = self.known.as_ref().and_then(|known| known.server_info());
            let lacks = modern::completed(outcome, call.cacheable, info);
            edits.extend(lacks.into_iter().map(|(at, text)| (start + at..start + at, text)));
        }
        let mut edits: Vec<_> =
            edits.iter().map(|(range, text)| (range.clone(), text.as_str())).collect();
        frame::splice(&message.line, &mut edits).freeze()
    }

    /// The call failed because the server wanted to ask the client something in its middle.
    fn asked_in_vain(
        &self,
        id: &str,
        refused: &str,
        call: &ForModern,
        outcome: &str,
        is_error: bool,
    ) -> Bytes {
        let server = &self.name;
        let known = ["sampling", "elicitation", "roots"].contains(&refused);
        if known && !call.context.abilities.contains(refused) {
            let why = format!(
                "the server `{server}` needs the client capability `{refused}`, which this client did not declare"
            );
            let data = json!({ "requiredCapabilities": { refused: {} } });
            return frame::error(id, MISSING_CAPABILITY, &why, Some(data)).freeze();
        }
        let why = format!(
            "the server `{server}` asked the client for `{refused}` in the middle of the call. \
             It speaks an older revision of MCP than the client, in which servers may do that; \
             a client of revision {} cannot be asked, so the call could not be finished. \
             A client that uses `initialize` can make it",
            revision::MODERN
        );
        if !call.is_tool {
            return frame::error(id, INTERNAL_ERROR, &why, Some(json!({ "server": server })))
                .freeze();
        }
        let mut content = vec![json!({ "type": "text", "text": why }).to_string()];
        if is_error {
            let theirs = frame::field(outcome, "message").and_then(frame::string);
            content.extend(theirs.map(|text| json!({ "type": "text", "text": text }).to_string()));
        } else {
            let theirs = frame::field(outcome, "content");
            let theirs: Option<Vec<&RawValue>> =
                theirs.and_then(|raw| serde_json::from_str(raw).ok());
            content.extend(theirs.unwrap_or_default().iter().map(|item| item.get().to_owned()));
        }
        let result = format!(r#"{{"content":[{}],"isError":true}}"#, content.join(","));
        let info = self.known.as_ref().and_then(|known| known.server_info());
        frame::result(id, &modern::complete(&result, false, info)).freeze()
    }

    /// The server asks something that no client here can be asked. When that is for a call of this
    /// revision, its answer is to say so. What the server is told.
    pub fn note_refusal(&mut self, method: &str, ability: Option<&str>) -> String {
        let mut working = self.calls.values_mut().filter(|call| call.work);
        let only = working.next();
        if working.next().is_none()
            && let Some(Call { answer: Answer::ForModern(modern), .. }) = only
        {
            modern.refused = Some(ability.unwrap_or(method).to_owned());
            return format!(
                "Method not found: the client speaks MCP {}, in which it cannot be asked {method}",
                revision::MODERN
            );
        }
        format!("Method not found: no client here can answer {method}")
    }
}
