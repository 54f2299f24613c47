//! A server's life, pure: `next(life, event, moment) -> (life, effects)`.
//!
//! Exactly one process lives in `Starting`, `Ready` and `Stopping`, none in the
//! other states, whatever the order of events. Each launch has a generation;
//! what an old generation says is dropped. Nothing here waits or starts: the
//! server's actor carries the effects out and reports back with events.

use gantry_supervisor::{Cause, Deadline};
use std::time::Duration;
use tokio::time::Instant;

/// The first back-off; doubles with each attempt.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
/// No back-off is longer.
const BACKOFF_LONGEST: Duration = Duration::from_secs(30);
/// `Ready` must last this long for earlier attempts to be forgotten.
const STABLE: Duration = Duration::from_secs(30);
/// Restarts in a row of a server that was ready before.
const RESTARTS_MOST: u32 = 6;
/// Restarts in a row of a server that has never been ready: most likely its
/// configuration is wrong, and a session is waiting for the verdict.
const FIRST_RESTARTS_MOST: u32 = 2;
/// From an answered ping to the next.
const PING_EVERY: Duration = Duration::from_secs(15);
/// Pings without an answer, one after the other, after which it is restarted.
const PINGS_MISSED_MOST: u32 = 2;
/// What a server gets to end when no caller's deadline applies (it failed by itself, or
/// its configuration changed).
pub(super) const END_SPAN: Duration = Duration::from_secs(5);

/// What a server is doing.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// Not running, and nobody needs it.
    Stopped,
    /// A process was asked for; it has not answered `tools/list` yet.
    Starting {
        generation: u64,
        /// Failed attempts before this one.
        attempt: u32,
        begun: Instant,
        /// When the handshake must be done; `None` until the process runs.
        until: Option<Instant>,
    },
    /// It has answered `tools/list`.
    Ready { generation: u64, attempt: u32, since: Instant, probe: Probe, missed: u32 },
    /// Ended unexpectedly; waits for its next start.
    Restarting { attempt: u32, until: Instant, why: String },
    /// Given up until somebody asks again.
    Failed { why: String },
    /// Not running: it wants its user to sign in first.
    WantsUser,
    /// Its process is being ended (or ends as soon as its launch is done).
    Stopping { generation: u64, launched: bool, cause: Cause, deadline: Deadline, then: Then },
}

/// The next or the running liveness check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Probe {
    Due(Instant),
    Sent,
}

/// What follows when the process has ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Then {
    Stopped,
    Start,
    Retry { attempt: u32, why: String },
    Failed { why: String },
    WantsUser,
}

/// What happened to a server.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// Somebody needs it.
    Start,
    /// By hand: end it if it runs, start it in any case.
    Restart { deadline: Deadline },
    /// Its configuration changed: end it if it runs and start it again; stay stopped otherwise.
    Replace { deadline: Deadline },
    /// Nobody needs it any more.
    Stop { cause: Cause, deadline: Deadline },
    /// Gantry ends: stop, and never start again.
    Close { deadline: Deadline },
    /// The process runs.
    Launched { generation: u64 },
    /// There is no process. `fatal`: trying again would not help.
    LaunchFailed { generation: u64, why: String, fatal: bool },
    /// `tools/list` is answered.
    Handshaken { generation: u64 },
    /// The process ended by itself, or its connection is broken.
    Lost { generation: u64, why: String },
    /// It wants its user to sign in first; until then another start would end the same way.
    SignIn { generation: u64 },
    /// The ending that was asked for is over. `detail` is put after the reason.
    Ended { generation: u64, detail: String, left: bool },
    /// A ping came back, or not in time. `busy`: it works on a client's call.
    Pong { generation: u64, answered: bool, busy: bool },
    /// [`Life::alarm`] went off.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect {
    Launch { generation: u64 },
    End { generation: u64, cause: Cause, deadline: Deadline },
    Ping { generation: u64 },
}

