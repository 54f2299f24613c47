//! Engines: running agent processes, one for each project, agent and
//! environment, and the ACP sessions in them.
//!
//! ```text
//! Engines ── one start per key ──► run: launch → initialize → pump … end
//!    members (sessions)                    │
//!    last one leaves ──► Engine::stop      ├─► Conversation::{updates, permission, call}
//!                                          └─► Conversation::engine_gone
//! ```

mod registry;
mod routes;
mod run;
mod state;
mod wire_log;

pub(crate) use registry::{Engines, EnginesParts};
pub(crate) use state::EngineState;
pub(crate) use wire_log::WireLog;

use crate::{
    Error, Result,
    session::{AgentSpec, is_secret},
};
use gantry_acp::{
    AgentFacts, ClientCall, Opening, Peer, PeerError, PermissionAsk, RawUpdate, SentRequest,
    Written,
};
use gantry_supervisor::{Cause, Deadline, Ended, ProcessTree};
use routes::Routes;
use serde_json::Value;
use state::EngineEvent;
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};
use tokio::sync::{oneshot, watch};

/// How long an agent may take to answer `session/new` and its relatives. Real agents
/// wait up to 90 s in it for a server that never answers.
const OPEN_LIMIT: Duration = Duration::from_secs(150);

/// What makes two engines the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EngineKey {
    /// The project's folder, the working directory.
    pub(crate) project: PathBuf,
    /// The agent with its environment.
    pub(crate) agent: AgentSpec,
    /// The only session that it is for, when each has an engine of its own.
    pub(crate) session: Option<String>,
}

/// Our side of an ACP session, as an engine sees it. Called in the order in which the
/// agent wrote; must not wait.
pub(crate) trait Conversation: Send + Sync {
    /// The answer to `session/new`, `load` or `resume`: what can be chosen.
    fn opened(&self, answer: &Value);
    /// Whether it wants what `session/load` replays.
    fn keeps_replay(&self) -> bool {
        false
    }
    /// `session/update`: the raw `update` objects of as many as were there.
    fn updates(&self, updates: Vec<RawUpdate>);
    /// `session/request_permission`.
    fn permission(&self, ask: PermissionAsk);
    /// The agent wants us to do something that is offered.
    fn call(self: Arc<Self>, call: ClientCall);
    /// What a page was opened for is done (`elicitation/complete`); it may be of another session.
    fn question_completed(&self, elicitation: &str);
    /// A request of ours that the agent may ask about is over.
    fn request_answered(&self, request: &Value);
    /// The agent took a request back; it may be of another session.
    fn withdrawn(&self, request: &Value);
    /// Another session joined the engine, or left it.
    fn neighbours_changed(&self);
    /// The engine failed or ended by itself.
    fn engine_gone(&self, engine: u64, why: &str);
}

/// One engine. Clones are the same engine.
#[derive(Clone)]
pub(crate) struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    key: EngineKey,
    /// Unique in this run; a session knows by it which engine speaks.
    number: u64,
    state: watch::Sender<EngineState>,
    process: OnceLock<Process>,
    facts: OnceLock<AgentFacts>,
    routes: Mutex<Routes>,
    parts: EnginesParts,
    wire: Arc<WireLog>,
}

/// What a launched engine has.
#[derive(Debug)]
struct Process {
    tree: ProcessTree,
    peer: Peer,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("agent", &self.inner.key.agent.id)
            .field("number", &self.inner.number)
            .field("state", &*self.inner.state.borrow())
            .finish_non_exhaustive()
    }
}

/// A session that was opened in an engine.
#[derive(Clone, Debug)]
pub(crate) struct OpenedSession {
    /// The agent's id of it.
    pub(crate) acp_id: String,
}

/// Tells the agent that an answer is not wanted any more, unless it came.
struct TakeBack(Option<SentRequest>);

impl Drop for TakeBack {
    fn drop(&mut self) {
        if let Some(request) = self.0.take() {
            request.take_back();
        }
    }
}

/// A request of ours that the agent may ask the user about before it answers: a sign-in, the
/// opening of a session.
struct OwnRequest {
    engine: Engine,
    id: Value,
    conversation: Arc<dyn Conversation>,
}

impl Drop for OwnRequest {
    fn drop(&mut self) {
        self.engine.routes().drop_request(&self.id);
        self.conversation.request_answered(&self.id);
    }
}

impl Engine {
    fn new(key: EngineKey, number: u64, parts: EnginesParts) -> Self {
        let secrets = key.agent.env.iter().filter(|(name, _)| is_secret(name));
        let wire = Arc::new(WireLog::new(secrets.map(|(_, value)| value.clone()).collect()));
        Self {
            inner: Arc::new(Inner {
                wire,
                key,
                number,
                state: watch::Sender::new(EngineState::Starting),
                process: OnceLock::new(),
                facts: OnceLock::new(),
                routes: Mutex::default(),
                parts,
            }),
        }
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.inner.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, event: EngineEvent) {
        self.inner.state.send_modify(|state| *state = state.clone().next(event));
    }

