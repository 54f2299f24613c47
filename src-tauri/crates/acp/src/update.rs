//! An update as the agent wrote it. It is carried as text: a streaming agent sends
//! thousands of them a second, and almost nobody looks into one.

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};
use std::{borrow::Cow, fmt, sync::Arc};

/// The raw `update` object of a `session/update`, whatever its kind: one line of JSON.
/// Cheap to clone.
#[derive(Clone)]
pub struct RawUpdate(Arc<RawValue>);

impl RawUpdate {
    /// Takes a copy of this JSON.
    pub fn new(raw: &RawValue) -> Self {
        // Line breaks are white space in JSON, and the end of a line elsewhere.
        if raw.get().contains(['\n', '\r'])
            && let Ok(value) = serde_json::from_str::<Value>(raw.get())
        {
            return Self::from(&value);
        }
        Self(Arc::from(raw.to_owned()))
    }

    /// The JSON, in one line.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The JSON as a value.
    pub fn value(&self) -> Value {
        serde_json::from_str(self.get()).unwrap_or_default()
    }

    /// Its kind and where its parts are, without reading them.
    pub fn shape(&self) -> Shape<'_> {
        serde_json::from_str(self.get()).unwrap_or_default()
    }
}

impl From<&Value> for RawUpdate {
    fn from(value: &Value) -> Self {
        // A value can always be written.
        let raw = serde_json::value::to_raw_value(value).unwrap_or_default();
        Self(Arc::from(raw))
    }
}

impl From<Value> for RawUpdate {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl fmt::Debug for RawUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl PartialEq<Value> for RawUpdate {
    fn eq(&self, other: &Value) -> bool {
        self.value() == *other
    }
}

impl Serialize for RawUpdate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawUpdate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // By way of a value: raw JSON cannot be had from inside of tagged types.
        Value::deserialize(deserializer).map(Self::from)
    }
}

/// Whether an update of this kind is a part of the conversation. Others (commands, modes,
/// usage) tell the present state.
pub fn is_part_of_conversation(kind: &str) -> bool {
    matches!(
        kind,
        "user_message_chunk"
            | "agent_message_chunk"
            | "agent_thought_chunk"
            | "tool_call"
            | "tool_call_update"
            | "plan"
    )
}

/// Fields whose meaning does not matter here, with their raw JSON.
type Fields<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// What an update consists of.
#[derive(Debug, Default)]
pub struct Shape<'a> {
    /// `sessionUpdate`; empty when there is none.
    pub kind: Cow<'a, str>,
    content: Option<&'a str>,
    rest: Fields<'a>,
}

impl<'a> Shape<'a> {
    /// A field beside `sessionUpdate` and `content` that is a text.
    pub fn text(&self, field: &str) -> Option<Cow<'a, str>> {
        let (_, raw) = self.rest.iter().find(|(name, _)| name == field)?;
        serde_json::from_str::<Text<'a>>(raw).ok().map(|text| text.0)
    }

    /// The chunk of text that it is, if it is one.
    pub fn into_chunk(self) -> Option<TextChunk<'a>> {
        if !self.kind.ends_with("_chunk") {
            return None;
        }
        let Content { text, rest } = serde_json::from_str(self.content?).ok()?;
        Some(TextChunk { kind: self.kind, text: text?, rest: self.rest, content: rest })
    }
}

/// A chunk of a message: `*_chunk` with a content block of type `text`.
#[derive(Debug)]
pub struct TextChunk<'a> {
    /// `agent_message_chunk`, `agent_thought_chunk`, `user_message_chunk`.
    pub kind: Cow<'a, str>,
    /// Its text.
    pub text: Cow<'a, str>,
    rest: Fields<'a>,
    content: Fields<'a>,
}

impl TextChunk<'_> {
    /// Whether both differ in nothing but their text: neighbours of one message.
    pub fn goes_on(&self, next: &TextChunk<'_>) -> bool {
        self.kind == next.kind && self.rest == next.rest && self.content == next.content
    }

    /// The same with another text, as an update.
    pub fn with_text(&self, text: &str) -> RawUpdate {
        let mut json = String::with_capacity(text.len() + text.len() / 8 + 128);
        json.push_str("{\"sessionUpdate\":");
        push_text(&mut json, &self.kind);
        push_fields(&mut json, &self.rest);
        json.push_str(",\"content\":{\"type\":\"text\",\"text\":");
        push_text(&mut json, text);
        push_fields(&mut json, &self.content);
        json.push_str("}}");
        match RawValue::from_string(json) {
            Ok(raw) => RawUpdate(Arc::from(raw)),
            // Its parts are JSON, so it is.
            Err(_) => RawUpdate::from(Value::Null),
        }
    }
}

fn push_text(json: &mut String, text: &str) {
    json.push_str(&serde_json::to_string(text).unwrap_or_default());
}

