//! The process table, read at once: for the process view and the census.

use crate::{
    Cookie, ProcessId,
    census::Census,
    os::{self, Stat},
};
use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

/// One process as the system reports it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Who it is.
    pub id: ProcessId,
    /// Its parent's pid.
    pub parent: u32,
    /// The short name.
    pub name: String,
    /// The command line, arguments separated by spaces, secrets included: never log it.
    pub command: String,
    /// The cookie it bears, when we may read it.
    pub cookie: Option<Cookie>,
    /// Share of one core since the last reading of the same process, in percent; 0 at
    /// the first reading.
    pub cpu: f32,
    /// Resident memory in bytes.
    pub rss: u64,
    /// Proportional memory in bytes, where the system tells and we may ask.
    pub pss: Option<u64>,
    /// Since its start.
    pub uptime: Duration,
    /// Ended and not yet reaped by its parent.
    pub zombie: bool,
}

/// Reads the table. One instance keeps what is needed to compute `cpu`.
#[derive(Debug, Default)]
pub struct Table {
    last: HashMap<ProcessId, Used>,
}

/// Processor time that a process had used at an instant.
#[derive(Clone, Copy, Debug)]
struct Used {
    at: Instant,
    time: Duration,
}

impl Used {
    /// Share of one core since `earlier`, in percent.
    fn share_since(self, earlier: Self) -> f32 {
        let passed = self.at.saturating_duration_since(earlier.at);
        if passed.is_zero() {
            return 0.0;
        }
        self.time.saturating_sub(earlier.time).as_secs_f32() / passed.as_secs_f32() * 100.0
    }
}

impl Table {
    /// All processes that bear a cookie, ourselves included, and what hangs below them;
    /// in the order of their pids. Reads files: call it off the runtime's threads.
    pub fn read(&mut self) -> Vec<Row> {
        let census = Census::read();
        let me = std::process::id();
        let cookies: HashMap<u32, Cookie> = census
            .bearers(0, &HashSet::new(), |_| true)
            .into_iter()
            .map(|(stat, cookie)| (stat.pid, cookie))
            .collect();
        // Not what hangs below ourselves: a window has helper processes that are no trees.
        let roots: Vec<u32> = cookies.keys().copied().collect();
        let mut shown = os::below(&census.table, roots, &HashSet::new());
        let is_root = |stat: &&Stat| stat.pid == me || cookies.contains_key(&stat.pid);
        shown.extend(census.table.iter().filter(is_root));
        shown.sort_unstable_by_key(|stat| stat.pid);
        shown.dedup_by_key(|stat| stat.pid);

        let at = Instant::now();
        let used: HashMap<ProcessId, Used> =
            shown.iter().map(|stat| (stat.into(), Used { at, time: os::cpu_time(stat) })).collect();
        let rows = shown.iter().map(|stat| self.row(stat, used[&stat.into()], &cookies)).collect();
        self.last = used;
        rows
    }

    fn row(&self, stat: &Stat, used: Used, cookies: &HashMap<u32, Cookie>) -> Row {
        let id = ProcessId::from(stat);
        Row {
            id,
            parent: stat.parent,
            name: os::name(stat.pid),
            command: os::command(stat.pid),
            cookie: cookies.get(&stat.pid).cloned(),
            cpu: self.last.get(&id).map_or(0.0, |earlier| used.share_since(*earlier)),
            rss: os::resident(stat),
            pss: os::proportional(stat.pid),
            uptime: os::uptime(stat),
            zombie: !stat.is_alive(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_are_in_the_table_with_sane_figures() {
        let row = Table::default().read().into_iter().find(|row| row.id == ProcessId::current());
        let row = row.expect("ourselves");
        assert!(row.rss > 100_000, "{}", row.rss);
        if cfg!(target_os = "linux") {
            assert!(row.pss.is_some_and(|pss| pss > 100_000 && pss <= row.rss * 2), "{row:?}");
        }
        assert!(row.uptime < Duration::from_secs(3600), "{:?}", row.uptime);
        assert!(!row.zombie && row.cpu == 0.0);
        assert!(!row.name.is_empty() && row.command.contains("gantry_supervisor"), "{row:?}");
    }

    #[test]
    fn a_share_is_of_one_core() {
        let at = Instant::now();
        let first = Used { at, time: Duration::from_secs(10) };
        let later = Used { at: at + Duration::from_secs(2), time: Duration::from_millis(10_500) };
        assert!((later.share_since(first) - 25.0).abs() < 0.001);
        assert!(first.share_since(first) < 0.001);
    }
}
