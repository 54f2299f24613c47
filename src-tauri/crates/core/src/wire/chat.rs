//! `POST /computer/chat` and its relatives (contract, section 2).

use super::{ClientOffers, ContextOutcome, EngineOutcome, Policy, ServerReadiness};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use ts_rs::TS;

/// Request of `POST /computer/chat`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, TS)]
#[serde(default)]
#[ts(optional_fields)]
pub struct ChatRequest {
    /// Required.
    pub user_id: Option<String>,
    /// `default` when absent.
    pub project_id: Option<String>,
    /// Required.
    pub prompt: Option<String>,
    /// Goes on with this session.
    pub session_id: Option<String>,
    /// The caller's own id of the turn.
    pub request_id: Option<String>,
    /// Put before the first prompt of the session.
    pub system_prompt: Option<String>,
    /// The model that the agent is to use.
    pub model_provider: Option<ModelProvider>,
    /// Agent and servers.
    pub agent_config: Option<ChatAgentConfig>,
    /// Who may allow a tool call.
    pub permission: Option<Policy>,
    /// Whether to wait for a running turn instead of failing with `BUSY`.
    pub queue: bool,
    /// How long to wait for the servers, for all together.
    pub ready_timeout_ms: Option<u64>,
    /// After how long without an answer a permission request is refused; 0: never. As set in
    /// the settings when absent.
    pub permission_timeout_ms: Option<u64>,
}

/// A model endpoint. `Debug` does not show the key.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, TS)]
#[serde(default)]
#[ts(optional_fields)]
pub struct ModelProvider {
    /// For people.
    pub provider: Option<String>,
    /// Secret.
    pub api_key: Option<String>,
    /// The endpoint.
    pub base_url: Option<String>,
    /// The model's name.
    pub model: Option<String>,
    /// `openai` or `anthropic`.
    pub api_protocol: Option<String>,
}

impl std::fmt::Debug for ModelProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelProvider")
            .field("base_url", &self.base_url)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// Agent and servers of a chat request.
#[derive(Clone, Debug, Default, Serialize, Deserialize, TS)]
#[serde(default)]
#[ts(optional_fields)]
pub struct ChatAgentConfig {
    /// The agent; the default one when absent.
    pub agent_server: Option<ChatAgentServer>,
    /// The servers by name, as back ends write them; read leniently.
    pub context_servers: Option<BTreeMap<String, Value>>,
}

/// The agent of a chat request.
#[derive(Clone, Debug, Default, Serialize, Deserialize, TS)]
#[serde(default)]
#[ts(optional_fields)]
pub struct ChatAgentServer {
    /// For the log; the name of a known agent counts when `command` is absent.
    pub agent_id: Option<String>,
    /// An agent's name, a program or a path.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Option<Vec<String>>,
    /// Added to its environment; `{MODEL_PROVIDER_…}` placeholders are filled in.
    pub env: Option<BTreeMap<String, String>>,
    /// What Gantry does for it; as it is known or saved when absent (but for questions, which a
    /// caller has to be able to answer: `session_answer`), nothing for a program.
    pub offers: Option<ClientOffers>,
}

/// Answer of `POST /computer/chat`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ChatAnswer {
    /// The project.
    pub project_id: String,
    /// The session.
    pub session_id: String,
    /// Always null: errors come in the envelope.
    pub error: Option<String>,
    /// The caller's own id, or ours.
    pub request_id: String,
    /// Whether the session was opened by this request.
    pub is_new_session: bool,
    /// What happened with the engine.
    pub engine: EngineOutcome,
    /// What became of the conversation's context.
    pub context: ContextOutcome,
    /// What happened with the servers.
    pub servers: Vec<ServerReadiness>,
    /// What the caller should know.
    pub warnings: Vec<String>,
}
