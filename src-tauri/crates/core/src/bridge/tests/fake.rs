//! Servers in memory. How one behaves is the first argument of its
//! configuration, a list of words: `delay=MS` (before it answers `initialize`),
//! `silent`, `dies` (at start), `dies-first=N` (its first N starts of that name), `deaf` (answers
//! no ping), `slow-end=MS`, `slow-call=MS`, `missing`, `mark=X` (what it answers to a call).

use super::super::process::{Launcher, Started, Tail, Tree};
use futures::{FutureExt, future::BoxFuture};
use gantry_supervisor::{Cause, Deadline, Ended, Exit, How, Launch, LaunchError};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream},
    sync::watch,
    time::Instant,
};

/// All fake servers.
#[derive(Clone, Default)]
pub struct World {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    pids: u32,
    alive: BTreeMap<u32, Process>,
    launches: HashMap<String, u32>,
    /// Two processes of one name with one script at the same time, seen at a launch.
    doubles: Vec<String>,
    most_starting: usize,
    /// Names whose processes die at once for now.
    gone: BTreeSet<String>,
}

struct Process {
    name: String,
    script: String,
    state: watch::Sender<Option<Exit>>,
    answering: bool,
}

impl World {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Names of the servers that have a process, one for each.
    pub fn alive(&self) -> Vec<String> {
        self.lock().alive.values().map(|process| process.name.clone()).collect()
    }

    /// The process of a server that there is only one of.
    pub fn pid(&self, name: &str) -> Option<u32> {
        let inner = self.lock();
        let mut found = inner.alive.iter().filter(|(_, process)| process.name == name);
        let pid = found.next().map(|(pid, _)| *pid);
        assert!(found.next().is_none(), "more than one `{name}`");
        pid
    }

    pub fn launches(&self, name: &str) -> u32 {
        self.lock().launches.get(name).copied().unwrap_or(0)
    }

    pub fn doubles(&self) -> Vec<String> {
        self.lock().doubles.clone()
    }

    /// The most servers that were launched and had not answered yet.
    pub fn most_starting(&self) -> usize {
        self.lock().most_starting
    }

    /// From now on, what a remote one is carried to is not there, or is there again.
    pub fn vanish(&self, name: &str, gone: bool) {
        let mut inner = self.lock();
        if gone {
            inner.gone.insert(name.to_owned())
        } else {
            inner.gone.remove(name)
        };
        drop(inner);
        if gone {
            self.crash(name);
        }
    }

    /// One process of this name dies.
    pub fn crash(&self, name: &str) {
        let inner = self.lock();
        if let Some(process) = inner.alive.values().find(|process| process.name == name) {
            process.state.send_replace(Some(Exit::Code(7)));
        }
    }
}

fn word<'a>(script: &'a str, key: &str) -> Option<&'a str> {
    script.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

fn number(script: &str, key: &str) -> u64 {
    word(script, key).map_or(0, |value| value.parse().unwrap())
}

fn has(script: &str, key: &str) -> bool {
    script.split(' ').any(|word| word == key)
}

/// The first argument; of a remote one what comes after `#` in its URL.
fn script_of(launch: &Launch) -> String {
    let first = launch.args[0].to_str().unwrap().to_owned();
    if first != "mcp" {
        return first;
    }
    assert_eq!(launch.args[1], "--carry");
    let (_, config) = launch.env.iter().find(|(name, _)| name == "GANTRY_MCP_CONFIG").unwrap();
    let config: Value = serde_json::from_str(config.to_str().unwrap()).unwrap();
    let url = config["mcpServers"][&launch.name]["url"].as_str().unwrap();
    url.split_once('#').map_or(String::new(), |(_, script)| script.to_owned())
}