fn push_fields(json: &mut String, fields: &Fields<'_>) {
    for (name, raw) in fields {
        json.push(',');
        push_text(json, name);
        json.push(':');
        json.push_str(raw);
    }
}

/// A text that is borrowed where it can be.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Shape<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Shape<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an update")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape<'de>, A::Error> {
                let mut shape = Shape::default();
                while let Some(Text(name)) = map.next_key()? {
                    let raw = map.next_value::<&'de RawValue>()?.get();
                    match &*name {
                        "sessionUpdate" => {
                            let kind = serde_json::from_str::<Text<'de>>(raw);
                            shape.kind = kind.map(|kind| kind.0).unwrap_or_default();
                        }
                        "content" => shape.content = Some(raw),
                        _ => shape.rest.push((name, raw)),
                    }
                }
                Ok(shape)
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// A content block of type `text`.
struct Content<'a> {
    text: Option<Cow<'a, str>>,
    rest: Fields<'a>,
}

impl<'de> Deserialize<'de> for Content<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Content<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a content block of type text")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content<'de>, A::Error> {
                let (mut is_text, mut content) = (false, Content { text: None, rest: Vec::new() });
                while let Some(Text(name)) = map.next_key()? {
                    match &*name {
                        "type" => is_text = map.next_value::<Text<'de>>()?.0 == "text",
                        "text" => content.text = Some(map.next_value::<Text<'de>>()?.0),
                        _ => content.rest.push((name, map.next_value::<&'de RawValue>()?.get())),
                    }
                }
                if is_text { Ok(content) } else { Err(A::Error::custom("another type")) }
            }
        }
        deserializer.deserialize_map(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn raw(json: &str) -> RawUpdate {
        RawUpdate::new(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn it_is_one_line_and_stays_as_it_was_written() {
        let odd = r#"{"z":1, "sessionUpdate":"hologram","a":{"deep":[1,null]}}"#;
        assert_eq!(raw(odd).get(), odd);
        assert_eq!(raw("{\r\n\"a\": \"x\\n\"}").get(), r#"{"a":"x\n"}"#);
        let inside = serde_json::to_string(&json!({"update": 1})).unwrap();
        assert_eq!(inside, r#"{"update":1}"#);
        #[derive(Serialize, Deserialize)]
        #[serde(tag = "type")]
        enum Tagged {
            One { update: RawUpdate },
        }
        let text = serde_json::to_string(&Tagged::One { update: raw(odd) }).unwrap();
        assert_eq!(text, format!(r#"{{"type":"One","update":{odd}}}"#));
        let Tagged::One { update } = serde_json::from_str(&text).unwrap();
        assert_eq!(update, serde_json::from_str::<Value>(odd).unwrap());
    }

    #[test]
    fn what_it_is_is_seen_without_reading_it() {
        let call = raw(
            r#"{"sessionUpdate":"tool_call","toolCallId":"a\"b","kind":"edit","rawOutput":{}}"#,
        );
        let shape = call.shape();
        assert_eq!(shape.kind, "tool_call");
        assert_eq!(shape.text("toolCallId").as_deref(), Some("a\"b"));
        assert_eq!(shape.text("rawOutput"), None);
        assert!(call.shape().into_chunk().is_none());
        for odd in ["[]", "7", "null", r#"{"sessionUpdate":7}"#, "{}"] {
            assert_eq!(raw(odd).shape().kind, "", "{odd}");
        }
    }

    #[test]
    fn chunks_that_differ_in_their_text_only_belong_together() {
        let chunk = |kind: &str, text: &str, more: &str| {
            raw(&format!(
                r#"{{"sessionUpdate":"{kind}"{more},"content":{{"type":"text","text":"{text}"}}}}"#
            ))
        };
        let goes_on = |one: &RawUpdate, other: &RawUpdate| {
            let (one, other) = (one.shape().into_chunk(), other.shape().into_chunk());
            one.unwrap().goes_on(&other.unwrap())
        };
        let one = chunk("agent_message_chunk", "a\\n", "");
        assert!(goes_on(&one, &chunk("agent_message_chunk", "b", "")));
        assert!(!goes_on(&one, &chunk("agent_thought_chunk", "b", "")));
        assert!(!goes_on(&one, &chunk("agent_message_chunk", "b", r#","messageId":"2""#)));
        let marked = chunk("agent_message_chunk", "b", r#","messageId":"2""#);
        let more = marked.shape().into_chunk().unwrap().with_text("both \"\n");
        assert_eq!(
            more,
            json!({"sessionUpdate": "agent_message_chunk", "messageId": "2",
                   "content": {"type": "text", "text": "both \"\n"}})
        );
        for other in [
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":""}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":7}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"text":"x"}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":[]}"#,
            r#"{"sessionUpdate":"agent_message_chunk"}"#,
        ] {
            assert!(raw(other).shape().into_chunk().is_none(), "{other}");
        }
    }
}
