//! What the bridge costs: the time of a tool call over a bridge URL against the
//! same call over the server's own pipes. The ratio is what counts; the
//! milliseconds are this machine's.

#![allow(clippy::disallowed_methods, reason = "it starts the server that it measures")]

use gantry_tests::{Instance, McpClient, Stage, programs};
use serde_json::json;
use std::{
    process::Stdio,
    time::{Duration, Instant},
};

const CALLS: usize = 2_000;

#[tokio::main]
async fn main() {
    let stage = Stage::alone().await;

    let mut command = stage.program("fake_mcp");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.spawn().unwrap_or_else(|why| panic!("fake_mcp: {why}"));
    let (Some(input), Some(output)) = (server.stdin.take(), server.stdout.take()) else {
        panic!("no pipes");
    };
    let direct = McpClient::stdio(input, output).await.unwrap_or_else(|why| panic!("{why:#}"));
    let direct_times = times(&direct).await;
    direct.close_input().await;
    let _ = server.wait().await;

    let mut instance = Instance::start(&stage).await;
    let mut config = programs::fake_mcp(&[]);
    config["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": "echo", "config": config })).await;
    let server = instance.server_in("echo", "ready", Duration::from_secs(10)).await;
    let headers = [("authorization".to_owned(), format!("Bearer {}", instance.token))];
    let url = server["url"].as_str().unwrap_or_default();
    let bridged = McpClient::http(url, &headers).await.unwrap_or_else(|why| panic!("{why:#}"));
    let bridged_times = times(&bridged).await;
    instance.quit().await;
    stage.finish().await;

    println!("{:<10} {:>10} {:>10} {:>10}", "", "p50 µs", "p99 µs", "max µs");
    for (name, times) in [("direct", &direct_times), ("bridge", &bridged_times)] {
        let at = |share: usize| times[(times.len() - 1) * share / 100].as_micros();
        println!("{name:<10} {:>10} {:>10} {:>10}", at(50), at(99), at(100));
    }
    let middle = |times: &[Duration]| times[times.len() / 2].as_secs_f64();
    println!("ratio p50  {:>10.2}", middle(&bridged_times) / middle(&direct_times));
}

/// Sorted times of calls, one after another, after some to warm up.
async fn times(client: &McpClient) -> Vec<Duration> {
    let mut times = Vec::with_capacity(CALLS);
    for call in 0..CALLS + 100 {
        let began = Instant::now();
        let result = client.call("echo", json!({ "text": "hello" })).await;
        result.unwrap_or_else(|why| panic!("{why:#}"));
        if call >= 100 {
            times.push(began.elapsed());
        }
    }
    times.sort();
    times
}
