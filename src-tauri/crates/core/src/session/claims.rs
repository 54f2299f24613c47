//! What was asked of a session and waits for its actor: prompts, and the stop that
//! takes them along.

use super::{
    Prompt,
    cell::{Cell, Chore, Inner, Job},
    queue::brings_change,
    state::{CANCELLED, Event},
};
use crate::{Error, Result, events::now, wire::*};
use std::pin::Pin;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

/// Prompts that may wait for a running turn.
const MOST_QUEUED: usize = 32;

/// What became of a prompt that was asked for.
pub(super) enum Claim {
    /// It is next; the actor gets it.
    Next(Box<Job>),
    /// It waits for the running turn.
    Queued {
        accepted: PromptAccepted,
        /// Until it is written down.
        kept: Pin<Box<dyn Future<Output = Result<()>> + Send>>,
    },
}

/// What became of a stop that was asked for.
pub(super) struct StopAsked {
    /// Gets the result.
    pub(super) result: watch::Receiver<Option<SessionStopped>>,
    /// Whether the actor is to be told; false when a stop is under way.
    pub(super) first: bool,
}

impl Inner {
    /// Whether a stop is under way.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }
}

impl Cell {
    /// Takes a prompt on, or lets it wait.
    pub(super) fn claim(
        &self,
        prompt: Prompt,
        reply: oneshot::Sender<Result<PromptAccepted>>,
    ) -> Result<Claim> {
        let mut inner = self.lock();
        if inner.deleted {
            return Err(Error::not_found(format!("there is no session `{}`", self.id)));
        }
        super::content::check(&prompt.content, inner.capabilities)?;
        let turn = uuid::Uuid::now_v7().to_string();
        let (epoch, at) = (inner.epoch, now());
        if inner.state.is_free() && inner.queue.is_empty() {
            inner.interrupt = inner.life.child_token();
            inner.ahead.cancel();
            self.apply(&mut inner, Event::Claimed(turn.clone()));
            let job = Job { turn, prompt, epoch, at, reply: Some(reply) };
            return Ok(Claim::Next(Box::new(job)));
        }
        if !prompt.queue {
            return Err(Error::busy(
                "a turn is running in this session; wait for its end, cancel it, or ask to queue",
            ));
        }
        if inner.queue.len() >= MOST_QUEUED {
            return Err(Error::busy(format!("{MOST_QUEUED} prompts wait in this session already")));
        }
        let deferred = brings_change(&inner, &prompt);
        let accepted = PromptAccepted {
            turn: turn.clone(),
            servers: inner.readiness.clone(),
            engine: if deferred { EngineOutcome::Deferred } else { EngineOutcome::Reused },
            context: ContextOutcome::Kept,
        };
        let job = Job { turn, prompt, epoch, at, reply: None };
        let kept = Box::pin(self.keep_queued(&job));
        inner.queue.push_back(job);
        self.announce(&inner);
        self.wake.notify_one();
        Ok(Claim::Queued { accepted, kept })
    }

    /// The next queued prompt, claimed, when the session is free.
    pub(super) fn next_queued(&self) -> Option<Box<Job>> {
        let mut inner = self.lock();
        let ends = inner.stopping.is_some() || inner.deleted || self.deps.engines.is_quitting();
        if ends || !inner.state.is_free() {
            return None;
        }
        let job = inner.queue.pop_front()?;
        inner.interrupt = inner.life.child_token();
        inner.ahead.cancel();
        self.apply(&mut inner, Event::Claimed(job.turn.clone()));
        Some(Box::new(job))
    }

    /// Begins a stop: what waits to be sent is dropped, what is being opened is interrupted.
    pub(super) fn ask_stop(&self) -> StopAsked {
        let mut inner = self.lock();
        if let Some(stopping) = &inner.stopping {
            return StopAsked { result: stopping.subscribe(), first: false };
        }
        let (sender, result) = watch::channel(None);
        inner.stopping = Some(sender);
        inner.epoch += 1;
        std::mem::take(&mut inner.life).cancel();
        if let Some(turn) = inner.state.claim.clone() {
            self.apply(&mut inner, Event::ClaimDropped(turn));
        }
        self.drop_queue(&mut inner, "the session was stopped before this prompt was sent");
        StopAsked { result, first: true }
    }

    /// What waits to be sent never will be.
    fn drop_queue(&self, inner: &mut Inner, why: &str) {
        for job in std::mem::take(&mut inner.queue) {
            let (job, description) = (Box::new(job), why.to_owned());
            self.chore(inner, Chore::Unsent { job, reason: CANCELLED, description });
        }
    }

    /// Gantry ends: the turn is cancelled, and what waits for its end is not sent.
    pub(super) fn finish(&self) {
        self.drop_queue(&mut self.lock(), "Gantry was quit before this prompt was sent");
        self.cancel();
    }

    /// From now on nothing can be sent in it.
    pub(super) fn mark_deleted(&self) {
        let mut inner = self.lock();
        inner.deleted = true;
        self.drop_queue(&mut inner, "the session was deleted before this prompt was sent");
    }

    /// The same, unless it has turns or prompts: whether it is so now.
    pub(super) fn mark_unused_deleted(&self) -> bool {
        let mut inner = self.lock();
        let has_turns = inner.counters.is_some_and(|counters| counters.turn > 0);
        let is_unused = inner.state.is_free() && inner.queue.is_empty() && !has_turns;
        inner.deleted |= is_unused;
        is_unused
    }

    /// Ends a stop.
    pub(super) fn stopped(&self, result: SessionStopped) {
        if let Some(stopping) = self.lock().stopping.take() {
            stopping.send_replace(Some(result));
        }
    }

    /// What interrupts the way of a claimed prompt; `None` when a stop came since.
    pub(super) fn interruption(&self, epoch: u64) -> Option<CancellationToken> {
        let inner = self.lock();
        (inner.epoch == epoch).then(|| inner.interrupt.clone())
    }

    /// What interrupts an opening that no prompt has asked for: the first at any time, the
    /// second, when a prompt comes, as long as it waits. `None` when a stop came since, or when
    /// a prompt is on its way already: it opens the session itself, within its own time.
    pub(super) fn ahead(&self, epoch: u64) -> Option<(CancellationToken, CancellationToken)> {
        let mut inner = self.lock();
        if inner.epoch != epoch || inner.state.claim.is_some() {
            return None;
        }
        inner.ahead = inner.life.child_token();
        Some((inner.life.clone(), inner.ahead.clone()))
    }

    /// Whether a prompt is on its way.
    pub(super) fn is_claimed(&self) -> bool {
        self.lock().state.claim.is_some()
    }

    /// What interrupts a sign-in; `None` when a stop came since.
    pub(super) fn life(&self, epoch: u64) -> Option<CancellationToken> {
        let inner = self.lock();
        (inner.epoch == epoch).then(|| inner.life.clone())
    }

    pub(super) fn epoch(&self) -> u64 {
        self.lock().epoch
    }
}
