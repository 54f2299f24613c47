//! "The agent has fetched the tools of X": seen at the hub, as ACP has no word for it.

use super::{
    Bridge,
    facts::Condition,
    registry::{Shared, Slot, SlotId},
};
use crate::wire::{ReadinessState, ServerReadiness};
use gantry_mcp::Hub;
use std::sync::Arc;

impl Bridge {
    /// Fills in how many tools of each the session's agent was listed last.
    pub fn with_receipts(
        &self,
        session: &str,
        mut servers: Vec<ServerReadiness>,
    ) -> Vec<ServerReadiness> {
        let registry = self.shared.registry();
        let Some(entry) = registry.sessions.get(session) else { return servers };
        for server in &mut servers {
            let slot = entry.attached.iter().find(|(name, _)| *name == server.name);
            server.fetched = slot
                .and_then(|(_, id)| registry.slots.get(id))
                .and_then(|slot| slot.fetched.get(session).copied());
        }
        servers
    }

    /// The same, with how each server is now: one that was late has joined, another has failed.
    pub fn as_of_now(&self, session: &str, servers: Vec<ServerReadiness>) -> Vec<ServerReadiness> {
        let mut servers = self.with_receipts(session, servers);
        let registry = self.shared.registry();
        let Some(entry) = registry.sessions.get(session) else { return servers };
        for server in &mut servers {
            let slot = entry.attached.iter().find(|(name, _)| *name == server.name);
            // What the agent reaches by itself was said when it was handed over.
            if let Some(slot) = slot.and_then(|(_, id)| registry.slots.get(id))
                && server.state != ReadinessState::PassedThrough
            {
                refresh(server, slot);
            }
        }
        servers
    }

    /// Calls `listener` with a session whenever its agent was listed a server's tools, in another
    /// number than before, and when one of its servers came into another state. It must not
    /// wait. Only the first listener counts.
    pub fn on_receipt(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        // A second one would be a mistake of the program, not of its user.
        let _ = self.shared.on_receipt.set(Box::new(listener));
    }
}

/// Brings what a session was told about a server up to date.
fn refresh(server: &mut ServerReadiness, slot: &Slot) {
    let facts = slot.handle.facts.borrow();
    let state = match facts.condition {
        condition if condition.is_ready() => ReadinessState::Ready,
        condition if condition.has_failed() => ReadinessState::Failed,
        Condition::Starting | Condition::Restarting => ReadinessState::Starting,
        // Nobody needs it (any more).
        _ => return,
    };
    let known = slot.handle.hub.catalogue().filter(|_| state == ReadinessState::Ready);
    server.tools = known.map_or(0, |known| known.tools.len());
    server.error = match state {
        ReadinessState::Ready => None,
        _ => facts.error.clone().or_else(|| facts.note.clone()).or_else(|| server.error.take()),
    };
    if state == ReadinessState::Ready && server.state != state {
        // The session waited no longer than it did; this is how long it took after all.
        server.ms = facts.ready_ms.unwrap_or(server.ms).max(server.ms);
    }
    server.state = state;
}

impl Shared {
    /// Tells who shows them that the sessions of a slot have a server in another state.
    pub(super) fn tell_holders(&self, id: SlotId) {
        let Some(listener) = self.on_receipt.get() else { return };
        let holders = self.registry().slots.get(&id).map(|slot| slot.holders.clone());
        for session in holders.unwrap_or_default() {
            listener(&session);
        }
    }

    /// Keeps the receipts of a slot's sessions as its hub gives them, as long as there is one.
    pub(super) fn watch_receipts(self: &Arc<Self>, id: SlotId, hub: &Hub) {
        let mut receipts = hub.receipts();
        let (shared, cancelled) = (self.clone(), self.scope.cancelled());
        self.scope.spawn(format!("receipts of {}", hub.name()), async move {
            let mut cancelled = std::pin::pin!(cancelled);
            loop {
                tokio::select! {
                    changed = receipts.changed() => if changed.is_err() { return },
                    () = &mut cancelled => return,
                }
                for session in shared.take_receipts(id) {
                    if let Some(listener) = shared.on_receipt.get() {
                        listener(&session);
                    }
                }
            }
        });
    }

    /// The sessions whose receipt is another one now.
    fn take_receipts(&self, id: SlotId) -> Vec<String> {
        let mut registry = self.registry();
        let Some(slot) = registry.slots.get_mut(&id) else { return Vec::new() };
        let mut news = Vec::new();
        for session in &slot.holders {
            let Some(tools) = slot.handle.hub.receipt(session) else { continue };
            if slot.fetched.insert(session.clone(), tools) != Some(tools) {
                news.push(session.clone());
            }
        }
        news
    }
}
