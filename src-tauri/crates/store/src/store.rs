//! The store's handle: requests go to the one thread that owns the connection.

use crate::records::*;
use std::path::Path;

/// Why the store could not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is from a newer Gantry.
    #[error(
        "{path} was written by a newer Gantry (schema {found}, this one knows {known}); install that version, or choose another data directory"
    )]
    Newer {
        /// The file.
        path: String,
        /// Its schema.
        found: i64,
        /// The newest one that this program knows.
        known: i64,
    },
    /// SQLite said no.
    #[error("the database could not {what}: {source}")]
    Sqlite {
        /// What was tried.
        what: &'static str,
        /// The reason.
        source: rusqlite::Error,
    },
    /// The file system said no.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
    /// The store was closed.
    #[error("the database is closed")]
    Closed,
}

type Result<T> = std::result::Result<T, StoreError>;

/// The store. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Store {}

impl Store {
    /// Opens (creates, migrates) the database file with mode 0600, WAL, and starts its thread.
    ///
    /// # Errors
    /// [`StoreError::Newer`] leaves the file untouched.
    pub fn open(path: &Path) -> Result<Self> {
        unimplemented!()
    }

    /// Writes what is buffered, checkpoints, closes. Later calls get [`StoreError::Closed`].
    /// Idempotent.
    pub async fn close(&self) -> Result<()> {
        unimplemented!()
    }

    /// All saved servers in their order.
    pub async fn servers(&self) -> Result<Vec<ServerRow>> {
        unimplemented!()
    }
    /// Inserts or replaces a server (a new one goes to the end, whatever `position` says).
    pub async fn save_server(&self, name: &str, config: &str) -> Result<()> {
        unimplemented!()
    }
    /// Removes a server; false when there was none.
    pub async fn remove_server(&self, name: &str) -> Result<bool> {
        unimplemented!()
    }

    /// All saved agents.
    pub async fn agents(&self) -> Result<Vec<AgentRow>> {
        unimplemented!()
    }
    /// Inserts or replaces.
    pub async fn save_agent(&self, row: AgentRow) -> Result<()> {
        unimplemented!()
    }
    /// Removes; false when there was none.
    pub async fn remove_agent(&self, id: &str) -> Result<bool> {
        unimplemented!()
    }

    /// Inserts the project unless it is there; returns what is stored.
    pub async fn ensure_project(&self, row: ProjectRow) -> Result<ProjectRow> {
        unimplemented!()
    }
    /// All projects, the last used first.
    pub async fn projects(&self) -> Result<Vec<ProjectRow>> {
        unimplemented!()
    }

    /// All sessions, the last active first.
    pub async fn sessions(&self) -> Result<Vec<SessionRow>> {
        unimplemented!()
    }
    /// One session.
    pub async fn session(&self, id: &str) -> Result<Option<SessionRow>> {
        unimplemented!()
    }
    /// Inserts or replaces.
    pub async fn save_session(&self, row: SessionRow) -> Result<()> {
        unimplemented!()
    }
    /// Removes the session with its turns and updates; false when there was none.
    pub async fn remove_session(&self, id: &str) -> Result<bool> {
        unimplemented!()
    }

    /// Inserts or replaces a turn (its `number` is given by the caller). A turn's texts become
    /// searchable when it has ended.
    pub async fn save_turn(&self, row: TurnRow) -> Result<()> {
        unimplemented!()
    }
    /// At most `limit` turns of a session with a number below `before` (or the
    /// newest), oldest first.
    pub async fn turns(
        &self,
        session: &str,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<TurnRow>> {
        unimplemented!()
    }
    /// Marks every turn without an end as ended with `error` and this description (after a
    /// crash nothing may look as if it were working). Returns how many.
    pub async fn end_open_turns(&self, description: &str) -> Result<usize> {
        unimplemented!()
    }

    /// Queues updates; they are written together at most 50 ms later, and before any read.
    pub fn append_updates(&self, rows: Vec<UpdateRow>) {
        unimplemented!()
    }
    /// All updates of a turn in order.
    pub async fn updates_of_turn(&self, turn: &str) -> Result<Vec<UpdateRow>> {
        unimplemented!()
    }
    /// The highest `seq` of a session's updates, 0 when there is none.
    pub async fn last_seq(&self, session: &str) -> Result<i64> {
        unimplemented!()
    }

    /// A setting's value (JSON text).
    pub async fn setting(&self, key: &str) -> Result<Option<String>> {
        unimplemented!()
    }
    /// Stores a setting.
    pub async fn save_setting(&self, key: &str, value: &str) -> Result<()> {
        unimplemented!()
    }
}
