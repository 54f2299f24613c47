//! What differs between the systems. Everything above it is the same everywhere.
//!
//! | | Linux | macOS | Windows |
//! |---|---|---|---|
//! | process table | `/proc` | sysinfo | sysinfo |
//! | signals | pidfd | `kill` | `TerminateProcess` for all of them |
//! | start | warden | own group | Job Object |
//! | when we are killed | warden | reaper ([`crate::sweep_after`]) | Job Object |

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(unix)]
mod unix;
#[cfg(not(unix))]
mod windows;

#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::*;
#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(not(unix))]
pub(crate) use windows::*;

pub(crate) use gantry_warden::table::{Stat, below};

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// The second mark of a tree, which outlives a cleared environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// The owner's pid.
    pub owner: u32,
    /// When the owner started.
    pub start: u64,
    /// The supervisor and the tree, if the owner is this process.
    pub numbers: Option<(u64, u64)>,
}

/// Everything that a start needs, resolved.
pub(crate) struct Start<'a> {
    pub program: &'a Path,
    pub args: &'a [OsString],
    /// The whole environment.
    pub env: &'a [(OsString, OsString)],
    pub cwd: &'a Path,
    /// The warden and its grace, where there is one.
    #[cfg_attr(windows, expect(dead_code, reason = "a Job Object is in its place"))]
    pub warden: Option<(PathBuf, std::time::Duration)>,
}

/// What a start gives.
pub(crate) struct Started {
    /// The process we are the parent of: the warden, or the program itself.
    pub child: tokio::process::Child,
    pub stdin: StdinPipe,
    pub stdout: OutputPipe,
    pub stderr: OutputPipe,
    /// Our end of the warden's control socket.
    pub control: Option<Control>,
    /// What the system ends with us, where it does so.
    pub job: Option<Job>,
}
