//! An answer in each protocol, whole or as server-sent events.

mod chat;
mod gemini;
mod messages;
mod responses;

use crate::{Ending, conversation::Protocol, script::Act};
use futures::{Stream, stream};
use serde_json::{Value, json};
use std::{collections::VecDeque, convert::Infallible, time::Duration};

/// One server-sent event: its name (some protocols have none) and its data.
pub(crate) struct Frame(Option<&'static str>, String);

impl Frame {
    fn data(data: Value) -> Self {
        Self(None, data.to_string())
    }

    fn named(name: &'static str, mut data: Value) -> Self {
        data["type"] = json!(name);
        Self(Some(name), data.to_string())
    }

    fn text(&self) -> String {
        match self.0 {
            Some(name) => format!("event: {name}\ndata: {}\n\n", self.1),
            None => format!("data: {}\n\n", self.1),
        }
    }
}

/// A streamed answer of one protocol.
trait Wire: Send {
    /// What comes first.
    fn begin(&mut self) -> Vec<Frame>;
    /// A piece of text.
    fn piece(&mut self, text: &str) -> Vec<Frame>;
    /// All calls.
    fn calls(&mut self, calls: &[(String, Value)]) -> Vec<Frame>;
    /// What comes last.
    fn end(&mut self) -> Vec<Frame>;
}

fn wire(protocol: Protocol, model: String) -> Box<dyn Wire> {
    match protocol {
        Protocol::Chat => Box::new(chat::Chat { model, has_calls: false }),
        Protocol::Responses => Box::new(responses::Responses::new(model)),
        Protocol::Messages => Box::new(messages::Messages { model, text: None, has_calls: false }),
        Protocol::Gemini => Box::new(gemini::Gemini),
    }
}

/// The whole answer at once.
pub(crate) fn whole(protocol: Protocol, model: &str, act: &Act) -> Value {
    let (text, calls) = match act {
        Act::Say(text) => (text.clone(), &[][..]),
        Act::Call(calls) => (String::new(), &calls[..]),
        Act::Big(kib) => ((0..*kib).map(block).collect(), &[][..]),
        // Only a stream can go on without end.
        Act::Tick | Act::Silent | Act::Fail { .. } => ("not streamed".to_owned(), &[][..]),
    };
    match protocol {
        Protocol::Chat => chat::whole(model, &text, calls),
        Protocol::Responses => responses::whole(model, &text, calls),
        Protocol::Messages => messages::whole(model, &text, calls),
        Protocol::Gemini => gemini::whole(&text, calls),
    }
}

enum Next {
    Begin,
    Text(VecDeque<String>),
    Ticks(u64),
    End,
    Over,
}

/// The frames of a streamed answer, as fast as they are taken.
pub(crate) fn stream(
    protocol: Protocol,
    model: String,
    act: Act,
    ending: Ending,
) -> impl Stream<Item = Result<String, Infallible>> {
    let state = (wire(protocol, model), act, Next::Begin, ending);
    stream::unfold(state, |(mut wire, act, next, mut ending)| async move {
        let (frames, next) = match next {
            Next::Begin => {
                let mut frames = wire.begin();
                let next = match &act {
                    Act::Say(text) => {
                        Next::Text(text.split_inclusive(' ').map(str::to_owned).collect())
                    }
                    Act::Big(kib) => Next::Text((0..*kib).map(block).collect()),
                    Act::Call(calls) => {
                        frames.extend(wire.calls(calls));
                        Next::End
                    }
                    Act::Tick | Act::Silent | Act::Fail { .. } => Next::Ticks(0),
                };
                (frames, next)
            }
            Next::Text(mut pieces) => match pieces.pop_front() {
                Some(piece) => (wire.piece(&piece), Next::Text(pieces)),
                None => (Vec::new(), Next::End),
            },
            Next::Ticks(_) if act == Act::Silent => std::future::pending().await,
            Next::Ticks(number) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                (wire.piece(&format!("tick{number} ")), Next::Ticks(number + 1))
            }
            Next::End => (wire.end(), Next::Over),
            Next::Over => {
                ending.complete();
                return None;
            }
        };
        let text: String = frames.iter().map(Frame::text).collect();
        Some((Ok(text), (wire, act, next, ending)))
    })
}

/// A block of 1 KiB that says its number.
fn block(number: usize) -> String {
    let head = format!("{number:07} ");
    let fill = "x".repeat(1023 - head.len());
    format!("{head}{fill}\n")
}

/// An id that no other has in this run.
fn id(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    format!("{prefix}{:08}", NUMBER.fetch_add(1, Ordering::Relaxed))
}
