//! A reading of the process table, whatever the platform.

use std::collections::{HashMap, HashSet};

/// One process, as far as we need it (Linux: one line of `/proc/<pid>/stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The process id.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// `R`, `S`, `D`, `T`, `Z`, …
    pub state: u8,
    /// How many threads it has.
    pub threads: u32,
    /// User and system time in clock ticks.
    pub ticks: u64,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// Resident pages.
    pub pages: u64,
}

impl Stat {
    /// Whether it runs: a zombie has ended and waits for its parent only. One whose first
    /// thread has ended while others run looks like one, but has more than one thread.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x') || self.threads > 1
    }
}

/// What hangs below the roots, the roots themselves not among it unless one
/// hangs below another. Neither `spared` nor what hangs only below them is in it.
pub fn below(
    table: &[Stat],
    roots: impl IntoIterator<Item = u32>,
    spared: &HashSet<u32>,
) -> Vec<Stat> {
    let mut children: HashMap<u32, Vec<&Stat>> = HashMap::new();
    for stat in table.iter().filter(|stat| !spared.contains(&stat.pid)) {
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut queue: Vec<u32> = roots.into_iter().collect();
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    while let Some(pid) = queue.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if seen.insert(child.pid) {
                found.push(**child);
                queue.push(child.pid);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pid: u32, parent: u32) -> Stat {
        Stat {
            pid,
            parent,
            group: 0,
            session: 0,
            state: b'S',
            threads: 1,
            ticks: 0,
            start: 1,
            pages: 0,
        }
    }

    fn pids(mut found: Vec<Stat>) -> Vec<u32> {
        found.sort_unstable_by_key(|stat| stat.pid);
        found.iter().map(|stat| stat.pid).collect()
    }

    #[test]
    fn what_hangs_below_is_found_whatever_the_order() {
        let table = [line(5, 4), line(4, 2), line(3, 2), line(2, 1), line(9, 1)];
        assert_eq!(pids(below(&table, [2], &HashSet::new())), [3, 4, 5]);
        assert_eq!(pids(below(&table, [2, 4], &HashSet::new())), [3, 4, 5]);
        assert_eq!(pids(below(&table, [2], &HashSet::from([4]))), [3]);
    }

    #[test]
    fn a_torn_reading_with_a_ring_ends() {
        let table = [line(2, 3), line(3, 2)];
        assert_eq!(pids(below(&table, [2], &HashSet::new())), [2, 3]);
    }

    #[test]
    fn a_zombie_is_dead_unless_its_other_threads_run() {
        let zombie = Stat { state: b'Z', ..line(2, 1) };
        assert!(!zombie.is_alive());
        assert!(Stat { threads: 2, ..zombie }.is_alive());
        assert!(line(2, 1).is_alive());
    }
}
