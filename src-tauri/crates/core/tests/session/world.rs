//! What a test stands in: a real supervisor, bridge and store, the scripted agent and
//! server, and a bystander that must survive. One at a time: the census is of this process.

use gantry_core::{
    Result,
    bridge::{Bridge, BridgeParts, ServerSpec},
    events::{Events, FeedItem, FeedReader},
    session::{AgentSpec, NewSession, Prompt, SessionLimits, Sessions, SessionsParts},
    wire::*,
};
use gantry_store::{ProjectRow, Store};
use gantry_supervisor::{Deadline, Scope, Supervisor, warden_beside_us};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// For what must happen: fails the test when it does not. Generous, for loaded machines.
pub const LIMIT: Duration = Duration::from_secs(30);

static ONE_AT_A_TIME: LazyLock<Arc<Mutex<()>>> = LazyLock::new(Arc::default);

pub fn soon(span: Duration) -> Deadline {
    Deadline::after(span)
}

pub fn python() -> PathBuf {
    // Not a shim of a version manager, which would be a shell around it.
    let usual = PathBuf::from("/usr/bin/python3");
    if usual.exists() { usual } else { "python3".into() }
}

/// A foreign process with the mark in its command line.
struct Bystander(Child);

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub struct World {
    pub dir: tempfile::TempDir,
    pub scope: Scope,
    pub supervisor: Supervisor,
    pub store: Store,
    pub events: Events,
    pub bridge: Bridge,
    pub sessions: Sessions,
    mark: String,
    bystander: Bystander,
    _turn: OwnedMutexGuard<()>,
}

impl World {
    pub async fn new() -> Self {
        Self::with_limit(Duration::from_secs(20)).await
    }

    /// With this limit for `initialize`.
    pub async fn with_limit(initialize: Duration) -> Self {
        Self::with_limits(SessionLimits { initialize, ..SessionLimits::default() }).await
    }

    pub async fn with_limits(limits: SessionLimits) -> Self {
        let turn = ONE_AT_A_TIME.clone().lock_owned().await;
        // `GANTRY_LOG=info cargo test … -- --nocapture` shows what happens.
        let filter = tracing_subscriber::EnvFilter::from_env("GANTRY_LOG");
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        let dir = tempfile::tempdir().unwrap();
        Self::over(dir, turn, limits).await
    }

    /// Gantry ends and starts again on the same data directory.
    pub async fn restarted(self) -> Self {
        let (dir, turn) = self.shut_down().await;
        let limits = SessionLimits { initialize: LIMIT, ..SessionLimits::default() };
        Self::over(dir, turn, limits).await
    }

    async fn over(
        dir: tempfile::TempDir,
        turn: OwnedMutexGuard<()>,
        limits: SessionLimits,
    ) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("9{}.{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let bystander = Command::new("sleep")
            .arg(&mark)
            .stdin(Stdio::null())
            .env_remove("GANTRY_TREE")
            .spawn()
            .expect("a bystander");
        let warden = warden_beside_us()
            .expect("gantry-warden is missing: run `cargo build -p gantry-warden`");
        std::fs::create_dir_all(dir.path().join("project")).unwrap();
        let scope = Scope::root("test");
        let supervisor = Supervisor::new(scope.child("processes"), Some(warden));
        let store = Store::open(&dir.path().join("gantry.db")).unwrap();
        store.end_open_turns("Gantry ended", "not sent").await.unwrap();
        let events = Events::new();
        let bridge = Bridge::new(BridgeParts {
            scope: scope.child("bridge"),
            supervisor: supervisor.clone(),
            events: events.clone(),
            gantry: "gantry".into(),
            data_dir: dir.path().to_owned(),
        });
        bridge.set_address("http://127.0.0.1:9", "instance");
        let parts = SessionsParts {
            scope: scope.child("sessions"),
            supervisor: supervisor.clone(),
            bridge: bridge.clone(),
            store: store.clone(),
            events: events.clone(),
            gantry: "gantry".into(),
            memory: dir.path().join("conversations"),
        };
        let sessions = Sessions::open_with(parts, limits).await.unwrap();
        let bystander = Bystander(bystander);
        Self {
            dir,
            scope,
            supervisor,
            store,
            events,
            bridge,
            sessions,
            mark,
            bystander,
            _turn: turn,
        }
    }

    /// The file of its store.
    pub fn database(&self) -> PathBuf {
        self.dir.path().join("gantry.db")
    }

