//! Installing agents into Gantry's own directory, each version in a folder of its
//! own. `<id>.json` names the folder that counts; it is replaced in one step at the
//! end, so an installation that fails or is cut off changes nothing.
//!
//! ```text
//! agents/opencode.json          {"version","folder","program"}
//! agents/opencode-<random>/     node_modules, or a virtual environment
//! agents/opencode.log           what npm, uv or pip said last time
//! ```

use super::{
    Known, Package, Registry,
    installed::{Manifest, ids, manifest, remove_leftovers, save},
};
use crate::{Error, Result, events::Events, wire::Happening};
use gantry_supervisor::{
    Cause, Child, Deadline, Exit, Launch, Role, Scope, Supervisor, environment::find_program,
};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::io::{AsyncBufReadExt, BufReader};

/// How long an installation may take.
const LIMIT: Duration = Duration::from_secs(20 * 60);
/// How long the programs of one that is given up may take to end.
const CLEAN_UP: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(1);
/// So many lines explain a failure.
const EXPLAIN: usize = 12;
/// What is kept of a line, in bytes.
const LONGEST_LINE: usize = 4096;
/// Lines of progress come at most this often.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// What installing needs.
pub(crate) struct InstallsParts {
    /// `agents` in the data directory.
    pub(crate) home: PathBuf,
    pub(crate) scope: Scope,
    pub(crate) supervisor: Supervisor,
    pub(crate) events: Events,
}

/// The installations. Clones are the same ones.
#[derive(Clone)]
pub(crate) struct Installs {
    inner: Arc<Inner>,
}

struct Inner {
    parts: InstallsParts,
    running: Mutex<BTreeSet<String>>,
    /// Folders that were replaced in this run.
    replaced: Arc<Mutex<Vec<String>>>,
}

impl std::fmt::Debug for Installs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Installs").field("running", &*self.running()).finish_non_exhaustive()
    }
}

impl Installs {
    pub(crate) fn new(parts: InstallsParts) -> Self {
        Self {
            inner: Arc::new(Inner { parts, running: Mutex::default(), replaced: Arc::default() }),
        }
    }

    /// Removes what installations of earlier runs left: nothing runs from there any more.
    pub(crate) fn remove_leftovers(&self) {
        let home = self.home().to_owned();
        self.inner.parts.scope.spawn_blocking("leftovers of installations", move || {
            for id in ids(&home) {
                remove_leftovers(&home, &id, &[]);
            }
        });
    }

