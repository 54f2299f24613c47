//! The bridge: one process a server, its URL, its restarts.

use gantry_tests::{Instance, Stage, programs, record, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(20);

fn chat(servers: &Value, prompt: &str) -> Value {
    json!({
        "project_id": "p", "prompt": prompt,
        "agent_config": {
            "agent_server": programs::fake_agent(json!({ "FAKE_AGENT_LOADS": "1" })),
            "context_servers": servers,
        },
    })
}

async fn save(instance: &Instance, name: &str, args: &[&str]) {
    let mut config = programs::fake_mcp(args);
    config["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": name, "config": config })).await;
}

/// Case N6.
#[tokio::test]
async fn servers_with_names_that_a_url_cannot_hold_work_through_their_url() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let names = ["Fetch 网页内容抓取", "a/b", "100%", "..", ".", "q?x=1#y"];
    let servers: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| ((*name).to_owned(), programs::fake_mcp(&["--label", name])))
        .collect();
    let agent_record = stage.path("agent.jsonl");
    let mut request = chat(&Value::Object(servers), "TOOLS");
    request["agent_config"]["agent_server"]["env"]["FAKE_AGENT_RECORD"] = json!(agent_record);
    let (answer, _) = instance.turn(request, BOUND).await;
    let seen = record::events(&agent_record, "tools");
    assert_eq!(seen.len(), names.len());
    for line in seen {
        assert!(line["entry"]["url"].is_string() && line["tools"].is_array(), "{line} {answer}");
    }
    instance.quit().await;
    stage.finish().await;
}

/// Case N8.
#[tokio::test]
async fn a_changed_variable_restarts_that_server_and_no_other() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let prompt = "CALLON a pid\nCALLON a env {\"name\":\"X\"}\nCALLON b pid";
    let mut servers =
        json!({ "a": programs::fake_mcp(&[]), "b": programs::fake_mcp(&["--label", "b"]) });
    servers["a"]["env"]["X"] = json!("one");
    let (first, before) = instance.turn(chat(&servers, prompt), BOUND).await;
    servers["a"]["env"]["X"] = json!("two");
    let mut request = chat(&servers, prompt);
    request["session_id"] = first["session_id"].clone();
    let (_, after) = instance.turn(request, BOUND).await;

    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (before, after) = (lines(&before), lines(&after));
    assert_eq!((before[1].as_str(), after[1].as_str()), ("env: one", "env: two"));
    assert_ne!(before[0], after[0], "a was not restarted");
    assert_eq!(before[2], after[2], "b was restarted");
    instance.quit().await;
    stage.finish().await;
}

/// Case 42.
#[tokio::test]
async fn a_server_keeps_its_state_across_prompts_and_sessions() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let servers = json!({ "own": programs::fake_mcp(&[]) });
    let (first, text) = instance.turn(chat(&servers, "CALL counter"), BOUND).await;
    assert_eq!(text, "counter: 1\n");
    let mut request = chat(&servers, "CALL counter");
    request["session_id"] = first["session_id"].clone();
    let (again, text) = instance.turn(request, BOUND).await;
    assert_eq!(text, "counter: 2\n");
    assert_eq!((&again["context"], &again["is_new_session"]), (&json!("kept"), &json!(false)));
    let (_, text) = instance.turn(chat(&servers, "CALL counter"), BOUND).await;
    assert_eq!(text, "counter: 3\n");
    instance.quit().await;
    stage.finish().await;
}

/// Case 39.
#[tokio::test]
async fn a_call_after_a_crash_works_in_the_same_session() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let servers = json!({ "own": programs::fake_mcp(&[]) });
    let prompt = "CALL crash {\"code\":7}\nCALL echo {\"text\":\"back\"}";
    let (_, text) = instance.turn(chat(&servers, prompt), BOUND).await;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("crash: failed"), "{text}");
    assert_eq!(lines.last(), Some(&"echo: back"), "{text}");
    assert_eq!(stage.running("fake_mcp").len(), 1);
    instance.quit().await;
    stage.finish().await;
}

/// Case 18.
#[tokio::test]
async fn the_old_process_is_gone_before_the_new_one_starts() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save(
        &instance,
        "locked",
        &["--lock", &stage.text("lock"), "--term-delay", "300", "--ignore-eof"],
    )
    .await;
    let mut pid = instance.server_in("locked", "ready", BOUND).await["pid"].clone();
    for _ in 0..3 {
        instance.api("servers_restart", json!({ "name": "locked" })).await;
        let next = wait_until("it is ready again", BOUND, async || {
            let server = instance.server("locked").await?;
            (server["state"] == "ready" && server["pid"] != pid).then(|| server["pid"].clone())
        });
        pid = next.await;
    }
    assert!(!stage.path("lock.conflicts").exists());
    instance.quit().await;
    stage.finish().await;
}

