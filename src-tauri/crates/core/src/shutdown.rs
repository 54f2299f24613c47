//! The coordinator of the end: one budget of five seconds, phases that end early.
//!
//! | until | phase | does |
//! |---|---|---|
//! | 0.1 s | doors | hosts hide windows and stop accepting; commands answer `SHUTTING_DOWN` |
//! | 1.5 s | finish | running turns are cancelled and waited for |
//! | 3.8 s | ask | all trees at once: input closed, TERM, at last KILL |
//! | 4.0 s | kill | whatever still bears our cookie is killed; the census must be empty |
//! | 4.5 s | store | flush, checkpoint, close |
//! | 5.0 s | exit | a plain thread ends the process, whatever the runtime does |
//!
//! Every cause meets in [`Shutdown::request`]. A second request jumps to kill, a third exits at
//! once; repeats within a second of the first are the same gesture.

mod last_exit;
mod signals;
mod steps;
mod watchdog;

pub use crate::wire::{EndHow, TreeEnd};
pub use signals::on_signals;

pub(crate) use last_exit::{LastRun, file as last_exit_file, keep_untold, program, told, untold};
pub(crate) use steps::{Parts, run};

use serde::{Deserialize, Serialize};
use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Requests within this span of the first are the same gesture: a terminal and
/// a process manager often deliver a signal twice.
const SAME_GESTURE: Duration = Duration::from_secs(1);

/// Where the shutdown is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It has not begun.
    Running,
    /// Nothing new is let in.
    Doors,
    /// Running turns end.
    Finish,
    /// Processes are asked to end.
    Ask,
    /// Processes are killed.
    Kill,
    /// The store is closed.
    Store,
    /// Over.
    Exit,
}

impl Phase {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Doors => "doors",
            Self::Finish => "finish",
            Self::Ask => "ask",
            Self::Kill => "kill",
            Self::Store => "store",
            Self::Exit => "exit",
        }
    }
}

/// How urgent the end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// Nobody asked.
    None,
    /// In order.
    Orderly,
    /// Straight to kill.
    Kill,
}

/// How Gantry ended; also `run/last-exit.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExitReport {
    /// 0 clean, 1 when processes were left, the store could not be closed, Gantry could not go
    /// on, or its end was cut short.
    pub code: u8,
    /// What asked for the end.
    pub cause: String,
    /// Milliseconds since 1970 at the end.
    pub at: i64,
    /// Milliseconds the shutdown took.
    pub ms: u64,
    /// Each tree that ran when the shutdown began.
    pub trees: Vec<TreeEnd>,
    /// Pids of processes that could not be ended.
    pub left: Vec<u32>,
    /// Tasks that did not end by themselves.
    pub stuck_tasks: Vec<String>,
    /// Why the store was not closed, if it was not. What was stored is safe: it is read anew.
    pub store: Option<String>,
    /// Why the watchdog had to end the process, if it had to.
    pub cut_short: Option<String>,
}

/// The coordinator. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Shutdown {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    requests: Mutex<Requests>,
    urgency: watch::Sender<Urgency>,
    phase: watch::Sender<Phase>,
    report: watch::Sender<Option<ExitReport>>,
}

#[derive(Debug, Default)]
struct Requests {
    first: Option<Instant>,
    count: usize,
    cause: String,
    /// Gantry could not go on.
    failed: bool,
    /// What there is to end, before the first request.
    parts: Option<Parts>,
    /// To the watchdog, after it.
    watchdog: Option<mpsc::Sender<watchdog::Word>>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// A coordinator that nobody has asked yet.
    pub fn new() -> Self {
        Self {
            inner: Arc::new(Inner {
                requests: Mutex::default(),
                urgency: watch::Sender::new(Urgency::None),
                phase: watch::Sender::new(Phase::Running),
                report: watch::Sender::new(None),
            }),
        }
    }

