//! What real servers and agents do that makes them hard to end.

use crate::{census, programs};
use std::process::{Command, Stdio};
use tokio::signal::unix::{SignalKind, signal};

/// Ignores TERM, INT and HUP from now on.
///
/// # Panics
/// When the signals cannot be taken.
pub fn ignore_signals() {
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        // Taking a signal is enough: nobody reads what arrives.
        let taken = signal(kind).unwrap_or_else(|why| panic!("signal: {why}"));
        std::mem::forget(taken);
    }
}

/// Starts children of the kinds in a comma list, each of which ignores TERM
/// and sleeps for ten minutes at most:
///
/// - `plain`: an ordinary child;
/// - `setsid`: in a session, and so a group, of its own;
/// - `daemon`: in a session of its own, and re-parented, its parent having ended;
/// - `cleared`: a daemon with an empty environment, so without any cookie;
/// - `holding`: an ordinary child that holds our standard output open.
///
/// # Panics
/// When a kind is unknown or a child cannot be started.
#[expect(clippy::zombie_processes, reason = "it misbehaves on purpose")]
pub fn spawn_children(kinds: &str) {
    for kind in kinds.split(',').filter(|kind| !kind.is_empty()) {
        let mut command = Command::new(programs::path("stubborn"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match kind {
            "plain" => command.args(["ignore-term"]),
            "setsid" => command.args(["setsid", "ignore-term"]),
            "daemon" => command.args(["daemon", "setsid", "ignore-term"]),
            "cleared" => {
                if let Some(ledger) = std::env::var_os(census::TAG) {
                    command.arg("ledger").arg(ledger);
                }
                command.args(["daemon", "clear-env", "setsid", "ignore-term"])
            }
            "holding" => command.args(["ignore-term"]).stdout(Stdio::inherit()),
            other => panic!("no such kind of child: {other}"),
        };
        let child = command.spawn().unwrap_or_else(|why| panic!("{kind}: {why}"));
        if matches!(kind, "daemon" | "cleared") {
            let mut child = child;
            let _ = child.wait();
        }
    }
}
