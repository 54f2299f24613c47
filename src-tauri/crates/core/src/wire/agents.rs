//! Agents on the wire.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use ts_rs::TS;

/// A way to start an ACP program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct AgentConfig {
    /// For people.
    pub name: String,
    /// A name looked up in `PATH`, or a path. Empty: the built-in agent.
    #[serde(default)]
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Added to its environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// One agent as the list shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct AgentView {
    /// Unique.
    pub id: String,
    /// For people.
    pub name: String,
    /// The command; the path of our own program for the built-in agent.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Whether the command is there.
    pub installed: bool,
    /// Where it was found.
    pub path: Option<String>,
    /// Its version, when known.
    pub version: Option<String>,
    /// What to do to get it.
    pub how_to_install: Option<String>,
    /// Whether it comes with Gantry.
    pub builtin: bool,
}

/// Answer of `agents_list`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct AgentsList {
    /// The built-in one first.
    pub agents: Vec<AgentView>,
}

/// Input of `agents_save`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct AgentsSave {
    /// Unique: letters, digits, `.`, `_`, `-`.
    pub id: String,
    /// How it is started.
    pub config: AgentConfig,
}

/// Input of `agents_remove`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct AgentId {
    /// The agent.
    pub id: String,
}
