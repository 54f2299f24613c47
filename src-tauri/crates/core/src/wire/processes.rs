//! The process view on the wire.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// What a process is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum ProcessRole {
    /// Gantry itself.
    App,
    /// An MCP server.
    Server,
    /// An ACP agent.
    Engine,
    /// A terminal that an agent asked for.
    Terminal,
    /// Something that one of those started, or a warden.
    Child,
}

impl ProcessRole {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::App, Self::Server, Self::Engine, Self::Terminal, Self::Child];
}

/// One process and what hangs below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct ProcessNode {
    /// Process id.
    pub pid: u32,
    /// When it started.
    pub started: i64,
    /// Short name.
    pub name: String,
    /// What it is to us.
    pub role: ProcessRole,
    /// The server, agent or session it belongs to.
    pub owner: Option<String>,
    /// Share of one core since the last call, percent.
    pub cpu: f32,
    /// Resident memory in bytes; shared pages count in full for each who shares them.
    pub rss: u64,
    /// Proportional memory in bytes: shared pages are divided among those who share them.
    /// Missing where the system does not tell; show `rss` then, and say which it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub pss: Option<u64>,
    /// Since its start.
    pub uptime_ms: u64,
    /// What it started.
    pub children: Vec<ProcessNode>,
}

/// Answer of `processes`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct Processes {
    /// Gantry first, then what hangs nowhere below it.
    pub roots: Vec<ProcessNode>,
    /// Bearers of our cookie that belong to no running tree.
    pub strays: usize,
}

/// How the last run ended, where the user should know: it crashed, was cut short, or
/// had to force something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct LastExit {
    /// In a sentence or two.
    pub summary: String,
    /// It ended without its shutdown: killed, crashed, or the computer went off.
    pub crashed: bool,
    /// Its shutdown could not do everything: it was cut short, or something was left.
    pub cut_short: bool,
    /// How each process tree ended in the last shutdown, the worst first.
    pub trees: Vec<TreeEnd>,
    /// What this start found of earlier runs.
    pub leftovers: Vec<Leftover>,
    /// A text to copy for whoever looks into it; holds no arguments and no secrets.
    pub report: String,
}

/// How a process tree ended, by its worst member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum EndHow {
    /// By itself, after its input was closed.
    Exited,
    /// After TERM.
    Terminated,
    /// After KILL.
    Killed,
    /// It still runs.
    Left,
}

impl std::fmt::Display for EndHow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Exited => "exited",
            Self::Terminated => "terminated",
            Self::Killed => "killed",
            Self::Left => "left",
        })
    }
}

/// How one process tree ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct TreeEnd {
    /// The tree's name.
    pub name: String,
    /// `server`, `engine`, `terminal` or `own`.
    pub role: String,
    /// Its end.
    pub how: EndHow,
    /// Members that ended with it.
    pub processes: usize,
    /// Of those, how many needed KILL.
    #[serde(default)]
    pub forced: usize,
    /// Milliseconds it took.
    pub ms: u64,
}

/// A process of an earlier run that this start found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct Leftover {
    /// Process id.
    pub pid: u32,
    /// Its program, where it is known.
    pub program: String,
    /// Whether it was ended; if not, somebody has to end it by hand.
    pub ended: bool,
}
