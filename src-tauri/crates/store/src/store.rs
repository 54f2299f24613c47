//! The store's handle: requests go to the one thread that owns the connection.

use crate::{
    Filter, ReadError,
    query::Query,
    records::*,
    rows::{self, FromRow},
    search, texts,
    thread::{self, Request},
};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use std::{path::Path, sync::mpsc::Sender};
use tokio::sync::oneshot;

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
    /// The file could not be opened as a database.
    #[error("{path} could not be opened: {source}{}", advice(.source))]
    Unusable {
        /// The file.
        path: String,
        /// The reason.
        source: rusqlite::Error,
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

/// What to do about a file that is damaged or was never a database.
fn advice(error: &rusqlite::Error) -> &'static str {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match error.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => {
            "; put it aside (rename it) to begin with an empty one, or take an older copy back"
        }
        _ => "",
    }
}

type Result<T> = std::result::Result<T, StoreError>;

/// The store. Clones are the same store. When the last one is dropped without
/// [`Store::close`], its thread still writes what is buffered and closes.
#[derive(Clone, Debug)]
pub struct Store {
    mailbox: Sender<Request>,
}

impl Store {
    /// Opens (creates, migrates) the database file with mode 0600, WAL, and starts its thread.
    /// Blocks until the file is open.
    ///
    /// # Errors
    /// [`StoreError::Newer`] leaves the file untouched.
    pub fn open(path: &Path) -> Result<Self> {
        // A pipe would be waited for.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let why = "this is no file; move it away, or choose another data directory";
            let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
            return Err(StoreError::File { path: path.display().to_string(), source });
        }
        Ok(Self { mailbox: thread::start(path.to_owned())? })
    }

    /// Writes what is buffered, checkpoints, closes. Later calls get [`StoreError::Closed`].
    /// Idempotent.
    ///
    /// # Errors
    /// When the last updates could not be written; the file is closed all the same.
    pub async fn close(&self) -> Result<()> {
        let (reply, closed) = oneshot::channel();
        if self.mailbox.send(Request::Close(reply)).is_err() {
            return Ok(());
        }
        // No answer: somebody else's close came first and is done.
        closed.await.unwrap_or(Ok(()))
    }

    /// All saved servers in their order.
    pub async fn servers(&self) -> Result<Vec<ServerRow>> {
        self.all(
            "list the servers",
            "SELECT name, config, position FROM servers ORDER BY position, name",
        )
        .await
    }
    /// Inserts or replaces a server (a new one goes to the end, whatever `position` says).
    pub async fn save_server(&self, name: &str, config: &str) -> Result<()> {
        let (name, config) = (name.to_owned(), config.to_owned());
        self.run("save the server", move |c| {
            c.prepare_cached(
                "INSERT INTO servers (name, config, position)
                 VALUES (?1, ?2, (SELECT coalesce(max(position), 0) + 1 FROM servers))
                 ON CONFLICT (name) DO UPDATE SET config = excluded.config",
            )?
            .execute(params![name, config])
            .map(drop)
        })
        .await
    }
    /// Removes a server; false when there was none.
    pub async fn remove_server(&self, name: &str) -> Result<bool> {
        self.remove("remove the server", "DELETE FROM servers WHERE name = ?1", name).await
    }

    /// All saved agents.
    pub async fn agents(&self) -> Result<Vec<AgentRow>> {
        self.all("list the agents", "SELECT id, config, saved_at FROM agents ORDER BY id").await
    }
    /// Inserts or replaces.
    pub async fn save_agent(&self, row: AgentRow) -> Result<()> {
        self.run("save the agent", move |c| {
            c.prepare_cached(
                "INSERT INTO agents (id, config, saved_at) VALUES (?1, ?2, ?3)
                 ON CONFLICT (id) DO UPDATE SET config = excluded.config, saved_at = excluded.saved_at",
            )?
            .execute(params![row.id, row.config, row.saved_at])
            .map(drop)
        })
        .await
    }
    /// Removes; false when there was none.
    pub async fn remove_agent(&self, id: &str) -> Result<bool> {
        self.remove("remove the agent", "DELETE FROM agents WHERE id = ?1", id).await
    }

    /// Inserts the project unless it is there; returns what is stored.
    pub async fn ensure_project(&self, row: ProjectRow) -> Result<ProjectRow> {
        self.run("save the project", move |c| {
            let transaction = begin(c)?;
            transaction
                .prepare_cached(
                    "INSERT INTO projects (id, path, name, created_at, last_used)
                     VALUES (?1, ?2, ?3, ?4, ?4) ON CONFLICT (id) DO NOTHING",
                )?
                .execute(params![row.id, row.path, row.name, row.created_at])?;
            let stored = transaction
                .prepare_cached(&format!("SELECT {} FROM projects WHERE id = ?1", rows::PROJECT))?
                .query_row([&row.id], ProjectRow::from_row)?;
            transaction.commit()?;
            Ok(stored)
        })
        .await
    }
    /// All projects, the last used first.
    pub async fn projects(&self) -> Result<Vec<ProjectRow>> {
        self.all(
            "list the projects",
            &format!("SELECT {} FROM projects ORDER BY last_used DESC, id", rows::PROJECT),
        )
        .await
    }

    /// All sessions, the last active first.
    pub async fn sessions(&self) -> Result<Vec<SessionRow>> {
        self.all("list the sessions", &sessions_sql()).await
    }
    /// One session.
    pub async fn session(&self, id: &str) -> Result<Option<SessionRow>> {
        let id = id.to_owned();
        self.run("read the session", move |c| {
            c.prepare_cached(&format!("SELECT {} FROM sessions WHERE id = ?1", rows::SESSION))?
                .query_row([id], SessionRow::from_row)
                .optional()
        })
        .await
    }
    /// Inserts or replaces. Its turns and updates stay. Its project must be there.
    pub async fn save_session(&self, row: SessionRow) -> Result<()> {
        self.run("save the session", move |c| {
            let transaction = begin(c)?;
            transaction
                .prepare_cached(
                    "INSERT INTO sessions (id, acp_id, project_id, agent, title, options,
                                           created_at, last_activity, closed)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                     ON CONFLICT (id) DO UPDATE SET
                        acp_id = excluded.acp_id, project_id = excluded.project_id,
                        agent = excluded.agent, title = excluded.title,
                        options = excluded.options, created_at = excluded.created_at,
                        last_activity = excluded.last_activity, closed = excluded.closed",
                )?
                .execute(params![
                    row.id,
                    row.acp_id,
                    row.project_id,
                    row.agent,
                    row.title,
                    row.options,
                    row.created_at,
                    row.last_activity,
                    row.closed
                ])?;
            transaction
                .prepare_cached(
                    "UPDATE projects SET last_used = ?2 WHERE id = ?1 AND last_used < ?2",
                )?
                .execute(params![row.project_id, row.last_activity])?;
            transaction.commit()
        })
        .await
    }
    /// Removes the session with its turns and updates; false when there was none.
    pub async fn remove_session(&self, id: &str) -> Result<bool> {
        self.remove("remove the session", "DELETE FROM sessions WHERE id = ?1", id).await
    }

    /// Inserts or replaces a turn (its `number` is given by the caller). A turn's texts become
    /// searchable when it has ended.
    pub async fn save_turn(&self, row: TurnRow) -> Result<()> {
        self.run("save the turn", move |c| {
            let transaction = begin(c)?;
            transaction
                .prepare_cached(
                    "INSERT INTO turns (id, session_id, number, prompt, request_id, started_at,
                                        ended_at, stop_reason, description)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                     ON CONFLICT (id) DO UPDATE SET
                        session_id = excluded.session_id, number = excluded.number,
                        prompt = excluded.prompt, request_id = excluded.request_id,
                        started_at = excluded.started_at, ended_at = excluded.ended_at,
                        stop_reason = excluded.stop_reason, description = excluded.description",
                )?
                .execute(params![
                    row.id,
                    row.session_id,
                    row.number,
                    row.prompt,
                    row.request_id,
                    row.started_at,
                    row.ended_at,
                    row.stop_reason,
                    row.description
                ])?;
            if row.ended_at.is_some() {
                texts::index_ended(&transaction, &row.id);
            }
            transaction
                .prepare_cached("DELETE FROM queued WHERE turn_id = ?1")?
                .execute([&row.id])?;
            transaction.commit()
        })
        .await
    }
    /// Keeps a prompt that waits, or what it is now, until its turn is saved. Written in the order
    /// of the calls, whoever waits first.
    pub fn keep_queued(&self, row: QueuedRow) -> impl Future<Output = Result<()>> + Send + use<> {
        self.run("keep a prompt that waits", move |c| {
            c.prepare_cached(
                "INSERT INTO queued (turn_id, session_id, prompt, request_id, at)
                 SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS (SELECT 1 FROM turns WHERE id = ?1)
                 ON CONFLICT (turn_id) DO UPDATE SET prompt = excluded.prompt",
            )?
            .execute(params![row.turn, row.session_id, row.prompt, row.request_id, row.at])
            .map(drop)
        })
    }
    /// Forgets a prompt that waited: its user took it back.
    pub fn forget_queued(&self, turn: &str) -> impl Future<Output = Result<()>> + Send + use<> {
        let turn = turn.to_owned();
        self.run("forget a prompt that waited", move |c| {
            c.prepare_cached("DELETE FROM queued WHERE turn_id = ?1")?.execute([turn]).map(drop)
        })
    }
    /// At most `limit` turns of a session with a number below `before` (or the
    /// newest), oldest first.
    pub async fn turns(
        &self,
        session: &str,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<TurnRow>> {
        let session = session.to_owned();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.run("read the turns", move |c| {
            let statement = c.prepare_cached(&format!(
                "SELECT {} FROM turns WHERE session_id = ?1 AND number < ?2
                 ORDER BY number DESC LIMIT ?3",
                rows::TURN
            ))?;
            let mut found: Vec<TurnRow> =
                rows::all(statement, params![session, before.unwrap_or(i64::MAX), limit])?;
            found.reverse();
            Ok(found)
        })
        .await
    }
    /// Marks every turn without an end as ended with `error` and this description (after a
    /// crash nothing may look as if it were working), and makes a prompt that waited a turn that
    /// ended so, as `unsent`.
    pub async fn end_open_turns(&self, description: &str, unsent: &str) -> Result<Vec<CutOff>> {
        let (description, unsent) = (description.to_owned(), unsent.to_owned());
        self.run("end the open turns", move |c| {
            let transaction = begin(c)?;
            let open: Vec<(String, String)> = transaction
                .prepare_cached("SELECT session_id, id FROM turns WHERE ended_at IS NULL")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            for (_, id) in &open {
                // The last sign of life is when it ended, as far as anyone knows.
                transaction
                    .prepare_cached(
                        "UPDATE turns SET stop_reason = 'error', description = ?2,
                            ended_at = coalesce((SELECT max(at) FROM updates WHERE turn_id = ?1), started_at)
                         WHERE id = ?1",
                    )?
                    .execute(params![id, description])?;
                texts::index_ended(&transaction, id);
            }
            let waiting: Vec<(String, String)> = transaction
                .prepare_cached("SELECT session_id, turn_id FROM queued ORDER BY at, turn_id")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            let mut unsent_rows = Vec::with_capacity(waiting.len());
            for (_, id) in &waiting {
                transaction
                    .prepare_cached(
                        "INSERT OR IGNORE INTO turns (id, session_id, number, prompt, request_id,
                            started_at, ended_at, stop_reason, description)
                         SELECT turn_id, session_id,
                            (SELECT coalesce(max(number), 0) + 1 FROM turns
                             WHERE turns.session_id = queued.session_id),
                            prompt, request_id, at, at, 'error', ?2
                         FROM queued WHERE turn_id = ?1
                            AND EXISTS (SELECT 1 FROM sessions WHERE id = session_id)",
                    )?
                    .execute(params![id, unsent])?;
                texts::index_ended(&transaction, id);
                let sql = format!("SELECT {} FROM turns WHERE id = ?1", rows::TURN);
                unsent_rows.extend(rows::all::<TurnRow>(transaction.prepare_cached(&sql)?, [id])?);
            }
            transaction.execute("DELETE FROM queued", [])?;
            transaction.commit()?;
            let open = open.into_iter().map(|(session_id, turn)| CutOff {
                session_id,
                turn,
                description: description.clone(),
                unsent: None,
            });
            let waiting = unsent_rows.into_iter().map(|row| CutOff {
                session_id: row.session_id.clone(),
                turn: row.id.clone(),
                description: unsent.clone(),
                unsent: Some(row),
            });
            Ok(open.chain(waiting).collect())
        })
        .await
    }

    /// Queues updates; they are written together at most 50 ms later, and before any read.
    /// An update whose session is not saved, or whose `seq` is taken, is left out and logged.
    pub fn append_updates(&self, rows: Vec<UpdateRow>) {
        if self.mailbox.send(Request::Append(rows)).is_err() {
            tracing::warn!("updates came after the database was closed");
        }
    }
    /// All updates of a turn in order.
    pub async fn updates_of_turn(&self, turn: &str) -> Result<Vec<UpdateRow>> {
        let turn = turn.to_owned();
        self.run("read the updates", move |c| {
            let statement = c.prepare_cached(
                "SELECT session_id, turn_id, seq, at, json FROM updates WHERE turn_id = ?1 ORDER BY seq",
            )?;
            rows::all(statement, [turn])
        })
        .await
    }
    /// The highest `seq` of a session's updates, 0 when there is none.
    pub async fn last_seq(&self, session: &str) -> Result<i64> {
        let session = session.to_owned();
        self.run("read the updates", move |c| {
            c.prepare_cached("SELECT coalesce(max(seq), 0) FROM updates WHERE session_id = ?1")?
                .query_row([session], |row| row.get(0))
        })
        .await
    }

    /// A setting's value (JSON text).
    pub async fn setting(&self, key: &str) -> Result<Option<String>> {
        let key = key.to_owned();
        self.run("read the setting", move |c| {
            c.prepare_cached("SELECT value FROM settings WHERE key = ?1")?
                .query_row([key], |row| row.get(0))
                .optional()
        })
        .await
    }
    /// Stores a setting.
    pub async fn save_setting(&self, key: &str, value: &str) -> Result<()> {
        let (key, value) = (key.to_owned(), value.to_owned());
        self.run("save the setting", move |c| {
            c.prepare_cached(
                "INSERT INTO settings (key, value) VALUES (?1, ?2)
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            )?
            .execute(params![key, value])
            .map(drop)
        })
        .await
    }

    /// The same as [`crate::Reader::search`], in the program that owns the database.
    ///
    /// # Errors
    /// [`ReadError::Query`] explains a query that means nothing.
    pub async fn search(
        &self,
        query: &str,
        filter: Filter,
        limit: usize,
    ) -> std::result::Result<Vec<SearchHit>, ReadError> {
        let query = Query::parse(query)?;
        Ok(self.run("be searched", move |c| search::search(c, &query, &filter, limit)).await?)
    }

    async fn all<T: FromRow + Send + 'static>(
        &self,
        what: &'static str,
        sql: &str,
    ) -> Result<Vec<T>> {
        let sql = sql.to_owned();
        self.run(what, move |c| rows::all(c.prepare_cached(&sql)?, [])).await
    }

    async fn remove(&self, what: &'static str, sql: &'static str, id: &str) -> Result<bool> {
        let id = id.to_owned();
        self.run(what, move |c| Ok(c.prepare_cached(sql)?.execute([id])? > 0)).await
    }

    /// Has the store's thread do it and waits for the answer.
    /// It is asked for at once, the future only waits.
    fn run<T: Send + 'static, W>(
        &self,
        what: &'static str,
        work: W,
    ) -> impl Future<Output = Result<T>> + Send + use<T, W>
    where
        W: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let work = Box::new(move |connection: &mut Connection| {
            let _ = reply.send(work(connection));
        });
        let asked = self.mailbox.send(Request::Run(work)).map_err(|_| StoreError::Closed);
        async move {
            asked?;
            answer
                .await
                .map_err(|_| StoreError::Closed)?
                .map_err(|source| StoreError::Sqlite { what, source })
        }
    }
}

/// Takes the write lock at the start: a transaction that reads first and writes
/// later fails at once when another instance wrote in between.
fn begin(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

fn sessions_sql() -> String {
    format!("SELECT {} FROM sessions ORDER BY last_activity DESC, id", rows::SESSION)
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
