//! Nothing left behind: every way to end the program.

use crate::stubborn;
use gantry_tests::{Instance, Stage, programs, record, wait_until};
use rustix::process::Signal;
use serde_json::json;
use std::time::Duration;

async fn a_quit_by(gesture: impl AsyncFnOnce(&Instance)) {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    stubborn::session(&instance, &stage, "HANG").await;
    gesture(&instance).await;
    instance.ended_cleanly().await;
    stage.empty_but(&[], Duration::from_millis(100)).await;
    stage.finish().await;
}

#[tokio::test]
async fn sigterm_leaves_nothing() {
    a_quit_by(async |instance: &Instance| instance.signal(Signal::TERM)).await;
}

#[tokio::test]
async fn sigint_leaves_nothing() {
    a_quit_by(async |instance: &Instance| instance.signal(Signal::INT)).await;
}

#[tokio::test]
async fn sighup_leaves_nothing() {
    a_quit_by(async |instance: &Instance| instance.signal(Signal::HUP)).await;
}

#[tokio::test]
async fn a_quit_over_the_api_leaves_nothing() {
    a_quit_by(async |instance: &Instance| {
        let answer = instance.post("/api/quit", &json!({})).await;
        assert!(answer.status.is_success() && answer.body["ok"] == true, "{answer:?}");
    })
    .await;
}

#[tokio::test]
async fn a_signal_sent_twice_at_once_counts_as_one() {
    a_quit_by(async |instance: &Instance| {
        instance.signal(Signal::TERM);
        instance.signal(Signal::TERM);
    })
    .await;
}

/// Case 11.
#[tokio::test]
async fn kill_minus_nine_leaves_nothing_after_two_seconds_and_the_next_start_is_clean() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    stubborn::session(&instance, &stage, "HANG").await;
    instance.signal(Signal::KILL);
    stage.empty_but(&[], Duration::from_secs(2)).await;
    instance.ended(Duration::from_secs(1)).await;

    let mut next = Instance::start(&stage).await;
    let sessions = next.api("sessions_list", json!({})).await;
    let states: Vec<_> =
        sessions["sessions"].as_array().unwrap().iter().map(|s| &s["state"]).collect();
    assert!(states.iter().all(|state| **state != "working"), "{sessions}");
    next.quit().await;
    stage.finish().await;
}

/// Case 12.
#[tokio::test]
async fn of_two_instances_only_the_killed_ones_children_end() {
    let one = Stage::alone().await;
    let other = one.beside();
    let mut killed = Instance::start(&one).await;
    let mut kept = Instance::start(&other).await;
    stubborn::session(&killed, &one, "ECHO one").await;
    stubborn::session(&kept, &other, "ECHO other").await;
    let before = other.members();
    killed.signal(Signal::KILL);
    one.empty_but(&[], Duration::from_secs(2)).await;
    killed.ended(Duration::from_secs(1)).await;
    // A start sweeps orphans of dead instances, and nothing of a living one.
    let mut next = Instance::start(&one).await;
    assert_eq!(other.members(), before);
    next.quit().await;
    assert_eq!(other.members(), before);
    kept.quit().await;
    one.finish().await;
    other.finish().await;
}

/// Case 24.
#[tokio::test]
async fn a_server_that_needs_two_seconds_to_end_gets_them() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    let request = json!({
        "project_id": "p", "prompt": "hello",
        "agent_config": {
            "agent_server": programs::fake_agent(json!({})),
            "context_servers": { "own": programs::fake_mcp(&["--term-delay", "2000", "--ignore-eof"]) },
        },
    });
    instance.turn(request, Duration::from_secs(20)).await;
    instance.quit().await;
    assert_eq!(record::events(&stage.ledger(), "ended in good order").len(), 1);
    stage.finish().await;
}

#[tokio::test]
async fn a_quit_with_nothing_to_stop_takes_less_than_a_second() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    let took = instance.quit().await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    // The ready line was the only one.
    assert!(!stage.path("serve-stdout.log").exists());
    stage.finish().await;
}

