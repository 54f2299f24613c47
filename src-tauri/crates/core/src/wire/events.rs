//! Events: what changed, in order. No event is the only copy of a fact.

use super::{LastExit, PermissionView, RawUpdate, ServerView, SessionView, Settings, TerminalView};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

/// An event with its place in the order of all events of this instance.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct Event {
    /// Grows by one with each event.
    pub seq: u64,
    /// When it happened.
    pub at: i64,
    /// What happened.
    #[serde(flatten)]
    pub what: Happening,
}

/// What happened.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Happening {
    /// A server is new or changed.
    ServerChanged {
        /// As it is now.
        server: ServerView,
    },
    /// A server is gone from the list.
    ServerRemoved {
        /// Its name.
        name: String,
    },
    /// A session is new or changed.
    SessionChanged {
        /// As it is now.
        session: SessionView,
    },
    /// A session was deleted.
    SessionRemoved {
        /// Its id.
        id: String,
    },
    /// A prompt was accepted.
    TurnStarted {
        /// Its session.
        session: String,
        /// The turn.
        turn: String,
        /// 1 for the first of the session.
        number: i64,
        /// The caller's own id.
        request_id: Option<String>,
        /// ACP content blocks.
        prompt: Vec<Value>,
    },
    /// The agent sent an update.
    Update {
        /// Its session.
        session: String,
        /// The running turn, if one runs.
        turn: Option<String>,
        /// The ACP update, raw (`{"sessionUpdate":…}`).
        #[ts(as = "Value")]
        update: RawUpdate,
    },
    /// A command that runs for the agent has started, written something, or ended.
    TerminalChanged {
        /// Its session.
        session: String,
        /// The turn that it was started in, if one ran.
        turn: Option<String>,
        /// As it is now.
        terminal: TerminalView,
    },
    /// The agent asks for permission.
    PermissionRequested {
        /// Its session.
        session: String,
        /// The request.
        permission: PermissionView,
    },
    /// A permission request was answered.
    PermissionResolved {
        /// Its session.
        session: String,
        /// The request.
        request: String,
        /// The chosen `optionId`, or `cancelled`.
        outcome: String,
        /// Why, when it was not the user who answered.
        reason: Option<String>,
    },
    /// A turn is over.
    TurnEnded {
        /// Its session.
        session: String,
        /// The turn.
        turn: String,
        /// ACP stop reason, or `error`.
        reason: String,
        /// For people, when it failed.
        description: Option<String>,
    },
    /// Agents were saved or removed: ask `agents_list` again.
    AgentsChanged {},
    /// An agent is being installed. Its end is told by `agents_changed`.
    AgentInstall {
        /// The agent.
        id: String,
        /// What npm, uv or pip says.
        line: String,
    },
    /// The user chose something about the program.
    SettingsChanged {
        /// As they are now.
        settings: Settings,
    },
    /// Gantry is ending.
    ShuttingDown {
        /// The phase: `doors`, `finish`, `ask`, `kill`, `store`, `exit`.
        phase: String,
    },
}

/// The state at one instant; the events after `seq` change it.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct Snapshot {
    /// Up to which event this is true.
    pub seq: u64,
    /// All servers.
    pub servers: Vec<ServerView>,
    /// All sessions.
    pub sessions: Vec<SessionView>,
    /// Gantry's version.
    pub version: String,
    /// Something that the user should know about the last run, if anything.
    pub notice: Option<String>,
    /// The same with a report to copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub last_exit: Option<LastExit>,
}
