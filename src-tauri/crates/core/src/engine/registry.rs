//! All engines: one start per key however many ask at once, and the end of an
//! engine with its last session.

use super::{Conversation, Engine, EngineKey, run::run};
use crate::{Error, Result, session::memory_file};
use gantry_supervisor::{Cause, Deadline, Ended, Scope, Supervisor};
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// What engines are made of.
#[derive(Clone, Debug)]
pub(crate) struct EnginesParts {
    /// Owner of their tasks.
    pub(crate) scope: Scope,
    /// Starts and ends them.
    pub(crate) supervisor: Supervisor,
    /// The program of the built-in agent.
    pub(crate) gantry: PathBuf,
    /// Where the built-in agent keeps its conversations.
    pub(crate) memory: PathBuf,
    /// How long an agent may take to answer `initialize`.
    pub(crate) initialize_limit: Duration,
}

/// All engines. Clones are the same.
#[derive(Clone)]
pub(crate) struct Engines {
    parts: EnginesParts,
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    /// Engines that take sessions or will.
    by_key: HashMap<EngineKey, u64>,
    /// Every engine that has not ended, with its sessions.
    engines: BTreeMap<u64, Entry>,
    started: u64,
    /// By agent, the last engine that was started before it was changed.
    changed: HashMap<String, u64>,
    /// Gantry is ending: nothing starts, and what ends does not count as a crash.
    quitting: bool,
}

struct Entry {
    engine: Engine,
    members: BTreeMap<String, Arc<dyn Conversation>>,
    /// While it waits for a first session.
    warm: Option<Warm>,
    /// Its sessions will be told soon that there are more or fewer of them.
    is_telling: bool,
}

/// An engine that has had no session yet.
#[derive(Clone, Copy)]
struct Warm {
    since: Instant,
    /// When its project's folder was made: one that was made anew is another.
    folder: Option<SystemTime>,
    /// When its program was written: one that was replaced is another.
    program: Option<SystemTime>,
}

fn made(folder: &Path) -> Option<SystemTime> {
    std::fs::metadata(folder).ok()?.created().ok()
}

/// When the program of an agent was written, or its script, as far as they are named by their
/// paths.
fn written(key: &EngineKey) -> Option<SystemTime> {
    let named = std::iter::once(&key.agent.command).chain(key.agent.args.first()).map(Path::new);
    let files = named.filter(|path| path.is_absolute());
    files.filter_map(|path| std::fs::metadata(path).ok()?.modified().ok()).max()
}

/// How long an engine without a session may take to end.
const END_WARM: Duration = Duration::from_secs(5);
/// How soon sessions learn of a neighbour, and how much later for each of them: a thousand
/// that come one after the other are not told a thousand times each.
const TELL_AFTER: Duration = Duration::from_millis(30);
const TELL_EACH: Duration = Duration::from_millis(5);

/// A session's place in an engine.
#[derive(Debug)]
pub(crate) struct Attached {
    /// The engine.
    pub(crate) engine: Engine,
    /// Whether it was started for this session.
    pub(crate) started: bool,
}

impl Engines {
    pub(crate) fn new(parts: EnginesParts) -> Self {
        Self { parts, table: Arc::default() }
    }

    // A short lock, never held across an await nor while a session is called.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a session a member of the key's engine; starts it if there is none.
    /// Does not wait for it.
    ///
    /// # Errors
    /// Shutting down.
    pub(crate) fn attach(
        &self,
        key: &EngineKey,
        session: &str,
        conversation: Arc<dyn Conversation>,
    ) -> Result<Attached> {
        let (engine, started) = {
            let mut table = self.table();
            if table.quitting {
                return Err(Error::shutting_down());
            }
            // One that stands in a folder that is not there any more is of no use to anybody.
            let moved = table.retire_warm(|engine, warm, _| {
                engine.key() == key
                    && (warm.folder != made(&key.project) || warm.program != written(key))
            });
            self.end_soon(moved);
            let lives = |number: &u64| {
                table.engines.get(number).is_some_and(|entry| !entry.engine.has_ended())
            };
            let running = table.by_key.get(key).copied().filter(lives);
            let number = running.unwrap_or_else(|| {
                table.started += 1;
                table.started
            });
            if running.is_none() {
                table.insert(number, Engine::new(key.clone(), number, self.parts.clone()), None);
            }
            let Some(entry) = table.engines.get_mut(&number) else {
                return Err(Error::interrupted("the engine ended meanwhile; try again"));
            };
            entry.members.insert(session.to_owned(), conversation);
            entry.warm = None;
            if running.is_some() {
                self.tell_soon(entry);
            }
            (entry.engine.clone(), running.is_none())
        };
        if started {
            self.launch(&engine);
        }
        Ok(Attached { engine, started })
    }

