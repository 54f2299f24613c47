//! Cases from the field about what the bridge shows and what its clients see: the list of
//! servers is the truth, a switch holds at once, and nothing comes back after a stop.

use gantry_tests::{
    FullClient, Instance, Stage, conformance::Direct, programs, record, wait_until,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const BOUND: Duration = Duration::from_secs(30);
/// Tools of `fake_mcp` that are always there.
const STANDARD: usize = 9;

async fn save(instance: &Instance, name: &str, config: Value) {
    let mut config = config;
    config["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": name, "config": config })).await;
}

async fn client(instance: &Instance, name: &str) -> FullClient {
    let url = format!("{}/mcp/{name}", instance.url);
    FullClient::http(&url, &instance.token).await.unwrap()
}

/// The names in `tools/list` as a client gets it.
async fn listed(client: &FullClient) -> Vec<String> {
    let answer = client.request("tools/list", json!({})).await.unwrap();
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

async fn call(client: &FullClient, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    client.request("tools/call", params).await.unwrap()
}

/// Waits until it is ready as another process than `before`.
async fn ready_anew(instance: &Instance, name: &str, before: &Value) -> Value {
    wait_until(&format!("{name} is ready again"), BOUND, async || {
        let server = instance.server(name).await?;
        (server["state"] == "ready" && server["pid"] != *before).then_some(server)
    })
    .await
}

/// Cases 43 and 50: whatever happens to a server, as soon as it is called ready its tools are
/// there, and as many as the list says.
#[tokio::test]
async fn ready_means_that_the_tools_are_there_as_many_as_the_list_says() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let starts = stage.text("starts");
    let args = ["--tools", "3", "--start-delay", "300", "--fail-starts", "1", &starts];
    save(&instance, "one", programs::fake_mcp(&args)).await;
    let agree = async |server: &Value, expected: usize| {
        assert_eq!(server["tools"], expected, "{server}");
        let client = client(&instance, "one").await;
        assert_eq!(listed(&client).await.len(), expected, "{server}");
        let tools = instance.api("servers_tools", json!({ "name": "one" })).await;
        assert_eq!(tools["tools"].as_array().map(Vec::len), Some(expected), "{tools}");
    };
    // Its first start fails.
    let server = ready_anew(&instance, "one", &Value::Null).await;
    agree(&server, STANDARD + 3).await;
    // A restart by hand.
    instance.api("servers_restart", json!({ "name": "one" })).await;
    let server = ready_anew(&instance, "one", &server["pid"]).await;
    agree(&server, STANDARD + 3).await;
    // A crash.
    let crashing = client(&instance, "one").await;
    assert!(call(&crashing, "crash", json!({ "code": 3 })).await.get("error").is_some());
    let server = ready_anew(&instance, "one", &server["pid"]).await;
    agree(&server, STANDARD + 3).await;
    // Another configuration.
    save(&instance, "one", programs::fake_mcp(&["--tools", "5"])).await;
    let server = ready_anew(&instance, "one", &server["pid"]).await;
    agree(&server, STANDARD + 5).await;
    // A filter, which needs no other process.
    let mut filtered = programs::fake_mcp(&["--tools", "5"]);
    filtered["allowTools"] = json!(["echo", "tool_0"]);
    save(&instance, "one", filtered).await;
    let server = wait_until("the filter holds", BOUND, async || {
        instance.server("one").await.filter(|server| server["tools"] == 2)
    })
    .await;
    assert_eq!(server["state"], "ready", "{server}");
    agree(&server, 2).await;
    instance.quit().await;
    stage.finish().await;
}

