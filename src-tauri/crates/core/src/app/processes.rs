//! The process view: Gantry, its servers, its engines and what they started.

use super::App;
use crate::{Error, Result, wire::*};
use gantry_supervisor::{ProcessId, ProcessTree, Role, table::Row};
use std::{
    collections::{HashMap, HashSet},
    sync::PoisonError,
};

impl App {
    /// The process tree.
    ///
    /// # Errors
    /// The process table cannot be read.
    pub async fn processes(&self, _: Nothing) -> Result<Processes> {
        let app = self.clone();
        let read = self.scope().spawn_blocking("process table", move || {
            let rows = app.inner.table.lock().unwrap_or_else(PoisonError::into_inner).read();
            let trees = app.inner.supervisor.trees();
            arrange(rows, &trees, ProcessId::current(), crate::events::now())
        });
        read.join().await.ok_or_else(|| Error::failed("the process table could not be read"))
    }
}

fn arrange(rows: Vec<Row>, trees: &[ProcessTree], me: ProcessId, now: i64) -> Processes {
    let programs: HashMap<ProcessId, &ProcessTree> =
        trees.iter().map(|tree| (tree.program(), tree)).collect();
    let rows: Vec<Row> = rows.into_iter().filter(|row| !row.zombie).collect();
    let strays = rows
        .iter()
        .filter(|row| {
            row.cookie.as_ref().is_some_and(|cookie| {
                cookie.owner == me && !trees.iter().any(|tree| tree.is_marked_by(cookie))
            })
        })
        .count();
    let ours =
        |row: &Row| row.id == me || row.cookie.as_ref().is_some_and(|cookie| cookie.owner == me);
    let pids: HashSet<u32> = rows.iter().map(|row| row.id.pid).collect();
    let mut below: HashMap<u32, Vec<&Row>> = HashMap::new();
    for row in &rows {
        below.entry(row.parent).or_default().push(row);
    }
    let mut roots: Vec<&Row> = rows
        .iter()
        .filter(|row| row.id == me || (ours(row) && !pids.contains(&row.parent)))
        .collect();
    roots.sort_by_key(|row| (row.id != me, row.id.pid));
    let mut seen = HashSet::new();
    let describe = Describe { programs: &programs, below: &below, me, now };
    Processes {
        roots: roots.into_iter().filter_map(|row| describe.node(row, &mut seen)).collect(),
        strays,
    }
}

struct Describe<'a> {
    programs: &'a HashMap<ProcessId, &'a ProcessTree>,
    below: &'a HashMap<u32, Vec<&'a Row>>,
    me: ProcessId,
    now: i64,
}

impl Describe<'_> {
    /// `seen` guards against a parent loop in a table that changed while it was read.
    fn node(&self, row: &Row, seen: &mut HashSet<u32>) -> Option<ProcessNode> {
        if !seen.insert(row.id.pid) {
            return None;
        }
        let tree = self.programs.get(&row.id);
        let role = match tree.map(|tree| tree.role()) {
            Some(Role::Server) => ProcessRole::Server,
            Some(Role::Engine) => ProcessRole::Engine,
            Some(Role::Terminal) => ProcessRole::Terminal,
            None if row.id == self.me => ProcessRole::App,
            Some(Role::Own) | None => ProcessRole::Child,
        };
        let uptime_ms = u64::try_from(row.uptime.as_millis()).unwrap_or(u64::MAX);
        let mut children: Vec<ProcessNode> = self
            .below
            .get(&row.id.pid)
            .into_iter()
            .flatten()
            .filter_map(|child| self.node(child, seen))
            .collect();
        children.sort_by_key(|child| child.pid);
        Some(ProcessNode {
            pid: row.id.pid,
            started: self.now.saturating_sub_unsigned(uptime_ms),
            name: row.name.clone(),
            role,
            owner: tree.map(|tree| tree.name().to_owned()),
            cpu: row.cpu,
            rss: row.rss,
            pss: row.pss,
            uptime_ms,
            children,
        })
    }
}
