//! Terminals that agents asked for, on the wire.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// A command that Gantry runs for an agent (`terminal/create` of ACP). A tool call shows it by
/// a content block `{"type":"terminal","terminalId"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct TerminalView {
    /// The `terminalId`; unique within the session.
    pub id: String,
    /// The command line, for people.
    pub command: String,
    /// Where it runs.
    pub cwd: String,
    /// The end of what it wrote, both streams, with escape sequences: at most 64 KiB
    /// (16 KiB in events while it runs).
    pub output: String,
    /// Whether there was more.
    pub truncated: bool,
    /// How it ended; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub exit: Option<TerminalExit>,
    /// When it started.
    pub started_at: i64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub ended_at: Option<i64>,
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct TerminalExit {
    /// Its exit code; absent when a signal ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub code: Option<i32>,
    /// The signal that ended it, such as `SIGKILL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub signal: Option<String>,
}
