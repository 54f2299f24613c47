//! Servers as the list shows them.

use super::{
    ServerSpec,
    facts::{Condition, Facts},
    registry::{Attached, Place, Registry, Slot},
    spec::{Identity, is_remote, masked, url_of},
};
use crate::wire::{Lifetime, ServerConfig, ServerState, ServerView};
use std::collections::BTreeSet;

/// All: the saved ones in their order, then those that came with a session's request.
pub(super) fn all(registry: &Registry) -> Vec<ServerView> {
    let mut views: Vec<_> = registry.saved.iter().map(|spec| saved(registry, spec)).collect();
    let inline = registry.slots.values().filter(|slot| slot.place.is_inline());
    views.extend(inline.map(|slot| running(registry, slot, slot.holders.clone(), false)));
    let mut shown: Vec<(&str, Identity)> = Vec::new();
    for session in registry.sessions.values().filter(|session| session.wanted.is_some()) {
        for (name, what) in &session.attached {
            let Attached::Remote(spec) = what else { continue };
            let key = (name.as_str(), Identity::of(&spec.config));
            let is_saved =
                registry.saved_spec(name).is_some_and(|saved| Identity::of(&saved.config) == key.1);
            if !is_saved && !shown.contains(&key) {
                views.push(remote(registry, spec, false));
                shown.push(key);
            }
        }
    }
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
    if is_remote(&spec.config) {
        return remote(registry, spec, true);
    }
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
    ServerView {
        name: name.to_owned(),
        enabled: config.enabled,
        lifetime: lifetime(config),
        state: facts.condition.wire(),
        pid: facts.pid,
        url: url_of(&registry.base_url, name),
        tools: facts.tools.filter(|_| listed),
        error: facts.error.clone(),
        restarts: facts.restarts,
        ready_ms: facts.ready_ms,
        used_by: used_by.into_iter().collect(),
        since: facts.since,
        saved,
        config: masked(config),
    }
}

/// A remote server: no process of ours, and nothing is known of it until a
/// later version pings it. `stopped` claims nothing.
fn remote(registry: &Registry, spec: &ServerSpec, is_saved: bool) -> ServerView {
    let identity = Identity::of(&spec.config);
    let uses = |what: &Attached| matches!(what, Attached::Remote(used) if Identity::of(&used.config) == identity);
    let mut used_by: Vec<String> = registry
        .sessions
        .iter()
        .filter(|(_, session)| {
            session.attached.iter().any(|(name, what)| *name == spec.name && uses(what))
        })
        .map(|(id, _)| id.clone())
        .collect();
    used_by.sort();
    ServerView {
        name: spec.name.clone(),
        enabled: spec.config.enabled,
        lifetime: lifetime(&spec.config),
        state: ServerState::Stopped,
        pid: None,
        url: spec.config.url.clone().unwrap_or_default(),
        tools: None,
        error: None,
        restarts: 0,
        ready_ms: None,
        used_by,
        since: 0,
        saved: is_saved,
        config: masked(&spec.config),
    }
}

fn lifetime(config: &ServerConfig) -> Lifetime {
    if config.persistent { Lifetime::Persistent } else { Lifetime::Session }
}
