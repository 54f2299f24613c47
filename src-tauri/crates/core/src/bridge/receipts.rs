//! "The agent has fetched the tools of X": seen at the hub, as ACP has no word for it.

use super::{
    Bridge,
    registry::{Shared, SlotId},
};
use crate::wire::ServerReadiness;
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

    /// Calls `listener` with a session whenever its agent was listed a server's tools, in another
    /// number than before. It must not wait. Only the first listener counts.
    pub fn on_receipt(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        // A second one would be a mistake of the program, not of its user.
        let _ = self.shared.on_receipt.set(Box::new(listener));
    }
}

impl Shared {
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
