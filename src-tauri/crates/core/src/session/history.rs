//! Turns as they are shown: chunks of one message merged.

use crate::wire::TurnView;
use gantry_store::{TurnRow, UpdateRow};
use serde_json::Value;

/// Kinds whose neighbours are parts of one text.
const TEXT_KINDS: [&str; 3] = ["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"];

/// A stored turn with its stored updates, for the wire.
pub(super) fn turn_view(row: TurnRow, updates: Vec<UpdateRow>) -> TurnView {
    TurnView {
        id: row.id,
        number: row.number,
        prompt: read(&row.prompt).unwrap_or_default(),
        started_at: row.started_at,
        ended_at: row.ended_at,
        stop_reason: row.stop_reason,
        description: row.description,
        updates: merge(updates.iter().filter_map(|update| read(&update.json))),
    }
}

/// A row that cannot be read must not hide the others.
fn read<T: serde::de::DeserializeOwned>(json: &str) -> Option<T> {
    serde_json::from_str(json)
        .inspect_err(|error| tracing::warn!(%error, "a stored message cannot be read"))
        .ok()
}

/// Joins adjacent text chunks that differ in nothing but their text.
fn merge(updates: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut merged = Vec::new();
    let mut current: Option<(Value, String)> = None;
    for update in updates {
        match (split(update), &mut current) {
            (Ok((shell, text)), Some((before, all))) if *before == shell => all.push_str(&text),
            (Ok(chunk), _) => merged.extend(current.replace(chunk).map(join)),
            (Err(update), _) => {
                merged.extend(current.take().map(join));
                merged.push(update);
            }
        }
    }
    merged.extend(current.map(join));
    merged
}

/// A text chunk without its text, and the text; or the update as it is.
fn split(mut update: Value) -> Result<(Value, String), Value> {
    let kind = update.get("sessionUpdate").and_then(Value::as_str).unwrap_or_default();
    let is_text = update.pointer("/content/type").and_then(Value::as_str) == Some("text");
    if !TEXT_KINDS.contains(&kind) || !is_text {
        return Err(update);
    }
    match update.pointer_mut("/content/text").map(Value::take) {
        Some(Value::String(text)) => Ok((update, text)),
        other => {
            if let (Some(place), Some(other)) = (update.pointer_mut("/content/text"), other) {
                *place = other;
            }
            Err(update)
        }
    }
}

fn join((mut shell, text): (Value, String)) -> Value {
    if let Some(place) = shell.pointer_mut("/content/text") {
        *place = Value::String(text);
    }
    shell
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chunk(kind: &str, text: &str) -> Value {
        json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
    }

    #[test]
    fn only_neighbours_of_one_message_are_merged() {
        let tool = json!({"sessionUpdate": "tool_call", "toolCallId": "1"});
        let mut other = chunk("agent_message_chunk", "D");
        other["messageId"] = json!("m2");
        let odd =
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": 7}});
        let merged = merge(
            [
                chunk("agent_thought_chunk", "hm"),
                chunk("agent_message_chunk", "A"),
                chunk("agent_message_chunk", "B"),
                tool.clone(),
                chunk("agent_message_chunk", "C"),
                other.clone(),
                odd.clone(),
            ]
            .into_iter(),
        );
        assert_eq!(
            merged,
            [
                chunk("agent_thought_chunk", "hm"),
                chunk("agent_message_chunk", "AB"),
                tool,
                chunk("agent_message_chunk", "C"),
                other,
                odd,
            ]
        );
    }

    #[test]
    fn a_long_answer_becomes_one_chunk() {
        let merged = merge((0..20_000).map(|_| chunk("agent_message_chunk", "ab")));
        assert_eq!(merged.len(), 1);
        assert_eq!(merged[0]["content"]["text"].as_str().unwrap().len(), 40_000);
    }
}
