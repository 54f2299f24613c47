//! The last resort: a plain thread that needs neither runtime nor event loop.

use gantry_supervisor::Supervisor;
use std::{io::Write as _, sync::mpsc, time::Duration};

/// How long the last kill may take.
const LAST_KILL: Duration = Duration::from_millis(200);

/// Starts the thread. It lives until the process ends: if that has not happened
/// after `limit`, or somebody sends on the returned channel, it kills what we
/// started and ends the process with code 1.
pub(super) fn start(supervisor: Supervisor, limit: Duration) -> mpsc::Sender<()> {
    let (sender, asked) = mpsc::channel();
    let watch = move || {
        let why = match asked.recv_timeout(limit.saturating_sub(LAST_KILL)) {
            Ok(()) => "asked a third time",
            Err(mpsc::RecvTimeoutError::Timeout) => "the clean-up took too long",
            // The coordinator is gone without an end: nobody else will see to it.
            Err(mpsc::RecvTimeoutError::Disconnected) => "the clean-up was abandoned",
        };
        let left = supervisor.kill_now(LAST_KILL);
        let _ = writeln!(
            std::io::stderr(),
            "gantry: shutdown cut short: {why}; {} processes left",
            left.len()
        );
        end_process();
    };
    if let Err(error) = std::thread::Builder::new().name("watchdog".into()).spawn(watch) {
        tracing::error!("the shutdown's watchdog could not be started: {error}");
    }
    sender
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that may end the process from outside main: the clean-up was given its time"
)]
fn end_process() {
    std::process::exit(1);
}
