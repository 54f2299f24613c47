//! Which servers there are and who needs them. Everything here happens under one
//! short lock; nothing waits in it, so a pass can neither overlap another nor be lost.

use super::{
    BridgeParts, ServerSpec,
    facts::Condition,
    handover::Handed,
    next::END_SPAN,
    process::Launcher,
    server::{Ending, Handle, Input, Server, filter_of},
    sign_in::Attempt,
    sign_ins::{self, Standing},
    spec::{Identity, is_passed_through, usable},
    tokens::Token,
    views,
};
use crate::wire::{Happening, Isolation, ServerConfig};
use gantry_mcp::{Hub, HubOptions};
use gantry_supervisor::{Cause, Deadline, Scope};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Semaphore, oneshot},
    time::Instant,
};

/// The longest line that a server may send.
const LINE_LIMIT: usize = 64 * 1024 * 1024;
/// How long a call waits for a server that is starting.
const START_WAIT: Duration = Duration::from_secs(30);

/// A server that failed is tried again by the next prompt after this time.
const TRY_AGAIN: Duration = Duration::from_secs(30);

/// Names a slot for its whole life.
pub(super) type SlotId = u64;

/// Told the session of a new receipt.
type ReceiptListener = Box<dyn Fn(&str) + Send + Sync>;

/// What all handles of a bridge share.
pub(super) struct Shared {
    pub parts: BridgeParts,
    pub scope: Scope,
    pub launcher: Arc<dyn Launcher>,
    /// Servers that start at the same time.
    pub starts: Arc<Semaphore>,
    /// Who wants to hear of a session's new receipts.
    pub on_receipt: OnceLock<ReceiptListener>,
    registry: Mutex<Registry>,
}

/// Servers, sessions, and what connects them.
#[derive(Default)]
pub(super) struct Registry {
    pub base_url: String,
    pub instance_token: Option<Token>,
    /// Disabled ones too.
    pub saved: Vec<ServerSpec>,
    pub slots: BTreeMap<SlotId, Slot>,
    next_slot: SlotId,
    pub sessions: HashMap<String, Session>,
    /// Sign-ins that were begun, by their file, and how the last ones failed.
    pub sign_ins: HashMap<PathBuf, Attempt>,
    pub closed: bool,
}

/// Whose a slot is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Of the saved server of its name; its configuration follows the saved one's.
    Saved,
    /// The same, for one session alone.
    SavedFor(String),
    /// Of all sessions that named a server with exactly this configuration.
    Inline,
    /// The same, for one session alone.
    InlineFor(String),
    /// Of a saved server that was removed; about to end.
    Removed,
}

impl Place {
    /// Whether its configuration follows the saved server of its name.
    pub fn follows_saved(&self) -> bool {
        matches!(self, Self::Saved | Self::SavedFor(_))
    }

    /// Whether it is shown as a server of a session's own.
    pub fn is_inline(&self) -> bool {
        matches!(self, Self::Inline | Self::InlineFor(_))
    }
}

/// One server that can run.
pub(super) struct Slot {
    pub id: SlotId,
    pub name: String,
    pub config: ServerConfig,
    pub identity: Identity,
    pub place: Place,
    /// Where its sign-in is kept, when it may have one.
    pub sign_in_file: Option<PathBuf>,
    pub standing: Standing,
    /// Sessions with a lease.
    pub holders: BTreeSet<String>,
    /// Of each of these whose agent was listed the tools: how many, last.
    pub fetched: BTreeMap<String, usize>,
    /// A session asked for it as a persistent one.
    pub kept: bool,
    /// Somebody looks at it; the number tells one look from the next.
    pub tried: Option<u64>,
    /// Calls that the user makes right now.
    pub visitors: usize,
    /// What its actor was told last: to run or not.
    asked: bool,
    /// When its actor was last told to run.
    begun: Instant,
    pub handle: Handle,
}

impl Slot {
    /// Whether it is to run.
    pub fn is_needed(&self) -> bool {
        let persistent =
            self.place == Place::Saved && self.config.enabled && self.config.persistent;
        persistent
            || self.kept
            || self.tried.is_some()
            || self.visitors > 0
            || !self.holders.is_empty()
    }

    /// A session does not use it any more.
    pub fn leave(&mut self, session: &str) {
        self.holders.remove(session);
        self.fetched.remove(session);
        self.handle.hub.forget_receipt(session);
    }

    /// Whether agents reach it by its own URL. Not when it is signed in to: the token is ours.
    pub fn is_passed_through(&self) -> bool {
        self.standing == Standing::None && is_passed_through(&self.config)
    }

