//! Models behind an OpenAI-compatible endpoint: their list, and streaming chat completions.

use super::upstream::is_loopback;
use crate::mcp::remote::chain;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use gantry_core::bridge::MASK;
use reqwest::{
    Method,
    header::{AUTHORIZATION, HeaderValue},
};
use serde_json::{Value, json};
use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(10);
/// A shorter key would mask half of everything; in bytes.
const SHORTEST_KEY: usize = 6;
/// Longest event of a stream.
const LONGEST_EVENT: usize = 8 << 20;
/// What is shown of an answer that is no JSON.
const LONGEST_EXCERPT: usize = 300;

/// Where models are.
pub(super) struct Endpoint {
    base: String,
    key: Option<HeaderValue>,
    client: reqwest::Client,
}

/// Why there is no answer.
#[derive(Debug, PartialEq)]
pub(super) struct Problem {
    /// In the endpoint's words where it has some.
    pub(super) words: String,
    /// The conversation is longer than the model can take.
    pub(super) too_long: bool,
}

impl Problem {
    /// A problem that the endpoint explained.
    fn told(words: String, said: &str) -> Self {
        Self { words, too_long: is_about_length(said) }
    }
}

impl From<String> for Problem {
    fn from(words: String) -> Self {
        Self { words, too_long: false }
    }
}

/// Whether an error says that the conversation is too long. There is no common code
/// for it; these are the words of the servers that are in use.
fn is_about_length(said: &str) -> bool {
    let said = said.to_lowercase();
    [
        "context length",
        "context_length",
        "context window",
        "context size",
        "context limit",
        "maximum context",
        "exceed_context",
        "too many tokens",
        "prompt is too long",
        "input is too long",
        "reduce the length",
    ]
    .iter()
    .any(|words| said.contains(words))
}

/// A piece of the answer.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Thought(String),
}

/// A tool that the model wants called.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wish {
    pub(super) id: String,
    pub(super) name: String,
    /// JSON text, as the model wrote it.
    pub(super) arguments: String,
}

/// An answer as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) wishes: Vec<Wish>,
    /// `stop`, `tool_calls`, `length`, `content_filter`, …
    pub(super) finish: Option<String>,
}

impl Endpoint {
    /// `base` as `OPENAI_BASE_URL` has it.
    ///
    /// # Errors
    /// Says what is wrong, and how it looks when it is right.
    pub(super) fn new(base: &str, key: Option<&str>) -> Result<Self, String> {
        if reqwest::Url::parse(base).is_err() {
            return Err(
                "OPENAI_BASE_URL is not a URL; it looks like http://localhost:11434/v1".into()
            );
        }
        let key = match key {
            None => None,
            Some(key) => {
                let mut value = HeaderValue::try_from(format!("Bearer {key}"))
                    .map_err(|_| "OPENAI_API_KEY holds characters that a header cannot carry")?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let mut client = reqwest::Client::builder().connect_timeout(CONNECT).tcp_nodelay(true);
        if is_loopback(base) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| format!("no HTTP client: {error}"))?;
        Ok(Self { base: base.trim_end_matches('/').to_owned(), key, client })
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, format!("{}/{path}", self.base));
        match &self.key {
            Some(key) => request.header(AUTHORIZATION, key.clone()),
            None => request,
        }
    }

    fn without_key(&self, text: &str) -> String {
        let key = self.key.as_ref().and_then(|key| key.to_str().ok()?.strip_prefix("Bearer "));
        match key {
            Some(key) if key.len() >= SHORTEST_KEY => text.replace(key, MASK),
            _ => text.to_owned(),
        }
    }

    /// The names of its models, in its order.
    ///
    /// # Errors
    /// In the endpoint's words where it has some.
    pub(super) async fn models(&self) -> Result<Vec<String>, String> {
        let response = self.request(Method::GET, "models").send().await.map_err(unreachable)?;
        let status = response.status();
        let body = response.bytes().await.map_err(|error| broke(error.without_url()))?;
        if !status.is_success() {
            let told = format!("the model's endpoint answered {status}: {}", words(&body));
            return Err(self.without_key(&told));
        }
        let list: Value = serde_json::from_slice(&body)
            .map_err(|_| format!("the model's endpoint sent no JSON: {}", words(&body)))?;
        let entries = list.get("data").and_then(Value::as_array).into_iter().flatten();
        Ok(entries.filter_map(|entry| Some(entry.get("id")?.as_str()?.to_owned())).collect())
    }

