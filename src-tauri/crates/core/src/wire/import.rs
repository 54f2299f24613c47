//! Servers of other applications on the wire.

use super::{ServerConfig, ServerView};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Where servers are looked for: exactly one of the three.
#[derive(Clone, Default, Serialize, Deserialize, TS)]
#[serde(default)]
#[ts(optional_fields)]
pub struct ServersImport {
    /// A configuration as text: JSON as other applications write it, read leniently.
    pub text: Option<String>,
    /// An application: `claude-desktop`, `claude-code` or `cursor`.
    pub app: Option<String>,
    /// A file, absolute.
    pub path: Option<String>,
}

/// The text may hold secrets.
impl std::fmt::Debug for ServersImport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServersImport")
            .field("app", &self.app)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// A server that was found; nothing of it is saved yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct FoundServer {
    /// Its name there.
    pub name: String,
    /// As Gantry would keep it; values of secrets masked.
    pub config: ServerConfig,
    /// The file, and where in it; empty for a text.
    pub source: String,
    /// What a person should know before it is used.
    pub problems: Vec<String>,
    /// The saved server that it is already, or whose name it has.
    pub duplicate_of: Option<String>,
    /// Whether it cannot be saved as it is; `problems` says why.
    pub refused: bool,
}

/// Answer of `servers_import`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ServersFound {
    /// In the order of the source.
    pub found: Vec<FoundServer>,
}

/// Input of `servers_import_apply`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, TS)]
#[serde(default)]
#[ts(optional_fields)]
pub struct ServersImportApply {
    /// Which of the servers found.
    pub names: Option<Vec<String>>,
    /// Whether a saved server of the same name is replaced; else it is left as it is.
    pub replace: Option<bool>,
    /// Where they are.
    #[serde(flatten)]
    #[ts(flatten)]
    pub from: ServersImport,
}

/// One that was not saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct NotImported {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: String,
}

/// Answer of `servers_import_apply`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ServersImported {
    /// Saved, disabled.
    pub saved: Vec<ServerView>,
    /// Not saved.
    pub skipped: Vec<NotImported>,
}
