//! Chunks of one text become one event: an agent may send a thousand a second,
//! a screen shows sixty.

use crate::wire::{Event, Happening};
use serde_json::Value;

/// Longest text that is held back, bytes.
const LONGEST: usize = 64 * 1024;

/// Holds back at most one event: the chunk that the next one may be added to.
#[derive(Debug, Default)]
pub struct Merger {
    held: Option<Event>,
}

impl Merger {
    /// Takes an event and gives those that are due now, in order.
    pub fn push(&mut self, event: Event) -> Vec<Event> {
        let Some(mut held) = self.held.take() else {
            return self.hold_or_pass(event);
        };
        if append(&mut held, &event) {
            self.held = Some(held);
            return Vec::new();
        }
        let mut due = vec![held];
        due.extend(self.hold_or_pass(event));
        due
    }

    /// Gives what is held back.
    pub fn flush(&mut self) -> Option<Event> {
        self.held.take()
    }

    /// Whether something is held back.
    pub fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    fn hold_or_pass(&mut self, event: Event) -> Vec<Event> {
        if chunk_text(&event.what).is_some_and(|text| text.len() < LONGEST) {
            self.held = Some(event);
            Vec::new()
        } else {
            vec![event]
        }
    }
}

/// Adds the next chunk to the held one if they belong together.
fn append(held: &mut Event, next: &Event) -> bool {
    let Some(text) = chunk_text(&next.what) else { return false };
    let fits = chunk_text(&held.what).is_some_and(|begun| begun.len() + text.len() < LONGEST);
    let (
        Happening::Update { session, turn, update },
        Happening::Update { session: next_session, turn: next_turn, update: next_update },
    ) = (&mut held.what, &next.what)
    else {
        return false;
    };
    if !fits || session != next_session || turn != next_turn || !same_text(update, next_update) {
        return false;
    }
    let Some(Value::String(begun)) = update.pointer_mut("/content/text") else { return false };
    begun.push_str(text);
    held.seq = next.seq;
    true
}

/// Whether two chunk updates differ in nothing but their text.
pub(crate) fn same_text(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return false };
    one.len() == other.len()
        && one.iter().all(|(key, value)| {
            let Some(theirs) = other.get(key) else { return false };
            if key != "content" {
                return value == theirs;
            }
            let (Some(value), Some(theirs)) = (value.as_object(), theirs.as_object()) else {
                return false;
            };
            value.len() == theirs.len()
                && value.iter().all(|(key, item)| key == "text" || theirs.get(key) == Some(item))
        })
}

/// The text of an update that is a chunk of text.
fn chunk_text(what: &Happening) -> Option<&str> {
    match what {
        Happening::Update { update, .. } => update_text(update),
        _ => None,
    }
}

/// The text of an ACP update that is a chunk of text (`user_message_chunk`,
/// `agent_message_chunk`, `agent_thought_chunk` with a content block of type `text`).
pub(crate) fn update_text(update: &Value) -> Option<&str> {
    let kind = update.get("sessionUpdate")?.as_str()?;
    if !kind.ends_with("_chunk") || update.pointer("/content/type")?.as_str()? != "text" {
        return None;
    }
    update.pointer("/content/text")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chunk(seq: u64, session: &str, kind: &str, text: &str) -> Event {
        Event {
            seq,
            at: 0,
            what: Happening::Update {
                session: session.into(),
                turn: Some("t".into()),
                update: json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}}),
            },
        }
    }

    fn text(event: &Event) -> String {
        chunk_text(&event.what).unwrap().to_owned()
    }

    #[test]
    fn chunks_of_one_text_become_one_with_the_last_number() {
        let mut merger = Merger::default();
        assert!(merger.push(chunk(1, "a", "agent_message_chunk", "one ")).is_empty());
        assert!(merger.push(chunk(2, "a", "agent_message_chunk", "two")).is_empty());
        let event = merger.flush().unwrap();
        assert_eq!((event.seq, text(&event)), (2, "one two".to_owned()));
    }

    #[test]
    fn other_texts_and_other_events_keep_their_order() {
        let mut merger = Merger::default();
        merger.push(chunk(1, "a", "agent_thought_chunk", "thinks"));
        let due = merger.push(chunk(2, "a", "agent_message_chunk", "says"));
        assert_eq!(due.iter().map(|event| event.seq).collect::<Vec<_>>(), [1]);
        let due = merger.push(chunk(3, "b", "agent_message_chunk", "other session"));
        assert_eq!(due.iter().map(|event| event.seq).collect::<Vec<_>>(), [2]);
        let end = Event {
            seq: 4,
            at: 0,
            what: Happening::TurnEnded {
                session: "b".into(),
                turn: "t".into(),
                reason: "end_turn".into(),
                description: None,
            },
        };
        let due = merger.push(end);
        assert_eq!(due.iter().map(|event| event.seq).collect::<Vec<_>>(), [3, 4]);
        assert!(merger.flush().is_none());
    }

    #[test]
    fn chunks_that_carry_more_than_text_are_not_mixed() {
        let mut merger = Merger::default();
        let mut marked = chunk(1, "a", "agent_message_chunk", "one");
        if let Happening::Update { update, .. } = &mut marked.what {
            update["messageId"] = json!("m1");
        }
        merger.push(marked);
        let due = merger.push(chunk(2, "a", "agent_message_chunk", "two"));
        assert_eq!(due.len(), 1);
    }

    #[test]
    fn a_large_text_is_not_held_back() {
        let mut merger = Merger::default();
        let due = merger.push(chunk(1, "a", "agent_message_chunk", &"x".repeat(LONGEST)));
        assert_eq!(due.len(), 1);
        assert!(!merger.is_holding());
    }
}
