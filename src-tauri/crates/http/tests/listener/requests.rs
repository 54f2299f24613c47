//! Requests and refusals.

use crate::site::Site;
use gantry_core::api::COMMANDS;
use gantry_http::HttpOptions;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn what_http_itself_refuses_has_the_right_status_and_form() {
    let site = Site::open().await;
    for (path, in_envelope) in
        [("/computer/nothing", true), ("/nothing", false), ("/api/a/b", false)]
    {
        let answer = site.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        check_form(&answer.json(), in_envelope, "NOT_FOUND");
    }
    for (path, in_envelope) in
        [("/computer/chat", true), ("/computer/agent/stop", true), ("/api/servers_list", false)]
    {
        let answer = site.get(path).await;
        assert_eq!(answer.status, 405, "{path}");
        check_form(&answer.json(), in_envelope, "METHOD_NOT_ALLOWED");
    }
    let unknown = site.post("/api/dance", &json!({})).await;
    assert_eq!(unknown.status, 404);
    check_form(&unknown.json(), false, "NOT_FOUND");

    for (path, in_envelope) in [("/computer/chat", true), ("/api/servers_save", false)] {
        let broken = site.send(path, b"{\"name\": \"planted-secret\"").await;
        assert_eq!(broken.status, 400, "{path}");
        check_form(&broken.json(), in_envelope, "VALIDATION_ERROR");
        assert!(!broken.body.contains("planted"));
        let large = site.send(path, &vec![b' '; 11 * 1024 * 1024]).await;
        assert_eq!(large.status, 413, "{path}");
        check_form(&large.json(), in_envelope, "PAYLOAD_TOO_LARGE");
    }
    let wrong = site.post("/api/servers_save", &json!({"name": 5, "config": {}})).await;
    assert_eq!(wrong.status, 400);
    let wrong = site.post("/computer/chat", &json!({"user_id": 5, "prompt": "x"})).await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.json()["message"].as_str().unwrap().contains("user_id"));
    site.close().await;
}

