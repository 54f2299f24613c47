//! Server-sent events: as many as are there are one piece of the body, so one write.

use axum::{
    body::Body,
    http::header,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::stream;
use serde::Serialize;
use std::{borrow::Cow, convert::Infallible, io::Write as _, time::Duration};

/// Between two pings of a stream.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(15);

/// So many bytes are a piece; an event more goes into the next one.
pub(crate) const PIECE: usize = 32 * 1024;

/// One event; see [`push`].
pub(crate) fn event(id: Option<u64>, name: &str, data: &impl Serialize) -> Bytes {
    let mut piece = Vec::new();
    push(&mut piece, id, name, data);
    piece.into()
}

/// Adds one event. The name is cut down to what a line of the format can hold,
/// because agents choose it.
pub(crate) fn push(piece: &mut Vec<u8>, id: Option<u64>, name: &str, data: &impl Serialize) {
    // Writing into memory does not fail.
    if let Some(id) = id {
        let _ = writeln!(piece, "id: {id}");
    }
    if !name.is_empty() {
        let _ = writeln!(piece, "event: {}", plain(name));
    }
    piece.extend_from_slice(b"data: ");
    let begin = piece.len();
    // JSON escapes line breaks, so this is one line.
    if serde_json::to_writer(&mut *piece, data).is_err() {
        piece.truncate(begin);
        piece.extend_from_slice(b"null");
    }
    piece.extend_from_slice(b"\n\n");
}

/// What a stream begins with: something at once for proxies that wait for a
/// first byte, and how soon to come back after a break.
pub(crate) fn opening() -> Bytes {
    Bytes::from_static(b": gantry\nretry: 1000\n\n")
}

/// A sign of life that is no event.
pub(crate) fn comment_ping() -> Bytes {
    Bytes::from_static(b": ping\n\n")
}

fn plain(name: &str) -> Cow<'_, str> {
    const LONGEST: usize = 100;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    if !name.is_empty() && name.len() <= LONGEST && name.chars().all(allowed) {
        return name.into();
    }
    let name: String = name.chars().filter(|c| allowed(*c)).take(LONGEST).collect();
    if name.is_empty() { "update".into() } else { name.into() }
}

/// Something that is read piece by piece.
pub(crate) trait Frames: Send + 'static {
    /// The next piece; `None` ends the stream.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// The response that carries them. No piece is asked for before the one before it was
/// taken by the connection, so a reader that is slow holds nothing but its place.
pub(crate) fn response(frames: impl Frames) -> Response {
    let pieces = stream::unfold(frames, |mut frames| async move {
        let piece = frames.next().await?;
        Some((Ok::<_, Infallible>(piece), frames))
    });
    (
        [
            (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
            (header::CACHE_CONTROL, "no-cache, no-transform"),
            (header::HeaderName::from_static("x-accel-buffering"), "no"),
        ],
        Body::from_stream(pieces),
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_is_one_block_whatever_is_in_it() {
        let bytes = event(Some(7), "a\nb\r\ndata: x", &json!({"text": "one\ntwo\r\n\u{2028}"}));
        let text = std::str::from_utf8(&bytes).unwrap();
        assert_eq!(text.matches('\n').count(), 4, "{text:?}");
        assert!(text.starts_with("id: 7\nevent: abdata:x\ndata: {"), "{text:?}");
        assert!(text.ends_with("}\n\n") && !text.contains('\r'), "{text:?}");
    }

    #[test]
    fn an_event_without_a_usable_name_is_an_update() {
        assert!(event(None, "\n", &1).starts_with(b"event: update\n"));
        assert!(event(None, "", &1).starts_with(b"data: 1\n"));
    }
}
