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

/// How often it is looked, at the most and at the least.
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
        inner.deps.engines.limit_warm(now.most_warm(), now.longest_warm());
        if let Some(idle) = now.idle {
            park_idle(&super::Sessions { inner }, idle);
        }
        let pause = (now.longest_warm() / 4).clamp(EVERY.0, EVERY.1);
        tokio::select! {
            biased;
            () = scope.cancelled() => return,
            // From here on the new rules count, also for what the old ones would have ended.
            changed = rules.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// An engine is idle when all its sessions are.
fn park_idle(sessions: &super::Sessions, idle: Duration) {
    let cells: HashMap<String, Arc<Cell>> =
        sessions.cells().iter().map(|(id, cell)| (id.clone(), cell.clone())).collect();
    for (engine, members) in sessions.inner.deps.engines.all() {
        let members: Vec<&Arc<Cell>> = members.iter().filter_map(|id| cells.get(id)).collect();
        let rest = |cell: &&Arc<Cell>| cell.idle_for().is_some_and(|span| span >= idle);
        if members.is_empty() || !members.iter().all(rest) {
            continue;
        }
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
}
