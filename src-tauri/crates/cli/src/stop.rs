//! `gantry stop`: stops a session, or all of them.

use crate::{
    arguments::Place,
    failure::Failure,
    remote::{QUICK, Remote},
    terminal::say,
};
use clap::Args;
use gantry_core::wire::{SessionState, SessionStopped, SessionsList};
use serde_json::json;

/// Options of `gantry stop`.
#[derive(Debug, Args)]
pub struct Stop {
    #[command(flatten)]
    place: Place,
    /// The session's id (see `gantry status`), unless --all is given
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    session: Option<String>,
    /// Stop all sessions
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Stops, and says what ended.
pub async fn run(options: Stop) -> Result<u8, Failure> {
    let remote = Remote::find("stop", &options.place)?;
    let sessions = match options.session {
        Some(session) => vec![session],
        None => running(&remote).await?,
    };
    if sessions.is_empty() && !options.json {
        say("no session runs");
    }
    let stops =
        sessions.iter().map(|session| remote.call("session_stop", json!({ "session": session })));
    let mut all = Vec::new();
    for answer in futures::future::join_all(stops).await {
        let answer = match answer {
            // It was deleted meanwhile: it does not run either.
            Err(failure) if options.all && failure.is_absent() => continue,
            answer => answer?,
        };
        let stopped: SessionStopped = serde_json::from_value(answer)
            .map_err(|error| Failure::new("stop", format!("an unknown answer: {error}")))?;
        if !options.json {
            say(&line(&stopped));
        }
        all.push(stopped);
    }
    if options.json {
        say(&json!({ "stopped": all }).to_string());
    }
    Ok(0)
}

async fn running(remote: &Remote) -> Result<Vec<String>, Failure> {
    let list = remote.call_within(QUICK, "sessions_list", json!({})).await?;
    let list: SessionsList = serde_json::from_value(list)
        .map_err(|error| Failure::new("stop", format!("an unknown answer: {error}")))?;
    let runs = |state| !matches!(state, SessionState::Stopped | SessionState::Failed);
    Ok(list.sessions.into_iter().filter(|s| runs(s.state)).map(|s| s.id).collect())
}

fn line(stopped: &SessionStopped) -> String {
    let mut line =
        format!("{} stopped, {} processes ended", stopped.session_id, stopped.processes_ended);
    if stopped.forced > 0 {
        line.push_str(&format!(" ({} by force)", stopped.forced));
    }
    if stopped.engine_stopped {
        line.push_str(", its engine too");
    }
    if !stopped.servers_stopped.is_empty() {
        line.push_str(&format!(", servers: {}", stopped.servers_stopped.join(", ")));
    }
    line
}