fn check_form(body: &Value, in_envelope: bool, code: &str) {
    if in_envelope {
        assert_eq!(body["success"], false, "{body}");
        assert_eq!(body["code"], code, "{body}");
        assert!(
            body["message"].is_string() && body.get("data").is_some() && body.get("tid").is_some()
        );
    } else {
        assert_eq!(body["ok"], false, "{body}");
        assert_eq!(body["error"]["code"], code, "{body}");
        assert!(body["error"]["message"].is_string() && body["error"].get("detail").is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_stands_before_every_route() {
    let site = Site::open().await;
    let (host, token) = (site.address, site.app.token().to_owned());
    let ask = async |request: String| site.connect().await.ask(&request, b"").await.status;
    for path in ["/api", "/metrics", "/events", "/computer/progress/x", "/nothing", "/"] {
        let good = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n");
        assert_eq!(ask(format!("{good}\r\n")).await, 401, "{path}");
        let evil = format!(
            "GET {path} HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        assert_eq!(ask(evil).await, 403, "{path}");
        for origin in ["null", "http://evil.example"] {
            let foreign =
                format!("{good}Origin: {origin}\r\nAuthorization: Bearer {token}\r\n\r\n");
            assert_eq!(ask(foreign).await, 403, "{path} {origin}");
        }
    }
    let own = format!("http://{host}");
    let mut client = site.connect().await;
    let answer =
        client.ask(&format!("{}Origin: {own}\r\n\r\n", site.head("GET", "/api")), b"").await;
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (200, Some(own.as_str()))
    );
    let answer = site.get("/api").await;
    assert_eq!(answer.header("access-control-allow-origin"), None);
    // The bridge has tokens of its own; ours is one of them.
    assert_eq!(ask(format!("GET /mcp/x HTTP/1.1\r\nHost: {host}\r\n\r\n")).await, 401);
    site.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_needs_no_token_and_tells_no_more_than_it_must() {
    let site = Site::open().await;
    let request = format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", site.address);
    let health = site.connect().await.ask(&request, b"").await.json();
    assert_eq!(health["status"], "ok");
    assert_eq!(health["version"], gantry_core::VERSION);
    assert!(health["uptime_ms"].is_u64());
    assert_eq!(health.as_object().unwrap().len(), 3);
    site.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_is_offered_and_listed() {
    let site = Site::open().await;
    let list = site.get("/api").await.json();
    let names: Vec<_> =
        list["data"]["commands"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
    assert_eq!(names, COMMANDS.iter().map(|command| json!(command.name)).collect::<Vec<_>>());
    assert!(list["data"]["commands"][0]["output"].is_string());
    for command in COMMANDS.iter().filter(|command| command.name != "quit") {
        let answer = site.post(&format!("/api/{}", command.name), &json!({})).await;
        let found = answer.status == 200 || answer.status == 400;
        assert!(found, "{}: {answer:?}", command.name);
    }
    let servers = site.post("/api/servers_list", &json!({"unknown": 1})).await.json();
    assert_eq!(servers, json!({"ok": true, "data": {"servers": []}}));
    assert_eq!(
        site.send("/api/sessions_list", b"").await.status,
        200,
        "an empty body is an empty input"
    );
    let metrics = site.get("/metrics").await;
    assert_eq!(metrics.status, 200);
    assert!(metrics.body.contains("gantry_processes{role=\"app\"} 1\n"), "{}", metrics.body);
    site.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_is_not_right_names_the_field_and_creates_nothing() {
    let site = Site::open().await;
    let long = "x".repeat(10_000);
    let bad_ids =
        ["../../etc", "/etc", "", ".hidden", "a/b", "a b", "..", "a\u{0}b", long.as_str()];
    let mut requests = vec![
        (json!({"prompt": "x"}), "user_id"),
        (json!({"user_id": "u"}), "prompt"),
        (json!({"user_id": "u", "prompt": "  "}), "prompt"),
        (json!({"user_id": "u", "prompt": "x", "permission": "never"}), "permission"),
        (
            json!({"user_id": "u", "prompt": "x", "agent_config": {"context_servers": {"a": 1}}}),
            "agent_config.context_servers.a",
        ),
    ];
    for id in bad_ids {
        requests.push((json!({"user_id": "u", "prompt": "x", "project_id": id}), "project_id"));
        requests.push((json!({"user_id": id, "prompt": "x"}), "user_id"));
    }
    for (request, field) in requests {
        let answer = site.post("/computer/chat", &request).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        let body = answer.json();
        assert_eq!(body["code"], "VALIDATION_ERROR");
        assert!(body["message"].as_str().unwrap().contains(field), "{field}: {body}");
    }
    let unknown = json!({"user_id": "u", "prompt": "x", "session_id": "ghost"});
    assert_eq!(site.post("/computer/chat", &unknown).await.status, 404);
    let workspaces = &site.app.data_dir().workspaces;
    assert_eq!(std::fs::read_dir(workspaces).unwrap().count(), 0);
    assert!(site.app.sessions().views().is_empty());
    site.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_is_asked_about_in_the_body_or_in_the_query() {
    let site = Site::open().await;
    let session = site.session().await;
    let body = json!({"user_id": "u1", "project_id": "p1"});
    let status = site.post("/computer/agent/status", &body).await.json();
    assert_eq!((&status["success"], &status["code"]), (&json!(true), &json!("0000")));
    assert_eq!(status["data"]["is_alive"], false);
    assert_eq!(status["data"]["session_id"], json!(session.id));
    let path = "/computer/agent/session/cancel?user_id=u1&project_id=p1";
    assert_eq!(
        site.send(path, b"").await.json()["data"],
        json!({"success": true, "session_id": null})
    );
    for _ in 0..2 {
        let stop = site.post("/computer/agent/stop", &body).await.json();
        assert_eq!(stop["data"]["success"], true, "{stop}");
        let body = json!({"user_id": "u1", "project_id": "p1", "session_id": session.id});
        let stop = site.post("/computer/agent/session/stop", &body).await.json();
        assert_eq!(stop["data"]["success"], true, "{stop}");
        assert_eq!(stop["data"]["session_id"], json!(session.id));
    }
    let foreign = json!({"user_id": "u2", "project_id": "p1", "session_id": session.id});
    assert_eq!(site.post("/computer/agent/session/stop", &foreign).await.status, 404);
    assert_eq!(site.post("/computer/agent/stop", &json!({"project_id": "p1"})).await.status, 400);
    site.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_comes_with_a_policy_and_only_with_the_token() {
    let site = Site::open().await;
    let bare = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", site.address);
    assert_eq!(site.connect().await.ask(&bare, b"").await.status, 401);
    let first =
        format!("GET /?token={} HTTP/1.1\r\nHost: {}\r\n\r\n", site.app.token(), site.address);
    let page = site.connect().await.ask(&first, b"").await;
    // 404 with instructions where the interface was not built.
    assert!(page.status == 200 || (page.status == 404 && page.body.contains("npm")), "{page:?}");
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'self'"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    let outside =
        format!("GET /assets/../../package.json HTTP/1.1\r\nHost: {}\r\n\r\n", site.address);
    assert_eq!(site.connect().await.ask(&outside, b"").await.status, 404);
    site.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tokens_a_request_needs_none() {
    let site = Site::open_with(HttpOptions { ui: false, auth: false }).await;
    let bare = format!("GET /api HTTP/1.1\r\nHost: {}\r\n\r\n", site.address);
    assert_eq!(site.connect().await.ask(&bare, b"").await.status, 200);
    let evil = "GET /api HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    assert_eq!(site.connect().await.ask(evil, b"").await.status, 403);
    site.close().await;
}
