//! What `gantry mcp` costs, against the server that it stands before, in one run:
//! `cargo xtask bench mcp`.
//!
//! Each figure is taken in turn, round by round, with and without `gantry mcp` between, so
//! that a busy moment of the machine hits both. The limits are those of the contract; the
//! ratios beside them do not depend on the machine. With `--check` a figure over
//! its limit fails the run.

#![allow(clippy::disallowed_methods, reason = "it starts the programs that it measures")]

use gantry_tests::{
    Instance, McpClient, Stage,
    figures::{Report, median, private_mib, status_mib},
    programs,
    proxy::config,
};
use serde_json::json;
use std::{
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
};

const STARTS: usize = 25;
const ROUNDS: usize = 9;
const CALLS: usize = 400;
const BOUND: Duration = Duration::from_secs(60);
const INITIALIZE: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}
"#;

#[tokio::main]
async fn main() {
    let stage = Stage::alone().await;
    let mut report = Report::default();
    let one = config(&json!({ "one": programs::fake_mcp(&[]) }));
    let two = config(&json!({ "one": programs::fake_mcp(&[]), "two": programs::fake_mcp(&[]) }));
    starts(&stage, &one, &two, &mut report).await;
    forwarding(&stage, &one, &two, &mut report).await;
    memory(&stage, &one, &mut report).await;
    stage.finish().await;
    report.print();
    if std::env::args().any(|arg| arg == "--check") && report.over() > 0 {
        std::process::exit(1);
    }
}

fn mcp(stage: &Stage, args: &[&str]) -> Command {
    let mut command = stage.program("gantry");
    command.arg("mcp").args(args);
    command
}

fn spawn(mut command: Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|why| panic!("{command:?}: {why}"))
}

/// From the start of the program to the answer to `initialize`, in milliseconds.
async fn start(command: Command) -> f64 {
    let began = Instant::now();
    let mut child = spawn(command);
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        panic!("no pipes");
    };
    input.write_all(INITIALIZE).await.unwrap_or_else(|why| panic!("{why}"));
    let mut line = String::new();
    let read = BufReader::new(output).read_line(&mut line).await;
    let took = began.elapsed().as_secs_f64() * 1e3;
    assert!(read.is_ok() && line.contains("protocolVersion"), "{line:?}");
    drop(input);
    let ended = tokio::time::timeout(BOUND, child.wait()).await;
    assert!(ended.is_ok_and(|status| status.is_ok_and(|status| status.success())));
    took
}

async fn starts(stage: &Stage, one: &str, two: &str, report: &mut Report) {
    let data = stage.text("nothing");
    let (mut bare, mut single, mut several, mut recall) = (vec![], vec![], vec![], vec![]);
    for round in 0..=STARTS {
        let times = [
            start(stage.program("fake_mcp")).await,
            start(mcp(stage, &["--config", one])).await,
            start(mcp(stage, &["--config", two])).await,
            start(mcp(stage, &["--recall", "--data-dir", &data])).await,
        ];
        // The first is to warm up.
        if round > 0 {
            let all = [&mut bare, &mut single, &mut several, &mut recall];
            for (times, time) in all.into_iter().zip(times) {
                times.push(time);
            }
        }
    }
    let bare = median(bare);
    report.tell("start to `initialize`, a bare server", format!("{bare:.1} ms"));
    for (what, times) in [("one server", single), ("two servers", several), ("recall", recall)] {
        let time = median(times);
        let figure = format!("{time:.1} ms, {:.1} × the bare server", time / bare);
        report.at_most(&format!("start to `initialize`, {what}, ms"), figure, time, 50.0);
    }
}

async fn connect(child: &mut Child) -> McpClient {
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        panic!("no pipes");
    };
    let client = tokio::time::timeout(BOUND, McpClient::stdio(input, output)).await;
    client.unwrap_or_else(|why| panic!("{why}")).unwrap_or_else(|why| panic!("{why:#}"))
}