/// Cases N5 and 74.
#[tokio::test]
async fn a_server_that_fails_twice_becomes_ready_by_itself() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save(&instance, "shaky", &["--fail-starts", "2", &stage.text("starts")]).await;
    let server = instance.server_in("shaky", "ready", BOUND).await;
    assert_eq!(server["restarts"], 2, "{server}");
    assert_eq!(std::fs::read_to_string(stage.path("starts")).unwrap().lines().count(), 3);
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_saved_server_is_there_after_a_restart_and_a_removed_one_ends() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save(&instance, "kept", &["--tools", "2"]).await;
    let server = instance.server_in("kept", "ready", BOUND).await;
    assert_eq!(
        (&server["tools"], &server["lifetime"]),
        (&json!(11), &json!("persistent")),
        "{server}"
    );
    // The pid is the program's, not its warden's.
    assert_eq!(json!(stage.running("fake_mcp")[0].pid), server["pid"]);
    instance.quit().await;
    stage.empty_but(&[], Duration::from_millis(100)).await;

    let mut instance = Instance::start(&stage).await;
    instance.server_in("kept", "ready", BOUND).await;
    instance.api("servers_remove", json!({ "name": "kept" })).await;
    wait_until("its process is gone", Duration::from_secs(5), async || {
        stage.running("fake_mcp").is_empty().then_some(())
    })
    .await;
    assert!(instance.server("kept").await.is_none());
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn what_a_server_says_comes_through_the_bridge_as_it_is() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save(&instance, "plain", &["--tools", "3", "--pages", "3", "--noise", "--stderr-lines", "3"])
        .await;
    let server = instance.server_in("plain", "ready", BOUND).await;
    let url = server["url"].as_str().unwrap();
    let client = instance.mcp(url).await;
    assert_eq!(client.initialized["serverInfo"]["name"], "fake_mcp");
    let tools = client.tools().await.unwrap();
    assert_eq!(tools.len(), 12);
    assert_eq!(tools[0]["annotations"]["x-fake"], true, "an unknown field was lost");
    let result = client.call("echo", json!({ "text": "é\u{2028}\"\\" })).await.unwrap();
    assert_eq!(result["content"][0]["text"], "é\u{2028}\"\\");
    assert!(result["x-fake"]["calls"].is_u64(), "{result}");
    let failed =
        client.request("tools/call", json!({ "name": "fail", "arguments": {} })).await.unwrap();
    assert_eq!(failed["error"]["code"], -32050, "{failed}");
    assert_eq!(failed["error"]["data"]["why"], "on purpose");
    let slow =
        json!({ "name": "slow", "arguments": { "ms": 50 }, "_meta": { "progressToken": 1 } });
    client.request("tools/call", slow).await.unwrap();
    let progress = client.notifications();
    let progress: Vec<&Value> =
        progress.iter().filter(|n| n["method"] == "notifications/progress").collect();
    assert_eq!(progress.len(), 10, "{progress:?}");
    assert!(progress.iter().all(|n| n["params"]["progressToken"] == 1), "{progress:?}");
    instance.quit().await;
    stage.finish().await;
}

/// Case 16.
#[tokio::test]
async fn four_clients_with_the_same_ids_and_tokens_get_their_own_answers() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save(&instance, "shared", &[]).await;
    let server = instance.server_in("shared", "ready", BOUND).await;
    let url = server["url"].as_str().unwrap();
    let clients = (0..4).map(async |number| {
        let client = instance.mcp(url).await;
        for round in 0..10 {
            let slow = json!({ "name": "slow", "arguments": { "ms": 20 }, "_meta": { "progressToken": 1 } });
            let text = format!("{number}-{round}");
            let slow = client.request("tools/call", slow);
            let echo = client.call("echo", json!({ "text": text }));
            let (slow, echo) = futures::future::join(slow, echo).await;
            assert_eq!(slow.unwrap()["result"]["content"][0]["text"], "done");
            assert_eq!(echo.unwrap()["content"][0]["text"], text);
        }
        let progress = client.notifications();
        assert_eq!(progress.iter().filter(|n| n["method"] == "notifications/progress").count(), 100);
    });
    futures::future::join_all(clients).await;
    assert_eq!(stage.running("fake_mcp").len(), 1);
    instance.quit().await;
    stage.finish().await;
}

/// Case N7.
#[tokio::test]
async fn clients_that_vanish_make_room_for_others_and_memory_stays_bounded() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save(&instance, "shared", &[]).await;
    let server = instance.server_in("shared", "ready", BOUND).await;
    let url = server["url"].as_str().unwrap();
    let rss = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", instance.pid)).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let first = instance.mcp(url).await;
    let before = rss();
    for _ in 0..25 {
        futures::future::join_all((0..100).map(|_| instance.mcp(url))).await;
    }
    let grown = rss().saturating_sub(before);
    assert!(grown < 100 << 10, "2,500 clients cost {grown} KiB");
    // The oldest had to go; its client finds out and comes back by itself.
    let raw = first.session().unwrap();
    let echo = first.call("echo", json!({ "text": "still here" })).await.unwrap();
    assert_eq!(echo["content"][0]["text"], "still here");
    assert_ne!(first.session().unwrap(), raw, "no session ever ends");
    instance.quit().await;
    stage.finish().await;
}
