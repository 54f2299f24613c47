//! `gantry quit`: ends the running Gantry and waits until it is gone.

use crate::{
    arguments::Place,
    failure::Failure,
    remote::{QUICK, Remote},
    terminal::say,
};
use clap::Args;
use gantry_supervisor::{Deadline, ProcessId};
use serde_json::json;
use std::time::Duration;

/// Five seconds are the shutdown's own budget.
const PATIENCE: Duration = Duration::from_secs(6);
/// Between two looks; there is nothing to wait on for a process that is not a child.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Options of `gantry quit`.
#[derive(Debug, Args)]
pub struct Quit {
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Asks for the end and waits for it.
pub async fn run(options: Quit) -> Result<u8, Failure> {
    let remote = Remote::find("quit", &options.place)?;
    let process = ProcessId { pid: remote.info.pid, start: remote.info.started };
    remote.call_within(QUICK, "quit", json!({})).await?;
    let gone = async {
        while process.is_alive() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    Deadline::after(PATIENCE).bound(gone).await.map_err(|_| {
        Failure::new(
            "quit",
            format!("process {} has not ended; its log says what it waits for", process.pid),
        )
    })?;
    if options.json {
        say(&json!({ "ok": true, "pid": process.pid }).to_string());
    }
    Ok(0)
}