/// Case 44: a tool that is switched off is gone from the next list and refused; so is a server.
#[tokio::test]
async fn what_is_switched_off_is_gone_and_refused_for_clients_that_are_connected() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save(&instance, "one", programs::fake_mcp(&[])).await;
    let pid = instance.server_in("one", "ready", BOUND).await["pid"].clone();
    let client = client(&instance, "one").await;
    assert!(listed(&client).await.contains(&"echo".to_owned()));

    let mut without = programs::fake_mcp(&[]);
    without["denyTools"] = json!(["echo"]);
    save(&instance, "one", without).await;
    client.hears("notifications/tools/list_changed", 1).await;
    let names = listed(&client).await;
    assert!(!names.contains(&"echo".to_owned()) && names.len() == STANDARD - 1, "{names:?}");
    let refused = call(&client, "echo", json!({ "text": "x" })).await;
    let why = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("echo"), "the error does not say which tool: {refused}");
    assert_eq!(instance.server("one").await.unwrap()["pid"], pid, "it was restarted for it");
    // And on again.
    save(&instance, "one", programs::fake_mcp(&[])).await;
    client.hears("notifications/tools/list_changed", 2).await;
    let said = call(&client, "echo", json!({ "text": "back" })).await;
    assert_eq!(said["result"]["content"][0]["text"], "back", "{said}");

    instance.api("servers_enable", json!({ "name": "one", "enabled": false })).await;
    wait_until("its process is gone", BOUND, async || {
        stage.running("fake_mcp").is_empty().then_some(())
    })
    .await;
    let server = instance.server("one").await.unwrap();
    assert_eq!((&server["enabled"], &server["state"]), (&json!(false), &json!("stopped")));
    let params = json!({ "name": "echo", "arguments": { "text": "x" } });
    let message = json!({ "jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": params });
    let post = instance.request(reqwest::Method::POST, "/mcp/one").json(&message);
    let post = post.header("accept", "application/json, text/event-stream");
    let post = post.header("mcp-session-id", client.session().unwrap_or_default());
    let answer = instance.send(post).await;
    let is_refused = answer.status.is_client_error() || answer.body.get("error").is_some();
    assert!(is_refused, "{answer:?}");
    assert!(stage.running("fake_mcp").is_empty(), "a call started it");
    instance.quit().await;
    stage.finish().await;
}

/// Case 49: the same client, fifty restarts, always the same tools; and no process of before.
#[tokio::test]
async fn fifty_restarts_leave_the_number_of_tools_as_it_was() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save(&instance, "one", programs::fake_mcp(&["--tools", "4", "--pages", "2"])).await;
    let mut server = instance.server_in("one", "ready", BOUND).await;
    let client = client(&instance, "one").await;
    let names = listed(&client).await;
    assert_eq!(names.len(), STANDARD + 4);
    for _ in 0..50 {
        instance.api("servers_restart", json!({ "name": "one" })).await;
        server = ready_anew(&instance, "one", &server["pid"]).await;
        assert_eq!(server["tools"], STANDARD + 4, "{server}");
        assert_eq!(listed(&client).await, names);
    }
    assert_eq!(stage.running("fake_mcp").len(), 1);
    instance.quit().await;
    stage.finish().await;
}

/// Case 39: who is connected when a server crashes hears that its tools are to be asked for again.
#[tokio::test]
async fn an_agent_hears_of_the_tools_of_a_server_that_came_back() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let agent_record = stage.path("agent.jsonl");
    let request = |prompt: &str| {
        json!({
            "project_id": "p", "prompt": prompt,
            "agent_config": {
                "agent_server": programs::fake_agent(json!({ "FAKE_AGENT_RECORD": agent_record })),
                "context_servers": { "own": programs::fake_mcp(&["--tools", "1"]) } },
        })
    };
    let (answer, text) = instance.turn(request("CALL crash {\"code\":7}"), BOUND).await;
    assert!(text.starts_with("crash: failed"), "{text}");
    wait_until("the agent heard of it", BOUND, async || {
        let heard = record::events(&agent_record, "heard");
        let news = |line: &Value| line["message"]["method"] == "notifications/tools/list_changed";
        heard.iter().any(news).then_some(())
    })
    .await;
    let mut again = request("TOOLS\nCALL echo {\"text\":\"back\"}");
    again["session_id"] = answer["session_id"].clone();
    let (_, text) = instance.turn(again, BOUND).await;
    assert!(text.contains("tool_0") && text.contains("echo: back"), "{text}");
    instance.quit().await;
    stage.finish().await;
}

/// Case 37: an HTTP server that needs 3 s for its first answer is waited for like any other,
/// whether the agent reaches it through the bridge (it has a filter) or by itself.
#[tokio::test]
async fn a_slow_remote_server_is_complete_at_the_first_prompt() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let far = Direct::start(&stage, &["3000"]).await;
    let request = json!({
        "project_id": "p", "prompt": "TOOLS\nCALLON carried test_simple_text",
        "agent_config": {
            "agent_server": programs::fake_agent(json!({})),
            "context_servers": {
                "carried": { "url": far.url, "denyTools": ["test_error_handling"] },
                "passed": { "url": far.url },
            } },
    });
    let began = Instant::now();
    let (answer, text) = instance.turn(request, BOUND).await;
    assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
    let server = |name: &str| {
        let servers = answer["servers"].as_array().unwrap();
        servers.iter().find(|server| server["name"] == name).unwrap().clone()
    };
    let (carried, passed) = (server("carried"), server("passed"));
    assert_eq!((&carried["state"], &carried["via"]), (&json!("ready"), &json!("bridge")));
    assert!(carried["ms"].as_u64().is_some_and(|ms| ms >= 3000), "{carried}");
    assert_eq!((&passed["state"], &passed["via"]), (&json!("passed_through"), &json!("remote")));
    assert_eq!(passed["tools"].as_u64(), carried["tools"].as_u64().map(|tools| tools + 1));
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    for tool in ["test_simple_text", "test_sampling", "json_schema_2020_12_tool"] {
        assert!(line("carried: ").contains(tool) && line("passed: ").contains(tool), "{text}");
    }
    assert!(!line("carried: ").contains("test_error_handling"), "{text}");
    assert!(text.contains("This is a simple text response"), "{text}");
    instance.quit().await;
    far.end().await;
    stage.finish().await;
}

