//! macOS and Windows: the process table through sysinfo, no pidfd, no warden.
//!
//! **Untested**: written without such a machine at hand. Without a child-subreaper a
//! daemon that cleared its environment can escape here; what carries the cookie is found.

use super::Stat;
use std::{
    collections::{HashMap, HashSet},
    time::{Duration, SystemTime},
};
use sysinfo::{
    Pid, Process, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind,
};

/// Whether wardens work here.
pub(crate) const HAS_WARDEN: bool = false;

fn read(which: ProcessesToUpdate<'_>) -> Option<System> {
    let mut system = System::new().ok()?;
    let kind = ProcessRefreshKind::nothing()
        .without_tasks()
        .with_cpu()
        .with_memory()
        .with_user(UpdateKind::Always)
        .with_cmd(UpdateKind::Always)
        .with_environ(UpdateKind::Always);
    system.refresh_processes_specifics(which, true, kind);
    Some(system)
}

fn with<T>(pid: u32, look: impl FnOnce(&Process) -> T) -> Option<T> {
    let pid = Pid::from_u32(pid);
    read(ProcessesToUpdate::Some(&[pid]))?.process(pid).map(look)
}

fn with_each<T>(
    pids: impl Iterator<Item = u32>,
    look: impl Fn(&Process) -> Option<T>,
) -> HashMap<u32, T> {
    let pids: Vec<Pid> = pids.map(Pid::from_u32).collect();
    let Some(system) = read(ProcessesToUpdate::Some(&pids)) else { return HashMap::new() };
    let looked = |pid: &Pid| Some((pid.as_u32(), look(system.process(*pid)?)?));
    pids.iter().filter_map(looked).collect()
}

fn line(process: &Process) -> Stat {
    let state = match process.status() {
        ProcessStatus::Zombie | ProcessStatus::Dead => b'Z',
        ProcessStatus::Stop => b'T',
        _ => b'S',
    };
    let pid = process.pid().as_u32();
    let (group, session) = families(pid);
    Stat {
        pid,
        parent: process.parent().map_or(0, Pid::as_u32),
        group,
        session,
        state,
        threads: 1,
        ticks: process.accumulated_cpu_time(),
        start: process.start_time(),
        pages: process.memory(),
    }
}

/// The group and the session of a process; 0 for what is not known.
#[cfg(unix)]
fn families(pid: u32) -> (u32, u32) {
    use rustix::process::{Pid, getpgid, getsid};
    let number = |found: rustix::io::Result<Pid>| {
        found.ok().and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok()).unwrap_or(0)
    };
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    raw.map_or((0, 0), |raw| (number(getpgid(Some(raw))), number(getsid(Some(raw)))))
}

/// There are no such things here.
#[cfg(not(unix))]
fn families(_pid: u32) -> (u32, u32) {
    (0, 0)
}

/// The process that has this pid now. `start` is in seconds since 1970.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    with(pid, line)
}

/// Every process.
pub(crate) fn all() -> Vec<Stat> {
    read(ProcessesToUpdate::All)
        .map(|system| system.processes().values().map(line).collect())
        .unwrap_or_default()
}

/// The value of a variable in the environment of each process that has it.
pub(crate) fn variables(pids: impl Iterator<Item = u32>, name: &str) -> HashMap<u32, String> {
    with_each(pids, |process| {
        process.environ().iter().find_map(|entry| {
            let value = entry.to_str()?.strip_prefix(name)?.strip_prefix('=')?;
            Some(value.to_owned())
        })
    })
}

/// Whether a process belongs to our user.
pub(crate) fn is_ours(pid: u32) -> bool {
    let user = |pid| with(pid, |process| process.user_id().map(|user| user.to_string()))?;
    user(pid) == user(std::process::id())
}

/// Whether a process is alive.
pub(crate) fn may_live(pid: u32, start: u64) -> bool {
    stat(pid).is_some_and(|stat| stat.start == start && stat.is_alive())
}

/// Nobody stamps here.
pub(crate) fn stamp(_pid: u32) -> Option<super::Stamp> {
    None
}

/// There are no PID namespaces here.
pub(crate) fn same_namespace(_pid: u32) -> bool {
    true
}

#[cfg(unix)]
fn signal(pid: u32, start: u64, signal: rustix::process::Signal) -> bool {
    let same = stat(pid).is_some_and(|stat| stat.start == start && stat.is_alive());
    let raw = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    same && pid > 1 && raw.is_some_and(|raw| rustix::process::kill_process(raw, signal).is_ok())
}

/// TERM, and CONT behind it; nothing on Windows, which has no such question.
pub(crate) fn ask<'a>(members: impl IntoIterator<Item = &'a Stat>) -> usize {
    #[cfg(unix)]
    return members
        .into_iter()
        .filter(|member| {
            let asked = signal(member.pid, member.start, rustix::process::Signal::TERM);
            resume(member.pid, member.start);
            asked
        })
        .count();
    #[cfg(not(unix))]
    members.into_iter().take(0).count()
}

/// Lets a stopped process run on.
pub(crate) fn resume(pid: u32, start: u64) {
    #[cfg(unix)]
    signal(pid, start, rustix::process::Signal::CONT);
    #[cfg(not(unix))]
    let _ = (pid, start);
}

/// One round of KILL over what `find` finds, until it finds nothing new.
pub(crate) fn round(mut find: impl FnMut() -> Vec<Stat>) -> Vec<Stat> {
    let mut seen = HashSet::new();
    let mut killed = Vec::new();
    loop {
        let new: Vec<_> =
            find().into_iter().filter(|one| seen.insert((one.pid, one.start))).collect();
        if new.is_empty() {
            return killed;
        }
        killed.extend(new.into_iter().filter(|one| {
            #[cfg(unix)]
            return signal(one.pid, one.start, rustix::process::Signal::KILL);
            #[cfg(not(unix))]
            return with(one.pid, |process| process.start_time() == one.start && process.kill())
                .unwrap_or(false);
        }));
    }
}

/// The short name.
pub(crate) fn name(pid: u32) -> String {
    with(pid, |process| process.name().to_string_lossy().into_owned()).unwrap_or_default()
}

/// The command lines, arguments separated by spaces.
pub(crate) fn commands(pids: impl Iterator<Item = u32>) -> HashMap<u32, String> {
    with_each(pids, |process| {
        let words: Vec<_> = process.cmd().iter().map(|word| word.to_string_lossy()).collect();
        Some(words.join(" "))
    })
}

/// Processor time used so far.
pub(crate) fn cpu_time(stat: &Stat) -> Duration {
    Duration::from_millis(stat.ticks)
}

/// Resident memory in bytes.
pub(crate) fn resident(stat: &Stat) -> u64 {
    stat.pages
}

/// Proportional memory: not told here.
pub(crate) fn proportional(_: impl Iterator<Item = u32>) -> HashMap<u32, u64> {
    HashMap::new()
}

/// Time since its start.
pub(crate) fn uptime(stat: &Stat) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_secs(stat.start))
}
