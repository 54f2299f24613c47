//! Agents on the wire.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use ts_rs::TS;

/// What Gantry does for an agent when it asks. The agent is told at its start, and is
/// refused what is not offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(default)]
pub struct ClientOffers {
    /// Reads text files of the session's folder (`fs/read_text_file` of ACP).
    #[ts(as = "Option<bool>", optional)]
    pub read_files: bool,
    /// Writes text files of the session's folder (`fs/write_text_file`).
    #[ts(as = "Option<bool>", optional)]
    pub write_files: bool,
    /// Runs commands and shows their output (`terminal/*`).
    #[ts(as = "Option<bool>", optional)]
    pub terminals: bool,
    /// Shows the user its questions: forms and pages (`elicitation/create`).
    #[ts(as = "Option<bool>", optional)]
    pub questions: bool,
}

impl ClientOffers {
    /// Everything.
    pub const ALL: Self =
        Self { read_files: true, write_files: true, terminals: true, questions: true };
}

impl From<ClientOffers> for gantry_acp::Offers {
    fn from(offers: ClientOffers) -> Self {
        let ClientOffers { read_files, write_files, terminals, questions } = offers;
        Self { read_files, write_files, terminals, questions }
    }
}

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
    /// Added to its environment. In `agents_save` the mask of [`AgentView::env`] stands for
    /// the value that is stored already.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// What Gantry does for it.
    #[serde(default)]
    #[ts(as = "Option<ClientOffers>", optional)]
    pub offers: ClientOffers,
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
    /// What is added to its environment; `•••` stands for a secret.
    #[serde(default)]
    #[ts(as = "Option<BTreeMap<String, String>>", optional)]
    pub env: BTreeMap<String, String>,
    /// What Gantry does for it.
    #[serde(default)]
    #[ts(as = "Option<ClientOffers>", optional)]
    pub offers: ClientOffers,
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
    /// In a line, what it is and needs; of a known agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub about: Option<String>,
    /// Where to read more; of a known agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub homepage: Option<String>,
    /// What `agents_install` does; nothing when Gantry cannot install it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub install: Option<AgentInstall>,
}

/// What Gantry can install of a known agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct AgentInstall {
    /// `npm` or `pypi`.
    pub registry: String,
    /// The package.
    pub package: String,
    /// The version that is installed.
    pub version: String,
    /// Whether the one that was found is Gantry's own; `agents_uninstall` removes it.
    pub managed: bool,
    /// Whether it is being installed or removed now.
    pub running: bool,
}

/// Input of `agents_log`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct AgentsLog {
    /// The agent.
    pub id: String,
    /// So many of the last lines; 200 when not given.
    #[serde(default)]
    #[ts(optional)]
    pub tail: Option<usize>,
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

/// Input of `agents_remove`, `agents_install` and `agents_uninstall`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct AgentId {
    /// The agent.
    pub id: String,
}

/// Input of `agents_import`: one of `text`, `path` and `url`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, TS)]
pub struct AgentsImport {
    /// A document in the format of the public ACP registry.
    #[serde(default)]
    #[ts(optional)]
    pub text: Option<String>,
    /// A file with one.
    #[serde(default)]
    #[ts(optional)]
    pub path: Option<String>,
    /// The address of one: `https`, or `http` of this machine.
    #[serde(default)]
    #[ts(optional)]
    pub url: Option<String>,
    /// Only these of its agents; all when absent.
    #[serde(default)]
    #[ts(optional)]
    pub ids: Option<Vec<String>>,
    /// Only look: nothing is taken in.
    #[serde(default)]
    #[ts(as = "Option<bool>", optional)]
    pub preview: bool,
}

/// Answer of `agents_import`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct AgentsImported {
    /// Agents that are in the list now, or would be.
    pub ids: Vec<String>,
    /// What they are.
    #[serde(default)]
    #[ts(as = "Option<Vec<ImportableAgent>>", optional)]
    pub agents: Vec<ImportableAgent>,
    /// Of a preview: the document, so that what was looked at is what is taken in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub text: Option<String>,
    /// Those that are not.
    pub skipped: Vec<AgentNotTaken>,
}

/// An agent of a registry's list.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ImportableAgent {
    /// Unique.
    pub id: String,
    /// For people.
    pub name: String,
    /// In a line, what it is.
    pub about: String,
    /// Where to read more; may be empty.
    pub homepage: String,
    /// What is installed, with its version: `npm: package 1.0.0`; what to do by hand otherwise.
    pub from: String,
    /// The command line that starts it.
    pub command: Vec<String>,
    /// What is added to its environment.
    #[serde(default)]
    #[ts(as = "Option<BTreeMap<String, String>>", optional)]
    pub env: BTreeMap<String, String>,
}

/// An agent that was not taken in.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct AgentNotTaken {
    /// Its id, or its place in the list.
    pub id: String,
    /// Why not.
    pub why: String,
}
