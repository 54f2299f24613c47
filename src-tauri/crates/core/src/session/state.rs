//! What a session is doing: one pure function, [`State::next`].
//!
//! ```text
//! Closed ─► Opening ─► Idle ─► Prompting ⇄ (asks) ─► Idle
//!                                  └─► Cancelling ─► Idle
//! ```
//! A *claim* is a prompt on its way to the agent: it waits for servers and engine.

use crate::wire::SessionState;
use std::collections::BTreeSet;

/// Where a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Has no engine; a prompt opens it again.
    Closed(Closed),
    /// Servers and engine start, the agent opens it.
    Opening,
    /// Ready for a prompt.
    Idle,
    /// A turn runs; these permission requests are open.
    Prompting { turn: String, asks: BTreeSet<String> },
    /// A turn is being cancelled.
    Cancelling { turn: String },
}

/// Why a session is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// Stopped, or from an earlier run.
    Stopped,
    /// Its engine or its opening failed.
    Failed(String),
}

/// How the agent answered a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With this stop reason.
    Done(String),
    /// With an error.
    Error(String),
}

/// What happens to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A prompt is to be sent.
    Claimed(String),
    /// It will not be sent after all.
    ClaimDropped(String),
    /// Its opening begins.
    OpeningBegan,
    /// The agent has opened it.
    Opened,
    /// It could not be opened.
    OpeningFailed(String),
    /// The claimed prompt goes to the agent now.
    Prompted(String),
    /// The agent asks for permission.
    Asked(String),
    /// Somebody answered.
    Answered(String),
    /// The user wants the turn to end.
    Cancel,
    /// The agent answered a prompt.
    Replied(String, Outcome),
    /// The agent did not end a cancelled turn in time.
    Overdue,
    /// The agent speaks again after a pause.
    SpeaksAgain,
    /// The engine failed or ended by itself.
    EngineGone(String),
    /// It has been stopped.
    Stopped,
}

/// What is to be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Answer the open permission requests `cancelled`.
    CancelAsks,
    /// Tell the agent.
    SendCancel,
    /// The turn is over for everybody.
    EndTurn { turn: String, reason: String, description: Option<String> },
    /// Nobody needs the session's servers any more.
    Release,
}

/// What a session is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) phase: Phase,
    /// A prompt on its way to the agent.
    pub(super) claim: Option<String>,
    /// A turn that is over for us while the agent still works at it.
    pub(super) lingering: Option<Lingering>,
    /// The newest turn.
    pub(super) last: Option<String>,
}

/// A turn that the agent has not answered although it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lingering {
    pub(super) turn: String,
    /// The agent has answered a newer prompt: it may never answer this one.
    pub(super) overtaken: bool,
    /// The agent has paused in it: while a newer turn runs, it speaks of that one.
    pub(super) paused: bool,
}

/// The stop reason of a cancelled turn.
pub(super) const CANCELLED: &str = "cancelled";
/// The stop reason of a failed turn.
pub(super) const ERROR: &str = "error";

impl State {
    pub(super) fn closed() -> Self {
        Self { phase: Phase::Closed(Closed::Stopped), claim: None, lingering: None, last: None }
    }

    /// Whether a prompt can be claimed.
    pub(super) fn is_free(&self) -> bool {
        self.claim.is_none() && self.running().is_none()
    }

    /// The running turn.
    pub(super) fn running(&self) -> Option<&str> {
        match &self.phase {
            Phase::Prompting { turn, .. } | Phase::Cancelling { turn } => Some(turn),
            _ => None,
        }
    }