    fn launch(&self, engine: &Engine) {
        let name = format!("engine-{}-{}", engine.key().agent.id, engine.number());
        self.parts.scope.spawn(name, run(engine.clone(), self.clone()));
    }

    /// Takes a session out of an engine. True when it was the last one: the
    /// engine takes no more sessions, and the caller stops it.
    pub(crate) fn detach(&self, engine: &Engine, session: &str) -> bool {
        let mut table = self.table();
        let Some(entry) = table.engines.get_mut(&engine.number()) else { return false };
        if entry.members.remove(session).is_none() {
            return false;
        }
        if entry.members.is_empty() {
            table.retire(engine);
            return true;
        }
        self.tell_soon(entry);
        false
    }

    /// The sessions of an engine are told that their number changed: once for all changes of
    /// a short while.
    fn tell_soon(&self, entry: &mut Entry) {
        if entry.is_telling {
            return;
        }
        entry.is_telling = true;
        let members = u32::try_from(entry.members.len()).unwrap_or(u32::MAX);
        let wait = TELL_AFTER + TELL_EACH * members;
        let (engines, number) = (self.clone(), entry.engine.number());
        let over = self.parts.scope.cancelled();
        self.parts.scope.spawn("tell neighbours", async move {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = over => return,
            }
            let members: Vec<_> = {
                let mut table = engines.table();
                let Some(entry) = table.engines.get_mut(&number) else { return };
                entry.is_telling = false;
                entry.members.values().cloned().collect()
            };
            members.iter().for_each(|member| member.neighbours_changed());
        });
    }

    /// Stops an engine whose last session has left, and says so.
    pub(crate) async fn stop_unused(&self, engine: &Engine, deadline: Deadline) -> Option<Ended> {
        let ended = engine.stop(Cause::Unused, deadline).await;
        let (processes, forced) = ended.as_ref().map_or((0, 0), |e| (e.processes, e.forced));
        tracing::info!(
            engine = engine.key().agent.id,
            project = %engine.key().project.display(),
            processes_ended = processes,
            forced,
            "No sessions left, stopping engine"
        );
        self.forget(engine);
        ended
    }

    /// Removes what the built-in agent keeps of a conversation.
    pub(crate) fn forget_conversation(&self, acp_id: &str) {
        if let Some(file) = memory_file(&self.parts.memory, acp_id)
            && let Err(error) = std::fs::remove_file(&file)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!("{} could not be removed: {error}", file.display());
        }
    }

    /// The program of the built-in agent.
    pub(crate) fn gantry(&self) -> String {
        self.parts.gantry.to_string_lossy().into_owned()
    }

    /// How many sessions an engine has.
    pub(crate) fn members(&self, engine: &Engine) -> usize {
        self.table().engines.get(&engine.number()).map_or(0, |entry| entry.members.len())
    }

    /// Engines that have not ended, with the ids of their sessions.
    pub(crate) fn all(&self) -> Vec<(Engine, Vec<String>)> {
        self.table()
            .engines
            .values()
            .map(|entry| (entry.engine.clone(), entry.members.keys().cloned().collect()))
            .collect()
    }

    /// Starts an engine like one that has ended, without a session, so that the next one finds
    /// it ready. At most `most` wait like that: older ones make room. Does nothing where there is
    /// one already, where it belonged to one session, and where its agent was changed since.
    pub(crate) fn keep_warm(&self, before: &Engine, most: usize) {
        let key = before.key();
        let (engine, leaving) = {
            let mut table = self.table();
            let is_outdated =
                table.changed.get(&key.agent.id).is_some_and(|last| before.number() <= *last);
            let has_one = table.by_key.contains_key(key) || key.session.is_some();
            if most == 0 || table.quitting || is_outdated || has_one {
                return;
            }
            let leaving = table.retire_warm(|_, _, newer| newer + 1 >= most);
            table.started += 1;
            let number = table.started;
            let engine = Engine::new(key.clone(), number, self.parts.clone());
            let folder = made(&key.project);
            let warm = Warm { since: Instant::now(), folder, program: written(key) };
            table.insert(number, engine.clone(), Some(warm));
            (engine, leaving)
        };
        self.launch(&engine);
        self.end_soon(leaving);
    }

    /// Ends the engines that have waited longer than `longest` for a first session, and those
    /// above `most`. Gives back when the next one will have.
    pub(crate) fn limit_warm(&self, most: usize, longest: Duration) -> Option<Duration> {
        let is_over =
            |_: &Engine, warm: Warm, newer| newer >= most || warm.since.elapsed() >= longest;
        let (leaving, next) = {
            let mut table = self.table();
            let leaving = table.retire_warm(is_over);
            let rest = table.engines.values().filter_map(|entry| entry.warm);
            (leaving, rest.map(|warm| longest.saturating_sub(warm.since.elapsed())).min())
        };
        self.end_soon(leaving);
        next
    }

    /// Ends those of an agent that is not what it was; returns when they have ended. Engines of
    /// it that run now are not followed by warm ones.
    pub(crate) async fn end_warm_of(&self, agent: &str) {
        let leaving = {
            let mut table = self.table();
            let last = table.started;
            table.changed.insert(agent.to_owned(), last);
            table.retire_warm(|engine, _, _| engine.key().agent.id == agent)
        };
        let deadline = Deadline::after(END_WARM);
        let endings = leaving.iter().map(|engine| self.stop_unused(engine, deadline));
        futures::future::join_all(endings).await;
    }

    /// Ends those of these folders that wait for a first session; returns when they have ended.
    pub(crate) async fn end_warm_in(&self, projects: &[PathBuf], deadline: Deadline) {
        let is_there = |engine: &Engine, _, _| projects.contains(&engine.key().project);
        let leaving = self.table().retire_warm(is_there);
        let endings = leaving.iter().map(|engine| self.stop_unused(engine, deadline));
        futures::future::join_all(endings).await;
    }

    fn end_soon(&self, engines: Vec<Engine>) {
        for engine in engines {
            let (engines, name) = (self.clone(), format!("warm-engine-{}", engine.number()));
            self.parts.scope.spawn(name, async move {
                engines.stop_unused(&engine, Deadline::after(END_WARM)).await;
            });
        }
    }

    /// From now on nothing starts, and an engine that ends was meant to.
    pub(crate) fn quit(&self) {
        self.table().quitting = true;
    }

    /// Ends all engines at once.
    pub(crate) async fn stop_all(&self, deadline: Deadline) {
        self.quit();
        let engines: Vec<Engine> = self.all().into_iter().map(|(engine, _)| engine).collect();
        futures::future::join_all(engines.iter().map(|engine| async {
            engine.stop(Cause::Quit, deadline).await;
            self.forget(engine);
        }))
        .await;
    }

    /// Whether nothing starts any more.
    pub(crate) fn is_quitting(&self) -> bool {
        self.table().quitting
    }

    /// An engine ended by itself: it takes no more sessions, and its sessions are told.
    pub(super) fn gone(&self, engine: &Engine, why: &str) {
        let members = {
            let mut table = self.table();
            table.retire(engine);
            table.engines.remove(&engine.number()).map(|entry| entry.members).unwrap_or_default()
        };
        for conversation in members.values() {
            conversation.engine_gone(engine.number(), why);
        }
    }

    /// It has ended as asked.
    pub(super) fn forget(&self, engine: &Engine) {
        let mut table = self.table();
        table.retire(engine);
        table.engines.remove(&engine.number());
    }
}

