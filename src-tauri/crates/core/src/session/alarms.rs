//! What happens in a session when nothing does: a cancel that is ignored, a question
//! that nobody answers, silence.

use super::{
    cell::Cell,
    state::{Event, Phase},
};
use std::time::Duration;
use tokio::time::Instant;

impl Cell {
    /// When [`Cell::alarm`] is due.
    pub(super) fn alarm_at(&self) -> Option<Instant> {
        let inner = self.lock();
        let works = matches!(&inner.state.phase, Phase::Prompting { asks, .. } if asks.is_empty());
        let quiet_at =
            (works && inner.quiet_since.is_none()).then(|| inner.heard + self.deps.quiet_after);
        let asks = inner.asks.values().filter_map(|open| open.due);
        let questions = inner.questions.values().filter_map(|open| open.due);
        inner.force_at.into_iter().chain(quiet_at).chain(asks).chain(questions).min()
    }

    /// Looks what is due.
    pub(super) fn alarm(&self) {
        let now = Instant::now();
        let force = self.lock().force_at.is_some_and(|at| at <= now);
        if force {
            return self.overdue();
        }
        self.refuse_unanswered(now);
        self.leave_unanswered(now);
        let mut inner = self.lock();
        let works = matches!(&inner.state.phase, Phase::Prompting { asks, .. } if asks.is_empty());
        if works && inner.quiet_since.is_none() && inner.heard + self.deps.quiet_after <= now {
            inner.quiet_since = Some(inner.kept.last_activity);
            self.announce(&inner);
        }
    }

    /// A cancelled turn is over, whatever the agent does.
    pub(super) fn overdue(&self) {
        let mut inner = self.lock();
        inner.force_at = None;
        if inner.state.running().is_some() {
            tracing::warn!(
                session = self.id,
                "the agent ignores the cancel; its turn was ended without it"
            );
            if let Some(sent) = inner.sent.take() {
                // Some agents know this way better.
                sent.take_back();
            }
        }
        self.apply(&mut inner, Event::Overdue);
    }

    /// How long nothing has happened in it; `None` while something does. What the agent asks
    /// outside of a turn, or never answers, keeps nothing running.
    pub(super) fn idle_for(&self) -> Option<Duration> {
        let inner = self.lock();
        let rests = inner.state.is_free()
            && inner.state.phase != Phase::Opening
            && inner.queue.is_empty()
            && inner.stopping.is_none();
        rests.then(|| inner.heard.elapsed())
    }
}
