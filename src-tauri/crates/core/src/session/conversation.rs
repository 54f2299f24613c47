//! What the agent says in a session, and what the user answers: called in the
//! agent's order, without waiting.

use super::{
    cell::{Cell, Chore, Inner},
    client,
    lines::Lines,
    permission::{allowed_by, is_offered, rejected_by},
    state::{CANCELLED, Event},
};
use crate::{Error, Result, engine::Conversation, events::now, wire::*};
use gantry_acp::{ClientCall, ELICIT, PermissionAsk, Shape};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// An agent that ignored a cancel and has said nothing for so long is done with the old turn.
const PAUSE: Duration = Duration::from_millis(700);
/// The kind of a tool call that names none.
const USUAL_KIND: &str = "other";
/// Tool calls of a turn whose kind is remembered, for requests that do not repeat it.
const MOST_KINDS: usize = 1000;

/// An open permission request.
pub(super) struct OpenAsk {
    pub(super) view: PermissionView,
    /// When it is refused if nobody has answered.
    pub(super) due: Option<Instant>,
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
    pub(super) fn apply_or_announce(&self, inner: &mut Inner, event: Event) {
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

impl Cell {
    /// Refuses the requests whose time is over: with the agent's own "no" where it offers one.
    pub(super) fn refuse_unanswered(&self, now: Instant) {
        let mut inner = self.lock();
        let overdue = |open: &OpenAsk| open.due.is_some_and(|due| due <= now);
        let numbers: Vec<u64> =
            inner.asks.iter().filter(|(_, open)| overdue(open)).map(|(n, _)| *n).collect();
        let waited = inner.permission_timeout.unwrap_or_default().as_secs_f32();
        let why = format!("nobody answered within {waited} s, so it was refused");
        for number in numbers {
            let Some(open) = inner.asks.remove(&number) else { continue };
            let option = rejected_by(&open.view.options);
            match &option {
                Some(option) => open.ask.select(option),
                None => open.ask.cancel(),
            }
            tracing::info!(session = self.id, request = open.view.request, "{why}");
            let request = open.view.request.clone();
            let outcome = option.as_deref().unwrap_or(CANCELLED);
            self.resolved(&mut inner, open.view, outcome, Some(&why));
            self.apply_or_announce(&mut inner, Event::Answered(request));
        }
    }

    /// The agent says something. After a pause it may be of the turn that runs now.
    fn speaks(&self, inner: &mut Inner) {
        let pause = inner.spoke.elapsed();
        inner.spoke = Instant::now();
        if pause >= PAUSE && inner.state.late_turn().is_some() {
            self.apply(inner, Event::SpeaksAgain);
        }
    }

    /// What an update tells about the session; whether that is news for others.
    fn learn(&self, inner: &mut Inner, shape: &Shape<'_>, update: &RawUpdate) -> bool {
        match &*shape.kind {
            "tool_call" | "tool_call_update" => {
                if let Some(id) = shape.text("toolCallId")
                    && inner.kinds.len() < MOST_KINDS
                {
                    let known = inner.kinds.entry(id.into_owned());
                    match shape.text("kind") {
                        Some(kind) => drop(known.insert_entry(kind.into_owned())),
                        None => drop(known.or_insert_with(|| USUAL_KIND.to_owned())),
                    }
                }
                false
            }
            "available_commands_update" => match update.value().get_mut("availableCommands") {
                Some(Value::Array(commands)) => {
                    inner.commands = std::mem::take(commands);
                    true
                }
                _ => false,
            },
            "current_mode_update" => {
                let mode = shape.text("currentModeId").or_else(|| shape.text("modeId"));
                mode.is_some_and(|mode| {
                    inner.kept.chosen.follow_mode(&mode);
                    inner.offered.mode_is(&mode)
                })
            }
            "config_option_update" => inner.offered.take(&update.value()),
            "session_info_update" if !inner.kept.titled => {
                let Some(title) = shape.text("title") else { return false };
                inner.kept.title = super::title_from(&title);
                self.chore(inner, Chore::Save);
                true
            }
            _ => false,
        }
    }
}

/// The tool call that an update is about.
fn call_of<'a>(shape: &Shape<'a>) -> std::borrow::Cow<'a, str> {
    match &*shape.kind {
        "tool_call" | "tool_call_update" => shape.text("toolCallId").unwrap_or_default(),
        _ => "".into(),
    }
}

/// What is asked, with a number of its own.
fn asked(inner: &mut Inner, ask: &PermissionAsk) -> PermissionView {
    inner.asked += 1;
    let turn = inner.state.late_turn();
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
        self.client.terminals.open();
        self.lock().offered.take(answer);
    }

    fn keeps_replay(&self) -> bool {
        self.lock().replay.is_some()
    }

    fn updates(&self, updates: Vec<RawUpdate>) {
        let mut inner = self.lock();
        let updates = match &mut inner.replay {
            Some(replay) => replay.take(updates),
            None => updates,
        };
        let at = now();
        inner.kept.last_activity = at;
        inner.heard = Instant::now();
        self.speaks(&mut inner);
        let mut news = inner.quiet_since.take().is_some();
        let mut lines = Lines::default();
        let mut happenings = Vec::with_capacity(updates.len());
        for update in &updates {
            let shape = update.shape();
            let turn = match &inner.state.lingering {
                Some(late) if inner.late_calls.contains(&*call_of(&shape)) => {
                    Some(late.turn.clone())
                }
                _ => inner.state.turn_of(&shape.kind).map(str::to_owned),
            };
            news |= self.learn(&mut inner, &shape, update);
            lines.push(turn.as_deref(), update, shape.into_chunk());
            let (session, update) = (self.id.clone(), update.clone());
            happenings.push(Happening::Update { session, turn, update });
        }
        self.append_all(&mut inner, lines.finish(), at);
        // Published under the lock: events keep the order of what they tell.
        self.deps.events.publish_all(happenings);
        if news {
            self.announce(&inner);
        }
    }

    fn permission(&self, ask: PermissionAsk) {
        let mut inner = self.lock();
        self.speaks(&mut inner);
        let call = ask.tool_call.get("toolCallId").and_then(Value::as_str);
        let is_late = inner.state.lingering.is_some()
            && call.is_some_and(|call| inner.late_calls.contains(call));
        if is_late || inner.state.refuses_asks() {
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
        // A time that no clock can tell never comes.
        let due = inner.permission_timeout.and_then(|span| Instant::now().checked_add(span));
        inner.asks.insert(number, OpenAsk { view: view.clone(), due, ask });
        self.deps.events.publish(Happening::PermissionRequested {
            session: self.id.clone(),
            permission: Box::new(view),
        });
        // It may be asked outside of a turn.
        self.apply_or_announce(&mut inner, Event::Asked(request));
        // The actor has another alarm.
        self.wake.notify_one();
    }

    fn call(self: Arc<Self>, call: ClientCall) {
        if call.method == ELICIT {
            return self.question(call);
        }
        client::serve(self, call);
    }

    fn question_completed(&self, elicitation: &str) {
        self.page_done(elicitation);
    }

    fn request_answered(&self, request: &Value) {
        self.drop_questions_of(request);
    }

    fn withdrawn(&self, request: &Value) {
        self.client.withdraw(request);
        self.withdraw_question(request);
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
        self.client.terminals.close();
        // What it asked outside of any session, too.
        self.cancel_questions(&mut inner, "the agent ended");
        self.apply(&mut inner, Event::EngineGone(why.to_owned()));
        // After the end of the turn: a command may take seconds to end.
        self.chore(&mut inner, Chore::EndTerminals);
    }
}
