//! `/metrics` as Prometheus reads it.

use gantry_tests::{Instance, Stage, programs, python, wait_until};
use reqwest::Method;
use serde_json::json;
use std::{process::Stdio, time::Duration};
use tokio::io::AsyncWriteExt;

/// What issue after issue has asked for; a name here is a promise to dashboards.
const FAMILIES: &[&str] = &[
    "gantry_build_info",
    "gantry_permission_requests",
    "gantry_processes",
    "gantry_processes_ended",
    "gantry_processes_killed",
    "gantry_processes_survived",
    "gantry_server_ready_seconds",
    "gantry_server_restarts",
    "gantry_servers",
    "gantry_sessions",
    "gantry_stops",
    "gantry_stray_processes",
    "gantry_turn_duration_seconds",
    "gantry_turns",
    "gantry_uptime_seconds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
];

async fn text(instance: &Instance) -> String {
    let response = instance.request(Method::GET, "/metrics").send().await.unwrap();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    response.text().await.unwrap()
}

/// Reads it with the parser of Prometheus' own Python client, and returns the families.
async fn families(stage: &Stage, text: &str) -> Vec<String> {
    let mut lint = stage.command(python::program("python"));
    lint.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/prometheus/lint.py"));
    lint.env("PYTHONDONTWRITEBYTECODE", "1");
    lint.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut lint = lint.spawn().unwrap();
    lint.stdin.take().unwrap().write_all(text.as_bytes()).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(30), lint.wait_with_output()).await;
    let output = ended.expect("it ends").unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}\n{errors}\n{text}");
    let found = said.lines().find_map(|line| line.strip_prefix("families: ")).unwrap();
    found.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn prometheus_can_read_it_before_and_after_something_has_happened() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let before = text(&instance).await;
    assert_eq!(families(&stage, &before).await, FAMILIES);
    for line in [
        "gantry_servers{state=\"ready\"} 0",
        "gantry_servers{state=\"failed\"} 0",
        "gantry_servers{state=\"degraded\"} 0",
        "gantry_sessions{state=\"waiting_for_you\"} 0",
        "gantry_processes{role=\"app\"} 1",
        "gantry_processes{role=\"terminal\"} 0",
        "gantry_turns_total{reason=\"refusal\"} 0",
    ] {
        assert!(before.lines().any(|found| found == line), "{line} is missing in\n{before}");
    }

    let agent = programs::fake_agent(json!({}));
    let turn = |prompt: &str| {
        json!({ "project_id": "p", "prompt": prompt, "agent_config": { "agent_server": agent,
            "context_servers": { "one": programs::fake_mcp(&[]) } } })
    };
    for prompt in ["TOOLS", "REFUSE", "ERROR no"] {
        instance.turn(turn(prompt), Duration::from_secs(20)).await;
    }
    // The counts follow the events.
    let after = wait_until("the turns are counted", Duration::from_secs(5), async || {
        let text = text(&instance).await;
        text.contains("gantry_turns_total{reason=\"error\"} 1\n").then_some(text)
    })
    .await;
    assert_eq!(families(&stage, &after).await, FAMILIES);
    for line in [
        "gantry_servers{state=\"ready\"} 1",
        "gantry_sessions{state=\"idle\"} 3",
        "gantry_processes{role=\"engine\"} 1",
        "gantry_processes{role=\"server\"} 1",
        "gantry_turns_total{reason=\"end_turn\"} 1",
        "gantry_turns_total{reason=\"refusal\"} 1",
        "gantry_turns_total{reason=\"error\"} 1",
        "gantry_turn_duration_seconds_count 3",
        "gantry_server_ready_seconds_count 1",
    ] {
        assert!(after.lines().any(|found| found == line), "{line} is missing in\n{after}");
    }
    instance.quit().await;
    stage.finish().await;
}
