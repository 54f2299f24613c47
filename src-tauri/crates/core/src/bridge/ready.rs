//! Ready at the first prompt.

use super::{
    Bridge,
    facts::Facts,
    references,
    registry::{Attached, Shared},
    server::millis,
};
use crate::wire::{ReadinessState, ServerReadiness, Via};
use futures::future::join_all;
use gantry_supervisor::Deadline;
use std::fmt::Write;
use tokio::{sync::watch, time::Instant};

/// What is to be waited for under a name.
enum Wait {
    Server(watch::Receiver<Facts>),
    Nothing(Box<ServerReadiness>),
}

impl Bridge {
    /// Waits until each server of the session has answered `tools/list` or
    /// failed, at most until the deadline. Says what happened with each.
    pub async fn ready(&self, session: &str, deadline: Deadline) -> Vec<ServerReadiness> {
        let begun = Instant::now();
        let waits = self.shared.waits(session);
        let readiness = join_all(waits.into_iter().map(|(name, wait)| async move {
            match wait {
                Wait::Server(facts) => one(name, facts, begun, deadline).await,
                Wait::Nothing(known) => *known,
            }
        }))
        .await;
        self.shared.log_ready(session, &readiness, millis(begun.elapsed()));
        readiness
    }
}

impl Shared {
    fn waits(&self, session: &str) -> Vec<(String, Wait)> {
        let registry = self.registry();
        let Some(session) = registry.sessions.get(session) else { return Vec::new() };
        let wait = |name: &str, what: &Attached| match what {
            Attached::Slot(id) => {
                registry.slots.get(id).map(|slot| Wait::Server(slot.handle.facts.clone()))
            }
            Attached::Remote(spec) => {
                let missing =
                    references::resolved(&spec.config, &references::from_environment).err();
                Some(Wait::Nothing(Box::new(ServerReadiness {
                    name: name.to_owned(),
                    state: if missing.is_some() {
                        ReadinessState::Failed
                    } else {
                        ReadinessState::PassedThrough
                    },
                    via: Via::Remote,
                    tools: 0,
                    ms: 0,
                    error: missing,
                })))
            }
        };
        session
            .attached
            .iter()
            .filter_map(|(name, what)| Some((name.clone(), wait(name, what)?)))
            .collect()
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

async fn one(
    name: String,
    mut facts: watch::Receiver<Facts>,
    begun: Instant,
    deadline: Deadline,
) -> ServerReadiness {
    let decided = facts.wait_for(|facts| facts.condition.is_decided());
    let _ = deadline.bound(decided).await.map(|decided| decided.map(drop));
    let ms = millis(begun.elapsed());
    let facts = facts.borrow();
    let state = match facts.condition {
        condition if condition.is_ready() => ReadinessState::Ready,
        condition if condition.is_decided() => ReadinessState::Failed,
        _ => ReadinessState::Starting,
    };
    let ready = state == ReadinessState::Ready;
    let stopped = || "it was stopped while the session waited for it".to_owned();
    ServerReadiness {
        name,
        state,
        via: if facts.condition.has_failed() { Via::Stdio } else { Via::Bridge },
        tools: facts.tools.filter(|_| ready).unwrap_or(0),
        ms,
        error: match state {
            ReadinessState::Ready => None,
            ReadinessState::Failed => Some(facts.error.clone().unwrap_or_else(stopped)),
            _ => facts.error.clone(),
        },
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