    /// Asks for the end: the one quit path of every gesture. `cause` is for the
    /// log (`SIGTERM`, `tray`, `api`).
    pub fn request(&self, cause: &str) {
        let urgency = {
            let mut requests = self.inner.requests.lock().unwrap_or_else(PoisonError::into_inner);
            match requests.first {
                None => {
                    requests.first = Some(Instant::now());
                    requests.count = 1;
                    requests.cause = cause.to_owned();
                    if let Some(parts) = requests.parts.take() {
                        requests.watchdog = Some(parts.watch(cause));
                    }
                    tracing::info!(cause, "Shutting down");
                    Urgency::Orderly
                }
                Some(first) if requests.count == 1 && first.elapsed() < SAME_GESTURE => return,
                Some(_) => {
                    requests.count += 1;
                    if requests.count > 2
                        && let Some(watchdog) = &requests.watchdog
                    {
                        let _ = watchdog.send(watchdog::Word::ExitNow);
                    }
                    tracing::warn!(cause, "asked again to shut down: killing what still runs");
                    Urgency::Kill
                }
            }
        };
        self.inner.urgency.send_if_modified(|now| {
            let more = urgency > *now;
            *now = urgency.max(*now);
            more
        });
    }

    /// The same because Gantry cannot go on: the exit code says so.
    pub(crate) fn give_up(&self, cause: &str) {
        self.inner.requests.lock().unwrap_or_else(PoisonError::into_inner).failed = true;
        self.request(cause);
    }

    /// Whether the end was asked for.
    pub fn is_requested(&self) -> bool {
        *self.inner.urgency.borrow() > Urgency::None
    }

    /// The phase, now and on every change.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.inner.phase.subscribe()
    }

    /// Resolves when everything is over; the host returns from `main` with the report's code then.
    pub async fn ended(&self) -> ExitReport {
        let mut report = self.inner.report.subscribe();
        match report.wait_for(Option::is_some).await {
            Ok(report) => report.clone().unwrap_or_default(),
            // The sender lives in `self`.
            Err(_) => ExitReport::default(),
        }
    }

    pub(crate) async fn urgency_reaches(&self, wanted: Urgency) {
        let _ = self.inner.urgency.subscribe().wait_for(|now| *now >= wanted).await;
    }

    fn enter(&self, phase: Phase) {
        self.inner.phase.send_replace(phase);
    }

    fn cause(&self) -> String {
        self.inner.requests.lock().unwrap_or_else(PoisonError::into_inner).cause.clone()
    }

    fn has_failed(&self) -> bool {
        self.inner.requests.lock().unwrap_or_else(PoisonError::into_inner).failed
    }

    /// Says what there is to end, before anybody can ask for it.
    pub(crate) fn guards(&self, parts: Parts) {
        self.inner.requests.lock().unwrap_or_else(PoisonError::into_inner).parts = Some(parts);
    }

    /// Tells everybody that it is over.
    fn end(&self, report: ExitReport) {
        // First the watchdog: once the report is out, the host may be gone at once.
        if let Some(watchdog) =
            &self.inner.requests.lock().unwrap_or_else(PoisonError::into_inner).watchdog
        {
            let _ = watchdog.send(watchdog::Word::Over);
        }
        self.enter(Phase::Exit);
        self.inner.report.send_replace(Some(report));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_within_a_second_are_the_same_gesture() {
        let shutdown = Shutdown::new();
        shutdown.request("SIGTERM");
        shutdown.request("SIGTERM");
        assert_eq!(*shutdown.inner.urgency.borrow(), Urgency::Orderly);
        assert_eq!(shutdown.cause(), "SIGTERM");
    }

    #[test]
    fn a_second_gesture_jumps_to_kill_and_a_third_exits() {
        let shutdown = Shutdown::new();
        let (exit_now, asked) = mpsc::channel();
        shutdown.inner.requests.lock().unwrap().watchdog = Some(exit_now);
        shutdown.request("tray");
        shutdown.inner.requests.lock().unwrap().first =
            Instant::now().checked_sub(SAME_GESTURE + Duration::from_millis(1));
        shutdown.request("tray");
        assert_eq!(*shutdown.inner.urgency.borrow(), Urgency::Kill);
        assert!(asked.try_recv().is_err());
        shutdown.request("tray");
        assert_eq!(asked.try_recv(), Ok(watchdog::Word::ExitNow));
    }
}
