//! Lines in and out: one JSON-RPC message each, with limits.

use crate::{Direction, Disconnected, FromAgent, RawUpdate, Tap};
use agent_client_protocol as sdk;
use futures::{StreamExt as _, channel::mpsc::UnboundedReceiver, channel::mpsc::UnboundedSender};
use sdk::{RawJsonRpcId, RawJsonRpcMessage, TransportFrame};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::{Notify, mpsc, oneshot, watch},
};

/// How many of the skipped lines are logged and remembered.
const MOST_NOISE: usize = 20;
/// How much of a skipped line is logged and remembered, in bytes.
const LONGEST_NOISE: usize = 300;
/// A line buffer that grew beyond this is given back after use.
const LARGE_LINE: usize = 1024 * 1024;

/// What was skipped: the last lines of it, bounded, and how many bytes it was.
#[derive(Clone, Debug)]
pub(crate) struct Noise(Arc<Mutex<(u64, VecDeque<String>)>>, watch::Sender<usize>);

impl Default for Noise {
    fn default() -> Self {
        Self(Arc::default(), watch::Sender::new(0))
    }
}

impl Noise {
    /// Counts bytes that belong to no message.
    fn count(&self, bytes: usize) {
        self.1.send_modify(|all| *all = all.saturating_add(bytes));
    }

    /// Waits until so many bytes were skipped.
    pub(crate) async fn reaches(&self, bytes: usize) {
        // The sender lives in `self`.
        drop(self.1.subscribe().wait_for(|all| *all >= bytes).await);
    }

    fn add(&self, line: &str, why: &str) {
        let cut = line[..line.floor_char_boundary(LONGEST_NOISE)].to_owned();
        let mut noise = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noise.0 += 1;
        if noise.0 <= MOST_NOISE as u64 {
            tracing::warn!(line = %cut, why, "skipped a line of the agent's output");
        } else if noise.0 == MOST_NOISE as u64 + 1 {
            tracing::warn!(
                "the agent's output has more lines that are no messages; they are not logged"
            );
        }
        if noise.1.len() == MOST_NOISE {
            noise.1.pop_front();
        }
        noise.1.push_back(cut);
    }

    pub(crate) fn last(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.iter().cloned().collect()
    }
}

/// Requests whose sender wants to know when they were written.
#[derive(Clone, Debug, Default)]
pub(crate) struct WrittenRequests(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    senders: HashMap<RawJsonRpcId, oneshot::Sender<()>>,
    /// Nothing is written any more.
    over: bool,
}

impl WrittenRequests {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn expect(&self, id: RawJsonRpcId) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting();
        if !waiting.over {
            waiting.senders.insert(id, sender);
        }
        receiver
    }

    pub(crate) fn forget(&self, id: &RawJsonRpcId) {
        self.waiting().senders.remove(id);
    }

    fn done(&self, id: &RawJsonRpcId) {
        if let Some(sender) = self.waiting().senders.remove(id) {
            let _ = sender.send(());
        }
    }

    /// Ends all waits when it is dropped: with the connection, however that ends.
    pub(crate) fn until_dropped(self) -> EndOfWriting {
        EndOfWriting(self)
    }
}

/// See [`WrittenRequests::until_dropped`].
#[derive(Debug)]
pub(crate) struct EndOfWriting(WrittenRequests);

impl Drop for EndOfWriting {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.over = true;
        waiting.senders.clear();
    }
}

/// Lets the reader wait until the protocol layer is done with everything it was given:
/// it handles one message after the other, so a message of ours behind them says so.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fence(Arc<Notify>);

impl Fence {
    /// The method of our message. An agent that sends it only spoils its own order.
    pub(crate) const METHOD: &str = "$/gantry/fence";

    /// The protocol layer came to it.
    pub(crate) fn passed(&self) {
        self.0.notify_one();
    }

    async fn wait(&self, incoming: &UnboundedSender<TransportFrame>) -> Result<(), Disconnected> {
        let message = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, Self::METHOD);
        hand_over(incoming, TransportFrame::parse_json(&message))?;
        self.0.notified().await;
        Ok(())
    }
}

fn hand_over(
    incoming: &UnboundedSender<TransportFrame>,
    frame: TransportFrame,
) -> Result<(), Disconnected> {
    incoming.unbounded_send(frame).map_err(|_| Disconnected::Protocol("it was closed".to_owned()))
}

/// Where what was read goes.
pub(crate) struct Outlets {
    /// The protocol layer.
    pub(crate) incoming: UnboundedSender<TransportFrame>,
    /// Past it: updates need nothing of what it does.
    pub(crate) queue: mpsc::Sender<FromAgent>,
    /// Keeps the order of both.
    pub(crate) fence: Fence,
    pub(crate) noise: Noise,
    pub(crate) tap: Option<Tap>,
}

