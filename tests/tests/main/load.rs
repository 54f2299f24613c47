//! How much of it at once. `GANTRY_LOAD=long` runs the full numbers.

use gantry_tests::{Instance, Stage, api::chat_request, programs, wait_until};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

fn is_long() -> bool {
    std::env::var("GANTRY_LOAD").is_ok_and(|value| value == "long")
}

fn agent() -> Value {
    programs::fake_agent(json!({}))
}

async fn sessions(instance: &Instance) -> Vec<Value> {
    instance.api("sessions_list", json!({})).await["sessions"].as_array().unwrap().clone()
}

/// A value of `/metrics`.
async fn metric(instance: &Instance, name: &str) -> f64 {
    let response = instance.request(Method::GET, "/metrics").send().await.unwrap();
    let text = response.text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).parse().unwrap()
}

/// Case N9, the second half.
#[tokio::test]
async fn chats_with_different_servers_at_once_see_their_own_only() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    let count = if is_long() { 100 } else { 20 };
    let turns = (0..count).map(|number| {
        let instance = &instance;
        async move {
            let name = format!("server-{number}");
            let request = json!({ "project_id": "p", "prompt": "TOOLS", "ready_timeout_ms": 60_000,
                "agent_config": { "agent_server": agent(),
                    "context_servers": { name.clone(): programs::fake_mcp(&[]) } } });
            let (answer, text) = instance.turn(request, Duration::from_secs(120)).await;
            assert_eq!(answer["servers"][0]["state"], "ready", "{answer}");
            assert!(text.starts_with(&format!("{name}: ")) && text.lines().count() == 1, "{text}");
            answer["session_id"].as_str().unwrap().to_owned()
        }
    });
    let ids: HashSet<String> = futures::future::join_all(turns).await.into_iter().collect();
    assert_eq!(ids.len(), count);
    assert_eq!(stage.running("fake_mcp").len(), count);
    assert_eq!(stage.running("fake_agent").len(), 1);
    instance.quit().await;
    stage.finish().await;
}

/// 50 chats a second: no error, and memory and descriptors are back afterwards.
#[tokio::test]
async fn many_chats_a_second_leave_no_trace() {
    const EACH: Duration = Duration::from_millis(20);
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    let count = if is_long() { 3000 } else { 150 };
    let facts = |pid: u32| {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        (descriptors, line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap())
    };
    // The engine runs, so that what follows is the chats alone.
    let request = || {
        json!({ "project_id": "p", "prompt": "ECHO hello",
        "agent_config": { "agent_server": agent() } })
    };
    let (first, _) = instance.turn(request(), Duration::from_secs(20)).await;
    let before = facts(instance.pid);
    let began = Instant::now();
    let chats = (0..count).map(|number| {
        let instance = &instance;
        async move {
            tokio::time::sleep_until((began + EACH * number).into()).await;
            let answer = instance.post("/computer/chat", &chat_request(request())).await;
            assert!(answer.status.is_success(), "chat {number}: {} {}", answer.status, answer.body);
            answer.data()["session_id"].as_str().unwrap().to_owned()
        }
    });
    let ids: HashSet<String> = futures::future::join_all(chats).await.into_iter().collect();
    assert_eq!(ids.len(), count as usize);
    wait_until("every turn has ended", Duration::from_secs(60), async || {
        let ended = metric(&instance, "gantry_turns_total{reason=\"end_turn\"}").await;
        (ended >= f64::from(count) + 1.0).then_some(())
    })
    .await;
    assert!(metric(&instance, "gantry_turns_total{reason=\"error\"}").await < 0.5);
    let listed = Instant::now();
    assert_eq!(sessions(&instance).await.len(), count as usize + 1);
    assert!(listed.elapsed() < Duration::from_secs(20), "{:?}", listed.elapsed());

    for id in ids {
        instance.api("session_delete", json!({ "session": id })).await;
    }
    assert_eq!(sessions(&instance).await.len(), 1);
    wait_until("the descriptors are back", Duration::from_secs(10), async || {
        (facts(instance.pid).0 <= before.0 + 5).then_some(())
    })
    .await;
    let grown = facts(instance.pid).1.saturating_sub(before.1);
    assert!(grown < 80 << 10, "{grown} kB more than before");
    instance.api("session_stop", json!({ "session": first["session_id"] })).await;
    assert!(metric(&instance, "gantry_processes_ended_total").await >= 1.0);
    assert!(metric(&instance, "gantry_processes_survived_total").await < 0.5);
    instance.quit().await;
    stage.finish().await;
}

/// Case 82: a long list is read at once. Sessions that are not open cost no process.
#[tokio::test]
async fn a_thousand_sessions_are_listed_at_once() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    let config = json!({ "name": "Fake", "command": programs::path("fake_agent") });
    instance.api("agents_save", json!({ "id": "fake", "config": config })).await;
    let count = if is_long() { 1000 } else { 300 };
    let folder = stage.path("project");
    for part in (0..count).collect::<Vec<_>>().chunks(50) {
        let create = part.iter().map(|number| {
            let title = format!("session {number}");
            instance.api(
                "session_create",
                json!({ "project_dir": folder, "agent": "fake",
                "title": title, "servers": {} }),
            )
        });
        futures::future::join_all(create).await;
    }
    let began = Instant::now();
    assert_eq!(sessions(&instance).await.len(), count);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    instance.quit().await;
    stage.empty_but(&[], Duration::from_secs(1)).await;

    // After a restart all are there, and none has started anything.
    let mut instance = Instance::start(&stage).await;
    let began = Instant::now();
    assert_eq!(sessions(&instance).await.len(), count);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert!(stage.running("fake_agent").is_empty());
    instance.quit().await;
    stage.finish().await;
}