    fn running(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.inner.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `agents` in the data directory.
    pub(crate) fn home(&self) -> &Path {
        &self.inner.parts.home
    }

    /// Whether this one is being installed or removed.
    pub(crate) fn is_running(&self, id: &str) -> bool {
        self.running().contains(id)
    }

    /// Where the log of the last installation is.
    pub(crate) fn log(&self, id: &str) -> PathBuf {
        self.home().join(format!("{id}.log"))
    }

    /// Installs the pinned version in the place of what is there, and waits for that.
    /// A caller that goes away does not stop it.
    ///
    /// # Errors
    /// Busy when it is being installed; else what npm, uv or pip said.
    pub(crate) async fn install(&self, known: Arc<Known>) -> Result<()> {
        let Some(package) = known.package.clone() else {
            return Err(Error::invalid(format!(
                "id: Gantry cannot install {}; {}",
                known.name, known.how_to_install
            )));
        };
        let turn = self.turn(&known.id)?;
        let installs = self.clone();
        let task = self.inner.parts.scope.spawn(format!("install {}", known.id), async move {
            let _turn = turn;
            let parts = &installs.inner.parts;
            let work = installs.install_in_turn(&known, &package);
            tokio::select! {
                result = work => result,
                // Its processes are ended by the supervisor.
                () = parts.scope.cancelled() => Err(Error::shutting_down()),
            }
        });
        let result = task.join().await.unwrap_or_else(|| Err(Error::shutting_down()));
        self.inner.parts.events.publish(Happening::AgentsChanged {});
        result
    }

    /// Removes what Gantry installed; nothing else.
    ///
    /// # Errors
    /// Not found; busy; what the file system said.
    pub(crate) async fn uninstall(&self, id: &str) -> Result<()> {
        let turn = self.turn(id)?;
        let (home, id) = (self.home().to_owned(), id.to_owned());
        let removed = self.blocking("remove an agent", move || {
            let _turn = turn;
            let Some(manifest) = manifest(&home, &id) else {
                return Err(Error::not_found(format!("Gantry has not installed `{id}`")));
            };
            let file = home.join(format!("{id}.json"));
            fs::remove_file(&file).map_err(|error| cannot("removed", &file, &error))?;
            let folder = home.join(&manifest.folder);
            fs::remove_dir_all(&folder).map_err(|error| cannot("removed", &folder, &error))
        });
        let removed = removed.await;
        self.inner.parts.events.publish(Happening::AgentsChanged {});
        removed
    }

    async fn install_in_turn(&self, known: &Known, package: &Package) -> Result<()> {
        let (home, id) = (self.home().to_owned(), known.id.clone());
        let name = format!("{id}-{}", uuid::Uuid::new_v4().simple());
        let folder = home.join(&name);
        let log = self.log(&id);
        let (in_home, new) = (home.clone(), folder.clone());
        let spared = self.inner.replaced.clone();
        let mut told = self
            .blocking("prepare an installation", move || {
                let prepared = fs::create_dir_all(&new).and_then(|()| {
                    let mut spared = spared.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    spared.extend(new.file_name().and_then(|name| Some(name.to_str()?.to_owned())));
                    remove_leftovers(&in_home, &id, &spared);
                    // npm looks for the project's top from here upwards.
                    fs::write(new.join("package.json"), "{\"private\":true}\n")?;
                    fs::File::create(&log)
                });
                prepared.map_err(|error| cannot("written", &new, &error))
            })
            .await
            .map(|file| Told::new(known.id.clone(), file, self.inner.parts.events.clone()))?;

        let result = self.fill(known, package, &folder, &mut told).await;
        let (id, version) = (known.id.clone(), package.version.clone());
        let spared = self.inner.replaced.clone();
        self.blocking("finish an installation", move || {
            let finished = result.and_then(|program| {
                let whole = folder.join(&program);
                if find_program(&whole).is_none() {
                    let what =
                        format!("the package holds no program that runs: {}", whole.display());
                    return Err(Error::upstream(what));
                }
                let before = manifest(&home, &id);
                let now = Manifest { version, folder: name, program };
                save(&home, &id, &now).map_err(|error| cannot("written", &home, &error))?;
                // Engines may run from the one before; it goes at the next start.
                spared
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend(before.map(|b| b.folder));
                Ok(())
            });
            if finished.is_err() {
                let _ = fs::remove_dir_all(&folder);
            }
            finished
        })
        .await
    }

    /// Installs into the folder and says where the program is in it.
    async fn fill(
        &self,
        known: &Known,
        package: &Package,
        folder: &Path,
        told: &mut Told,
    ) -> Result<String> {
        let deadline = Deadline::after(LIMIT);
        let pinned = match package.registry {
            Registry::Npm => format!("{}@{}", package.name, package.version),
            Registry::Pypi => format!("{}=={}", package.name, package.version),
        };
        match package.registry {
            Registry::Npm => {
                let args =
                    ["install", "--no-audit", "--no-fund", "--save-exact", "--loglevel=http"];
                // The user's own configuration may say otherwise; options win over it.
                let here = ["--global=false", "--location=project", "--prefix=."];
                let args = args.into_iter().chain(here).chain([pinned.as_str()]);
                self.run("npm", args, folder, deadline, told).await?;
                let suffix = if cfg!(windows) { ".cmd" } else { "" };
                let (name, wanted, folder) =
                    (package.name.clone(), known.program.clone(), folder.to_owned());
                let program = self.blocking("look for the program", move || {
                    Ok(npm_program(&folder, &name, &wanted))
                });
                Ok(format!("node_modules/.bin/{}{suffix}", program.await?))
            }
            Registry::Pypi => {
                let (bin, suffix) = if cfg!(windows) { ("Scripts", ".exe") } else { ("bin", "") };
                let python = format!("{bin}/python{suffix}");
                if find_program("uv").is_some() {
                    let version = package.python.as_deref().unwrap_or("3");
                    let venv = ["venv", "--clear", "--python", version, "."];
                    self.run("uv", venv, folder, deadline, told).await?;
                    let install = ["pip", "install", "--python", &python, &pinned];
                    self.run("uv", install, folder, deadline, told).await?;
                } else {
                    let program = self.python(package, folder, deadline, told).await?;
                    self.run(&program, ["-m", "venv", "."], folder, deadline, told).await?;
                    let install = ["-m", "pip", "install", "--disable-pip-version-check", &pinned];
                    let python = folder.join(&python).display().to_string();
                    self.run(&python, install, folder, deadline, told).await?;
                }
                Ok(format!("{bin}/{}{suffix}", known.program))
            }
        }
    }

    /// A Python that is new enough.
    async fn python(
        &self,
        package: &Package,
        folder: &Path,
        deadline: Deadline,
        told: &mut Told,
    ) -> Result<String> {
        let plain = if cfg!(windows) { "python" } else { "python3" };
        let Some(wanted) = &package.python else { return Ok(plain.to_owned()) };
        let version = wanted.replace('.', ",");
        let check = format!("import sys; sys.exit(0 if sys.version_info >= ({version},) else 1)");
        // One that is found need not work: version managers leave stand-ins in PATH.
        for program in [format!("python{wanted}"), plain.to_owned()] {
            let is_there = find_program(&program).is_some();
            let check = ["-c", check.as_str()];
            if is_there && self.run(&program, check, folder, deadline, told).await.is_ok() {
                return Ok(program);
            }
        }
        Err(Error::upstream(format!(
            "{} needs Python {wanted} or later, and there is none; install uv \
             (https://docs.astral.sh/uv), which brings it; nothing was changed",
            package.name
        )))
    }

    /// Runs one program to its end.
    async fn run<'a>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = &'a str>,
        folder: &Path,
        deadline: Deadline,
        told: &mut Told,
    ) -> Result<()> {
        let args: Vec<OsString> = args.into_iter().map(OsString::from).collect();
        told.line(&format!("$ {program} {}", args.join(&OsString::from(" ")).display()));
        let launched = self.inner.parts.supervisor.launch(Launch {
            name: format!("install-{}", told.id),
            role: Role::Own,
            program: program.into(),
            args,
            env: own_place(folder),
            cwd: Some(folder.to_owned()),
            grace: GRACE,
        });
        let child = launched.await.map_err(|error| Error::upstream(error.to_string()))?;
        let tree = child.tree.clone();
        let ended = deadline.bound(follow(child, told)).await;
        // Whatever happened: nothing of it goes on.
        tree.stop(Cause::Unused, Deadline::after(CLEAN_UP)).await;
        match ended {
            Ok(Exit::Code(0)) => Ok(()),
            Ok(exit) => Err(Error::upstream(format!(
                "{program} ended with {exit}, and nothing was changed: {}",
                told.last.join("\n")
            ))),
            Err(_) => Err(Error::upstream(format!(
                "{program} was not done after {} minutes and was ended; nothing was changed",
                LIMIT.as_secs() / 60
            ))),
        }
    }

