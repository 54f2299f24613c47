//! The net of the next start: orphans of instances that no longer live.

use crate::{
    Deadline, ProcessId, Scope,
    census::Census,
    os::{self, Stat},
};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::{Instant, sleep, sleep_until},
};

/// How much of a command line a report keeps, in bytes.
const COMMAND_BYTES: usize = 200;
/// Between two looks at what is left.
const PAUSE: Duration = Duration::from_millis(10);

/// How long a process may take to die once its files are closed.
const DYING: Duration = Duration::from_millis(300);
/// What a reaper gives those it ends: nothing is left two seconds after the app was killed.
const REAPING: Duration = Duration::from_millis(1500);

/// What a sweep found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Orphans that were ended, with their command lines (first 200 bytes).
    pub ended: Vec<(ProcessId, String)>,
    /// Orphans that could not be ended by the deadline.
    pub left: Vec<ProcessId>,
}

/// Ends every process that bears a cookie whose owner no longer lives, and what hangs
/// below it: TERM, and after half of the time KILL. Never touches a process of a living
/// owner, of another user or in another PID namespace (a cookie from there names an owner
/// that cannot be looked up here), nor ourselves and our parents, should we have been
/// started from such a tree.
pub async fn sweep(deadline: Deadline) -> SweepReport {
    let scope = Scope::root("sweep");
    let began = Instant::now();
    let mut found = look(&scope).await;
    if found.is_empty() {
        return SweepReport::default();
    }
    let mut known: HashMap<ProcessId, String> = HashMap::new();
    note(&mut known, &found);
    os::ask(&found);
    let kill_at = began + deadline.remaining() / 2;
    while !found.is_empty() && !deadline.is_over() {
        if Instant::now() >= kill_at {
            let kill = || os::round(|| orphans(&Census::read()));
            let killed = scope.spawn_blocking("kill", kill).join().await.unwrap_or_default();
            note(&mut known, &killed);
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = sleep_until(deadline.instant()) => {}
        }
        found = look(&scope).await;
        note(&mut known, &found);
    }
    let left: Vec<ProcessId> = found.iter().map(ProcessId::from).collect();
    known.retain(|id, _| !left.contains(id));
    let mut ended: Vec<_> = known.into_iter().collect();
    ended.sort_unstable();
    SweepReport { ended, left }
}

/// The life of a reaper, which stands in for wardens where there are none: waits for the end of
/// `input`, whose other end its owner holds, and sweeps if the owner has died and not quit. It
/// runs in a process of its own; where the program that runs it is killed too, the sweep of the
/// next start is left.
pub async fn sweep_after(owner: ProcessId, mut input: impl AsyncRead + Unpin) -> SweepReport {
    let mut buffer = [0; 64];
    while input.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
    // The system closes what a dying process had open a moment before it is dead.
    let until = Instant::now() + DYING;
    while owner.is_alive() {
        if Instant::now() >= until {
            return SweepReport::default();
        }
        sleep(PAUSE).await;
    }
    sweep(Deadline::after(REAPING)).await
}

async fn look(scope: &Scope) -> Vec<Stat> {
    let look = || orphans(&Census::read());
    scope.spawn_blocking("look", look).join().await.unwrap_or_default()
}

fn note(known: &mut HashMap<ProcessId, String>, found: &[Stat]) {
    for stat in found {
        known.entry(ProcessId::from(stat)).or_insert_with(|| {
            let mut command = os::command(stat.pid);
            command.truncate(command.floor_char_boundary(COMMAND_BYTES));
            command
        });
    }
}

/// Bearers of dead owners' cookies, and what hangs below them.
fn orphans(census: &Census) -> Vec<Stat> {
    let alive: HashMap<u32, u64> = census
        .table
        .iter()
        .filter(|stat| stat.is_alive())
        .map(|stat| (stat.pid, stat.start))
        .collect();
    let is_alive = |owner: ProcessId| alive.get(&owner.pid) == Some(&owner.start);
    let bearers = census.bearers(0, &HashSet::new(), |_| true);
    let (owned, orphaned): (Vec<_>, Vec<_>) =
        bearers.into_iter().partition(|(_, cookie)| is_alive(cookie.owner));
    let orphaned: Vec<Stat> = orphaned
        .into_iter()
        .map(|(stat, _)| stat)
        .filter(|stat| os::same_namespace(stat.pid))
        .collect();
    // A living instance that was started from an orphaned tree is spared with its trees.
    let mut spared: HashSet<u32> =
        owned.iter().flat_map(|(stat, cookie)| [stat.pid, cookie.owner.pid]).collect();
    spared.extend(ancestors(census));
    census.closure(orphaned, &spared)
}

/// Our parents, up to the first.
fn ancestors(census: &Census) -> Vec<u32> {
    let parents: HashMap<u32, u32> =
        census.table.iter().map(|stat| (stat.pid, stat.parent)).collect();
    let mut found = Vec::new();
    let mut pid = std::process::id();
    while let Some(parent) = parents.get(&pid).filter(|parent| !found.contains(*parent)) {
        found.push(*parent);
        pid = *parent;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_parents_are_known_up_to_the_first() {
        let found = ancestors(&Census::read());
        assert_eq!(found.first(), Some(&parent_id()));
        assert!(found.len() < 100);
    }

    #[cfg(unix)]
    fn parent_id() -> u32 {
        std::os::unix::process::parent_id()
    }

    #[cfg(not(unix))]
    fn parent_id() -> u32 {
        os::stat(std::process::id()).expect("ourselves").parent
    }
}
