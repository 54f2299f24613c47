//! Headers of revision 2026-07-28 that repeat what the body says (specification,
//! `basic/transports/streamable-http`): how values are written, and which of a tool's
//! parameters go into headers of their own.

use crate::{Envelope, ambiguity, frame};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, value::RawValue};
use std::{borrow::Cow, collections::HashSet};

/// Carries the revision.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// Carries the method.
pub const METHOD: &str = "mcp-method";
/// Carries the name of the tool or prompt, or the address of the resource.
pub const NAME: &str = "mcp-name";
/// Begins the header of a parameter.
pub const PARAMETER: &str = "mcp-param-";

const BEFORE: &str = "=?base64?";
const AFTER: &str = "?=";
/// Integers beyond are not exact everywhere.
const SAFE: i64 = (1 << 53) - 1;

/// Why a header value cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// A value as a header carries it: as it is, or in Base64 when it could not travel.
pub fn encode(value: &str) -> String {
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        && value.trim() == value
        && !(value.starts_with(BEFORE) && value.ends_with(AFTER));
    if plain { value.to_owned() } else { format!("{BEFORE}{}{AFTER}", STANDARD.encode(value)) }
}

/// The value that a header carries.
///
/// # Errors
/// [`Unreadable`]: what is marked as Base64 is none, or no text.
pub fn decode(header: &str) -> Result<Cow<'_, str>, Unreadable> {
    let header = header.trim_matches([' ', '\t']);
    let inner = header.strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(AFTER));
    match inner {
        None => Ok(Cow::Borrowed(header)),
        Some(inner) => {
            let bytes = STANDARD.decode(inner).map_err(|_| Unreadable)?;
            String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Unreadable)
        }
    }
}

/// What `Mcp-Name` repeats; `None` for methods that have no such header.
pub fn name_of(message: &Envelope) -> Option<Option<String>> {
    let member = match message.method() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return None,
    };
    Some(message.param(&[member]).and_then(frame::string))
}

/// A parameter of a tool that goes into a header, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// The header's name behind [`PARAMETER`], in lower case.
    pub name: String,
    path: Vec<String>,
}

/// The parameters of a tool (as `tools/list` has it) that go into headers. None when the
/// annotations break a rule: such a tool is not to be offered over HTTP.
pub fn mirrored(tool: &RawValue) -> Vec<Mirrored> {
    // What is written with escapes is not found by a quick look.
    if !tool.get().contains("x-mcp-header") && !tool.get().contains('\\') {
        return Vec::new();
    }
    let schema = frame::field(tool.get(), "inputSchema").unwrap_or("null");
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let mut found = Vec::new();
    let sound = collect(&schema, &mut Vec::new(), &mut found);
    let names: HashSet<&str> = found.iter().map(|one| one.name.as_str()).collect();
    if sound && names.len() == found.len() { found } else { Vec::new() }
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Mirrored>) -> bool {
    let Some(properties) = schema["properties"].as_object() else { return true };
    properties.iter().all(|(key, property)| {
        path.push(key.clone());
        let sound = match property.get("x-mcp-header") {
            None => true,
            Some(Value::String(name)) if is_token(name) && is_primitive(property) => {
                found.push(Mirrored { name: name.to_ascii_lowercase(), path: path.clone() });
                true
            }
            Some(_) => false,
        } && collect(property, path, found);
        path.pop();
        sound
    })
}

fn is_primitive(property: &Value) -> bool {
    matches!(property["type"].as_str(), Some("string" | "integer" | "boolean"))
}

/// A name as HTTP allows it (RFC 9110, section 5.6.2).
fn is_token(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(fits)
}

impl Mirrored {
    /// What the header is to say for these `arguments` (raw JSON), not yet encoded;
    /// `None` when it is to be absent.
    pub fn value(&self, arguments: &str) -> Option<String> {
        match self.read(arguments)? {
            Value::String(text) => Some(text),
            Value::Bool(value) => Some(value.to_string()),
            Value::Number(number) => number.as_i64().map(|number| number.to_string()),
            _ => None,
        }
    }

