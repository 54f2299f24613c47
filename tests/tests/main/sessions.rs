//! Sessions, their engine and the leases on their servers.

mod terminals;

use gantry_tests::{Instance, Stage, programs, record, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(20);

fn request(stage: &Stage, prompt: &str) -> Value {
    json!({
        "project_id": "p", "prompt": prompt,
        "agent_config": {
            "agent_server": programs::fake_agent(json!({ "FAKE_AGENT_RECORD": stage.path("agent.jsonl") })),
            "context_servers": { "own": programs::fake_mcp(&[]) },
        },
    })
}

async fn stop(instance: &Instance, session: &Value) -> Value {
    let body = json!({ "user_id": "tester", "project_id": "p", "session_id": session });
    let answer = instance.post("/computer/agent/session/stop", &body).await;
    assert!(answer.status.is_success(), "{answer:?}");
    // Known answers come bare or in the envelope.
    if answer.body["data"].is_object() { answer.body["data"].clone() } else { answer.body }
}

#[tokio::test]
async fn the_last_session_ends_the_engine_and_its_servers_and_a_persistent_server_keeps_its_pid() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let mut config = programs::fake_mcp(&["--label", "kept"]);
    config["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": "kept", "config": config })).await;
    let kept = instance.server_in("kept", "ready", BOUND).await["pid"].clone();

    let (first, agent) = instance.turn(request(&stage, "PID"), BOUND).await;
    let (second, same_agent) = instance.turn(request(&stage, "PID"), BOUND).await;
    assert_eq!((&first["engine"], &second["engine"]), (&json!("started"), &json!("reused")));
    assert_eq!(agent, same_agent);
    assert_ne!(first["session_id"], second["session_id"]);

    let stopped = stop(&instance, &first["session_id"]).await;
    assert_eq!(stopped["engine_stopped"], false, "{stopped}");
    assert_eq!(stopped["servers_stopped"], json!([]), "{stopped}");
    assert_eq!(stage.running("fake_agent").len(), 1);
    assert_eq!(stage.running("fake_mcp").len(), 2);

    let stopped = stop(&instance, &second["session_id"]).await;
    assert_eq!(stopped["engine_stopped"], true, "{stopped}");
    assert_eq!(stopped["servers_stopped"], json!(["own"]), "{stopped}");
    assert!(stopped["processes_ended"].as_u64() >= Some(2), "{stopped}");
    assert_eq!(stopped["forced"], 0, "{stopped}");
    // Ended at its end of input, before any signal (case 4).
    assert_eq!(record::events(&stage.path("agent.jsonl"), "end of input").len(), 1);
    assert!(instance.log().contains("No sessions left, stopping engine"), "{}", instance.log());
    assert_eq!(stage.running("fake_agent").len(), 0);
    let servers = stage.running("fake_mcp");
    assert_eq!(servers.len(), 1, "{servers:?}");
    assert_eq!(json!(servers[0].pid), kept);
    assert_eq!(instance.server_in("kept", "ready", BOUND).await["pid"], kept);

    let (third, new_agent) = instance.turn(request(&stage, "PID"), BOUND).await;
    assert_eq!(third["engine"], "started", "{third}");
    assert_ne!(agent, new_agent);
    instance.quit().await;
    stage.finish().await;
}

/// Case 1.
#[tokio::test]
async fn twenty_sessions_opened_and_stopped_leave_nothing() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let requests = (0..20)
        .map(async |number| instance.turn(request(&stage, &format!("ECHO {number}")), BOUND).await);
    let sessions = futures::future::join_all(requests).await;
    assert_eq!(stage.running("fake_agent").len(), 1);
    assert_eq!(stage.running("fake_mcp").len(), 1);
    for (answer, _) in &sessions {
        stop(&instance, &answer["session_id"]).await;
    }
    stage.empty_but(&[instance.pid], Duration::from_secs(5)).await;
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_stop_ends_what_a_stubborn_agent_and_its_stubborn_server_started() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let children = "plain,setsid,daemon,cleared,holding";
    let request = json!({
        "project_id": "p", "prompt": "ECHO here",
        "agent_config": {
            "agent_server": programs::fake_agent(json!({
                "FAKE_AGENT_STUBBORN": "1", "FAKE_AGENT_SPAWN": children })),
            "context_servers": {
                "own": programs::fake_mcp(&["--ignore-term", "--ignore-eof", "--spawn", children]),
            },
        },
    });
    let (answer, _) = instance.turn(request, BOUND).await;
    assert_eq!(stage.running("stubborn").len(), 10);
    let stopped = stop(&instance, &answer["session_id"]).await;
    assert!(stopped["forced"].as_u64() >= Some(12), "{stopped}");
    stage.empty_but(&[instance.pid], Duration::from_millis(100)).await;
    instance.quit().await;
    stage.finish().await;
}

