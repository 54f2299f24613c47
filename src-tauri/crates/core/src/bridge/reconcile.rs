//! Wanted against actual, server by server.

use super::{
    Bridge, ServerSpec,
    next::END_SPAN,
    registry::{Moved, Place, Registry, Shared, SlotId},
    server::Ending,
    spec::{Identity, usable},
    views,
};
use crate::wire::Happening;
use futures::future::join_all;
use gantry_supervisor::{Cause, Deadline};
use std::{collections::BTreeSet, sync::Arc};

impl Bridge {
    /// Makes these the saved servers: starts the persistent and enabled ones, replaces changed
    /// ones (sessions keep their URLs), stops removed and disabled ones, touches no other.
    /// Returns when the pass is done (not when the servers are ready): what had to end has
    /// ended. Passes are made one after the other under a lock and do not wait in it, so that
    /// none is lost.
    pub async fn configure(&self, saved: Vec<ServerSpec>) {
        let deadline = Deadline::after(END_SPAN);
        let moved = self.shared.pass(saved, deadline);
        join_all(moved.heard).await;
        let endings = moved.ended.into_iter().map(|(_, ending)| ending);
        // A launch that hangs must not hold up whoever saved something.
        let _ = deadline.bound(join_all(endings)).await;
    }
}

impl Shared {
    fn pass(self: &Arc<Self>, saved: Vec<ServerSpec>, deadline: Deadline) -> Moved {
        let mut all = Moved::default();
        let mut registry = self.registry();
        let registry = &mut *registry;
        if registry.closed {
            return all;
        }
        let saved = distinct(saved);
        let before = std::mem::replace(&mut registry.saved, saved.clone());

        for old in &before {
            let stays = saved.iter().any(|new| new.name == old.name);
            if !stays {
                self.remove(registry, &old.name);
                self.parts.events.publish(Happening::ServerRemoved { name: old.name.clone() });
            }
        }
        for spec in &saved {
            let replaced = self.adapt(registry, spec, deadline);
            all.ended.extend(replaced.into_iter().map(|ending| (spec.name.clone(), ending)));
        }

        // Every session to the servers that it wants now: followers to the saved ones, others away
        // from a saved one that is no longer what they named.
        let sessions: Vec<String> = registry.sessions.keys().cloned().collect();
        for session in sessions {
            let moved = self.attach(registry, &session, deadline);
            all.ended.extend(moved.ended);
            all.heard.extend(moved.heard);
        }
        let slots: Vec<SlotId> = registry.slots.keys().copied().collect();
        for id in slots {
            if let Some(slot) = registry.slots.get_mut(&id) {
                let ending = slot.settle(Cause::Stopped, deadline);
                all.ended.extend(ending.map(|ending| (slot.name.clone(), ending)));
            }
        }
        self.forget_unused(registry, &before);
        for spec in &saved {
            if before.iter().find(|old| old.name == spec.name) != Some(spec) {
                let server = views::saved(registry, spec);
                self.parts.events.publish(Happening::ServerChanged { server: Box::new(server) });
            }
        }
        let inline = registry.slots.values().filter(|slot| slot.place.is_inline());
        for name in inline.map(|slot| slot.name.clone()).collect::<BTreeSet<_>>() {
            let is_gone =
                before.iter().any(|old| old.name == name) && registry.saved_spec(&name).is_none();
            if is_gone {
                for server in views::named(registry, &name) {
                    self.parts
                        .events
                        .publish(Happening::ServerChanged { server: Box::new(server) });
                }
            }
        }
        all
    }

    /// The saved server of this name is gone. Sessions that named exactly this one themselves keep it.
    fn remove(&self, registry: &mut Registry, name: &str) {
        let ids: Vec<SlotId> = registry.saved_slots(name).map(|slot| slot.id).collect();
        for id in ids {
            let Some(slot) = registry.slots.get(&id) else { continue };
            let own = !registry.own_holders(slot).is_empty();
            if let Some(slot) = registry.slots.get_mut(&id) {
                let stays = own && slot.place == Place::Saved;
                slot.place = if stays { Place::Inline } else { Place::Removed };
                slot.tried = None;
                slot.kept &= stays;
            }
        }
    }

    /// Gives the slots of a saved server its configuration. The endings are those of replaced
    /// processes.
    fn adapt(
        self: &Arc<Self>,
        registry: &mut Registry,
        spec: &ServerSpec,
        deadline: Deadline,
    ) -> Vec<Ending> {
        let identity = Identity::of(&spec.config);
        if let Some(id) = self.give_up(registry, spec, identity) {
            tracing::debug!(server = spec.name, slot = id, "left to the sessions that named it");
        }
        let of_it = |place: &Place| place.follows_saved();
        let ids: Vec<SlotId> = registry
            .slots
            .values()
            .filter(|slot| slot.name == spec.name && of_it(&slot.place))
            .map(|slot| slot.id)
            .collect();
        let mut endings = Vec::new();
        let mut has_shared = false;
        for id in ids {
            let Some(slot) = registry.slots.get_mut(&id) else { continue };
            has_shared |= slot.place == Place::Saved;
            if slot.identity != identity || !spec.config.enabled {
                slot.kept = false;
            }
            if !spec.config.enabled {
                slot.tried = None;
            }
            if slot.config != spec.config {
                endings.extend(slot.reconfigure(&spec.config, &self.parts.data_dir, deadline));
            }
        }
        if has_shared {
            return endings;
        }
        // One of its name that is still ending must have ended before it starts again; one that a
        // session brought along and that is the same becomes the saved one.
        let revived = registry
            .slots
            .values()
            .filter(|slot| slot.name == spec.name)
            .find(|slot| {
                slot.place == Place::Removed
                    || (slot.place == Place::Inline
                        && spec.config.enabled
                        && slot.identity == identity)
            })
            .map(|slot| slot.id);
        match revived {
            Some(id) => {
                if let Some(slot) = registry.slots.get_mut(&id) {
                    slot.place = Place::Saved;
                    endings.extend(slot.reconfigure(&spec.config, &self.parts.data_dir, deadline));
                }
            }
            None => {
                self.create(registry, spec, Place::Saved);
            }
        }
        endings
    }

    /// The saved server becomes another one while only sessions that named it as it was use
    /// it, or is disabled: its process is theirs from now on, and goes on running.
    fn give_up(
        &self,
        registry: &mut Registry,
        spec: &ServerSpec,
        identity: Identity,
    ) -> Option<SlotId> {
        let slot = registry.saved_slots(&spec.name).find(|slot| slot.place == Place::Saved)?;
        let own = registry.own_holders(slot);
        let changes = slot.identity != identity || !spec.config.enabled;
        let followed = own.len() != slot.holders.len() && spec.config.enabled;
        if !changes || own.is_empty() || followed {
            return None;
        }
        let id = slot.id;
        let slot = registry.slots.get_mut(&id)?;
        slot.place = Place::Inline;
        slot.tried = None;
        Some(id)
    }
}

/// Of several with one name the last, at the place of the first.
fn distinct(specs: Vec<ServerSpec>) -> Vec<ServerSpec> {
    let mut distinct: Vec<ServerSpec> = Vec::with_capacity(specs.len());
    for spec in specs {
        match distinct.iter_mut().find(|known| known.name == spec.name) {
            Some(known) => *known = spec,
            None => distinct.push(spec),
        }
    }
    distinct
}

impl Bridge {
    /// The saved and enabled servers: those of a session that names none.
    pub fn saved(&self) -> Vec<ServerSpec> {
        usable(&self.shared.registry().saved)
    }
}
