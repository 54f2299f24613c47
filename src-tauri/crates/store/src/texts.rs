//! What was said in a turn, taken out of the stored JSON. The only place of the
//! store that looks into it.

use rusqlite::{Connection, OptionalExtension, params};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::borrow::Cow;

/// The index keeps at most this much of one side of a turn, in bytes.
const LONGEST: usize = 1 << 20;

/// The user's words: content blocks of type `text`, one a line.
pub(crate) fn of_prompt(json: &str) -> String {
    let Ok(Value::Array(blocks)) = serde_json::from_str(json) else { return String::new() };
    let texts: Vec<&str> = blocks.iter().filter_map(text_of_block).collect();
    cut(texts.join("\n"))
}

/// What of an update is looked at. A tool's output may have megabytes: it is skipped, not read.
#[derive(Deserialize)]
struct Update<'a> {
    #[serde(rename = "sessionUpdate", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// The agent's words: message chunks joined; what stands after a tool call
/// begins a new paragraph.
#[derive(Default)]
struct Said {
    text: String,
    paragraph_ended: bool,
}

impl Said {
    /// Takes the next update in; false when there is enough.
    fn add(&mut self, json: &str) -> bool {
        let Ok(update) = serde_json::from_str::<Update<'_>>(json) else { return true };
        match &*update.kind {
            "agent_message_chunk" => {
                let content = update.content.map(RawValue::get);
                let block = content.and_then(|json| serde_json::from_str::<Value>(json).ok());
                let Some(text) = block.as_ref().and_then(text_of_block) else { return true };
                if self.paragraph_ended && !self.text.is_empty() {
                    self.text.push_str("\n\n");
                }
                self.paragraph_ended = false;
                self.text.push_str(text);
            }
            "tool_call" => self.paragraph_ended = true,
            _ => {}
        }
        self.text.len() <= LONGEST
    }
}

fn text_of_block(block: &Value) -> Option<&str> {
    (block.get("type")?.as_str()? == "text").then(|| block.get("text")?.as_str())?
}

fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
    }
    text
}

/// Like [`index_turn`], but what was said is more important than that it can be
/// found: a failure is logged, and the next start tries again.
pub(crate) fn index_ended(connection: &Connection, turn_id: &str) {
    if let Err(error) = index_turn(connection, turn_id) {
        tracing::warn!(turn = turn_id, %error, "a turn could not be made searchable yet");
    }
}

/// Makes an ended turn searchable, in place of what was there for it. The
/// caller holds a transaction.
fn index_turn(connection: &Connection, turn_id: &str) -> rusqlite::Result<()> {
    let turn = connection
        .prepare_cached(
            "SELECT session_id, number, prompt, started_at, ended_at FROM turns
             WHERE id = ?1 AND ended_at IS NOT NULL",
        )?
        .query_row([turn_id], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, i64>(1)?,
                // Bytes, not text: a row that is not UTF-8 must not stop the others.
                row.get_ref(2)?.as_bytes().map(lossy).unwrap_or_default(),
                row.get::<_, i64>(3)?,
                row.get::<_, i64>(4)?,
            ))
        })
        .optional()?;
    let Some((session, number, prompt, started_at, ended_at)) = turn else { return Ok(()) };
    let mut said = Said::default();
    {
        // One after the other: everybody's writes wait behind this.
        let mut statement = connection
            .prepare_cached("SELECT json FROM updates WHERE turn_id = ?1 ORDER BY seq")?;
        let mut rows = statement.query([turn_id])?;
        while let Some(row) = rows.next()? {
            let json = row.get_ref(0)?.as_bytes().map(String::from_utf8_lossy);
            if !said.add(&json.unwrap_or_default()) {
                break;
            }
        }
    }
    connection
        .prepare_cached("DELETE FROM texts WHERE session_id = ?1 AND turn = ?2")?
        .execute(params![session, number])?;
    let sides = [("user", started_at, of_prompt(&prompt)), ("agent", ended_at, cut(said.text))];
    for (role, at, text) in sides {
        if text.trim().is_empty() {
            continue;
        }
        connection
            .prepare_cached(
                "INSERT INTO texts (session_id, turn, role, at, text) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![session, number, role, at, text])?;
    }
    connection.prepare_cached("UPDATE turns SET indexed = 1 WHERE id = ?1")?.execute([turn_id])?;
    Ok(())
}

/// Indexes some of the turns that wait for it; how many were done.
pub(crate) fn index_waiting(connection: &mut Connection, limit: u32) -> rusqlite::Result<usize> {
    let waiting: Vec<String> = connection
        .prepare_cached("SELECT id FROM turns WHERE indexed = 0 AND ended_at IS NOT NULL LIMIT ?1")?
        .query_map([limit], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    if waiting.is_empty() {
        return Ok(0);
    }
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    for id in &waiting {
        if let Err(error) = index_turn(&transaction, id) {
            tracing::warn!(turn = id, %error, "a turn could not be made searchable");
            transaction
                .prepare_cached("UPDATE turns SET indexed = 1 WHERE id = ?1")?
                .execute([id])?;
        }
    }
    transaction.commit()?;
    Ok(waiting.len())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_text_is_the_text_blocks_only() {
        let prompt = r#"[{"type":"text","text":"first"},{"type":"image","data":"AAAA"},
            {"type":"text","text":"第二"}]"#;
        assert_eq!(of_prompt(prompt), "first\n第二");
        assert_eq!(of_prompt("not json"), "");
        assert_eq!(of_prompt(r#"{"type":"text","text":"no array"}"#), "");
    }

    #[test]
    fn chunks_are_joined_and_tool_calls_separate_paragraphs() {
        let updates = [
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hel"}}"#,
            r#"{"sessionUpdate":"usage_update","used":1}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"lo"}}"#,
            r#"{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"secret"}}"#,
            "broken {",
            r#"{"sessionUpdate":"tool_call","toolCallId":"1","title":"x"}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"done"}}"#,
        ];
        let mut said = Said::default();
        assert!(updates.iter().all(|update| said.add(update)));
        assert_eq!(said.text, "Hello\n\ndone");
    }

    #[test]
    fn the_output_of_a_tool_is_not_searched_and_enough_is_enough() {
        let mut said = Said::default();
        let output = format!(
            r#"{{"sessionUpdate":"tool_call_update","content":[{{"type":"content","content":{{"type":"text","text":"{}"}}}}]}}"#,
            "x".repeat(2 << 20)
        );
        assert!(said.add(&output));
        assert_eq!(said.text, "");
        let long = format!(
            r#"{{"content":{{"type":"text","text":"{}"}},"sessionUpdate":"agent_message_chunk"}}"#,
            "y".repeat(LONGEST + 1)
        );
        assert!(!said.add(&long));
        assert_eq!(cut(said.text).len(), LONGEST);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let json = serde_json::to_string(&serde_json::json!([
            {"type": "text", "text": "字".repeat(LONGEST / 2)}
        ]))
        .unwrap();
        let text = of_prompt(&json);
        assert!(text.len() <= LONGEST && text.len() > LONGEST - 4);
    }
}