#[tokio::test]
async fn a_quit_while_a_server_starts_and_an_agent_initialises_leaves_nothing() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    let request = json!({
        "project_id": "p", "prompt": "hello",
        "agent_config": {
            "agent_server": programs::fake_agent(json!({ "FAKE_AGENT_INIT_DELAY": "20000" })),
            "context_servers": { "own": programs::fake_mcp(&["--start-delay", "20000"]) },
        },
    });
    let request = gantry_tests::api::chat_request(request);
    let waiting = instance.request(reqwest::Method::POST, "/computer/chat").json(&request);
    let waiting = tokio::spawn(waiting.send());
    wait_until("the server is starting", Duration::from_secs(10), async || {
        (stage.running("fake_mcp").len() == 1).then_some(())
    })
    .await;
    instance.quit().await;
    // The caller is told, one way or the other; it does not hang.
    tokio::time::timeout(Duration::from_secs(2), waiting).await.unwrap().unwrap().ok();
    stage.finish().await;
}

/// No `gantry-warden` beside it, as on a system that has none: one reaper acts in their place.
#[tokio::test]
async fn kill_minus_nine_without_wardens_leaves_nothing_after_two_seconds() {
    let stage = Stage::alone().await;
    let program = stage.path("bin/gantry");
    std::fs::create_dir_all(stage.path("bin")).unwrap();
    let original = programs::path("gantry");
    if std::fs::hard_link(&original, &program).is_err() {
        // The temporary directory may be on another file system.
        std::fs::copy(&original, &program).unwrap();
    }
    let start = async || {
        Instance::start_with(&stage, |command| {
            *command = stage.command(&program);
            command.arg("serve").arg("--data-dir").arg(stage.data_dir());
        })
        .await
    };
    let mut instance = start().await;
    let children = "plain,setsid,daemon,holding";
    let request = json!({
        "project_id": "p", "prompt": "ECHO hello",
        "agent_config": {
            "agent_server": programs::fake_agent(json!({
                "FAKE_AGENT_STUBBORN": "1", "FAKE_AGENT_SPAWN": children })),
            "context_servers": {
                "own": programs::fake_mcp(&["--ignore-term", "--ignore-eof", "--spawn", children]),
            },
        },
    });
    instance.turn(request.clone(), Duration::from_secs(20)).await;
    wait_until("all their children run", Duration::from_secs(10), async || {
        (stage.running("stubborn").len() == 8).then_some(())
    })
    .await;
    assert!(stage.running("gantry-warden").is_empty());
    instance.signal(Signal::KILL);
    stage.empty_but(&[], Duration::from_secs(2)).await;
    instance.ended(Duration::from_secs(1)).await;

    // In order, it ends with the others.
    let mut instance = start().await;
    instance.turn(request, Duration::from_secs(20)).await;
    instance.quit().await;
    stage.empty_but(&[], Duration::from_millis(100)).await;
    stage.finish().await;
}

/// Who deletes the data directory of a Gantry that runs has a Gantry that can keep nothing.
#[tokio::test]
async fn a_gantry_whose_data_directory_is_removed_ends_and_touches_no_other() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let mut config = programs::fake_mcp(&["--spawn", "setsid,daemon"]);
    config["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": "own", "config": config })).await;
    instance.server_in("own", "ready", Duration::from_secs(20)).await;
    std::fs::remove_dir_all(stage.data_dir()).unwrap();
    // Somebody starts the next one at once.
    let mut next = Instance::start(&stage).await;
    let (status, _) = instance.ended(Duration::from_secs(15)).await;
    assert_eq!(status.code(), Some(1), "{}", instance.log());
    assert!(instance.log().contains("was removed or replaced"), "{}", instance.log());
    // What it says of itself is still there, and it answers.
    assert!(stage.data_dir().join("run/instance.json").exists());
    assert_eq!(next.api("servers_list", json!({})).await["servers"], json!([]));
    stage.empty_but(&[next.pid], Duration::from_secs(1)).await;
    next.quit().await;
    stage.finish().await;
}

/// Whoever is in a hurry waits for nobody who does not react.
#[tokio::test]
async fn a_forced_stop_does_not_ask_first() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    stubborn::session(&instance, &stage, "HANG").await;
    let sessions = instance.api("sessions_list", json!({})).await;
    let input = json!({ "session": sessions["sessions"][0]["id"], "force": true });
    let began = std::time::Instant::now();
    let stopped = instance.api("session_stop", input).await;
    // In order it would be more than four.
    assert!(began.elapsed() < Duration::from_millis(3500), "{:?}", began.elapsed());
    assert!(stopped["forced"].as_u64() > Some(0), "{stopped}");
    stage.empty_but(&[instance.pid], Duration::from_secs(1)).await;
    instance.quit().await;
    stage.finish().await;
}
