//! `GET /computer/progress/{session}`: one session's events, in the form that
//! back ends know, from before the first connection on.

use crate::sse::{self, Frames};
use axum::http::HeaderMap;
use bytes::Bytes;
use gantry_core::{
    app::iso,
    events::{FeedItem, FeedReader},
    shutdown::Phase,
    wire::{Event, Happening},
};
use serde_json::{Value, json};
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
        Self { session, reader, acp_id, known_acp_id: None, phase, ping, stage: Stage::Opening }
    }

    fn line(&self, kind: &str, name: &str, data: Value, at: i64) -> Value {
        json!({
            "sessionId": self.session,
            "acpSessionId": self.known_acp_id,
            "messageType": kind,
            "subType": name,
            "data": data,
            "timestamp": iso(at),
        })
    }

    fn unnumbered(&self, kind: &str, name: &str, data: Value) -> Bytes {
        sse::event(None, name, &self.line(kind, name, data, gantry_core::events::now()))
    }

    fn numbered(&mut self, event: &Event) -> Option<Bytes> {
        if self.known_acp_id.is_none() || matches!(event.what, Happening::TurnStarted { .. }) {
            self.known_acp_id = (self.acp_id)().or(self.known_acp_id.take());
        }
        let (kind, name, data) = message(&event.what)?;
        Some(sse::event(Some(event.seq), &name, &self.line(kind, &name, data, event.at)))
    }
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
                item = self.reader.next() => match item {
                    FeedItem::Event(event) => if let Some(frame) = self.numbered(&event) {
                        return Some(frame);
                    },
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
fn message(what: &Happening) -> Option<(&'static str, String, Value)> {
    Some(match what {
        Happening::TurnStarted { turn, request_id, .. } => (
            "sessionPromptStart",
            "prompt_start".into(),
            json!({ "request_id": request_id, "turn": turn }),
        ),
        Happening::Update { update, .. } => {
            let name = update.get("sessionUpdate").and_then(Value::as_str).unwrap_or("update");
            ("agentSessionUpdate", name.to_owned(), update.clone())
        }
        Happening::PermissionRequested { permission, .. } => (
            "permissionRequest",
            "permission_request".into(),
            json!({
                "request": permission.request,
                "turn": permission.turn,
                "toolCall": permission.tool_call,
                "options": permission.options,
            }),
        ),
        Happening::PermissionResolved { request, outcome, reason, .. } => (
            "permissionRequest",
            "permission_resolved".into(),
            json!({ "request": request, "outcome": outcome, "reason": reason }),
        ),
        Happening::TurnEnded { reason, description, .. } => (
            "sessionPromptEnd",
            reason.clone(),
            json!({ "reason": reason, "description": description }),
        ),
        _ => return None,
    })
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
