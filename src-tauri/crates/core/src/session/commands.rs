//! What else can be asked of a session: settings, queue, resuming, sign-in, traffic, export.

use super::{
    AgentSpec, EngineRules, LARGEST_PAGE, Sessions,
    cell::{Cell, Command},
    export,
    offered::Setting,
    queue, setting, sign_in,
    state::Event,
};
use crate::{Error, Result, wire::*};
use gantry_supervisor::Deadline;
use std::{path::PathBuf, sync::Arc};
use tokio::sync::oneshot;

/// Messages of a session's traffic when the caller does not say.
const USUAL_TAIL: usize = 200;

impl Sessions {
    /// How engines are used from now on. Running ones stay as they are.
    pub fn set_rules(&self, rules: EngineRules) {
        self.inner.deps.rules.send_if_modified(|now| {
            let changed = *now != rules;
            *now = rules;
            changed
        });
    }

    /// Names of secrets that a session of an earlier run had, which were not kept, and which a
    /// prompt that brings `servers` or an `agent` does not bring.
    pub fn withheld(&self, session: &str, servers: bool, agent: bool) -> Vec<String> {
        let cell = self.cell(session);
        cell.map_or_else(|_| Vec::new(), |cell| cell.lock().withheld(servers, agent))
    }

    /// An agent is started so from now on: what waits to be sent to it goes there. A back end says
    /// itself which agent it wants.
    pub fn agent_changed(&self, agent: &AgentSpec) {
        for cell in self.cells().values() {
            let mut inner = cell.lock();
            if inner.kept.user_id.is_none() {
                queue::follow(&mut inner.queue, agent);
            }
        }
    }

    /// Ends the engines of an agent that wait for a first session: it is not what it was.
    pub async fn end_warm(&self, agent: &str) {
        self.inner.deps.engines.end_warm_of(agent).await;
    }

    /// Ends the engines that wait for a first session in the folders of these.
    pub async fn end_warm_beside(&self, sessions: &[SessionView], deadline: Deadline) {
        let folders: Vec<PathBuf> =
            sessions.iter().map(|session| PathBuf::from(&session.project)).collect();
        self.inner.deps.engines.end_warm_in(&folders, deadline).await;
    }

    /// Sets mode, model or an option, now and whenever the session is opened again.
    ///
    /// # Errors
    /// Not found; nothing named; not offered; the agent's.
    pub async fn set(&self, input: SessionSet) -> Result<SessionView> {
        let cell = self.cell(&input.session)?;
        let option = input.option.map(|option| Setting::Option(option.id, option.value));
        // The model first: other options may depend on it.
        let settings: Vec<Setting> = input
            .model
            .map(Setting::Model)
            .into_iter()
            .chain(option)
            .chain(input.mode.map(Setting::Mode))
            .collect();
        if settings.is_empty() {
            return Err(Error::invalid("say what to set: `mode`, `model` or `option`"));
        }
        for setting in settings {
            setting::set(&cell, setting).await?;
        }
        Ok(cell.view())
    }

    /// Gives a queued prompt another text.
    ///
    /// # Errors
    /// Not found, or sent meanwhile.
    pub async fn edit_queued(&self, input: &QueueEdit) -> Result<SessionView> {
        let cell = self.cell(&input.session)?;
        cell.edit_queued(&input.turn, &input.text).await?;
        Ok(cell.view())
    }

    /// Takes a prompt out of the queue.
    ///
    /// # Errors
    /// Not found, or sent meanwhile.
    pub async fn drop_queued(&self, input: &QueuedTurn) -> Result<SessionView> {
        let cell = self.cell(&input.session)?;
        cell.drop_queued(&input.turn).await?;
        Ok(cell.view())
    }

    /// Cancels the running turn and sends this prompt next.
    ///
    /// # Errors
    /// Not found, or sent meanwhile.
    pub fn send_queued(&self, input: &QueuedTurn) -> Result<SessionView> {
        let cell = self.cell(&input.session)?;
        cell.send_queued(&input.turn)?;
        Ok(cell.view())
    }

    /// Opens a session that is stopped, ahead of its next prompt. Does not wait for it.
    ///
    /// # Errors
    /// Not found; shutting down.
    pub async fn resume(&self, session: &str) -> Result<SessionView> {
        self.refuse_when_closing()?;
        let cell = self.cell(session)?;
        let begun = {
            let mut inner = cell.lock();
            let before = inner.state.clone();
            if inner.state.claim.is_none() {
                cell.apply(&mut inner, Event::OpeningBegan);
            }
            inner.state != before
        };
        if begun {
            self.command(&cell, Command::Open { epoch: cell.epoch() }).await?;
        }
        Ok(cell.view())
    }

    /// Signs in to the session's agent and opens the session.
    ///
    /// # Errors
    /// Not found; a method that is not offered; the agent's.
    pub async fn authenticate(&self, input: SessionAuthenticate) -> Result<Authenticated> {
        self.refuse_when_closing()?;
        let cell = self.cell(&input.session)?;
        let (reply, answer) = oneshot::channel();
        let epoch = cell.epoch();
        self.command(&cell, Command::SignIn { method: input.method, epoch, reply }).await?;
        answer.await.map_err(|_| Error::shutting_down())?
    }

    /// Tells the session's agent to forget the sign-in.
    ///
    /// # Errors
    /// Not found; not running; not offered; the agent's.
    pub async fn log_out(&self, session: &str) -> Result<()> {
        sign_in::log_out(&*self.cell(session)?).await
    }

    /// What was said between Gantry and the agent in a session, the newest of it.
    ///
    /// # Errors
    /// Not found.
    pub fn traffic(&self, input: &SessionTraffic) -> Result<Traffic> {
        let cell: Arc<Cell> = self.cell(&input.session)?;
        let wire = {
            let inner = cell.lock();
            let engine = || Some((inner.engine.as_ref()?.wire(), String::new()));
            inner.wire.clone().or_else(engine)
        };
        let tail = input.tail.unwrap_or(USUAL_TAIL);
        let messages = wire.map(|(wire, acp_id)| wire.read(&acp_id, tail)).unwrap_or_default();
        Ok(Traffic { messages })
    }

    /// A session as a file.
    ///
    /// # Errors
    /// Not found; the store cannot be read.
    pub async fn export(&self, input: &SessionExport) -> Result<Exported> {
        let view = self.cell(&input.session)?.view();
        let mut turns: Vec<TurnView> = Vec::new();
        loop {
            let before = turns.first().map(|turn| turn.number);
            let session = input.session.clone();
            let page = SessionHistory { session, before, limit: Some(LARGEST_PAGE) };
            let page = self.history(page).await?;
            turns.splice(0..0, page.turns);
            if !page.more {
                break;
            }
        }
        Ok(match input.format {
            ExportFormat::Markdown => Exported {
                name: export::file_name(&view.title, "md"),
                text: export::markdown(&view, &turns),
            },
            ExportFormat::Json => Exported {
                name: export::file_name(&view.title, "json"),
                text: export::json(&view, &turns),
            },
        })
    }
}
