//! The application service: what both hosts offer, in one place.

pub(crate) mod agents;
mod chat;
mod commands;
mod conversations;
mod data;
mod defaults;
mod find;
mod import;
mod processes;
mod settings;
mod words;

pub use chat::*;
pub use defaults::DEFAULT_SERVERS_VARIABLE;

use crate::{
    agents::{Installs, InstallsParts},
    bridge::{Bridge, BridgeParts, ServerSpec},
    data_dir::DataDir,
    events::Events,
    instance::{Instance, InstanceError},
    programs::Programs,
    session::{Sessions, SessionsParts},
    shutdown::{self, ExitReport, LastRun, Shutdown},
    wire::{Happening, LastExit},
};
use gantry_store::{Store, StoreError};
use gantry_supervisor::{
    Child, Deadline, Launch, ProcessId, Role, Scope, Supervisor, environment, sweep, table::Table,
};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

/// Why a turn ended that no run of Gantry has ended.
const CUT_OFF: &str = "Gantry ended while this turn was running";
/// Of a prompt that waited for it.
const NOT_SENT: &str = "Gantry ended before this prompt was sent; send it again";

/// How long the sweep for leftovers of earlier runs may delay the start.
const SWEEP_LIMIT: Duration = Duration::from_secs(2);

/// Between two looks at whether the data directory is still ours.
const DIRECTORY_PAUSE: Duration = Duration::from_secs(2);

/// How a Gantry is started.
#[derive(Clone, Debug)]
pub struct AppOptions {
    /// Where it keeps everything.
    pub data: DataDir,
    /// Where its token lies, when not in `run/token`.
    pub token_file: Option<PathBuf>,
    /// The programs that come with it.
    pub programs: Programs,
}

/// Why Gantry could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be had.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something that was stored cannot be read.
    #[error("{0}")]
    Core(#[from] crate::Error),
}

/// A running Gantry. Clones are the same one.
#[derive(Clone, Debug)]
pub struct App {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    data: DataDir,
    programs: Programs,
    instance: Instance,
    scope: Scope,
    supervisor: Supervisor,
    store: Store,
    events: Events,
    bridge: Bridge,
    sessions: Sessions,
    installs: Installs,
    shutdown: Shutdown,
    /// Owner of the shutdown itself, which closes `scope`.
    _shutdown_scope: Scope,
    /// Where there are no wardens: the end of its input tells it that we are gone.
    _reaper: Option<Child>,
    last_exit: Option<LastExit>,
    table: Mutex<Table>,
    files: crate::files::Listings,
    /// Keeps the order of changes to the saved servers: read, write and
    /// configure are one step.
    saving: tokio::sync::Mutex<()>,
    settings: tokio::sync::watch::Sender<crate::wire::Settings>,
}

impl App {
    /// Takes the data directory, ends what earlier runs left behind, opens the
    /// store and starts the persistent servers. Does not wait for them.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(options: AppOptions) -> Result<Self, StartError> {
        let last_run = LastRun::read(&options.data);
        let instance = Instance::take(&options.data, options.token_file.as_deref())?;
        LastRun::forget(&options.data);
        let swept = sweep(Deadline::after(SWEEP_LIMIT)).await;
        for (process, command) in &swept.ended {
            let program = shutdown::program(command);
            tracing::warn!(pid = process.pid, program, "ended a leftover of an earlier run");
        }
        let last_exit = last_run.tell(&swept);
        let last_exit = match last_exit {
            Some(last_exit) if last_exit.crashed => Some(last_exit),
            // A start that failed has less to say than what it did not come to tell.
            last_exit => shutdown::untold(&options.data).or(last_exit),
        };
        if let Some(last_exit) = &last_exit {
            tracing::warn!("{}", last_exit.summary);
            // Should this start fail, the next one tells it.
            shutdown::keep_untold(&options.data, last_exit);
        }
        let store = Store::open(&options.data.database)?;
        let cut_off = store.end_open_turns(CUT_OFF, NOT_SENT).await?;
        if !cut_off.is_empty() {
            tracing::warn!(turns = cut_off.len(), "turns of an earlier run were closed");
        }

