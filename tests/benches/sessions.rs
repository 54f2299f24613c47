//! What a session costs, in one run: `cargo xtask bench sessions`.
//!
//! A chat request on a warm engine until its answer (which comes when `session/prompt` was
//! written, so it is an upper bound); an update of the agent until its SSE bytes are read;
//! a turn of 20,000 updates against reading the same agent's pipe without Gantry, in
//! turn, round by round; memory over 100,000 updates more than a session keeps; the delay of
//! another session's updates while one has 2 MB of tool output after the other. The times are this machine's, the ratio
//! is what counts. With `--check` a figure over its limit fails the run.

#![allow(clippy::disallowed_methods, reason = "it starts the programs that it measures")]

use gantry_tests::{
    Instance, Stage, api,
    figures::{Report, median, status_mib},
    programs,
};
use serde_json::{Value, json};
use std::{
    process::Stdio,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

const CHATS: usize = 200;
const STAMPS: usize = 200;
const UPDATES: usize = 20_000;
const ROUNDS: usize = 8;
/// After so many turns a session keeps as many updates as it ever does, and the allocator has
/// its pools.
const WARM: usize = 3;
/// A tool's output in bytes, and how often it comes.
const OUTPUT: usize = 2_000_000;
const OUTPUTS: usize = 20;
const BOUND: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() {
    let stage = Stage::alone().await;
    let mut report = Report::default();
    let mut instance = Instance::start(&stage).await;
    let opened = instance.chat(chat(None, "ECHO hello")).await;
    let session = opened["session_id"].as_str().unwrap_or_default().to_owned();
    let mut progress = instance.progress(&session).await;
    progress.end_of_turn(BOUND).await;

    let mut times = Vec::new();
    for _ in 0..CHATS {
        let began = Instant::now();
        instance.chat(chat(Some(&session), "ECHO hi")).await;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        progress.end_of_turn(BOUND).await;
    }
    let p50 = median(times);
    report.at_most("chat request to prompt written, warm, p50", format!("{p50:.2} ms"), p50, 3.0);

    instance.chat(chat(Some(&session), &format!("STAMP {STAMPS} 5"))).await;
    let mut delays = Vec::new();
    while delays.len() < STAMPS {
        let stamp = progress.until("a stamp", BOUND, |event| event.name == "stamp").await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        delays.push(now.as_secs_f64() * 1e3 - at(&stamp.data) / 1e3);
    }
    progress.end_of_turn(BOUND).await;
    let p50 = median(delays);
    report.at_most("update of the agent to SSE bytes, p50", format!("{p50:.2} ms"), p50, 2.0);

    let mut last = progress.seen.last().and_then(|event| event.id.clone()).unwrap_or_default();
    drop(progress);
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    let mut before = 0.0;
    for round in 0..=ROUNDS {
        let times = (read_directly(&stage).await, turn(&instance, &session, &mut last).await);
        // The first is to warm up.
        if round > 0 {
            direct.push(times.0);
            through.push(times.1);
        }
        if round == WARM - 1 {
            before = status_mib(instance.pid, "RssAnon:");
        }
    }
    let after = status_mib(instance.pid, "RssAnon:");
    let (direct, through) = (median(direct), median(through));
    let ratio = through / direct;
    let figure = format!("{:.0} ms, directly {:.0} ms", through * 1e3, direct * 1e3);
    report.at_most("a turn of 20,000 updates, times the direct way", figure, ratio, 1.5);
    let updates = (ROUNDS + 1 - WARM) * UPDATES;
    // What lives is flat (a unit test counts it); threads take turns in holding free memory.
    let figure = format!("{before:.1} → {after:.1} MiB, {updates} updates");
    report.at_most("growth of memory over them, MiB", figure, after - before, 4.0);

    let (alone, beside) = besides_large_outputs(&instance).await;
    let figure = format!("p95 {beside:.2} ms, alone {alone:.2} ms");
    report.at_most("an update beside 2 MB tool outputs of another session", figure, beside, 20.0);

    instance.quit().await;
    stage.empty_but(&[], BOUND).await;
    stage.finish().await;
    report.print();
    if std::env::args().any(|arg| arg == "--check") && report.over() > 0 {
        std::process::exit(1);
    }
}

/// The delay of a session's updates in ms, at p95: alone, and while a session of another project
/// has one large tool output after the other.
async fn besides_large_outputs(instance: &Instance) -> (f64, f64) {
    let mut sessions = Vec::new();
    for project in ["quiet", "loud"] {
        let opened = instance.chat(in_project(project, None, "ECHO hello")).await;
        let session = opened["session_id"].as_str().unwrap_or_default().to_owned();
        instance.progress(&session).await.end_of_turn(BOUND).await;
        sessions.push(session);
    }
    let mut progress = instance.progress(&sessions[0]).await;
    progress.end_of_turn(BOUND).await;
    let mut p95 = [0.0; 2];
    for (round, p95) in p95.iter_mut().enumerate() {
        let script = format!("STAMP {STAMPS} 5");
        instance.chat(in_project("quiet", Some(&sessions[0]), &script)).await;
        let noise = async {
            if round == 1 {
                let script = format!("BULK {OUTPUTS} {OUTPUT}");
                instance.chat(in_project("loud", Some(&sessions[1]), &script)).await;
            }
        };
        let reading = async {
            let mut delays = Vec::new();
            while delays.len() < STAMPS {
                let stamp = progress.until("a stamp", BOUND, |event| event.name == "stamp").await;
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                delays.push(now.as_secs_f64() * 1e3 - at(&stamp.data) / 1e3);
            }
            delays
        };
        // Read while the other begins: a stamp that waits for its reader tells nothing.
        let (mut delays, ()) = tokio::join!(reading, noise);
        progress.end_of_turn(BOUND).await;
        delays.sort_by(f64::total_cmp);
        *p95 = delays[delays.len() * 95 / 100];
    }
    (p95[0], p95[1])
}

fn in_project(project: &str, session: Option<&str>, prompt: &str) -> Value {
    let mut request = chat(session, prompt);
    request["project_id"] = json!(project);
    request
}

fn chat(session: Option<&str>, prompt: &str) -> Value {
    let mut request = json!({
        "user_id": "u", "project_id": "p", "prompt": prompt,
        "agent_config": { "agent_server": programs::fake_agent(json!({})), "context_servers": {} },
    });
    if let Some(session) = session {
        request["session_id"] = json!(session);
    }
    request
}

/// The stamp, wherever the envelope has the update.
fn at(data: &Value) -> f64 {
    let inner = &data["data"];
    let update = if inner["update"].is_object() { &inner["update"] } else { inner };
    update["at"].as_f64().unwrap_or_else(|| panic!("no stamp in {data}"))
}

/// Seconds from the request to the end of the turn on a stream of its own, which is
/// read but not parsed. `last` is the id of the last event before it, and after it.
async fn turn(instance: &Instance, session: &str, last: &mut String) -> f64 {
    let url = format!("{}/computer/progress/{session}?after={last}", instance.url);
    let request = api::http_client().get(url).bearer_auth(&instance.token);
    let mut stream = request.send().await.unwrap_or_else(|why| panic!("{why}"));
    let began = Instant::now();
    instance.chat(chat(Some(session), &format!("CHUNKS {UPDATES}"))).await;
    let mut tail = String::new();
    loop {
        let chunk = stream.chunk().await.unwrap_or_else(|why| panic!("{why}"));
        let chunk = chunk.unwrap_or_else(|| panic!("the stream ended"));
        tail.push_str(&String::from_utf8_lossy(&chunk));
        if tail.contains("sessionPromptEnd") && tail.ends_with("\n\n") {
            let id = tail.rsplit("id: ").next().and_then(|rest| rest.lines().next());
            *last = id.unwrap_or_default().to_owned();
            return began.elapsed().as_secs_f64();
        }
        let keep = tail.ceil_char_boundary(tail.len().saturating_sub(1000));
        tail.drain(..keep);
    }
}

/// Seconds from the prompt to its answer, when the agent's lines are only read.
async fn read_directly(stage: &Stage) -> f64 {
    let mut command = stage.program("fake_agent");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut agent = command.spawn().unwrap_or_else(|why| panic!("fake_agent: {why}"));
    let (Some(mut input), Some(output)) = (agent.stdin.take(), agent.stdout.take()) else {
        panic!("no pipes");
    };
    let mut lines = BufReader::with_capacity(64 * 1024, output).lines();
    let mut ask = async |id: u64, method: &str, params: Value| -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        input
            .write_all(format!("{request}\n").as_bytes())
            .await
            .unwrap_or_else(|why| panic!("{why}"));
        let answer = format!("\"id\":{id}");
        loop {
            let line = lines.next_line().await.ok().flatten();
            let line = line.unwrap_or_else(|| panic!("the agent ended"));
            if line.contains(&answer) {
                return serde_json::from_str(&line).unwrap_or_default();
            }
        }
    };
    ask(1, "initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} })).await;
    let opened = ask(2, "session/new", json!({ "cwd": "/tmp", "mcpServers": [] })).await;
    let began = Instant::now();
    let prompt = json!([{ "type": "text", "text": format!("CHUNKS {UPDATES}") }]);
    let params = json!({ "sessionId": opened["result"]["sessionId"], "prompt": prompt });
    ask(3, "session/prompt", params).await;
    let took = began.elapsed().as_secs_f64();
    drop(input);
    let _ = agent.wait().await;
    took
}
