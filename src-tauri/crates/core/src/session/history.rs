//! Turns as they are shown: chunks of one message merged.

use super::notes::Note;
use crate::wire::{TerminalView, ToolTimes, TurnView};
use gantry_store::{TurnRow, UpdateRow};
use serde_json::Value;
use std::collections::BTreeMap;

/// Kinds whose neighbours are parts of one text.
const TEXT_KINDS: [&str; 3] = ["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"];

/// A stored turn with what was stored of it, for the wire.
pub(super) fn turn_view(row: TurnRow, lines: Vec<UpdateRow>) -> TurnView {
    let mut updates = Vec::with_capacity(lines.len());
    let (mut opening, mut permissions, mut questions) = (None, Vec::new(), Vec::new());
    let mut usage = None;
    let mut terminals: Vec<TerminalView> = Vec::new();
    let mut tools: BTreeMap<String, ToolTimes> = BTreeMap::new();
    for line in lines {
        let Some(value) = read::<Value>(&line.json) else { continue };
        if Note::is(&value) {
            match serde_json::from_value(value) {
                Ok(Note::Opening(note)) => opening = Some(note),
                Ok(Note::Permission(note)) => permissions.push(note),
                Ok(Note::Question(note)) => questions.push(note),
                Ok(Note::Terminal(note)) => terminals.push(note),
                Ok(Note::Usage { usage: note }) => usage = Some(note),
                // Of a newer version.
                Err(error) => tracing::debug!(%error, "a note of a turn cannot be read"),
            }
            continue;
        }
        note_times(&mut tools, &value, line.at);
        updates.push(value);
    }
    // They are stored in the order of their ends.
    terminals.sort_by_key(|terminal| terminal.started_at);
    TurnView {
        opening,
        permissions,
        questions,
        tools,
        terminals,
        usage,
        id: row.id,
        number: row.number,
        prompt: read(&row.prompt).unwrap_or_default(),
        started_at: row.started_at,
        ended_at: row.ended_at,
        stop_reason: row.stop_reason,
        description: row.description,
        updates: merge(updates.into_iter()),
    }
}

/// When tool calls began and ended.
fn note_times(tools: &mut BTreeMap<String, ToolTimes>, update: &Value, at: i64) {
    let kind = update.get("sessionUpdate").and_then(Value::as_str);
    if !matches!(kind, Some("tool_call" | "tool_call_update")) {
        return;
    }
    let Some(id) = update.get("toolCallId").and_then(Value::as_str) else { return };
    let times = tools.entry(id.to_owned()).or_insert(ToolTimes { started_at: at, ended_at: None });
    let status = update.get("status").and_then(Value::as_str);
    if times.ended_at.is_none() && matches!(status, Some("completed" | "failed")) {
        times.ended_at = Some(at);
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
    fn a_tool_call_lasts_from_its_first_word_to_its_first_end() {
        let mut tools = BTreeMap::new();
        let tool = |status: &str| json!({"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": status});
        note_times(&mut tools, &json!({"sessionUpdate": "tool_call", "toolCallId": "a"}), 5);
        for (status, at) in [("in_progress", 6), ("completed", 9), ("completed", 11)] {
            note_times(&mut tools, &tool(status), at);
        }
        note_times(&mut tools, &json!({"sessionUpdate": "plan"}), 7);
        assert_eq!(tools.len(), 1);
        assert_eq!(tools["a"], ToolTimes { started_at: 5, ended_at: Some(9) });
    }

    #[test]
    fn a_long_answer_becomes_one_chunk() {
        let merged = merge((0..20_000).map(|_| chunk("agent_message_chunk", "ab")));
        assert_eq!(merged.len(), 1);
        assert_eq!(merged[0]["content"]["text"].as_str().unwrap().len(), 40_000);
    }
}