/// Case N1: starts that overlap, then one stop.
#[tokio::test]
async fn overlapping_starts_and_one_stop_leave_no_process() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let config = programs::fake_mcp(&["--start-delay", "300"]);
    for round in 0..5 {
        save(&instance, "one", config.clone()).await;
        let restarts = (0..4).map(async |_| {
            let body = json!({ "name": "one" });
            instance.post("/api/servers_restart", &body).await
        });
        futures::future::join_all(restarts).await;
        assert!(stage.running("fake_mcp").len() <= 1, "two at once in round {round}");
        instance.api("servers_remove", json!({ "name": "one" })).await;
        wait_until("no process is left", BOUND, async || {
            stage.running("fake_mcp").is_empty().then_some(())
        })
        .await;
    }
    // Whatever was on its way when the last stop came would be here by now.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        assert!(stage.running("fake_mcp").is_empty(), "one came back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    instance.quit().await;
    stage.finish().await;
}

/// Case N4: a server that says nothing fails at its limit, by name; meanwhile others are served.
#[tokio::test]
async fn a_silent_server_fails_at_its_limit_and_keeps_no_other() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save(&instance, "good", programs::fake_mcp(&[])).await;
    instance.server_in("good", "ready", BOUND).await;
    let client = client(&instance, "good").await;
    let mut silent = programs::fake_mcp(&["--silent"]);
    silent["startTimeoutMs"] = json!(3000);
    save(&instance, "silent", silent).await;
    let mut answers = 0;
    let failed = loop {
        let said = call(&client, "echo", json!({ "text": answers.to_string() })).await;
        assert_eq!(said["result"]["content"][0]["text"], answers.to_string(), "{said}");
        answers += 1;
        let server = instance.server("silent").await.unwrap();
        assert_ne!(server["state"], "ready", "{server}");
        if server["state"] == "failed" {
            break server;
        }
    };
    assert!(answers > 3, "the other one was kept waiting: {answers} answers");
    let why = failed["error"].as_str().unwrap_or_default();
    assert!(why.contains("3 s") || why.contains("3000"), "{failed}");
    instance.quit().await;
    stage.finish().await;
}

/// Case 16: of four calls with the same id and token, one is cancelled; the server hears of that
/// one, and the others get what is theirs.
#[tokio::test]
async fn a_cancel_of_one_client_reaches_the_server_and_leaves_the_others() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let received = stage.path("server.jsonl");
    save(&instance, "one", programs::fake_mcp(&["--record", &stage.text("server.jsonl")])).await;
    instance.server_in("one", "ready", BOUND).await;
    let clients: Vec<FullClient> =
        futures::future::join_all((0..4).map(|_| client(&instance, "one"))).await;
    let mut calls = Vec::new();
    for client in &clients {
        let params = json!({
            "name": "slow", "arguments": { "ms": 6000 }, "_meta": { "progressToken": 1 } });
        calls.push(client.begin("tools/call", params).await.unwrap());
    }
    // The same id for all: each is the second request of its client.
    assert!(calls.iter().all(|(id, _)| *id == calls[0].0));
    let count = |method: &str| {
        let all = record::events(&received, "received");
        all.iter().filter(|line| line["method"] == method && line["tool"] != "echo").count()
    };
    wait_until("all four run", BOUND, async || (count("tools/call") == 4).then_some(())).await;
    let (cancelled, mut answer) = calls.remove(0);
    let params = json!({ "requestId": cancelled });
    clients[0].notify("notifications/cancelled", params).await.unwrap();
    wait_until("the server heard", BOUND, async || {
        (count("notifications/cancelled") == 1).then_some(())
    })
    .await;
    for ((_, answer), client) in calls.into_iter().zip(&clients[1..]) {
        let answer = tokio::time::timeout(BOUND, answer).await.unwrap().unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
        client.hears("notifications/progress", 10).await;
        let progress = client.heard_of("notifications/progress");
        assert!(progress.len() == 10 && progress.iter().all(|p| p["progressToken"] == 1));
    }
    let answer = answer.try_recv().unwrap_or_default();
    assert!(answer.get("result").is_none(), "a cancelled call has a result: {answer}");
    instance.quit().await;
    stage.finish().await;
}
