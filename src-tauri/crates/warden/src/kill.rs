//! The one way to signal and to kill: by pid *and* start time, through a pidfd.

use crate::{proc, table::Stat};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};
use std::collections::HashSet;

/// How often one round looks again for processes that were started while it froze
/// the others. A frozen process starts nothing, so two passes are the rule and the
/// bound only guards against a set that grows faster than we can read it.
const PASSES: usize = 100;

/// Sends a signal to this very process. `false` when it is no longer there (a
/// recycled pid is somebody else, and left alone) or may not be signalled.
pub fn send(pid: u32, start: u64, signal: Signal) -> bool {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    if pid <= 1 || pid == std::process::id() {
        return false;
    }
    // The handle is taken first and the start time read after: if it is still the
    // same then, the handle is this process's, whatever happens to the pid later.
    let handle = pidfd_open(raw, PidfdFlags::empty());
    let same = proc::stat(pid).is_some_and(|stat| stat.start == start && stat.is_alive());
    match handle {
        Err(Errno::SRCH) => false,
        _ if !same => false,
        Ok(handle) => pidfd_send_signal(handle, signal).is_ok(),
        // A kernel before 5.3 or a filter that knows no pidfd.
        Err(_) => kill_process(raw, signal).is_ok(),
    }
}

/// TERM, and CONT behind it, so that a stopped one can react. Returns how many got it.
pub fn ask<'a>(members: impl IntoIterator<Item = &'a Stat>) -> usize {
    let mut asked = 0;
    for member in members.into_iter().filter(|member| member.is_alive()) {
        asked += usize::from(send(member.pid, member.start, Signal::TERM));
        send(member.pid, member.start, Signal::CONT);
    }
    asked
}

/// One round: freezes what `find` finds until it finds nothing new (a frozen one
/// neither forks nor re-spawns its siblings), then kills all of it. Returns what
/// was ended that way; call it again until `find` finds nothing.
pub fn round(mut find: impl FnMut() -> Vec<Stat>) -> Vec<Stat> {
    let mut seen = HashSet::new();
    let mut frozen = Vec::new();
    for _ in 0..PASSES {
        let before = seen.len();
        for member in find().into_iter().filter(Stat::is_alive) {
            if seen.insert((member.pid, member.start))
                && send(member.pid, member.start, Signal::STOP)
            {
                frozen.push(member);
            }
        }
        if seen.len() == before {
            break;
        }
    }
    for member in &frozen {
        // A group whose last parent outside of it dies gets HUP and CONT from the system
        // when it has stopped members: some may be gone before their turn.
        send(member.pid, member.start, Signal::KILL);
    }
    frozen
}
