//! What can be set in a session, what waits in it, and how its agent is signed in to.

use super::{ContextOutcome, EngineOutcome, PermissionView, ServerReadiness};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

/// What the agent lets the user choose in a session, as it says it. Where it
/// offers a thing in two ways, `session_set` takes the newer one (`options`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct SessionSettings {
    /// ACP's `SessionModeState`: `{"currentModeId","availableModes":[{"id","name","description"}]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub modes: Option<Value>,
    /// The older list of models: `{"currentModelId","availableModels":[{"modelId","name"}]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub models: Option<Value>,
    /// ACP's `SessionConfigOption`s: `{"id","name","category","type","currentValue","options"}`;
    /// the categories `mode`, `model` and `thought_level` are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<Vec<Value>>", optional)]
    pub options: Vec<Value>,
}

/// One of the agent's config options and its new value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct OptionValue {
    /// The option's `id`.
    pub id: String,
    /// The id of a choice, or a boolean.
    pub value: Value,
}

/// Input of `session_set`: one or more of the three.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SessionSet {
    /// The session.
    pub session: String,
    /// The id of a mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub mode: Option<String>,
    /// The id of a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub model: Option<String>,
    /// Another option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub option: Option<OptionValue>,
}

/// What a prompt may hold besides text and links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct PromptCapabilities {
    /// Blocks of type `image`.
    pub image: bool,
    /// Blocks of type `audio`.
    pub audio: bool,
    /// Blocks of type `resource` (a file with its content).
    pub embedded: bool,
}

/// A prompt that waits for the running turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct QueuedPrompt {
    /// Its turn to be.
    pub turn: String,
    /// Its text.
    pub text: String,
    /// How many blocks it has that are no text.
    pub attachments: usize,
    /// When it was asked for.
    pub at: i64,
}

/// Input of `session_queue_drop` and `session_queue_send`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct QueuedTurn {
    /// The session.
    pub session: String,
    /// The queued prompt's turn.
    pub turn: String,
}

/// Input of `session_queue_edit`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct QueueEdit {
    /// The session.
    pub session: String,
    /// The queued prompt's turn.
    pub turn: String,
    /// The new text; blocks that are no text stay.
    pub text: String,
}

/// How the user signs in to the agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct SignIn {
    /// Whether the agent refused to go on without it.
    pub wanted: bool,
    /// ACP's `AuthMethod`s: `{"id","name","description"}`; one with `"type":"terminal"`
    /// is a command that the user runs in a terminal.
    pub methods: Vec<Value>,
    /// Whether the agent can be told to forget the sign-in.
    pub log_out: bool,
}

/// Input of `session_authenticate`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SessionAuthenticate {
    /// The session.
    pub session: String,
    /// The `id` of one of the methods.
    pub method: String,
}

/// Answer of `session_authenticate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct Authenticated {
    /// Whether the agent was signed in to; the session opens now.
    pub done: bool,
    /// Otherwise the command line that signs in when it is run in a terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub command: Option<Vec<String>>,
    /// Variables to set for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<Vec<String>>", optional)]
    pub env: Vec<String>,
}

/// Input of `session_traffic`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SessionTraffic {
    /// The session.
    pub session: String,
    /// At most this many messages, the newest (200 when absent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub tail: Option<usize>,
}

/// Answer of `session_traffic` and `servers_traffic`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct Traffic {
    /// Oldest first. What is older than the log keeps is gone.
    pub messages: Vec<TrafficMessage>,
}

/// A message between Gantry and an agent, or a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct TrafficMessage {
    /// When.
    pub at: i64,
    /// Whether it came from the agent; for a server: from its users' side, the bridge.
    pub from_agent: bool,
    /// The JSON-RPC message with its secrets masked; the beginning of it, as a
    /// string, when it was too long to be kept.
    pub message: Value,
}

/// What a session is exported as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// For people.
    #[default]
    Markdown,
    /// For programs: the session and its turns as `session_history` has them.
    Json,
}

/// Input of `session_export`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SessionExport {
    /// The session.
    pub session: String,
    /// Markdown when absent.
    #[serde(default)]
    #[ts(as = "Option<ExportFormat>", optional)]
    pub format: ExportFormat,
}

/// Answer of `session_export`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct Exported {
    /// A name for the file.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// What a turn began with, as the history keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct TurnOpening {
    /// Its servers, with what the agent fetched of them.
    pub servers: Vec<ServerReadiness>,
    /// What happened with the engine.
    pub engine: EngineOutcome,
    /// What became of the conversation's context.
    pub context: ContextOutcome,
}

/// A permission request and how it was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct AnsweredPermission {
    /// What was asked.
    #[serde(flatten)]
    pub asked: PermissionView,
    /// The chosen `optionId`, or `cancelled`.
    pub outcome: String,
    /// Why, when it was not the user who answered.
    pub reason: Option<String>,
    /// When it was answered.
    pub answered_at: i64,
}

/// When a tool call ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ToolTimes {
    /// When the agent first spoke of it.
    pub started_at: i64,
    /// When it was completed or failed.
    pub ended_at: Option<i64>,
}
