//! What sessions are made of, what one is opened with, and what is asked of it.

use crate::{
    bridge::{Bridge, ServerSpec},
    events::Events,
    wire::*,
};
use gantry_store::{ProjectRow, Store};
use gantry_supervisor::{Scope, Supervisor};
use serde_json::Value;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// What sessions are made of.
#[derive(Clone, Debug)]
pub struct SessionsParts {
    /// Owner of their tasks.
    pub scope: Scope,
    /// Starts and ends engines.
    pub supervisor: Supervisor,
    /// Their servers.
    pub bridge: Bridge,
    /// Where they are kept.
    pub store: Store,
    /// Where changes are announced.
    pub events: Events,
    /// The program `gantry`: the built-in agent is `gantry agent`.
    pub gantry: PathBuf,
    /// Where the built-in agent keeps its conversations, see [`MEMORY_VARIABLE`].
    pub memory: PathBuf,
}

/// Read by `gantry agent`: the folder in which it keeps its conversations for another run.
pub const MEMORY_VARIABLE: &str = "GANTRY_AGENT_MEMORY";

/// The file of a conversation in that folder; none for an id that is no name of a file.
pub fn memory_file(memory: &std::path::Path, acp_id: &str) -> Option<PathBuf> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let fits = !acp_id.is_empty() && acp_id.len() <= 128 && acp_id.chars().all(is_name);
    fits.then(|| memory.join(format!("{acp_id}.json")))
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// An agent's answer to `initialize`.
    pub initialize: Duration,
    /// A working agent's silence, before it is shown.
    pub quiet_after: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { initialize: Duration::from_secs(60), quiet_after: Duration::from_secs(60) }
    }
}

/// How long an engine may be idle unless somebody has chosen otherwise.
const USUAL_IDLE: Duration = Duration::from_secs(30 * 60);

/// How engines are used; can change while Gantry runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineRules {
    /// How long an engine may be without a turn before it ends; `None`: for ever.
    pub idle: Option<Duration>,
    /// Whether each session has an engine of its own.
    pub one_per_session: bool,
    /// How many engines whose last session was stopped are started anew, to wait for the next one.
    pub warm: usize,
}

impl EngineRules {
    /// How many may wait for a first session: none where it could not be the engine of any.
    pub(super) fn most_warm(self) -> usize {
        if self.one_per_session { 0 } else { self.warm }
    }

    /// How long an engine may wait for a first session.
    pub(super) fn longest_warm(self) -> Duration {
        self.idle.unwrap_or(USUAL_IDLE)
    }
}

impl Default for EngineRules {
    fn default() -> Self {
        Self { idle: Some(USUAL_IDLE), one_per_session: false, warm: 0 }
    }
}

/// How a session's agent is started. Part of the engine's key.
#[derive(Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct AgentSpec {
    /// For the log and the list.
    pub id: String,
    /// The program; empty for the built-in agent.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Added to its environment (may hold secrets: never logged).
    pub env: BTreeMap<String, String>,
    /// What Gantry does for it.
    #[serde(default)]
    pub offers: ClientOffers,
}

/// Without the environment's values: they may be secrets.
impl std::fmt::Debug for AgentSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentSpec")
            .field("id", &self.id)
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// A session to be.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Where it works; stored already.
    pub project: ProjectRow,
    /// Its agent.
    pub agent: AgentSpec,
    /// Its servers; `None`: the saved ones.
    pub servers: Option<Vec<ServerSpec>>,
    /// For people; made from the first prompt when absent.
    pub title: Option<String>,
    /// Who may allow a tool call.
    pub policy: Policy,
    /// Put before the first prompt.
    pub system_prompt: Option<String>,
    /// The back end's user, if one opened it.
    pub user_id: Option<String>,
    /// The agent's own id of a conversation that it keeps, to go on with.
    pub acp_id: Option<String>,
    /// Whether engine and servers start at once (a person opened it and will
    /// type) or with the first prompt.
    pub open_now: bool,
}

/// A prompt and how it is to be taken.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// ACP content blocks.
    pub content: Vec<Value>,
    /// Wait for a running turn instead of failing as busy.
    pub queue: bool,
    /// The caller's own id.
    pub request_id: Option<String>,
    /// For all servers together.
    pub ready_timeout: Duration,
    /// After how long without an answer a permission request is refused; `None`: never.
    pub permission_timeout: Option<Duration>,
    /// The session's servers from now on, when the caller names them (`Some(None)`: the saved ones).
    pub servers: Option<Option<Vec<ServerSpec>>>,
    /// The session's agent from now on, when the caller names it.
    pub agent: Option<AgentSpec>,
    /// The session's policy from now on, when the caller names it.
    pub policy: Option<Policy>,
}

/// An engine for the process view.
#[derive(Clone, Debug)]
pub struct EngineFacts {
    /// The agent's id.
    pub agent: String,
    /// The tree's id in the supervisor.
    pub tree: String,
    /// Its sessions.
    pub sessions: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_environment_is_not_shown() {
        let spec = AgentSpec {
            id: "a".into(),
            command: "c".into(),
            args: Vec::new(),
            env: BTreeMap::from([("API_KEY".into(), "s3cret".into())]),
            offers: ClientOffers::default(),
        };
        let shown = format!("{spec:?}");
        assert!(shown.contains("API_KEY") && !shown.contains("s3cret"));
    }
}
