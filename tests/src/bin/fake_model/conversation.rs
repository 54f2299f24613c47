//! What a model request says, whatever its protocol.

use serde_json::Value;

/// How an agent speaks to its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// OpenAI, `POST …/chat/completions`.
    Chat,
    /// OpenAI, `POST …/responses`.
    Responses,
    /// Anthropic, `POST …/messages`.
    Messages,
    /// Google, `POST …:generateContent` and `…:streamGenerateContent`.
    Gemini,
}

impl Protocol {
    /// By the path of the request.
    pub fn of(path: &str) -> Option<Self> {
        match path {
            _ if path.ends_with("/chat/completions") => Some(Self::Chat),
            _ if path.ends_with("/responses") => Some(Self::Responses),
            _ if path.ends_with("/messages") => Some(Self::Messages),
            _ if path.contains("enerateContent") => Some(Self::Gemini),
            _ => None,
        }
    }
}

/// The part of a request that an answer depends on.
#[derive(Debug, Default)]
pub struct Conversation {
    /// Names of the tools; `space::name` for those in a name space.
    pub tools: Vec<String>,
    /// The last text of the user.
    pub user: String,
    /// Results of the tools that were called since, one after the other.
    pub results: Vec<String>,
}

enum Turn {
    User(String),
    Result(String),
    Other,
}

impl Conversation {
    /// Reads it out of a request.
    pub fn read(protocol: Protocol, body: &Value) -> Self {
        let turns = match protocol {
            Protocol::Chat => list(&body["messages"]).iter().map(chat_turn).collect(),
            Protocol::Responses => responses_turns(&body["input"]),
            Protocol::Messages => list(&body["messages"]).iter().flat_map(messages_turns).collect(),
            Protocol::Gemini => list(&body["contents"]).iter().flat_map(gemini_turns).collect(),
        };
        let mut read = Self { tools: tools(protocol, body), ..Self::default() };
        for turn in turns {
            match turn {
                // What agents put around the user's words: it stands in tags.
                Turn::User(text) if !without_tags(&text).trim().is_empty() => {
                    read.user = text;
                    read.results.clear();
                }
                Turn::Result(text) => read.results.push(text),
                Turn::User(_) | Turn::Other => {}
            }
        }
        read
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn name(value: &Value) -> Option<String> {
    value["name"].as_str().map(str::to_owned)
}

fn tools(protocol: Protocol, body: &Value) -> Vec<String> {
    let tools = list(&body["tools"]).iter();
    match protocol {
        Protocol::Chat => tools.filter_map(|tool| name(&tool["function"])).collect(),
        Protocol::Messages => tools.filter_map(name).collect(),
        Protocol::Gemini => {
            tools.flat_map(|tool| list(&tool["functionDeclarations"])).filter_map(name).collect()
        }
        Protocol::Responses => tools
            .flat_map(|tool| match tool["type"].as_str() {
                Some("namespace") => {
                    let space = tool["name"].as_str().unwrap_or_default();
                    let inner = list(&tool["tools"]).iter().filter_map(name);
                    inner.map(|name| format!("{space}::{name}")).collect()
                }
                _ => name(tool).into_iter().collect::<Vec<_>>(),
            })
            .collect(),
    }
}

fn chat_turn(message: &Value) -> Turn {
    match message["role"].as_str() {
        Some("user") => Turn::User(text(&message["content"])),
        Some("tool") => Turn::Result(text(&message["content"])),
        _ => Turn::Other,
    }
}

fn responses_turns(input: &Value) -> Vec<Turn> {
    if let Some(input) = input.as_str() {
        return vec![Turn::User(input.to_owned())];
    }
    let turn = |item: &Value| match item["type"].as_str().unwrap_or("message") {
        "message" if item["role"] == "user" => Turn::User(text(&item["content"])),
        kind if kind.ends_with("_call_output") => Turn::Result(text(&item["output"])),
        _ => Turn::Other,
    };
    list(input).iter().map(turn).collect()
}

fn messages_turns(message: &Value) -> Vec<Turn> {
    if message["role"] != "user" {
        return Vec::new();
    }
    let parts = list(&message["content"]);
    let is_result = |part: &&Value| part["type"] == "tool_result";
    let results = parts.iter().filter(is_result);
    let mut turns: Vec<Turn> = results.map(|part| Turn::Result(text(&part["content"]))).collect();
    // Beside a result stand reminders in tags, or what the user said after they
    // had cancelled the call.
    turns.push(Turn::User(match &message["content"] {
        Value::String(said) => said.clone(),
        _ => parts.iter().filter(|part| !is_result(part)).map(text).collect::<Vec<_>>().join("\n"),
    }));
    turns
}

fn gemini_turns(content: &Value) -> Vec<Turn> {
    let parts = list(&content["parts"]);
    let results: Vec<Turn> = parts
        .iter()
        .filter_map(|part| part.get("functionResponse"))
        .map(|response| Turn::Result(response["response"].to_string()))
        .collect();
    match (content["role"] == "model", results.is_empty()) {
        (false, true) => vec![Turn::User(text(&content["parts"]))],
        (false, false) => results,
        (true, _) => Vec::new(),
    }
}

/// All text in a content value, in its order.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text).collect::<Vec<_>>().join("\n"),
        Value::Object(part) => ["text", "content", "output"]
            .iter()
            .find_map(|key| part.get(*key))
            .map_or_else(String::new, text),
        _ => String::new(),
    }
}

