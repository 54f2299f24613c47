//! `GET /computer/progress/{session}`: one session's events, in the form that
//! back ends know, from before the first connection on.

use crate::sse::{self, Frames};
use axum::http::HeaderMap;
use bytes::Bytes;
use gantry_core::{
    app::iso,
    events::{FeedItem, FeedReader},
    shutdown::Phase,
    wire::{Event, Happening, RawUpdate},
};
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use tokio::{
    sync::watch,
    time::{Interval, MissedTickBehavior, interval_at},
};

/// Looks up the agent's own id of the session.
pub(crate) type AcpId = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// A reader's stream.
pub(crate) struct Progress {
    session: String,
    reader: FeedReader,
    acp_id: AcpId,
    known_acp_id: Option<String>,
    /// An instant and how it is written: many events share one.
    written: (i64, String),
    /// What came after the events of the last piece.
    waiting: Option<FeedItem>,
    phase: watch::Receiver<Phase>,
    ping: Interval,
    stage: Stage,
}

enum Stage {
    Opening,
    Reading,
    Over,
}

impl Progress {
    /// Reads on from `reader`'s place. A shutdown cancels the running turn, whose end is still
    /// sent; then the stream ends.
    pub fn new(
        session: &str,
        reader: FeedReader,
        acp_id: AcpId,
        phase: watch::Receiver<Phase>,
    ) -> Self {
        let mut ping = interval_at(tokio::time::Instant::now() + sse::PING_EVERY, sse::PING_EVERY);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let session = session.to_owned();
        Self {
            session,
            reader,
            acp_id,
            known_acp_id: None,
            written: (0, iso(0)),
            waiting: None,
            phase,
            ping,
            stage: Stage::Opening,
        }
    }

    fn unnumbered(&self, kind: &str, name: &str, data: Value) -> Bytes {
        let timestamp = iso(gantry_core::events::now());
        let line = self.line(kind, name, Data::Ours(data), &timestamp);
        sse::event(None, name, &line)
    }

    fn line<'a>(
        &'a self,
        kind: &'a str,
        name: &'a str,
        data: Data<'a>,
        timestamp: &'a str,
    ) -> Line<'a> {
        Line {
            session_id: &self.session,
            acp_session_id: self.known_acp_id.as_deref(),
            message_type: kind,
            sub_type: name,
            data,
            timestamp,
        }
    }

    /// Adds an event to a piece.
    fn push(&mut self, piece: &mut Vec<u8>, event: &Event) {
        if self.known_acp_id.is_none() || matches!(event.what, Happening::TurnStarted { .. }) {
            self.known_acp_id = (self.acp_id)().or(self.known_acp_id.take());
        }
        if self.written.0 != event.at {
            self.written = (event.at, iso(event.at));
        }
        let Some((kind, name, data)) = message(&event.what) else { return };
        sse::push(piece, Some(event.seq), &name, &self.line(kind, &name, data, &self.written.1));
    }

    /// The event and those that are there already, as one piece.
    fn piece(&mut self, event: &Event) -> Bytes {
        let mut piece = Vec::new();
        self.push(&mut piece, event);
        while piece.len() < sse::PIECE && self.waiting.is_none() {
            match self.reader.try_next() {
                Some(FeedItem::Event(event)) => self.push(&mut piece, &event),
                other => {
                    self.waiting = other;
                    break;
                }
            }
        }
        piece.into()
    }

    async fn next_item(reader: &mut FeedReader, waiting: &mut Option<FeedItem>) -> FeedItem {
        match waiting.take() {
            Some(item) => item,
            None => reader.next().await,
        }
    }
}

/// What the `data` line holds.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    session_id: &'a str,
    acp_session_id: Option<&'a str>,
    message_type: &'a str,
    sub_type: &'a str,
    data: Data<'a>,
    timestamp: &'a str,
}

/// What an event tells.
#[derive(Serialize)]
#[serde(untagged)]
enum Data<'a> {
    /// As the agent wrote it.
    Raw(&'a RawUpdate),
    Ours(Value),
}