    /// Whether the agent has it open.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Closed(_) | Phase::Opening)
    }

    /// Whether a permission request that arrives now is answered `cancelled` at once.
    pub(super) fn refuses_asks(&self) -> bool {
        self.late_turn().is_some()
            || matches!(self.phase, Phase::Cancelling { .. } | Phase::Closed(_))
    }

    /// The turn that is over and that the agent still speaks of, as far as can be told: one that
    /// ignores a cancel may never answer it, and go on with the next prompt.
    pub(super) fn late_turn(&self) -> Option<&str> {
        let lingering = self.lingering.as_ref()?;
        let is_over = lingering.paused && self.running().is_some();
        (!is_over).then_some(lingering.turn.as_str())
    }

    /// The turn that an update of this kind belongs to. A late one carries its old
    /// turn: the one that the agent still works at, or the one that ended last.
    pub(super) fn turn_of(&self, kind: &str) -> Option<&str> {
        let is_part = gantry_acp::is_part_of_conversation(kind);
        self.late_turn()
            .or_else(|| self.running())
            .or_else(|| self.last.as_deref().filter(|_| is_part))
    }

    /// As others see it, with the reason when it failed.
    pub(super) fn view(&self) -> (SessionState, Option<String>) {
        let state = match &self.phase {
            Phase::Prompting { asks, .. } if asks.is_empty() => SessionState::Working,
            Phase::Prompting { .. } => SessionState::WaitingForYou,
            Phase::Cancelling { .. } => SessionState::Cancelling,
            Phase::Opening => SessionState::Starting,
            _ if self.claim.is_some() => SessionState::Starting,
            Phase::Idle => SessionState::Idle,
            Phase::Closed(Closed::Stopped) => SessionState::Stopped,
            Phase::Closed(Closed::Failed(why)) => {
                return (SessionState::Failed, Some(why.clone()));
            }
        };
        (state, None)
    }

    /// The state after `event`, and what is to be done. An event that does not fit changes nothing.
    pub(super) fn next(mut self, event: Event) -> (Self, Vec<Effect>) {
        let mut effects = Vec::new();
        match event {
            Event::Claimed(turn) if self.is_free() => self.claim = Some(turn),
            Event::ClaimDropped(turn) => self.drop_claim(&turn),
            Event::OpeningBegan if matches!(self.phase, Phase::Closed(_)) => {
                self.phase = Phase::Opening;
            }
            Event::Opened if !self.is_open() => self.phase = Phase::Idle,
            Event::OpeningFailed(why) if self.running().is_none() => {
                self.phase = Phase::Closed(Closed::Failed(why));
                self.lingering = None;
                effects.push(Effect::CancelAsks);
                effects.push(Effect::Release);
            }
            Event::Prompted(turn) if self.phase == Phase::Idle => {
                self.drop_claim(&turn);
                self.last = Some(turn.clone());
                self.lingering = self.lingering.filter(|lingering| !lingering.overtaken);
                self.phase = Phase::Prompting { turn, asks: BTreeSet::new() };
            }
            Event::Asked(request) => {
                if let Phase::Prompting { asks, .. } = &mut self.phase {
                    asks.insert(request);
                }
            }
            Event::Answered(request) => {
                if let Phase::Prompting { asks, .. } = &mut self.phase {
                    asks.remove(&request);
                }
            }
            Event::Cancel => {
                if let Phase::Prompting { turn, .. } = self.phase {
                    self.phase = Phase::Cancelling { turn };
                    effects.push(Effect::CancelAsks);
                    effects.push(Effect::SendCancel);
                }
            }
            Event::Replied(turn, outcome) => self.replied(&turn, outcome, &mut effects),
            Event::Overdue => {
                if let Phase::Cancelling { turn } = self.phase {
                    self.phase = Phase::Idle;
                    self.lingering =
                        Some(Lingering { turn: turn.clone(), overtaken: false, paused: false });
                    effects.push(Effect::CancelAsks);
                    effects.push(end(turn, CANCELLED, None));
                }
            }
            Event::SpeaksAgain if self.running().is_some() => {
                if let Some(lingering) = &mut self.lingering {
                    lingering.paused = true;
                }
            }
            Event::EngineGone(why) if !matches!(self.phase, Phase::Closed(_)) => {
                effects.push(Effect::CancelAsks);
                if let Some(turn) = self.running() {
                    effects.push(end(turn.to_owned(), ERROR, Some(why.clone())));
                }
                self.lingering = None;
                self.phase = Phase::Closed(Closed::Failed(why));
                effects.push(Effect::Release);
            }
            Event::Stopped => {
                effects.push(Effect::CancelAsks);
                if let Some(turn) = self.running() {
                    effects.push(end(turn.to_owned(), CANCELLED, None));
                }
                self.lingering = None;
                self.phase = Phase::Closed(Closed::Stopped);
            }
            _ => {}
        }
        (self, effects)
    }

    /// A claim that came after this one stays.
    fn drop_claim(&mut self, turn: &str) {
        if self.claim.as_deref() == Some(turn) {
            self.claim = None;
        }
    }

    fn replied(&mut self, turn: &str, outcome: Outcome, effects: &mut Vec<Effect>) {
        if self.lingering.as_ref().is_some_and(|lingering| lingering.turn == turn) {
            self.lingering = None;
            return;
        }
        if self.running() != Some(turn) {
            return;
        }
        if let Some(lingering) = &mut self.lingering {
            lingering.overtaken = true;
        }
        let cancelling = matches!(self.phase, Phase::Cancelling { .. });
        self.phase = Phase::Idle;
        effects.push(Effect::CancelAsks);
        effects.push(match outcome {
            // Some agents answer a cancel with `end_turn`, some with an error.
            _ if cancelling => end(turn.to_owned(), CANCELLED, None),
            Outcome::Done(reason) => end(turn.to_owned(), &reason, None),
            Outcome::Error(why) => end(turn.to_owned(), ERROR, Some(why)),
        });
    }
}