impl Table {
    fn insert(&mut self, number: u64, engine: Engine, warm: Option<Warm>) {
        self.by_key.insert(engine.key().clone(), number);
        let entry = Entry { engine, members: BTreeMap::new(), warm, is_telling: false };
        self.engines.insert(number, entry);
    }

    /// Takes out of use those engines without a session of which `is_over` says so: it is told
    /// how each waits, and how many began to wait after it.
    fn retire_warm(&mut self, is_over: impl Fn(&Engine, Warm, usize) -> bool) -> Vec<Engine> {
        let warm = self.engines.values().rev();
        let warm = warm.filter_map(|entry| Some((entry.engine.clone(), entry.warm?)));
        // By their numbers, the newest first.
        let over =
            warm.enumerate().filter(|(newer, (engine, warm))| is_over(engine, *warm, *newer));
        let over: Vec<Engine> = over.map(|(_, (engine, _))| engine).collect();
        for engine in &over {
            self.retire(engine);
            if let Some(entry) = self.engines.get_mut(&engine.number()) {
                // It is ended once.
                entry.warm = None;
            }
        }
        over
    }

    /// The next session with this key gets another engine.
    fn retire(&mut self, engine: &Engine) {
        if self.by_key.get(engine.key()) == Some(&engine.number()) {
            self.by_key.remove(engine.key());
        }
    }
}
