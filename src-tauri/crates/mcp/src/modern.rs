//! Requests of revision 2026-07-28: each says itself which revision it is of and what its
//! client can do (specification, `basic/index` and `basic/versioning`).

use crate::{
    Envelope,
    frame::{self, INVALID_PARAMS, UNSUPPORTED_VERSION},
    revision,
};
use serde_json::{Value, json};
use std::collections::HashSet;

/// `_meta`: the revision of a request.
pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// `_meta`: what the client can do.
pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// `_meta`: who the client is.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// `_meta`: from which severity on the client wants log messages of this request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// `_meta` of a result: who the server is.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// `_meta` of a notification: the `subscriptions/listen` that it belongs to.
pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The members of `_meta` that only this revision has.
pub(crate) const OF_A_REQUEST: [&str; 4] = [VERSION, CAPABILITIES, CLIENT_INFO, LOG_LEVEL];

/// The severities of log messages, least severe first.
pub const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Methods of older revisions that this one has no more.
pub const REMOVED: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// Whether results of this method say how long they may be kept.
pub(crate) fn is_cacheable(method: &str) -> bool {
    matches!(
        method,
        "server/discover"
            | "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
    )
}

/// What a request says of its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The names of its capabilities.
    pub abilities: HashSet<String>,
    /// Index into [`LEVELS`]; without one no log messages are wanted.
    pub log_level: Option<usize>,
}

/// Why a request is not taken: the error to answer it with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// JSON-RPC.
    pub code: i64,
    /// For people.
    pub message: String,
    /// JSON-RPC.
    pub data: Option<Value>,
}

/// The revision that a request names in its `_meta`: such a request is one of this era.
pub fn version(message: &Envelope) -> Option<String> {
    version_in(message.param(&["_meta"])?)
}

/// The same, where `_meta` was found already.
pub(crate) fn version_in(meta: &str) -> Option<String> {
    // A quick look first: most clients are of the older era. What is written with escapes (PHP
    // escapes every slash) is not found by it.
    if !meta.contains(VERSION) && !meta.contains('\\') {
        return None;
    }
    frame::field(meta, VERSION).map(|raw| frame::string(raw).unwrap_or_default())
}

impl Context {
    /// Reads the `_meta` of a request of this era.
    ///
    /// # Errors
    /// [`Malformed`]: a required member is missing, or the revision is another.
    pub fn read(message: &Envelope) -> Result<Self, Malformed> {
        Self::read_meta(message.param(&["_meta"]).unwrap_or("{}"))
    }

    pub(crate) fn read_meta(meta: &str) -> Result<Self, Malformed> {
        let wrong = |message: String| Malformed { code: INVALID_PARAMS, message, data: None };
        let missing = |key: &str| {
            wrong(format!("`_meta` lacks `{key}`, which every request of this revision carries"))
        };
        let version = frame::field(meta, VERSION).ok_or_else(|| missing(VERSION))?;
        let version = frame::string(version).unwrap_or_else(|| version.to_owned());
        if version != revision::MODERN {
            return Err(unsupported(&version));
        }
        let abilities = frame::field(meta, CAPABILITIES).ok_or_else(|| missing(CAPABILITIES))?;
        let Some(abilities) = frame::fields(abilities) else {
            return Err(wrong(format!("`{CAPABILITIES}` is not an object")));
        };
        let abilities = abilities.into_iter().filter(|(_, value)| value.get() != "null");
        let log_level = match frame::field(meta, LOG_LEVEL) {
            None => None,
            Some(raw) => Some(level(raw).ok_or_else(|| {
                wrong(format!("`{LOG_LEVEL}` is {raw}, which is none of {}", LEVELS.join(", ")))
            })?),
        };
        Ok(Self { abilities: abilities.map(|(name, _)| name.into_owned()).collect(), log_level })
    }
}

/// A revision that is not spoken this way.
fn unsupported(asked: &str) -> Malformed {
    let supported: Value = serde_json::from_str(revision::SPOKEN).unwrap_or_default();
    let message = if revision::WITH_INITIALIZE.contains(&asked) {
        format!("Unsupported protocol version: {asked} is spoken here after `initialize` only")
    } else {
        format!("Unsupported protocol version: {asked}")
    };
    let data = Some(json!({ "supported": supported, "requested": asked }));
    Malformed { code: UNSUPPORTED_VERSION, message, data }
}

/// Index of a raw level in [`LEVELS`].
pub(crate) fn level(raw: &str) -> Option<usize> {
    let name = frame::string(raw)?;
    LEVELS.iter().position(|known| *known == name)
}