/// Case 21.
#[tokio::test]
async fn a_server_that_ends_only_at_its_end_of_input_needs_no_force() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let mut request = request(&stage, "ECHO here");
    request["agent_config"]["context_servers"] =
        json!({ "own": programs::fake_mcp(&["--ignore-term"]) });
    let (answer, _) = instance.turn(request, BOUND).await;
    let began = std::time::Instant::now();
    let stopped = stop(&instance, &answer["session_id"]).await;
    assert_eq!(stopped["forced"], 0, "{stopped}");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    stage.empty_but(&[instance.pid], Duration::from_millis(100)).await;
    instance.quit().await;
    stage.finish().await;
}

/// Case 6.
#[tokio::test]
async fn a_hundred_turns_leave_the_number_of_processes_flat() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let (first, _) = instance.turn(request(&stage, "ECHO 0"), BOUND).await;
    let pids = |rows: Vec<gantry_tests::census::Row>| {
        rows.into_iter().map(|row| row.pid).collect::<std::collections::BTreeSet<u32>>()
    };
    let before = pids(stage.members());
    for turn in 1..=100 {
        let mut next = request(&stage, &format!("ECHO {turn}"));
        next["session_id"] = first["session_id"].clone();
        let (_, text) = instance.turn(next, BOUND).await;
        assert_eq!(text, turn.to_string());
    }
    assert_eq!(pids(stage.members()), before);
    let zombies = gantry_tests::census::zombies_of(instance.pid);
    assert_eq!(zombies, Vec::<u32>::new());
    instance.quit().await;
    stage.finish().await;
}

/// Case 32.
#[tokio::test]
async fn an_agent_that_is_killed_behind_our_back_fails_its_session_and_takes_its_children_along() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let answer = instance.chat(request(&stage, "SPAWN setsid,daemon\nHANG")).await;
    let session = answer["session_id"].as_str().unwrap().to_owned();
    wait_until("the children run", BOUND, async || {
        (stage.running("stubborn").len() == 2).then_some(())
    })
    .await;
    let agent = stage.running("fake_agent")[0].pid;
    gantry_tests::census::signal(agent, rustix::process::Signal::KILL);
    let end = instance.progress(&session).await.end_of_turn(Duration::from_secs(5)).await;
    assert_eq!(end, "error");
    wait_until("the children are gone", Duration::from_secs(5), async || {
        (stage.running("stubborn").is_empty() && stage.running("fake_agent").is_empty())
            .then_some(())
    })
    .await;
    let states = wait_until("the state has settled", Duration::from_secs(5), async || {
        let list = instance.api("sessions_list", json!({})).await;
        let entry =
            list["sessions"].as_array()?.iter().find(|entry| entry["id"] == session)?.clone();
        Some(entry).filter(|entry| entry["state"] != "working")
    });
    let state = states.await["state"].clone();
    assert!(
        state == "failed" || state["failed"].is_string() || state["state"] == "failed",
        "{state}"
    );
    instance.quit().await;
    stage.finish().await;
}

/// Case N9.
#[tokio::test]
async fn a_hundred_identical_chats_at_once_share_one_engine_and_one_server() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    let pids = stage.path("pids");
    let request = json!({
        "project_id": "crowd", "prompt": "PID",
        "agent_config": {
            "agent_server": programs::fake_agent(json!({})),
            "context_servers": {
                "own": programs::fake_mcp(&["--pid-file", &stage.text("pids"), "--start-delay", "300"]),
            },
        },
    });
    let turns = (0..100).map(|_| instance.turn(request.clone(), Duration::from_secs(60)));
    let turns = futures::future::join_all(turns).await;
    let agents: std::collections::BTreeSet<&String> =
        turns.iter().map(|(_, agent)| agent).collect();
    assert_eq!(agents.len(), 1, "{agents:?}");
    assert_eq!(std::fs::read_to_string(pids).unwrap().lines().count(), 1);
    assert_eq!(stage.running("fake_mcp").len(), 1);
    assert_eq!(stage.running("fake_agent").len(), 1);
    instance.quit().await;
    stage.finish().await;
}

/// Cases N9 and N10.
#[tokio::test]
async fn chats_with_different_servers_under_one_name_each_call_their_own() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    let turns = (0..100).map(async |number| {
        let label = format!("server-of-{number}");
        let request = json!({
            "project_id": "crowd", "prompt": "CALL echo {\"text\":\"hello\"}",
            "agent_config": {
                "agent_server": programs::fake_agent(json!({})),
                "context_servers": { "same": programs::fake_mcp(&["--label", &label]) },
            },
        });
        let (_, text) = instance.turn(request, Duration::from_secs(60)).await;
        assert_eq!(text, format!("echo: {label}: hello\n"));
    });
    futures::future::join_all(turns).await;
    assert_eq!(stage.running("fake_mcp").len(), 100);
    instance.quit().await;
    stage.finish().await;
}
