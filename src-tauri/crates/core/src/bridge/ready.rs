//! Ready at the first prompt.

use super::{
    Bridge,
    facts::{Condition, Facts},
    handover::is_complete,
    registry::{Shared, SlotId},
    server::millis,
    sign_ins::Standing,
};
use crate::wire::{ReadinessState, ServerReadiness, Via};
use futures::future::join_all;
use gantry_mcp::Hub;
use gantry_supervisor::Deadline;
use std::fmt::Write;
use tokio::{sync::watch, time::Instant};

/// Said of a server that has said nothing.
pub(super) const UNANSWERED: &str = "it has not answered yet";

/// What is to be waited for under a name.
struct Wait {
    name: String,
    facts: watch::Receiver<Facts>,
    hub: Hub,
    slot: SlotId,
    /// Agents reach it by its own URL; `false`: its configuration refers to something that is
    /// not there, so that they do not.
    passed_through: Option<bool>,
}

impl Bridge {
    /// Waits until each server of the session has answered `tools/list` or
    /// failed, at most until the deadline. Says what happened with each.
    pub async fn ready(&self, session: &str, deadline: Deadline) -> Vec<ServerReadiness> {
        let begun = Instant::now();
        let waits = self.shared.waits(session);
        let readiness =
            join_all(waits.into_iter().map(|wait| one(&self.shared, wait, begun, deadline))).await;
        let readiness = self.with_receipts(session, readiness);
        self.shared.log_ready(session, &readiness, millis(begun.elapsed()));
        readiness
    }
}

impl Shared {
    fn waits(&self, session: &str) -> Vec<Wait> {
        let registry = self.registry();
        let Some(session) = registry.sessions.get(session) else { return Vec::new() };
        let wait = |(name, id): &(String, u64)| {
            let slot = registry.slots.get(id)?;
            let passed_through = slot.is_passed_through().then(|| is_complete(&slot.config));
            Some(Wait {
                name: name.clone(),
                facts: slot.handle.facts.clone(),
                hub: slot.handle.hub.clone(),
                slot: *id,
                passed_through,
            })
        };
        session.attached.iter().filter_map(wait).collect()
    }

    /// The first of the lines that a person looks for on a first prompt; again
    /// only when the session's set has changed.
    fn log_ready(&self, session: &str, readiness: &[ServerReadiness], ms: u64) {
        let is_new = match self.registry().sessions.get_mut(session) {
            Some(entry) => !std::mem::replace(&mut entry.logged, true),
            None => false,
        };
        if !is_new {
            return;
        }
        let mut servers = String::new();
        for server in readiness {
            let gap = if servers.is_empty() { "" } else { ", " };
            let state = match server.state {
                ReadinessState::Ready => "ready",
                ReadinessState::Starting => "starting",
                ReadinessState::Failed => "failed",
                ReadinessState::PassedThrough => "passed through",
            };
            let _ = write!(servers, "{gap}{}: {state} after {} ms", server.name, server.ms);
        }
        tracing::info!(session, servers, ms, "Bridge reconciled with updated configuration");
    }
}

async fn one(shared: &Shared, wait: Wait, begun: Instant, deadline: Deadline) -> ServerReadiness {
    let Wait { name, slot, mut facts, hub, passed_through } = wait;
    let decided = facts.wait_for(|facts| match facts.condition {
        // The agent does not depend on us: the first verdict is enough.
        Condition::Restarting if passed_through.is_some() => true,
        condition => condition.is_decided(),
    });
    let _ = deadline.bound(decided).await.map(|decided| decided.map(drop));
    let ms = millis(begun.elapsed());
    // What a sign-in is about goes through the bridge, which may have come to light just now. Not
    // signed in to, it is handed over by its bridge URL all the same, though it failed.
    let standing = shared.registry().slots.get(&slot).map(|slot| slot.standing);
    let passed_through =
        passed_through.filter(|_| standing.is_none_or(|standing| standing == Standing::None));
    let waits_for_user = standing == Some(Standing::Needed);
    let facts = facts.borrow();
    let ready = facts.condition.is_ready();
    let state = match (passed_through, facts.condition) {
        (Some(true), _) => ReadinessState::PassedThrough,
        (Some(false), _) => ReadinessState::Failed,
        (None, condition) if condition.is_ready() => ReadinessState::Ready,
        (None, condition) if condition.is_decided() => ReadinessState::Failed,
        (None, _) => ReadinessState::Starting,
    };
    let via = match (passed_through, facts.condition.has_failed()) {
        (Some(_), _) => Via::Remote,
        (None, true) if !waits_for_user => Via::Stdio,
        (None, _) => Via::Bridge,
    };
    let stopped = || "it was stopped while the session waited for it".to_owned();
    let unsaid = |why: Option<String>| match state {
        ReadinessState::Failed => Some(why.unwrap_or_else(stopped)),
        ReadinessState::PassedThrough => Some(why.unwrap_or_else(|| UNANSWERED.to_owned())),
        _ => why,
    };
    ServerReadiness {
        name,
        state,
        via,
        tools: hub.catalogue().filter(|_| ready).map_or(0, |known| known.tools.len()),
        ms,
        error: if ready {
            None
        } else {
            unsaid(facts.error.clone().or_else(|| facts.note.clone()))
        },
        fetched: None,
    }
}

/// Waits until a server is ready or has failed, for a call.
///
/// # Errors
/// Why it is not ready.
pub(super) async fn settled(facts: &mut watch::Receiver<Facts>) -> Result<(), String> {
    let decided = facts.wait_for(|facts| facts.condition.is_decided()).await;
    match decided {
        Ok(facts) if facts.condition.is_ready() => Ok(()),
        Ok(facts) => Err(facts.error.clone().unwrap_or_else(|| "it was stopped".into())),
        Err(_) => Err("it was stopped".into()),
    }
}
