//! The rows, as the rest of the program sees them. Times are milliseconds
//! since the Unix epoch; JSON columns are text.

/// A folder the user works in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectRow {
    /// Unique; for back ends `<user>/<project>`, for folders the path.
    pub id: String,
    /// Absolute path.
    pub path: String,
    /// For people.
    pub name: String,
    /// When it was first used.
    pub created_at: i64,
}

/// A way to start an ACP program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRow {
    /// Unique.
    pub id: String,
    /// `{"name","command","args","env"}`.
    pub config: String,
    /// When it was saved.
    pub saved_at: i64,
}

/// A saved MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRow {
    /// Unique.
    pub name: String,
    /// The stored configuration, JSON.
    pub config: String,
    /// Order in the list.
    pub position: i64,
}

/// One conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Ours; never reused.
    pub id: String,
    /// The agent's own id of it, once it is open.
    pub acp_id: Option<String>,
    /// Of its project.
    pub project_id: String,
    /// Of its agent, as a JSON configuration that can start it again.
    pub agent: String,
    /// For people.
    pub title: String,
    /// JSON: the servers it was opened with (`null`: the saved ones), policy, user, and the like.
    pub options: String,
    /// When it was created.
    pub created_at: i64,
    /// When something last happened in it.
    pub last_activity: i64,
    /// Why it is stopped; `None` while it can go on in its engine.
    pub closed: Option<String>,
}

/// Prompt to stop reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRow {
    /// Unique.
    pub id: String,
    /// Its session.
    pub session_id: String,
    /// 1 for the first turn of the session.
    pub number: i64,
    /// The prompt: ACP content blocks, JSON.
    pub prompt: String,
    /// The caller's own id.
    pub request_id: Option<String>,
    /// When the prompt was accepted.
    pub started_at: i64,
    /// When it ended.
    pub ended_at: Option<i64>,
    /// ACP stop reason, or `error`.
    pub stop_reason: Option<String>,
    /// For people, when it failed.
    pub description: Option<String>,
}

/// One update of a turn (or of a session outside any turn).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateRow {
    /// Its session.
    pub session_id: String,
    /// Its turn, when it came in one.
    pub turn_id: Option<String>,
    /// Order within the session.
    pub seq: i64,
    /// When it came.
    pub at: i64,
    /// The ACP update (the `update` object) or one of ours, JSON.
    pub json: String,
}

/// What a full-text search found.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    /// Of the session.
    pub session_id: String,
    /// The session's title.
    pub title: String,
    /// The project's path.
    pub project: String,
    /// Number of the turn.
    pub turn: i64,
    /// `user` or `agent`.
    pub role: String,
    /// When it was said.
    pub at: i64,
    /// Text around the match, matches between `«` and `»`.
    pub snippet: String,
    /// Lower is better.
    pub rank: f64,
}

/// A prompt that waits for the turn before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedRow {
    /// Of the turn that it will be.
    pub turn: String,
    /// Of its session.
    pub session_id: String,
    /// ACP content blocks, JSON.
    pub prompt: String,
    /// The caller's own id.
    pub request_id: Option<String>,
    /// When it was asked for.
    pub at: i64,
}

/// A turn that the end of a program cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutOff {
    /// Of its session.
    pub session_id: String,
    /// The turn.
    pub turn: String,
    /// How it is described now.
    pub description: String,
    /// The row that it has got, when it was a prompt that waited.
    pub unsent: Option<TurnRow>,
}
