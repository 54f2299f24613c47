//! Server-sent events, read.

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use std::pin::Pin;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its place, where it has one.
    pub id: Option<String>,
    /// Its name.
    pub name: String,
    /// Its data.
    pub data: String,
}

/// A stream of them.
pub struct Events {
    pieces: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    waiting: Vec<u8>,
}

impl Events {
    /// The body of a response.
    pub fn of(response: reqwest::Response) -> Self {
        Self { pieces: Box::pin(response.bytes_stream()), waiting: Vec::new() }
    }

    /// The next event; `None` when the stream ended or broke off.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(end) = self.waiting.windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = self.waiting.drain(..end + 2).collect();
                let event = read(&String::from_utf8_lossy(&block));
                if event.is_some() {
                    return event;
                }
            }
            self.waiting.extend_from_slice(&self.pieces.next().await?.ok()?);
        }
    }
}

/// A block's event; `None` for one without data (comments, settings).
fn read(block: &str) -> Option<Event> {
    let mut event = Event::default();
    let mut has_data = false;
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => event.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut event.name),
            "data" => {
                if has_data {
                    event.data.push('\n');
                }
                event.data.push_str(value);
                has_data = true;
            }
            _ => {}
        }
    }
    has_data.then_some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn events_are_read_however_they_are_cut() {
        let text = b": hello\nretry: 1\n\nid: 7\nevent: a\ndata: {\"x\":\"\xe4\xbd\xa0\"}\n\ndata: 1\ndata: 2\n\ndata: cut";
        for size in 1..text.len() {
            let pieces: Vec<_> =
                text.chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
            let mut events =
                Events { pieces: Box::pin(futures::stream::iter(pieces)), waiting: Vec::new() };
            let first = events.next().await.unwrap();
            assert_eq!((first.id.as_deref(), first.name.as_str()), (Some("7"), "a"));
            assert_eq!(first.data, "{\"x\":\"你\"}");
            assert_eq!(events.next().await.unwrap().data, "1\n2");
            assert_eq!(events.next().await, None);
        }
    }
}