        let scope = Scope::root("gantry");
        let shutdown_scope = Scope::root("shutdown");
        let supervisor = Supervisor::new(scope.child("processes"), options.programs.warden.clone());
        if options.programs.warden.is_none() && cfg!(target_os = "linux") {
            tracing::warn!("gantry-warden is not beside this program: daemons may survive a crash");
        }
        let reaper = start_reaper(&supervisor, &options.programs).await;
        // Before anything is looked for or started.
        environment::ask_login_shell(&supervisor).await;
        let events = Events::of_this_run();
        let bridge = Bridge::new(BridgeParts {
            scope: scope.child("bridge"),
            supervisor: supervisor.clone(),
            events: events.clone(),
            gantry: options.programs.gantry.clone(),
            data_dir: options.data.root.clone(),
        });
        let sessions = Sessions::open(SessionsParts {
            scope: scope.child("sessions"),
            supervisor: supervisor.clone(),
            bridge: bridge.clone(),
            store: store.clone(),
            events: events.clone(),
            gantry: options.programs.gantry.clone(),
            memory: options.data.root.join("conversations"),
        })
        .await?;
        let installs = Installs::new(InstallsParts {
            home: options.data.root.join("agents"),
            scope: scope.child("installations"),
            supervisor: supervisor.clone(),
            events: events.clone(),
        });
        installs.remove_leftovers();
        // Whoever follows such a session hears its end here, not for ever nothing.
        events.publish_all(cut_off.into_iter().flat_map(|cut_off| {
            let started = cut_off.unsent.map(|row| Happening::TurnStarted {
                session: row.session_id,
                turn: row.id,
                number: row.number,
                request_id: row.request_id,
                prompt: serde_json::from_str(&row.prompt).unwrap_or_default(),
            });
            let ended = Happening::TurnEnded {
                session: cut_off.session_id,
                turn: cut_off.turn,
                reason: "error".to_owned(),
                description: Some(cut_off.description),
            };
            started.into_iter().chain([ended])
        }));
        let shutdown = Shutdown::new();
        let parts = shutdown::Parts {
            scope: scope.clone(),
            supervisor: supervisor.clone(),
            sessions: sessions.clone(),
            bridge: bridge.clone(),
            store: store.clone(),
            events: events.clone(),
            last_exit: shutdown::last_exit_file(&options.data),
        };
        shutdown.guards(parts.clone());
        shutdown_scope.spawn("coordinator", shutdown::run(shutdown.clone(), parts));

