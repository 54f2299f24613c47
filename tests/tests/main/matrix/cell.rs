//! One cell: a tree with its mark, its bystander, and what is known of its members.

use super::{Cause, misbehaviour::Misbehaviour, until};
use gantry_tests::{Instance, Stage, census, programs, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    fmt,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// Generous: two hundred processes start on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Server,
    Engine,
    Terminal,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Server, Self::Engine, Self::Terminal];
}

pub struct Cell {
    role: Role,
    misbehaviour: Misbehaviour,
    /// Of this cell alone: the span that its sleepers are told.
    mark: String,
    bystander: Child,
    session: Option<String>,
    program: u32,
    warden: u32,
    cookie: String,
    members: Vec<census::Row>,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.role, self.misbehaviour)
    }
}

impl Cell {
    pub fn new(role: Role, misbehaviour: Misbehaviour) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("7{}.{number:04}", std::process::id());
        let mut sleeper = Command::new("sleep");
        sleeper.arg(&mark).stdin(Stdio::null());
        let bystander = sleeper.spawn().unwrap_or_else(|why| panic!("sleep: {why}"));
        Self {
            role,
            misbehaviour,
            mark,
            bystander,
            session: None,
            program: 0,
            warden: 0,
            cookie: String::new(),
            members: Vec::new(),
        }
    }

    pub fn role(&self) -> Role {
        self.role
    }

    pub fn name(&self) -> String {
        format!("{:?}-{:?}-{}", self.role, self.misbehaviour, self.mark).to_lowercase()
    }

    pub fn session(&self) -> &str {
        self.session.as_deref().unwrap_or_default()
    }

    pub fn warden(&self) -> u32 {
        self.warden
    }

    /// The command line as a server's or an agent's configuration and `terminal/create` have it.
    fn configuration(&self) -> Value {
        let program = match self.role {
            Role::Server => programs::path("fake_mcp"),
            Role::Engine => programs::path("fake_agent"),
            // Nobody speaks to it; it only runs.
            Role::Terminal => programs::path("stubborn"),
        };
        let script = self.misbehaviour.script();
        let script = script.replace("PROGRAM", &program.display().to_string());
        // Nobody says a terminal's pid: by the mark its warden is found.
        let remark = if self.role == Role::Terminal { ": MARK; " } else { "" };
        let script = format!("{remark}{script}").replace("MARK", &self.mark);
        json!({ "command": "bash", "args": ["-c", script] })
    }

    /// Starts it, as a session's own server, engine or terminal or as a saved server, and waits
    /// until it has done what it does.
    pub async fn start(&mut self, stage: &Stage, instance: &Instance, in_session: bool) {
        let mut configuration = self.configuration();
        let mut agent = programs::fake_agent(json!({}));
        let mut servers = json!({});
        let mut prompt = "ECHO hello".to_owned();
        match self.role {
            Role::Engine => {
                configuration["agent_id"] = json!("fake");
                agent = configuration;
            }
            Role::Terminal => {
                // An engine of its own, so that it can be killed.
                agent["agent_id"] = json!(self.name());
                agent["offers"] = json!({ "terminals": true });
                prompt = format!("START it {configuration}\nECHO hello");
            }
            Role::Server if in_session => servers = json!({ self.name(): configuration }),
            Role::Server => {
                configuration["persistent"] = json!(true);
                let input = json!({ "name": self.name(), "config": configuration });
                instance.api("servers_save", input).await;
            }
        }
        if self.role != Role::Server || in_session {
            let request = json!({ "project_id": self.name(), "prompt": prompt,
                "agent_config": { "agent_server": agent, "context_servers": servers } });
            let (answer, text) = instance.turn(request, BOUND).await;
            assert!(text.trim().ends_with("hello"), "{self}: {text}");
            self.session = answer["session_id"].as_str().map(str::to_owned);
        }
        self.program = self.pid(instance).await;
        let program = census::row(self.program).unwrap_or_else(|| panic!("{self} has ended"));
        self.warden = program.parent;
        self.cookie = program.cookie.unwrap_or_else(|| panic!("{self} has no cookie"));
        let wanted = self.misbehaviour.marked();
        until(format!("{self} has started everything"), BOUND, || self.marked().len() >= wanted)
            .await;
        self.members = self.living();
        assert!(!self.members.is_empty() && !stage.bystanders().is_empty());
        if self.misbehaviour == Misbehaviour::Stopped {
            census::signal(self.program, Signal::STOP);
        }
    }

    async fn pid(&self, instance: &Instance) -> u32 {
        let what = format!("{self} runs");
        let found = wait_until(&what, BOUND, async || match self.role {
            Role::Server => {
                let server = instance.server(&self.name()).await?;
                (server["state"] == "ready").then(|| server["pid"].as_u64()).flatten()
            }
            Role::Engine => self.engine(instance).await,
            Role::Terminal => self.terminal(),
        });
        u32::try_from(found.await).unwrap_or_default()
    }

    /// The pid of what a warden with the mark has started.
    fn terminal(&self) -> Option<u64> {
        let rows = census::table();
        let is_warden = |row: &&census::Row| {
            row.command.contains("gantry-warden") && row.command.contains(&self.mark)
        };
        let warden = rows.iter().find(is_warden)?.pid;
        rows.iter().find(|row| row.parent == warden).map(|row| u64::from(row.pid))
    }

    /// The pid of its session's engine.
    async fn engine(&self, instance: &Instance) -> Option<u64> {
        let list = instance.api("sessions_list", json!({})).await;
        let sessions = list["sessions"].as_array()?;
        let session = sessions.iter().find(|one| one["id"] == self.session())?;
        session["engine"]["pid"].as_u64()
    }

    pub async fn kill_engine(&self, instance: &Instance) {
        let engine = self.engine(instance).await.and_then(|pid| u32::try_from(pid).ok());
        let engine = engine.unwrap_or_else(|| panic!("{self} has no engine"));
        assert_ne!(engine, self.program);
        census::signal(engine, Signal::KILL);
    }

    /// Living processes with the mark, the bystander and the shells of the script not among
    /// them.
    fn marked(&self) -> Vec<census::Row> {
        let mut rows = census::table();
        rows.retain(|row| {
            row.pid != self.bystander.id()
                && row.command.contains(&self.mark)
                && !row.command.starts_with("bash -c")
                // What a terminal is before it becomes its command.
                && !row.command.starts_with("sh -c exec \"$0\"")
                && !row.command.contains("gantry-warden")
        });
        rows
    }

    /// Everything of this generation of the tree that lives.
    fn living(&self) -> Vec<census::Row> {
        let known: HashSet<(u32, u64)> =
            self.members.iter().map(|row| (row.pid, row.start)).collect();
        let mut rows = census::table();
        rows.retain(|row| {
            row.pid != self.bystander.id()
                && (row.cookie.as_ref() == Some(&self.cookie)
                    || known.contains(&(row.pid, row.start))
                    // Without a cookie only before the first crash or restart is it surely ours.
                    || known.is_empty() && row.cookie.is_none() && row.command.contains(&self.mark))
        });
        rows
    }

    pub fn kill_program(&self) {
        census::signal(self.program, Signal::KILL);
    }

    pub fn kill_warden(&self) {
        census::signal(self.warden, Signal::KILL);
    }

    /// Waits until nothing of this generation lives.
    pub async fn gone(&self, bound: Duration, cause: Cause) {
        let began = std::time::Instant::now();
        while !self.living().is_empty() {
            assert!(
                began.elapsed() < bound,
                "{self} after {cause:?}: survivors, {bound:?} before the end of the budget:\n{}",
                census::listing(&self.living())
            );
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    }

    /// Gives up what is left of the cell's place in the instance.
    pub async fn leave(&self, instance: &Instance) {
        if let Some(session) = &self.session {
            instance.api("session_stop", json!({ "session": session })).await;
        }
        if self.role == Role::Server && instance.server(&self.name()).await.is_some() {
            let input = json!({ "name": self.name() });
            instance.post("/api/servers_remove", &input).await;
        }
    }

    /// The end of the cell: nothing with its mark but the bystander, which is unharmed.
    pub async fn finish(mut self, bound: Duration) {
        let bound = bound + Duration::from_millis(500);
        let began = std::time::Instant::now();
        while !self.marked().is_empty() {
            assert!(
                began.elapsed() < bound,
                "{self} is not over:\n{}",
                census::listing(&self.marked())
            );
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        let harmed = self.bystander.try_wait().unwrap_or_else(|why| panic!("{why}"));
        assert!(harmed.is_none(), "{self}: its bystander ended: {harmed:?}");
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let _ = self.bystander.kill();
        let _ = self.bystander.wait();
        if std::thread::panicking() {
            census::kill(&self.living());
            census::kill(&self.marked());
        }
    }
}
