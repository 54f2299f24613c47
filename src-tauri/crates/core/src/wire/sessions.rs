//! Sessions and turns on the wire.

use super::{
    AnsweredPermission, AnsweredQuestion, PromptCapabilities, QuestionView, QueuedPrompt,
    ServerConfig, ServerReadiness, SessionSettings, SignIn, TerminalView, ToolTimes, TurnOpening,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use ts_rs::TS;

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// Its servers or its engine are starting.
    Starting,
    /// Ready for a prompt.
    Idle,
    /// A turn runs.
    Working,
    /// A turn waits for the user's permission.
    WaitingForYou,
    /// A turn is being cancelled.
    Cancelling,
    /// Stopped; a prompt starts it again.
    Stopped,
    /// Its engine or its opening failed; see `error`. A prompt tries again.
    Failed,
}

impl SessionState {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Starting,
        Self::Idle,
        Self::Working,
        Self::WaitingForYou,
        Self::Cancelling,
        Self::Stopped,
        Self::Failed,
    ];
}

/// Who may allow a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// The user is asked.
    #[default]
    Ask,
    /// Reading is allowed, the rest is asked.
    Reads,
    /// Everything is allowed once.
    All,
}

/// The engine of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct EngineView {
    /// Of the agent program.
    pub pid: u32,
    /// How many sessions it has.
    pub sessions: usize,
}

/// One session as the list shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct SessionView {
    /// Ours.
    pub id: String,
    /// The agent's own id, while it is open there.
    pub acp_session_id: Option<String>,
    /// The project's folder.
    pub project: String,
    /// The project's id.
    pub project_id: String,
    /// The agent's id.
    pub agent: String,
    /// For people.
    pub title: String,
    /// What it is doing.
    pub state: SessionState,
    /// Why it is `failed` or `stopped`.
    pub error: Option<String>,
    /// Its engine, while it has one.
    pub engine: Option<EngineView>,
    /// Its servers, as the last prompt found them.
    pub servers: Vec<ServerReadiness>,
    /// The running turn.
    pub turn: Option<String>,
    /// Permission requests that wait for an answer.
    pub permissions: Vec<PermissionView>,
    /// Other questions of the agent that wait for the user; see `session_answer`.
    #[serde(default)]
    #[ts(as = "Option<Vec<QuestionView>>", optional)]
    pub questions: Vec<QuestionView>,
    /// The agent's slash commands (`AvailableCommand` of ACP).
    pub commands: Vec<Value>,
    /// Mode, model and other options, as the agent offers them. Lists of models are long: in
    /// events it is absent while it stays as it was told last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub settings: Option<SessionSettings>,
    /// Prompts that wait for the running turn, the next one first.
    #[serde(default)]
    #[ts(as = "Option<Vec<QueuedPrompt>>", optional)]
    pub queue: Vec<QueuedPrompt>,
    /// Since when the agent has said nothing although it works; absent until that is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub quiet_since: Option<i64>,
    /// What prompts may hold besides text and links; absent until the agent has run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub capabilities: Option<PromptCapabilities>,
    /// Whether its agent can go on with the conversation after a stop; absent
    /// while that is not known. False on a stopped session: the next prompt begins anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub restorable: Option<bool>,
    /// What became of the conversation when it was opened in the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub context: Option<ContextOutcome>,
    /// How the user signs in to its agent, where that is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub sign_in: Option<SignIn>,
    /// When it was created.
    pub created_at: i64,
    /// When something last happened.
    pub last_activity: i64,
}

/// An open permission request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct PermissionView {
    /// Unique within the session.
    pub request: String,
    /// Its turn.
    pub turn: Option<String>,
    /// The ACP `toolCall` it is about.
    pub tool_call: Value,
    /// The ACP options in the agent's order: `{"optionId","name","kind"}`.
    pub options: Vec<Value>,
    /// When it was asked.
    pub asked_at: i64,
}

/// Answer of `sessions_list`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SessionsList {
    /// The last active first.
    pub sessions: Vec<SessionView>,
}

/// Input of `session_create`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SessionCreate {
    /// An existing folder.
    pub project_dir: String,
    /// An agent's id; the default one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub agent: Option<String>,
    /// Its servers; the saved and enabled ones when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub servers: Option<BTreeMap<String, ServerConfig>>,
    /// For people; made from the first prompt when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub title: Option<String>,
    /// Who may allow a tool call.
    #[serde(default)]
    #[ts(as = "Option<Policy>", optional)]
    pub permission: Policy,
    /// A conversation that the agent keeps itself, as `agents_conversations` lists it, to go on
    /// with; a new one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub acp_session_id: Option<String>,
}

/// Input of `agents_conversations`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct AgentsConversations {
    /// An existing folder.
    pub project_dir: String,
    /// An agent's id; the default one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub agent: Option<String>,
}

/// Answer of `agents_conversations`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct AgentConversations {
    /// Whether the agent lists its conversations and can go on with one.
    pub offered: bool,
    /// Whether it also tells what was said in one.
    pub replayed: bool,
    /// In the agent's order, at most 500.
    pub conversations: Vec<AgentConversation>,
    /// Whether it has more.
    pub more: bool,
}

