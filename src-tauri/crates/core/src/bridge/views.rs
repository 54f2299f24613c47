//! Servers as the list shows them.

use super::{
    ServerSpec,
    facts::{Condition, Facts},
    registry::{Place, Registry, Slot},
    sign_in,
    spec::{is_passed_through, is_remote, masked, url_of},
};
use crate::wire::{Lifetime, ServerConfig, ServerView};
use std::collections::BTreeSet;

/// All: the saved ones in their order, then those that came with a session's request.
pub(super) fn all(registry: &Registry) -> Vec<ServerView> {
    let mut views: Vec<_> = registry.saved.iter().map(|spec| saved(registry, spec)).collect();
    let inline = registry.slots.values().filter(|slot| slot.place.is_inline());
    views.extend(inline.map(|slot| running(registry, slot, slot.holders.clone(), false)));
    views
}

/// Those of a name.
pub(super) fn named(registry: &Registry, name: &str) -> Vec<ServerView> {
    let mut views = all(registry);
    views.retain(|view| view.name == name);
    views
}

/// The view that a slot is part of; `None` when it is not shown (any more).
pub(super) fn of(registry: &Registry, slot: &Slot) -> Option<ServerView> {
    match slot.place {
        Place::Saved | Place::SavedFor(_) => {
            registry.saved_spec(&slot.name).map(|spec| saved(registry, spec))
        }
        Place::Inline | Place::InlineFor(_) => {
            Some(running(registry, slot, slot.holders.clone(), false))
        }
        Place::Removed => None,
    }
}

/// A saved server. One that every session has for itself is shown once, with all its sessions.
pub(super) fn saved(registry: &Registry, spec: &ServerSpec) -> ServerView {
    let used_by: BTreeSet<String> =
        registry.saved_slots(&spec.name).flat_map(|slot| slot.holders.iter().cloned()).collect();
    // A saved server always has a slot while the bridge knows it.
    match registry.slot_of(&spec.name).filter(|slot| slot.place.follows_saved()) {
        Some(slot) => {
            ServerView { config: masked(&spec.config), ..running(registry, slot, used_by, true) }
        }
        None => {
            let facts = Facts::stopped(crate::events::now());
            view(registry, &spec.name, &spec.config, &facts, used_by, true)
        }
    }
}

fn running(
    registry: &Registry,
    slot: &Slot,
    used_by: BTreeSet<String>,
    is_saved: bool,
) -> ServerView {
    let facts = slot.handle.facts.borrow();
    let mut view = view(registry, &slot.name, &slot.config, &facts, used_by, is_saved);
    // From where it is listed from, so that the two never differ.
    view.sign_in = sign_in::view(registry, slot);
    if !slot.is_passed_through() {
        view.url = url_of(&registry.base_url, &slot.name);
    }
    view.tools = view.tools.and_then(|_| Some(slot.handle.hub.catalogue()?.tools.len()));
    if slot.kept {
        view.lifetime = Lifetime::Persistent;
    }
    view
}

fn view(
    registry: &Registry,
    name: &str,
    config: &ServerConfig,
    facts: &Facts,
    used_by: BTreeSet<String>,
    saved: bool,
) -> ServerView {
    // What a session would be listed: while it restarts, what is known of it.
    let listed = !matches!(facts.condition, Condition::Stopped | Condition::Failed);
    let shown = masked(config);
    let own_url = shown.url.as_ref().filter(|_| is_passed_through(config));
    ServerView {
        name: name.to_owned(),
        enabled: config.enabled,
        lifetime: lifetime(config),
        state: facts.condition.wire(),
        // The process that carries a remote one is not the server.
        pid: facts.pid.filter(|_| !is_remote(config)),
        url: own_url.cloned().unwrap_or_else(|| url_of(&registry.base_url, name)),
        tools: facts.tools.filter(|_| listed),
        error: facts.error.clone(),
        restarts: facts.restarts,
        ready_ms: facts.ready_ms,
        note: facts.note.clone(),
        sign_in: None,
        used_by: used_by.into_iter().collect(),
        since: facts.since,
        saved,
        config: shown,
    }
}

fn lifetime(config: &ServerConfig) -> Lifetime {
    if config.persistent { Lifetime::Persistent } else { Lifetime::Session }
}
