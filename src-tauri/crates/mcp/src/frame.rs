//! JSON-RPC lines: only the envelope is read, the rest passes as it is.
//!
//! A message is kept as the bytes that came. Its parts are byte ranges into
//! them, and a change (another id, another progress token) is a splice of those
//! ranges: unknown fields, number formats and white space stay as they were.

use crate::ambiguity;
use bytes::{Bytes, BytesMut};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt, ops::Range, sync::OnceLock};

/// JSON-RPC: the text was not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// JSON-RPC: the JSON was not a valid message.
pub const INVALID_REQUEST: i64 = -32600;
/// JSON-RPC: nobody here knows the method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// JSON-RPC: something failed on our side.
pub const INTERNAL_ERROR: i64 = -32603;
/// JSON-RPC: the parameters do not fit, or name a tool that is switched off.
pub const INVALID_PARAMS: i64 = -32602;
/// Ours: the server cannot take the call now (state in the message and in `data`).
pub const UNAVAILABLE: i64 = -32000;
/// MCP: a header is missing, or does not say what the body says.
pub const HEADER_MISMATCH: i64 = -32020;
/// MCP: the server needs a capability that the client did not declare.
pub const MISSING_CAPABILITY: i64 = -32021;
/// MCP: a protocol version that is not spoken here.
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// Ours: the request was cancelled, so that a transport that waits for a response is let go.
pub const CANCELLED: i64 = -32800;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `id` and `method`.
    Request,
    /// `method` without `id`.
    Notification,
    /// `id` and `result`.
    Result,
    /// `error`; the `id` may be missing or null.
    Error,
}

/// A message of which only the envelope was parsed; `line` is the whole, without line end.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The message as it came.
    pub line: Bytes,
    kind: Kind,
    method: String,
    id: Option<Range<usize>>,
    params: Option<Range<usize>>,
    outcome: Option<Range<usize>>,
    alike: Option<String>,
    members: OnceLock<Option<Members>>,
}

/// Where the members of an object are in a line: names (without quotes) and values.
type Members = Box<[(Range<usize>, Range<usize>)]>;

/// Of parameters with more members than these nothing is remembered.
const MOST_MEMBERS: usize = 16;

/// A line that is not a message.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Not JSON, or not a JSON-RPC message.
    #[error("not a JSON-RPC message: {0}")]
    NotAMessage(String),
    /// Longer than the limit.
    #[error("a line longer than {0} bytes")]
    TooLong(usize),
}

/// Only what decides where a message goes. A value of `null` counts as present.
#[derive(Default)]
struct Parts<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// The name of another member that a reader without regard to case would take for one of these.
    alike: Option<String>,
}

impl<'a> Parts<'a> {
    /// The names of the members, as they are written.
    const NAMES: [&'static str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

    fn of(&mut self, name: &str) -> Option<&mut Option<&'a RawValue>> {
        Some(match name {
            "jsonrpc" => &mut self.jsonrpc,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "params" => &mut self.params,
            "result" => &mut self.result,
            "error" => &mut self.error,
            _ => return None,
        })
    }
}

struct PartsVisitor;

impl<'de> Visitor<'de> for PartsVisitor {
    type Value = Parts<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut parts = Parts::default();
        while let Some((Key(name), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
            if let Some(part) = parts.of(&name) {
                if part.replace(value).is_some() {
                    return Err(A::Error::custom(format_args!("`{name}` is there twice")));
                }
            } else if parts.alike.is_none() && ambiguity::is_like_one_of(&name, &Parts::NAMES) {
                parts.alike = Some(name.into_owned());
            }
        }
        Ok(parts)
    }
}

fn parts(line: &[u8]) -> serde_json::Result<Parts<'_>> {
    let mut from = serde_json::Deserializer::from_slice(line);
    let parts = from.deserialize_map(PartsVisitor)?;
    from.end()?;
    Ok(parts)
}

