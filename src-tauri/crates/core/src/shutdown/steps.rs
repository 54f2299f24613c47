//! The phases, each under its share of the one deadline.

use super::{EndHow, ExitReport, Phase, Shutdown, TreeEnd, Urgency, watchdog};
use crate::{
    bridge::Bridge,
    data_dir::write_private,
    events::{Events, now},
    session::Sessions,
    wire::Happening,
};
use gantry_store::Store;
use gantry_supervisor::{Cause, Deadline, Ended, How, ProcessTree, Role, Scope, Supervisor};
use std::{path::PathBuf, sync::mpsc, time::Duration};
use tokio::time::Instant;

const FINISH: Duration = Duration::from_millis(1500);
const ASK: Duration = Duration::from_millis(3800);
const KILL: Duration = Duration::from_millis(4000);
const STORE: Duration = Duration::from_millis(4500);
const EXIT: Duration = Duration::from_millis(5000);
/// How long the way out may take when the watchdog ends the process.
const LAST_EXIT: Duration = Duration::from_millis(100);
/// What a second request leaves to the processes.
const HURRY: Duration = Duration::from_millis(400);

/// What the shutdown takes apart.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub scope: Scope,
    pub supervisor: Supervisor,
    pub sessions: Sessions,
    pub bridge: Bridge,
    pub store: Store,
    pub events: Events,
    /// Where `last-exit.json` goes.
    pub last_exit: PathBuf,
}

/// Waits for the request, runs the phases, tells the result.
pub(crate) async fn run(shutdown: Shutdown, parts: Parts) {
    shutdown.urgency_reaches(Urgency::Orderly).await;
    let begun = Instant::now();
    let until = |span| Deadline::at(begun + span);
    let enter = |phase: Phase| {
        parts.events.publish(Happening::ShuttingDown { phase: phase.name().into() });
        shutdown.enter(phase);
    };

    enter(Phase::Doors);

    enter(Phase::Finish);
    unless_urgent(&shutdown, parts.sessions.finish(until(FINISH))).await;

    enter(Phase::Ask);
    let trees = unless_urgent(&shutdown, ask(&parts, until(ASK))).await;

    enter(Phase::Kill);
    let mut trees = trees.unwrap_or_default();
    if trees.is_empty() {
        // In order, this finds nothing any more; after a second request it is the stop itself.
        let hurried = parts.supervisor.stop_all(Cause::Quit, until(KILL).or_after(HURRY)).await;
        trees.extend(hurried.iter().map(tree_end));
    }
    let left = census(&parts, until(KILL)).await;

    enter(Phase::Store);
    let stuck_tasks = parts.scope.close(until(STORE).or_after(Duration::from_millis(300))).await;
    let store = match until(STORE).bound(parts.store.close()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("closing it failed: {error}")),
        Err(_) => Some("closing it took too long and was abandoned".to_owned()),
    };

    let report = ExitReport {
        code: u8::from(!left.is_empty() || store.is_some() || shutdown.has_failed()),
        cause: shutdown.cause(),
        at: now(),
        ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        trees,
        left,
        stuck_tasks,
        store,
        cut_short: None,
    };
    tell(&parts, &report, shutdown.has_failed());
    parts.events.publish(Happening::ShuttingDown { phase: Phase::Exit.name().into() });
    shutdown.end(report);
}

/// What the watchdog does in our stead.
struct CutShort {
    supervisor: Supervisor,
    scope: Scope,
    last_exit: PathBuf,
    cause: String,
    begun: Instant,
}

impl Parts {
    /// Starts the watchdog of a shutdown that `cause` asked for just now. It is not the
    /// coordinator that does so: a runtime that is stuck would never come to it.
    pub(super) fn watch(&self, cause: &str) -> mpsc::Sender<watchdog::Word> {
        let last_resort = CutShort {
            supervisor: self.supervisor.clone(),
            scope: self.scope.clone(),
            last_exit: self.last_exit.clone(),
            cause: cause.to_owned(),
            begun: Instant::now(),
        };
        watchdog::start(last_resort, EXIT)
    }
}

