//! What a server and the bridge said to each other: listened to on the two streams of the
//! process, so that it is what really went over the wire.

use super::{references, spec::is_reference};
use crate::{
    session::is_secret,
    traffic::{LONGEST, Line, Masks, Ring},
    wire::{ServerConfig, TrafficMessage},
};
use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The newest messages of one server, over its restarts.
#[derive(Clone, Default)]
pub(super) struct ServerTraffic {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    count: u64,
    ring: Ring,
    masks: Masks,
}

impl ServerTraffic {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Masks the secrets of this configuration too, from now on.
    pub fn hide_secrets_of(&self, config: &ServerConfig) {
        let full = references::resolved(config, &references::from_environment);
        let full = full.as_ref().unwrap_or(config);
        let is_hidden = |name: &str| {
            is_secret(name) || config.env.get(name).is_some_and(|value| is_reference(value))
        };
        let env = full.env.iter().filter(|(name, _)| is_hidden(name)).map(|(_, value)| value);
        let secrets = env.chain(full.headers.values()).chain(&full.auth_token);
        let url = full.url.iter().filter(|_| full.url != config.url);
        let secrets = secrets.chain(full.client_secret()).chain(url).cloned();
        self.kept().masks.learn(secrets.collect());
    }

    /// A text of the server without its secrets.
    pub fn masked(&self, text: &str) -> String {
        self.kept().masks.masked(text)
    }

    /// The newest messages, oldest first.
    pub fn read(&self, tail: usize) -> Vec<TrafficMessage> {
        let (lines, masks) = {
            let kept = self.kept();
            let lines = kept.ring.lines();
            let surplus = lines.len().saturating_sub(tail);
            (lines.skip(surplus).cloned().collect::<Vec<_>>(), kept.masks.clone())
        };
        lines.into_iter().map(|line| masks.shown(line)).collect()
    }

    fn add(&self, from_agent: bool, line: &[u8]) {
        // One byte more than is kept tells that there was more.
        let line = &line[..line.len().min(LONGEST + 1)];
        // Nearly always it is text, which is known much sooner than what of it is not.
        let text = std::str::from_utf8(line)
            .map_or_else(|_| String::from_utf8_lossy(line), std::borrow::Cow::Borrowed);
        if text.trim().is_empty() {
            return;
        }
        let mut kept = self.kept();
        kept.count += 1;
        let line = Line::new(kept.count, from_agent, text.trim_end());
        kept.ring.push(line);
    }

    /// Listens to what the server writes.
    pub fn hear<T>(&self, stream: T) -> Tap<T> {
        Tap { stream, ear: Ear::new(self.clone(), false) }
    }

    /// Listens to what is written to the server.
    pub fn overhear<T>(&self, stream: T) -> Tap<T> {
        Tap { stream, ear: Ear::new(self.clone(), true) }
    }
}

/// Cuts a stream of bytes into lines.
struct Ear {
    traffic: ServerTraffic,
    from_agent: bool,
    /// The beginning of the present line, a little more than what is kept of one.
    line: Vec<u8>,
}

impl Ear {
    fn new(traffic: ServerTraffic, from_agent: bool) -> Self {
        Self { traffic, from_agent, line: Vec::new() }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.line.is_empty() {
                // Nearly always: it came in one piece.
                self.traffic.add(self.from_agent, line);
            } else {
                self.append(line);
                self.traffic.add(self.from_agent, &std::mem::take(&mut self.line));
            }
            bytes = rest;
        }
        self.append(bytes);
    }

    fn append(&mut self, bytes: &[u8]) {
        let room = (LONGEST + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }
}

/// A stream that is listened to.
pub(super) struct Tap<T> {
    stream: T,
    ear: Ear,
}

impl<T: AsyncRead + Unpin> AsyncRead for Tap<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.ear.take(&buffer.filled()[before..]);
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Tap<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, buffer);
        if let Poll::Ready(Ok(count)) = written {
            self.ear.take(&buffer[..count]);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn both_directions_are_kept_line_by_line_as_they_went() {
        let traffic = ServerTraffic::default();
        let mut to = traffic.overhear(Vec::new());
        to.write_all(b"{\"id\":1,\"method\":\"pi").await.unwrap();
        assert!(traffic.read(9).is_empty());
        to.write_all(b"ng\"}\n\n{\"id\":2}").await.unwrap();
        let mut from = traffic.hear(&b"not json\n{\"id\":1,\"result\":{}}\n"[..]);
        let mut text = String::new();
        from.read_to_string(&mut text).await.unwrap();
        to.write_all(b"\n").await.unwrap();
        let read = traffic.read(9);
        let all: Vec<_> = read.iter().map(|m| (m.from_agent, m.message.clone())).collect();
        assert_eq!(
            all,
            [
                (true, json!({"id": 1, "method": "ping"})),
                (false, json!("not json")),
                (false, json!({"id": 1, "result": {}})),
                (true, json!({"id": 2})),
            ]
        );
        assert_eq!(traffic.read(1)[0].message, json!({"id": 2}));
        assert!(text.ends_with("{}}\n"), "what is heard is not passed on");
        assert!(to.stream.ends_with(b"{\"id\":2}\n"));
    }

    #[test]
    fn the_secrets_of_every_configuration_are_masked() {
        let traffic = ServerTraffic::default();
        for config in [
            json!({"env": {"API_KEY": "first-key", "MODE": "careful"}, "headers": {"X-Any": "a-header"}}),
            json!({"env": {"API_KEY": "first-key-2"}, "authToken": "a-token"}),
            json!({"url": "http://h", "oauth": {"clientId": "c", "clientSecret": "a-client"}}),
        ] {
            traffic.hide_secrets_of(&serde_json::from_value(config).unwrap());
        }
        let said = json!({"params": {"text": "first-key first-key-2 a-header a-token a-client careful",
            "apiKey": "by-name", "_meta": {"progressToken": "p-1"}, "pair": {"name": "n", "value": "kept"}}});
        traffic.add(false, said.to_string().as_bytes());
        let shown = &traffic.read(1)[0].message["params"];
        assert_eq!(shown["text"], "••• ••• ••• ••• ••• careful");
        assert_eq!(shown["apiKey"], "•••");
        assert_eq!(shown["_meta"]["progressToken"], "p-1");
        assert_eq!(shown["pair"]["value"], "kept");
    }

    #[test]
    fn a_long_line_costs_no_more_than_its_beginning() {
        let traffic = ServerTraffic::default();
        let mut ear = Ear::new(traffic.clone(), false);
        for _ in 0..100 {
            ear.take(&[b'x'; LONGEST]);
        }
        assert!(ear.line.len() <= LONGEST + 1);
        ear.take(b"\n{}\n");
        let read = traffic.read(9);
        assert!(matches!(&read[0].message, Value::String(text) if text.ends_with("x…")));
        assert_eq!(read[1].message, json!({}));
    }
}
