//! Random walks over everything that starts and ends processes, with overlaps. A plain run
//! takes a few walks of a fixed seed; `GANTRY_TEST_WALKS=1000` takes as many as it says, and
//! `GANTRY_TEST_SEED` another seed.
//!
//! During a walk no two processes of one server generation live (each locks a file of its
//! own and notes a conflict), and every request is answered. After it, numbers of processes,
//! zombies and descriptors are what they were; after an end of the app, nothing is left.

use gantry_tests::{Api, Instance, Stage, api, census, programs, wait_until};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{collections::HashSet, fs, time::Duration};
use tokio::task::JoinSet;

/// For what must come; generous on a busy machine.
const BOUND: Duration = Duration::from_secs(60);
/// Between two ends of the app.
const WALKS_PER_LIFE: u64 = 4;

/// Numbers that look random and are the same for one seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let index = usize::try_from(self.below(all.len() as u64)).unwrap_or(0);
        all.get(index).cloned()
    }
}

/// What of the core must return to its number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Base {
    processes: usize,
    zombies: usize,
    descriptors: usize,
}

struct Walk<'a> {
    stage: &'a Stage,
    dice: Dice,
    /// Of the saved server's configuration.
    version: u64,
    /// A warden was killed, and its tree may not be ended yet: when the app is killed now,
    /// too, the next start ends it (`ARCHITECTURE.md`).
    warden_killed: bool,
    requests: JoinSet<()>,
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test]
async fn walks_leave_nothing_and_nobody_twice() {
    let walks = from_environment("GANTRY_TEST_WALKS").unwrap_or(12);
    let seed = from_environment("GANTRY_TEST_SEED").unwrap_or(0x006a_2026);
    let stage = Stage::alone().await;
    let mut walk = Walk {
        stage: &stage,
        dice: Dice(seed),
        version: 0,
        warden_killed: false,
        requests: JoinSet::new(),
    };
    println!("seed {seed}");
    for life in 0..walks.div_ceil(WALKS_PER_LIFE) {
        walk.life(life).await;
    }
    // The last life may have ended without an end.
    Instance::start(&stage).await.quit().await;
    for conflicts in fs::read_dir(stage.path(".")).unwrap().flatten() {
        let name = conflicts.file_name().into_string().unwrap();
        assert!(!name.ends_with("conflicts"), "two processes of one generation: {name}");
    }
    stage.finish().await;
}