        let settings = settings::stored(&store).await?;
        sessions.set_rules(settings::engine_rules(&settings));
        let app = Self {
            inner: Arc::new(Inner {
                last_exit,
                data: options.data,
                programs: options.programs,
                instance,
                scope,
                supervisor,
                store,
                events,
                bridge,
                sessions,
                installs,
                shutdown,
                _shutdown_scope: shutdown_scope,
                _reaper: reaper,
                table: Mutex::default(),
                files: crate::files::Listings::default(),
                saving: tokio::sync::Mutex::default(),
                settings: tokio::sync::watch::Sender::new(settings),
            }),
        };
        app.install_defaults().await?;
        let watch = watch_directory(Arc::downgrade(&app.inner), app.scope().cancelled());
        app.scope().spawn("data directory", watch);
        Ok(app)
    }

    /// Says where the listener is, and starts the persistent servers, whose
    /// URLs are known from now on.
    ///
    /// # Errors
    /// `run/instance.json` cannot be written, or the saved servers cannot be read.
    pub async fn set_address(&self, url: &str) -> crate::Result<()> {
        self.inner.bridge.set_address(url, self.inner.instance.token());
        self.inner.instance.announce(url).map_err(|error| {
            crate::Error::failed(format!("run/instance.json could not be written: {error}"))
        })?;
        let saved = self.saved_servers().await?;
        self.inner.bridge.configure(saved).await;
        Ok(())
    }

    /// The host shows what is to be told of the last run; other hosts (`gantry chat` with a core of
    /// its own) leave it to the next one.
    pub fn shows_notices(&self) {
        shutdown::told(&self.inner.data);
    }

    /// Resolves when the shutdown is over and everything was given back; the
    /// host returns from `main` with the report's code then.
    pub async fn ended(&self) -> ExitReport {
        let report = self.inner.shutdown.ended().await;
        self.inner.instance.withdraw();
        report
    }

    /// The saved servers as the bridge takes them. One that cannot be read is left out and said.
    async fn saved_servers(&self) -> crate::Result<Vec<ServerSpec>> {
        let mut specs = Vec::new();
        for row in self.inner.store.servers().await? {
            match serde_json::from_str(&row.config) {
                Ok(config) => specs.push(ServerSpec { name: row.name, config }),
                Err(error) => {
                    tracing::error!(
                        server = row.name,
                        "its stored configuration cannot be read: {error}"
                    );
                }
            }
        }
        Ok(specs)
    }

    /// Where everything is kept.
    pub fn data_dir(&self) -> &DataDir {
        &self.inner.data
    }
    /// The secret that every request needs.
    pub fn token(&self) -> &str {
        self.inner.instance.token()
    }
    /// Where the token lies.
    pub fn token_file(&self) -> &std::path::Path {
        self.inner.instance.token_file()
    }
    /// The programs that come with Gantry.
    pub fn programs(&self) -> &Programs {
        &self.inner.programs
    }
    /// Owner of the tasks that end with Gantry; hosts make children of it.
    pub fn scope(&self) -> &Scope {
        &self.inner.scope
    }
    /// Everything that happens.
    pub fn events(&self) -> &Events {
        &self.inner.events
    }
    /// The servers.
    pub fn bridge(&self) -> &Bridge {
        &self.inner.bridge
    }
    /// The sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.inner.sessions
    }
    /// Agents that Gantry installs.
    pub(crate) fn installs(&self) -> &Installs {
        &self.inner.installs
    }
    /// What is kept.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }
    /// The coordinator of the end.
    pub fn shutdown(&self) -> &Shutdown {
        &self.inner.shutdown
    }
    /// Fails once the end was asked for.
    ///
    /// # Errors
    /// Shutting down.
    pub fn still_open(&self) -> crate::Result<()> {
        if self.inner.shutdown.is_requested() { Err(crate::Error::shutting_down()) } else { Ok(()) }
    }
}

/// One process for all trees that acts when this one is killed, where trees have no wardens and
/// the system does not end them with us.
async fn start_reaper(supervisor: &Supervisor, programs: &Programs) -> Option<Child> {
    if supervisor.has_wardens() || !cfg!(unix) {
        return None;
    }
    let me = ProcessId::current();
    let launch = Launch {
        name: "reaper".into(),
        role: Role::Own,
        program: programs.gantry.clone().into(),
        args: vec!["reaper".into(), me.pid.to_string().into(), me.start.to_string().into()],
        env: Vec::new(),
        cwd: None,
        grace: Duration::ZERO,
    };
    match supervisor.launch(launch).await {
        Ok(child) => Some(child),
        Err(error) => {
            tracing::warn!("what a crash leaves is ended by the next start only: {error}");
            None
        }
    }
}

/// Ends a Gantry whose data directory was removed or replaced: it can keep nothing any more, and
/// another one could take the new directory beside it.
async fn watch_directory(inner: Weak<Inner>, cancelled: impl Future<Output = ()>) {
    tokio::pin!(cancelled);
    loop {
        tokio::select! {
            () = &mut cancelled => return,
            () = tokio::time::sleep(DIRECTORY_PAUSE) => {}
        }
        let Some(inner) = inner.upgrade() else { return };
        if !inner.instance.has_its_directory() {
            tracing::error!(
                "{} was removed or replaced while Gantry ran; it ends, because nothing can be \
                 kept any more. Start it again",
                inner.data.root.display()
            );
            return inner.shutdown.give_up("the data directory is gone");
        }
    }
}
