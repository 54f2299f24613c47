//! A session's claims on servers, and those of a person who tries one.

use super::{
    Bridge, Released, ServerSpec,
    handover::{Handed, handed},
    next::END_SPAN,
    registry::{Place, Session, Shared, Slot, SlotId, slots_in},
    server::{Ending, Handle, Input},
    tokens::Token,
};
use crate::{Error, Result, wire::ServerView};
use futures::future::join_all;
use gantry_supervisor::{Cause, Deadline, Ended};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::oneshot;

/// How long a server that somebody tries stays after it is ready, or after the last call.
const LINGER: Duration = Duration::from_secs(60);

impl Bridge {
    /// Makes these the servers of a session (`None`: the saved ones, following
    /// their changes) and starts what does not run. Leases it held on others are dropped.
    /// True when the set of names or the kind of hand-over is another than the one
    /// that its agent was given (before a hand-over: than at the last call).
    pub async fn lease(&self, session: &str, servers: Option<Vec<ServerSpec>>) -> bool {
        let heard = {
            let mut registry = self.shared.registry();
            if registry.closed {
                return false;
            }
            let entry = registry.sessions.entry(session.to_owned()).or_insert_with(Session::new);
            entry.wanted = servers;
            let mut heard =
                self.shared.attach(&mut registry, session, Deadline::after(END_SPAN)).heard;
            let ids: Vec<SlotId> = match registry.sessions.get(session) {
                Some(entry) => slots_in(&entry.attached).collect(),
                None => Vec::new(),
            };
            for id in ids {
                heard.extend(registry.slots.get_mut(&id).and_then(Slot::try_again));
            }
            heard
        };
        // The states show the starts from now on, so that `ready` waits for them.
        join_all(heard).await;
        let mut registry = self.shared.registry();
        let now: Option<Vec<(String, Handed)>> =
            registry.sessions.get(session).map(|entry| handed(&registry, entry));
        match (registry.sessions.get_mut(session), now) {
            (Some(entry), Some(now)) => {
                let changed = entry.handed.as_ref() != Some(&now);
                entry.handed = Some(now);
                changed
            }
            _ => false,
        }
    }

    /// Drops all leases of a session; ends the servers that nobody else uses, except persistent ones.
    pub async fn release(&self, session: &str, deadline: Deadline) -> Released {
        let leaving: Vec<(String, Ending)> = {
            let mut registry = self.shared.registry();
            let Some(entry) = registry.sessions.remove(session) else {
                return Released::default();
            };
            let ids: Vec<SlotId> = slots_in(&entry.attached).collect();
            let mut leaving = Vec::new();
            for id in ids {
                let Some(slot) = registry.slots.get_mut(&id) else { continue };
                slot.leave(session);
                let ending = slot.settle(Cause::Unused, deadline);
                leaving.extend(ending.map(|ending| (slot.name.clone(), ending)));
                self.shared.announce(&registry, id);
            }
            leaving
        };
        let servers = leaving.iter().map(|(name, _)| name.clone()).collect();
        let endings = leaving.into_iter().map(|(_, ending)| ending);
        Released { servers, ended: all_ended(endings, deadline).await }
    }

    /// Ends everything; nothing starts any more.
    pub async fn stop_all(&self, deadline: Deadline) -> Vec<Ended> {
        let endings: Vec<Ending> = {
            let mut registry = self.shared.registry();
            registry.closed = true;
            let close = |handle: &Handle| handle.end(|ended| Input::Close { deadline, ended });
            registry.slots.values().map(|slot| close(&slot.handle)).collect()
        };
        all_ended(endings, deadline).await
    }

    /// Starts a saved server that nobody uses, so that a person sees it become
    /// ready; it ends a minute later, or with the first lease that comes and goes.
    /// A disabled one is not started.
    pub async fn try_out(&self, name: &str) {
        let started = {
            let mut registry = self.shared.registry();
            let closed = registry.closed;
            let mut slots = registry.slots.values_mut();
            let found = slots.find(|slot| slot.name == name && slot.place == Place::Saved);
            match found {
                Some(slot) if !closed && slot.config.enabled && !slot.is_needed() => {
                    slot.tried = Some(new_look());
                    Some((slot.id, slot.start(Vec::new())))
                }
                _ => None,
            }
        };
        if let Some((id, heard)) = started {
            let _ = heard.await;
            self.shared.linger(id);
        }
    }