impl Walk<'_> {
    /// A server that notes when another of the same generation lives.
    fn server(&self, generation: &str) -> Value {
        programs::fake_mcp(&["--lock", &self.stage.text(&format!("lock-{generation}"))])
    }

    async fn life(&mut self, life: u64) {
        let mut instance = Instance::start(self.stage).await;
        self.configure(&instance).await;
        self.start_session(&instance, &json!({}));
        self.settle(&instance).await;
        let base = self.quiet(&instance).await;
        for walk in 0..WALKS_PER_LIFE {
            let steps = 4 + self.dice.below(8);
            println!("life {life} walk {walk}: {steps} steps from {base:?}");
            for _ in 0..steps {
                self.step(&instance).await;
            }
            if walk + 1 < WALKS_PER_LIFE {
                self.settle(&instance).await;
                self.returns_to(&instance, &base).await;
                self.warden_killed = false;
            }
        }
        self.end(&mut instance).await;
        self.answered().await;
    }

    async fn step(&mut self, instance: &Instance) {
        let choice = self.dice.below(20);
        println!("  step {choice}");
        match choice {
            0..6 => {
                let own = self.dice.below(2);
                let servers = json!({ "own": self.server(&format!("own-{own}")) });
                self.start_session(instance, &servers);
            }
            6..9 => self.prompt(instance).await,
            9 => self.on_session(instance, "session_cancel").await,
            10..13 => self.on_session(instance, "session_stop").await,
            13 => self.kill_one("fake_agent"),
            14..16 => self.kill_one("fake_mcp"),
            16 => {
                self.kill_one("gantry-warden");
                self.warden_killed = true;
            }
            17 => self.send(instance, "/api/servers_restart", json!({ "name": "saved" })),
            _ => self.configure(instance).await,
        }
        // Often not at all, so that the next step overlaps with this one.
        let pause = self.dice.below(3) * self.dice.below(120);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    /// Sends a request that nobody waits for yet. It may fail: what it is about may be gone.
    fn send(&mut self, instance: &Instance, path: &str, body: Value) {
        let request = instance.request(Method::POST, path).json(&body);
        self.requests.spawn(async move {
            drop(request.send().await);
        });
    }

    fn start_session(&mut self, instance: &Instance, servers: &Value) {
        let project = self.dice.below(3);
        let prompt = self.dice.one_of(&["ECHO hello", "SLOW 300", "HANG", "TOOLS"]);
        let spawned = if self.dice.below(16) == 0 { "setsid,daemon" } else { "" };
        let agent = programs::fake_agent(json!({ "FAKE_AGENT_SPAWN": spawned }));
        let request = json!({ "project_id": format!("p{project}"), "prompt": prompt,
            "agent_config": { "agent_server": agent, "context_servers": servers } });
        self.send(instance, "/computer/chat", api::chat_request(request));
    }

    async fn prompt(&mut self, instance: &Instance) {
        let Some(session) = self.session(instance).await else { return };
        let content = json!([{ "type": "text", "text": "SLOW 200" }]);
        let input = json!({ "session": session, "content": content, "queue": true });
        self.send(instance, "/api/session_prompt", input);
    }

    async fn on_session(&mut self, instance: &Instance, command: &str) {
        let Some(session) = self.session(instance).await else { return };
        self.send(instance, &format!("/api/{command}"), json!({ "session": session }));
    }

    async fn session(&mut self, instance: &Instance) -> Option<String> {
        let sessions = sessions(instance).await;
        self.dice.one_of(&sessions)
    }

    fn kill_one(&mut self, program: &str) {
        let running = self.stage.running(program);
        if let Some(row) = self.dice.one_of(&running) {
            census::signal(row.pid, Signal::KILL);
        }
    }

    /// Saves a persistent server, each time another one under the same name.
    async fn configure(&mut self, instance: &Instance) {
        self.version += 1;
        let mut config = self.server(&format!("saved-{}", self.version));
        config["persistent"] = json!(true);
        self.send(instance, "/api/servers_save", json!({ "name": "saved", "config": config }));
    }

    /// Every request is answered, whatever was killed meanwhile.
    async fn answered(&mut self) {
        let all = async { while self.requests.join_next().await.is_some() {} };
        let answered = tokio::time::timeout(BOUND, all).await;
        assert!(answered.is_ok(), "{} requests are not answered", self.requests.len());
    }

    /// Stops all sessions, and waits until the saved server is there again.
    async fn settle(&mut self, instance: &Instance) {
        // Those that are still being opened come into the list first.
        let stops = async {
            while !self.requests.is_empty() {
                stop_all(instance).await;
                let _ = tokio::time::timeout(Duration::from_millis(50), self.requests.join_next())
                    .await;
            }
            stop_all(instance).await;
        };
        let settled = tokio::time::timeout(BOUND, stops).await;
        assert!(settled.is_ok(), "{} requests are not answered", self.requests.len());
        // One that was killed too often has failed for good; that is its right.
        let state = wait_until("the saved server has settled", BOUND, async || {
            let server = instance.server("saved").await?;
            let state = server["state"].as_str()?.to_owned();
            ["ready", "failed"].contains(&state.as_str()).then_some(state)
        })
        .await;
        if state == "failed" {
            instance.api("servers_restart", json!({ "name": "saved" })).await;
            instance.server_in("saved", "ready", BOUND).await;
        }
    }

    fn base(&self, instance: &Instance) -> Base {
        Base {
            processes: self.stage.members().len(),
            zombies: census::zombies_of(instance.pid).len(),
            descriptors: descriptors(instance.pid),
        }
    }

    /// The base when nothing is on its way any more.
    async fn quiet(&self, instance: &Instance) -> Base {
        let mut last = self.base(instance);
        let mut same = 0;
        while same < 10 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let now = self.base(instance);
            same = if now == last { same + 1 } else { 0 };
            last = now;
        }
        last
    }

    async fn returns_to(&self, instance: &Instance, base: &Base) {
        let mut now = self.base(instance);
        let began = std::time::Instant::now();
        // Fewer descriptors than at the beginning are as good.
        let is_base = |now: &Base| {
            (now.processes, now.zombies) == (base.processes, base.zombies)
                && now.descriptors <= base.descriptors
        };
        while !is_base(&now) {
            assert!(
                began.elapsed() < BOUND,
                "{now:?} instead of {base:?}:\n{}",
                census::listing(&self.stage.members())
            );
            tokio::time::sleep(Duration::from_millis(30)).await;
            now = self.base(instance);
        }
    }

    /// One of the ways to end the app.
    async fn end(&mut self, instance: &mut Instance) {
        let mut choice = self.dice.below(5);
        println!("  end {choice}");
        if std::mem::take(&mut self.warden_killed) && choice == 3 {
            choice = 4;
        }
        match choice {
            0 => {
                instance.api("quit", json!({})).await;
                instance.ended_cleanly().await;
            }
            1 => {
                instance.quit().await;
            }
            2 => {
                instance.signal(Signal::TERM);
                tokio::time::sleep(Duration::from_millis(1050)).await;
                instance.signal(Signal::INT);
                let (status, _) = instance.ended(Duration::from_millis(2500)).await;
                assert_eq!(status.code(), Some(0), "{}", instance.log());
            }
            3 => {
                instance.signal(Signal::KILL);
                instance.ended(BOUND).await;
            }
            _ => {
                instance.signal(Signal::KILL);
                instance.ended(BOUND).await;
                // The next life begins at once: its start ends what is left.
                return;
            }
        }
        let bound = Duration::from_millis(if choice == 3 { 2000 } else { 100 });
        self.stage.empty_but(&[], bound).await;
    }
}

