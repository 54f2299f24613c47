//! What all handles of a tree, its keeper and its stop share.

use super::Exit;
use crate::{
    Cookie, ProcessId, Role, Scope,
    census::{Census, Snapshot},
    os::{self, Control, Job, Stat, below},
    streams::StdinSlot,
};
use gantry_warden::words::{Order, Report};
use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Whether the program runs yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// Not known yet.
    Pending,
    /// It runs, or ran.
    Started,
    /// It could not be started: the system's number and words.
    Refused(i32, String),
}

/// One tree.
#[derive(Debug)]
pub(crate) struct Shared {
    pub name: String,
    pub role: Role,
    pub cookie: Cookie,
    pub executable: PathBuf,
    pub grace: Duration,
    /// Where its keeper and its stop run.
    pub scope: Scope,
    pub stdin: Arc<StdinSlot>,
    /// The process we are the parent of: the warden, or the program itself.
    pub leader: ProcessId,
    pub warden: Option<ProcessId>,
    pub control: Option<Control>,
    job: Mutex<Option<Job>>,
    pub beginning: watch::Sender<Beginning>,
    pub exit: watch::Sender<Option<Exit>>,
    /// Nothing of the tree is left, the warden included.
    pub over: watch::Sender<bool>,
    /// Nobody holds the tree any more, or its scope was cancelled.
    pub abandoned: CancellationToken,
    /// A stop waits for the end of input to work: the keeper asks nobody meanwhile.
    pub hold: AtomicBool,
    /// How many the warden, or the keeper, asked and killed without a stop saying so.
    pub asked: AtomicUsize,
    pub killed: AtomicUsize,
    pub stop: Mutex<Option<super::stop::Stop>>,
    program: OnceLock<ProcessId>,
    snapshot: Mutex<Snapshot>,
}

/// What a new tree is made of.
pub(crate) struct Parts {
    pub name: String,
    pub role: Role,
    pub cookie: Cookie,
    pub executable: PathBuf,
    pub grace: Duration,
    pub scope: Scope,
    pub stdin: Arc<StdinSlot>,
    pub leader: ProcessId,
    pub control: Option<Control>,
    pub job: Option<Job>,
}

impl Shared {
    pub fn new(parts: Parts) -> Arc<Self> {
        let shared = Self {
            name: parts.name,
            role: parts.role,
            cookie: parts.cookie,
            executable: parts.executable,
            grace: parts.grace,
            scope: parts.scope,
            stdin: parts.stdin,
            leader: parts.leader,
            warden: parts.control.is_some().then_some(parts.leader),
            control: parts.control,
            job: Mutex::new(parts.job),
            beginning: watch::Sender::new(Beginning::Pending),
            exit: watch::Sender::new(None),
            over: watch::Sender::new(false),
            abandoned: CancellationToken::new(),
            hold: AtomicBool::new(false),
            asked: AtomicUsize::new(0),
            killed: AtomicUsize::new(0),
            stop: Mutex::new(None),
            program: OnceLock::new(),
            snapshot: Mutex::default(),
        };
        if shared.control.is_none() {
            shared.started(shared.leader);
        }
        Arc::new(shared)
    }

    /// The program, or its warden as long as the program is not known.
    pub fn program(&self) -> ProcessId {
        self.program.get().copied().unwrap_or(self.leader)
    }

    fn started(&self, program: ProcessId) {
        let _ = self.program.set(program);
        self.snapshot().begin(program);
        self.beginning.send_replace(Beginning::Started);
    }

    fn snapshot(&self) -> MutexGuard<'_, Snapshot> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what the warden reports.
    pub fn hear(&self, report: Report) {
        match report {
            Report::Started { pid, start } => self.started(ProcessId { pid, start }),
            Report::Refused { errno, text } => {
                self.beginning.send_replace(Beginning::Refused(errno, text));
            }
            Report::Code(code) => self.ended(Exit::Code(code)),
            Report::Signal(signal) => self.ended(Exit::Signal(signal)),
            Report::Asked(count) => {
                self.asked.fetch_add(count, Relaxed);
            }
            Report::Killed(count) => {
                self.killed.fetch_add(count, Relaxed);
            }
        }
    }

    /// Takes in how the program ended; the first word holds.
    pub fn ended(&self, exit: Exit) {
        self.exit.send_if_modified(|known| known.is_none() && known.replace(exit).is_none());
    }

    /// Tells the warden, where there is one.
    pub fn order(&self, order: Order) {
        if let Some(control) = &self.control {
            control.say(order);
        }
    }

    /// Ends all that the system holds together for us, where it does (Windows).
    pub fn close_job(&self) {
        *self.job.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Nobody needs the tree: the warden, or without one the keeper, ends it with its
    /// own grace. Neither waits nor needs a runtime.
    pub fn abandon(&self) {
        self.stdin.close();
        if let Some(control) = &self.control {
            control.hang_up();
        }
        if let Some(warden) = self.warden.filter(|_| !*self.over.borrow()) {
            os::resume(warden.pid, warden.start);
        }
        self.abandoned.cancel();
    }

    /// The living members, the warden not among them: what hangs below the warden, what
    /// was seen before and its groups, and (`bearers`) who bears the cookie.
    pub fn find(&self, bearers: bool) -> Vec<Stat> {
        self.find_in(&Census::read(), bearers)
    }

    /// The same in a table that was read already. Renews the snapshot.
    pub fn find_in(&self, census: &Census, bearers: bool) -> Vec<Stat> {
        let mut snapshot = self.snapshot();
        let mut members = snapshot.living(census);
        // It is our child: as long as we have not reaped it, its number is its own.
        members.extend(census.find(self.leader));
        if let Some(warden) = self.warden.filter(|warden| census.find(*warden).is_some()) {
            members.extend(below(&census.table, [warden.pid], &HashSet::new()));
        }
        let spared: HashSet<u32> = self.warden.iter().map(|warden| warden.pid).collect();
        let mut found = census.closure(members, &spared);
        if bearers {
            let known = found.iter().map(|stat| stat.pid).chain(spared.iter().copied()).collect();
            let ours = census
                .bearers(self.leader.start, &known, |cookie| cookie.is_same_tree(&self.cookie));
            if !ours.is_empty() {
                found.extend(ours.into_iter().map(|(stat, _)| stat));
                found = census.closure(found, &spared);
            }
        }
        snapshot.renew(&found);
        found
    }

    /// [`Shared::find`] off the runtime's threads.
    pub async fn census(self: &Arc<Self>, bearers: bool) -> Vec<Stat> {
        self.blocking("census", move |shared| shared.find(bearers)).await
    }

    /// Runs `work` on the blocking pool; here and now when the scope takes nothing more.
    pub async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        what: &str,
        work: impl Fn(&Self) -> T + Clone + Send + 'static,
    ) -> T {
        let (shared, job) = (Arc::clone(self), work.clone());
        let name = format!("{what} {}", self.cookie.tree);
        match self.scope.spawn_blocking(name, move || job(&shared)).join().await {
            Some(value) => value,
            None => work(self),
        }
    }
}
