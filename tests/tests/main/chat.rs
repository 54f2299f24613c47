//! A turn over HTTP: its events, its end, a cancel, a permission.

use gantry_tests::{Instance, Progress, Stage, programs, record, wait_until};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(20);

fn chat(prompt: &str) -> Value {
    json!({
        "project_id": "p", "prompt": prompt,
        "agent_config": { "agent_server": programs::fake_agent(json!({})), "context_servers": {} },
    })
}

fn session(answer: &Value) -> String {
    answer["session_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_events_of_a_turn_carry_every_update_raw_and_end_with_the_stop_reason() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let unknown = json!({ "sessionUpdate": "no_such_update", "x": { "y": [1, 2] } });
    let mut request = chat(&format!("UPDATE {unknown}\nNOISE\nSTDERR a line\nCHUNKS 50"));
    request["request_id"] = json!("r-1");
    let answer = instance.chat(request).await;
    assert_eq!((&answer["request_id"], &answer["is_new_session"]), (&json!("r-1"), &json!(true)));
    // The prompt was handed over before anybody listened: nothing is lost.
    let mut progress = instance.progress(&session(&answer)).await;
    assert_eq!(progress.end_of_turn(BOUND).await, "end_turn");
    let begin = progress.seen.iter().find(|event| event.name == "prompt_start").unwrap();
    assert_eq!(begin.data["messageType"], "sessionPromptStart");
    assert_eq!(begin.data["data"]["request_id"], "r-1");
    let raw = progress.seen.iter().find(|event| event.name == "no_such_update").unwrap();
    assert!(raw.data["data"].to_string().contains("\"y\":[1,2]"), "{}", raw.data);
    let expected: String = (0..50).map(|n| format!("chunk {n}\n")).collect();
    assert_eq!(progress.text(), expected);
    let end = progress.seen.last().unwrap();
    assert_eq!(end.data["data"]["reason"], "end_turn", "{}", end.data);
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_reader_that_comes_back_goes_on_where_it_was() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let answer = instance.chat(chat("CHUNKS 30\nSLOW 500\nCHUNKS 30")).await;
    let path = format!("/computer/progress/{}", session(&answer));
    let mut all = instance.progress(&session(&answer)).await;
    let end = all.until("the end", BOUND, |e| e.data["messageType"] == "sessionPromptEnd").await;
    let ids: Vec<u64> = all.seen.iter().filter_map(|e| e.id.as_ref()?.parse().ok()).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    let middle = ids[ids.len() / 2];
    let after: Vec<u64> = ids.iter().copied().filter(|id| *id > middle).collect();
    for request in [
        instance.request(Method::GET, &path).header("last-event-id", middle.to_string()),
        instance.request(Method::GET, &format!("{path}?after={middle}")),
    ] {
        let mut rest = Progress::new(request.send().await.unwrap());
        rest.until("the end again", BOUND, |event| event.id == end.id).await;
        let ids: Vec<u64> = rest.seen.iter().filter_map(|e| e.id.as_ref()?.parse().ok()).collect();
        assert_eq!(ids, after);
    }
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_cancel_ends_the_turn_and_the_session_goes_on() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let answer = instance.chat(chat("ECHO begun\nHANG")).await;
    let mut progress = instance.progress(&session(&answer)).await;
    progress.until("the first chunk", BOUND, |event| event.name == "agent_message_chunk").await;

    // While it works another prompt is refused unless it asks to queue.
    let mut second = gantry_tests::api::chat_request(chat("ECHO second"));
    second["session_id"] = answer["session_id"].clone();
    let busy = instance.post("/computer/chat", &second).await;
    assert_eq!(
        (busy.status, &busy.body["code"]),
        (StatusCode::CONFLICT, &json!("BUSY")),
        "{busy:?}"
    );

    let cancel =
        json!({ "user_id": "tester", "project_id": "p", "session_id": answer["session_id"] });
    let cancelled = instance.post("/computer/agent/session/cancel", &cancel).await;
    assert!(cancelled.status.is_success(), "{cancelled:?}");
    assert_eq!(progress.end_of_turn(Duration::from_secs(5)).await, "cancelled");
    let (_, text) = instance.turn(second, BOUND).await;
    assert_eq!(text, "second");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_permission_is_asked_for_and_only_an_offered_option_answers_it() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let mut request = chat("PERMISSION");
    request["permission"] = json!("ask");
    let answer = instance.chat(request).await;
    let id = session(&answer);
    let mut progress = instance.progress(&id).await;
    let asked = progress
        .until("the question", BOUND, |event| event.data["messageType"] == "permissionRequest")
        .await;
    let list = instance.api("sessions_list", json!({})).await;
    let state = &list["sessions"][0]["state"];
    assert!(state.to_string().contains("waiting"), "{list}");
    let question = &asked.data["data"];
    let question = question["request"].as_str().or(question["id"].as_str());
    let question = question.unwrap_or_else(|| panic!("no request id in {}", asked.data));
    let permit = |option: &str| json!({ "session": id, "request": question, "option": option });
    let wrong = instance.post("/api/session_permit", &permit("not-offered")).await;
    assert_eq!(wrong.body["ok"], false, "{wrong:?}");
    instance.api("session_permit", permit("no")).await;
    assert_eq!(progress.end_of_turn(BOUND).await, "end_turn");
    assert_eq!(progress.text(), "permission: no\n");
    instance.quit().await;
    stage.finish().await;
}

/// Nobody answers: it is refused, and the stream and the transcript say why.
#[tokio::test]
async fn a_permission_that_nobody_answers_is_refused_after_the_time_that_was_asked_for() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let mut request = chat("PERMISSION");
    request["permission"] = json!("ask");
    request["permission_timeout_ms"] = json!(700);
    let answer = instance.chat(request).await;
    let id = session(&answer);
    let mut progress = instance.progress(&id).await;
    assert_eq!(progress.end_of_turn(BOUND).await, "end_turn");
    assert_eq!(progress.text(), "permission: no\n");
    let resolved = progress.seen.iter().find(|event| event.name == "permission_resolved").unwrap();
    let data = &resolved.data["data"];
    assert_eq!(data["outcome"], "no", "{data}");
    assert!(data["reason"].as_str().is_some_and(|why| !why.is_empty()), "{data}");
    let history = instance.api("session_history", json!({ "session": id })).await;
    let kept = &history["turns"][0]["permissions"][0];
    assert_eq!((&kept["outcome"], &kept["reason"]), (&data["outcome"], &data["reason"]), "{kept}");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn an_agent_that_dies_at_its_start_is_reported_with_its_last_words() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let mut request = gantry_tests::api::chat_request(chat("hello"));
    request["agent_config"]["agent_server"]["env"]["FAKE_AGENT_DIE"] = json!("license key missing");
    let answer = instance.post("/computer/chat", &request).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{answer:?}");
    assert!(answer.body["message"].as_str().unwrap().contains("license key missing"), "{answer:?}");
    request["agent_config"]["agent_server"]["command"] = json!("no-such-agent-anywhere");
    let answer = instance.post("/computer/chat", &request).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{answer:?}");
    assert!(
        answer.body["message"].as_str().unwrap().contains("no-such-agent-anywhere"),
        "{answer:?}"
    );
    // Its caller never learned of a session: none is left, now or after a restart.
    assert_eq!(instance.api("sessions_list", json!({})).await["sessions"], json!([]));
    assert!(answer.body["data"].is_null(), "{answer:?}");
    stage.empty_but(&[instance.pid], Duration::from_secs(2)).await;
    instance.quit().await;
    let mut instance = Instance::start(&stage).await;
    assert_eq!(instance.api("sessions_list", json!({})).await["sessions"], json!([]));
    instance.quit().await;
    stage.finish().await;
}

