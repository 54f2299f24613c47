//! The keeper of a tree: hears its warden, reaps it, and ends what is left.

use super::{Beginning, Exit, Shared};
use crate::os::{self, ControlReader};
use gantry_warden::words::Report;
use std::{
    process::ExitStatus,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Child,
    time::{Instant, sleep},
};

/// The first and the longest pause between two looks at what is left.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// Lives as long as the tree does.
pub(crate) async fn keep(shared: Arc<Shared>, child: Child, control: Option<ControlReader>) {
    let last_resort = LastResort(Arc::clone(&shared));
    let life = live(&shared, child, control);
    tokio::pin!(life);
    let status = tokio::select! {
        status = &mut life => status,
        () = gone(&shared) => {
            shared.abandon();
            match shared.warden {
                Some(_) => life.await,
                // Without a warden the keeper does what it would have done.
                None => tokio::join!(&mut life, clear(&shared, true)).0,
            }
        }
    };
    after(&shared, status).await;
    shared.close_job();
    shared.over.send_replace(true);
    drop(last_resort);
}

/// Resolves when nobody holds the tree, or its scope ends.
async fn gone(shared: &Shared) {
    tokio::select! {
        () = shared.abandoned.cancelled() => {}
        () = shared.scope.cancelled() => {}
    }
}

/// Until our child has ended and is reaped.
async fn live(
    shared: &Shared,
    mut child: Child,
    control: Option<ControlReader>,
) -> Option<ExitStatus> {
    let listen = async {
        if let Some(control) = control {
            let mut lines = BufReader::new(control).lines();
            // The end of the socket is the end of the warden.
            while let Ok(Some(line)) = lines.next_line().await {
                match line.parse::<Report>() {
                    Ok(report) => shared.hear(report),
                    Err(_) => tracing::warn!(tree = shared.cookie.tree, "unknown word: {line}"),
                }
            }
        }
    };
    let ((), status) = tokio::join!(listen, child.wait());
    status.ok()
}

/// Our child has ended: says how the program did, and ends what is left of the tree.
async fn after(shared: &Arc<Shared>, status: Option<ExitStatus>) {
    let mut polite = true;
    if shared.warden.is_none() {
        shared.ended(status.map_or(Exit::Unknown, exit_of));
    } else if matches!(*shared.beginning.borrow(), Beginning::Refused(..)) {
        shared.ended(Exit::Unknown);
        return;
    } else if status.is_none_or(|status| status.code().is_none()) {
        // The warden was killed, and the program with it: what it had adopted is on its
        // own now, and the next reading may not find it any more.
        tracing::warn!(tree = shared.cookie.tree, "the warden was killed; ending its tree");
        polite = false;
    }
    clear(shared, polite).await;
    shared.ended(Exit::Unknown);
}

fn exit_of(status: ExitStatus) -> Exit {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Exit::Signal(signal);
    }
    status.code().map_or(Exit::Unknown, Exit::Code)
}

/// Ends every member: with TERM and the grace first if `polite`, then KILL, round by
/// round. Returns when none is left.
async fn clear(shared: &Arc<Shared>, polite: bool) {
    let mut asked = !polite;
    let mut kill_at = if polite { None } else { Some(Instant::now()) };
    let mut pause = PAUSE.0;
    loop {
        let members = shared.census(true).await;
        if members.is_empty() {
            return;
        }
        let held = shared.hold.load(Relaxed) && !shared.abandoned.is_cancelled();
        if !asked && !held {
            asked = true;
            shared.asked.fetch_add(os::ask(&members), Relaxed);
            kill_at = Some(Instant::now() + shared.grace);
        }
        if kill_at.is_some_and(|at| Instant::now() >= at) {
            let killed = shared.blocking("kill", |shared| os::round(|| shared.find(true))).await;
            shared.killed.fetch_add(killed.len(), Relaxed);
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// The keeper was dropped before its tree was over: the runtime ends, or its scope gave
/// up on it. A warden acts by itself when the socket closes; without one KILL is all
/// that is left.
struct LastResort(Arc<Shared>);

impl Drop for LastResort {
    fn drop(&mut self) {
        let shared = &self.0;
        if *shared.over.borrow() {
            return;
        }
        shared.abandon();
        if shared.warden.is_none() {
            os::round(|| shared.find(true));
        }
    }
}
