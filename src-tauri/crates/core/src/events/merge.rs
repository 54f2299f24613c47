//! Chunks of one text become one event: an agent may send a thousand a second,
//! a screen shows sixty.

use crate::wire::{Event, Happening};
use std::sync::Arc;

/// Longest text that is held back, bytes.
const LONGEST: usize = 64 * 1024;

/// Holds back at most one event: the chunk that the next one may be added to.
#[derive(Debug, Default)]
pub struct Merger {
    held: Option<Held>,
}

/// A chunk, and the whole text once others were added.
#[derive(Debug)]
struct Held {
    event: Arc<Event>,
    /// The number of the last chunk in it.
    seq: u64,
    text: Option<String>,
}

impl Held {
    /// Adds the next chunk if it belongs to this one.
    fn append(&mut self, next: &Event) -> bool {
        let (
            Happening::Update { session, turn, update },
            Happening::Update { session: next_session, turn: next_turn, update: next_update },
        ) = (&self.event.what, &next.what)
        else {
            return false;
        };
        if session != next_session || turn != next_turn {
            return false;
        }
        let (Some(first), Some(chunk)) =
            (update.shape().into_chunk(), next_update.shape().into_chunk())
        else {
            return false;
        };
        let begun = self.text.as_deref().unwrap_or(&first.text);
        if begun.len() + chunk.text.len() >= LONGEST || !first.goes_on(&chunk) {
            return false;
        }
        match &mut self.text {
            Some(text) => text.push_str(&chunk.text),
            None => self.text = Some(format!("{}{}", first.text, chunk.text)),
        }
        self.seq = next.seq;
        true
    }

    fn into_event(self) -> Arc<Event> {
        let Some(text) = self.text else { return self.event };
        let mut event = Arc::unwrap_or_clone(self.event);
        event.seq = self.seq;
        if let Happening::Update { update, .. } = &mut event.what {
            let merged = update.shape().into_chunk().map(|chunk| chunk.with_text(&text));
            *update = merged.unwrap_or_else(|| update.clone());
        }
        event.into()
    }
}

impl Merger {
    /// Takes an event and gives those that are due now, in order. One that was merged with no
    /// other is the very one that was taken.
    pub fn push(&mut self, event: impl Into<Arc<Event>>) -> Vec<Arc<Event>> {
        let event = event.into();
        let Some(mut held) = self.held.take() else {
            return self.hold_or_pass(event);
        };
        if held.append(&event) {
            self.held = Some(held);
            return Vec::new();
        }
        let mut due = vec![held.into_event()];
        due.extend(self.hold_or_pass(event));
        due
    }

    /// Gives what is held back.
    pub fn flush(&mut self) -> Option<Arc<Event>> {
        self.held.take().map(Held::into_event)
    }

    /// Whether something is held back.
    pub fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    fn hold_or_pass(&mut self, event: Arc<Event>) -> Vec<Arc<Event>> {
        let is_chunk = matches!(&event.what, Happening::Update { update, .. }
            if update.get().len() < LONGEST && update.shape().into_chunk().is_some());
        if is_chunk {
            self.held = Some(Held { seq: event.seq, event, text: None });
            Vec::new()
        } else {
            vec![event]
        }
    }
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
                update: json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
                    .into(),
            },
        }
    }

    fn text(event: &Event) -> String {
        let Happening::Update { update, .. } = &event.what else { panic!("{event:?}") };
        update.value()["content"]["text"].as_str().unwrap().to_owned()
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
            let mut value = update.value();
            value["messageId"] = json!("m1");
            *update = value.into();
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
