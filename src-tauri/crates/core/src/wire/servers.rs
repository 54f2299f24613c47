//! MCP servers on the wire (contract, sections 2 and 4).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use ts_rs::TS;

/// A stored server configuration (contract, section 4). Fields that we do not
/// know are kept in `other` and written back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
#[ts(optional_fields)]
pub struct ServerConfig {
    /// The program of a stdio server: a name looked up in `PATH`, or a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments, passed byte for byte.
    #[serde(default)]
    #[ts(as = "Option<Vec<String>>")]
    pub args: Vec<String>,
    /// Added to its environment: a literal, `${env:NAME}` or `${secret:ID}`.
    #[serde(default)]
    #[ts(as = "Option<BTreeMap<String, String>>")]
    pub env: BTreeMap<String, String>,
    /// Working directory; the data directory's `workspaces` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The address of a remote server (instead of `command`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `streamable-http` or `sse`, for a remote server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// Sent to a remote server with every request.
    #[serde(default)]
    #[ts(as = "Option<BTreeMap<String, String>>")]
    pub headers: BTreeMap<String, String>,
    /// Shorthand for an `Authorization: Bearer` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_token: Option<String>,
    /// How to sign in to a remote server that wants it; `false`: never. Most need nothing here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OauthChoice>,
    /// Whether it is used at all.
    #[serde(default = "yes")]
    #[ts(as = "Option<bool>")]
    pub enabled: bool,
    /// Whether it runs as long as Gantry does, not only while a session uses it.
    #[serde(default)]
    #[ts(as = "Option<bool>")]
    pub persistent: bool,
    /// When not empty, only these tools are seen and can be called.
    #[serde(default)]
    #[ts(as = "Option<Vec<String>>")]
    pub allow_tools: Vec<String>,
    /// These tools are never seen and cannot be called; `allowTools` wins.
    #[serde(default)]
    #[ts(as = "Option<Vec<String>>")]
    pub deny_tools: Vec<String>,
    /// Whether sessions share one process.
    #[serde(default)]
    #[ts(as = "Option<Isolation>")]
    pub isolation: Isolation,
    /// How long its start may take, until it has answered `tools/list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_timeout_ms: Option<u64>,
    /// How long one call may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_timeout_ms: Option<u64>,
    /// Fields that we do not know.
    #[serde(flatten)]
    #[ts(skip)]
    pub other: serde_json::Map<String, Value>,
}

fn yes() -> bool {
    true
}

/// Whether and how a remote server may be signed in to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
#[serde(untagged)]
pub enum OauthChoice {
    /// `false`: it is not signed in to, whatever it says; `true`: like nothing.
    Allowed(bool),
    /// With these settings.
    With(OauthClient),
}

impl ServerConfig {
    /// The secret of its OAuth client.
    pub fn client_secret(&self) -> Option<&String> {
        match &self.oauth {
            Some(OauthChoice::With(client)) => client.client_secret.as_ref(),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn client_secret_mut(&mut self) -> Option<&mut String> {
        match &mut self.oauth {
            Some(OauthChoice::With(client)) => client.client_secret.as_mut(),
            _ => None,
        }
    }
}

/// What an authorization server knows of Gantry, when it has to be told beforehand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
#[ts(optional_fields)]
pub struct OauthClient {
    /// The client id that it gave out; without one Gantry registers itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The secret that belongs to it: a literal, `${env:NAME}` or `${secret:ID}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// What to ask for, when it is not what the server says.
    #[serde(default)]
    #[ts(as = "Option<Vec<String>>")]
    pub scopes: Vec<String>,
    /// The port of `http://127.0.0.1:PORT/callback`, when it has to be a certain one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_port: Option<u16>,
    /// Fields that we do not know.
    #[serde(flatten)]
    #[ts(skip)]
    pub other: serde_json::Map<String, Value>,
}

/// Whether sessions share one process of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// One process for all.
    #[default]
    Shared,
    /// One process for each session.
    Session,
}

/// How long a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Lifetime {
    /// As long as Gantry.
    Persistent,
    /// As long as a session uses it.
    Session,
}

/// A server's state as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// Not running, and nobody needs it.
    Stopped,
    /// Started; has not answered `tools/list` yet.
    Starting,
    /// Usable now.
    Ready,
    /// Runs, but not as it should: it did not answer the last ping, its tools cannot be listed any
    /// more, or a call waits for a sign-in; see `error`.
    Degraded,
    /// Ended unexpectedly; will be started again.
    Restarting,
    /// Given up; see `error`.
    Failed,
}

