//! Who may speak to the listener, and what it does with nonsense.

use gantry_tests::{Instance, Stage};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::{process::Stdio, time::Duration};

#[tokio::test]
async fn host_then_origin_then_token_are_checked() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let own = instance.url.trim_start_matches("http://").to_owned();
    let port = own.rsplit(':').next().unwrap();
    let localhost = format!("localhost:{port}");
    let origin = instance.url.clone();
    let good = format!("Bearer {}", instance.token);
    let longer = format!("{good}0");
    // Host, Origin, Authorization, expected.
    type Row<'a> = (Option<&'a str>, Option<&'a str>, Option<&'a str>, u16);
    let table: &[Row] = &[
        (None, None, Some(&good), 200),
        (Some(&localhost), None, Some(&good), 200),
        (None, Some(&origin), Some(&good), 200),
        (None, None, None, 401),
        (None, None, Some("Bearer "), 401),
        (None, None, Some(&longer), 401),
        (None, None, Some("Basic Zm9vOmJhcg=="), 401),
        (Some("evil.example"), None, Some(&good), 403),
        (Some("evil.example"), None, None, 403),
        (Some("127.0.0.1:1"), None, Some(&good), 403),
        (None, Some("http://evil.example"), Some(&good), 403),
        (None, Some("http://localhost:1"), Some(&good), 403),
        (None, Some("null"), Some(&good), 403),
        (None, Some("null"), None, 403),
    ];
    for (host, from, token, expected) in table {
        let mut request = instance.request_without_token(Method::POST, "/api/servers_list");
        for (name, value) in [("host", host), ("origin", from), ("authorization", token)] {
            if let Some(value) = value {
                request = request.header(name, *value);
            }
        }
        let answer = instance.send(request.json(&json!({}))).await;
        assert_eq!(answer.status.as_u16(), *expected, "{host:?} {from:?} {}", token.is_some());
    }
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn health_needs_no_token_and_the_rest_does() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let health = instance.send(instance.request_without_token(Method::GET, "/health")).await;
    assert_eq!(health.status, StatusCode::OK);
    assert_eq!(health.body["status"], "ok");
    assert!(health.body["version"].is_string() && health.body["uptime_ms"].is_u64());
    for (method, path) in [
        (Method::GET, "/api"),
        (Method::GET, "/events"),
        (Method::GET, "/metrics"),
        (Method::POST, "/api/quit"),
        (Method::POST, "/computer/chat"),
        (Method::GET, "/computer/progress/x"),
        (Method::POST, "/computer/agent/stop"),
        (Method::POST, "/mcp/anything"),
    ] {
        let answer = instance.send(instance.request_without_token(method, path)).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
    }
    // In the query only where a browser cannot set a header.
    let token = &instance.token;
    for (path, expected) in [
        (format!("/computer/progress/none?token={token}"), 404),
        (format!("/api?token={token}"), 401),
        (format!("/metrics?token={token}"), 401),
    ] {
        let answer = instance.send(instance.request_without_token(Method::GET, &path)).await;
        assert_eq!(answer.status.as_u16(), expected, "{}", path.split('?').next().unwrap());
    }
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn the_token_is_readable_by_its_owner_only_and_new_at_each_start() {
    let stage = Stage::shared().await;
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let mut instance = Instance::start(&stage).await;
        let run = stage.data_dir().join("run");
        let mode = |path: &std::path::Path| {
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions())
                & 0o777
        };
        assert_eq!((mode(&run), mode(&run.join("token"))), (0o700, 0o600));
        let facts: Value =
            serde_json::from_str(&std::fs::read_to_string(run.join("instance.json")).unwrap())
                .unwrap();
        assert_eq!(facts["pid"], instance.pid);
        assert_eq!(facts["url"].as_str().unwrap().trim_end_matches('/'), instance.url);
        assert!(instance.token.len() >= 43, "fewer than 256 bits");
        tokens.push(instance.token.clone());
        instance.quit().await;
    }
    assert_ne!(tokens[0], tokens[1]);
    stage.finish().await;
}

#[tokio::test]
async fn the_token_is_in_no_log_and_no_argument() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start_with(&stage, |command| {
        command.env("GANTRY_LOG", "debug");
    })
    .await;
    let secret = "s3cret-of-the-user-0815";
    let mut agent = gantry_tests::programs::fake_agent(json!({ "API_KEY": secret }));
    agent["agent_id"] = json!("secretive");
    let request = json!({
        "project_id": "p", "prompt": "ECHO hello",
        "model_provider": { "provider": "x", "api_key": secret, "base_url": "http://127.0.0.1:9", "model": "m" },
        "agent_config": {
            "agent_server": agent,
            "context_servers": { "one": gantry_tests::programs::fake_mcp(&[]) },
        },
    });
    instance.turn(request, Duration::from_secs(20)).await;
    for row in stage.members() {
        assert!(
            !row.command.contains(&instance.token) && !row.command.contains(secret),
            "pid {}",
            row.pid
        );
    }
    instance.quit().await;
    let mut logs = instance.log();
    for entry in std::fs::read_dir(stage.data_dir().join("logs")).into_iter().flatten().flatten() {
        logs.push_str(&std::fs::read_to_string(entry.path()).unwrap_or_default());
    }
    assert!(logs.contains("session/prompt sent"), "{logs}");
    assert!(!logs.contains(&instance.token), "the token is in the log");
    assert!(!logs.contains(secret), "a key is in the log");
    stage.finish().await;
}

