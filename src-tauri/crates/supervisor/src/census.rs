//! One reading of the process table, and who in it is whose.

use crate::{
    Cookie, ProcessId,
    os::{self, Stat, below},
};
use std::collections::{HashMap, HashSet};

/// One reading of the process table.
pub(crate) struct Census {
    pub table: Vec<Stat>,
}

impl Census {
    /// Reads it: a few milliseconds of system calls.
    pub fn read() -> Self {
        Self { table: os::all() }
    }

    /// The entry of this very process.
    pub fn find(&self, id: ProcessId) -> Option<&Stat> {
        self.table.iter().find(|stat| ProcessId::from(*stat) == id)
    }

    /// Living processes of our user, other than ourselves, that bear a cookie which
    /// `wanted` accepts. Left out is what costs a look at an environment for nothing: who
    /// is `known` already, and who is older than `since`, for nobody is started before the
    /// one whose cookie it bears.
    pub fn bearers(
        &self,
        since: u64,
        known: &HashSet<u32>,
        wanted: impl Fn(&Cookie) -> bool,
    ) -> Vec<(Stat, Cookie)> {
        let me = std::process::id();
        let can_bear = |stat: &&Stat| {
            stat.pid != me
                && stat.is_alive()
                && stat.start >= since
                && !known.contains(&stat.pid)
                && os::is_ours(stat.pid)
        };
        let may: Vec<Stat> = self.table.iter().filter(can_bear).copied().collect();
        let mut cookies = Cookie::of_each(may.iter().map(|stat| stat.pid));
        may.into_iter()
            .filter_map(|stat| Some((stat, cookies.remove(&stat.pid).filter(&wanted)?)))
            .collect()
    }

    /// Members and all that hangs below them, each once, living; without ourselves and
    /// `spared` and what hangs below those.
    pub fn closure(&self, members: Vec<Stat>, spared: &HashSet<u32>) -> Vec<Stat> {
        let mut spared = spared.clone();
        spared.insert(std::process::id());
        let roots: Vec<u32> =
            members.iter().map(|stat| stat.pid).filter(|pid| !spared.contains(pid)).collect();
        let mut seen = HashSet::new();
        members
            .into_iter()
            .chain(below(&self.table, roots, &spared))
            .filter(|stat| !spared.contains(&stat.pid))
            .filter(|stat| stat.is_alive() && seen.insert(stat.pid))
            .collect()
    }
}

/// What was last seen of a tree: it finds the members whose parents have died since.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    members: HashSet<ProcessId>,
    /// Leaders of groups and sessions among the members, living or not: pid → start.
    leaders: HashMap<u32, u64>,
}

impl Snapshot {
    /// Takes over what a census found.
    pub fn renew(&mut self, found: &[Stat]) {
        self.members = found.iter().map(ProcessId::from).collect();
        let (groups, sessions): (HashSet<u32>, HashSet<u32>) =
            found.iter().map(|stat| (stat.group, stat.session)).unzip();
        // A number that nobody is in any more may become somebody else's.
        self.leaders.retain(|leader, _| groups.contains(leader) || sessions.contains(leader));
        self.add_leaders(found);
    }

    fn add_leaders(&mut self, found: &[Stat]) {
        for stat in found.iter().filter(|stat| stat.pid == stat.group || stat.pid == stat.session) {
            self.leaders.insert(stat.pid, stat.start);
        }
    }

    /// Adds the program itself before anything was read.
    pub fn begin(&mut self, program: ProcessId) {
        self.members.insert(program);
        self.leaders.insert(program.pid, program.start);
    }

    /// Those of the last reading that still live, and who is in their groups and sessions.
    pub fn living(&self, census: &Census) -> Vec<Stat> {
        let holders: HashMap<u32, u64> = census
            .table
            .iter()
            .filter(|stat| self.leaders.contains_key(&stat.pid))
            .map(|stat| (stat.pid, stat.start))
            .collect();
        // The kernel gives out no number that is still a group's or a session's, so a
        // leader's number with another start time means that the group is not ours.
        let is_ours = |number: u32, start: u64| {
            number > 1
                && self.leaders.get(&number).is_some_and(|leader| {
                    start >= *leader && holders.get(&number).is_none_or(|holder| holder == leader)
                })
        };
        census
            .table
            .iter()
            .filter(|stat| {
                self.members.contains(&ProcessId::from(*stat))
                    || is_ours(stat.group, stat.start)
                    || is_ours(stat.session, stat.start)
            })
            .copied()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pid: u32, parent: u32, group: u32, session: u32, start: u64) -> Stat {
        Stat { pid, parent, group, session, state: b'S', threads: 1, ticks: 0, start, pages: 0 }
    }

    fn pids(mut found: Vec<Stat>) -> Vec<u32> {
        found.sort_by_key(|stat| stat.pid);
        found.iter().map(|stat| stat.pid).collect()
    }

    #[test]
    fn a_snapshot_finds_orphans_and_their_groups() {
        let mut snapshot = Snapshot::default();
        snapshot.renew(&[line(100, 90, 100, 100, 5), line(101, 100, 101, 100, 6)]);
        let census = Census {
            table: vec![
                line(101, 1, 101, 100, 6), // orphaned member
                line(102, 1, 101, 100, 7), // never seen, in its group
                line(103, 1, 103, 100, 8), // never seen, in the dead leader's session
                line(200, 1, 200, 200, 9), // somebody else
            ],
        };
        assert_eq!(pids(snapshot.living(&census)), [101, 102, 103]);
    }

    #[test]
    fn a_recycled_number_is_somebody_else() {
        let mut snapshot = Snapshot::default();
        snapshot.renew(&[line(100, 90, 100, 100, 5), line(101, 100, 101, 100, 6)]);
        let census = Census {
            table: vec![
                line(100, 1, 100, 100, 50), // the leader's number, another start
                line(110, 100, 100, 100, 51),
                line(101, 1, 101, 101, 60),
            ],
        };
        assert_eq!(pids(snapshot.living(&census)), [] as [u32; 0]);
    }

    #[test]
    fn an_empty_group_is_forgotten() {
        let mut snapshot = Snapshot::default();
        snapshot.renew(&[line(100, 90, 100, 100, 5)]);
        snapshot.renew(&[line(120, 90, 120, 120, 9)]);
        let census = Census { table: vec![line(130, 1, 100, 100, 50)] };
        assert_eq!(pids(snapshot.living(&census)), [] as [u32; 0]);
    }

    #[test]
    fn a_closure_names_each_once_and_never_us() {
        let me = std::process::id();
        let table = vec![line(100, me, 0, 0, 5), line(101, 100, 0, 0, 6), line(me, 101, 0, 0, 1)];
        let census = Census { table: table.clone() };
        assert_eq!(pids(census.closure(table, &HashSet::new())), [100, 101]);
        assert_eq!(pids(census.closure(census.table.clone(), &HashSet::from([100]))), [101]);
    }
}