    /// The right to change what is installed for this id.
    fn turn(&self, id: &str) -> Result<InTurn> {
        if !self.running().insert(id.to_owned()) {
            return Err(Error::busy(format!("`{id}` is being installed or removed; wait for it")));
        }
        Ok(InTurn { installs: self.clone(), id: id.to_owned() })
    }

    async fn blocking<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let task = self.inner.parts.scope.spawn_blocking(name, work);
        task.join().await.unwrap_or_else(|| Err(Error::shutting_down()))
    }
}

struct InTurn {
    installs: Installs,
    id: String,
}

impl Drop for InTurn {
    fn drop(&mut self) {
        self.installs.running().remove(&self.id);
    }
}

/// Everything goes into the folder, whatever the user's environment says about other places.
fn own_place(folder: &Path) -> Vec<(OsString, OsString)> {
    let python = folder.join("python");
    // pip takes an empty value for none.
    let nowhere = ["PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "UV_TARGET", "UV_PREFIX"];
    let mut all: Vec<(OsString, OsString)> =
        nowhere.into_iter().map(|name| (name.into(), "".into())).collect();
    all.push(("PIP_USER".into(), "0".into()));
    // Python that uv fetches stays with the agent.
    all.push(("UV_PYTHON_INSTALL_DIR".into(), python.into()));
    all
}

/// The program of an npm package: the wanted one, or as npx chooses the one that it has.
fn npm_program(folder: &Path, package: &str, wanted: &str) -> String {
    let modules = folder.join("node_modules");
    if modules.join(".bin").join(wanted).exists() {
        return wanted.to_owned();
    }
    let about = fs::read(modules.join(package).join("package.json")).unwrap_or_default();
    let about: serde_json::Value = serde_json::from_slice(&about).unwrap_or_default();
    match about["bin"].as_object() {
        Some(programs) if programs.len() == 1 => {
            programs.keys().next().map_or(wanted, String::as_str).to_owned()
        }
        _ => wanted.to_owned(),
    }
}

/// Keeps a registry document as the imported one.
pub(crate) fn import(home: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(home)?;
    let file = home.join(super::IMPORTED);
    let temporary = file.with_extension("new");
    fs::write(&temporary, text)?;
    fs::rename(temporary, file)
}

fn cannot(done: &str, path: &Path, error: &io::Error) -> Error {
    Error::failed(format!("{} could not be {done}: {error}", path.display()))
}

/// What an installation says, on its way to the log and to who watches.
struct Told {
    id: String,
    file: fs::File,
    events: Events,
    /// The last lines.
    last: Vec<String>,
    next: Instant,
}

impl Told {
    fn new(id: String, file: fs::File, events: Events) -> Self {
        Self { id, file, events, last: Vec::new(), next: Instant::now() }
    }

    fn line(&mut self, line: &str) {
        let line = line.trim_end();
        let line = &line[..line.floor_char_boundary(LONGEST_LINE)];
        if line.is_empty() {
            return;
        }
        // A log that cannot be written is no reason to fail.
        let _ = writeln!(self.file, "{line}");
        if self.last.len() == EXPLAIN {
            self.last.remove(0);
        }
        self.last.push(line.to_owned());
        let now = Instant::now();
        if now >= self.next {
            self.next = now + TELL_EVERY;
            let (id, line) = (self.id.clone(), line.to_owned());
            self.events.publish(Happening::AgentInstall { id, line });
        }
    }
}

/// Takes in what a program says until it has ended.
async fn follow(child: Child, told: &mut Told) -> Exit {
    let Child { tree, stdin, stdout, stderr } = child;
    drop(stdin);
    let mut lines = BufReader::new(stdout).lines();
    let (mut seen, mut out, mut err) = (0, true, true);
    while out || err {
        tokio::select! {
            line = lines.next_line(), if out => match line {
                Ok(Some(line)) => told.line(&line),
                _ => out = false,
            },
            grown = stderr.grown(seen), if err => {
                let (new, now) = stderr.since(seen);
                new.iter().for_each(|line| told.line(line));
                (seen, err) = (now, grown);
            }
        }
    }
    tree.exited().await
}
