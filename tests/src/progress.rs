//! Reading `GET /computer/progress/{session}` and `GET /events`: server-sent events.

use serde_json::Value;
use std::{collections::VecDeque, time::Duration};

/// One server-sent event.
#[derive(Clone, Debug)]
pub struct Event {
    /// The `id` line.
    pub id: Option<String>,
    /// The `event` line; empty when there was none.
    pub name: String,
    /// The `data` line, as JSON.
    pub data: Value,
}

/// An open event stream.
pub struct Progress {
    response: reqwest::Response,
    text: String,
    ready: VecDeque<Event>,
    /// Every event so far.
    pub seen: Vec<Event>,
}

impl Progress {
    /// Reads events from this response.
    pub fn new(response: reqwest::Response) -> Self {
        Self { response, text: String::new(), ready: VecDeque::new(), seen: Vec::new() }
    }

    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.seen.push(event.clone());
                return Some(event);
            }
            let chunk = self.response.chunk().await.ok().flatten()?;
            self.text.push_str(&String::from_utf8_lossy(&chunk));
            while let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                self.ready.extend(parse(&block));
            }
        }
    }

    /// The first event for which `wanted` holds.
    ///
    /// # Panics
    /// When the stream ends or `bound` passes before it comes.
    pub async fn until(
        &mut self,
        what: &str,
        bound: Duration,
        wanted: impl Fn(&Event) -> bool,
    ) -> Event {
        let found = tokio::time::timeout(bound, async {
            while let Some(event) = self.next().await {
                if wanted(&event) {
                    return Some(event);
                }
            }
            None
        });
        match found.await {
            Ok(Some(event)) => event,
            Ok(None) => panic!("the stream ended before: {what}; seen {:#?}", self.seen),
            Err(_) => panic!("not within {bound:?}: {what}; seen {:#?}", self.seen),
        }
    }

    /// Reads to the end of the turn and returns its stop reason.
    ///
    /// # Panics
    /// When the turn has not ended after `bound`.
    pub async fn end_of_turn(&mut self, bound: Duration) -> String {
        let end = self
            .until("the end of the turn", bound, |e| e.data["messageType"] == "sessionPromptEnd");
        end.await.name
    }

    /// The agent's text of all events so far.
    pub fn text(&self) -> String {
        let chunks = self.seen.iter().filter(|event| event.name == "agent_message_chunk");
        chunks.filter_map(|event| text_of(&event.data)).collect()
    }
}

/// The text of a message chunk, wherever the envelope has the update.
fn text_of(data: &Value) -> Option<String> {
    let inner = &data["data"];
    let update = if inner["update"].is_object() { &inner["update"] } else { inner };
    Some(update["content"]["text"].as_str()?.to_owned())
}

fn parse(block: &str) -> Option<Event> {
    let mut event = Event { id: None, name: String::new(), data: Value::Null };
    let mut data = Vec::new();
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => event.id = Some(value.to_owned()),
            "event" => event.name = value.to_owned(),
            "data" => data.push(value),
            _ => {}
        }
    }
    if data.is_empty() {
        return None;
    }
    event.data = serde_json::from_str(&data.join("\n")).unwrap_or(Value::Null);
    Some(event)
}
