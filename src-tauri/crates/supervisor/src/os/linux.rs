//! Linux: `/proc` and pidfds, shared with the warden.

use super::Stat;
use std::{fs, time::Duration};

pub(crate) use gantry_warden::{
    kill::{ask, round, send},
    proc::{all, stat, user, variable},
};

/// Whether wardens work here.
pub(crate) const HAS_WARDEN: bool = true;

/// Whether a process counts pids as we do: what a cookie from another PID
/// namespace (a container) says about its owner means nothing here.
pub(crate) fn same_namespace(pid: u32) -> bool {
    let ours = gantry_warden::proc::namespace(std::process::id());
    ours.is_some() && gantry_warden::proc::namespace(pid) == ours
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

/// The command line, arguments separated by spaces.
pub(crate) fn command(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ")
}

/// Processor time used so far.
pub(crate) fn cpu_time(stat: &Stat) -> Duration {
    ticks(stat.ticks)
}

/// Resident memory in bytes.
pub(crate) fn resident(stat: &Stat) -> u64 {
    stat.pages * u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

/// Proportional memory in bytes; `None` for a process of another user, and on a kernel
/// without the roll-up.
pub(crate) fn proportional(pid: u32) -> Option<u64> {
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