    pub fn condition(&self) -> Condition {
        self.handle.facts.borrow().condition
    }

    /// Has it run; it waits for `after` to end first. Resolves when its state shows it.
    pub fn start(&mut self, after: Vec<Ending>) -> oneshot::Receiver<()> {
        let (heard, receiver) = oneshot::channel();
        self.asked = true;
        self.begun = Instant::now();
        self.handle.tell(Input::Start { after, heard: Some(heard) });
        receiver
    }

    /// Has one that has failed run again, unless it was tried a short while ago: what it lacked
    /// may be there by now.
    pub fn try_again(&mut self) -> Option<oneshot::Receiver<()>> {
        let may_be_better = self.condition().has_failed()
            && self.standing != Standing::Needed
            && self.begun.elapsed() >= TRY_AGAIN;
        may_be_better.then(|| self.start(Vec::new()))
    }

    /// Ends and starts it again by hand. Resolves when the new process runs or could not be started.
    pub fn restart(&mut self, deadline: Deadline) -> oneshot::Receiver<()> {
        let (done, receiver) = oneshot::channel();
        self.asked = true;
        self.begun = Instant::now();
        self.handle.tell(Input::Restart { deadline, done });
        receiver
    }

    /// Starts or stops it when that is what its users need now. The ending is that of a stop.
    pub fn settle(&mut self, cause: Cause, deadline: Deadline) -> Option<Ending> {
        let needed = self.is_needed();
        match (needed, std::mem::replace(&mut self.asked, needed)) {
            (true, false) => {
                self.begun = Instant::now();
                self.handle.tell(Input::Start { after: Vec::new(), heard: None });
                None
            }
            (false, true) => Some(self.handle.end(|ended| Input::Stop { cause, deadline, ended })),
            // A removed one has to be told once more, so that its actor ends.
            (false, false) if self.place == Place::Removed => {
                Some(self.handle.end(|ended| Input::Stop { cause, deadline, ended }))
            }
            _ => None,
        }
    }

    /// Another configuration may be what a failed one needed. One that runs, or that is replaced
    /// anyway, is not touched by it.
    fn run_if_needed(&mut self) {
        if self.is_needed() {
            self.asked = true;
            self.handle.tell(Input::Start { after: Vec::new(), heard: None });
        }
    }

    /// Gives it another configuration. The ending is that of the old process, when it is replaced.
    pub fn reconfigure(
        &mut self,
        config: &ServerConfig,
        data_dir: &Path,
        deadline: Deadline,
    ) -> Option<Ending> {
        let identity = Identity::of(config);
        let file = sign_ins::file_of(data_dir, config);
        if self.sign_in_file != file {
            self.standing = sign_ins::standing(file.as_deref());
            self.sign_in_file = file;
        }
        self.config = config.clone();
        let config = config.clone();
        set_terms(&self.handle.hub, &config);
        if std::mem::replace(&mut self.identity, identity).has_process_of(&identity) {
            self.handle.tell(Input::Adopt { config });
            self.run_if_needed();
            return None;
        }
        let ending = self.handle.end(|ended| Input::Replace { config, deadline, ended });
        self.run_if_needed();
        Some(ending)
    }
}

/// A session that has leases.
pub(super) struct Session {
    pub token: Token,
    /// Its servers; `None`: the saved ones.
    pub wanted: Option<Vec<ServerSpec>>,
    /// The servers under its names, in their order.
    pub attached: Vec<(String, SlotId)>,
    /// What its agent was given, or what it would have been given at its last lease.
    pub handed: Option<Vec<(String, Handed)>>,
    /// Whether its set was logged as ready.
    pub logged: bool,
}

/// What a change of a session's servers brought about.
#[derive(Default)]
pub(super) struct Moved {
    /// Servers that nobody uses any more.
    pub ended: Vec<(String, Ending)>,
    /// Resolve when the states show the starts.
    pub heard: Vec<oneshot::Receiver<()>>,
}

impl Registry {
    /// The saved server of a name.
    pub fn saved_spec(&self, name: &str) -> Option<&ServerSpec> {
        self.saved.iter().find(|spec| spec.name == name)
    }

    /// The slots of a saved server: the shared one first.
    pub fn saved_slots<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Slot> {
        let of = move |slot: &&Slot| slot.name == name && slot.place.follows_saved();
        let shared = self.slots.values().filter(of).filter(|slot| slot.place == Place::Saved);
        shared.chain(self.slots.values().filter(of).filter(|slot| slot.place != Place::Saved))
    }

