//! A session as others see it, and what of it a prompt changes.

use super::{
    AgentSpec, EngineRules, Prompt,
    cell::{Deps, Inner},
    records::of_a_server,
    state::Phase,
};
use crate::{bridge::ServerSpec, engine::EngineKey, wire::*};
use gantry_store::TurnRow;
use std::path::PathBuf;

impl Inner {
    /// What its engine is found by.
    pub(super) fn key(&self, rules: EngineRules) -> EngineKey {
        EngineKey {
            project: PathBuf::from(&self.project_path),
            agent: self.kept.agent.clone(),
            session: rules.one_per_session.then(|| self.kept.id.clone()),
        }
    }

    /// Takes over what a prompt says about the session from now on.
    pub(super) fn adopt(&mut self, prompt: &Prompt) {
        if let Some(servers) = &prompt.servers {
            self.kept.servers.clone_from(servers);
        }
        if let Some(agent) = &prompt.agent {
            self.kept.agent = agent.clone();
        }
        // The caller has sent what was not kept.
        let (servers, agent) = (prompt.servers.is_some(), prompt.agent.is_some());
        self.kept.withheld = self.withheld(servers, agent);
        if let Some(policy) = prompt.policy {
            self.kept.policy = policy;
        }
        self.permission_timeout = prompt.permission_timeout;
    }

    /// Secrets that it once had and that neither were kept nor come with a prompt that brings
    /// `servers` or an `agent`.
    pub(super) fn withheld(&self, servers: bool, agent: bool) -> Vec<String> {
        let is_missing = |what: &&String| !if of_a_server(what) { servers } else { agent };
        self.kept.withheld.iter().filter(is_missing).cloned().collect()
    }

    pub(super) fn servers(&self) -> Option<Vec<ServerSpec>> {
        self.kept.servers.clone()
    }

    pub(super) fn agent(&self) -> &AgentSpec {
        &self.kept.agent
    }

    /// A turn begins: what was known of the last one's tool calls is forgotten.
    pub(super) fn begin_turn(&mut self, row: TurnRow) {
        let before = std::mem::take(&mut self.kinds).into_keys();
        if self.state.lingering.is_some() {
            self.late_calls.extend(before);
        } else {
            self.late_calls.clear();
        }
        self.kept.last_activity = row.started_at;
        self.turn_row = Some(row);
    }

    pub(super) fn view(&self, deps: &Deps) -> SessionView {
        let (state, error) = self.state.view();
        SessionView {
            id: self.kept.id.clone(),
            acp_session_id: self.open.as_ref().map(|open| open.acp_id.clone()),
            project: self.project_path.clone(),
            project_id: self.kept.project_id.clone(),
            agent: self.kept.agent.id.clone(),
            title: self.kept.title.clone(),
            state,
            error,
            engine: self.engine.as_ref().and_then(|engine| {
                Some(EngineView { pid: engine.pid()?, sessions: deps.engines.members(engine) })
            }),
            servers: deps.bridge.as_of_now(&self.kept.id, self.readiness.clone()),
            turn: self.state.running().map(str::to_owned),
            permissions: self.asks.values().map(|open| open.view.clone()).collect(),
            questions: self.questions.values().map(|open| open.view.clone()).collect(),
            commands: self.commands.clone(),
            settings: Some(self.offered.view()),
            queue: self.queued(),
            quiet_since: self.quiet_since,
            capabilities: self.capabilities,
            restorable: self.kept.restorable,
            context: self.context,
            sign_in: self.sign_in.clone(),
            created_at: self.kept.created_at,
            last_activity: self.kept.last_activity,
        }
    }

    /// Whether it holds an engine or may hold servers.
    pub(super) fn is_closed(&self) -> bool {
        self.engine.is_none() && matches!(self.state.phase, Phase::Closed(_))
    }
}
