//! Numbered SQL, applied in order; `PRAGMA user_version` is the number of the
//! last one. A migration that was released is never edited: a change is a new one.

use rusqlite::{Connection, TransactionBehavior};

const ALL: &[&str] = &[
    include_str!("migrations/0001_base.sql"),
    include_str!("migrations/0002_search.sql"),
    include_str!("migrations/0003_queue.sql"),
];

/// The newest schema that this program knows.
pub(crate) const KNOWN: i64 = ALL.len() as i64;

/// The first schema with full-text search.
pub(crate) const SEARCHABLE: i64 = 2;

/// The schema of an open database; 0 for an empty one.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Brings the schema up to [`KNOWN`], one transaction per step. The version is
/// read again inside each transaction: another instance may be at it too.
pub(crate) fn apply(connection: &mut Connection) -> rusqlite::Result<()> {
    apply_up_to(connection, KNOWN)
}

pub(crate) fn apply_up_to(connection: &mut Connection, target: i64) -> rusqlite::Result<()> {
    while version(connection)? < target {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let at = version(&transaction)?;
        if let Some(sql) = usize::try_from(at).ok().and_then(|index| ALL.get(index))
            && at < target
        {
            transaction.execute_batch(sql)?;
            transaction.pragma_update(None, "user_version", at + 1)?;
        }
        transaction.commit()?;
    }
    Ok(())
}
