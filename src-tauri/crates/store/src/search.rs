//! Search and reading back, over any open connection.

use crate::{SearchHit, query::Query};
use rusqlite::{Connection, ToSql};

/// What narrows a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Id, path or name of a project.
    pub project: Option<String>,
    /// `user` or `agent`.
    pub role: Option<String>,
    /// Said at or after this instant (milliseconds since the epoch).
    pub since: Option<i64>,
}

/// What one side said in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Number of the turn.
    pub turn: i64,
    /// `user` or `agent`.
    pub role: String,
    /// When it was said.
    pub at: i64,
    /// The words.
    pub text: String,
}

/// What there is to search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Number of projects.
    pub projects: i64,
    /// Number of sessions.
    pub sessions: i64,
    /// Number of turns that have ended and can be found.
    pub turns: i64,
    /// When the oldest text was said.
    pub oldest: Option<i64>,
    /// When the newest text was said.
    pub newest: Option<i64>,
}

/// Most hits that one search returns.
pub const MOST_HITS: usize = 100;

pub(crate) fn search(
    connection: &Connection,
    query: &Query,
    filter: &Filter,
    limit: usize,
) -> rusqlite::Result<Vec<SearchHit>> {
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    let mut bind = |value: Box<dyn ToSql>| {
        values.push(value);
        format!("?{}", values.len())
    };
    let mut conditions = Vec::new();
    let (from, rank) = match query.indexed() {
        Some(expression) => {
            conditions.push(format!("words MATCH {}", bind(Box::new(expression))));
            ("words JOIN texts t ON t.id = words.rowid", "words.rank")
        }
        None => ("texts t", "0.0"),
    };
    let mut like = |pattern: String| format!("t.text LIKE {} ESCAPE '\\'", bind(Box::new(pattern)));
    for group in query.scanned() {
        let any: Vec<String> = group.into_iter().map(&mut like).collect();
        conditions.push(format!("({})", any.join(" OR ")));
    }
    for pattern in query.excluded() {
        conditions.push(format!("NOT {}", like(pattern)));
    }
    if let Some(project) = &filter.project {
        let value = bind(Box::new(project.clone()));
        conditions.push(format!("(p.id = {value} OR p.path = {value} OR p.name = {value})"));
    }
    if let Some(role) = &filter.role {
        conditions.push(format!("t.role = {}", bind(Box::new(role.clone()))));
    }
    if let Some(since) = filter.since {
        conditions.push(format!("t.at >= {}", bind(Box::new(since))));
    }
    let limit = bind(Box::new(limit.clamp(1, MOST_HITS) as i64));
    let sql = format!(
        "SELECT s.id, s.title, p.path, t.turn, t.role, t.at, t.text, {rank}
         FROM {from} JOIN sessions s ON s.id = t.session_id JOIN projects p ON p.id = s.project_id
         WHERE {} ORDER BY {rank}, t.at DESC LIMIT {limit}",
        conditions.join(" AND ")
    );
    let mut statement = connection.prepare(&sql)?;
    let values: Vec<&dyn ToSql> = values.iter().map(|v| &**v).collect();
    let rows = statement.query_map(values.as_slice(), |row| {
        Ok(SearchHit {
            session_id: row.get(0)?,
            title: row.get(1)?,
            project: row.get(2)?,
            turn: row.get(3)?,
            role: row.get(4)?,
            at: row.get(5)?,
            snippet: query.snippet(&row.get::<_, String>(6)?),
            rank: row.get(7)?,
        })
    })?;
    rows.collect()
}

pub(crate) fn passages(
    connection: &Connection,
    session: &str,
    turn: i64,
    before: u32,
    after: u32,
) -> rusqlite::Result<Vec<Passage>> {
    let mut statement = connection.prepare(
        "SELECT turn, role, at, text FROM texts
         WHERE session_id = ?1 AND turn BETWEEN ?2 AND ?3 ORDER BY turn, role = 'agent'",
    )?;
    let (first, last) =
        (turn.saturating_sub(i64::from(before)), turn.saturating_add(i64::from(after)));
    let rows = statement.query_map((session, first, last), |row| {
        Ok(Passage { turn: row.get(0)?, role: row.get(1)?, at: row.get(2)?, text: row.get(3)? })
    })?;
    rows.collect()
}

pub(crate) fn extent(connection: &Connection) -> rusqlite::Result<Extent> {
    connection.query_row(
        "SELECT (SELECT count(*) FROM projects), (SELECT count(*) FROM sessions),
                (SELECT count(*) FROM turns WHERE indexed = 1),
                (SELECT min(at) FROM texts), (SELECT max(at) FROM texts)",
        [],
        |row| {
            Ok(Extent {
                projects: row.get(0)?,
                sessions: row.get(1)?,
                turns: row.get(2)?,
                oldest: row.get(3)?,
                newest: row.get(4)?,
            })
        },
    )
}
