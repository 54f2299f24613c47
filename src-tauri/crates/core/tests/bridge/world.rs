//! What a test stands in: a bridge over real processes, scripted servers, and bystanders
//! with the same command lines that must survive.

use gantry_core::{
    bridge::{Bridge, BridgeParts, ServerSpec},
    events::Events,
    wire::{ReadinessState, ServerState, ServerView},
};
use gantry_supervisor::{Deadline, ProcessId, Scope, Supervisor, warden_beside_us};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tempfile::TempDir;

/// For what must happen: fails the test when it does not. Generous, for loaded machines.
pub const LIMIT: Duration = Duration::from_secs(30);

pub fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(5))
}

pub struct World {
    pub bridge: Bridge,
    pub supervisor: Supervisor,
    pub events: Events,
    pub directory: TempDir,
    pub mark: String,
    scope: Scope,
    bystanders: Vec<Child>,
}

impl World {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("server.py"), include_str!("server.py"))
            .expect("the server's script");
        let scope = Scope::root("test");
        let warden = warden_beside_us()
            .expect("gantry-warden is missing: run `cargo build -p gantry-warden`");
        let supervisor = Supervisor::new(scope.clone(), Some(warden));
        let events = Events::new();
        let bridge = Bridge::new(BridgeParts {
            scope: scope.clone(),
            supervisor: supervisor.clone(),
            events: events.clone(),
            gantry: "/nowhere/gantry".into(),
            data_dir: directory.path().join("data"),
        });
        bridge.set_address("http://127.0.0.1:1", "instance");
        let mark = format!("7{}.{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let bystander = |program: &str, args: &[&str]| {
            let mut command = Command::new(program);
            command.args(args).stdin(Stdio::piped()).stdout(Stdio::null());
            command
                .env_remove("GANTRY_TREE")
                .spawn()
                .unwrap_or_else(|error| panic!("these tests need `{program}`: {error}; install it"))
        };
        let script = directory.path().join("server.py");
        let bystanders = vec![
            bystander("sleep", &[&mark]),
            bystander("python3", &[script.to_str().expect("UTF-8"), &mark]),
        ];
        Self { bridge, supervisor, events, directory, mark, scope, bystanders }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A scripted server with more of a configuration.
    pub fn spec_with(&self, name: &str, words: &[&str], more: Value) -> ServerSpec {
        let script = self.path("server.py").display().to_string();
        let mut args = vec![script, self.mark.clone()];
        args.extend(words.iter().map(|word| (*word).to_owned()));
        let mut config = json!({ "command": "python3", "args": args });
        if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
            config.extend(more);
        }
        let config = serde_json::from_value(config).expect("a configuration");
        ServerSpec { name: name.into(), config }
    }

    pub fn spec(&self, name: &str, words: &[&str]) -> ServerSpec {
        self.spec_with(name, words, json!({}))
    }

    /// Leases and waits; the outcome by name.
    pub async fn open(
        &self,
        session: &str,
        servers: Option<Vec<ServerSpec>>,
    ) -> Vec<(String, ReadinessState, usize)> {
        self.bridge.lease(session, servers).await;
        let ready = self.bridge.ready(session, Deadline::after(LIMIT)).await;
        ready.into_iter().map(|server| (server.name, server.state, server.tools)).collect()
    }

    /// Waits until a view of a server is as wanted.
    pub async fn until(&self, name: &str, wanted: impl Fn(&ServerView) -> bool) -> ServerView {
        let (_, mut reader) = self.events.subscribe();
        let seen = async {
            loop {
                let mut views = self.bridge.views().into_iter();
                match views.find(|view| view.name == name && wanted(view)) {
                    Some(view) => return view,
                    None => drop(reader.recv().await),
                }
            }
        };
        tokio::time::timeout(LIMIT, seen)
            .await
            .unwrap_or_else(|_| panic!("`{name}` never came to be: {:#?}", self.bridge.views()))
    }

    pub async fn until_ready(&self, name: &str) -> ServerView {
        self.until(name, |view| view.state == ServerState::Ready).await
    }

    /// What a session's call to a server answers: pid, value of `KEY`, number of
    /// the call, directory.
    pub async fn reach(&self, session: &str, name: &str) -> Vec<String> {
        let handed = self.bridge.handover(session, true);
        let entry = &handed.iter().find(|of| of.name == name).expect("handed over").entry;
        let bearer = entry["headers"][0]["value"].as_str().expect("a token");
        let token = bearer.strip_prefix("Bearer ").expect("a bearer token");
        let endpoint = self.bridge.resolve(token, name).expect("the session's server");
        let answer = endpoint.hub.call_tool("who", json!({}), LIMIT).await.expect("an answer");
        let text = answer["content"][0]["text"].as_str().expect("text");
        text.split(' ').map(str::to_owned).collect()
    }

    /// Living processes with the mark in their command line, except the bystanders.
    pub fn marked(&self) -> Vec<ProcessId> {
        let pids = std::fs::read_dir("/proc").expect("/proc").flatten().filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let ours = String::from_utf8_lossy(&line).contains(&self.mark);
            let foreign = self.bystanders.iter().any(|child| child.id() == pid);
            (ours && !foreign).then_some(pid)
        });
        pids.filter_map(ProcessId::of).filter(|id| id.is_alive()).collect()
    }

    pub fn assert_clean(&mut self) {
        assert_eq!(self.marked(), [], "marked processes survived");
        assert_eq!(self.supervisor.survivors(), [], "bearers of our cookies survived");
        for bystander in &mut self.bystanders {
            assert_eq!(bystander.try_wait().expect("a child"), None, "a bystander was harmed");
        }
    }

    /// Ends the bridge; nothing is left, no task either.
    pub async fn finish(mut self) {
        self.bridge.stop_all(soon()).await;
        self.assert_clean();
        assert_eq!(self.scope.close(soon()).await, Vec::<String>::new(), "tasks are left");
        self.assert_clean();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for bystander in &mut self.bystanders {
            let _ = bystander.kill();
            let _ = bystander.wait();
        }
        // A test that failed must not leave anything either.
        self.supervisor.kill_now(Duration::from_secs(2));
    }
}