    /// Sends the conversation and reads the answer; `heard` gets each piece as it
    /// comes, and `answer` holds all of it at every moment, also when this is dropped.
    ///
    /// # Errors
    /// In the endpoint's words where it has some.
    pub(super) async fn complete(
        &self,
        model: &str,
        messages: &[Value],
        tools: &[Value],
        answer: &mut Answer,
        mut heard: impl FnMut(Piece),
    ) -> Result<(), Problem> {
        let mut body = json!({"model": model, "messages": messages, "stream": true});
        if !tools.is_empty() {
            body["tools"] = tools.into();
        }
        let request = self.request(Method::POST, "chat/completions").json(&body);
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if !status.is_success() {
            let body = response.bytes().await.unwrap_or_default();
            let told = format!("the model's endpoint answered {status}: {}", words(&body));
            // Some repeat the key that they refuse.
            let told = self.without_key(&told);
            return Err(Problem::told(told, &String::from_utf8_lossy(&body)));
        }
        let is_stream = response
            .headers()
            .get(reqwest::header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if !is_stream {
            // Some gateways ignore `stream` and send the whole answer at once.
            let body = response.bytes().await.map_err(|error| broke(error.without_url()))?;
            let whole: Value = serde_json::from_slice(&body)
                .map_err(|_| format!("the model's endpoint sent no JSON: {}", words(&body)))?;
            return answer.take(&whole, &mut heard);
        }
        let chunks = response.bytes_stream().map(|chunk| chunk.map_err(|e| broke(e.without_url())));
        let is_done = read_events(chunks, |data| {
            let event = serde_json::from_str(data)
                .map_err(|error| format!("the model's endpoint sent broken JSON: {error}"))?;
            answer.take(&event, &mut heard)
        })
        .await?;
        if !is_done && answer.finish.is_none() {
            return Err("the model's answer broke off before its end".to_owned().into());
        }
        Ok(())
    }
}

fn unreachable(error: reqwest::Error) -> String {
    format!("the model's endpoint cannot be reached: {}", chain(&error.without_url()))
}

fn broke(error: reqwest::Error) -> String {
    format!("the model's answer broke off: {}", chain(&error))
}

/// What an error body says.
fn words(body: &[u8]) -> String {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let message = parsed.as_ref().and_then(message_of);
    message.unwrap_or_else(|| {
        String::from_utf8_lossy(body).trim().chars().take(LONGEST_EXCERPT).collect()
    })
}

fn message_of(value: &Value) -> Option<String> {
    let error = value.get("error")?;
    let message = error.get("message").unwrap_or(error);
    Some(message.as_str().map_or_else(|| message.to_string(), str::to_owned))
}

/// Calls `event` with the data of each server-sent event until `[DONE]` or the end; whether the
/// former came.
async fn read_events(
    chunks: impl Stream<Item = Result<Bytes, String>>,
    mut event: impl FnMut(&str) -> Result<(), Problem>,
) -> Result<bool, Problem> {
    let mut chunks = std::pin::pin!(chunks);
    let mut buffer: Vec<u8> = Vec::new();
    while let Some(chunk) = chunks.next().await {
        buffer.extend_from_slice(&chunk?);
        let mut start = 0;
        while let Some(length) = buffer[start..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&buffer[start..start + length]);
            start += length + 1;
            let Some(data) = line.trim_end().strip_prefix("data:") else { continue };
            match data.trim() {
                "" => {}
                "[DONE]" => return Ok(true),
                data => event(data)?,
            }
        }
        buffer.drain(..start);
        if buffer.len() > LONGEST_EVENT {
            return Err("the model's endpoint sent an event that is too long".to_owned().into());
        }
    }
    Ok(false)
}