#[tokio::test]
async fn a_second_instance_on_the_same_directory_ends_with_three_and_names_the_first() {
    let stage = Stage::shared().await;
    let mut first = Instance::start(&stage).await;
    let mut command = stage.program("gantry");
    command.arg("serve").arg("--data-dir").arg(stage.data_dir()).stdin(Stdio::null());
    let output =
        tokio::time::timeout(Duration::from_secs(10), command.output()).await.unwrap().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(output.stdout.is_empty());
    let told: Vec<&str> = errors.lines().filter(|line| line.starts_with("gantry: ")).collect();
    assert_eq!(told.len(), 1, "{errors}");
    assert!(told[0].contains(&first.pid.to_string()), "{errors}");
    // The first is none the worse for it.
    let health = first.send(first.request_without_token(Method::GET, "/health")).await;
    assert_eq!(health.status, StatusCode::OK);
    first.quit().await;
    stage.finish().await;
}

/// Case N11.
#[tokio::test]
async fn an_id_that_is_a_path_is_refused_and_nothing_is_created() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let long = "x".repeat(10_000);
    for id in ["../../etc", "/etc", "", ".hidden", "a/b", "a\\b", "a b", "..", &long] {
        let body = json!({ "user_id": "u", "project_id": id, "prompt": "hello" });
        let answer = instance.post("/computer/chat", &body).await;
        let shown: String = id.chars().take(20).collect();
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{shown:?}");
        assert_eq!(answer.body["code"], "VALIDATION_ERROR", "{shown:?}");
        assert!(answer.body["message"].as_str().unwrap().contains("project_id"), "{}", answer.body);
    }
    let workspaces = stage.data_dir().join("workspaces");
    let made: Vec<_> = std::fs::read_dir(workspaces).into_iter().flatten().flatten().collect();
    assert!(made.is_empty(), "{made:?}");
    instance.quit().await;
    stage.finish().await;
}

/// Case N12.
#[tokio::test]
async fn nonsense_gets_the_status_that_says_what_is_wrong() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let post = |path: &str| {
        instance.request(Method::POST, path).header("content-type", "application/json")
    };
    let large = json!({ "user_id": "u", "prompt": "x".repeat(11 << 20) }).to_string();
    for (what, request, expected) in [
        ("11 MiB", post("/computer/chat").body(large), 413),
        ("broken JSON", post("/computer/chat").body("{\"user_id\":"), 400),
        ("wrong type", post("/computer/chat").body("{\"user_id\":1,\"prompt\":\"x\"}"), 400),
        ("no prompt", post("/computer/chat").body("{\"user_id\":\"u\"}"), 400),
        ("unknown route", post("/computer/nothing").body("{}"), 404),
        ("unknown command", post("/api/no_such_command").body("{}"), 404),
        (
            "unknown session",
            post("/computer/chat")
                .body("{\"user_id\":\"u\",\"prompt\":\"x\",\"session_id\":\"none-of-ours\"}"),
            404,
        ),
        ("wrong method", instance.request(Method::GET, "/computer/chat"), 405),
        ("broken JSON for a command", post("/api/servers_save").body("{"), 400),
        ("wrong type for a command", post("/api/servers_save").body("{\"name\":1}"), 400),
    ] {
        let answer = instance.send(request).await;
        assert_eq!(answer.status.as_u16(), expected, "{what}: {}", answer.body);
    }
    instance.quit().await;
    stage.finish().await;
}

/// What no system can start, what has no end, and what a server does not take: the caller's
/// mistakes, told at once.
#[tokio::test]
async fn what_cannot_work_is_refused_before_it_is_tried() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let kept = gantry_tests::programs::fake_mcp(&[]);
    instance.api("servers_save", json!({ "name": "kept", "config": kept })).await;
    let pipe = stage.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let chat = |agent: Value, servers: Value| {
        json!({ "user_id": "u", "prompt": "x",
            "agent_config": { "agent_server": agent, "context_servers": servers } })
    };
    let call = |tool: &str, arguments: Value| json!({ "name": "kept", "tool": tool, "arguments": arguments });
    for (path, body, field) in [
        (
            "/computer/chat",
            chat(json!({ "command": "a\u{0}b" }), json!({})),
            "agent_server.command",
        ),
        (
            "/computer/chat",
            chat(json!({ "command": "a", "env": { "A=B": "x" } }), json!({})),
            "agent_server.env",
        ),
        (
            "/computer/chat",
            chat(json!({}), json!({ "s": { "command": "a", "args": ["b\u{0}"] } })),
            "context_servers.s.args[0]",
        ),
        (
            "/api/servers_save",
            json!({ "name": "n", "config": { "command": "a", "env": { "": "x" } } }),
            "config.env",
        ),
        (
            "/api/agents_save",
            json!({ "id": "n", "config": { "name": "n", "command": "a", "env": { "A": "\u{0}" } } }),
            "config.env.A",
        ),
        ("/api/servers_import", json!({ "path": "/dev/zero" }), "path"),
        ("/api/servers_import", json!({ "path": pipe }), "path"),
        ("/api/agents_import", json!({ "path": "/dev/zero" }), "path"),
        ("/api/agents_import", json!({ "path": pipe }), "path"),
        ("/api/servers_call", call("echo", json!(["no", "object"])), "arguments"),
        ("/api/servers_call", call("no_such_tool", json!({})), "no_such_tool"),
    ] {
        let answer = instance.post(path, &body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path} {body}: {}", answer.body);
        let message = answer.body["message"].as_str().or(answer.body["error"]["message"].as_str());
        assert!(message.unwrap().contains(field), "{path} {body}: {}", answer.body);
    }
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn another_address_without_a_token_is_wrong_usage() {
    let stage = Stage::shared().await;
    let mut command = stage.program("gantry");
    command.args(["serve", "--host", "0.0.0.0", "--no-auth", "--data-dir"]).arg(stage.data_dir());
    command.stdin(Stdio::null());
    let output =
        tokio::time::timeout(Duration::from_secs(10), command.output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty());
    stage.finish().await;
}
