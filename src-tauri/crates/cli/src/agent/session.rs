//! The sessions of the one client.

use super::{
    memory::Memory,
    models::{Menu, Models},
    upstream::Upstream,
};
use agent_client_protocol::v1::schema::{McpServer, SessionId, SessionUpdate};
use futures::future::join_all;
use gantry_supervisor::{Deadline, Scope, Supervisor};
use serde_json::Value;
use std::{
    collections::{HashMap, HashSet, VecDeque},
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// What is kept of a conversation for a later `session/load`, in bytes of JSON.
const MOST_REMEMBERED: usize = 8 << 20;

/// One conversation.
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) cwd: PathBuf,
    memory: Memory,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    title: Option<String>,
    upstreams: Vec<Upstream>,
    /// (server, tool) that the user allowed for the rest of the session.
    allowed: HashSet<(String, String)>,
    turn: Option<CancellationToken>,
    /// With their sizes as JSON.
    history: VecDeque<(usize, SessionUpdate)>,
    remembered: usize,
    /// What a model has been told and has said, as chat completions take it.
    messages: Vec<Value>,
    /// The models to choose from.
    menu: Menu,
    /// It was taken up again, and what was said before is not known.
    is_amnesic: bool,
}

impl Session {
    fn kept(id: SessionId, cwd: PathBuf, memory: Memory) -> Self {
        let messages = memory.read(&id.0);
        let state = Mutex::new(State { messages, ..State::default() });
        Self { id, cwd, memory, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a turn; `None` when one is running.
    pub(super) fn begin_turn(&self, prompt: &str) -> Option<CancellationToken> {
        let mut state = self.state();
        if state.turn.is_some() {
            return None;
        }
        if state.title.is_none() && !prompt.trim().is_empty() {
            state.title = Some(prompt.trim().chars().take(80).collect());
        }
        Some(state.turn.insert(CancellationToken::new()).clone())
    }

    pub(super) fn end_turn(&self) {
        self.state().turn = None;
    }

    /// Cancels the turn, if one is running.
    pub(super) fn cancel(&self) {
        if let Some(turn) = &self.state().turn {
            turn.cancel();
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.state().turn.is_some()
    }

    pub(super) fn title(&self) -> Option<String> {
        self.state().title.clone()
    }

    pub(super) fn upstreams(&self) -> Vec<Upstream> {
        self.state().upstreams.clone()
    }

    pub(super) fn is_allowed(&self, server: &str, tool: &str) -> bool {
        self.state().allowed.contains(&(server.to_owned(), tool.to_owned()))
    }

    pub(super) fn allow(&self, server: &str, tool: &str) {
        self.state().allowed.insert((server.to_owned(), tool.to_owned()));
    }

    /// Keeps an update; beyond the limit the oldest ones go.
    pub(super) fn remember(&self, update: &SessionUpdate) {
        let mut size = Size(0);
        // Counting cannot fail, and an update that is no JSON could not be sent either.
        if serde_json::to_writer(&mut size, update).is_err() {
            return;
        }
        let mut state = self.state();
        state.remembered += size.0;
        state.history.push_back((size.0, update.clone()));
        while state.remembered > MOST_REMEMBERED
            && let Some((size, _)) = state.history.pop_front()
        {
            state.remembered -= size;
        }
    }

    pub(super) fn history(&self) -> Vec<SessionUpdate> {
        self.state().history.iter().map(|(_, update)| update.clone()).collect()
    }

    /// The models to choose from, and the choice.
    pub(super) fn menu(&self) -> Menu {
        self.state().menu.clone()
    }

    /// Offers these models from now on; a choice that was made stays.
    pub(super) fn offer(&self, mut menu: Menu) -> Menu {
        let mut state = self.state();
        menu.keep(&state.menu);
        state.menu = menu.clone();
        menu
    }

    /// Chooses a model for the turns to come; `None` when it is not offered.
    pub(super) fn choose(&self, id: &str) -> Option<Menu> {
        let mut state = self.state();
        state.menu.choose(id).then(|| state.menu.clone())
    }

    /// Notes that it was taken up again without what was said before.
    pub(super) fn forgot(&self) {
        self.state().is_amnesic = true;
    }

    /// Whether the user has to be told, once, that what was said before is not known.
    pub(super) fn has_to_confess(&self) -> bool {
        std::mem::take(&mut self.state().is_amnesic)
    }

    pub(super) fn messages(&self) -> Vec<Value> {
        self.state().messages.clone()
    }

    /// Keeps what was said, for another run of the agent too.
    pub(super) fn keep_messages(&self, messages: Vec<Value>) {
        self.memory.write(&self.id.0, &messages);
        self.state().messages = messages;
    }
}

/// All sessions. Clones are the same sessions.
#[derive(Clone)]
pub(super) struct Sessions {
    scope: Scope,
    supervisor: Supervisor,
    models: Models,
    memory: Memory,
    open: Arc<Mutex<HashMap<SessionId, Arc<Session>>>>,
}

impl Sessions {
    pub(super) fn new(
        scope: Scope,
        supervisor: Supervisor,
        models: Models,
        memory: Memory,
    ) -> Self {
        Self { scope, supervisor, models, memory, open: Arc::default() }
    }

    /// Where models come from.
    pub(super) fn models(&self) -> &Models {
        &self.models
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Session>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.open().get(id).cloned()
    }

    /// Whether an earlier run of the agent kept the conversation.
    pub(super) fn keeps(&self, id: &SessionId) -> bool {
        self.memory.has(&id.0)
    }

    /// All, sorted by id so that the order is stable.
    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        let mut all: Vec<_> = self.open().values().cloned().collect();
        all.sort_by(|a, b| a.id.0.cmp(&b.id.0));
        all
    }

    /// The session with this id, made if there is none, with what is kept of it; its servers begin
    /// to connect.
    /// Servers of before that are wanted no more are returned, to be closed.
    pub(super) fn open_with(
        &self,
        id: SessionId,
        cwd: PathBuf,
        servers: Vec<McpServer>,
    ) -> (Arc<Session>, Vec<Upstream>) {
        let session = {
            let mut open = self.open();
            let session = open
                .entry(id.clone())
                .or_insert_with(|| Arc::new(Session::kept(id, cwd, self.memory.clone())));
            session.clone()
        };
        let unwanted = self.reconcile(&session, servers);
        (session, unwanted)
    }

    /// Keeps the connections whose declaration is unchanged, starts the others.
    fn reconcile(&self, session: &Session, servers: Vec<McpServer>) -> Vec<Upstream> {
        let mut state = session.state();
        let mut before = std::mem::take(&mut state.upstreams);
        for spec in servers {
            let upstream = match before.iter().position(|u| *u.spec() == spec) {
                Some(at) => before.swap_remove(at),
                None => {
                    Upstream::start(spec, session.cwd.clone(), &self.scope, self.supervisor.clone())
                }
            };
            upstream.try_again();
            state.upstreams.push(upstream);
        }
        before
    }

    /// Cancels the turn, closes the servers, forgets the session; false when there was none.
    pub(super) async fn close(&self, id: &SessionId, deadline: Deadline) -> bool {
        let Some(session) = self.open().remove(id) else { return false };
        session.cancel();
        close_upstreams(&session.upstreams(), deadline).await;
        true
    }

    /// Closes all sessions at once.
    pub(super) async fn close_all(&self, deadline: Deadline) {
        let ids: Vec<SessionId> = self.open().keys().cloned().collect();
        join_all(ids.iter().map(|id| self.close(id, deadline))).await;
    }
}

/// Closes them all at the same time.
pub(super) async fn close_upstreams(upstreams: &[Upstream], deadline: Deadline) {
    join_all(upstreams.iter().map(|upstream| upstream.close(deadline))).await;
}

/// Counts what is written.
struct Size(usize);

impl io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol::v1::schema::{ContentBlock, ContentChunk};

    #[test]
    fn the_history_is_bounded_by_its_size() {
        let id = SessionId::from("s");
        let session = Session::kept(id, PathBuf::new(), Memory::default());
        for letter in ["a", "b", "c", "d"] {
            let text = letter.repeat(MOST_REMEMBERED / 3);
            let chunk = ContentChunk::new(ContentBlock::from(text));
            session.remember(&SessionUpdate::AgentMessageChunk(chunk));
        }
        let history = serde_json::to_value(session.history()).unwrap();
        let kept: Vec<_> = history
            .as_array()
            .unwrap()
            .iter()
            .map(|update| &update["content"]["text"].as_str().unwrap()[..1])
            .collect();
        assert_eq!(kept, ["c", "d"]);
    }
}
