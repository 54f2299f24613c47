//! The end of engines that nobody uses: their sessions are parked, and come
//! back with the next prompt. Those that wait for a first session end too.

use super::{
    EngineRules,
    cell::{Cell, Command},
};
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

/// How soon it is looked again, at the earliest and at the latest.
const EVERY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));

/// Looks again and again, until the sessions are gone.
pub(super) async fn run(sessions: Weak<super::Inner>) {
    let Some((mut rules, scope)) =
        sessions.upgrade().map(|inner| (inner.deps.rules.subscribe(), inner.deps.scope.clone()))
    else {
        return;
    };
    loop {
        let now: EngineRules = *rules.borrow_and_update();
        let Some(inner) = sessions.upgrade() else { return };
        let warm = inner.deps.engines.limit_warm(now.most_warm(), now.longest_warm());
        let used = now.idle.map(|idle| park_idle(&super::Sessions { inner }, idle));
        // One that begins to rest now is not due before that.
        let usual = now.longest_warm().min(EVERY.1);
        let pause = usual.min(warm.unwrap_or(usual)).min(used.unwrap_or(usual)).max(EVERY.0);
        tokio::select! {
            biased;
            () = scope.cancelled() => return,
            // From here on the new rules count, also for what the old ones would have ended.
            changed = rules.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// An engine is idle when all its sessions are. Gives back when the next one may have been so
/// for too long.
fn park_idle(sessions: &super::Sessions, idle: Duration) -> Duration {
    let mut next = idle;
    let cells: HashMap<String, Arc<Cell>> =
        sessions.cells().iter().map(|(id, cell)| (id.clone(), cell.clone())).collect();
    for (engine, members) in sessions.inner.deps.engines.all() {
        let members: Vec<&Arc<Cell>> = members.iter().filter_map(|id| cells.get(id)).collect();
        let rests = || members.iter().map(|cell| cell.idle_for());
        let Some(rest) = rests().min().flatten() else { continue };
        if rest < idle {
            next = next.min(idle - rest);
            continue;
        }
        // It is asked again when it has not ended by then.
        next = next.min(idle / 4);
        tracing::info!(
            engine = engine.key().agent.id,
            sessions = members.len(),
            idle_s = idle.as_secs(),
            "nobody uses an engine; it ends, and starts again with the next prompt"
        );
        for cell in members {
            // A full mailbox: it is not idle.
            let _ = cell.mailbox().try_send(Command::Park(idle));
        }
    }
    next
}