async fn sessions(instance: &Api) -> Vec<String> {
    let list = instance.api("sessions_list", json!({})).await;
    let open = list["sessions"].as_array().into_iter().flatten();
    let open = open.filter(|session| session["state"] != "stopped");
    open.filter_map(|session| session["id"].as_str().map(str::to_owned)).collect()
}

async fn stop_all(instance: &Instance) {
    let ids = sessions(instance).await;
    let stops = ids
        .iter()
        .map(async |id| instance.post("/api/session_stop", &json!({ "session": id })).await);
    futures::future::join_all(stops).await;
}

/// Open descriptors of a process, its TCP connections not counted: those are ours.
fn descriptors(pid: u32) -> usize {
    let mut tcp = HashSet::new();
    for family in ["tcp", "tcp6"] {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{family}")).unwrap_or_default();
        tcp.extend(
            table
                .lines()
                .filter_map(|line| line.split_whitespace().nth(9))
                .map(|inode| format!("socket:[{inode}]")),
        );
    }
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let open = links.filter_map(|entry| fs::read_link(entry.path()).ok());
    open.filter(|link| !tcp.contains(&*link.to_string_lossy())).count()
}

fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().count()
}

/// Memory that this process alone has written to, in kilobytes. Pages of the program's file
/// count or not depending on who else runs it.
fn private_memory(pid: u32) -> u64 {
    let sums = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let private = sums.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
    private.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Case 9, and more: 200 cycles with `GANTRY_TEST_FULL=1`, 48 otherwise.
#[tokio::test]
async fn cycles_of_a_session_leave_the_core_as_it_was() {
    let cycles = if std::env::var_os("GANTRY_TEST_FULL").is_some() { 200 } else { 48 };
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let mut base = None;
    let mut figures = Vec::new();
    for cycle in 0..cycles {
        let request = json!({ "project_id": "p", "prompt": "TOOLS", "agent_config": {
            "agent_server": programs::fake_agent(json!({})),
            "context_servers": { "own": programs::fake_mcp(&[]) } } });
        let (answer, text) = instance.turn(request, BOUND).await;
        assert!(text.starts_with("own: "), "{text}");
        let session = json!({ "session": answer["session_id"] });
        instance.api("session_delete", session).await;
        stage.empty_but(&[instance.pid], Duration::from_secs(1)).await;
        let now = (private_memory(instance.pid), threads(instance.pid), descriptors(instance.pid));
        // The first quarter warms up: caches fill, pools grow.
        if cycle == cycles / 4 {
            base = Some(now);
        }
        if cycle % (cycles / 8) == 0 || cycle + 1 == cycles {
            figures.push(now);
        }
    }
    println!("private kB, threads, descriptors: {figures:?}");
    let (Some(base), Some(end)) = (base, figures.last()) else { panic!("no cycles") };
    assert!(end.0 < base.0 + base.0 / 10 + 1024, "memory grew: {figures:?}");
    assert!(end.1 <= base.1 + 4, "threads grew: {figures:?}");
    assert!(end.2 <= base.2 + 1, "descriptors grew: {figures:?}");
    assert_eq!(census::zombies_of(instance.pid), Vec::<u32>::new());
    instance.quit().await;
    stage.finish().await;
}
