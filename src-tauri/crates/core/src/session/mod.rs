//! Sessions: conversations, their turns, and the engines they run in.
//!
//! ```text
//! Sessions ── claim ──► Cell (state, short lock) ── Command ──► actor (waits)
//!                         ▲                                       │
//!    engine: updates, permission, gone               opening → turn │ stopping
//!            call ──► client: files, terminals
//! ```
//! What cannot wait happens in the [`cell`]; what has to wait is done by the session's
//! actor, one thing after the other: so a prompt, a stop and an opening of one
//! session never run at the same time, and none of them holds up another session.

mod actor;
mod adopt;
mod alarms;
mod cell;
mod claims;
mod client;
mod commands;
mod content;
mod conversation;
mod export;
mod history;
mod idle;
mod lines;
mod notes;
mod offered;
mod opening;
mod parts;
mod permission;
mod questions;
mod queue;
mod records;
mod setting;
mod sign_in;
mod state;
mod stopping;
mod turn;
mod view;

use crate::{
    Error, Result,
    engine::{Engines, EnginesParts},
    events::now,
    wire::*,
};
pub use parts::*;
pub(crate) use records::is_secret;

use cell::{Cell, Command, Counters, Deps};
use claims::Claim;
use gantry_supervisor::Deadline;
use records::Kept;
use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::{oneshot, watch};

/// Longest title that somebody gives a session, characters.
const LONGEST_GIVEN_TITLE: usize = 200;
/// Longest title that a first prompt gives it, characters.
const LONGEST_TITLE: usize = 60;
/// How long an agent may take to end a turn of a session that is deleted, and to delete it.
const FORGET: Duration = Duration::from_secs(1);
/// Turns of a page of history when the caller does not say.
const USUAL_PAGE: usize = 20;
/// Most turns of a page of history.
const LARGEST_PAGE: usize = 200;

/// All sessions. Clones are the same.
#[derive(Clone)]
pub struct Sessions {
    inner: Arc<Inner>,
}

struct Inner {
    deps: Arc<Deps>,
    cells: RwLock<HashMap<String, Arc<Cell>>>,
    closing: AtomicBool,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("count", &self.cells().len()).finish_non_exhaustive()
    }
}