/// Reads messages until the end of the output. Does not read ahead of a full
/// queue: the channel to the protocol layer has no bound of its own.
pub(crate) async fn read<R: AsyncRead + Unpin>(
    reader: R,
    limit: usize,
    outlets: Outlets,
) -> Result<(), Disconnected> {
    let Outlets { incoming, queue, fence, noise, tap } = outlets;
    let mut reader = BufReader::with_capacity(64 * 1024, reader);
    let mut line = Vec::new();
    // The protocol layer may have something that is not in the queue yet.
    let mut behind = false;
    loop {
        let mut place = queue.reserve().await.map_err(|_| Disconnected::Abandoned)?;
        if line.capacity() > LARGE_LINE {
            line = Vec::new();
        }
        line.clear();
        match next_line(&mut reader, &mut line, limit, &noise).await? {
            Line::End => return Ok(()),
            Line::TooLong => noise.add(
                &String::from_utf8_lossy(&line[..line.len().min(LONGEST_NOISE)]),
                "it is too long",
            ),
            Line::Whole => {
                // Nearly always it is text, which is known much sooner than what of it is not.
                let text = std::str::from_utf8(&line)
                    .map_or_else(|_| String::from_utf8_lossy(&line), Cow::Borrowed);
                let text = whole_characters(text.trim());
                let text = &*text;
                if text.is_empty() {
                    continue;
                }
                if let Some(tap) = &tap {
                    tap(Direction::FromAgent, text);
                }
                if let Some(update) = update(text) {
                    if behind {
                        drop(place);
                        fence.wait(&incoming).await?;
                        behind = false;
                        place = queue.reserve().await.map_err(|_| Disconnected::Abandoned)?;
                    }
                    place.send(update);
                    continue;
                }
                match message(text) {
                    Ok(frame) => {
                        behind = true;
                        hand_over(&incoming, frame)?;
                    }
                    Err(why) => {
                        noise.count(text.len());
                        noise.add(text, why);
                    }
                }
            }
        }
    }
}

/// How far into a line its method is looked for, in bytes.
const HEAD: usize = 256;

/// The update in a line. Anything else, and whatever is odd, is the protocol layer's.
fn update(text: &str) -> Option<FromAgent> {
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        method: Cow<'a, str>,
        #[serde(borrow)]
        params: Params<'a>,
        id: Option<serde::de::IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "sessionId")]
        session: Cow<'a, str>,
        #[serde(borrow)]
        update: &'a RawValue,
    }
    let head = &text.as_bytes()[..text.len().min(HEAD)];
    let method = b"session/update";
    if !head.windows(method.len()).any(|part| part == method) {
        return None;
    }
    let line: Line<'_> = serde_json::from_str(text).ok()?;
    if line.method != "session/update" || line.id.is_some() {
        return None;
    }
    let Params { session, update } = line.params;
    Some(FromAgent::Update { session: session.into_owned(), update: RawUpdate::new(update) })
}

/// Agents in JavaScript cut texts in the middle of a character; the escape of half a
/// character makes the whole message unreadable, so it becomes U+FFFD.
fn whole_characters(text: &str) -> Cow<'_, str> {
    if !(text.contains(r"\ud") || text.contains(r"\uD")) {
        return Cow::Borrowed(text);
    }
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut mended = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = text[at..].find('\\') {
        at += found;
        let length = match (unit(at), unit(at + 6)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
            (Some(0xd800..0xe000), _) => {
                mended.push_str(&text[copied..at]);
                mended.push_str(r"\ufffd");
                copied = at + 6;
                6
            }
            // Also a backslash of its own, and an escape that is none.
            _ => 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
        };
        at += length;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    mended.push_str(&text[copied..]);
    Cow::Owned(mended)
}

/// An answer as JSON-RPC wants it, from one that says no less but has not its form: without
/// `jsonrpc`, with an error that is a text, without `message`, without a result.
fn lenient_answer(text: &str) -> Option<TransportFrame> {
    let answer: serde_json::Value = serde_json::from_str(text).ok()?;
    let id = answer.get("id").filter(|id| id.is_number() || id.is_string())?;
    let whole = match answer.get("error").filter(|error| !error.is_null()) {
        Some(error) => {
            let code = error.get("code").and_then(serde_json::Value::as_i64);
            let code = code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-32603);
            let message = error.as_str().or_else(|| error.get("message")?.as_str());
            let message = message.map_or_else(|| error.to_string(), str::to_owned);
            let data = error.get("data");
            let error = json!({ "code": code, "message": message, "data": data });
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
        None => json!({ "jsonrpc": "2.0", "id": id, "result": answer.get("result")? }),
    };
    match TransportFrame::parse_json(&whole.to_string()) {
        TransportFrame::Malformed { .. } => None,
        frame => Some(frame),
    }
}

