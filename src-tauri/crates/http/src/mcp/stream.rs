//! Messages as server-sent events.

use super::sessions::Visit;
use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use futures::stream;
use gantry_mcp::{Client, ToClient};
use std::{collections::VecDeque, convert::Infallible, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

pub(super) const EVENT_STREAM: &str = "text/event-stream";
/// Between two signs of life on a stream.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Up to here an event is one piece; a larger message is not copied again.
const ONE_PIECE: usize = 64 * 1024;
const BEFORE: &[u8] = b"event: message\ndata: ";
const AFTER: &[u8] = b"\n\n";

struct Events {
    pieces: VecDeque<Bytes>,
    messages: mpsc::Receiver<ToClient>,
    /// Responses that are still to come; `None` for a stream without an end of its own.
    open: Option<usize>,
    quiet_until: Instant,
    held: Option<Held>,
}

/// What lives as long as the stream of a request without a session.
pub(super) struct Held {
    pub visit: Visit,
    /// Said when it is ended from this side.
    pub farewell: Option<ToClient>,
    /// When it is dropped, the request is cancelled.
    pub _client: Client,
}

/// Resolves when a stream is to end by our wish.
async fn ended(held: Option<&Held>) {
    match held {
        Some(held) => held.visit.ended().await,
        None => std::future::pending().await,
    }
}

impl Events {
    fn take(&mut self, message: ToClient) {
        if message.last {
            self.open = self.open.map(|open| open.saturating_sub(1));
        }
        let line = one_line(message.line);
        if line.len() <= ONE_PIECE {
            let mut event = BytesMut::with_capacity(BEFORE.len() + line.len() + AFTER.len());
            for part in [BEFORE, &line, AFTER] {
                event.extend_from_slice(part);
            }
            self.pieces.push_back(event.freeze());
        } else {
            let (before, after) = (Bytes::from_static(BEFORE), Bytes::from_static(AFTER));
            self.pieces.extend([before, line, after]);
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        if self.pieces.is_empty() {
            if self.open == Some(0) {
                return None;
            }
            tokio::select! {
                biased;
                message = self.messages.recv() => self.take(message?),
                () = ended(self.held.as_ref()) => {
                    let farewell = self.held.as_mut().and_then(|held| held.farewell.take());
                    self.open = Some(0);
                    self.take(farewell?);
                }
                () = sleep_until(self.quiet_until) => {
                    self.pieces.push_back(Bytes::from_static(b": keep-alive\n\n"));
                }
            }
            self.quiet_until = Instant::now() + KEEP_ALIVE;
        }
        self.pieces.pop_front()
    }
}

/// In an event a line break would end the data; in valid JSON it is only white space.
fn one_line(line: Bytes) -> Bytes {
    if !line.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return line;
    }
    line.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

/// A stream that begins with `first` and ends after `open` responses (or, with `None`, when the
/// session or the client ends it).
pub(super) fn events(
    first: Option<ToClient>,
    messages: mpsc::Receiver<ToClient>,
    open: Option<usize>,
    held: Option<Held>,
) -> Response {
    let quiet_until = Instant::now() + KEEP_ALIVE;
    let mut events = Events { pieces: VecDeque::new(), messages, open, quiet_until, held };
    match first {
        Some(first) => events.take(first),
        // So that the head leaves at once, also through what buffers until the first byte.
        None => events.pieces.push_back(Bytes::from_static(b": open\n\n")),
    }
    let pieces = stream::unfold(events, |mut events| async move {
        let piece = events.next().await?;
        Some((Ok::<_, Infallible>(piece), events))
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
        // What stands between must not wait for more before it passes on an event.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(pieces)).into_response()
}
