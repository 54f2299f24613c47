//! Remote servers. The remote is the bridge of a second Gantry: it wants a token, has
//! sessions, and forgets them when it is started anew.

use gantry_tests::{Instance, Stage, programs, record, wait_until};
use serde_json::{Value, json};
use std::{
    net::TcpListener,
    path::PathBuf,
    time::{Duration, Instant},
};

const BOUND: Duration = Duration::from_secs(20);

/// A second Gantry with one saved server, which can be started again at the same place.
struct Far {
    stage: Stage,
    port: u16,
    token: PathBuf,
    instance: Instance,
}

impl Far {
    async fn start(stage: &Stage) -> Self {
        let stage = stage.beside();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let token = stage.path("token");
        std::fs::write(&token, "f".repeat(64)).unwrap();
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&token, own).unwrap();
        let instance = Self::launch(&stage, port, &token).await;
        let mut config = programs::fake_mcp(&["--label", "far", "--tools", "2"]);
        config["persistent"] = json!(true);
        instance.api("servers_save", json!({ "name": "echo", "config": config })).await;
        instance.server_in("echo", "ready", BOUND).await;
        Self { stage, port, token, instance }
    }

    async fn launch(stage: &Stage, port: u16, token: &PathBuf) -> Instance {
        let port = port.to_string();
        Instance::start_with(stage, |command| {
            command.args(["--port", &port, "--token-file"]).arg(token);
        })
        .await
    }

    /// Starts again what was quit; no session of before is known any more.
    async fn again(&mut self) {
        self.instance = Self::launch(&self.stage, self.port, &self.token).await;
    }

    fn config(&self) -> Value {
        let url = format!("http://127.0.0.1:{}/mcp/echo", self.port);
        let bearer = format!("Bearer {}", "f".repeat(64));
        json!({ "url": url, "headers": { "Authorization": bearer } })
    }

    async fn finish(mut self) {
        self.instance.quit().await;
        self.stage.finish().await;
    }
}

fn chat(servers: Value, prompt: &str, env: Value) -> Value {
    json!({
        "project_id": "p", "prompt": prompt,
        "agent_config": { "agent_server": programs::fake_agent(env), "context_servers": servers },
    })
}