/// The message in a line, or why there is none. A broken call is passed on: the
/// protocol layer tells the agent.
fn message(text: &str) -> Result<TransportFrame, &'static str> {
    if !text.starts_with('{') {
        return Err("it is not a message");
    }
    match TransportFrame::parse_json(text) {
        TransportFrame::Malformed { error, .. } if error.code == sdk::ErrorCode::PARSE_ERROR => {
            Err("it is not JSON")
        }
        TransportFrame::Malformed { .. } if !text.contains("\"method\"") => {
            lenient_answer(text).ok_or("it is not a message")
        }
        frame => Ok(frame),
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// The next line without its end, or its beginning when it is longer than `limit`.
async fn next_line<R: AsyncRead + Unpin>(
    reader: &mut BufReader<R>,
    line: &mut Vec<u8>,
    limit: usize,
    noise: &Noise,
) -> io::Result<Line> {
    let mut too_long = false;
    loop {
        let chunk = reader.fill_buf().await?;
        if chunk.is_empty() {
            // A last line without an end counts: some agents die right after it.
            return Ok(match (line.is_empty(), too_long) {
                (_, true) => Line::TooLong,
                (true, false) => Line::End,
                (false, false) => Line::Whole,
            });
        }
        let end = chunk.iter().position(|&byte| byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        if !too_long && line.len() + part.len() > limit {
            too_long = true;
            line.extend_from_slice(&part[..part.len().min(LONGEST_NOISE)]);
            line.truncate(LONGEST_NOISE);
        }
        if !too_long {
            line.extend_from_slice(part);
        }
        if too_long {
            noise.count(part.len());
        }
        let used = end.map_or(chunk.len(), |end| end + 1);
        reader.consume(used);
        if end.is_some() {
            return Ok(if too_long { Line::TooLong } else { Line::Whole });
        }
    }
}

/// Writes messages until the protocol layer is done.
pub(crate) async fn write<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut outgoing: UnboundedReceiver<TransportFrame>,
    written: WrittenRequests,
    tap: Option<Tap>,
) -> Result<(), Disconnected> {
    while let Some(frame) = outgoing.next().await {
        let mut line = match frame.to_json() {
            Ok(line) => line,
            Err(error) => {
                tracing::error!(error = %error.message, "a message could not be written");
                continue;
            }
        };
        if let Some(tap) = &tap {
            tap(Direction::ToAgent, &line);
        }
        line.push('\n');
        writer.write_all(line.as_bytes()).await?;
        writer.flush().await?;
        if let TransportFrame::Single(RawJsonRpcMessage::Request(request)) = &frame {
            written.done(&request.id);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn half_characters_are_mended_and_whole_ones_left() {
        for (text, mended) in [
            (r#"{"a":"\ud83d\ude00"}"#, r#"{"a":"\ud83d\ude00"}"#),
            (r#"{"a":"\ud83d"}"#, r#"{"a":"\ufffd"}"#),
            (r#"{"a":"\uDE00\uD83d\uD83D\uDE00x"}"#, r#"{"a":"\ufffd\ufffd\uD83D\uDE00x"}"#),
            (r#"{"a":"\\ud83d \ude"}"#, r#"{"a":"\\ud83d \ude"}"#),
            (r#"{"a":"\\\ud83d语"}"#, r#"{"a":"\\\ufffd语"}"#),
            (r"\ud83d\", r"\ufffd\"),
        ] {
            assert_eq!(whole_characters(text), mended, "{text}");
        }
    }

    #[test]
    fn an_answer_without_form_says_what_it_says() {
        let read = |text: &str| {
            let frame = lenient_answer(text)?;
            Some(serde_json::from_str::<Value>(&frame.to_json().unwrap()).unwrap())
        };
        let error = |text: &str| read(text).unwrap()["error"].clone();
        assert_eq!(error(r#"{"id":1,"error":"out of money"}"#)["message"], "out of money");
        let coded = error(r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32000,"reason":"r"}}"#);
        assert_eq!(coded["code"], -32000);
        assert!(coded["message"].as_str().unwrap().contains("reason"));
        assert_eq!(
            read(r#"{"id":1,"result":{"stopReason":"end_turn"}}"#).unwrap()["jsonrpc"],
            "2.0"
        );
        for none in ["[1]", r#"{"id":1}"#, r#"{"result":1}"#, r#"{"id":null,"error":"x"}"#, "{"] {
            assert!(read(none).is_none(), "{none}");
        }
    }
}
