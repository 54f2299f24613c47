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
    /// User and system time in clock ticks.
    pub ticks: u64,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// Resident pages.
    pub pages: u64,
}

impl Stat {
    /// Whether it runs: a zombie has ended and waits for its parent only.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// What hangs below the roots, the roots themselves not among it unless one
/// hangs below another.
pub fn below(table: &[Stat], roots: impl IntoIterator<Item = u32>) -> Vec<Stat> {
    let mut children: HashMap<u32, Vec<&Stat>> = HashMap::new();
    for stat in table {
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
