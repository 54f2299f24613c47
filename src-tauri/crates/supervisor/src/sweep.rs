//! The net of the next start: orphans of instances that no longer live.

use crate::{
    COOKIE_VARIABLE, Cookie, Deadline, ProcessId, Scope,
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
/// How much longer than until the deadline a look may take.
const LAST_LOOK: Duration = Duration::from_millis(500);

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
/// started from such a tree. Nor what is of the same owner as that tree: in a sandbox of an
/// agent, we do not see the owner, who may live.
pub async fn sweep(deadline: Deadline) -> SweepReport {
    sweep_of(None, deadline).await
}

/// The same, for whoever knows that an owner is dead, even that of the tree we are in.
async fn sweep_of(dead: Option<ProcessId>, deadline: Deadline) -> SweepReport {
    let scope = Scope::root("sweep");
    let began = Instant::now();
    let mut known: HashMap<ProcessId, String> = HashMap::new();
    let mut found =
        look(&scope, deadline, &mut known, move || orphans(&Census::read(), dead)).await;
    if found.is_empty() {
        return SweepReport::default();
    }
    os::ask(&found);
    let kill_at = began + deadline.remaining() / 2;
    while !found.is_empty() && !deadline.is_over() {
        if Instant::now() >= kill_at {
            let kill = move || os::round(|| orphans(&Census::read(), dead));
            look(&scope, deadline, &mut known, kill).await;
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = sleep_until(deadline.instant()) => {}
        }
        found = look(&scope, deadline, &mut known, move || orphans(&Census::read(), dead)).await;
    }
    let (left, mut ended): (Vec<_>, Vec<_>) =
        known.into_iter().partition(|(id, _)| os::may_live(id.pid, id.start));
    ended.sort_unstable();
    SweepReport { ended, left: left.into_iter().map(|(id, _)| id).collect() }
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
    sweep_of(Some(owner), Deadline::after(REAPING)).await
}

/// Does what finds orphans, and notes what they are. It takes a moment longer than until the
/// deadline at most: a process that the system holds may keep whoever looks at it.
async fn look(
    scope: &Scope,
    deadline: Deadline,
    known: &mut HashMap<ProcessId, String>,
    work: impl FnOnce() -> Vec<Stat> + Send + 'static,
) -> Vec<Stat> {
    let seen = known.keys().copied().collect::<HashSet<_>>();
    let work = move || {
        let found = work();
        let new = found.iter().filter(|stat| !seen.contains(&ProcessId::from(*stat)));
        let commands = os::commands(new.map(|stat| stat.pid));
        (found, commands)
    };
    let looked = scope.spawn_blocking("look", work).join();
    let looked = tokio::time::timeout_at(deadline.instant() + LAST_LOOK, looked).await;
    let Ok(Some((found, mut commands))) = looked else { return Vec::new() };
    for stat in &found {
        known.entry(ProcessId::from(stat)).or_insert_with(|| {
            let command = commands.remove(&stat.pid).filter(|command| !command.is_empty());
            // One that is just dying has no command line any more.
            let mut command = command.unwrap_or_else(|| os::name(stat.pid));
            command.truncate(command.floor_char_boundary(COMMAND_BYTES));
            command
        });
    }
    found
}

/// Bearers of dead owners' cookies, and what hangs below them. A reaper bears the cookie of the
/// owner whose end it has seen, `dead`.
fn orphans(census: &Census, dead: Option<ProcessId>) -> Vec<Stat> {
    let alive: HashMap<u32, u64> = census
        .table
        .iter()
        .filter(|stat| stat.is_alive())
        .map(|stat| (stat.pid, stat.start))
        .collect();
    // One that started while the table was read may be missing in it, and so may all when no
    // file can be opened.
    let is_alive = |owner: ProcessId| {
        alive.get(&owner.pid) == Some(&owner.start) || os::may_live(owner.pid, owner.start)
    };
    let bearers = census.bearers(0, &HashSet::new(), |_| true);
    let (owned, orphaned): (Vec<_>, Vec<_>) =
        bearers.into_iter().partition(|(_, cookie)| is_alive(cookie.owner));
    let mut around_us = owners_around_us();
    around_us.retain(|owner| Some(*owner) != dead);
    let orphaned: Vec<Stat> = orphaned
        .into_iter()
        .filter(|(_, cookie)| !around_us.contains(&cookie.owner))
        .map(|(stat, _)| stat)
        .filter(|stat| os::same_namespace(stat.pid))
        .collect();
    // A living instance that was started from an orphaned tree is spared with its trees.
    let mut spared: HashSet<u32> =
        owned.iter().flat_map(|(stat, cookie)| [stat.pid, cookie.owner.pid]).collect();
    spared.extend(ancestors(census));
    census.closure(orphaned, &spared)
}

/// The owners of the trees that we are in ourselves, by either mark.
fn owners_around_us() -> Vec<ProcessId> {
    let cookie = std::env::var(COOKIE_VARIABLE).ok().and_then(|text| text.parse().ok());
    let stamp = os::stamp(std::process::id()).map(Cookie::from);
    [cookie, stamp].into_iter().flatten().map(|cookie| cookie.owner).collect()
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

    /// Kills it when dropped.
    #[cfg(target_os = "linux")]
    struct Sleeper(std::process::Child);

    #[cfg(target_os = "linux")]
    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[expect(clippy::disallowed_methods, reason = "a process that is not the supervisor's")]
    fn an_owner_that_is_missing_in_the_table_is_looked_for() {
        let me = ProcessId::current();
        let mut command = std::process::Command::new("sleep");
        command.arg("600").env(COOKIE_VARIABLE, format!("{}.{}.x-9999-1", me.pid, me.start));
        let sleeper = Sleeper(command.spawn().expect("sleep"));
        let bearer = || {
            let stat = os::stat(sleeper.0.id())?;
            Cookie::of_each([stat.pid].into_iter()).contains_key(&stat.pid).then_some(stat)
        };
        let bearer = (0..1_000_000).find_map(|_| bearer()).expect("it bears the cookie");
        // A table from before we were there.
        assert!(orphans(&Census { table: vec![bearer] }, None).is_empty());
        assert!(os::may_live(me.pid, me.start) && !os::may_live(me.pid, me.start + 1));
        assert!(!os::may_live(u32::MAX >> 1, 1));
    }

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