impl Sessions {
    /// Reads the sessions of earlier runs from the store; starts nothing.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(parts: SessionsParts) -> Result<Self> {
        Self::open_with(parts, SessionLimits::default()).await
    }

    /// The same with other limits, for slow machines and tests.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open_with(parts: SessionsParts, limits: SessionLimits) -> Result<Self> {
        let engines = Engines::new(EnginesParts {
            scope: parts.scope.child("engines"),
            supervisor: parts.supervisor.clone(),
            gantry: parts.gantry,
            memory: parts.memory,
            initialize_limit: limits.initialize,
        });
        let deps = Arc::new(Deps {
            scope: parts.scope,
            supervisor: parts.supervisor,
            bridge: parts.bridge,
            store: parts.store,
            events: parts.events,
            engines,
            rules: watch::Sender::new(EngineRules::default()),
            quiet_after: limits.quiet_after,
        });
        let projects: HashMap<String, String> =
            deps.store.projects().await?.into_iter().map(|row| (row.id, row.path)).collect();
        let mut cells = HashMap::new();
        for row in deps.store.sessions().await? {
            let path = projects.get(&row.project_id).cloned().unwrap_or_default();
            let kept = Kept::from_row(row);
            let cell = Cell::new(deps.clone(), kept, path, None);
            cells.insert(cell.id.clone(), Arc::new(cell));
        }
        let inner = Inner { deps, cells: RwLock::new(cells), closing: AtomicBool::new(false) };
        let sessions = Self { inner: Arc::new(inner) };
        sessions.announce_receipts();
        let idle = idle::run(Arc::downgrade(&sessions.inner));
        sessions.inner.deps.scope.spawn("idle-engines", idle);
        Ok(sessions)
    }

    /// A session is announced again when its agent has fetched a server's tools.
    fn announce_receipts(&self) {
        let sessions = Arc::downgrade(&self.inner);
        self.inner.deps.bridge.on_receipt(move |session| {
            let Some(inner) = sessions.upgrade() else { return };
            if let Ok(cell) = (Self { inner }).cell(session) {
                cell.announce(&cell.lock());
            }
        });
    }

    fn cells(&self) -> std::sync::RwLockReadGuard<'_, HashMap<String, Arc<Cell>>> {
        self.inner.cells.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn cell(&self, session: &str) -> Result<Arc<Cell>> {
        self.cells()
            .get(session)
            .cloned()
            .ok_or_else(|| Error::not_found(format!("there is no session `{session}`")))
    }

    fn refuse_when_closing(&self) -> Result<()> {
        if self.inner.closing.load(Ordering::Acquire) {
            return Err(Error::shutting_down());
        }
        Ok(())
    }

    /// A new session.
    ///
    /// # Errors
    /// The store refuses; shutting down.
    pub async fn create(&self, new: NewSession) -> Result<SessionView> {
        self.refuse_when_closing()?;
        if let Some(acp_id) = &new.acp_id
            && let Some(known) = self.known_as(&new.agent.id, acp_id)
        {
            return Err(Error::invalid(format!(
                "`acp_session_id`: this conversation is session `{known}` already; go on there"
            )));
        }
        let at = now();
        let title = new.title.as_deref().map(str::trim).filter(|title| !title.is_empty());
        let kept = Kept {
            id: uuid::Uuid::now_v7().to_string(),
            adopted: new.acp_id.is_some(),
            acp_id: new.acp_id,
            project_id: new.project.id,
            agent: new.agent,
            titled: title.is_some(),
            title: title.unwrap_or_default().chars().take(LONGEST_GIVEN_TITLE).collect(),
            servers: new.servers,
            policy: new.policy,
            system_prompt: new.system_prompt.filter(|text| !text.trim().is_empty()),
            user_id: new.user_id,
            created_at: at,
            last_activity: at,
            closed: None,
            chosen: offered::Chosen::default(),
            restorable: None,
            withheld: Vec::new(),
        };
        let deps = self.inner.deps.clone();
        deps.store.save_session(kept.to_row()).await?;
        let counters = Some(Counters::default());
        let cell = Arc::new(Cell::new(deps, kept, new.project.path, counters));
        self.inner
            .cells
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(cell.id.clone(), cell.clone());
        {
            let mut inner = cell.lock();
            if new.open_now {
                cell.apply(&mut inner, state::Event::OpeningBegan);
            } else {
                cell.announce(&inner);
            }
        }
        if new.open_now {
            self.command(&cell, Command::Open { epoch: cell.epoch() }).await?;
        }
        Ok(cell.view())
    }

    async fn command(&self, cell: &Arc<Cell>, command: Command) -> Result<()> {
        cell.mailbox().send(command).await.map_err(|_| Error::shutting_down())
    }

    /// The id of the agent of a session that people opened: the agent may have been configured
    /// otherwise since. A back end says itself which agent it wants.
    pub fn followed_agent(&self, session: &str) -> Option<String> {
        let cell = self.cell(session).ok()?;
        let inner = cell.lock();
        inner.kept.user_id.is_none().then(|| inner.kept.agent.id.clone())
    }

    /// The session's agent is started so from now on. Does nothing while a turn runs: the next
    /// prompt brings it along.
    pub fn follow_agent(&self, session: &str, agent: &AgentSpec) {
        let Ok(cell) = self.cell(session) else { return };
        let mut inner = cell.lock();
        if inner.state.is_free() {
            inner.kept.agent.clone_from(agent);
        }
    }

    /// Hands a prompt to the agent: leases and waits for the servers, starts
    /// the engine if needed, opens the session in it, sends the prompt. Returns once `session/prompt` was
    /// written (or queued), not when the turn ends.
    ///
    /// # Errors
    /// Not found, busy, shutting down, failed (agent not found, agent ended with …).
    pub async fn prompt(&self, session: &str, prompt: Prompt) -> Result<PromptAccepted> {
        self.refuse_when_closing()?;
        let cell = self.cell(session)?;
        if prompt.content.is_empty() {
            return Err(Error::invalid("`content` is empty; a prompt has at least one block"));
        }
        let (reply, accepted) = oneshot::channel();
        match cell.claim(prompt, reply)? {
            Claim::Queued { accepted, kept } => {
                // The actor may never have been started.
                cell.mailbox();
                match kept.await {
                    Err(error) if cell.refuse_queued(&accepted.turn) => Err(error),
                    _ => Ok(accepted),
                }
            }
            Claim::Next(job) => {
                self.command(&cell, Command::Prompt(job)).await?;
                accepted.await.map_err(|_| Error::shutting_down())?
            }
        }
    }

    /// Cancels the running turn; nothing to do without one.
    ///
    /// # Errors
    /// Not found.
    pub async fn cancel(&self, session: &str) -> Result<()> {
        self.cell(session)?.cancel();
        Ok(())
    }

    /// Answers a permission request.
    ///
    /// # Errors
    /// Not found; an option that was not offered is invalid.
    pub async fn permit(&self, session: &str, request: &str, option: &str) -> Result<()> {
        self.cell(session)?.permit(request, option)
    }

    /// Answers another question of the agent.
    ///
    /// # Errors
    /// Not found; a value that the question does not allow is invalid: the message names the field.
    pub fn answer(&self, input: SessionAnswer) -> Result<()> {
        self.cell(&input.session)?.answer(input)
    }

    /// Stops a session: cancels its turn, closes it in the engine, drops its
    /// leases; ends the engine with its last session. Idempotent.
    ///
    /// # Errors
    /// Not found.
    pub async fn stop(&self, session: &str, deadline: Deadline) -> Result<SessionStopped> {
        self.stop_then(session, deadline, false).await
    }

    /// The same; an engine that ends with it is started anew to wait for the next session, where
    /// the rules want that.
    ///
    /// # Errors
    /// Not found.
    pub async fn stop_warm(&self, session: &str, deadline: Deadline) -> Result<SessionStopped> {
        self.stop_then(session, deadline, true).await
    }

    async fn stop_then(
        &self,
        session: &str,
        deadline: Deadline,
        warm: bool,
    ) -> Result<SessionStopped> {
        let cell = self.cell(session)?;
        let nothing = SessionStopped {
            success: true,
            session_id: session.to_owned(),
            engine_stopped: false,
            servers_stopped: Vec::new(),
            processes_ended: 0,
            forced: 0,
        };
        if !cell.has_actor() {
            return Ok(nothing);
        }
        let mut asked = cell.ask_stop();
        if asked.first {
            self.command(&cell, Command::Stop { deadline, warm }).await?;
        }
        let stopped = asked.result.wait_for(Option::is_some).await;
        Ok(stopped.ok().and_then(|result| result.clone()).unwrap_or(nothing))
    }

    /// Gives it another title.
    ///
    /// # Errors
    /// Not found; empty.
    pub async fn rename(&self, session: &str, title: &str) -> Result<SessionView> {
        let cell = self.cell(session)?;
        let title = title.trim();
        if title.is_empty() {
            return Err(Error::invalid("`title` is empty"));
        }
        let row = {
            let mut inner = cell.lock();
            inner.kept.title = title.chars().take(LONGEST_GIVEN_TITLE).collect();
            inner.kept.titled = true;
            cell.announce(&inner);
            inner.kept.to_row()
        };
        self.inner.deps.store.save_session(row).await?;
        Ok(cell.view())
    }

    /// Forgets it, unless anything was asked in it or waits to be.
    ///
    /// # Errors
    /// Not found; it is used.
    pub async fn delete_unused(&self, session: &str, deadline: Deadline) -> Result<()> {
        if self.cell(session)?.mark_unused_deleted() {
            self.delete(session, deadline).await
        } else {
            Err(Error::busy("the session is used"))
        }
    }

    /// Stops it and forgets it.
    ///
    /// # Errors
    /// Not found.
    pub async fn delete(&self, session: &str, deadline: Deadline) -> Result<()> {
        let cell = self.cell(session)?;
        cell.mark_deleted();
        let (engine, open) = {
            let inner = cell.lock();
            (inner.engine.clone(), inner.open.as_ref().map(|open| open.acp_id.clone()))
        };
        if let (Some(engine), Some(acp_id)) = (engine, open) {
            cell.cancel();
            cell.settled(deadline.or_after(FORGET)).await;
            engine.delete_session(&acp_id, deadline.or_after(FORGET)).await;
        }
        self.stop(session, deadline).await?;
        if cell.has_actor() {
            self.command(&cell, Command::End).await?;
        }
        self.inner.cells.write().unwrap_or_else(PoisonError::into_inner).remove(session);
        self.inner.deps.store.remove_session(session).await?;
        let (command, acp_id) = {
            let inner = cell.lock();
            (inner.kept.agent.command.clone(), inner.kept.acp_id.clone())
        };
        if let Some(acp_id) = acp_id.filter(|_| command.is_empty()) {
            self.inner.deps.engines.forget_conversation(&acp_id);
        }
        self.inner.deps.events.publish(Happening::SessionRemoved { id: session.to_owned() });
        Ok(())
    }

    /// Turns with everything in them, a page of them.
    ///
    /// # Errors
    /// Not found.
    pub async fn history(&self, ask: SessionHistory) -> Result<History> {
        let cell = self.cell(&ask.session)?;
        let limit = ask.limit.unwrap_or(USUAL_PAGE).clamp(1, LARGEST_PAGE);
        // Before the store is read: events after it can be applied on top.
        let seq = self.inner.deps.events.seq();
        let store = &self.inner.deps.store;
        let mut rows = store.turns(&ask.session, ask.before, limit + 1).await?;
        let more = rows.len() > limit;
        if more {
            rows.remove(0);
        }
        let mut turns = Vec::with_capacity(rows.len());
        for row in rows {
            // Before the store is read: one that ends meanwhile is in both, none in neither.
            let mut running = cell.client.terminals.running_in(&row.id);
            let updates = store.updates_of_turn(&row.id).await?;
            let mut turn = history::turn_view(row, updates);
            running.retain(|terminal| turn.terminals.iter().all(|ended| ended.id != terminal.id));
            turn.terminals.extend(running);
            turns.push(turn);
        }
        Ok(History { turns, more, seq })
    }

    /// All sessions, the last active first.
    pub fn views(&self) -> Vec<SessionView> {
        let cells: Vec<Arc<Cell>> = self.cells().values().cloned().collect();
        let mut views: Vec<SessionView> = cells.iter().map(|cell| cell.view()).collect();
        views.sort_by(|a, b| b.last_activity.cmp(&a.last_activity).then_with(|| b.id.cmp(&a.id)));
        views
    }

    /// One session.
    pub fn view(&self, session: &str) -> Option<SessionView> {
        let cell = self.cells().get(session).cloned();
        Some(cell?.view())
    }

    /// The engines: agent id, program and sessions of each (for the process view).
    pub fn engines(&self) -> Vec<EngineFacts> {
        let engines = self.inner.deps.engines.all();
        engines
            .into_iter()
            .filter_map(|(engine, sessions)| {
                Some(EngineFacts {
                    agent: engine.key().agent.id.clone(),
                    tree: engine.tree()?.id().to_owned(),
                    sessions,
                })
            })
            .collect()
    }

    /// Shutdown, phase "finish": no new prompts; running turns are cancelled and waited for.
    pub async fn finish(&self, deadline: Deadline) {
        self.inner.closing.store(true, Ordering::Release);
        self.inner.deps.engines.quit();
        let cells: Vec<Arc<Cell>> = self.active();
        for cell in &cells {
            cell.finish();
        }
        // What does not end by itself is ended for the store in the rest of the time.
        let patience = Deadline::after(deadline.remaining().mul_f32(0.8));
        futures::future::join_all(cells.iter().map(|cell| async {
            if !cell.settled(patience).await {
                cell.overdue();
                cell.settled(deadline).await;
            }
        }))
        .await;
    }

    /// Shutdown, phase "ask": ends all engines.
    pub async fn stop_all(&self, deadline: Deadline) {
        self.inner.closing.store(true, Ordering::Release);
        let cells = self.active();
        self.inner.deps.engines.stop_all(deadline).await;
        for cell in cells {
            cell.quit();
        }
    }

    /// Sessions that had something to do in this run.
    fn active(&self) -> Vec<Arc<Cell>> {
        self.cells().values().filter(|cell| cell.has_actor()).cloned().collect()
    }
}

/// The first line of a text, short enough for a title.
fn title_from(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    if line.chars().count() <= LONGEST_TITLE {
        return line.to_owned();
    }
    let cut: String = line.chars().take(LONGEST_TITLE - 1).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_line_and_short() {
        assert_eq!(title_from("\n  Fix the build \nplease"), "Fix the build");
        assert_eq!(title_from(""), "");
        let long = title_from(&"语".repeat(200));
        assert_eq!(long.chars().count(), LONGEST_TITLE);
        assert!(long.ends_with('…'));
    }
}
