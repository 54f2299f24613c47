//! Rows out of statements. A row that cannot be read is logged and left out:
//! it must not hide all the others.

use crate::{AgentRow, ProjectRow, ServerRow, SessionRow, TurnRow, UpdateRow};
use rusqlite::{CachedStatement, Error, Params, Row};

pub(crate) const PROJECT: &str = "id, path, name, created_at";
pub(crate) const SESSION: &str =
    "id, acp_id, project_id, agent, title, options, created_at, last_activity, closed";
pub(crate) const TURN: &str =
    "id, session_id, number, prompt, request_id, started_at, ended_at, stop_reason, description";

/// A row type and how it is read from its columns.
pub(crate) trait FromRow: Sized {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self>;
}

pub(crate) fn all<T: FromRow>(
    mut statement: CachedStatement<'_>,
    params: impl Params,
) -> rusqlite::Result<Vec<T>> {
    let mut found = Vec::new();
    for row in statement.query_map(params, T::from_row)? {
        match row {
            Ok(row) => found.push(row),
            Err(
                error @ (Error::FromSqlConversionFailure(..)
                | Error::InvalidColumnType(..)
                | Error::IntegralValueOutOfRange(..)
                | Error::Utf8Error(..)),
            ) => {
                tracing::warn!(%error, kind = std::any::type_name::<T>(), "a broken row was left out");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

impl FromRow for ProjectRow {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { id: row.get(0)?, path: row.get(1)?, name: row.get(2)?, created_at: row.get(3)? })
    }
}

impl FromRow for AgentRow {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { id: row.get(0)?, config: row.get(1)?, saved_at: row.get(2)? })
    }
}

impl FromRow for ServerRow {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { name: row.get(0)?, config: row.get(1)?, position: row.get(2)? })
    }
}

impl FromRow for SessionRow {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            acp_id: row.get(1)?,
            project_id: row.get(2)?,
            agent: row.get(3)?,
            title: row.get(4)?,
            options: row.get(5)?,
            created_at: row.get(6)?,
            last_activity: row.get(7)?,
            closed: row.get(8)?,
        })
    }
}

impl FromRow for TurnRow {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            session_id: row.get(1)?,
            number: row.get(2)?,
            prompt: row.get(3)?,
            request_id: row.get(4)?,
            started_at: row.get(5)?,
            ended_at: row.get(6)?,
            stop_reason: row.get(7)?,
            description: row.get(8)?,
        })
    }
}

impl FromRow for UpdateRow {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            session_id: row.get(0)?,
            turn_id: row.get(1)?,
            seq: row.get(2)?,
            at: row.get(3)?,
            json: row.get(4)?,
        })
    }
}