fn end(turn: String, reason: &str, description: Option<String>) -> Effect {
    Effect::EndTurn { turn, reason: reason.to_owned(), description }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn walk(events: impl IntoIterator<Item = Event>) -> (State, Vec<Effect>) {
        let mut state = State::closed();
        let mut all = Vec::new();
        for event in events {
            let (after, effects) = state.next(event);
            state = after;
            all.extend(effects);
        }
        (state, all)
    }

    fn prompting(turn: &str) -> Vec<Event> {
        vec![
            Event::Claimed(turn.into()),
            Event::OpeningBegan,
            Event::Opened,
            Event::Prompted(turn.into()),
        ]
    }

    fn ends(effects: &[Effect]) -> Vec<(&str, &str)> {
        effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::EndTurn { turn, reason, .. } => Some((turn.as_str(), reason.as_str())),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_turn_goes_its_way() {
        let mut events = prompting("t1");
        events.push(Event::Asked("p".into()));
        let (state, _) = walk(events.clone());
        assert_eq!(state.view().0, SessionState::WaitingForYou);
        events.push(Event::Answered("p".into()));
        assert_eq!(walk(events.clone()).0.view().0, SessionState::Working);
        events.push(Event::Replied("t1".into(), Outcome::Done("max_tokens".into())));
        let (state, effects) = walk(events);
        assert_eq!(state.view().0, SessionState::Idle);
        assert_eq!(ends(&effects), [("t1", "max_tokens")]);
    }

    #[test]
    fn a_cancel_answered_with_end_turn_or_an_error_is_a_cancel() {
        for outcome in [Outcome::Done("end_turn".into()), Outcome::Error("aborted".into())] {
            let mut events = prompting("t1");
            events.extend([Event::Cancel, Event::Replied("t1".into(), outcome)]);
            let (state, effects) = walk(events);
            assert_eq!(ends(&effects), [("t1", CANCELLED)]);
            assert!(effects.contains(&Effect::SendCancel));
            assert_eq!(state.phase, Phase::Idle);
        }
    }

    #[test]
    fn a_late_agent_cannot_revive_its_turn() {
        let mut events = prompting("t1");
        events.extend([Event::Cancel, Event::Overdue]);
        let (state, effects) = walk(events.clone());
        assert_eq!(ends(&effects), [("t1", CANCELLED)]);
        assert!(state.is_free() && state.refuses_asks());
        assert_eq!(state.turn_of("agent_message_chunk"), Some("t1"));
        events.extend([Event::Claimed("t2".into()), Event::Prompted("t2".into())]);
        let (state, _) = walk(events.clone());
        assert_eq!(state.turn_of("agent_message_chunk"), Some("t1"));
        events.push(Event::Replied("t1".into(), Outcome::Done("end_turn".into())));
        let (state, effects) = walk(events);
        assert_eq!(ends(&effects), [("t1", CANCELLED)], "its late answer ends nothing");
        assert_eq!(state.turn_of("agent_message_chunk"), Some("t2"));
        assert_eq!(state.running(), Some("t2"));
    }

    #[test]
    fn an_agent_that_paused_speaks_of_the_turn_that_runs() {
        let mut events = prompting("t1");
        events.extend([Event::Cancel, Event::Overdue, Event::SpeaksAgain]);
        assert!(walk(events.clone()).0.refuses_asks(), "nothing else runs yet");
        events.extend([Event::Claimed("t2".into()), Event::Prompted("t2".into())]);
        assert_eq!(walk(events.clone()).0.turn_of("agent_message_chunk"), Some("t1"));
        events.push(Event::SpeaksAgain);
        let (state, _) = walk(events.clone());
        assert_eq!(state.turn_of("agent_message_chunk"), Some("t2"));
        assert!(!state.refuses_asks());
        events.push(Event::Replied("t2".into(), Outcome::Done("end_turn".into())));
        let (state, _) = walk(events);
        assert_eq!(state.turn_of("agent_message_chunk"), Some("t1"), "late words after it");
        assert!(state.refuses_asks());
    }

    #[test]
    fn a_turn_that_was_overtaken_keeps_its_late_words_until_the_next_prompt() {
        let mut events = prompting("t1");
        events.extend([Event::Cancel, Event::Overdue]);
        events.extend([Event::Claimed("t2".into()), Event::Prompted("t2".into())]);
        events.push(Event::Replied("t2".into(), Outcome::Done("end_turn".into())));
        let (state, _) = walk(events.clone());
        assert_eq!(state.turn_of("agent_message_chunk"), Some("t1"));
        events.extend([Event::Claimed("t3".into()), Event::Prompted("t3".into())]);
        let (state, _) = walk(events);
        assert_eq!(state.turn_of("agent_message_chunk"), Some("t3"));
        assert!(!state.refuses_asks());
    }

    #[test]
    fn updates_after_the_end_carry_the_old_turn_but_news_of_the_session_none() {
        let mut events = prompting("t1");
        events.push(Event::Replied("t1".into(), Outcome::Done("end_turn".into())));
        let (state, _) = walk(events);
        assert_eq!(state.turn_of("tool_call_update"), Some("t1"));
        assert_eq!(state.turn_of("available_commands_update"), None);
    }

    #[test]
    fn the_end_of_the_engine_ends_the_turn_with_its_reason() {
        let mut events = prompting("t1");
        events.push(Event::EngineGone("agent ended with exit code 3: boom".into()));
        let (state, effects) = walk(events);
        assert_eq!(ends(&effects), [("t1", ERROR)]);
        assert_eq!(state.view().0, SessionState::Failed);
        assert!(state.view().1.unwrap().contains("boom"));
        assert!(state.is_free());
    }

    fn event() -> impl Strategy<Value = Event> {
        let turn = || prop::sample::select(vec!["t1", "t2", "t3"]).prop_map(str::to_owned);
        prop_oneof![
            turn().prop_map(Event::Claimed),
            turn().prop_map(Event::ClaimDropped),
            Just(Event::OpeningBegan),
            Just(Event::Opened),
            Just(Event::OpeningFailed("x".into())),
            turn().prop_map(Event::Prompted),
            turn().prop_map(Event::Asked),
            turn().prop_map(Event::Answered),
            Just(Event::Cancel),
            turn().prop_map(|turn| Event::Replied(turn, Outcome::Done("end_turn".into()))),
            Just(Event::Overdue),
            Just(Event::SpeaksAgain),
            Just(Event::EngineGone("y".into())),
            Just(Event::Stopped),
        ]
    }

    proptest! {
        /// Whatever happens in whatever order: a turn that began ends exactly
        /// once, only a running turn ends, and asks are open only while one runs.
        #[test]
        fn every_turn_ends_exactly_once(events in prop::collection::vec(event(), 0..60)) {
            let mut state = State::closed();
            let mut running: Option<String> = None;
            for event in events {
                let before = state.clone();
                let (after, effects) = before.clone().next(event);
                let ended = ends(&effects);
                prop_assert!(ended.len() <= 1);
                if let Some((turn, _)) = ended.first() {
                    prop_assert_eq!(running.as_deref(), Some(*turn));
                    running = None;
                }
                if before.running().is_none() && let Some(turn) = after.running() {
                    prop_assert!(running.is_none());
                    running = Some(turn.to_owned());
                }
                prop_assert_eq!(running.as_deref(), after.running());
                if matches!(after.phase, Phase::Closed(_)) {
                    prop_assert!(after.lingering.is_none());
                }
                state = after;
            }
        }
    }
}
