//! Prompts that wait for the running turn: seen, changed, dropped, sent now.

use super::{
    AgentSpec,
    cell::{Cell, Inner, Job},
    state::{CANCELLED, Event},
};
use crate::{
    Error, Result,
    wire::{Happening, QueuedPrompt},
};
use gantry_store::QueuedRow;
use serde_json::{Value, json};
use std::collections::VecDeque;

impl Inner {
    /// As others see it.
    pub(super) fn queued(&self) -> Vec<QueuedPrompt> {
        let queued = |job: &Job| {
            let texts: Vec<&str> =
                job.prompt.content.iter().filter_map(|block| block["text"].as_str()).collect();
            QueuedPrompt {
                turn: job.turn.clone(),
                text: texts.join("\n"),
                attachments: job.prompt.content.len() - texts.len(),
                at: job.at,
            }
        };
        self.queue.iter().map(queued).collect()
    }

    fn place(&self, turn: &str) -> Result<usize> {
        self.queue.iter().position(|job| job.turn == turn).ok_or_else(|| {
            Error::not_found(format!(
                "no prompt `{turn}` waits in this session; it may have been sent meanwhile"
            ))
        })
    }
}

impl Cell {
    /// Writes down a prompt that waits, so that it outlives the program. Asked for under the
    /// session's lock, so that the order of the writes is that of the changes.
    ///
    /// # Errors
    /// The store refuses.
    pub(super) fn keep_queued(&self, job: &Job) -> impl Future<Output = Result<()>> + Send + use<> {
        let kept = self.deps.store.keep_queued(QueuedRow {
            turn: job.turn.clone(),
            session_id: self.id.clone(),
            prompt: Value::from(job.prompt.content.clone()).to_string(),
            request_id: job.prompt.request_id.clone(),
            at: job.at,
        });
        async move { Ok(kept.await?) }
    }

    /// It could not be written down, so it is not taken: `false` when it is on its way already.
    pub(super) fn refuse_queued(&self, turn: &str) -> bool {
        let mut inner = self.lock();
        let Ok(place) = inner.place(turn) else { return false };
        inner.queue.remove(place);
        self.announce(&inner);
        true
    }

    /// Gives a queued prompt another text.
    pub(super) async fn edit_queued(&self, turn: &str, text: &str) -> Result<()> {
        let (before, kept) = self.change_queued(turn, text)?;
        let done = kept.await;
        if done.is_err() {
            let mut inner = self.lock();
            if let Ok(place) = inner.place(turn) {
                inner.queue[place].prompt.content = before;
                self.announce(&inner);
            }
        }
        done
    }

    fn change_queued(
        &self,
        turn: &str,
        text: &str,
    ) -> Result<(Vec<Value>, impl Future<Output = Result<()>> + Send + use<>)> {
        let mut inner = self.lock();
        let place = inner.place(turn)?;
        let content = &mut inner.queue[place].prompt.content;
        let is_text = |block: &Value| block["text"].is_string();
        if text.trim().is_empty() && content.iter().all(is_text) {
            return Err(Error::invalid("text: the prompt would be empty; drop it instead"));
        }
        let before = content.clone();
        content.retain(|block| !is_text(block));
        if !text.trim().is_empty() {
            content.insert(0, json!({ "type": "text", "text": text }));
        }
        let kept = self.keep_queued(&inner.queue[place]);
        self.announce(&inner);
        Ok((before, kept))
    }

    /// Takes a queued prompt out. It leaves no trace in the history: whoever wrote it took it
    /// back. Those who wait for its turn hear that it is over.
    pub(super) async fn drop_queued(&self, turn: &str) -> Result<()> {
        let forgotten = {
            let mut inner = self.lock();
            let place = inner.place(turn)?;
            inner.queue.remove(place);
            let forgotten = self.deps.store.forget_queued(turn);
            self.announce(&inner);
            forgotten
        };
        if let Err(error) = forgotten.await {
            tracing::error!(%error, "a prompt that was taken back may be shown as not sent");
        }
        self.deps.events.publish(Happening::TurnEnded {
            session: self.id.clone(),
            turn: turn.to_owned(),
            reason: CANCELLED.to_owned(),
            description: Some("it was taken out of the queue before it was sent".to_owned()),
        });
        Ok(())
    }

    /// Puts a queued prompt first and cancels the turn that it waits for.
    pub(super) fn send_queued(&self, turn: &str) -> Result<()> {
        let mut inner = self.lock();
        let place = inner.place(turn)?;
        if let Some(job) = inner.queue.remove(place) {
            inner.queue.push_front(job);
        }
        let before = inner.state.clone();
        // The turn before it may still be on its way to the agent.
        inner.interrupt.cancel();
        self.apply(&mut inner, Event::Cancel);
        if inner.state == before {
            self.announce(&inner);
        }
        self.wake.notify_one();
        Ok(())
    }
}

/// Their agent is started otherwise from now on: prompts that wait for it go to that.
pub(super) fn follow(queue: &mut VecDeque<Job>, agent: &AgentSpec) {
    let asked = queue.iter_mut().filter_map(|job| job.prompt.agent.as_mut());
    asked.filter(|asked| asked.id == agent.id).for_each(|asked| asked.clone_from(agent));
}

/// Whether a prompt brings other servers or another agent than the session will have when its
/// turn comes.
pub(super) fn brings_change(inner: &Inner, prompt: &super::Prompt) -> bool {
    let waiting = || inner.queue.iter().rev().map(|job| &job.prompt);
    let servers = waiting().find_map(|before| before.servers.as_ref());
    let agent = waiting().find_map(|before| before.agent.as_ref());
    let (servers, agent) =
        (servers.unwrap_or(&inner.kept.servers), agent.unwrap_or(&inner.kept.agent));
    prompt.servers.as_ref().is_some_and(|asked| asked != servers)
        || prompt.agent.as_ref().is_some_and(|asked| asked != agent)
}