impl Launcher for World {
    fn launch(&self, launch: Launch) -> BoxFuture<'static, Result<Started, LaunchError>> {
        let world = self.clone();
        async move {
            // A launch takes a moment, during which other things happen.
            tokio::time::sleep(Duration::from_millis(2)).await;
            let script = script_of(&launch);
            if has(&script, "missing") {
                return Err(LaunchError::NotFound {
                    program: "fake".into(),
                    searched: "/nowhere".into(),
                });
            }
            let gone = world.lock().gone.contains(&launch.name);
            let started = world.begin(launch.name.clone(), script);
            if gone {
                world.crash(&launch.name);
            }
            Ok(started)
        }
        .boxed()
    }
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "a fake process has no owner but the test")]
    fn begin(&self, name: String, script: String) -> Started {
        let mut inner = self.lock();
        inner.pids += 1;
        let pid = inner.pids;
        let count = inner.launches.entry(name.clone()).or_default();
        *count += 1;
        let dies = has(&script, "dies") || u64::from(*count) <= number(&script, "dies-first");
        if inner.alive.values().any(|other| other.name == name && other.script == script) {
            inner.doubles.push(name.clone());
        }
        let (state, _) = watch::channel(None);
        let process =
            Process { name, script: script.clone(), state: state.clone(), answering: false };
        inner.alive.insert(pid, process);
        let starting = inner.alive.values().filter(|process| !process.answering).count();
        inner.most_starting = inner.most_starting.max(starting);
        drop(inner);

        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(ours);
        let body = tokio::spawn(serve(self.clone(), pid, script.clone(), theirs));
        if dies {
            state.send_replace(Some(Exit::Code(3)));
        }
        // The process ends when its state says so.
        let (world, mut exit) = (self.clone(), state.subscribe());
        tokio::spawn(async move {
            let _ = exit.wait_for(Option::is_some).await;
            body.abort();
            world.lock().alive.remove(&pid);
        });
        let tree = FakeTree { pid, slow_end: number(&script, "slow-end"), state };
        let lines = if dies { vec!["KEY missing".to_owned()] } else { Vec::new() };
        Started {
            tree: Arc::new(tree),
            stdin: Box::new(writer),
            stdout: Box::new(reader),
            stderr: Arc::new(FakeTail(lines)),
        }
    }
}

async fn serve(world: World, pid: u32, script: String, stream: DuplexStream) {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    let mark = word(&script, "mark").unwrap_or("none").to_owned();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let Some(id) = message.get("id") else { continue };
        let method = message["method"].as_str().unwrap_or_default();
        if has(&script, "silent") || (has(&script, "deaf") && method == "ping") {
            continue;
        }
        let result = match method {
            "initialize" => {
                tokio::time::sleep(Duration::from_millis(number(&script, "delay"))).await;
                json!({ "protocolVersion": message["params"]["protocolVersion"],
                        "capabilities": { "tools": {} },
                        "serverInfo": { "name": "fake", "version": "1" } })
            }
            "tools/list" => {
                world.lock().alive.get_mut(&pid).into_iter().for_each(|p| p.answering = true);
                json!({ "tools": [
                    { "name": "who", "inputSchema": { "type": "object" } },
                    { "name": "other", "inputSchema": { "type": "object" } },
                ] })
            }
            "tools/call" => {
                // In the loop, as a server with one thread: no ping is answered meanwhile.
                tokio::time::sleep(Duration::from_millis(number(&script, "slow-call"))).await;
                let text = format!("{mark} {pid}");
                json!({ "content": [{ "type": "text", "text": text }] })
            }
            _ => json!({}),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string() + "\n";
        if writer.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

struct FakeTree {
    pid: u32,
    slow_end: u64,
    state: watch::Sender<Option<Exit>>,
}

impl Tree for FakeTree {
    fn id(&self) -> String {
        format!("fake-{}", self.pid)
    }
    fn pid(&self) -> u32 {
        self.pid
    }
    fn executable(&self) -> PathBuf {
        "/fake".into()
    }
    fn exited(&self) -> BoxFuture<'static, Exit> {
        let mut state = self.state.subscribe();
        async move { state.wait_for(Option::is_some).await.unwrap().unwrap() }.boxed()
    }
    fn stop(&self, _cause: Cause, deadline: Deadline) -> BoxFuture<'static, Ended> {
        let (state, slow) = (self.state.clone(), self.slow_end);
        async move {
            let begun = Instant::now();
            let own = begun + Duration::from_millis(slow);
            tokio::time::sleep_until(own.min(deadline.instant())).await;
            let forced = own > deadline.instant();
            state.send_if_modified(|exit| {
                let ends = exit.is_none();
                if ends {
                    *exit = Some(Exit::Signal(15));
                }
                ends
            });
            // Whoever removes it from the world runs before we say that it ended.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            let how = if forced { How::Killed } else { How::Terminated };
            Ended { how, processes: 1, forced: usize::from(forced), took: begun.elapsed() }
        }
        .boxed()
    }
}

#[derive(Debug)]
struct FakeTail(Vec<String>);

impl Tail for FakeTail {
    fn lines(&self, count: usize) -> Vec<String> {
        self.0.iter().rev().take(count).rev().cloned().collect()
    }
    fn settled(&self) -> BoxFuture<'_, ()> {
        futures::future::ready(()).boxed()
    }
}