    fn read(&self, arguments: &str) -> Option<Value> {
        let raw = self.path.iter().try_fold(arguments, |object, key| frame::field(object, key))?;
        serde_json::from_str(raw).ok()
    }

    /// Whether a header says what the body says, in the one way that it can be read.
    pub fn agrees(&self, arguments: &str, header: Option<&str>) -> bool {
        if ambiguity::on_path(arguments, &self.path) {
            return false;
        }
        match (self.value(arguments), header.map(decode)) {
            (None, None) => true,
            (Some(value), Some(Ok(header))) => {
                value == header || self.is_number(arguments, &header)
            }
            _ => false,
        }
    }

    /// `42.0` is 42.
    fn is_number(&self, arguments: &str, header: &str) -> bool {
        let whole = self.read(arguments).and_then(|value| value.as_i64());
        #[expect(clippy::cast_precision_loss, reason = "within the safe range it loses nothing")]
        let same = |number: i64| header.parse() == Ok(number as f64);
        whole.filter(|number| number.abs() <= SAFE).is_some_and(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_travel_as_the_specification_shows_it() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", ""),
        ] {
            assert_eq!(encode(value), header);
            assert_eq!(decode(header).expect("readable"), value);
        }
        assert_eq!(decode("  x\t").expect("readable"), "x");
        for literal in ["=?base64?SGVsbG8=", "SGVsbG8=", "=?BASE64?SGVsbG8=?="] {
            assert_eq!(decode(literal).expect("a literal"), literal);
        }
        for broken in ["=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?/w==?="] {
            assert_eq!(decode(broken), Err(Unreadable), "{broken}");
        }
    }

    fn tool(properties: &str) -> Box<RawValue> {
        let text = format!(r#"{{"name":"t","inputSchema":{{"properties":{properties}}}}}"#);
        RawValue::from_string(text).expect("JSON")
    }

    #[test]
    fn annotated_parameters_are_compared_with_their_headers() {
        let tool = tool(
            r#"{"a":{"type":"string","x-mcp-header":"Region"},
                "o":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},
                "b":{"type":"boolean","x-mcp-header":"Flag"},"plain":{"type":"string"}}"#,
        );
        let found = mirrored(&tool);
        let of = |name: &str| found.iter().find(|one| one.name == name).expect("mirrored");
        let body = r#"{"a":"é","o":{"n":42},"b":null}"#;
        assert!(!of("region").agrees(r#"{"a":"42"}"#, Some("42.0")), "a text is no number");
        assert!(of("region").agrees(body, Some("=?base64?w6k=?=")));
        assert!(!of("region").agrees(body, Some("e")));
        assert!(!of("region").agrees(body, None));
        assert!(!of("region").agrees(r#"{"a":"e","a":"f"}"#, Some("e")), "which one?");
        assert!(of("n").agrees(body, Some("42.0")));
        assert!(!of("n").agrees(body, Some("43")));
        assert!(of("flag").agrees(body, None));
        assert!(!of("flag").agrees(body, Some("true")));
        assert!(of("flag").agrees(r#"{"b":true}"#, Some("true")));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn annotations_that_break_a_rule_count_for_nothing() {
        for properties in [
            r#"{"a":{"type":"number","x-mcp-header":"A"}}"#,
            r#"{"a":{"type":"string","x-mcp-header":""}}"#,
            r#"{"a":{"type":"string","x-mcp-header":"a b"}}"#,
            r#"{"a":{"type":"string","x-mcp-header":7}}"#,
            r#"{"a":{"type":"string","x-mcp-header":"X"},"b":{"type":"string","x-mcp-header":"x"}}"#,
        ] {
            assert_eq!(mirrored(&tool(properties)), [], "{properties}");
        }
    }
}