impl watchdog::LastResort for CutShort {
    fn kill(&self, limit: Duration) -> Vec<u32> {
        self.supervisor.kill_now(limit).into_iter().map(|process| process.pid).collect()
    }

    fn note(&self, why: &str, left: Option<Vec<u32>>) {
        let report = ExitReport {
            code: 1,
            cause: self.cause.clone(),
            at: now(),
            ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            trees: Vec::new(),
            left: left.unwrap_or_default(),
            stuck_tasks: self.scope.tasks(),
            store: None,
            cut_short: Some(why.to_owned()),
        };
        // Not to the log: whoever holds that up may be why we are here.
        let _ = write_down(&self.last_exit, &report);
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that may end the process from outside main: the clean-up was given its time"
    )]
    fn exit(&self) {
        // What libraries have asked to be done at the end may hang as well.
        let abort = || {
            std::thread::sleep(LAST_EXIT);
            std::process::abort();
        };
        let _ = std::thread::Builder::new().spawn(abort);
        std::process::exit(1);
    }
}

fn write_down(path: &std::path::Path, report: &ExitReport) -> std::io::Result<()> {
    write_private(path, &serde_json::to_string(report)?)
}

/// Runs a step unless the user wants it over.
async fn unless_urgent<T>(shutdown: &Shutdown, step: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = step => Some(done),
        () = shutdown.urgency_reaches(Urgency::Kill) => None,
    }
}

/// Ends engines, servers and whatever else runs, all at once.
async fn ask(parts: &Parts, deadline: Deadline) -> Vec<TreeEnd> {
    // The supervisor stops every tree itself; engines and bridge are told so
    // that their states follow and nothing is started again.
    let ((), _, ended) = tokio::join!(
        parts.sessions.stop_all(deadline),
        parts.bridge.stop_all(deadline),
        parts.supervisor.stop_all(Cause::Quit, deadline),
    );
    ended.iter().map(tree_end).collect()
}

/// Nobody may bear our cookie any more; whoever does is killed.
async fn census(parts: &Parts, deadline: Deadline) -> Vec<u32> {
    let supervisor = parts.supervisor.clone();
    let limit = deadline.remaining().max(Duration::from_millis(100));
    let look = parts.scope.spawn_blocking("census", move || {
        if supervisor.survivors().is_empty() { Vec::new() } else { supervisor.kill_now(limit) }
    });
    look.join().await.unwrap_or_default().into_iter().map(|process| process.pid).collect()
}

fn tree_end((tree, ended): &(ProcessTree, Ended)) -> TreeEnd {
    TreeEnd {
        name: tree.name().to_owned(),
        role: match tree.role() {
            Role::Server => "server",
            Role::Engine => "engine",
            Role::Terminal => "terminal",
            Role::Own => "own",
        }
        .to_owned(),
        how: match ended.how {
            How::Exited => EndHow::Exited,
            How::Terminated => EndHow::Terminated,
            How::Killed => EndHow::Killed,
            How::Left(_) => EndHow::Left,
        },
        processes: ended.processes,
        forced: ended.forced,
        ms: u64::try_from(ended.took.as_millis()).unwrap_or(u64::MAX),
    }
}

fn tell(parts: &Parts, report: &ExitReport, has_failed: bool) {
    for tree in &report.trees {
        tracing::info!(
            name = tree.name,
            role = tree.role,
            how = %tree.how,
            processes = tree.processes,
            forced = tree.forced,
            ms = tree.ms,
            "process tree ended"
        );
    }
    for task in &report.stuck_tasks {
        tracing::warn!(task, "a task did not end by itself");
    }
    if let Some(why) = &report.store {
        tracing::error!("the database: {why}");
    }
    // Without its directory there is no next start to tell, and there may be another's by now.
    if !has_failed && let Err(error) = write_down(&parts.last_exit, report) {
        tracing::warn!("how Gantry ended could not be written down: {error}");
    }
    if report.left.is_empty() {
        tracing::info!(ms = report.ms, "Cleanup complete, exiting");
    } else {
        tracing::error!(pids = ?report.left, "these processes could not be ended; end them by hand");
    }
}
