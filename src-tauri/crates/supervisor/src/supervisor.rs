//! Starting processes, and knowing all that were started (rule 2).

use crate::{
    COOKIE_VARIABLE, Cause, Child, Cookie, Deadline, Ended, Launch, LaunchError, ProcessId,
    ProcessTree, Scope, Stdin, Stdout,
    census::Census,
    environment,
    os::{self, Start, Stat},
    resolve,
    streams::{self, StdinSlot},
    tree::{self, Beginning, Handle, Parts, Shared, Terms},
};
use futures::future::join_all;
use gantry_warden::words::Order;
use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::{oneshot, watch},
    time::sleep,
};

/// How long a warden may take to say that the program runs, or why it does not.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How much of a name goes into a tree's id.
const NAME_IN_ID: usize = 24;
/// The first and the longest pause between two looks at the living trees.
const LOOK_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Starts and ends processes for one Gantry instance. Clones are the same supervisor.
#[derive(Clone, Debug)]
pub struct Supervisor {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    scope: Scope,
    warden: Option<PathBuf>,
    owner: ProcessId,
    /// Which supervisor of this process it is; part of every tree's id.
    number: u64,
    registry: Mutex<Registry>,
    /// Starts that are on their way: admitted, not yet in the registry. Only grows under
    /// the registry's lock while it is open.
    starting: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Registry {
    closed: bool,
    next: u64,
    trees: BTreeMap<u64, Entry>,
    watched: bool,
}

#[derive(Debug)]
struct Entry {
    shared: Arc<Shared>,
    handle: Weak<Handle>,
}

impl Entry {
    fn tree(&self) -> ProcessTree {
        match self.handle.upgrade() {
            Some(handle) => ProcessTree::from_handle(handle),
            // Nobody holds it any more: it is ending already.
            None => ProcessTree::new(Arc::clone(&self.shared)),
        }
    }
}

impl Supervisor {
    /// `warden` is the path of `gantry-warden`; without it (or where the platform has none)
    /// trees are kept by group, snapshot and cookie alone.
    pub fn new(scope: Scope, warden: Option<PathBuf>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let warden = warden.filter(|_| os::HAS_WARDEN).filter(|path| {
            let is_there = path.is_file();
            if !is_there {
                tracing::warn!("there is no gantry-warden at {}; going without", path.display());
            }
            is_there
        });
        let inner = Inner {
            scope,
            warden,
            owner: ProcessId::current(),
            number: NUMBER.fetch_add(1, Relaxed),
            registry: Mutex::default(),
            starting: watch::Sender::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Whether each tree has a warden, which ends it also when this process is killed.
    pub fn has_wardens(&self) -> bool {
        self.inner.warden.is_some()
    }

    /// Starts a program in a tree of its own. Returns once the program runs. When the
    /// future is dropped before, the tree ends.
    ///
    /// # Errors
    /// See [`LaunchError`].
    pub async fn launch(&self, launch: Launch) -> Result<Child, LaunchError> {
        let (inner, name) = (Arc::clone(&self.inner), format!("start {}", launch.name));
        // A start looks at files and forks: not on the runtime's threads.
        let start = self.inner.scope.spawn_blocking(name, move || inner.start(&launch));
        let child = start.join().await.ok_or(LaunchError::ShuttingDown)??;
        self.inner.begun(child.tree.shared()).await?;
        Ok(child)
    }

    /// The trees that have a living member.
    pub fn trees(&self) -> Vec<ProcessTree> {
        self.inner.lock().trees.values().map(Entry::tree).collect()
    }

    /// Refuses further launches, then stops all trees at once, and those whose start was
    /// under way as soon as they are there.
    pub async fn stop_all(&self, cause: Cause, deadline: Deadline) -> Vec<(ProcessTree, Ended)> {
        self.close_and_stop(cause, Terms::new(deadline)).await
    }

    /// The same with at most `input` for the end of input, see [`ProcessTree::stop_soon`].
    pub async fn stop_all_soon(
        &self,
        cause: Cause,
        deadline: Deadline,
        input: Duration,
    ) -> Vec<(ProcessTree, Ended)> {
        self.close_and_stop(cause, Terms { deadline, input }).await
    }

    async fn close_and_stop(&self, cause: Cause, terms: Terms) -> Vec<(ProcessTree, Ended)> {
        self.inner.lock().closed = true;
        let mut starting = self.inner.starting.subscribe();
        let late = async {
            // A start may hang in the system; then there is nothing to stop yet.
            let none = starting.wait_for(|count| *count == 0);
            drop(terms.deadline.bound(none).await);
            self.stop_known(cause, terms).await
        };
        let (mut ended, late) = tokio::join!(self.stop_known(cause, terms), late);
        for (tree, how) in late {
            if !ended.iter().any(|(known, _)| known.id() == tree.id()) {
                ended.push((tree, how));
            }
        }
        ended
    }

    async fn stop_known(&self, cause: Cause, terms: Terms) -> Vec<(ProcessTree, Ended)> {
        join_all(self.trees().into_iter().map(|tree| async move {
            let ended = tree.stop_by(cause, terms).await;
            (tree, ended)
        }))
        .await
    }

    /// Every living process that bears a cookie of this instance, members of
    /// the trees and wardens included. Empty after a complete stop.
    pub fn survivors(&self) -> Vec<ProcessId> {
        let found = self.inner.find_all(&Census::read(), true);
        found.iter().map(ProcessId::from).collect()
    }

    /// Refuses further launches and kills every survivor, without a runtime, in at most
    /// `limit`: the last resort of the shutdown's watchdog thread. Returns what is left.
    pub fn kill_now(&self, limit: Duration) -> Vec<ProcessId> {
        let until = Instant::now() + limit;
        // A warden whose tree is gone ends by itself; one that does not is killed too.
        let patience = Instant::now() + limit / 2;
        self.inner.lock().closed = true;
        for entry in self.inner.lock().trees.values() {
            entry.shared.order(Order::Kill);
            if let Some(warden) = entry.shared.warden {
                os::resume(warden.pid, warden.start);
            }
        }
        loop {
            let wardens_too = Instant::now() >= patience;
            os::round(|| self.inner.find_all(&Census::read(), wardens_too));
            let left = self.survivors();
            if left.is_empty() || Instant::now() >= until {
                return left;
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "a plain thread: there is no runtime here"
            )]
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything up to the fork. Called on the blocking pool.
    fn start(self: &Arc<Self>, launch: &Launch) -> Result<Child, LaunchError> {
        let mut env = environment::for_children();
        env.extend(launch.env.iter().cloned());
        let cwd = resolve::directory(launch.cwd.as_deref())?;
        let executable = resolve::program(&launch.program, &env, &cwd)?;

        // The keeper is there before the process is, so that none is without.
        let (parts, keeper) = oneshot::channel();
        let inner = Arc::clone(self);
        let keep = async move {
            let Ok((number, shared, child, control)) = keeper.await else { return };
            tree::keep(shared, child, control).await;
            inner.lock().trees.remove(&number);
        };
        let keeper = self.scope.try_spawn(format!("keep {}", launch.name), keep);
        keeper.ok_or(LaunchError::ShuttingDown)?;

        let starting = self.admit()?;
        let cookie = Cookie { owner: self.owner, tree: self.id(&launch.name, starting.number) };
        env.push((COOKIE_VARIABLE.into(), cookie.to_string().into()));
        let warden = self.warden.clone().map(|warden| (warden, launch.grace));
        let (started, control) = spawn(&executable, &launch.args, &env, &cwd, warden)?;
        let stdin = StdinSlot::new(started.stdin);
        let shared = Shared::new(Parts {
            name: launch.name.clone(),
            role: launch.role,
            cookie,
            executable,
            grace: launch.grace,
            scope: self.scope.clone(),
            stdin: Arc::clone(&stdin),
            leader: leader(&started.child),
            control: started.control,
            job: started.job,
        });
        let tree = ProcessTree::new(Arc::clone(&shared));
        let number = starting.number;
        let is_first = starting.done(&tree);

        let mut over = shared.over.subscribe();
        let over = async move { drop(over.wait_for(|over| *over).await) };
        let (stderr, drain) = streams::drain(started.stderr, over);
        self.scope.spawn(format!("stderr {}", tree.id()), drain);
        if parts.send((number, shared, started.child, control)).is_err() {
            // The scope gave up on the keeper in this very moment.
            return Err(LaunchError::ShuttingDown);
        }
        if is_first {
            self.scope.spawn("snapshots", look_after(Arc::downgrade(self)));
        }
        tracing::info!(tree = tree.id(), program = %tree.executable().display(), "started");
        let (stdin, stdout) = (Stdin::new(stdin), Stdout::new(started.stdout));
        Ok(Child { tree, stdin, stdout, stderr })
    }

    /// Lets a start in, unless the supervisor is closed.
    fn admit(&self) -> Result<Starting<'_>, LaunchError> {
        let mut registry = self.lock();
        if registry.closed {
            return Err(LaunchError::ShuttingDown);
        }
        registry.next += 1;
        self.starting.send_modify(|count| *count += 1);
        Ok(Starting { inner: self, number: registry.next })
    }

    /// Waits until the program runs, or is known not to.
    async fn begun(&self, shared: &Shared) -> Result<(), LaunchError> {
        let mut beginning = shared.beginning.subscribe();
        let mut over = shared.over.subscribe();
        let program = || shared.executable.display().to_string();
        let lost = |kind, why: &str| {
            let source = io::Error::new(kind, why);
            Err(LaunchError::System { program: program(), source })
        };
        let known = tokio::select! {
            biased;
            known = beginning.wait_for(|known| *known != Beginning::Pending) => known.map(|k| k.clone()),
            _ = over.wait_for(|over| *over) => Ok(Beginning::Pending),
            () = sleep(START_LIMIT) => {
                return lost(io::ErrorKind::TimedOut, "it did not start in time");
            }
        };
        match known {
            Ok(Beginning::Started) if !self.lock().closed => Ok(()),
            Ok(Beginning::Refused(errno, text)) => {
                // Its directory may have gone since it was looked at.
                Err(resolve::refusal(&shared.executable, errno, text))
            }
            _ if self.lock().closed => Err(LaunchError::ShuttingDown),
            _ => lost(io::ErrorKind::Other, "its warden ended before it ran"),
        }
    }

    /// `<start of the name>-<supervisor>-<tree>`.
    fn id(&self, name: &str, number: u64) -> String {
        let plain = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
        let plain: String = plain.take(NAME_IN_ID).collect();
        format!("{plain}-{}-{number}", self.number)
    }

    /// Whether a cookie is of a tree of this supervisor.
    fn is_ours(&self, cookie: &Cookie) -> bool {
        let number = cookie.numbers().map(|(supervisor, _)| supervisor);
        cookie.owner == self.owner && number == Some(self.number)
    }

    /// Every living member of every tree and every other bearer of our cookies.
    fn find_all(&self, census: &Census, wardens_too: bool) -> Vec<Stat> {
        let trees: Vec<Arc<Shared>> =
            self.lock().trees.values().map(|entry| Arc::clone(&entry.shared)).collect();
        let mut members: Vec<Stat> =
            trees.iter().flat_map(|shared| shared.find_in(census, false)).collect();
        let known = members.iter().map(|stat| stat.pid).collect();
        let bearers = census.bearers(self.owner.start, &known, |cookie| self.is_ours(cookie));
        members.extend(bearers.into_iter().map(|(stat, _)| stat));
        let wardens: HashSet<ProcessId> = trees.iter().filter_map(|shared| shared.warden).collect();
        if wardens_too {
            members.extend(wardens.iter().filter_map(|warden| census.find(*warden)));
        }
        let mut found = census.closure(members, &HashSet::new());
        found.retain(|stat| wardens_too || !wardens.contains(&ProcessId::from(stat)));
        found
    }
}

/// A start that was let in. No lock is held meanwhile: a fork may hang, in a directory
/// whose server is away, and must not hold up those who end trees.
struct Starting<'a> {
    inner: &'a Inner,
    number: u64,
}

impl Starting<'_> {
    /// Puts the tree where everybody sees it; says whether it is the first.
    fn done(self, tree: &ProcessTree) -> bool {
        let mut registry = self.inner.lock();
        let shared = Arc::clone(tree.shared());
        let entry = Entry { shared, handle: Arc::downgrade(tree.handle()) };
        registry.trees.insert(self.number, entry);
        !std::mem::replace(&mut registry.watched, true)
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.inner.starting.send_modify(|count| *count -= 1);
    }
}

fn leader(child: &tokio::process::Child) -> ProcessId {
    // Nobody has reaped it yet, so it has a pid and an entry.
    let pid = child.id().unwrap_or(0);
    ProcessId::of(pid).unwrap_or(ProcessId { pid, start: 0 })
}

fn spawn(
    program: &Path,
    args: &[OsString],
    env: &[(OsString, OsString)],
    cwd: &Path,
    warden: Option<(PathBuf, Duration)>,
) -> Result<(os::Started, Option<os::ControlReader>), LaunchError> {
    os::start(&Start { program, args, env, cwd, warden }).map_err(|source| {
        if cwd.is_dir() {
            resolve::refusal(program, source.raw_os_error().unwrap_or(0), source.to_string())
        } else {
            LaunchError::NoDirectory(cwd.to_owned())
        }
    })
}

/// Renews the snapshots of all trees: often after a start, when programs start theirs,
/// then seldom. What is seen here is found even when its parents and its warden are dead.
async fn look_after(supervisor: Weak<Inner>) {
    let mut pause = LOOK_PAUSE.0;
    let mut known = 0;
    let Some(cancelled) = supervisor.upgrade().map(|inner| inner.scope.cancelled()) else { return };
    tokio::pin!(cancelled);
    loop {
        tokio::select! {
            () = &mut cancelled => return,
            () = sleep(pause) => {}
        }
        let Some(inner) = supervisor.upgrade() else { return };
        let (started, is_idle) = {
            let registry = inner.lock();
            (registry.next, registry.trees.is_empty())
        };
        pause = if started == known { (pause * 2).min(LOOK_PAUSE.1) } else { LOOK_PAUSE.0 };
        known = started;
        if is_idle {
            continue;
        }
        let job = Arc::clone(&inner);
        let look = move || {
            let census = Census::read();
            let trees: Vec<_> =
                job.lock().trees.values().map(|entry| Arc::clone(&entry.shared)).collect();
            for shared in trees {
                shared.find_in(&census, false);
            }
        };
        inner.scope.spawn_blocking("look at the trees", look).join().await;
    }
}

/// `gantry-warden` beside our own executable (or one folder up, where test executables
/// have it).
pub fn warden_beside_us() -> Option<PathBuf> {
    let executable = std::env::current_exe().ok()?;
    let name = format!("gantry-warden{}", std::env::consts::EXE_SUFFIX);
    executable
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join(&name))
        .find(|path| path.is_file())
}
