//! The official conformance suite: every scenario against a server directly,
//! and against the same server through the bridge with the URL and token that a
//! session's agent was given. The verdicts are the same, check by check.

use gantry_tests::{
    Front, Instance, Stage,
    conformance::{Suite, complaints, differences},
    programs, record,
};
use serde_json::{Value, json};
use std::{process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdin},
};

/// The server by itself; it ends with its input.
struct Direct {
    child: Child,
    input: ChildStdin,
    url: String,
}

impl Direct {
    async fn start(stage: &Stage) -> Self {
        let mut command = stage.program("conformance_fixture");
        command.arg("--http").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await;
        let line: Value = serde_json::from_str(&line.unwrap().unwrap().unwrap()).unwrap();
        Self { child, input, url: line["url"].as_str().unwrap().to_owned() }
    }

    async fn end(mut self) {
        drop(self.input);
        let ended = tokio::time::timeout(Duration::from_secs(10), self.child.wait()).await;
        assert!(ended.unwrap().unwrap().success());
    }
}

/// Opens a session with the fixture, and returns what its agent was given: URL and bearer.
async fn of_a_session(stage: &Stage, instance: &Instance) -> (String, String) {
    let record = stage.path("agent.jsonl");
    let env = json!({ "FAKE_AGENT_RECORD": record });
    let server = json!({ "command": programs::path("conformance_fixture"), "args": [] });
    let request = json!({
        "project_id": "p", "prompt": "TOOLS",
        "agent_config": {
            "agent_server": programs::fake_agent(env), "context_servers": { "fixture": server } },
    });
    let (answer, text) = instance.turn(request, Duration::from_secs(30)).await;
    assert!(text.contains("test_simple_text"), "{answer} {text}");
    let entry = &record::events(&record, "tools")[0]["entry"];
    let header = &entry["headers"][0];
    assert_eq!(header["name"].as_str().map(str::to_lowercase).as_deref(), Some("authorization"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&entry["url"]), text(&header["value"]))
}

/// Runs a suite both ways at once and holds the verdicts against each other.
async fn both_ways(suite: Suite, options: &[&str], least: usize) {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let direct = Direct::start(&stage).await;
    let (url, bearer) = of_a_session(&stage, &instance).await;
    let front = Front::start(&instance.url, &bearer).await;
    let through = format!("{}{}", front.url, url.strip_prefix(&instance.url).unwrap());
    let (direct_folder, through_folder) = (stage.path("direct"), stage.path("through"));
    let (directly, bridged) = futures::future::join(
        suite.run(&direct.url, options, &direct_folder),
        suite.run(&through, options, &through_folder),
    )
    .await;

    let complaints = complaints(&directly);
    assert!(complaints.is_empty(), "the fixture itself does not conform:\n{complaints}");
    let differences = differences(&directly, &bridged);
    assert!(differences.is_empty(), "the bridge makes a difference:\n{differences}");
    // None of it is empty talk: each scenario was run, and nearly each has a check that passed.
    let passed = directly.values().flatten().filter(|check| check.status == "SUCCESS").count();
    assert!(directly.len() >= least && passed >= least, "{} scenarios", directly.len());

    drop(front);
    direct.end().await;
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn the_stable_suite_sees_no_difference_between_a_server_and_the_bridge() {
    let scenarios = Suite::Stable.scenarios();
    assert_eq!(scenarios.len(), 32, "{scenarios:?}");
    both_ways(Suite::Stable, &["--suite", "all"], scenarios.len()).await;
}

#[tokio::test]
async fn the_next_suite_sees_no_difference_in_revision_2025_11_25() {
    both_ways(Suite::Next, &["--suite", "all", "--spec-version", "2025-11-25"], 33).await;
}
