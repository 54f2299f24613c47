//! What ending everything costs: a warden's time and memory, the stop of a polite tree, and
//! the quit of eight servers and two engines, polite and stubborn. Fails when a figure is over
//! the limit that stands beside it.

#![allow(clippy::disallowed_methods, reason = "it starts what it measures")]

use gantry_supervisor::{Cause, Deadline, How, Launch, Role, Scope, Supervisor};
use gantry_tests::{Instance, Stage, census, programs};
use serde_json::{Value, json};
use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

const BOUND: Duration = Duration::from_secs(30);
const ROUNDS: usize = 20;
const SERVERS: usize = 8;
const ENGINES: usize = 2;

#[tokio::main]
async fn main() {
    let bare = start(None).await;
    let warded = start(Some(programs::path("gantry-warden"))).await;
    let (private, pss) = warden_memory().await;
    let stop = polite_stop().await;
    let polite = quit(false).await;
    let stubborn = quit(true).await;

    println!("{:<44} {:>10} {:>10}", "", "measured", "limit");
    let mut over = 0;
    let mut row = |what: &str, measured: f64, unit: &str, limit: f64| {
        let verdict = if measured < limit { "" } else { "  OVER" };
        over += usize::from(measured >= limit);
        println!("{what:<44} {measured:>7.1} {unit:<2} {limit:>7.0} {unit:<2}{verdict}");
    };
    let ms = |span: Duration| span.as_secs_f64() * 1000.0;
    row("a warden adds to a start", ms(warded.saturating_sub(bare)), "ms", 10.0);
    row("a warden's own memory (private)", private, "MB", 2.0);
    row("a warden's share of memory (PSS)", pss, "MB", 4.0);
    row("stop of a polite session, median", ms(stop), "ms", 100.0);
    row("quit, 8 servers and 2 engines, polite", ms(polite), "ms", 700.0);
    row("quit, 8 servers and 2 engines, stubborn", ms(stubborn), "ms", 5000.0);
    println!("start of a program: {:.1} ms alone, {:.1} ms with a warden", ms(bare), ms(warded));
    assert_eq!(over, 0, "{over} figures are over their limit");
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

/// The median time from the call to the running program, with a warden or without.
async fn start(warden: Option<PathBuf>) -> Duration {
    let scope = Scope::root("bench");
    let supervisor = Supervisor::new(scope.clone(), warden);
    let mut times = Vec::new();
    for _ in 0..ROUNDS * 5 {
        let launch = Launch {
            name: "cat".into(),
            role: Role::Server,
            program: "cat".into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            grace: Duration::from_secs(1),
        };
        let began = Instant::now();
        let child = supervisor.launch(launch).await.unwrap_or_else(|why| panic!("cat: {why}"));
        times.push(began.elapsed());
        let ended = child.tree.stop(Cause::Unused, Deadline::after(BOUND)).await;
        assert_eq!(ended.how, How::Exited);
    }
    scope.close(Deadline::after(BOUND)).await;
    median(times)
}

fn saved(stubborn: bool) -> Value {
    let args: &[&str] = if stubborn { &["--ignore-eof", "--ignore-term"] } else { &[] };
    let mut config = programs::fake_mcp(args);
    config["persistent"] = json!(true);
    config
}

/// Megabytes, private and proportional, of a warden around a running server.
async fn warden_memory() -> (f64, f64) {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    instance.api("servers_save", json!({ "name": "one", "config": saved(false) })).await;
    instance.server_in("one", "ready", BOUND).await;
    let warden = stage.running("gantry-warden")[0].pid;
    let sums = fs::read_to_string(format!("/proc/{warden}/smaps_rollup"));
    let sums = sums.unwrap_or_else(|why| panic!("{why}"));
    let sum = |start: &str| -> f64 {
        let lines = sums.lines().filter(|line| line.starts_with(start));
        let kilobytes =
            lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        kilobytes.sum::<f64>() / 1024.0
    };
    let figures = (sum("Private_"), sum("Pss:"));
    instance.quit().await;
    stage.finish().await;
    figures
}

/// A session with an engine and a server of its own.
fn request(project: usize, stubborn: bool) -> Value {
    let variables = if stubborn { json!({ "FAKE_AGENT_STUBBORN": "1" }) } else { json!({}) };
    json!({ "project_id": format!("p{project}"), "prompt": "ECHO hello",
            "agent_config": { "agent_server": programs::fake_agent(variables) } })
}

/// From the request of a session's stop to its answer, when nothing of it is left.
async fn polite_stop() -> Duration {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let (answer, _) = instance.turn(request(round, false), BOUND).await;
        let began = Instant::now();
        instance.api("session_stop", json!({ "session": answer["session_id"] })).await;
        times.push(began.elapsed());
        assert!(stage.running("fake_agent").is_empty());
    }
    instance.quit().await;
    stage.finish().await;
    median(times)
}

/// From SIGTERM to the end of the program, everything idle.
async fn quit(stubborn: bool) -> Duration {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    for number in 0..SERVERS {
        let input = json!({ "name": format!("s{number}"), "config": saved(stubborn) });
        instance.api("servers_save", input).await;
    }
    for number in 0..SERVERS {
        instance.server_in(&format!("s{number}"), "ready", BOUND).await;
    }
    for project in 0..ENGINES {
        instance.turn(request(project, stubborn), BOUND).await;
    }
    assert_eq!(stage.running("gantry-warden").len(), SERVERS + ENGINES);
    let began = Instant::now();
    census::signal(instance.pid, rustix::process::Signal::TERM);
    instance.ended_cleanly().await;
    let took = began.elapsed();
    stage.finish().await;
    took
}
