//! What is stored of updates that came together: neighbours of one text become one
//! line, as the history shows them. Pure.

use gantry_acp::{RawUpdate, TextChunk};

/// Longest text that is stored as one line, bytes.
const LONGEST: usize = 64 * 1024;

/// Lines to be stored, each with its turn.
#[derive(Default)]
pub(super) struct Lines<'a> {
    done: Vec<(Option<String>, String)>,
    run: Option<Run<'a>>,
}

/// A chunk of text to which others may be added.
struct Run<'a> {
    turn: Option<String>,
    raw: &'a RawUpdate,
    first: TextChunk<'a>,
    /// The whole text, once others were added.
    text: Option<String>,
}

impl<'a> Run<'a> {
    fn add(&mut self, turn: Option<&str>, next: &TextChunk<'_>) -> bool {
        let begun = self.text.as_deref().unwrap_or(&self.first.text);
        if self.turn.as_deref() != turn
            || begun.len() + next.text.len() > LONGEST
            || !self.first.goes_on(next)
        {
            return false;
        }
        match &mut self.text {
            Some(text) => text.push_str(&next.text),
            None => self.text = Some(format!("{}{}", self.first.text, next.text)),
        }
        true
    }

    fn into_line(self) -> (Option<String>, String) {
        let json = match &self.text {
            Some(text) => self.first.with_text(text).get().to_owned(),
            None => self.raw.get().to_owned(),
        };
        (self.turn, json)
    }
}

impl<'a> Lines<'a> {
    /// The next update and, if it is one, the chunk that it is.
    pub(super) fn push(
        &mut self,
        turn: Option<&str>,
        raw: &'a RawUpdate,
        chunk: Option<TextChunk<'a>>,
    ) {
        if let (Some(chunk), Some(run)) = (&chunk, &mut self.run)
            && run.add(turn, chunk)
        {
            return;
        }
        self.done.extend(self.run.take().map(Run::into_line));
        let turn = turn.map(str::to_owned);
        match chunk {
            Some(first) => self.run = Some(Run { turn, raw, first, text: None }),
            None => self.done.push((turn, raw.get().to_owned())),
        }
    }

    /// All of them, in order.
    pub(super) fn finish(mut self) -> Vec<(Option<String>, String)> {
        self.done.extend(self.run.take().map(Run::into_line));
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn chunk(text: &str) -> RawUpdate {
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
            .into()
    }

    #[test]
    fn neighbours_of_one_text_are_one_line_and_the_rest_is_as_it_came() {
        let tool: RawUpdate = json!({"sessionUpdate": "tool_call", "toolCallId": "1"}).into();
        let all = [chunk("a"), chunk("b"), tool.clone(), chunk("c"), chunk("d"), chunk("e")];
        let turns = [Some("1"), Some("1"), Some("1"), Some("1"), Some("2"), Some("2")];
        let mut lines = Lines::default();
        for (update, turn) in all.iter().zip(turns) {
            lines.push(turn, update, update.shape().into_chunk());
        }
        let lines = lines.finish();
        let shown: Vec<(&str, String)> = lines
            .iter()
            .map(|(turn, json)| {
                let value: Value = serde_json::from_str(json).unwrap();
                let text = value["content"]["text"].as_str().unwrap_or("tool").to_owned();
                (turn.as_deref().unwrap(), text)
            })
            .collect();
        let expected = [("1", "ab"), ("1", "tool"), ("1", "c"), ("2", "de")];
        assert_eq!(shown, expected.map(|(turn, text)| (turn, text.to_owned())));
        assert_eq!(lines[1].1, tool.get());
    }

    #[test]
    fn a_line_is_bounded() {
        let part = "x".repeat(10_000);
        let all: Vec<RawUpdate> = (0..100).map(|_| chunk(&part)).collect();
        let mut lines = Lines::default();
        for update in &all {
            lines.push(None, update, update.shape().into_chunk());
        }
        let lines = lines.finish();
        assert_eq!(lines.len(), 17);
        assert!(lines.iter().all(|(_, json)| json.len() < LONGEST + 200));
    }
}