    /// Stops and starts a server; returns when the new one was launched (or could not be).
    ///
    /// # Errors
    /// Not found; invalid when it is disabled; shutting down.
    pub async fn restart(&self, name: &str, deadline: Deadline) -> Result<ServerView> {
        let (launches, tried) = {
            let mut registry = self.shared.registry();
            if registry.closed {
                return Err(Error::shutting_down());
            }
            let target = registry.slot_of(name).ok_or_else(|| missing(name))?;
            if !target.config.enabled {
                return Err(Error::invalid(format!(
                    "the server `{name}` is disabled; enable it first"
                )));
            }
            let follows = target.place.follows_saved();
            // Sessions may have different servers under one name; all that is known of them here
            // is the name.
            let inline = |slot: &&Slot| slot.name == name && slot.place.is_inline();
            let inline = registry.slots.values().filter(inline);
            let saved = registry.saved_slots(name).filter(|_| follows);
            let ids: Vec<SlotId> = saved.chain(inline).map(|slot| slot.id).collect();
            let mut launches = Vec::new();
            let mut tried = None;
            let is_used = |slot: &Slot| slot.place.follows_saved() && slot.is_needed();
            let needed = ids.iter().any(|id| registry.slots.get(id).is_some_and(is_used));
            for id in ids {
                let Some(slot) = registry.slots.get_mut(&id) else { continue };
                if !slot.is_needed() {
                    if needed || slot.place != Place::Saved {
                        continue;
                    }
                    slot.tried = Some(new_look());
                    tried = Some(id);
                }
                launches.push(slot.restart(deadline));
            }
            (launches, tried)
        };
        let _ = deadline.bound(join_all(launches)).await;
        if let Some(id) = tried {
            self.shared.linger(id);
        }
        let registry = self.shared.registry();
        super::views::named(&registry, name).into_iter().next().ok_or_else(|| missing(name))
    }
}

impl Session {
    fn new() -> Self {
        Self {
            token: Token::random(),
            wanted: None,
            attached: Vec::new(),
            handed: None,
            logged: false,
        }
    }
}

/// Why a name cannot be used.
pub(super) fn missing(name: &str) -> Error {
    Error::not_found(format!("there is no server `{name}`; see the list of servers"))
}

/// Waits for all, at most until the deadline; those that had a process and ended.
async fn all_ended(endings: impl IntoIterator<Item = Ending>, deadline: Deadline) -> Vec<Ended> {
    let each = endings
        .into_iter()
        .map(|ending| async move { deadline.bound(ending).await.ok()?.ok().flatten() });
    join_all(each).await.into_iter().flatten().collect()
}

/// Tells one look at a server from the next.
pub(super) fn new_look() -> u64 {
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    LOOKS.fetch_add(1, Ordering::Relaxed)
}

/// A call that the user makes: while it lasts, the server runs.
pub(super) struct Visit {
    shared: Arc<Shared>,
    id: SlotId,
    pub handle: Handle,
}

impl Shared {
    /// Has a server run for a call of the user's. `heard` resolves when its state shows it.
    ///
    /// # Errors
    /// Not found, disabled, shutting down.
    pub fn visit(self: &Arc<Self>, name: &str) -> Result<(Visit, oneshot::Receiver<()>, Duration)> {
        let mut registry = self.registry();
        if registry.closed {
            return Err(Error::shutting_down());
        }
        let id = registry.slot_of(name).map(|slot| slot.id);
        let Some(slot) = id.and_then(|id| registry.slots.get_mut(&id)) else {
            return Err(missing(name));
        };
        if !slot.config.enabled {
            return Err(Error::invalid(format!(
                "the server `{name}` is disabled; enable it first"
            )));
        }
        slot.visitors += 1;
        slot.tried = None;
        let heard = slot.start(Vec::new());
        let limit = slot.config.call_timeout_ms.map_or(super::CALL_LIMIT, Duration::from_millis);
        let visit = Visit { shared: self.clone(), id: slot.id, handle: slot.handle.clone() };
        Ok((visit, heard, limit))
    }

    /// Ends a try a minute after its outcome is known, unless a lease has come meanwhile.
    pub fn linger(self: &Arc<Self>, id: SlotId) {
        let Some((look, mut facts)) = self
            .registry()
            .slots
            .get(&id)
            .and_then(|slot| slot.tried.map(|look| (look, slot.handle.facts.clone())))
        else {
            return;
        };
        let shared = self.clone();
        let cancelled = self.scope.cancelled();
        let over = async move {
            let _ = facts.wait_for(|facts| facts.condition.is_decided()).await;
            tokio::time::sleep(LINGER).await;
            let mut registry = shared.registry();
            let Some(slot) = registry.slots.get_mut(&id) else { return };
            if slot.tried == Some(look) {
                slot.tried = None;
                slot.settle(Cause::Unused, Deadline::after(END_SPAN));
                shared.announce(&registry, id);
            }
        };
        self.scope.spawn("end of a try", async move {
            tokio::select! {
                () = over => {}
                () = cancelled => {}
            }
        });
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        {
            let mut registry = self.shared.registry();
            let closed = registry.closed;
            let Some(slot) = registry.slots.get_mut(&self.id) else { return };
            slot.visitors -= 1;
            if !closed && !slot.is_needed() {
                // The next call of somebody who tries tools finds it running.
                slot.tried = Some(new_look());
            }
        }
        self.shared.linger(self.id);
    }
}
