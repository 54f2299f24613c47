//! Events: what changed, in order. No event is the only copy of a fact.

use super::{
    AnsweredQuestion, LastExit, PermissionView, QuestionView, RawUpdate, ServerView, SessionView,
    Settings, TerminalView,
};
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

/// What happened. Nearly all of them are updates, thousands are kept, and each takes the place
/// of the largest: what is larger than an update stands in a box.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Happening {
    /// A server is new or changed.
    ServerChanged {
        /// As it is now.
        server: Box<ServerView>,
    },
    /// A server is gone from the list.
    ServerRemoved {
        /// Its name.
        name: String,
    },
    /// A session is new or changed.
    SessionChanged {
        /// As it is now.
        session: Box<SessionView>,
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
        terminal: Box<TerminalView>,
    },
    /// The agent asks for permission.
    PermissionRequested {
        /// Its session.
        session: String,
        /// The request.
        permission: Box<PermissionView>,
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
    /// The agent asks the user something else; see `session_answer`.
    QuestionAsked {
        /// Its session.
        session: String,
        /// The question.
        question: Box<QuestionView>,
    },
    /// Such a question was answered.
    QuestionAnswered {
        /// Its session.
        session: String,
        /// The question and its answer.
        question: Box<AnsweredQuestion>,
    },
    /// What the user was sent to a page for is done: the agent says so.
    QuestionCompleted {
        /// Its session.
        session: String,
        /// The question.
        request: String,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_small() {
        let size = size_of::<Event>();
        assert!(size <= 144, "{size} bytes each; put what is large into a box");
    }
}
