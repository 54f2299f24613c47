//! The stop of a session: turn, ACP session, engine, servers.

use super::{
    actor::{do_chores, save},
    cell::Cell,
    state::Event,
};
use crate::wire::SessionStopped;
use gantry_supervisor::Deadline;
use std::{sync::Arc, time::Duration};

/// The most that a cancelled turn may take of a stop's time.
const TURN: Duration = Duration::from_secs(1);
/// The most that closing the session in the agent may take of a stop's time.
const CLOSE: Duration = Duration::from_millis(500);

/// Stops a session: cancels its turn, closes it in the agent, ends the engine with
/// its last session, drops its leases. `warm`: that engine is followed by a warm one, where the
/// rules want that.
pub(super) async fn stop(cell: &Arc<Cell>, deadline: Deadline, warm: bool) -> SessionStopped {
    {
        let mut inner = cell.lock();
        cell.apply(&mut inner, Event::Cancel);
    }
    let _ = deadline.or_after(TURN).bound(turn_over(cell)).await;

    let (engine, open, given_up) = {
        let mut inner = cell.lock();
        (inner.engine.take(), inner.open.take(), std::mem::take(&mut inner.given_up))
    };
    let engines = &cell.deps.engines;
    let before = engine.clone();
    let leave = async {
        let engine = engine?;
        // First out of the table: a session that comes now gets an engine of its own.
        let last = engines.detach(&engine, &cell.id);
        if let Some(open) = open {
            engine.close_session(&open.acp_id, deadline.or_after(CLOSE)).await;
        }
        if last { Some(engines.stop_unused(&engine, deadline).await) } else { None }
    };
    let (left, terminals, released) = futures::future::join3(
        leave,
        cell.client.terminals.stop_all(deadline),
        cell.deps.bridge.release(&cell.id, deadline),
    )
    .await;
    {
        let mut inner = cell.lock();
        cell.apply(&mut inner, Event::Stopped);
        inner.kept.closed = Some("stopped".to_owned());
        cell.announce(&inner);
    }
    do_chores(cell).await;
    save(cell).await;
    if let Some(before) = before.filter(|_| warm && left.is_some()) {
        // After everything of this session has ended.
        engines.keep_warm(&before, cell.deps.rules.borrow().most_warm());
    }
    let mut stopped = SessionStopped {
        success: true,
        session_id: cell.id.clone(),
        engine_stopped: left.is_some() || given_up.engine_stopped,
        servers_stopped: [given_up.servers, released.servers].concat(),
        processes_ended: 0,
        forced: 0,
    };
    let ended = left.flatten().into_iter().chain(terminals).chain(released.ended);
    for ended in ended.chain(given_up.ended) {
        stopped.processes_ended += ended.processes;
        stopped.forced += ended.forced;
    }
    tracing::info!(
        session = cell.id,
        engine_stopped = stopped.engine_stopped,
        servers = stopped.servers_stopped.len(),
        processes_ended = stopped.processes_ended,
        forced = stopped.forced,
        "session stopped"
    );
    stopped
}

/// Waits until no turn runs.
async fn turn_over(cell: &Arc<Cell>) {
    loop {
        do_chores(cell).await;
        if cell.lock().state.running().is_none() {
            return;
        }
        cell.wake.notified().await;
    }
}