impl Envelope {
    /// Reads the envelope of one message.
    ///
    /// # Errors
    /// [`FrameError::NotAMessage`] with the reason.
    pub fn parse(line: Bytes) -> Result<Self, FrameError> {
        let wrong = |why: &str| FrameError::NotAMessage(why.to_owned());
        let parts = parts(&line).map_err(|error| FrameError::NotAMessage(error.to_string()))?;
        if parts.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
            return Err(wrong("`jsonrpc` is not \"2.0\""));
        }
        let id = parts.id.filter(|id| id.get() != "null");
        if let Some(id) = id
            && !id.get().starts_with(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
        {
            return Err(wrong("`id` is neither a string nor a number"));
        }
        let method = match parts.method.filter(|method| method.get() != "null") {
            None => None,
            Some(raw) => Some(string(raw.get()).ok_or_else(|| wrong("`method` is not a text"))?),
        };
        let kind = match (&method, id, parts.result, parts.error) {
            (Some(_), Some(_), None, None) => Kind::Request,
            (Some(_), None, None, None) if parts.id.is_some() => {
                return Err(wrong("the `id` of a request is null"));
            }
            (Some(_), None, None, None) => Kind::Notification,
            (None, Some(_), Some(_), None) => Kind::Result,
            (None, _, None, Some(_)) => Kind::Error,
            _ => return Err(wrong("it is neither a request, a notification nor a response")),
        };
        let at = |raw: &RawValue| span_of(&line, raw.get());
        let (id, params) = (id.map(at), parts.params.map(at));
        let outcome = parts.result.or(parts.error).map(at);
        let method = method.unwrap_or_default();
        let (alike, members) = (parts.alike, OnceLock::new());
        Ok(Self { kind, method, id, params, outcome, alike, members, line })
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The method of a request or notification, else empty.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The `id` as raw JSON (`1`, `"a"`), when there is one.
    pub fn id(&self) -> Option<&str> {
        self.text(self.id.as_ref())
    }

    /// The `params` as raw JSON.
    pub fn params(&self) -> Option<&str> {
        self.text(self.params.as_ref())
    }

    /// The `result`, or for [`Kind::Error`] the `error`, as raw JSON.
    pub fn outcome(&self) -> Option<&str> {
        self.text(self.outcome.as_ref())
    }

    /// The name of a member beside those of JSON-RPC that a reader without regard to case would
    /// take for one of them.
    pub(crate) fn alike(&self) -> Option<&str> {
        self.alike.as_deref()
    }

    /// Where the `id` is in `line`.
    pub fn id_span(&self) -> Option<Range<usize>> {
        self.id.clone()
    }

    /// A value below `params`, by path, as raw JSON.
    pub fn param(&self, path: &[&str]) -> Option<&str> {
        let Some((first, rest)) = path.split_first() else { return self.params() };
        let found = match self.members() {
            Some(members) => {
                let (_, value) =
                    members.iter().find(|(name, _)| self.text(Some(name)) == Some(first))?;
                self.text(Some(value)).filter(|value| *value != "null")
            }
            None => field(self.params()?, first),
        };
        rest.iter().try_fold(found?, |object, name| field(object, name))
    }

    /// The names of the members of `params`, when they are remembered.
    pub(crate) fn names(&self) -> Option<Vec<Cow<'_, str>>> {
        let name = |range| self.text(Some(range)).map(Cow::Borrowed);
        self.members()?.iter().map(|(range, _)| name(range)).collect()
    }

    /// The members of `params`: they are asked for again and again on the way of a message and
    /// may be long, so they are looked for once. `None` when that is not worth it, or not possible.
    fn members(&self) -> Option<&Members> {
        let members = self.members.get_or_init(|| {
            let params = self.params().filter(|params| params.starts_with('{'))?;
            let fields = fields(params).filter(|fields| fields.len() <= MOST_MEMBERS)?;
            let place = |(name, value): &(Cow<'_, str>, &RawValue)| match name {
                Cow::Borrowed(name) => Some((self.span(name), self.span(value.get()))),
                // It is not in the line as it is meant.
                Cow::Owned(_) => None,
            };
            fields.iter().map(place).collect()
        });
        members.as_ref()
    }

    /// Where a piece of `line` that was borrowed from this envelope is.
    pub fn span(&self, piece: &str) -> Range<usize> {
        span_of(&self.line, piece)
    }

    fn text(&self, span: Option<&Range<usize>>) -> Option<&str> {
        // Parsing has checked that the line is UTF-8; the border is checked again here.
        std::str::from_utf8(self.line.get(span?.clone())?).ok()
    }
}

fn span_of(line: &[u8], piece: &str) -> Range<usize> {
    let start = piece.as_ptr() as usize - line.as_ptr() as usize;
    start..start + piece.len()
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// The members of a JSON object, in order, values raw.
pub type Fields<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((Key(name), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
            fields.push((name, value));
        }
        Ok(fields)
    }
}

/// The members of a JSON object, or `None` when the text is not one.
pub fn fields(object: &str) -> Option<Fields<'_>> {
    serde_json::Deserializer::from_str(object).deserialize_map(FieldsVisitor).ok()
}

/// One member of a JSON object, raw; `None` also when it is `null`.
pub fn field<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    if !object.trim_start().starts_with('{') {
        return None;
    }
    let found = fields(object)?.into_iter().find(|(key, _)| key == name)?;
    Some(found.1.get()).filter(|value| *value != "null")
}

/// Where a piece that was borrowed from `text` is in it.
pub fn offset(text: &str, piece: &str) -> Range<usize> {
    span_of(text.as_bytes(), piece)
}

