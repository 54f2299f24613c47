//! The last resort: a plain thread that needs neither runtime nor event loop.

use super::ExitReport;
use gantry_supervisor::Supervisor;
use std::{io::Write as _, sync::mpsc, time::Duration};
use tokio::sync::watch;

/// How long the last kill may take.
const LAST_KILL: Duration = Duration::from_millis(200);

/// Starts the thread. It lives until the process ends: if that has not happened
/// after `limit`, or somebody sends on the returned channel, it kills what we
/// started and ends the process with code 1.
pub(super) fn start(
    supervisor: Supervisor,
    limit: Duration,
    report: watch::Receiver<Option<ExitReport>>,
) -> mpsc::Sender<()> {
    let (sender, asked) = mpsc::channel();
    let watch = move || {
        let Some(why) = verdict(&asked, limit.saturating_sub(LAST_KILL), &report) else { return };
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

/// Why the process must be ended from here, or `None` when it ends by itself.
fn verdict(
    asked: &mpsc::Receiver<()>,
    limit: Duration,
    report: &watch::Receiver<Option<ExitReport>>,
) -> Option<&'static str> {
    match asked.recv_timeout(limit) {
        Ok(()) => Some("asked a third time"),
        Err(mpsc::RecvTimeoutError::Timeout) => Some("the clean-up took too long"),
        // The coordinator is gone: it was done, or nobody else will see to it.
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            report.borrow().is_none().then_some("the clean-up was abandoned")
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that may end the process from outside main: the clean-up was given its time"
)]
fn end_process() {
    std::process::exit(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_process_that_is_done_is_left_alone() {
        let (sender, asked) = mpsc::channel();
        let (report, seen) = watch::channel(None);
        report.send_replace(Some(ExitReport::default()));
        drop((sender, report));
        assert_eq!(verdict(&asked, LONG, &seen), None);
    }

    #[test]
    fn a_coordinator_that_died_is_noticed() {
        let (sender, asked) = mpsc::channel();
        let (report, seen) = watch::channel(None);
        drop((sender, report));
        assert_eq!(verdict(&asked, LONG, &seen), Some("the clean-up was abandoned"));
    }

    #[test]
    fn a_third_request_and_the_time_end_it() {
        let (sender, asked) = mpsc::channel();
        let (_report, seen) = watch::channel(None);
        assert_eq!(verdict(&asked, Duration::ZERO, &seen), Some("the clean-up took too long"));
        sender.send(()).unwrap();
        assert_eq!(verdict(&asked, LONG, &seen), Some("asked a third time"));
    }
}
