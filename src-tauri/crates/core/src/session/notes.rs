//! What of ours is stored among a turn's updates: what it began with, what was asked
//! and answered, what it used.

use super::cell::{Cell, Inner};
use crate::{events::now, wire::*};
use gantry_store::UpdateRow;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A stored line of ours; ACP's have a `sessionUpdate` in its place.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "gantry", rename_all = "snake_case")]
pub(super) enum Note {
    /// Stored at the beginning of a turn and again at its end, with what the agent fetched.
    Opening(TurnOpening),
    /// A permission request that was answered.
    Permission(AnsweredPermission),
    /// Another question that was answered.
    Question(AnsweredQuestion),
    /// A command that ran for the agent, as it was at its end.
    Terminal(TerminalView),
    /// What the answer of the prompt says about tokens.
    Usage {
        /// Raw.
        usage: Value,
    },
}

impl Note {
    /// Whether a stored line is one of ours.
    pub(super) fn is(line: &Value) -> bool {
        line.get("gantry").is_some()
    }
}

impl Cell {
    /// Stores a note with a turn. Nobody is told: it is for the history.
    pub(super) fn note(&self, inner: &mut Inner, turn: Option<&str>, note: &Note) {
        match serde_json::to_string(note) {
            Ok(json) => self.append(inner, turn.map(str::to_owned), json, now()),
            Err(error) => tracing::error!(%error, "a note of a turn could not be written"),
        }
    }

    /// Stores a line of the session's history.
    fn append(&self, inner: &mut Inner, turn: Option<String>, json: String, at: i64) {
        self.append_all(inner, vec![(turn, json)], at);
    }

    /// Stores lines of the session's history, each with its turn.
    pub(super) fn append_all(
        &self,
        inner: &mut Inner,
        lines: Vec<(Option<String>, String)>,
        at: i64,
    ) {
        let Some(counters) = &mut inner.counters else { return };
        let rows = lines.into_iter().map(|(turn_id, json)| {
            counters.seq += 1;
            UpdateRow { session_id: self.id.clone(), turn_id, seq: counters.seq, at, json }
        });
        self.deps.store.append_updates(rows.collect());
    }

    /// A permission request was answered: everybody is told, and it is kept.
    pub(super) fn resolved(
        &self,
        inner: &mut Inner,
        asked: PermissionView,
        outcome: &str,
        reason: Option<&str>,
    ) {
        let (outcome, reason) = (outcome.to_owned(), reason.map(str::to_owned));
        self.deps.events.publish(Happening::PermissionResolved {
            session: self.id.clone(),
            request: asked.request.clone(),
            outcome: outcome.clone(),
            reason: reason.clone(),
        });
        self.keep_answer(inner, asked, outcome, reason);
    }

    /// Keeps a permission request and its answer.
    pub(super) fn keep_answer(
        &self,
        inner: &mut Inner,
        asked: PermissionView,
        outcome: String,
        reason: Option<String>,
    ) {
        let turn = asked.turn.clone();
        let answered = AnsweredPermission { asked, outcome, reason, answered_at: now() };
        self.note(inner, turn.as_deref(), &Note::Permission(answered));
    }
}
