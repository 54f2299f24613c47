//! Looking for things: words in conversations, files in a project.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Input of `search`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, TS)]
#[serde(default)]
#[ts(optional_fields)]
pub struct Search {
    /// Words that must all occur; `"a phrase"`, `a OR b` and `-without` work.
    pub query: String,
    /// Only in this project: its id, path or name.
    pub project: Option<String>,
    /// At most this many hits (30 when absent, at most 100).
    pub limit: Option<u32>,
}

/// Something that was said, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct SearchHit {
    /// The session.
    pub session: String,
    /// Its title.
    pub title: String,
    /// Path of its project.
    pub project: String,
    /// Number of the turn.
    pub turn: i64,
    /// `user` or `agent`.
    pub role: String,
    /// When it was said.
    pub at: i64,
    /// Text around the first match; matches are between `«` and `»`.
    pub snippet: String,
}

/// Answer of `search`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SearchHits {
    /// The best first.
    pub hits: Vec<SearchHit>,
}

/// Input of `project_files`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, TS)]
#[serde(default)]
#[ts(optional_fields)]
pub struct ProjectFiles {
    /// A session of the project.
    pub session: String,
    /// Letters of the path, in order; all files when empty.
    pub query: String,
    /// At most this many (20 when absent, at most 200).
    pub limit: Option<u32>,
}

/// A file or folder of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ProjectFile {
    /// Below the project's folder, with `/` between the names.
    pub path: String,
    /// The same as a `file:` address.
    pub uri: String,
    /// Whether it is a folder.
    pub folder: bool,
}

/// Answer of `project_files`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ProjectFilesFound {
    /// The best match first.
    pub files: Vec<ProjectFile>,
    /// Whether the project is too large to have been looked through whole.
    pub cut: bool,
}
