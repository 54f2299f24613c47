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
    last: HashMap<ProcessId, Seen>,
}

/// The shortest span that a share is taken over: readers may come at the same time, and the
/// system counts in hundredths of a second.
const LEAST: Duration = Duration::from_millis(500);

/// A process at an earlier reading.
#[derive(Clone, Copy, Debug)]
struct Seen {
    used: Used,
    /// Its share until then, in percent.
    share: f32,
}

impl Seen {
    /// At a later reading. Soon after the last one it stays as it was.
    fn later(earlier: Option<&Self>, used: Used) -> Self {
        match earlier {
            None => Self { used, share: 0.0 },
            Some(seen) if used.at.saturating_duration_since(seen.used.at) < LEAST => *seen,
            Some(seen) => Self { used, share: used.share_since(seen.used) },
        }
    }
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
        let seen = |stat: &Stat| {
            let id = ProcessId::from(stat);
            (id, Seen::later(self.last.get(&id), Used { at, time: os::cpu_time(stat) }))
        };
        let seen: HashMap<ProcessId, Seen> = shown.iter().map(seen).collect();
        let pids = shown.iter().map(|stat| stat.pid);
        let mut commands = os::commands(pids.clone());
        let proportional = os::proportional(pids);
        let row = |stat: &Stat| {
            let id = ProcessId::from(stat);
            Row {
                id,
                parent: stat.parent,
                name: os::name(stat.pid),
                command: commands.remove(&stat.pid).unwrap_or_default(),
                cookie: cookies.get(&stat.pid).cloned(),
                cpu: seen[&id].share,
                rss: os::resident(stat),
                pss: proportional.get(&stat.pid).copied(),
                uptime: os::uptime(stat),
                zombie: !stat.is_alive(),
            }
        };
        let rows = shown.iter().map(row).collect();
        self.last = seen;
        rows
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
        let seen = Seen::later(None, first);
        assert!(seen.share.abs() < 0.001);
        let seen = Seen::later(Some(&seen), later);
        assert!((seen.share - 25.0).abs() < 0.001);
        // Somebody else has asked just now: a tick more would be a whole core.
        let (at, time) = (later.at + Duration::from_millis(1), later.time + LEAST);
        let seen = Seen::later(Some(&seen), Used { at, time });
        assert!((seen.share - 25.0).abs() < 0.001 && seen.used.at == later.at);
    }
}