/// The `_meta` of our own requests to a server that speaks this revision only.
pub(crate) fn own_meta() -> String {
    let info = json!({ "name": "gantry", "title": "Gantry", "version": env!("CARGO_PKG_VERSION") });
    let version = revision::MODERN;
    format!(r#"{{"{VERSION}":"{version}","{CLIENT_INFO}":{info},"{CAPABILITIES}":{{}}}}"#)
}

/// A result as a client of this revision has it, made of one of an older server: with
/// `resultType`, how long it may be kept (not at all: nothing is known of that), and who
/// answered. What is there stays as it is. The edits are offsets into `result` and what
/// is put there.
pub(crate) fn completed(result: &str, cacheable: bool, info: Option<&str>) -> Vec<(usize, String)> {
    let Some(members) = frame::fields(result) else { return Vec::new() };
    let find = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, raw)| raw.get());
    let (mut edits, mut new) = (Vec::new(), Vec::new());
    if find("resultType").is_none() {
        new.push(r#""resultType":"complete""#.to_owned());
    }
    if cacheable && find("ttlMs").is_none() {
        new.push(r#""ttlMs":0"#.to_owned());
    }
    if cacheable && find("cacheScope").is_none() {
        new.push(r#""cacheScope":"private""#.to_owned());
    }
    if let Some(info) = info {
        let member = format!(r#""{SERVER_INFO}":{info}"#);
        match find("_meta") {
            Some(meta) if frame::field(meta, SERVER_INFO).is_some() => {}
            Some(meta) => {
                let at = frame::offset(result, meta).start;
                edits.extend(frame::insertion(meta, &member).map(|(to, text)| (at + to, text)));
            }
            None => new.push(format!(r#""_meta":{{{member}}}"#)),
        }
    }
    if !new.is_empty() {
        edits.extend(frame::insertion(result, &new.join(",")));
    }
    edits
}

/// A result as a client of this revision has it, made of one that lacks what is new: with
/// `resultType`, that it may not be kept (where it could be), and who answered (raw `info`).
pub fn complete(result: &str, cacheable: bool, info: Option<&str>) -> String {
    let mut text = result.to_owned();
    let mut edits = completed(result, cacheable, info);
    edits.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    for (at, piece) in edits {
        text.insert_str(at, &piece);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn request(meta: &str) -> Envelope {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{{meta}}}}}"#);
        Envelope::parse(Bytes::from(line)).expect("a request")
    }

    #[test]
    fn a_request_is_of_this_era_when_it_names_its_revision() {
        for (meta, wanted) in [
            (
                r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#,
                Some("2026-07-28"),
            ),
            (
                r#""_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}"#,
                Some("2026-07-28"),
            ),
            (
                r#""_meta":{"io.modelcontextprotocol/\u0070rotocolVersion":"2026-07-28"}"#,
                Some("2026-07-28"),
            ),
            (r#""_meta":{"io.modelcontextprotocol/protocolVersion":7}"#, Some("")),
            (r#""_meta":{"io.modelcontextprotocol/protocolVersion":null}"#, None),
            (r#""_meta":{"progressToken":1}"#, None),
            (r#""x":"io.modelcontextprotocol/protocolVersion""#, None),
            ("", None),
        ] {
            assert_eq!(version(&request(meta)).as_deref(), wanted, "{meta}");
        }
    }

    #[test]
    fn what_a_request_must_say_is_asked_for() {
        let read = |meta: &str| Context::read(&request(&format!(r#""_meta":{{{meta}}}"#)));
        let of =
            |version: &str| format!(r#""io.modelcontextprotocol/protocolVersion":"{version}""#);
        let can = r#""io.modelcontextprotocol/clientCapabilities":{"sampling":{},"roots":null}"#;
        let good = format!("{},{can}", of("2026-07-28"));
        let context = read(&good).expect("well-formed");
        assert_eq!(context.abilities, HashSet::from(["sampling".to_owned()]));
        assert_eq!(context.log_level, None);
        let level = r#""io.modelcontextprotocol/logLevel":"info""#;
        assert_eq!(read(&format!("{good},{level}")).expect("well-formed").log_level, Some(1));
        for (meta, code) in [
            (String::new(), INVALID_PARAMS),
            (can.to_owned(), INVALID_PARAMS),
            (of("2026-07-28"), INVALID_PARAMS),
            (format!("{good},{}", level.replace("info", "loud")), INVALID_PARAMS),
            (format!("{},{can}", of("2025-11-25")), UNSUPPORTED_VERSION),
            (of("v999"), UNSUPPORTED_VERSION),
        ] {
            assert_eq!(read(&meta).expect_err("malformed").code, code, "{meta}");
        }
        let data = read(&of("v999")).expect_err("unknown").data.expect("data");
        assert_eq!(data["requested"], "v999");
        assert_eq!(data["supported"][0], "2026-07-28");
    }

    #[test]
    fn a_result_is_completed_by_what_it_lacks() {
        for (result, cacheable, wanted) in [
            (
                "{}",
                false,
                r#"{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}"#,
            ),
            (
                r#"{ "a":1.0}"#,
                false,
                r#"{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}, "a":1.0}"#,
            ),
            (
                r#"{"_meta":{"k":1},"ttlMs":5}"#,
                true,
                r#"{"resultType":"complete","cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"},"k":1},"ttlMs":5}"#,
            ),
            (
                r#"{"_meta":{},"resultType":"x"}"#,
                false,
                r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}},"resultType":"x"}"#,
            ),
            ("[1]", true, "[1]"),
        ] {
            assert_eq!(complete(result, cacheable, Some(r#"{"name":"s"}"#)), wanted);
        }
        assert_eq!(
            complete("{}", true, None),
            r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#
        );
    }
}