    fn script(&self, name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/session").join(name);
        path.to_str().unwrap().to_owned()
    }

    fn log_path(&self) -> String {
        self.dir.path().join("log.jsonl").to_str().unwrap().to_owned()
    }

    /// The scripted agent; `can` says what it offers (see `agent.py`).
    pub fn agent(&self, can: &str) -> AgentSpec {
        AgentSpec {
            id: "scripted".into(),
            command: python().to_str().unwrap().to_owned(),
            args: vec![self.script("agent.py"), self.log_path(), self.mark.clone()],
            env: BTreeMap::from([("AGENT_CAN".to_owned(), can.to_owned())]),
            offers: ClientOffers::default(),
        }
    }

    /// A scripted server that needs `delay` before it reads anything.
    pub fn server(&self, name: &str, delay: f32) -> ServerSpec {
        let config = ServerConfig {
            command: Some(python().to_str().unwrap().to_owned()),
            args: vec![
                self.script("server.py"),
                self.log_path(),
                self.mark.clone(),
                name.to_owned(),
                delay.to_string(),
            ],
            enabled: true,
            ..ServerConfig::default()
        };
        ServerSpec { name: name.to_owned(), config }
    }

    /// A session that is not opened yet.
    pub async fn create(&self, can: &str, servers: Vec<ServerSpec>) -> String {
        self.create_with(|new| {
            new.agent = self.agent(can);
            new.servers = Some(servers);
        })
        .await
    }

    pub async fn create_with(&self, change: impl FnOnce(&mut NewSession)) -> String {
        self.try_create(change).await.unwrap().id
    }

    pub async fn try_create(&self, change: impl FnOnce(&mut NewSession)) -> Result<SessionView> {
        let path = self.dir.path().join("project").to_str().unwrap().to_owned();
        let row = ProjectRow { id: path.clone(), path, name: "project".into(), created_at: 1 };
        let project = self.store.ensure_project(row).await.unwrap();
        let mut new = NewSession {
            project,
            agent: self.agent("http"),
            servers: Some(Vec::new()),
            title: None,
            policy: Policy::Ask,
            system_prompt: None,
            user_id: None,
            acp_id: None,
            open_now: false,
        };
        change(&mut new);
        self.sessions.create(new).await
    }

    pub fn prompt_of(text: &str) -> Prompt {
        Prompt {
            content: vec![json!({"type": "text", "text": text})],
            queue: false,
            request_id: None,
            ready_timeout: Duration::from_secs(20),
            permission_timeout: None,
            servers: None,
            agent: None,
            policy: None,
        }
    }

    /// The same, which waits when a turn runs.
    pub fn queued(text: &str) -> Prompt {
        Prompt { queue: true, ..Self::prompt_of(text) }
    }

    /// The turn of a prompt that waits.
    pub async fn queue(&self, session: &str, text: &str) -> String {
        self.sessions.prompt(session, Self::queued(text)).await.unwrap().turn
    }

    pub async fn try_prompt(&self, session: &str, text: &str) -> Result<PromptAccepted> {
        tokio::time::timeout(LIMIT, self.sessions.prompt(session, Self::prompt_of(text)))
            .await
            .expect("the prompt was neither accepted nor refused")
    }

    pub async fn prompt(&self, session: &str, text: &str) -> PromptAccepted {
        self.try_prompt(session, text).await.unwrap()
    }

    /// Prompts and waits for the end of the turn.
    pub async fn turn(&self, session: &str, text: &str) -> (PromptAccepted, Ended) {
        let accepted = self.prompt(session, text).await;
        let ended = self.ended(session, &accepted.turn).await;
        (accepted, ended)
    }

    /// Waits for the end of a turn.
    pub async fn ended(&self, session: &str, turn: &str) -> Ended {
        self.reader(session).ended(turn).await
    }

    /// Everything that happens in a session, from its beginning.
    pub fn reader(&self, session: &str) -> Reader {
        Reader { feed: self.events.feed(session).read(0) }
    }

    pub fn view(&self, session: &str) -> SessionView {
        self.sessions.view(session).expect("the session is there")
    }

    pub async fn until_state(&self, session: &str, state: SessionState) {
        self.until(&format!("state {state:?}"), || self.view(session).state == state).await;
    }

    /// Waits until `done`.
    pub async fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let waiting = async {
            while !done() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(tokio::time::timeout(LIMIT, waiting).await.is_ok(), "{what} did not come");
    }