/// One that was there before stays, whatever becomes of a prompt.
#[tokio::test]
async fn a_session_outlives_a_prompt_that_fails() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let (answer, _) = instance.turn(chat("ECHO one"), BOUND).await;
    let mut request = gantry_tests::api::chat_request(chat("ECHO two"));
    request["session_id"] = answer["session_id"].clone();
    request["agent_config"]["agent_server"]["env"]["FAKE_AGENT_DIE"] = json!("license key missing");
    let failed = instance.post("/computer/chat", &request).await;
    assert_eq!(failed.status, StatusCode::INTERNAL_SERVER_ERROR, "{failed:?}");
    assert_eq!(failed.body["data"]["session_id"], answer["session_id"], "{failed:?}");
    let list = instance.api("sessions_list", json!({})).await;
    assert_eq!(list["sessions"][0]["id"], answer["session_id"], "{list}");
    instance.quit().await;
    stage.finish().await;
}

/// A session that a person opened waits for its servers by itself; a prompt waits no longer than
/// it says.
#[tokio::test]
async fn a_prompt_to_a_session_that_is_opening_has_a_deadline_of_its_own() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let record_file = stage.path("agent.jsonl");
    let with_record = json!({ "name": "Fake", "command": programs::path("fake_agent"),
        "env": { "FAKE_AGENT_RECORD": record_file } });
    instance.api("agents_save", json!({ "id": "fake", "config": with_record })).await;
    let servers = json!({
        "slow": programs::fake_mcp(&["--start-delay", "600000"]),
        "good": programs::fake_mcp(&[]),
    });
    let create =
        json!({ "project_dir": stage.path("project"), "agent": "fake", "servers": servers });
    let created = instance.api("session_create", create).await;
    let id = created["session"]["id"].clone();
    instance.server_in("good", "ready", BOUND).await;
    let prompt = json!({ "session": id, "ready_timeout_ms": 500,
        "content": [{ "type": "text", "text": "TOOLS" }] });
    let began = std::time::Instant::now();
    let accepted = instance.api("session_prompt", prompt).await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let state = |name: &str| {
        let servers = accepted["servers"].as_array().unwrap();
        servers.iter().find(|s| s["name"] == name).unwrap()["state"].clone()
    };
    assert_eq!((state("slow"), state("good")), (json!("starting"), json!("ready")), "{accepted}");
    let mut progress = instance.progress(id.as_str().unwrap()).await;
    assert_eq!(progress.end_of_turn(BOUND).await, "end_turn");
    assert!(progress.text().contains("good: "), "{}", progress.text());
    // The agent was told of the session once.
    assert_eq!(record::events(&record_file, "session/new").len(), 1);
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn placeholders_of_the_model_provider_are_filled_in_and_an_unfilled_one_is_dropped() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let mut request = chat("ENV MODEL\nECHO -\nENV URL");
    request["agent_config"]["agent_server"]["env"] =
        json!({ "MODEL": "{MODEL_PROVIDER_MODEL}", "URL": "{MODEL_PROVIDER_BASE_URL}" });
    request["model_provider"] = json!({ "provider": "x", "model": "m-1" });
    let (answer, text) = instance.turn(request, BOUND).await;
    assert_eq!(text, "m-1-");
    assert!(answer["warnings"].to_string().contains("URL"), "{answer}");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn the_log_tells_a_first_prompt_in_order() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let mut request = chat("hello");
    request["agent_config"]["context_servers"] = json!({ "one": programs::fake_mcp(&[]) });
    instance.turn(request, BOUND).await;
    instance.quit().await;
    let log = instance.log();
    let at =
        |text: &str| log.find(text).unwrap_or_else(|| panic!("{text:?} is not in the log:\n{log}"));
    let order = [
        at("Bridge reconciled with updated configuration"),
        at("session/new sent"),
        at("session/prompt sent"),
        at("Cleanup complete, exiting"),
    ];
    assert!(order.is_sorted(), "{log}");
    stage.finish().await;
}

