//! Sessions: conversations, their turns, and the engines they run in.

use crate::{
    Result,
    bridge::{Bridge, ServerSpec},
    events::Events,
    wire::*,
};
use gantry_store::{ProjectRow, Store};
use gantry_supervisor::{Deadline, Scope, Supervisor};
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
}

/// How a session's agent is started. Part of the engine's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct AgentSpec {
    /// For the log and the list.
    pub id: String,
    /// The program; empty for the built-in agent.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Added to its environment (may hold secrets: never logged).
    pub env: BTreeMap<String, String>,
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
    /// The session's servers from now on, when the caller names them (`Some(None)`: the saved ones).
    pub servers: Option<Option<Vec<ServerSpec>>>,
    /// The session's agent from now on, when the caller names it.
    pub agent: Option<AgentSpec>,
    /// The session's policy from now on, when the caller names it.
    pub policy: Option<Policy>,
}

/// All sessions. Clones are the same.
#[derive(Clone, Debug)]
pub struct Sessions {}

impl Sessions {
    /// Reads the sessions of earlier runs from the store; starts nothing.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(parts: SessionsParts) -> Result<Self> {
        unimplemented!()
    }

    /// A new session.
    ///
    /// # Errors
    /// The store refuses; shutting down.
    pub async fn create(&self, new: NewSession) -> Result<SessionView> {
        unimplemented!()
    }

    /// Hands a prompt to the agent: leases and waits for the servers, starts
    /// the engine if needed, opens the session in it, sends the prompt. Returns once `session/prompt` was
    /// written (or queued), not when the turn ends.
    ///
    /// # Errors
    /// Not found, busy, shutting down, failed (agent not found, agent ended with …).
    pub async fn prompt(&self, session: &str, prompt: Prompt) -> Result<PromptAccepted> {
        unimplemented!()
    }

    /// Cancels the running turn; nothing to do without one.
    ///
    /// # Errors
    /// Not found.
    pub async fn cancel(&self, session: &str) -> Result<()> {
        unimplemented!()
    }

    /// Answers a permission request.
    ///
    /// # Errors
    /// Not found; an option that was not offered is invalid.
    pub async fn permit(&self, session: &str, request: &str, option: &str) -> Result<()> {
        unimplemented!()
    }

    /// Stops a session: cancels its turn, closes it in the engine, drops its
    /// leases; ends the engine with its last session. Idempotent.
    ///
    /// # Errors
    /// Not found.
    pub async fn stop(&self, session: &str, deadline: Deadline) -> Result<SessionStopped> {
        unimplemented!()
    }

    /// Gives it another title.
    ///
    /// # Errors
    /// Not found; empty.
    pub async fn rename(&self, session: &str, title: &str) -> Result<SessionView> {
        unimplemented!()
    }

    /// Stops it and forgets it.
    ///
    /// # Errors
    /// Not found.
    pub async fn delete(&self, session: &str, deadline: Deadline) -> Result<()> {
        unimplemented!()
    }

    /// Turns with everything in them, a page of them.
    ///
    /// # Errors
    /// Not found.
    pub async fn history(&self, ask: SessionHistory) -> Result<History> {
        unimplemented!()
    }

    /// All sessions, the last active first.
    pub fn views(&self) -> Vec<SessionView> {
        unimplemented!()
    }

    /// One session.
    pub fn view(&self, session: &str) -> Option<SessionView> {
        unimplemented!()
    }

    /// The engines: agent id, program and sessions of each (for the process view).
    pub fn engines(&self) -> Vec<EngineFacts> {
        unimplemented!()
    }

    /// Shutdown, phase "finish": no new prompts; running turns are cancelled and waited for.
    pub async fn finish(&self, deadline: Deadline) {
        unimplemented!()
    }

    /// Shutdown, phase "ask": ends all engines.
    pub async fn stop_all(&self, deadline: Deadline) {
        unimplemented!()
    }
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
