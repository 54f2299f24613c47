//! Servers that do what none should, and clients that want what is large: it stays their own
//! business.

use gantry_tests::{Instance, McpClient, Stage, programs, record, wait_until};
use serde_json::json;
use std::time::{Duration, Instant};

const BOUND: Duration = Duration::from_secs(30);

async fn save(instance: &Instance, name: &str, args: &[&str]) {
    let mut config = programs::fake_mcp(args);
    config["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": name, "config": config })).await;
    instance.server_in(name, "ready", BOUND).await;
}

async fn client(instance: &Instance, name: &str) -> McpClient {
    let headers = [("authorization".to_owned(), format!("Bearer {}", instance.token))];
    McpClient::http(&format!("{}/mcp/{name}", instance.url), &headers).await.unwrap()
}

async fn echo(client: &McpClient, text: &str) -> String {
    let result = client.call("echo", json!({ "text": text })).await;
    let result = result.unwrap_or_else(|why| panic!("{why:#}"));
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// Noise, half lines, answers to nothing, answers twice, 4 MB on standard error in the middle
/// of a call; and meanwhile another server answers as ever.
#[tokio::test]
async fn a_server_that_misbehaves_harms_neither_its_calls_nor_another_server() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save(&instance, "bad", &[]).await;
    save(&instance, "good", &[]).await;
    let (bad, good) = (client(&instance, "bad").await, client(&instance, "good").await);
    let pranks = async {
        for prank in ["noise", "strangers", "twice", "halves", "spill"] {
            let result = bad.call(prank, json!({})).await;
            let result = result.unwrap_or_else(|why| panic!("{prank}: {why:#}"));
            let text = result["content"][0]["text"].as_str().unwrap_or_default();
            let first = if prank == "twice" { "first" } else { prank };
            assert_eq!(text, first, "{prank}");
            assert_eq!(echo(&bad, prank).await, prank, "the next call after {prank}");
        }
    };
    let others = async {
        let mut slowest = Duration::ZERO;
        for n in 0..100 {
            let began = Instant::now();
            assert_eq!(echo(&good, &n.to_string()).await, n.to_string());
            slowest = slowest.max(began.elapsed());
        }
        slowest
    };
    let ((), slowest) = futures::future::join(pranks, others).await;
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    let server = instance.server("bad").await.unwrap();
    assert_eq!((&server["state"], &server["restarts"]), (&json!("ready"), &json!(0)), "{server}");
    instance.quit().await;
    stage.finish().await;
}

/// One that closes its output during a call and lives on: the call ends with the reason, the
/// process is replaced, and the same client goes on.
#[tokio::test]
async fn a_server_that_goes_deaf_is_replaced() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save(&instance, "deaf", &[]).await;
    let client = client(&instance, "deaf").await;
    let failed = client.request("tools/call", json!({ "name": "deaf", "arguments": {} })).await;
    let failed = failed.unwrap();
    let why = failed["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("closed its output") && why.contains("not repeated"), "{failed}");
    assert_eq!(echo(&client, "again").await, "again");
    let server = instance.server("deaf").await.unwrap();
    assert_eq!(server["restarts"], 1, "{server}");
    assert_eq!(stage.running("fake_mcp").len(), 1);
    instance.quit().await;
    stage.finish().await;
}

/// 8 MB there and back, then 20 MB back.
#[tokio::test]
async fn what_is_large_comes_through() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save(&instance, "big", &[]).await;
    let client = client(&instance, "big").await;
    let text = "8".repeat(8 << 20);
    assert!(echo(&client, &text).await == text, "it came back as something else");
    let result = client.call("big", json!({ "bytes": 20 << 20 })).await.unwrap();
    assert_eq!(result["content"][0]["text"].as_str().map(str::len), Some(20 << 20));
    instance.quit().await;
    stage.finish().await;
}

/// A session's token opens that session's servers, as long as the session lives.
#[tokio::test]
async fn a_sessions_token_opens_its_own_servers_only() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save(&instance, "saved", &[]).await;
    let chat = async |name: &str| {
        let agent_record = stage.path(format!("{name}.jsonl"));
        let env = json!({ "FAKE_AGENT_RECORD": agent_record });
        let mut servers = json!({});
        servers[name] = programs::fake_mcp(&["--label", name]);
        let request = json!({
            "project_id": name, "prompt": "hello",
            "agent_config": { "agent_server": programs::fake_agent(env), "context_servers": servers },
        });
        let (answer, _) = instance.turn(request, BOUND).await;
        let entry = record::events(&agent_record, "tools")[0]["entry"].clone();
        let bearer = entry["headers"][0]["value"].as_str().unwrap_or_default().to_owned();
        (answer["session_id"].clone(), entry["url"].as_str().unwrap_or_default().to_owned(), bearer)
    };
    let ((session, url_a, token_a), (_, url_b, token_b)) = (chat("a").await, chat("b").await);
    let open = async |url: &str, bearer: &str| {
        let headers = [("authorization".to_owned(), bearer.to_owned())];
        McpClient::http(url, &headers).await.map(|_| ()).map_err(|why| format!("{why:#}"))
    };
    let saved = format!("{}/mcp/saved", instance.url);
    assert_eq!(open(&url_a, &token_a).await, Ok(()));
    assert_eq!(open(&url_b, &token_b).await, Ok(()));
    for (url, token) in [(&url_b, &token_a), (&url_a, &token_b), (&saved, &token_a)] {
        let refused = open(url, token).await.unwrap_err();
        assert!(refused.contains("404"), "{refused}");
    }
    // Nor anything else.
    let api = instance.request_without_token(reqwest::Method::POST, "/api/servers_list");
    let answer = instance.send(api.header("authorization", &token_a).json(&json!({}))).await;
    assert_eq!(answer.status.as_u16(), 401);
    instance.api("session_stop", json!({ "session": session })).await;
    wait_until("the token is void", Duration::from_secs(5), async || {
        open(&url_a, &token_a).await.err().filter(|why| why.contains("401"))
    })
    .await;
    instance.quit().await;
    stage.finish().await;
}

/// Its command is no agent but `yes`: that is known long before its time to answer is over.
#[tokio::test]
async fn a_flood_of_rubbish_instead_of_an_answer_is_ended_and_said() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    for script in ["yes rubbish", "yes | tr -d '\\n'"] {
        let request = json!({ "project_id": "p", "prompt": "hello", "user_id": "u",
            "agent_config": { "agent_server": {
                "agent_id": "rubbish", "command": "sh", "args": ["-c", script] } } });
        let began = Instant::now();
        let answer = instance.post("/computer/chat", &request).await;
        assert!(began.elapsed() < BOUND, "{script}: {:?}", began.elapsed());
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert!(message.contains("may not be an ACP agent"), "{script}: {answer:?}");
        stage.empty_but(&[instance.pid], Duration::from_secs(6)).await;
    }
    instance.quit().await;
    stage.finish().await;
}
