//! The one thread that owns the connection. It sleeps until it is asked, and
//! writes nothing unless it was given something to write.

use crate::{StoreError, UpdateRow, open, texts};
use rusqlite::{Connection, TransactionBehavior, params};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel, sync_channel},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Updates wait at most this long for others to be written with them.
const TOGETHER: Duration = Duration::from_millis(40);
/// So many do not wait for more.
const MANY: usize = 1000;
/// What is kept for another try when the disk refuses, and how soon it comes.
const MOST_KEPT: usize = 50_000;
const AGAIN: Duration = Duration::from_millis(500);
/// Turns that are indexed between two looks at the mailbox.
const INDEXED_AT_ONCE: u32 = 50;

pub(crate) type Work = Box<dyn FnOnce(&mut Connection) + Send>;

pub(crate) enum Request {
    /// Anything that needs the connection. What is buffered is written first.
    Run(Work),
    /// Updates to be written soon.
    Append(Vec<UpdateRow>),
    /// The end.
    Close(oneshot::Sender<Result<(), StoreError>>),
}

/// Opens the database on a thread of its own and returns its mailbox.
pub(crate) fn start(path: PathBuf) -> Result<Sender<Request>, StoreError> {
    let (mailbox, requests) = channel();
    let (opened, result) = sync_channel(1);
    let file = path.clone();
    std::thread::Builder::new()
        .name("gantry-store".into())
        .spawn(move || match open::read_write(&path) {
            Ok(connection) => {
                let _ = opened.send(Ok(()));
                Owner { connection, waiting: Vec::new(), write_at: None }.serve(&requests);
            }
            Err(error) => {
                let _ = opened.send(Err(error));
            }
        })
        .map_err(|source| open::file_error(&file, source))?;
    result.recv().unwrap_or(Err(StoreError::Closed))?;
    Ok(mailbox)
}

struct Owner {
    connection: Connection,
    waiting: Vec<UpdateRow>,
    /// When `waiting` is to be written; `Some` exactly when it is not empty.
    write_at: Option<Instant>,
}

impl Owner {
    fn serve(mut self, requests: &Receiver<Request>) {
        let mut unindexed = true;
        loop {
            let request = if unindexed {
                match requests.try_recv() {
                    Ok(request) => Some(request),
                    Err(TryRecvError::Empty) => {
                        unindexed = self.index_some();
                        None
                    }
                    Err(TryRecvError::Disconnected) => break,
                }
            } else if let Some(at) = self.write_at {
                match requests.recv_timeout(at.saturating_duration_since(Instant::now())) {
                    Ok(request) => Some(request),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            } else {
                match requests.recv() {
                    Ok(request) => Some(request),
                    Err(_) => break,
                }
            };
            match request {
                Some(Request::Run(work)) => {
                    self.write();
                    // A panic in one request is the end of that request only; its
                    // transaction was rolled back as the stack unwound.
                    let connection = &mut self.connection;
                    if catch_unwind(AssertUnwindSafe(|| work(connection))).is_err() {
                        tracing::error!("a request to the database panicked");
                    }
                }
                Some(Request::Append(rows)) if !rows.is_empty() => {
                    self.waiting.extend(rows);
                    self.write_at.get_or_insert_with(|| Instant::now() + TOGETHER);
                }
                Some(Request::Close(reply)) => {
                    let _ = reply.send(self.close());
                    return;
                }
                Some(Request::Append(_)) | None => {}
            }
            if self.waiting.len() >= MANY || self.write_at.is_some_and(|at| at <= Instant::now()) {
                self.write();
            }
        }
        // Every handle is gone and nobody waits for an answer.
        if let Err(error) = self.close() {
            tracing::error!(%error, "the database was not closed cleanly");
        }
    }

    fn write(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        match write_updates(&mut self.connection, &self.waiting) {
            Ok(()) => {
                self.waiting.clear();
                self.write_at = None;
            }
            Err(error) => {
                tracing::error!(%error, rows = self.waiting.len(), "updates could not be written; trying again");
                let lost = self.waiting.len().saturating_sub(MOST_KEPT);
                if lost > 0 {
                    tracing::error!(rows = lost, "updates are lost: too many wait for the disk");
                    self.waiting.drain(..lost);
                }
                self.write_at = Some(Instant::now() + AGAIN);
            }
        }
    }

    /// Whether there may be more to index.
    fn index_some(&mut self) -> bool {
        match texts::index_waiting(&mut self.connection, INDEXED_AT_ONCE) {
            Ok(done) => done > 0,
            Err(error) => {
                tracing::warn!(%error, "older turns could not be made searchable; trying again at the next start");
                false
            }
        }
    }

    fn close(mut self) -> Result<(), StoreError> {
        let written = write_updates(&mut self.connection, &self.waiting)
            .map_err(|source| StoreError::Sqlite { what: "write the last updates", source });
        // A reader in another program can hold the checkpoint up: then the journal stays and
        // the next start reads it. Nothing is lost.
        let checkpoint: rusqlite::Result<i64> =
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        match checkpoint {
            Ok(0) => {}
            Ok(_) => tracing::info!("the journal stays: another program is reading the database"),
            Err(error) => tracing::warn!(%error, "the journal could not be merged"),
        }
        let closed = self
            .connection
            .close()
            .map_err(|(_, source)| StoreError::Sqlite { what: "be closed", source });
        written.and(closed)
    }
}

/// One transaction; a row that the database refuses is logged and left out, and
/// does not take the others with it.
fn write_updates(connection: &mut Connection, rows: &[UpdateRow]) -> rusqlite::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut insert = transaction.prepare_cached(
            "INSERT INTO updates (session_id, seq, turn_id, at, json) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        for row in rows {
            let values = params![row.session_id, row.seq, row.turn_id, row.at, row.json];
            match insert.execute(values) {
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.sqlite_error_code(),
                        Some(
                            rusqlite::ErrorCode::ConstraintViolation
                                | rusqlite::ErrorCode::TooBig
                                | rusqlite::ErrorCode::TypeMismatch
                        )
                    ) =>
                {
                    tracing::warn!(session = row.session_id, seq = row.seq, %error, "an update was refused by the database");
                }
                Err(error) => return Err(error),
            }
        }
    }
    transaction.commit()
}
