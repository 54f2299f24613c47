//! `gantry reaper`: stands in for the wardens where there are none.

use crate::failure::Failure;
use clap::Args;
use gantry_supervisor::{ProcessId, sweep_after};

/// Started by Gantry only.
#[derive(Debug, Args)]
pub struct Reaper {
    /// The Gantry whose end is waited for: its pid
    pid: u32,
    /// And when it started
    start: u64,
}

/// Waits for the end of standard input, and ends what a Gantry that was killed has left.
pub async fn run(options: Reaper) -> Result<u8, Failure> {
    let owner = ProcessId { pid: options.pid, start: options.start };
    let report = sweep_after(owner, tokio::io::stdin()).await;
    Ok(u8::from(!report.left.is_empty()))
}