impl Frames for Progress {
    async fn next(&mut self) -> Option<Bytes> {
        match self.stage {
            Stage::Opening => {
                self.stage = Stage::Reading;
                return Some(sse::opening());
            }
            Stage::Over => return None,
            Stage::Reading => {}
        }
        loop {
            tokio::select! {
                // What is there goes out before the end.
                biased;
                item = Self::next_item(&mut self.reader, &mut self.waiting) => match item {
                    FeedItem::Event(event) => {
                        let piece = self.piece(&event);
                        if !piece.is_empty() {
                            return Some(piece);
                        }
                    }
                    FeedItem::Resync => return Some(self.unnumbered("resync", "resync", json!({}))),
                    FeedItem::End => {
                        self.stage = Stage::Over;
                        return Some(self.unnumbered("sessionRemoved", "session_removed", json!({})));
                    }
                },
                () = reached(&mut self.phase, Phase::Ask) => {
                    self.stage = Stage::Over;
                    return Some(self.unnumbered("shuttingDown", "shutting_down", json!({})));
                }
                _ = self.ping.tick() => {
                    return Some(self.unnumbered("heartbeat", "ping", json!({})));
                }
            }
        }
    }
}

/// Resolves when the shutdown is in this phase or a later one.
pub(crate) async fn reached(phase: &mut watch::Receiver<Phase>, wanted: Phase) {
    // No sender means that there is nobody left to wait for.
    let _ = phase.wait_for(|now| *now >= wanted).await;
}

/// After which event a reader goes on: what the browser says it has, else what the URL says.
pub(crate) fn place(headers: &HeaderMap, query: Option<&str>) -> u64 {
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    let asked = || crate::query::value(query?, "after")?.parse().ok();
    header.or_else(asked).unwrap_or(0)
}

/// `messageType`, `subType` and `data` of an event.
fn message(what: &Happening) -> Option<(&'static str, Cow<'_, str>, Data<'_>)> {
    Some(match what {
        Happening::TurnStarted { turn, request_id, .. } => (
            "sessionPromptStart",
            "prompt_start".into(),
            Data::Ours(json!({ "request_id": request_id, "turn": turn })),
        ),
        Happening::Update { update, .. } => {
            let kind = update.shape().kind;
            let name = if kind.is_empty() { "update".into() } else { kind };
            ("agentSessionUpdate", name, Data::Raw(update))
        }
        Happening::PermissionRequested { permission, .. } => (
            "permissionRequest",
            "permission_request".into(),
            Data::Ours(json!({
                "request": permission.request,
                "turn": permission.turn,
                "toolCall": permission.tool_call,
                "options": permission.options,
            })),
        ),
        Happening::PermissionResolved { request, outcome, reason, .. } => (
            "permissionRequest",
            "permission_resolved".into(),
            Data::Ours(json!({ "request": request, "outcome": outcome, "reason": reason })),
        ),
        Happening::QuestionAsked { question, .. } => (
            "questionRequest",
            "question_request".into(),
            Data::Ours(json!({
                "request": question.request,
                "turn": question.turn,
                "toolCallId": question.tool_call,
                "mode": question.mode,
                "message": question.message,
                "requestedSchema": question.schema,
                "url": question.url,
            })),
        ),
        Happening::QuestionAnswered { question, .. } => (
            "questionRequest",
            "question_answered".into(),
            Data::Ours(json!({
                "request": question.asked.request,
                "action": question.outcome,
                "content": question.content,
                "reason": question.reason,
            })),
        ),
        Happening::QuestionCompleted { request, .. } => (
            "questionRequest",
            "question_completed".into(),
            Data::Ours(json!({ "request": request })),
        ),
        Happening::TurnEnded { reason, description, .. } => (
            "sessionPromptEnd",
            reason.into(),
            Data::Ours(json!({ "reason": reason, "description": description })),
        ),
        _ => return None,
    })
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