/// A conversation that an agent keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct AgentConversation {
    /// The agent's own id, for `session_create`.
    pub id: String,
    /// For people.
    pub title: Option<String>,
    /// When something last happened in it, ISO 8601, as the agent says it.
    pub updated_at: Option<String>,
    /// The session of Gantry that it is already.
    pub session: Option<String>,
}

/// Answer of `session_create`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SessionCreated {
    /// The new session.
    pub session: SessionView,
}

/// Input of commands about one session.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SessionId {
    /// The session.
    pub session: String,
}

/// Input of `session_stop`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SessionStop {
    /// The session.
    pub session: String,
    /// Kill at once instead of asking first.
    #[serde(default)]
    #[ts(optional, as = "Option<bool>")]
    pub force: bool,
}

/// In order.
impl From<SessionId> for SessionStop {
    fn from(of: SessionId) -> Self {
        Self { session: of.session, force: false }
    }
}

/// Input of `session_prompt`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SessionPrompt {
    /// The session.
    pub session: String,
    /// ACP content blocks.
    pub content: Vec<Value>,
    /// Whether to wait for a running turn instead of failing with `BUSY`.
    #[serde(default)]
    #[ts(as = "Option<bool>", optional)]
    pub queue: bool,
    /// The caller's own id of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub request_id: Option<String>,
    /// Who may allow a tool call from now on; as before when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub permission: Option<Policy>,
    /// How long to wait for the servers, for all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub ready_timeout_ms: Option<u64>,
    /// After how long without an answer a permission request is refused; 0: never. As set in
    /// the settings when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub permission_timeout_ms: Option<u64>,
}

/// Answer of `session_prompt`, at acceptance.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct PromptAccepted {
    /// The new turn.
    pub turn: String,
    /// What happened with the session's servers.
    pub servers: Vec<ServerReadiness>,
    /// What happened with its engine.
    pub engine: EngineOutcome,
    /// What became of the conversation's context.
    pub context: ContextOutcome,
}

/// See [`PromptAccepted::engine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum EngineOutcome {
    /// Started for this prompt.
    Started,
    /// Ran already.
    Reused,
    /// Replaced, because its configuration changed or it had ended.
    Recreated,
    /// A change waits for the end of the running turn.
    Deferred,
}

/// See [`PromptAccepted::context`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum ContextOutcome {
    /// A new conversation.
    New,
    /// Still there.
    Kept,
    /// Restored by the agent.
    Restored,
    /// The agent could not restore it.
    Lost,
}

/// Answer of `session_stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct SessionStopped {
    /// Always true; a session that is stopped already stays so.
    pub success: bool,
    /// The session.
    pub session_id: String,
    /// Whether it was the engine's last session.
    pub engine_stopped: bool,
    /// Servers that only this session used.
    pub servers_stopped: Vec<String>,
    /// Processes that ended with it.
    pub processes_ended: usize,
    /// Of those, how many had to be killed.
    pub forced: usize,
}

/// Input of `session_history`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SessionHistory {
    /// The session.
    pub session: String,
    /// Turns with a lower number only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub before: Option<i64>,
    /// At most this many turns (20 when absent, at most 200).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub limit: Option<usize>,
}

/// Answer of `session_history`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct History {
    /// Oldest first.
    pub turns: Vec<TurnView>,
    /// Whether there are older ones.
    pub more: bool,
    /// The sequence number of events up to which this is true.
    pub seq: u64,
}

/// One turn with everything in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct TurnView {
    /// Unique.
    pub id: String,
    /// 1 for the first of the session.
    pub number: i64,
    /// The prompt: ACP content blocks.
    pub prompt: Vec<Value>,
    /// When the prompt was accepted.
    pub started_at: i64,
    /// When it ended.
    pub ended_at: Option<i64>,
    /// ACP stop reason, or `error`.
    pub stop_reason: Option<String>,
    /// For people, when it failed.
    pub description: Option<String>,
    /// ACP updates in order (text chunks of one message merged).
    pub updates: Vec<Value>,
    /// What it began with: servers, engine, context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub opening: Option<TurnOpening>,
    /// Permission requests that were answered in it, by whom and how.
    #[serde(default)]
    #[ts(as = "Option<Vec<AnsweredPermission>>", optional)]
    pub permissions: Vec<AnsweredPermission>,
    /// Other questions of the agent that were answered in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<Vec<AnsweredQuestion>>", optional)]
    pub questions: Vec<AnsweredQuestion>,
    /// When its tool calls ran, by `toolCallId`.
    #[serde(default)]
    #[ts(as = "Option<BTreeMap<String, ToolTimes>>", optional)]
    pub tools: BTreeMap<String, ToolTimes>,
    /// Commands that ran for the agent, in the order of their starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<Vec<TerminalView>>", optional)]
    pub terminals: Vec<TerminalView>,
    /// What the agent's answer says about tokens, raw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub usage: Option<Value>,
}

/// Input of `session_permit`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SessionPermit {
    /// The session.
    pub session: String,
    /// The request.
    pub request: String,
    /// An offered `optionId`.
    pub option: String,
}

/// Input of `session_rename`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SessionRename {
    /// The session.
    pub session: String,
    /// The new title.
    pub title: String,
}
