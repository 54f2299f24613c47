//! Server-sent events out of pieces of a body.

use bytes::{Buf, Bytes, BytesMut};
use std::time::Duration;

/// Largest event, bytes.
const LARGEST: usize = 64 * 1024 * 1024;

/// What one event said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The data, lines joined by spaces: as JSON it is one line.
    pub data: Bytes,
}

/// Reads events. What is said besides (`id`, `retry`) stays for a reconnect.
#[derive(Default)]
pub struct Events {
    buffer: BytesMut,
    scanned: usize,
    data: BytesMut,
    has_data: bool,
    /// The last line ended with a carriage return; a line feed that follows belongs to it.
    after_return: bool,
    /// The last event id.
    pub last_id: Option<String>,
    /// How long to wait before a reconnect, when the server said so.
    pub retry: Option<Duration>,
}

/// An event larger than the limit.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLarge;

impl Events {
    /// For the stream that goes on where this one broke off.
    pub fn on_a_new_stream(self) -> Self {
        Self { last_id: self.last_id, retry: self.retry, ..Self::default() }
    }

    /// Adds a piece of the body.
    ///
    /// # Errors
    /// [`TooLarge`]
    pub fn feed(&mut self, piece: &[u8]) -> Result<(), TooLarge> {
        if self.buffer.len() + self.data.len() + piece.len() > LARGEST {
            return Err(TooLarge);
        }
        self.buffer.extend_from_slice(piece);
        Ok(())
    }

    /// The next whole event with data.
    pub fn next(&mut self) -> Option<Event> {
        loop {
            if self.after_return && !self.buffer.is_empty() {
                self.after_return = false;
                if self.buffer[0] == b'\n' {
                    self.buffer.advance(1);
                }
            }
            let rest = &self.buffer[self.scanned..];
            let Some(found) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.scanned = self.buffer.len();
                return None;
            };
            let end = self.scanned + found;
            self.after_return = self.buffer[end] == b'\r';
            let line = self.buffer.split_to(end);
            self.scanned = 0;
            self.buffer.advance(1);
            if !line.is_empty() {
                self.take_line(&line);
            } else if std::mem::take(&mut self.has_data) {
                return Some(Event { data: std::mem::take(&mut self.data).freeze() });
            }
        }
    }

    fn take_line(&mut self, line: &[u8]) {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.extend_from_slice(b" ");
                }
                self.data.extend_from_slice(value);
            }
            b"id" => {
                self.last_id = String::from_utf8(value.to_vec()).ok().filter(|id| !id.is_empty())
            }
            b"retry" => {
                let millis = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                self.retry = millis.map(Duration::from_millis).or(self.retry);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ": hello\r\nevent: message\r\nid: 7\r\ndata: {\"a\":\r\ndata:1}\r\n\r\nretry: 250\n\n\
        data: second\n\ndata\n\nid\n: open\n\nevent: x\ndata: third\r\rdata: unfinished\n";

    #[test]
    fn events_are_the_same_however_the_body_is_cut() {
        for size in 1..TEXT.len() {
            let mut events = Events::default();
            let mut seen = Vec::new();
            let mut ids = Vec::new();
            for piece in TEXT.as_bytes().chunks(size) {
                events.feed(piece).expect("small");
                while let Some(event) = events.next() {
                    seen.push(String::from_utf8(event.data.to_vec()).expect("UTF-8"));
                    ids.push(events.last_id.clone());
                }
            }
            assert_eq!(seen, ["{\"a\": 1}", "second", "", "third"], "pieces of {size}");
            assert_eq!(ids[0].as_deref(), Some("7"));
            assert_eq!(events.last_id, None);
            assert_eq!(events.retry, Some(Duration::from_millis(250)));
        }
    }

    #[test]
    fn an_event_without_an_end_does_not_grow_for_ever() {
        let mut events = Events::default();
        let piece = vec![b'x'; LARGEST / 2];
        events.feed(&piece).expect("fits");
        assert_eq!(events.next(), None);
        events.feed(&piece).expect("fits");
        assert_eq!(events.feed(b"x"), Err(TooLarge));
    }
}