/// Headers arrive, the filter holds, and a server that was started again (404) goes on in the
/// same session of the agent. Case 48.
#[tokio::test]
async fn a_filtered_remote_server_goes_through_the_bridge_and_survives_its_restart() {
    let stage = Stage::shared().await;
    let mut far = Far::start(&stage).await;
    let mut instance = Instance::start(&stage).await;
    let mut config = far.config();
    config["denyTools"] = json!(["crash"]);
    let env = json!({ "FAKE_AGENT_RECORD": stage.path("agent.jsonl") });
    let prompt = "CALL echo {\"text\":\"one\"}\nCALL crash {\"code\":1}";
    let (answer, text) =
        instance.turn(chat(json!({ "far": config }), prompt, env.clone()), BOUND).await;
    let server = &answer["servers"][0];
    assert_eq!((&server["state"], &server["via"]), (&json!("ready"), &json!("bridge")), "{answer}");
    assert_eq!(server["tools"], 10, "{answer}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "echo: far: one");
    assert!(lines[1].contains("failed"), "the agent was listed it: {text}");
    for row in stage.members() {
        assert!(!row.command.contains("ffff"), "a token in arguments: {}", row.command);
    }

    far.instance.quit().await;
    wait_until("the light went out", BOUND, async || {
        instance.server("far").await.filter(|server| server["state"] != "ready")
    })
    .await;
    far.again().await;
    instance.server_in("far", "ready", BOUND).await;
    let mut again = chat(json!({ "far": config }), "CALL echo {\"text\":\"two\"}", env);
    again["session_id"] = answer["session_id"].clone();
    let (again, text) = instance.turn(again, BOUND).await;
    assert_eq!((text.as_str(), &again["context"]), ("echo: far: two\n", &json!("kept")), "{again}");

    let session = json!({ "session": answer["session_id"] });
    instance.api("session_stop", session).await;
    assert_eq!(instance.server("far").await, None);
    instance.quit().await;
    far.finish().await;
    stage.finish().await;
}

/// Without a filter the agent gets the server's own URL; what we say of it was seen all the same.
#[tokio::test]
async fn a_remote_server_is_passed_through_with_a_light_that_is_true() {
    let stage = Stage::shared().await;
    let mut far = Far::start(&stage).await;
    let mut instance = Instance::start(&stage).await;
    let agent_record = stage.path("agent.jsonl");
    let mut closed = far.config();
    closed["headers"] = json!({});
    let servers = json!({ "far": far.config(), "closed": closed });
    let env = json!({ "FAKE_AGENT_RECORD": agent_record });
    let prompt = "CALLON far echo {\"text\":\"one\"}";
    let (answer, text) = instance.turn(chat(servers, prompt, env), BOUND).await;
    assert_eq!(text, "echo: far: one\n", "{answer}");
    let server = |name: &str| {
        let servers = answer["servers"].as_array().unwrap();
        servers.iter().find(|server| server["name"] == name).unwrap().clone()
    };
    let (open, closed) = (server("far"), server("closed"));
    assert_eq!((&open["state"], &open["via"]), (&json!("passed_through"), &json!("remote")));
    assert_eq!((&open["tools"], &open["error"]), (&json!(11), &Value::Null));
    // Whoever signs in later has its tools through the bridge.
    assert_eq!((&closed["state"], &closed["via"]), (&json!("failed"), &json!("bridge")));
    assert_eq!(closed["error"], "it needs you to sign in", "{answer}");
    let entry = &record::events(&agent_record, "tools")[0]["entry"];
    assert!(entry["url"].as_str().unwrap().contains(&far.port.to_string()), "{entry}");

    let view = instance.server_in("far", "ready", BOUND).await;
    assert_eq!((&view["tools"], &view["pid"]), (&json!(11), &Value::Null));
    let tools = instance.api("servers_tools", json!({ "name": "far" })).await;
    assert_eq!(tools["tools"].as_array().map(Vec::len), Some(11));
    far.instance.quit().await;
    wait_until("the light went out", BOUND, async || {
        instance.server("far").await.filter(|server| server["state"] != "ready")
    })
    .await;
    far.again().await;
    instance.server_in("far", "ready", BOUND).await;
    instance.quit().await;
    far.finish().await;
    stage.finish().await;
}

/// Case 47.
#[tokio::test]
async fn a_remote_server_that_accepts_and_never_answers_is_not_green_and_keeps_nobody() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", mute.local_addr().unwrap());
    let servers = json!({
        "mute": { "url": url, "startTimeoutMs": 4000 }, "good": programs::fake_mcp(&[]),
    });
    // Lazy: the agent itself must not wait for the silent one.
    let mut request = chat(servers, "ECHO hi", json!({ "FAKE_AGENT_LAZY": "1" }));
    request["ready_timeout_ms"] = json!(1500);
    let began = Instant::now();
    let (answer, text) = instance.turn(request, BOUND).await;
    assert_eq!(text, "hi");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let server = &answer["servers"][1];
    assert_eq!((&server["name"], &server["tools"]), (&json!("mute"), &json!(0)), "{answer}");
    assert!(server["error"].as_str().is_some_and(|why| why.contains("not answered")), "{answer}");
    let failed = wait_until("the light is red", BOUND, async || {
        let server = instance.server("mute").await?;
        assert_ne!(server["state"], "ready");
        (server["state"] == "failed").then_some(server)
    })
    .await;
    assert!(failed["error"].as_str().is_some_and(|why| why.contains("4 s")), "{failed}");
    instance.quit().await;
    stage.finish().await;
}