    /// The slot that is meant by a name alone: of the saved server, the one that does most; else
    /// that of a session's own.
    pub fn slot_of(&self, name: &str) -> Option<&Slot> {
        let best = |slots: &mut dyn Iterator<Item = &'_ Slot>| -> Option<SlotId> {
            let mut best: Option<(u8, SlotId)> = None;
            for slot in slots {
                let rank = slot.condition().rank();
                if best.is_none_or(|(highest, _)| rank > highest) {
                    best = Some((rank, slot.id));
                }
            }
            best.map(|(_, id)| id)
        };
        let id = best(&mut self.saved_slots(name)).or_else(|| {
            let inline = |slot: &&Slot| slot.name == name && slot.place.is_inline();
            best(&mut self.slots.values().filter(inline))
        })?;
        self.slots.get(&id)
    }

    /// Sessions with a lease on a slot that named it themselves.
    pub fn own_holders(&self, slot: &Slot) -> BTreeSet<String> {
        let named = |session: &&String| {
            self.sessions.get(*session).is_some_and(|session| session.wanted.is_some())
        };
        slot.holders.iter().filter(named).cloned().collect()
    }
}

impl Shared {
    pub fn new(parts: BridgeParts, launcher: Arc<dyn Launcher>) -> Arc<Self> {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Arc::new(Self {
            scope: parts.scope.child("bridge"),
            parts,
            launcher,
            starts: Arc::new(Semaphore::new(cores * 4)),
            on_receipt: OnceLock::new(),
            registry: Mutex::default(),
        })
    }

    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new slot, stopped.
    pub fn create(
        self: &Arc<Self>,
        registry: &mut Registry,
        spec: &ServerSpec,
        place: Place,
    ) -> SlotId {
        registry.next_slot += 1;
        let id = registry.next_slot;
        let (name, config) = (spec.name.clone(), spec.config.clone());
        let hub = Hub::new(HubOptions {
            name: name.clone(),
            filter: filter_of(&config),
            line_limit: LINE_LIMIT,
            start_wait: START_WAIT,
        });
        set_terms(&hub, &config);
        let (clock, cancelled) = (hub.clock(), self.scope.cancelled());
        self.scope.spawn(format!("clock of {name}"), async move {
            tokio::select! {
                () = clock => {}
                () = cancelled => {}
            }
        });
        self.watch_receipts(id, &hub);
        let handle = Server::spawn(self, id, &name, config.clone(), hub);
        let sign_in_file = sign_ins::file_of(&self.parts.data_dir, &config);
        let slot = Slot {
            standing: sign_ins::standing(sign_in_file.as_deref()),
            sign_in_file,
            id,
            name,
            identity: Identity::of(&config),
            config,
            place,
            holders: BTreeSet::new(),
            fetched: BTreeMap::new(),
            kept: false,
            tried: None,
            visitors: 0,
            asked: false,
            begun: Instant::now(),
            handle,
        };
        registry.slots.insert(id, slot);
        id
    }

    /// Announces a slot as it is now.
    pub fn publish(&self, id: SlotId) {
        let registry = self.registry();
        // Announced under the lock, so that the last announcement is the newest view.
        if let Some(view) = registry.slots.get(&id).and_then(|slot| views::of(&registry, slot)) {
            self.parts.events.publish(Happening::ServerChanged { server: Box::new(view) });
        }
    }

    /// Forgets a stopped slot that nobody can come back to. True when it is gone.
    pub fn retire(&self, id: SlotId) -> bool {
        let mut registry = self.registry();
        let Some(slot) = registry.slots.get(&id) else { return true };
        if slot.place == Place::Saved || slot.is_needed() || slot.asked {
            return false;
        }
        let Some(slot) = registry.slots.remove(&id) else { return true };
        if slot.place.is_inline() {
            let name = slot.name;
            self.parts.events.publish(Happening::ServerRemoved { name: name.clone() });
            for server in views::named(&registry, &name) {
                self.parts.events.publish(Happening::ServerChanged { server: Box::new(server) });
            }
        }
        true
    }