/// The middle of so many calls one after the other, in milliseconds.
async fn calls(client: &McpClient, tool: &str, text: &str) -> f64 {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let began = Instant::now();
        let result = client.call(tool, json!({ "text": text })).await;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        let result = result.unwrap_or_else(|why| panic!("{why:#}"));
        assert_eq!(result["content"][0]["text"].as_str().map(str::len), Some(text.len()));
    }
    median(times)
}

async fn forwarding(stage: &Stage, one: &str, two: &str, report: &mut Report) {
    let mut instance = Instance::start(stage).await;
    let mut server = programs::fake_mcp(&[]);
    server["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": "echo", "config": server })).await;
    instance.server_in("echo", "ready", BOUND).await;
    let url = format!("{}/mcp/echo", instance.url);
    let header = format!("Authorization: Bearer {}", instance.token);

    let mut direct = spawn(stage.program("fake_mcp"));
    let mut single = spawn(mcp(stage, &["--config", one]));
    let mut several = spawn(mcp(stage, &["--config", two]));
    let mut carried = spawn(mcp(stage, &["--url", &url, "--header", &header]));
    let clients = [
        (connect(&mut direct).await, "echo"),
        (connect(&mut single).await, "echo"),
        (connect(&mut several).await, "one__echo"),
        (instance.mcp(&url).await, "echo"),
        (connect(&mut carried).await, "echo"),
    ];
    for (client, tool) in &clients {
        gantry_tests::wait_until("its tools are there", BOUND, async || {
            let names = client.tool_names().await.unwrap_or_default();
            names.iter().any(|name| name == tool).then_some(())
        })
        .await;
    }
    let text = "x".repeat(900);
    let mut rounds: [Vec<f64>; 5] = Default::default();
    for round in 0..=ROUNDS {
        for ((client, tool), times) in clients.iter().zip(&mut rounds) {
            let time = calls(client, tool, &text).await;
            if round > 0 {
                times.push(time);
            }
        }
    }
    let [direct_time, single_time, several_time, http_time, carried_time] = rounds.map(median);
    for (what, without, with) in [
        ("one server", direct_time, single_time),
        ("two servers", direct_time, several_time),
        ("a URL", http_time, carried_time),
    ] {
        let figure = format!("{without:.3} ms without, {with:.3} ms with, {:.2} ×", with / without);
        let what = format!("1 kB `tools/call`, {what}, added at p50, ms");
        report.at_most(&what, figure, with - without, 0.3);
    }
    for (client, _) in &clients {
        client.close_input().await;
    }
    for child in [&mut direct, &mut single, &mut several, &mut carried] {
        let ended = tokio::time::timeout(BOUND, child.wait()).await;
        assert!(ended.is_ok_and(|status| status.is_ok_and(|status| status.success())));
    }
    instance.quit().await;
}

/// At rest: initialised, its tools listed, nothing more asked of it.
async fn memory(stage: &Stage, one: &str, report: &mut Report) {
    let data = stage.text("nothing");
    // Nobody listens there.
    let nowhere = "http://127.0.0.1:9/mcp";
    for (what, args, upstream) in [
        ("recall", &["--recall", "--data-dir", &data], false),
        ("a URL where nobody listens", &["--url", nowhere, "--protocol=streamable-http"], false),
        ("one server", &["--config", one, "--protocol=streamable-http"], true),
    ] {
        let mut child = spawn(mcp(stage, args));
        let client = connect(&mut child).await;
        let _ = client.tools().await;
        let pid = child.id().unwrap_or_default();
        let ((private, program), resident) = (private_mib(pid), status_mib(pid, "VmRSS:"));
        let figure = format!(
            "{private:.1} MiB, and {program:.1} of its program file; resident {resident:.1}"
        );
        if upstream {
            report.tell(&format!("memory at rest, {what}"), figure);
        } else {
            report.at_most(
                &format!("memory at rest, {what}, MiB of its own"),
                figure,
                private,
                5.0,
            );
        }
        client.close_input().await;
        let _ = tokio::time::timeout(BOUND, child.wait()).await;
    }
}
