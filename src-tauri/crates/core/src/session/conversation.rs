//! What the agent says in a session, and what the user answers: called in the
//! agent's order, without waiting.

use super::{
    cell::{Cell, Chore, Inner},
    permission::{allowed_by, is_offered},
    state::{CANCELLED, Event},
};
use crate::{Error, Result, engine::Conversation, events::now, wire::*};
use gantry_acp::PermissionAsk;
use serde_json::Value;
use tokio::time::Instant;

/// Tool calls of a turn whose kind is remembered, for requests that do not repeat it.
const MOST_KINDS: usize = 1000;

/// An open permission request.
pub(super) struct OpenAsk {
    pub(super) view: PermissionView,
    ask: PermissionAsk,
}

impl Cell {
    /// Answers a permission request.
    pub(super) fn permit(&self, request: &str, option: &str) -> Result<()> {
        let mut inner = self.lock();
        let found = inner.asks.iter().find(|(_, open)| open.view.request == request);
        let Some((&number, open)) = found else {
            return Err(Error::not_found(format!(
                "there is no open permission request `{request}` in this session; it may have been answered"
            )));
        };
        if !is_offered(&open.view.options, option) {
            return Err(Error::invalid(format!("`option`: `{option}` was not offered")));
        }
        if let Some(open) = inner.asks.remove(&number) {
            open.ask.select(option);
            inner.kept.last_activity = now();
            self.resolved(&mut inner, open.view, option, None);
        }
        self.apply_or_announce(&mut inner, Event::Answered(request.to_owned()));
        Ok(())
    }

    /// Everybody is told, also when the state stays what it is.
    fn apply_or_announce(&self, inner: &mut Inner, event: Event) {
        let before = inner.state.clone();
        self.apply(inner, event);
        if inner.state == before {
            self.announce(inner);
        }
    }

    pub(super) fn cancel_asks(&self, inner: &mut Inner, why: &str) {
        for open in std::mem::take(&mut inner.asks).into_values() {
            open.ask.cancel();
            self.resolved(inner, open.view, CANCELLED, Some(why));
        }
    }
}

impl Inner {
    /// Remembers what kind of tool call this is.
    fn note_kind(&mut self, update: &Value) {
        let text = |key| update.get(key).and_then(Value::as_str);
        if let (Some(id), Some(kind)) = (text("toolCallId"), text("kind"))
            && self.kinds.len() < MOST_KINDS
        {
            self.kinds.insert(id.to_owned(), kind.to_owned());
        }
    }
}

/// What is asked, with a number of its own.
fn asked(inner: &mut Inner, ask: &PermissionAsk) -> PermissionView {
    inner.asked += 1;
    let turn = inner.state.lingering.as_ref().map(|lingering| lingering.turn.as_str());
    PermissionView {
        request: format!("permission-{}", inner.asked),
        turn: turn.or_else(|| inner.state.running()).map(str::to_owned),
        tool_call: ask.tool_call.clone(),
        options: ask.options.clone(),
        asked_at: now(),
    }
}

impl Conversation for Cell {
    fn opened(&self, answer: &Value) {
        self.lock().offered.take(answer);
    }

    fn update(&self, update: Value) {
        let kind =
            update.get("sessionUpdate").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut inner = self.lock();
        let turn = inner.state.turn_of(&kind).map(str::to_owned);
        let at = now();
        inner.kept.last_activity = at;
        inner.heard = Instant::now();
        self.append(&mut inner, turn.clone(), update.to_string(), at);
        let mut news = inner.quiet_since.take().is_some();
        match kind.as_str() {
            "tool_call" | "tool_call_update" => inner.note_kind(&update),
            "available_commands_update" => {
                if let Some(Value::Array(commands)) = update.get("availableCommands") {
                    inner.commands.clone_from(commands);
                    news = true;
                }
            }
            "current_mode_update" => {
                let mode = update.get("currentModeId").or_else(|| update.get("modeId"));
                if let Some(mode) = mode.and_then(Value::as_str) {
                    inner.kept.chosen.follow_mode(mode);
                    news |= inner.offered.mode_is(mode);
                }
            }
            "config_option_update" => news |= inner.offered.take(&update),
            "session_info_update" if !inner.kept.titled => {
                if let Some(title) = update.get("title").and_then(Value::as_str) {
                    inner.kept.title = super::title_from(title);
                    self.chore(&mut inner, Chore::Save);
                    news = true;
                }
            }
            _ => {}
        }
        // Published under the lock: events keep the order of what they tell.
        self.deps.events.publish(Happening::Update { session: self.id.clone(), turn, update });
        if news {
            self.announce(&inner);
        }
    }

    fn permission(&self, ask: PermissionAsk) {
        let mut inner = self.lock();
        if inner.state.refuses_asks() {
            // Some agents ask after the cancel.
            let view = asked(&mut inner, &ask);
            ask.cancel();
            let reason = Some("asked after the turn was cancelled".to_owned());
            return self.keep_answer(&mut inner, view, CANCELLED.to_owned(), reason);
        }
        let text = |key: &str| ask.tool_call.get(key).and_then(Value::as_str);
        let known = text("toolCallId").and_then(|id| inner.kinds.get(id));
        let kind = text("kind").or_else(|| known.map(String::as_str));
        if let Some(option) = allowed_by(inner.kept.policy, kind, &ask.options) {
            tracing::debug!(session = self.id, kind, option, "allowed by the session's policy");
            let view = asked(&mut inner, &ask);
            ask.select(&option);
            let reason = Some("allowed by the session's policy".to_owned());
            return self.keep_answer(&mut inner, view, option, reason);
        }
        let view = asked(&mut inner, &ask);
        let (number, request) = (inner.asked, view.request.clone());
        inner.asks.insert(number, OpenAsk { view: view.clone(), ask });
        self.deps
            .events
            .publish(Happening::PermissionRequested { session: self.id.clone(), permission: view });
        // It may be asked outside of a turn.
        self.apply_or_announce(&mut inner, Event::Asked(request));
    }

    fn withdrawn(&self, request: &Value) {
        let mut inner = self.lock();
        let number = inner.asks.iter().find(|(_, open)| open.ask.request == *request);
        let Some(number) = number.map(|(number, _)| *number) else { return };
        if let Some(open) = inner.asks.remove(&number) {
            open.ask.withdraw();
            let request = open.view.request.clone();
            self.resolved(&mut inner, open.view, CANCELLED, Some("the agent took it back"));
            self.apply_or_announce(&mut inner, Event::Answered(request));
        }
    }

    fn neighbours_changed(&self) {
        self.announce(&self.lock());
    }

    fn engine_gone(&self, engine: u64, why: &str) {
        let mut inner = self.lock();
        if inner.engine.as_ref().is_none_or(|mine| mine.number() != engine) {
            return;
        }
        inner.engine = None;
        inner.open = None;
        inner.lost_engine = true;
        self.apply(&mut inner, Event::EngineGone(why.to_owned()));
    }
}