/// What is put behind the opening brace of an object to give it more members (`"a":1`,
/// without a comma at the ends), and where. `None` when the text is no object.
pub fn insertion(object: &str, members: &str) -> Option<(usize, String)> {
    let brace = object.find(|c: char| !c.is_ascii_whitespace())?;
    let rest = object[brace..].strip_prefix('{')?;
    let comma = if rest.trim_start().starts_with('}') || members.is_empty() { "" } else { "," };
    Some((brace + 1, format!("{members}{comma}")))
}

/// The change of a message that gives its parameters this `_meta` (an object), whether it has
/// one, or any parameters, or not. `None` when the parameters are no object.
pub fn with_meta(message: &Envelope, meta: &str) -> Option<(Range<usize>, String)> {
    // Also one that is `null`: beside it, it would be there twice.
    let params = message.params().unwrap_or("null");
    let is_meta = |(name, _): &(Cow<'_, str>, _)| name == "_meta";
    let old = fields(params).and_then(|fields| fields.into_iter().find(is_meta));
    if let Some((_, old)) = old {
        return Some((message.span(old.get()), meta.to_owned()));
    }
    let member = format!(r#""_meta":{meta}"#);
    if let Some(params) = message.params() {
        if params == "null" {
            return Some((message.span(params), format!("{{{member}}}")));
        }
        let (at, text) = insertion(params, &member)?;
        let at = message.span(params).start + at;
        return Some((at..at, text));
    }
    let line = std::str::from_utf8(&message.line).ok()?;
    let (at, text) = insertion(line, &format!(r#""params":{{{member}}}"#))?;
    Some((at..at, text))
}

/// An object without the members `drop`, and with those of `set` (name and raw value), the
/// rest as it was.
pub fn rebuilt(object: Option<&str>, drop: &[&str], set: &[(&str, &str)]) -> String {
    let old = object.and_then(fields).unwrap_or_default();
    let kept = old.iter().filter(|(name, _)| {
        !drop.contains(&name.as_ref()) && !set.iter().any(|(new, _)| *new == name)
    });
    let kept = kept.map(|(name, value)| (name.as_ref(), value.get()));
    let members: Vec<String> = kept
        .chain(set.iter().copied())
        .map(|(name, value)| format!("{}:{value}", serde_json::Value::from(name)))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// One of our own numbers as others write it: servers are known that give the id `2` back as
/// `"2"` or `2.0`.
pub fn number(raw: &str) -> Option<u64> {
    let text = raw.trim_matches('"');
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let is_plain = !whole.is_empty() && whole.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain && rest.bytes().all(|byte| byte == b'0') { whole.parse().ok() } else { None }
}

/// The text of a raw JSON string.
pub fn string(raw: &str) -> Option<String> {
    serde_json::from_str(raw).ok()
}

/// `line` with the given ranges replaced, in one copy. The ranges must not overlap.
pub fn splice(line: &[u8], edits: &mut [(Range<usize>, &str)]) -> BytesMut {
    edits.sort_by_key(|(range, _)| range.start);
    let grown: usize = edits.iter().map(|(_, text)| text.len()).sum();
    let mut out = BytesMut::with_capacity(line.len() + grown + 1);
    let mut from = 0;
    for (range, text) in edits.iter() {
        out.extend_from_slice(&line[from..range.start]);
        out.extend_from_slice(text.as_bytes());
        from = range.end;
    }
    out.extend_from_slice(&line[from..]);
    out
}

/// From here on a message is changed where it lies: a second copy would double what it costs.
const LARGE: usize = 256 * 1024;

/// The message with one range replaced; without a copy of it when it is large and nobody
/// else holds it.
pub fn replaced(line: Bytes, range: Range<usize>, text: &str) -> Bytes {
    if line.len() < LARGE {
        return splice(&line, &mut [(range, text)]).freeze();
    }
    match line.try_into_mut() {
        Ok(mut line) => {
            let (old, new) = (line.len(), line.len() - range.len() + text.len());
            let end = range.start + text.len();
            line.resize(old.max(new), b' ');
            line.copy_within(range.end..old, end);
            line.truncate(new);
            line[range.start..end].copy_from_slice(text.as_bytes());
            line.freeze()
        }
        Err(shared) => splice(&shared, &mut [(range, text)]).freeze(),
    }
}

/// One line for a line-based transport: line breaks inside become spaces (in
/// valid JSON they can only be white space between tokens) and one ends it.
pub fn to_line(mut message: BytesMut) -> Bytes {
    let mut from = 0;
    while let Some(found) = memchr::memchr2(b'\n', b'\r', &message[from..]) {
        from += found;
        message[from] = b' ';
    }
    message.extend_from_slice(b"\n");
    message.freeze()
}

/// A request of our own.
pub fn request(id: u64, method: &str, params: Option<&str>) -> BytesMut {
    let params = params.map(|params| format!(r#","params":{params}"#)).unwrap_or_default();
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"{params}}}"#);
    BytesMut::from(text.as_bytes())
}

/// A notification of our own.
pub fn notification(method: &str, params: Option<&str>) -> BytesMut {
    let params = params.map(|params| format!(r#","params":{params}"#)).unwrap_or_default();
    let text = format!(r#"{{"jsonrpc":"2.0","method":"{method}"{params}}}"#);
    BytesMut::from(text.as_bytes())
}

/// The response to the request with this raw `id`.
pub fn result(id: &str, result: &str) -> BytesMut {
    let mut out = BytesMut::with_capacity(id.len() + result.len() + 40);
    for part in [r#"{"jsonrpc":"2.0","id":"#, id, r#","result":"#, result, "}"] {
        out.extend_from_slice(part.as_bytes());
    }
    out
}

/// An error response to the request with this raw `id`.
pub fn error(id: &str, code: i64, message: &str, data: Option<serde_json::Value>) -> BytesMut {
    let mut error = serde_json::json!({ "code": code, "message": message });
    if let Some(data) = data {
        error["data"] = data;
    }
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
    BytesMut::from(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_message_is_changed_where_it_lies() {
        for (old, new) in [("1", "\"a longer id\""), ("123456", "7"), ("12", "34")] {
            for size in [10, LARGE * 2] {
                let body = "x".repeat(size);
                let line = |id: &str| format!(r#"{{"id":{id},"result":"{body}"}}"#);
                // With room to grow, as a buffer that was read into has.
                let mut buffer = BytesMut::with_capacity(2 * size + 100);
                buffer.extend_from_slice(line(old).as_bytes());
                let before = buffer.as_ptr();
                let message = buffer.freeze();
                let out = replaced(message, 6..6 + old.len(), new);
                assert_eq!(out, line(new));
                assert_eq!(out.as_ptr() == before, size >= LARGE);
            }
        }
    }

    #[test]
    fn a_message_gets_a_meta_wherever_it_has_to_be_put() {
        for (message, wanted) in [
            (
                r#"{"jsonrpc":"2.0","method":"m"}"#,
                r#"{"params":{"_meta":{"k":1}},"jsonrpc":"2.0","method":"m"}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","params":{},"method":"m"}"#,
                r#"{"jsonrpc":"2.0","params":{"_meta":{"k":1}},"method":"m"}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"m","params":{ "a":1.0}}"#,
                r#"{"jsonrpc":"2.0","method":"m","params":{"_meta":{"k":1}, "a":1.0}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"m","params":{"a":1,"_meta":{"old":true}}}"#,
                r#"{"jsonrpc":"2.0","method":"m","params":{"a":1,"_meta":{"k":1}}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"m","params":{"_meta":null,"a":1}}"#,
                r#"{"jsonrpc":"2.0","method":"m","params":{"_meta":{"k":1},"a":1}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"m","params":null}"#,
                r#"{"jsonrpc":"2.0","method":"m","params":{"_meta":{"k":1}}}"#,
            ),
        ] {
            let message =
                Envelope::parse(Bytes::copy_from_slice(message.as_bytes())).expect("valid");
            let (range, text) = with_meta(&message, r#"{"k":1}"#).expect("an object");
            let line = splice(&message.line, &mut [(range, text.as_str())]);
            assert_eq!(std::str::from_utf8(&line).expect("UTF-8"), wanted);
        }
        let list = r#"{"jsonrpc":"2.0","method":"m","params":[1]}"#;
        let list = Envelope::parse(Bytes::from(list)).expect("valid");
        assert_eq!(with_meta(&list, "{}"), None);
    }

    #[test]
    fn an_object_is_rebuilt_out_of_what_it_was() {
        let old = Some(r#"{"a":1.0,"drop":2,"set":3,"é":[ ]}"#);
        let new = rebuilt(old, &["drop", "absent"], &[("set", "4"), ("new", r#""x""#)]);
        assert_eq!(new, r#"{"a":1.0,"é":[ ],"set":4,"new":"x"}"#);
        assert_eq!(rebuilt(None, &["x"], &[]), "{}");
    }

    #[test]
    fn what_somebody_else_holds_is_copied() {
        let text = format!(r#"{{"id":1,"result":"{}"}}"#, "x".repeat(LARGE));
        let message = Bytes::from(text.clone());
        let held = message.clone();
        let out = replaced(message, 6..7, "22");
        assert_eq!(held, text);
        assert_eq!(out, text.replacen('1', "22", 1));
    }
}
