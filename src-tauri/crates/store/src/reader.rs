//! A database that another program writes, read without touching it.

use crate::{
    AgentRow, QueryProblem, SearchHit, StoreError, migrations, open,
    query::Query,
    search::{self, Extent, Filter, Passage},
};
use rusqlite::Connection;
use std::{
    ffi::c_int,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// Between two looks at whether an answer is still wanted, in steps of SQLite's machine: well
/// under a millisecond.
const STEPS: c_int = 10_000;

/// Why a search gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The query means nothing; the message says what to change.
    #[error("{0}")]
    Query(#[from] QueryProblem),
    /// The database could not be read.
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// What a database is like from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// There is no file (yet).
    Missing,
    /// The file holds nothing that could be searched: it is new, or older than the search.
    Unprepared,
    /// It can be searched.
    Ready(Extent),
}

/// A way to read a database that another program may be writing. Every call
/// opens the file read-only and closes it again, so that nothing is held, and
/// nothing is left beside it. Calls block for as long as SQLite works.
#[derive(Clone, Debug)]
pub struct Reader {
    path: PathBuf,
    /// Nobody wants an answer any more.
    given_up: Arc<AtomicBool>,
}

/// Ends what its reader does when it is dropped: the read fails soon, as interrupted.
#[derive(Debug)]
pub struct Patience(Arc<AtomicBool>);

impl Drop for Patience {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl Reader {
    /// A reader of this file, which need not be there yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), given_up: Arc::default() }
    }

    /// The same reader for one use, which lasts as long as the patience is kept.
    pub fn patiently(&self) -> (Self, Patience) {
        let given_up = Arc::<AtomicBool>::default();
        (Self { path: self.path.clone(), given_up: given_up.clone() }, Patience(given_up))
    }

    /// The file.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The best matches, at most `limit` (no more than [`crate::MOST_HITS`]). Words must
    /// all occur; `"a phrase"`, `a OR b` and `-without` work. Words of one or two
    /// characters are found too (without regard to case for ASCII only).
    ///
    /// # Errors
    /// [`ReadError::Query`] explains a query that means nothing. A missing
    /// database has no matches and is not an error.
    pub fn search(
        &self,
        query: &str,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<SearchHit>, ReadError> {
        let query = Query::parse(query)?;
        let hits = self.read("be searched", |c| search::search(c, &query, filter, limit))?;
        Ok(hits.unwrap_or_default())
    }

    /// What was said in a turn, and in this many turns before and after it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn get(
        &self,
        session: &str,
        turn: i64,
        before: u32,
        after: u32,
    ) -> Result<Vec<Passage>, StoreError> {
        let passages =
            self.read("be read", |c| search::passages(c, session, turn, before, after))?;
        Ok(passages.unwrap_or_default())
    }

    /// The saved agents; none when there is no database, or one that is older than the search.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn agents(&self) -> Result<Vec<AgentRow>, StoreError> {
        let query = |connection: &Connection| {
            connection
                .prepare("SELECT id, config, saved_at FROM agents ORDER BY id")?
                .query_map([], |row| {
                    Ok(AgentRow { id: row.get(0)?, config: row.get(1)?, saved_at: row.get(2)? })
                })?
                .collect()
        };
        Ok(self.read("be read", query)?.unwrap_or_default())
    }

    /// Whether there is something to search, and how much.
    ///
    /// # Errors
    /// When the database cannot be read, or was written by a newer Gantry.
    pub fn status(&self) -> Result<Presence, StoreError> {
        match self.path.try_exists() {
            Ok(true) => {}
            Ok(false) => return Ok(Presence::Missing),
            Err(error) => return Err(open::file_error(&self.path, error)),
        }
        Ok(self.read("be read", search::extent)?.map_or(Presence::Unprepared, Presence::Ready))
    }

    /// `None` when there is no database, or none that can be searched yet.
    fn read<T>(
        &self,
        what: &'static str,
        query: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        // The journal is beside the real file, wherever a link points from.
        let path = match self.path.canonicalize() {
            Ok(path) => path,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(open::file_error(&self.path, error)),
        };
        if !path.is_file() {
            let error = std::io::Error::other("it is no file");
            return Err(open::file_error(&path, error));
        }
        let opened = |connection: &mut Connection| {
            let given_up = self.given_up.clone();
            connection.progress_handler(STEPS, Some(move || given_up.load(Relaxed)))
        };
        let answer = open::read(&path, opened, |connection| {
            let version = migrations::version(connection)?;
            if version > migrations::KNOWN {
                return Ok(Err(version));
            }
            if version < migrations::SEARCHABLE {
                return Ok(Ok(None));
            }
            Ok(Ok(Some(query(connection)?)))
        });
        match answer.map_err(|source| StoreError::Sqlite { what, source })? {
            Ok(found) => Ok(found),
            Err(found) => Err(StoreError::Newer {
                path: path.display().to_string(),
                found,
                known: migrations::KNOWN,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_waits_for_any_more_ends_soon() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("gantry.db");
        drop(open::read_write(&file).unwrap());
        let (reader, patience) = Reader::new(&file).patiently();
        let endless = std::thread::spawn(move || {
            reader.read("be searched", |connection| {
                let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                           SELECT max(i) FROM n";
                connection.query_row(sql, [], |row| row.get::<_, i64>(0))
            })
        });
        drop(patience);
        let why = endless.join().unwrap().unwrap_err();
        assert!(why.to_string().contains("interrupted"), "{why}");
        // The next use of the same reader has patience of its own.
        assert!(matches!(Reader::new(&file).status(), Ok(Presence::Ready(_))));
    }

    #[test]
    fn a_place_that_cannot_be_looked_at_is_not_the_same_as_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(Reader::new(dir.path().join("none")).status(), Ok(Presence::Missing)));
        for place in [file.join("gantry.db"), dir.path().to_owned()] {
            assert!(matches!(Reader::new(place).status(), Err(StoreError::File { .. })));
        }
    }
}
