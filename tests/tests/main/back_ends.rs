//! What back ends send.

use gantry_tests::{Instance, Stage, api::chat_request, programs, wait_until};
use reqwest::Method;
use serde_json::{Value, json};
use std::{collections::HashSet, time::Duration};

fn agent() -> Value {
    programs::fake_agent(json!({}))
}

async fn sessions(instance: &Instance) -> Vec<Value> {
    instance.api("sessions_list", json!({})).await["sessions"].as_array().unwrap().clone()
}

#[tokio::test]
async fn wrapped_plain_disabled_and_unreachable_servers_go_together() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let inner = json!({ "mcpServers": {
        "inside": programs::fake_mcp(&[]),
        "off": { "command": "/no/such/program", "enabled": false },
    } });
    let wrapped = json!({ "command": "mcp-proxy.exe", "args":
        ["convert", "--config", inner.to_string(), "--deny-tools", "echo"] });
    let request = json!({ "project_id": "p", "prompt": "TOOLS", "agent_config": {
        "agent_server": agent(), "context_servers": {
            "wrapped": wrapped,
            "plain": programs::fake_mcp(&[]),
            "disabled": { "enabled": false, "command": "/no/such/program" },
            "far": { "url": "http://127.0.0.1:9/mcp", "transport": "streamable-http" },
        } } });
    let (answer, text) = instance.turn(request, Duration::from_secs(30)).await;
    let servers = answer["servers"].as_array().unwrap();
    let names: HashSet<_> = servers.iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, HashSet::from(["inside", "plain", "far"]), "{answer}");
    let line = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(&format!("{name}:")))
            .unwrap_or_else(|| panic!("{text}"))
    };
    assert!(line("plain").contains(" echo"), "{text}");
    assert!(!line("inside").contains(" echo"), "{text}");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_end_the_turn() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let slow = programs::fake_agent(json!({ "FAKE_AGENT_INIT_DELAY": "1500" }));
    let body = chat_request(json!({ "project_id": "p", "prompt": "ECHO done", "agent_config": {
        "agent_server": slow } }));
    let request = instance.request(Method::POST, "/computer/chat").json(&body);
    let error = request.timeout(Duration::from_millis(300)).send().await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    let session = wait_until("the turn has run", Duration::from_secs(20), async || {
        let all = sessions(&instance).await;
        let session = all.first()?.clone();
        let history = instance.api("session_history", json!({ "session": session["id"] })).await;
        (history["turns"][0]["stop_reason"] == "end_turn").then_some(session)
    })
    .await;
    let mut progress = instance.progress(session["id"].as_str().unwrap()).await;
    assert_eq!(progress.end_of_turn(Duration::from_secs(5)).await, "end_turn");
    assert_eq!(progress.text().trim(), "done");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn the_settings_count_where_a_request_says_nothing() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let set = json!({ "ready_timeout_ms": 300 });
    let settings = instance.api("settings_set", set).await;
    assert_eq!(settings["ready_timeout_ms"], 300, "{settings}");
    assert_eq!(settings["permission_timeout_ms"], 0, "never is what counts at first");
    let slow = programs::fake_mcp(&["--start-delay", "600000"]);
    let request = json!({ "project_id": "p", "prompt": "ECHO x", "agent_config": {
        "agent_server": agent(), "context_servers": { "slow": slow } } });
    let (answer, _) = instance.turn(request, Duration::from_secs(25)).await;
    assert_eq!(answer["servers"][0]["state"], "starting", "{answer}");
    instance.quit().await;

    // They are kept.
    let mut instance = Instance::start(&stage).await;
    let settings = instance.api("settings_get", json!({})).await;
    assert_eq!(settings["ready_timeout_ms"], 300, "{settings}");
    let off = json!({ "command": programs::path("fake_mcp"), "enabled": false });
    instance.api("servers_save", json!({ "name": "off", "config": off })).await;
    let server = instance.api("servers_enable", json!({ "name": "off" })).await;
    assert_eq!(server["enabled"], true, "{server}");
    let off = json!({ "name": "off", "enabled": false });
    assert_eq!(instance.api("servers_enable", off).await["enabled"], false);
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn the_reference_is_there_to_read_and_to_generate_from() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let listed = instance.send(instance.request(Method::GET, "/api")).await.data();
    let commands = listed["commands"].as_array().unwrap();
    let save = commands.iter().find(|command| command["name"] == "servers_save").unwrap();
    let definition = save["input_schema"]["$ref"].as_str().unwrap();
    let name = definition.strip_prefix("#/data/definitions/").unwrap();
    assert_eq!(listed["definitions"][name]["required"], json!(["name", "config"]));
    let document = instance.send(instance.request(Method::GET, "/api/openapi.json")).await;
    assert_eq!(document.body["openapi"], "3.1.0");
    assert!(document.body["paths"]["/computer/chat"]["post"].is_object());
    let docs = instance.request(Method::GET, "/api/docs").send().await.unwrap();
    assert!(docs.headers()["content-type"].to_str().unwrap().starts_with("text/html"));
    let page = docs.text().await.unwrap();
    assert!(page.contains("servers_save") && !page.contains("<script"));
    // A browser, which has no way to send the token at first, gets a page that asks for it.
    let browser = instance.request_without_token(Method::GET, "/api/docs");
    let locked = browser.header("accept", "text/html,*/*;q=0.8").send().await.unwrap();
    assert_eq!(locked.status().as_u16(), 401);
    assert!(locked.headers()["content-security-policy"].to_str().unwrap().contains("nonce-"));
    let page = locked.text().await.unwrap();
    assert!(page.contains("<form") && !page.contains("servers_save"));
    instance.quit().await;
    stage.finish().await;
}
