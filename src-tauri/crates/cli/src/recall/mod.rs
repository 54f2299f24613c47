//! `gantry mcp --recall`: the built-in MCP server that searches past sessions.
//!
//! It opens the database read-only, for the moment of each call, while the
//! application writes it. It ends when its client ends (end of input), or at a signal.

mod server;
mod time;
mod transport;

use crate::agent::{
    signal,
    wire::{self, tell},
};
use gantry_store::Reader;
use gantry_supervisor::{Deadline, Scope};
use rmcp::service::serve_server_with_ct;
use server::Recall;
use std::{path::PathBuf, time::Duration};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use transport::Messages;

/// How long calls that already run may take at the end.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves one client on standard input and output and returns the program's
/// exit code: 0, or 1 when something failed or had to be given up.
pub async fn run(data_dir: PathBuf) -> u8 {
    let stdio = match wire::stdio() {
        Ok(stdio) => stdio,
        Err(error) => {
            tell(&format!("gantry: mcp: standard input and output: {error}"));
            return 1;
        }
    };
    let scope = Scope::root("recall");
    let recall = Recall::new(Reader::new(data_dir.join("gantry.db")), scope.child("reads"));
    let (messages, ended) = Messages::new(stdio.input, stdio.output);
    let code = serve(recall, messages, ended, signal()).await;

    // Calls are over; what is left of this is to let go of threads.
    let deadline = Deadline::after(DRAIN);
    let left = scope.close(deadline).await;
    if !left.is_empty() {
        tracing::warn!(?left, "searches were given up");
    }
    let _ = deadline.bound(stdio.written).await;
    code
}

/// Serves until the input ends or `signal` comes, then lets running calls end.
async fn serve(
    recall: Recall,
    messages: Messages,
    mut ended: watch::Receiver<bool>,
    signal: impl Future<Output = &'static str>,
) -> u8 {
    let stop = CancellationToken::new();
    let mut serving = Box::pin(async {
        match serve_server_with_ct(recall, messages, stop.clone()).await {
            Ok(running) => running.waiting().await.map(drop).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    });
    let input = ended.clone();
    let finished = tokio::select! {
        biased;
        _ = ended.wait_for(|ended| *ended) => {
            tell("Shutting down (stdin closed)...");
            None
        }
        _ = signal => {
            tell("Shutting down (signal)...");
            stop.cancel();
            None
        }
        served = &mut serving => Some(served),
    };
    let over = *input.borrow() || stop.is_cancelled();
    let served = match finished {
        Some(served) => {
            if over {
                tell("Shutting down (stdin closed)...");
            }
            served
        }
        None => match Deadline::after(DRAIN).bound(serving).await {
            Ok(served) => served,
            Err(_) => {
                tell("gantry: mcp: calls were still running after 5 s and were given up");
                return 1;
            }
        },
    };
    match served {
        // A client that ends before it said anything is no failure.
        Err(_) if over => 0,
        Err(why) => {
            tell(&format!("gantry: mcp: the connection broke: {why}"));
            1
        }
        Ok(()) => 0,
    }
}

#[cfg(test)]
mod tests;