/// What `next` may know of the world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub now: Instant,
    /// 0 to 1, for the jitter of a back-off.
    pub dice: f64,
    /// How long a start may take.
    pub start_limit: Duration,
    /// Once it was ready it is never given up: what is gone is likely to come back (a remote one).
    pub patient: bool,
}

/// A server's state with what it remembers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Life {
    pub state: State,
    /// Of the last launch.
    generation: u64,
    /// Unexpected ends since it was last started by hand or configured.
    pub restarts: u32,
    was_ready: bool,
    closed: bool,
}

impl Default for Life {
    fn default() -> Self {
        Self { state: State::Stopped, generation: 0, restarts: 0, was_ready: false, closed: false }
    }
}

/// The one place where a server's state changes.
pub(super) fn next(mut life: Life, event: Event, at: Moment) -> (Life, Vec<Effect>) {
    let mut effects = Vec::new();
    let state = std::mem::replace(&mut life.state, State::Stopped);
    life.state = life.step(state, event, at, &mut effects);
    (life, effects)
}

impl Life {
    /// When [`Event::Tick`] is due.
    pub fn alarm(&self) -> Option<Instant> {
        match &self.state {
            State::Starting { until, .. } => *until,
            State::Ready { probe: Probe::Due(due), .. } => Some(*due),
            State::Restarting { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// The generation of the process that lives (or is being launched), if one does.
    pub fn process(&self) -> Option<u64> {
        match &self.state {
            State::Starting { generation, .. }
            | State::Ready { generation, .. }
            | State::Stopping { generation, .. } => Some(*generation),
            State::Stopped | State::Restarting { .. } | State::Failed { .. } | State::WantsUser => {
                None
            }
        }
    }

    fn step(&mut self, state: State, event: Event, at: Moment, out: &mut Vec<Effect>) -> State {
        match event {
            Event::Start => self.start(state, at, out),
            Event::Restart { deadline } => self.restart(state, deadline, true, at, out),
            Event::Replace { deadline } => self.restart(state, deadline, false, at, out),
            Event::Stop { cause, deadline } => stop(state, cause, deadline, out),
            Event::Close { deadline } => {
                self.closed = true;
                stop(state, Cause::Quit, deadline, out)
            }
            Event::Tick => self.tick(state, at, out),
            report => self.hear(state, report, at, out),
        }
    }

    fn start(&mut self, state: State, at: Moment, out: &mut Vec<Effect>) -> State {
        match state {
            _ if self.closed => state,
            State::Stopped | State::Failed { .. } | State::WantsUser => self.launch(0, at, out),
            State::Stopping {
                generation,
                launched,
                cause,
                deadline,
                then: Then::Stopped | Then::Failed { .. } | Then::WantsUser,
            } => State::Stopping { generation, launched, cause, deadline, then: Then::Start },
            other => other,
        }
    }

    /// `by_hand` starts it also when it did not run and was not about to.
    fn restart(
        &mut self,
        state: State,
        deadline: Deadline,
        by_hand: bool,
        at: Moment,
        out: &mut Vec<Effect>,
    ) -> State {
        if self.closed {
            return state;
        }
        self.restarts = 0;
        self.was_ready = false;
        match state {
            State::Stopped | State::Failed { .. } | State::WantsUser if !by_hand => State::Stopped,
            State::Stopping { then: Then::Stopped, .. } if !by_hand => state,
            State::Stopped | State::Failed { .. } | State::WantsUser | State::Restarting { .. } => {
                self.launch(0, at, out)
            }
            running => end(running, Cause::Restart, deadline, Then::Start, out),
        }
    }

    fn tick(&mut self, state: State, at: Moment, out: &mut Vec<Effect>) -> State {
        match state {
            State::Starting { attempt, until: Some(until), .. } if until <= at.now => {
                let why = format!(
                    "it did not answer `tools/list` within {} s; look at its log, or give it more \
                     time with `startTimeoutMs`",
                    at.start_limit.as_millis() as f64 / 1000.0
                );
                let then = if at.patient && self.was_ready {
                    self.after_failure(attempt, why, at)
                } else {
                    // Not tried again: what it was doing (a first download) would begin anew.
                    Then::Failed { why }
                };
                self.end_by_itself(state, then, at, out)
            }
            State::Ready { generation, attempt, since, probe: Probe::Due(due), missed }
                if due <= at.now =>
            {
                out.push(Effect::Ping { generation });
                State::Ready { generation, attempt, since, probe: Probe::Sent, missed }
            }
            State::Restarting { until, attempt, .. } if until <= at.now => {
                self.launch(attempt, at, out)
            }
            early => early,
        }
    }

    /// What a process, or who looks after it, reports.
    fn hear(&mut self, state: State, report: Event, at: Moment, out: &mut Vec<Effect>) -> State {
        match (state, report) {
            (
                State::Starting { generation, attempt, begun, until: None },
                Event::Launched { generation: of },
            ) if of == generation => {
                State::Starting { generation, attempt, begun, until: Some(at.now + at.start_limit) }
            }
            (
                State::Stopping { generation, launched: false, cause, deadline, then },
                Event::Launched { generation: of },
            ) if of == generation => {
                out.push(Effect::End { generation, cause, deadline });
                State::Stopping { generation, launched: true, cause, deadline, then }
            }
            (
                State::Starting { generation, attempt, until: None, .. },
                Event::LaunchFailed { generation: of, why, fatal },
            ) if of == generation => {
                let then =
                    if fatal { Then::Failed { why } } else { self.after_failure(attempt, why, at) };
                self.follow(then, "", at, out)
            }
            (
                State::Stopping { generation, launched: false, then, .. },
                Event::LaunchFailed { generation: of, .. },
            ) if of == generation => self.follow(then, "", at, out),
            (
                State::Starting { generation, attempt, until: Some(_), .. },
                Event::Handshaken { generation: of },
            ) if of == generation => {
                self.was_ready = true;
                let probe = Probe::Due(at.now + PING_EVERY);
                State::Ready { generation, attempt, since: at.now, probe, missed: 0 }
            }
            (
                state @ (State::Starting { until: Some(_), .. } | State::Ready { .. }),
                Event::Lost { generation: of, why },
            ) if state.generation() == Some(of) => {
                let then = self.after_failure(state.attempts(at.now), why, at);
                self.end_by_itself(state, then, at, out)
            }
            (
                state @ (State::Starting { until: Some(_), .. } | State::Ready { .. }),
                Event::SignIn { generation: of },
            ) if state.generation() == Some(of) => {
                self.end_by_itself(state, Then::WantsUser, at, out)
            }
            (
                State::Stopping { generation, launched: true, then, .. },
                Event::Ended { generation: of, detail, left },
            ) if of == generation => {
                let then = match then {
                    Then::Start | Then::Retry { .. } if left => Then::Failed {
                        why: "its processes could not be ended; end them by hand, then restart it"
                            .into(),
                    },
                    then => then,
                };
                self.follow(then, &detail, at, out)
            }
            (
                state @ State::Ready { probe: Probe::Sent, .. },
                Event::Pong { generation: of, answered, busy },
            ) if state.generation() == Some(of) => self.pong(state, answered, busy, at, out),
            // Of an old generation, or too late to matter.
            (state, _) => state,
        }
    }

    fn pong(
        &mut self,
        state: State,
        answered: bool,
        busy: bool,
        at: Moment,
        out: &mut Vec<Effect>,
    ) -> State {
        let State::Ready { generation, attempt, since, missed, .. } = state else {
            return state;
        };
        let missed = if answered { 0 } else { missed.saturating_add(1) };
        // A server with one thread does not answer while it works; a call may take an hour.
        if missed >= PINGS_MISSED_MOST && !busy {
            let why = format!("it did not answer {missed} pings");
            let then = self.after_failure(state.attempts(at.now), why, at);
            return self.end_by_itself(state, then, at, out);
        }
        let due = if missed == 0 || busy { at.now + PING_EVERY } else { at.now };
        State::Ready { generation, attempt, since, probe: Probe::Due(due), missed }
    }

    fn launch(&mut self, attempt: u32, at: Moment, out: &mut Vec<Effect>) -> State {
        if self.closed {
            return State::Stopped;
        }
        self.generation += 1;
        let generation = self.generation;
        out.push(Effect::Launch { generation });
        State::Starting { generation, attempt, begun: at.now, until: None }
    }

    /// What follows a failure after `attempt` earlier ones.
    fn after_failure(&mut self, attempt: u32, why: String, at: Moment) -> Then {
        self.restarts = self.restarts.saturating_add(1);
        let most = match (self.was_ready, at.patient) {
            (true, true) => u32::MAX,
            (true, false) => RESTARTS_MOST,
            (false, _) => FIRST_RESTARTS_MOST,
        };
        if attempt < most {
            Then::Retry { attempt: attempt + 1, why }
        } else {
            Then::Failed { why }
        }
    }

    fn end_by_itself(
        &mut self,
        state: State,
        then: Then,
        at: Moment,
        out: &mut Vec<Effect>,
    ) -> State {
        end(state, Cause::Failed, Deadline::at(at.now + END_SPAN), then, out)
    }

    /// No process lives any more.
    fn follow(&mut self, then: Then, detail: &str, at: Moment, out: &mut Vec<Effect>) -> State {
        match then {
            Then::Stopped => State::Stopped,
            Then::Start => self.launch(0, at, out),
            Then::Retry { attempt, why } => State::Restarting {
                attempt,
                until: at.now + backoff(attempt, at.dice),
                why: why + detail,
            },
            Then::Failed { why } => State::Failed { why: why + detail },
            Then::WantsUser => State::WantsUser,
        }
    }
}

impl State {
    fn generation(&self) -> Option<u64> {
        match self {
            Self::Starting { generation, .. }
            | Self::Ready { generation, .. }
            | Self::Stopping { generation, .. } => Some(*generation),
            _ => None,
        }
    }

    /// Failed attempts that still count.
    fn attempts(&self, now: Instant) -> u32 {
        match self {
            Self::Ready { since, .. } if now.duration_since(*since) >= STABLE => 0,
            Self::Starting { attempt, .. } | Self::Ready { attempt, .. } => *attempt,
            _ => 0,
        }
    }
}

fn stop(state: State, cause: Cause, deadline: Deadline, out: &mut Vec<Effect>) -> State {
    match state {
        State::Stopped | State::Restarting { .. } | State::Failed { .. } | State::WantsUser => {
            State::Stopped
        }
        running => end(running, cause, deadline, Then::Stopped, out),
    }
}

/// Ends the process of a state that has one. Asked again, the earlier deadline counts.
fn end(state: State, cause: Cause, deadline: Deadline, then: Then, out: &mut Vec<Effect>) -> State {
    let (generation, launched, deadline) = match state {
        State::Starting { generation, until, .. } => (generation, until.is_some(), deadline),
        State::Ready { generation, .. } => (generation, true, deadline),
        State::Stopping { generation, launched, deadline: earlier, .. } => {
            (generation, launched, deadline.min(earlier))
        }
        none => return none,
    };
    if launched {
        out.push(Effect::End { generation, cause, deadline });
    }
    State::Stopping { generation, launched, cause, deadline, then }
}

/// 100 ms·2ⁿ⁻¹, at most 30 s, of which the last fifth is left to chance.
fn backoff(attempt: u32, dice: f64) -> Duration {
    let doubled = BACKOFF_FIRST.saturating_mul(1 << attempt.saturating_sub(1).min(20));
    doubled.min(BACKOFF_LONGEST).mul_f64(0.8 + 0.2 * dice.clamp(0.0, 1.0))
}

/// 0 to 1. Not for secrets.
pub(super) fn dice() -> f64 {
    let mut bytes = [0; 2];
    // Without randomness there is no jitter, that is all.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u16::from_le_bytes(bytes)) / f64::from(u16::MAX)
}

#[cfg(test)]
#[path = "next_tests.rs"]
mod tests;
