//! Prompts that wait for the running turn: seen, changed, dropped, sent now.

use super::{
    cell::{Cell, Inner, Job},
    state::{CANCELLED, Event},
};
use crate::{
    Error, Result,
    wire::{Happening, QueuedPrompt},
};
use gantry_store::QueuedRow;
use serde_json::{Value, json};

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
    pub(super) fn keep_queued(&self, job: &Job) -> impl Future<Output = ()> + Send + use<> {
        let kept = self.deps.store.keep_queued(QueuedRow {
            turn: job.turn.clone(),
            session_id: self.id.clone(),
            prompt: Value::from(job.prompt.content.clone()).to_string(),
            request_id: job.prompt.request_id.clone(),
            at: job.at,
        });
        async move {
            if let Err(error) = kept.await {
                // It is sent all the same; only a crash would lose it.
                tracing::error!(%error, "a prompt that waits was not stored");
            }
        }
    }

    /// Gives a queued prompt another text.
    pub(super) async fn edit_queued(&self, turn: &str, text: &str) -> Result<()> {
        self.change_queued(turn, text)?.await;
        Ok(())
    }

    fn change_queued(
        &self,
        turn: &str,
        text: &str,
    ) -> Result<impl Future<Output = ()> + Send + use<>> {
        let mut inner = self.lock();
        let place = inner.place(turn)?;
        let content = &mut inner.queue[place].prompt.content;
        let is_text = |block: &Value| block["text"].is_string();
        if text.trim().is_empty() && content.iter().all(is_text) {
            return Err(Error::invalid("text: the prompt would be empty; drop it instead"));
        }
        content.retain(|block| !is_text(block));
        if !text.trim().is_empty() {
            content.insert(0, json!({ "type": "text", "text": text }));
        }
        let kept = self.keep_queued(&inner.queue[place]);
        self.announce(&inner);
        Ok(kept)
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
        self.apply(&mut inner, Event::Cancel);
        if inner.state == before {
            self.announce(&inner);
        }
        self.wake.notify_one();
        Ok(())
    }
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