/// The text without `<tag>…</tag>` blocks.
fn without_tags(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find('<') {
        let (before, from) = rest.split_at(begin);
        kept.push_str(before);
        let tag: String = from[1..]
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c))
            .collect();
        let close = format!("</{tag}>");
        match from.find(&close) {
            Some(end) if !tag.is_empty() => rest = &from[end + close.len()..],
            _ => {
                kept.push('<');
                rest = &from[1..];
            }
        }
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(protocol: Protocol, body: &Value) -> (Vec<String>, String, Vec<String>) {
        let read = Conversation::read(protocol, body);
        (read.tools, read.user, read.results)
    }

    #[test]
    fn every_protocol_says_tools_the_last_user_text_and_the_results_since() {
        let chat = json!({
            "tools": [{ "type": "function", "function": { "name": "echo" } }],
            "messages": [
                { "role": "user", "content": "old" }, { "role": "tool", "content": "old result" },
                { "role": "user", "content": [{ "type": "text", "text": "do" }] },
                { "role": "assistant", "tool_calls": [] }, { "role": "tool", "content": "done" },
            ],
        });
        let responses = json!({
            "tools": [{ "type": "function", "name": "echo" }],
            "input": [
                { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "do" }] },
                { "type": "function_call", "name": "echo" },
                { "type": "function_call_output", "output": "done" },
            ],
        });
        let messages = json!({
            "tools": [{ "name": "echo" }],
            "messages": [
                { "role": "user", "content": "do" },
                { "role": "assistant", "content": [{ "type": "tool_use" }] },
                { "role": "user", "content": [
                    { "type": "tool_result", "content": [{ "type": "text", "text": "done" }] },
                    { "type": "text", "text": "<reminder>be kind</reminder>" }] },
            ],
        });
        for (protocol, body) in [
            (Protocol::Chat, chat),
            (Protocol::Responses, responses),
            (Protocol::Messages, messages),
        ] {
            let expected = (vec!["echo".to_owned()], "do".to_owned(), vec!["done".to_owned()]);
            assert_eq!(read(protocol, &body), expected, "{protocol:?}");
        }
        let gemini = json!({
            "tools": [{ "functionDeclarations": [{ "name": "echo" }] }],
            "contents": [
                { "role": "user", "parts": [{ "text": "do" }] },
                { "role": "model", "parts": [{ "functionCall": {} }] },
                { "role": "user", "parts": [{ "functionResponse": { "response": { "output": "done" } } }] },
            ],
        });
        let (tools, user, results) = read(Protocol::Gemini, &gemini);
        assert_eq!((tools[0].as_str(), user.as_str()), ("echo", "do"));
        assert_eq!(results, [r#"{"output":"done"}"#]);
    }

    #[test]
    fn what_an_agent_puts_around_the_users_words_does_not_count_as_their_words() {
        assert_eq!(without_tags("<a-b>x</a-b> 1 < 2 <c>"), " 1 < 2 <c>");
        let body = json!({ "messages": [
            { "role": "user", "content": "DO: SAY x" },
            { "role": "user", "content": "<reminder>DO: SAY y</reminder>\n" },
        ] });
        assert_eq!(read(Protocol::Chat, &body).1, "DO: SAY x");
    }

    #[test]
    fn a_text_beside_the_result_of_a_cancelled_call_is_a_new_request() {
        let body = json!({ "messages": [{ "role": "user", "content": [
            { "type": "tool_result", "content": "rejected" }, { "type": "text", "text": "DO: SAY x" },
        ] }] });
        let (_, user, results) = read(Protocol::Messages, &body);
        assert_eq!((user.as_str(), results.len()), ("DO: SAY x", 0));
    }

    #[test]
    fn tools_in_a_name_space_are_found() {
        let body = json!({ "tools": [{ "type": "namespace", "name": "mcp__s__", "tools": [{ "name": "echo" }] }] });
        assert_eq!(read(Protocol::Responses, &body).0, ["mcp__s__::echo"]);
    }
}
