//! Linux: `/proc` and pidfds, shared with the warden.

use super::Stat;
use gantry_warden::{
    look,
    proc::{depth, namespace},
};
use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
};
use std::{collections::HashMap, fs, time::Duration};

pub(crate) use gantry_warden::{
    kill::{ask, round, send},
    proc::{all, is_ours, stat, variables},
};

/// Whether wardens work here.
pub(crate) const HAS_WARDEN: bool = true;

/// Whether a process counts pids as we do: what a cookie from another PID
/// namespace (a container) says about its owner means nothing here.
pub(crate) fn same_namespace(pid: u32) -> bool {
    let ours = namespace(std::process::id());
    match look::each([pid], namespace).remove(&pid).flatten() {
        Some(theirs) => Some(theirs) == ours,
        // One that may not be dumped does not say which; only that it is in no inner one.
        None => depth(pid) == Some(1) && depth(std::process::id()) == Some(1),
    }
}

/// Whether a process may be alive: when it cannot be looked at, its number alone says so.
pub(crate) fn may_live(pid: u32, start: u64) -> bool {
    if let Some(stat) = stat(pid) {
        return stat.start == start && stat.is_alive();
    }
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    raw.is_some_and(|raw| test_kill_process(raw) != Err(Errno::SRCH))
}

/// What the limits of a process say about whose it is (see [`gantry_warden::stamp`]).
pub(crate) fn stamp(pid: u32) -> Option<super::Stamp> {
    let stamp = gantry_warden::stamp::Stamp::of(pid)?;
    let (owner, start) = stamp.owner();
    Some(super::Stamp { owner, start, numbers: stamp.numbers() })
}

/// Lets a stopped process run on.
pub(crate) fn resume(pid: u32, start: u64) {
    send(pid, start, rustix::process::Signal::CONT);
}

/// The short name.
pub(crate) fn name(pid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

/// The command lines of those that let us look, arguments separated by spaces.
pub(crate) fn commands(pids: impl Iterator<Item = u32>) -> HashMap<u32, String> {
    look::each(pids, |pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ")
    })
}

/// Processor time used so far.
pub(crate) fn cpu_time(stat: &Stat) -> Duration {
    ticks(stat.ticks)
}

/// Resident memory in bytes.
pub(crate) fn resident(stat: &Stat) -> u64 {
    stat.pages * u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

/// Proportional memory in bytes; without processes of another user, those that do not let us
/// look, and on a kernel without the roll-up without all.
pub(crate) fn proportional(pids: impl Iterator<Item = u32>) -> HashMap<u32, u64> {
    let found = look::each(pids, sum_of);
    found.into_iter().filter_map(|(pid, sum)| Some((pid, sum?))).collect()
}

fn sum_of(pid: u32) -> Option<u64> {
    let sums = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = sums.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Time since its start.
pub(crate) fn uptime(stat: &Stat) -> Duration {
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let boot = Duration::new(
        u64::try_from(boot.tv_sec).unwrap_or(0),
        u32::try_from(boot.tv_nsec).unwrap_or(0),
    );
    boot.saturating_sub(ticks(stat.start))
}

fn ticks(count: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_millis(count.saturating_mul(1000) / per_second)
}