    /// Gives a session exactly the servers that it wants; `deadline` is for those that end by it.
    pub fn attach(
        self: &Arc<Self>,
        registry: &mut Registry,
        session: &str,
        deadline: Deadline,
    ) -> Moved {
        let mut moved = Moved::default();
        let Some(entry) = registry.sessions.get(session) else { return moved };
        let follows = entry.wanted.is_none();
        let specs = usable(entry.wanted.as_ref().unwrap_or(&registry.saved));
        let before: BTreeSet<SlotId> = slots_in(&entry.attached).collect();
        let mut attached = Vec::with_capacity(specs.len());
        for spec in specs {
            let id = self.find_or_create(registry, session, &spec, follows, deadline);
            attached.push((spec.name, id));
        }
        let after: BTreeSet<SlotId> = slots_in(&attached).collect();
        if let Some(entry) = registry.sessions.get_mut(session) {
            entry.logged &= entry.attached == attached;
            entry.attached = attached;
        }

        let mut leaving: HashMap<String, Vec<Ending>> = HashMap::new();
        for id in before.difference(&after) {
            if let Some(slot) = registry.slots.get_mut(id) {
                slot.leave(session);
                let name = slot.name.clone();
                if let Some(ending) = slot.settle(Cause::Unused, deadline) {
                    leaving.entry(name).or_default().push(ending);
                }
                self.announce(registry, *id);
            }
        }
        for id in after.difference(&before) {
            if let Some(slot) = registry.slots.get_mut(id) {
                slot.holders.insert(session.to_owned());
                slot.tried = None;
                // The one of this name that it takes the place of ends first.
                let first = leaving.remove(&slot.name).unwrap_or_default();
                moved.heard.push(slot.start(first));
                self.announce(registry, *id);
            }
        }
        for (name, endings) in leaving {
            moved.ended.extend(endings.into_iter().map(|ending| (name.clone(), ending)));
        }
        moved
    }

    /// The slot that serves `spec` to a session.
    fn find_or_create(
        self: &Arc<Self>,
        registry: &mut Registry,
        session: &str,
        spec: &ServerSpec,
        follows: bool,
        deadline: Deadline,
    ) -> SlotId {
        let own = spec.config.isolation == Isolation::Session;
        let identity = Identity::of(&spec.config);
        let place = match (follows, own) {
            (true, false) => Place::Saved,
            (true, true) => Place::SavedFor(session.to_owned()),
            (false, true) => Place::InlineFor(session.to_owned()),
            (false, false) => {
                let same = |saved: &&ServerSpec| {
                    saved.config.enabled && Identity::of(&saved.config) == identity
                };
                match registry.saved_spec(&spec.name).filter(same) {
                    Some(_) => Place::Saved,
                    None => Place::Inline,
                }
            }
        };
        let fits = |slot: &&Slot| {
            slot.name == spec.name
                && slot.place == place
                && (place.follows_saved() || slot.identity == identity)
        };
        // It alone has it and wants it on other terms: the process stays.
        let adapts = |slot: &&Slot| {
            slot.name == spec.name
                && slot.place == place
                && slot.identity.has_process_of(&identity)
                && slot.holders.len() == 1
                && slot.holders.contains(session)
        };
        let mut slots = registry.slots.values();
        let found = slots.clone().find(fits).or_else(|| slots.find(adapts)).map(|slot| slot.id);
        let id = found.unwrap_or_else(|| self.create(registry, spec, place.clone()));
        if let Some(slot) = registry.slots.get_mut(&id).filter(|slot| slot.identity != identity) {
            slot.reconfigure(&spec.config, &self.parts.data_dir, deadline);
        }
        if !follows && !own && spec.config.persistent {
            self.keep(registry, id);
        }
        id
    }

    /// A session named it as persistent: it stays. Others of its name that were kept and that
    /// nobody uses give way.
    fn keep(&self, registry: &mut Registry, id: SlotId) {
        let Some(slot) = registry.slots.get_mut(&id) else { return };
        slot.kept = true;
        let name = slot.name.clone();
        for other in registry.slots.values_mut() {
            if other.id != id && other.name == name && other.place == Place::Inline && other.kept {
                other.kept = false;
                other.settle(Cause::Unused, Deadline::after(END_SPAN));
            }
        }
    }

    /// [`Shared::publish`] for one who holds the lock.
    pub fn announce(&self, registry: &Registry, id: SlotId) {
        if let Some(view) = registry.slots.get(&id).and_then(|slot| views::of(registry, slot)) {
            self.parts.events.publish(Happening::ServerChanged { server: Box::new(view) });
        }
    }
}

/// What the bridge itself does for all clients of a server.
fn set_terms(hub: &Hub, config: &ServerConfig) {
    hub.set_filter(filter_of(config));
    hub.set_call_limit(config.call_timeout_ms.map(Duration::from_millis));
}

/// The slots of a session's servers.
pub(super) fn slots_in(attached: &[(String, SlotId)]) -> impl Iterator<Item = SlotId> {
    attached.iter().map(|(_, id)| *id)
}