    /// What agents and servers wrote down, by time.
    pub fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        let mut lines: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        lines.sort_by(|a, b| a["at"].as_f64().unwrap().total_cmp(&b["at"].as_f64().unwrap()));
        lines
    }

    /// Requests and notifications with this method that agents got.
    pub fn got(&self, method: &str) -> Vec<Value> {
        self.log()
            .into_iter()
            .filter(|line| line["got"]["method"] == method)
            .map(|line| line["got"]["params"].clone())
            .collect()
    }

    pub async fn stop(&self, session: &str) -> SessionStopped {
        self.sessions.stop(session, soon(Duration::from_secs(8))).await.unwrap()
    }

    /// The turns of a session with everything in them.
    pub async fn turns(&self, session: &str) -> Vec<TurnView> {
        let ask = SessionHistory { session: session.to_owned(), before: None, limit: None };
        self.sessions.history(ask).await.unwrap().turns
    }

    pub async fn texts(&self, session: &str) -> Vec<String> {
        let ask = SessionHistory { session: session.to_owned(), before: None, limit: None };
        let history = self.sessions.history(ask).await.unwrap();
        history
            .turns
            .iter()
            .map(|turn| {
                turn.updates
                    .iter()
                    .filter(|update| update["sessionUpdate"] == "agent_message_chunk")
                    .map(|update| update["content"]["text"].as_str().unwrap())
                    .collect()
            })
            .collect()
    }

    /// Processes with the mark, but for the bystander.
    pub fn marked(&self) -> Vec<u32> {
        let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            String::from_utf8_lossy(&line).contains(&self.mark).then_some(pid)
        });
        pids.filter(|pid| *pid != self.bystander.0.id()).collect()
    }

    async fn shut_down(self) -> (tempfile::TempDir, OwnedMutexGuard<()>) {
        self.sessions.finish(soon(Duration::from_secs(2))).await;
        self.sessions.stop_all(soon(Duration::from_secs(3))).await;
        self.bridge.stop_all(soon(Duration::from_secs(3))).await;
        self.no_survivors().await;
        let stuck = self.scope.close(soon(Duration::from_secs(3))).await;
        assert_eq!(stuck, Vec::<String>::new(), "tasks did not end");
        self.store.close().await.unwrap();
        let Self { dir, mut bystander, _turn: turn, .. } = self;
        assert!(bystander.0.try_wait().unwrap().is_none(), "the bystander was harmed");
        (dir, turn)
    }

    /// Nothing of ours is left.
    pub async fn no_survivors(&self) {
        self.until("the end of all processes", || {
            self.supervisor.survivors().is_empty() && self.marked().is_empty()
        })
        .await;
    }

    /// Shuts down: nothing is left, the bystander lives.
    pub async fn end(self) {
        self.shut_down().await;
    }
}

/// The end of a turn.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    pub reason: String,
    pub description: Option<String>,
}

pub struct Reader {
    feed: FeedReader,
}

impl Reader {
    pub async fn next(&mut self) -> Happening {
        let item = tokio::time::timeout(LIMIT, self.feed.next()).await.expect("nothing happened");
        match item {
            FeedItem::Event(event) => event.what.clone(),
            other => panic!("expected an event, got {other:?}"),
        }
    }

    pub async fn ended(&mut self, wanted: &str) -> Ended {
        loop {
            if let Happening::TurnEnded { turn, reason, description, .. } = self.next().await
                && turn == wanted
            {
                return Ended { reason, description };
            }
        }
    }

    /// The next permission request.
    pub async fn asked(&mut self) -> PermissionView {
        loop {
            if let Happening::PermissionRequested { permission, .. } = self.next().await {
                return *permission;
            }
        }
    }

    /// The next other question.
    pub async fn question(&mut self) -> QuestionView {
        loop {
            if let Happening::QuestionAsked { question, .. } = self.next().await {
                return *question;
            }
        }
    }

    /// How the next such question was answered.
    pub async fn answered(&mut self) -> AnsweredQuestion {
        loop {
            if let Happening::QuestionAnswered { question, .. } = self.next().await {
                return *question;
            }
        }
    }

    /// How the next permission request was answered.
    pub async fn resolved(&mut self) -> (String, Option<String>) {
        loop {
            if let Happening::PermissionResolved { outcome, reason, .. } = self.next().await {
                return (outcome, reason);
            }
        }
    }
}