    /// Unique in this run.
    pub(crate) fn number(&self) -> u64 {
        self.inner.number
    }

    /// What it is for.
    pub(crate) fn key(&self) -> &EngineKey {
        &self.inner.key
    }

    /// Where it is in its life.
    pub(crate) fn state(&self) -> EngineState {
        self.inner.state.borrow().clone()
    }

    /// The agent program's pid, once it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        Some(self.inner.process.get()?.tree.program().pid)
    }

    /// Its process tree, once it runs.
    pub(crate) fn tree(&self) -> Option<&ProcessTree> {
        Some(&self.inner.process.get()?.tree)
    }

    /// Whether its process is gone, which may not have been told yet.
    pub(crate) fn has_ended(&self) -> bool {
        let Ok(process) = self.process() else { return false };
        let was_ready = self.facts().is_some();
        process.tree.exit().is_some() || (was_ready && !process.peer.is_connected())
    }

    /// What the agent can do, once it is ready.
    pub(crate) fn facts(&self) -> Option<&AgentFacts> {
        self.inner.facts.get()
    }

    /// Waits until it takes sessions.
    ///
    /// # Errors
    /// Why it did not start; stopped meanwhile.
    pub(crate) async fn ready(&self) -> Result<()> {
        let mut state = self.inner.state.subscribe();
        let state = state
            .wait_for(|state| *state != EngineState::Starting)
            .await
            .map_err(|_| Error::shutting_down())?
            .clone();
        match state {
            EngineState::Ready => Ok(()),
            EngineState::Failed { why } => Err(Error::upstream(why)),
            EngineState::Starting | EngineState::Stopping | EngineState::Stopped => {
                Err(Error::interrupted("the agent was stopped while it started; try again"))
            }
        }
    }

    /// Why it ended by itself; waits for that. `None` when it was stopped.
    pub(crate) async fn failure(&self) -> Option<String> {
        let mut state = self.inner.state.subscribe();
        match state.wait_for(EngineState::is_final).await.ok()?.clone() {
            EngineState::Failed { why } => Some(why),
            _ => None,
        }
    }

    /// What it said and was told.
    pub(crate) fn wire(&self) -> Arc<WireLog> {
        self.inner.wire.clone()
    }

    /// The agent at the other end.
    ///
    /// # Errors
    /// [`PeerError::Lost`] when it was never there.
    pub(crate) fn peer(&self) -> std::result::Result<&Peer, PeerError> {
        Ok(&self.process()?.peer)
    }

    fn process(&self) -> std::result::Result<&Process, PeerError> {
        self.inner.process.get().ok_or(PeerError::Lost)
    }

    /// Opens a session. What the agent sends in it goes to `conversation`, from the first
    /// update on; a replayed history is swallowed unless it wants that.
    ///
    /// # Errors
    /// The agent's; [`PeerError::Lost`] when it ended.
    pub(crate) async fn open_session(
        &self,
        opening: Opening<'_>,
        servers: &[Value],
        conversation: Arc<dyn Conversation>,
        on_sent: impl FnOnce(),
    ) -> std::result::Result<OpenedSession, PeerError> {
        let process = self.process()?;
        let known = match opening {
            Opening::New => None,
            Opening::Resume(session) | Opening::Load(session) => {
                let replaying = matches!(opening, Opening::Load(_)) && !conversation.keeps_replay();
                self.route(session, conversation.clone(), replaying);
                Some(session.to_owned())
            }
        };
        let method = opening.method();
        let (sender, receiver) = oneshot::channel();
        let engine = self.clone();
        let asker = conversation.clone();
        let written = process.peer.open_session(
            opening,
            &self.inner.key.project,
            servers,
            // Runs before the next update of the agent is looked at.
            move |answer| engine.session_opened(method, known, answer, conversation, sender),
        )?;
        let mut unanswered = TakeBack(Some(written.request()));
        let _own = self.own_request(&written.request(), asker);
        let opened = async {
            written.wait().await?;
            on_sent();
            let answer = receiver.await.map_err(|_| PeerError::Lost)?;
            unanswered.0 = None;
            answer
        };
        Deadline::after(OPEN_LIMIT).bound(opened).await.unwrap_or_else(|_| {
            Err(PeerError::Nonsense {
                method: method.to_owned(),
                why: format!("it did not come within {} s", OPEN_LIMIT.as_secs()),
            })
        })
    }

    /// Until it is dropped, what the agent asks for this request is asked in `conversation`.
    fn own_request(
        &self,
        request: &SentRequest,
        conversation: Arc<dyn Conversation>,
    ) -> OwnRequest {
        let id = request.id();
        self.routes().add_request(id.clone(), conversation.clone());
        OwnRequest { engine: self.clone(), id, conversation }
    }

    /// `authenticate`; see [`Peer::authenticate`]. What the agent asks for it is asked in
    /// `conversation`.
    ///
    /// # Errors
    /// The agent's; [`PeerError::Lost`] when it ended.
    pub(crate) async fn authenticate(
        &self,
        method: &str,
        conversation: Arc<dyn Conversation>,
    ) -> std::result::Result<(), PeerError> {
        let mut own = None;
        let peer = &self.process()?.peer;
        let sent = |sent: &SentRequest| own = Some(self.own_request(sent, conversation));
        let answered = peer.authenticate(method, sent).await;
        drop(own);
        answered
    }

    fn session_opened(
        &self,
        method: &str,
        known: Option<String>,
        answer: std::result::Result<Value, PeerError>,
        conversation: Arc<dyn Conversation>,
        asker: oneshot::Sender<std::result::Result<OpenedSession, PeerError>>,
    ) {
        let opened = answer.and_then(|answer| {
            let acp_id = known
                .clone()
                .or_else(|| answer.get("sessionId").and_then(Value::as_str).map(str::to_owned));
            let acp_id = acp_id.ok_or_else(|| PeerError::Nonsense {
                method: method.to_owned(),
                why: "`sessionId` is missing".to_owned(),
            })?;
            if known.is_none() && self.routes().conversation(&acp_id).is_some() {
                return Err(PeerError::Nonsense {
                    method: method.to_owned(),
                    why: format!("another session has the `sessionId` `{acp_id}` already"),
                });
            }
            Ok((OpenedSession { acp_id }, answer))
        });
        match (&opened, &known) {
            (Ok((opened, answer)), None) => {
                self.route(&opened.acp_id, conversation.clone(), false);
                conversation.opened(answer);
            }
            (Ok((opened, answer)), Some(_)) => {
                self.routes().replay_is_over(&opened.acp_id);
                conversation.opened(answer);
            }
            (Err(_), Some(session)) => self.routes().remove(session),
            (Err(_), None) => {}
        }
        if let Err(Ok(unwanted)) = asker.send(opened.map(|(opened, _)| opened)) {
            // The asker gave up: nobody will use this session.
            self.forget_session(&unwanted.acp_id);
            if self.facts().is_some_and(|facts| facts.close)
                && let Ok(process) = self.process()
            {
                let params = serde_json::json!({ "sessionId": unwanted.acp_id });
                let _ = process.peer.request("session/close", params, |_| {});
            }
        }
    }

    fn route(&self, acp_id: &str, conversation: Arc<dyn Conversation>, replaying: bool) {
        let early = self.routes().add(acp_id, conversation.clone(), replaying);
        if !early.is_empty() {
            conversation.updates(early);
        }
    }

    /// What the agent still sends in this session is dropped from now on.
    pub(crate) fn forget_session(&self, acp_id: &str) {
        self.routes().remove(acp_id);
    }

    /// Closes a session in the agent, where it offers that, and forgets it.
    pub(crate) async fn close_session(&self, acp_id: &str, deadline: Deadline) {
        if self.facts().is_some_and(|facts| facts.close)
            && let Ok(process) = self.process()
        {
            match deadline.bound(process.peer.close_session(acp_id)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "the agent did not close a session"),
                Err(_) => tracing::debug!("the agent did not answer `session/close` in time"),
            }
        }
        self.forget_session(acp_id);
    }

    /// `session/prompt`; see [`Peer::prompt`].
    ///
    /// # Errors
    /// [`PeerError::Lost`].
    pub(crate) fn prompt(
        &self,
        acp_id: &str,
        content: &[Value],
        then: impl FnOnce(std::result::Result<Value, PeerError>) + Send + 'static,
    ) -> std::result::Result<Written, PeerError> {
        self.process()?.peer.prompt(acp_id, content, then)
    }

    /// `session/cancel`.
    pub(crate) fn cancel(&self, acp_id: &str) {
        // An agent that is gone has nothing to cancel.
        if let Ok(process) = self.process() {
            let _ = process.peer.cancel(acp_id);
        }
    }

    /// Deletes a session in the agent, where it offers that. What is forgotten here
    /// is forgotten there.
    pub(crate) async fn delete_session(&self, acp_id: &str, deadline: Deadline) {
        if self.facts().is_some_and(|facts| facts.delete)
            && let Ok(process) = self.process()
            && let Ok(Err(error)) = deadline.bound(process.peer.delete_session(acp_id)).await
        {
            tracing::debug!(%error, "the agent did not delete a session");
        }
    }

    /// Ends it with everything that it started. Idempotent. `None` when there was
    /// no process to end.
    pub(crate) async fn stop(&self, cause: Cause, deadline: Deadline) -> Option<Ended> {
        self.apply(EngineEvent::StopAsked);
        let mut state = self.inner.state.subscribe();
        // A launch that is under way cannot be called back: its process is ended once it is there.
        let launched =
            state.wait_for(|state| state.is_final() || self.inner.process.get().is_some());
        let _ = deadline.bound(launched).await;
        let ended = self.tree()?.stop(cause, deadline).await;
        self.apply(EngineEvent::TreeEnded);
        Some(ended)
    }
}