impl ServerState {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Stopped,
        Self::Starting,
        Self::Ready,
        Self::Degraded,
        Self::Restarting,
        Self::Failed,
    ];
}

/// One server as the list shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct ServerView {
    /// Its name.
    pub name: String,
    /// Whether it is used.
    pub enabled: bool,
    /// How long it runs.
    pub lifetime: Lifetime,
    /// What it is doing.
    pub state: ServerState,
    /// Of the server program, not of its warden.
    pub pid: Option<u32>,
    /// Where agents reach it (bridge URL, or its own for a remote one).
    pub url: String,
    /// Number of tools that a session sees now.
    pub tools: Option<usize>,
    /// Why it failed, with the last lines of its standard error.
    pub error: Option<String>,
    /// Unexpected ends since it was last started by hand or configured.
    pub restarts: u32,
    /// From its start to the answer of `tools/list`.
    pub ready_ms: Option<u64>,
    /// What it does while it is starting: what it said last, or that a package may be
    /// downloading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub note: Option<String>,
    /// How it stands with signing in to it; absent where there is nothing to sign in to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub sign_in: Option<ServerSignIn>,
    /// Ids of the sessions that hold a lease on it.
    pub used_by: Vec<String>,
    /// When it came into this state.
    pub since: i64,
    /// Whether it is a saved one (false: it came with a session's request).
    pub saved: bool,
    /// Its configuration, values of secrets masked.
    pub config: ServerConfig,
}

/// How it stands with signing in to a remote server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ServerSignIn {
    /// What is to be done about it.
    pub state: ServerSignInState,
    /// Until when the user can finish the one that was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub until: Option<i64>,
    /// Why the last attempt came to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub error: Option<String>,
}

/// What is to be done about a sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum ServerSignInState {
    /// The user has to sign in before it can be used (or used in full).
    Needed,
    /// The user was sent to a browser.
    Waiting,
    /// Nothing: the user is signed in.
    SignedIn,
}

/// Answer of `servers_sign_in`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SignInBegun {
    /// The page at which the user signs in.
    pub url: String,
    /// Until when.
    pub until: i64,
}

/// Answer of `servers_list`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ServersList {
    /// Saved servers first, in their order.
    pub servers: Vec<ServerView>,
}

/// Input of `servers_save`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ServersSave {
    /// The server's name; an existing one is replaced.
    pub name: String,
    /// Its configuration.
    pub config: ServerConfig,
}

/// Input of commands about one server.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ServerName {
    /// The server's name.
    pub name: String,
}

/// Input of `servers_enable`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ServersEnable {
    /// The server's name.
    pub name: String,
    /// Whether it is to be used; it is when absent.
    #[serde(default = "yes")]
    #[ts(as = "Option<bool>", optional)]
    pub enabled: bool,
}

/// Answer of `servers_tools`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ServersTools {
    /// As MCP lists them.
    pub tools: Vec<Value>,
}

/// Input of `servers_call`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ServersCall {
    /// The server's name.
    pub name: String,
    /// The tool's name.
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Value,
}

/// Input of `servers_log`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ServersLog {
    /// The server's name.
    pub name: String,
    /// At most this many lines from the end (200 when absent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub tail: Option<usize>,
}

/// Input of `servers_traffic`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ServersTraffic {
    /// The server's name.
    pub name: String,
    /// At most this many messages, the newest (200 when absent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub tail: Option<usize>,
}

/// Answer of `servers_log`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct LogLines {
    /// Oldest first.
    pub lines: Vec<String>,
}

/// What a session was told about one of its servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct ServerReadiness {
    /// The server's name.
    pub name: String,
    /// Its state when the prompt left.
    pub state: ReadinessState,
    /// How it was handed to the agent.
    pub via: Via,
    /// Number of tools.
    pub tools: usize,
    /// How long the session waited for it.
    pub ms: u64,
    /// Why it is not ready.
    pub error: Option<String>,
    /// The receipt: how many tools the agent was listed last, as the bridge saw it. Absent as
    /// long as the agent has not asked, and when it does not reach the server by the bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub fetched: Option<usize>,
}

/// See [`ServerReadiness::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum ReadinessState {
    /// It has answered `tools/list`.
    Ready,
    /// Still starting at the deadline; joins when ready.
    Starting,
    /// Failed.
    Failed,
    /// A remote server that the agent reaches itself; `error` when Gantry could not reach it.
    PassedThrough,
}

/// See [`ServerReadiness::via`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// By its bridge URL over HTTP.
    Bridge,
    /// By a stdio program of ours.
    Stdio,
    /// By its own URL.
    Remote,
}