impl Answer {
    /// Adds one event of the stream, or a whole answer.
    fn take(&mut self, event: &Value, heard: &mut impl FnMut(Piece)) -> Result<(), Problem> {
        if let Some(message) = message_of(event) {
            let told = format!("the model's endpoint reported an error: {message}");
            return Err(Problem::told(told, &event.to_string()));
        }
        let Some(choice) = event.pointer("/choices/0") else { return Ok(()) };
        let empty = Value::Null;
        let delta = choice.get("delta").or(choice.get("message")).unwrap_or(&empty);
        let text = |name: &str| delta.get(name).and_then(Value::as_str).filter(|t| !t.is_empty());
        if let Some(thought) = text("reasoning_content").or(text("reasoning")) {
            heard(Piece::Thought(thought.to_owned()));
        }
        if let Some(words) = text("content") {
            self.text.push_str(words);
            heard(Piece::Text(words.to_owned()));
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.wish(call);
        }
        if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(finish.to_owned());
        }
        Ok(())
    }

    /// A tool call comes in parts that carry its index; some endpoints leave the
    /// index out and send each call whole.
    fn wish(&mut self, part: &Value) {
        let text =
            |pointer: &str| part.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (id, name) = (text("/id"), text("/function/name"));
        let at = match part.get("index").and_then(Value::as_u64) {
            Some(index) => usize::try_from(index).unwrap_or(usize::MAX).min(self.wishes.len()),
            None if id.is_empty() && name.is_empty() => self.wishes.len().saturating_sub(1),
            None => self.wishes.len(),
        };
        if at == self.wishes.len() {
            self.wishes.push(Wish::default());
        }
        let wish = &mut self.wishes[at];
        if !id.is_empty() {
            wish.id = id.to_owned();
        }
        if wish.name.is_empty() {
            wish.name = name.to_owned();
        }
        wish.arguments.push_str(text("/function/arguments"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(text: &str, cut: usize) -> impl Stream<Item = Result<Bytes, String>> {
        let chunks: Vec<_> =
            text.as_bytes().chunks(cut).map(|c| Ok(Bytes::copy_from_slice(c))).collect();
        futures::stream::iter(chunks)
    }

    const EVENTS: &str = concat!(
        ": comment\n\n",
        "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"数据 \"}}]}\r\n\r\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"echo\",\"arguments\":\"{\\\"m\\\"\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"add\",\"arguments\":\"{}\"}},{\"index\":0,\"function\":{\"arguments\":\":1}\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{}}\n\n",
        "data: [DONE]\n\ndata: broken\n\n",
    );

    #[tokio::test]
    async fn a_streamed_answer_is_put_together_however_it_is_cut() {
        for cut in [1, 2, 7, 4096] {
            let mut answer = Answer::default();
            let mut heard = Vec::new();
            read_events(stream(EVENTS, cut), |data| {
                let event = serde_json::from_str(data).map_err(|error| error.to_string())?;
                answer.take(&event, &mut |piece| heard.push(piece))
            })
            .await
            .unwrap();
            assert_eq!(heard, [Piece::Thought("hm".into()), Piece::Text("数据 ".into())]);
            assert_eq!(answer.text, "数据 ");
            let wish = |id: &str, name: &str, arguments: &str| Wish {
                id: id.into(),
                name: name.into(),
                arguments: arguments.into(),
            };
            assert_eq!(answer.wishes, [wish("a", "echo", "{\"m\":1}"), wish("b", "add", "{}")]);
            assert_eq!(answer.finish.as_deref(), Some("tool_calls"));
        }
    }

    #[test]
    fn errors_are_told_in_the_endpoint_s_words() {
        assert_eq!(words(br#"{"error":{"message":"no such model","code":404}}"#), "no such model");
        assert_eq!(words(br#"{"error":"busy"}"#), "busy");
        assert_eq!(words(b" <html>gateway</html> "), "<html>gateway</html>");
        let event = json!({"error": {"message": "overloaded"}});
        assert!(
            Answer::default().take(&event, &mut |_| ()).unwrap_err().words.ends_with("overloaded")
        );
    }

    #[test]
    fn an_answer_that_says_the_conversation_is_too_long_is_known_by_its_words() {
        for said in [
            r#"{"error":{"code":"context_length_exceeded"}}"#,
            "This model's maximum context length is 8192 tokens.",
            r#"{"error":{"type":"exceed_context_size_error"}}"#,
            "Prompt is too long: 210000 tokens",
        ] {
            assert!(is_about_length(said), "{said}");
        }
        assert!(!is_about_length("model `a` not found"));
    }

    #[test]
    fn a_whole_answer_is_taken_as_well() {
        let mut answer = Answer::default();
        let whole = json!({"choices": [{"message": {"content": "hi", "tool_calls": [
            {"id": "x", "function": {"name": "n", "arguments": "{}"}},
            {"id": "y", "function": {"name": "m", "arguments": "{}"}},
        ]}, "finish_reason": "stop"}]});
        answer.take(&whole, &mut |_| ()).unwrap();
        assert_eq!((answer.text.as_str(), answer.wishes.len()), ("hi", 2));
    }
}