#[tokio::test]
async fn the_built_in_agent_lists_tools_and_calls_them() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let mut request = json!({
        "project_id": "p", "prompt": "/tools",
        "agent_config": { "context_servers": { "one": programs::fake_mcp(&["--tools", "2", "--label", "L"]) } },
    });
    let (answer, text) = instance.turn(request.clone(), BOUND).await;
    assert!(text.contains("one") && text.contains("echo") && text.contains("tool_1"), "{text}");
    request["session_id"] = answer["session_id"].clone();
    request["prompt"] = json!("/call echo {\"text\":\"hello\"}");
    let answer = instance.chat(request).await;
    let mut progress = instance.progress(&session(&answer)).await;
    progress.end_of_turn(BOUND).await;
    progress.end_of_turn(BOUND).await;
    let is_done = progress.seen.iter().any(|event| {
        event.name == "tool_call_update" && event.data.to_string().contains("L: hello")
    });
    assert!(is_done, "{:#?}", progress.seen);
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn the_process_tree_shows_who_started_what() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let record_file = stage.path("agent.jsonl");
    let mut request = chat("SPAWN setsid\nECHO hello");
    request["agent_config"]["agent_server"]["env"]["FAKE_AGENT_RECORD"] = json!(record_file);
    request["agent_config"]["context_servers"] = json!({ "one": programs::fake_mcp(&[]) });
    instance.turn(request, BOUND).await;
    assert_eq!(record::events(&record_file, "session/prompt").len(), 1);
    let tree = wait_until("the tree holds all", Duration::from_secs(5), async || {
        let tree = instance.api("processes", json!({})).await;
        let text = tree.to_string();
        ["fake_agent", "fake_mcp", "stubborn"]
            .iter()
            .all(|name| text.contains(name))
            .then_some(tree)
    })
    .await;
    assert_eq!(tree["strays"], 0, "{tree}");
    let server = stage.running("fake_mcp")[0].pid;
    let child = stage.running("stubborn")[0].pid;
    let role =
        |pid: u32| role_of(&tree["roots"], pid).unwrap_or_else(|| panic!("no {pid} in {tree}"));
    assert_eq!(role(server), "server");
    assert_eq!(role(stage.running("fake_agent")[0].pid), "engine");
    assert_eq!(role(child), "child");
    instance.quit().await;
    stage.finish().await;
}

fn role_of(rows: &Value, pid: u32) -> Option<String> {
    rows.as_array()?.iter().find_map(|row| {
        if row["pid"] == pid {
            return row["role"].as_str().map(str::to_owned);
        }
        role_of(&row["children"], pid)
    })
}
