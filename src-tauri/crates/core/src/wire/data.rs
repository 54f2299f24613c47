//! What Gantry keeps on this computer.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Answer of `data`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct Data {
    /// The data directory.
    pub folder: String,
    /// What is in it, each thing once.
    pub parts: Vec<DataPart>,
}

/// One thing in the data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct DataPart {
    /// What it is.
    pub kind: DataKind,
    /// Where.
    pub path: String,
    /// How much it takes, in bytes, as far as it could be read.
    pub bytes: u64,
}

/// See [`DataPart::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum DataKind {
    /// The database: conversations, servers, agents, settings.
    Database,
    /// Agents that Gantry installed.
    Agents,
    /// Folders of back ends' projects.
    Workspaces,
    /// Log files.
    Logs,
    /// Sign-ins to servers, what Gantry found out, and what only lives as long as it runs.
    Other,
}
