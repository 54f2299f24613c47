//! Every route against every way to come in wrongly, generated; and what a connection may cost.

use gantry_tests::{Instance, Stage, programs};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// What a route asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Needs {
    Nothing,
    Token,
    /// Also as `?token=`.
    TokenAnywhere,
    /// A token of its own.
    ServerToken,
}

/// All routes that the instance describes, and some that are none. A unit test of the listener
/// holds its description against its router.
async fn routes(instance: &Instance) -> Vec<(Method, String, Needs)> {
    let document = instance.send(instance.request(Method::GET, "/api/openapi.json")).await.body;
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let schemes = operation["security"].as_array().expect("security").iter();
            let schemes: Vec<&str> = schemes
                .flat_map(|one| one.as_object().unwrap().keys().map(String::as_str))
                .collect();
            let needs = match schemes[..] {
                [] => Needs::Nothing,
                ["token"] => Needs::Token,
                ["token", "query"] => Needs::TokenAnywhere,
                ["agent"] => Needs::ServerToken,
                _ => panic!("{method} {path}: {schemes:?}"),
            };
            let path = path.replace("{server}", "one").replace("{session}", "none");
            assert!(!path.contains('{'), "no value for a part of {path}");
            all.push((method.to_uppercase().parse().unwrap(), path, needs));
        }
    }
    for command in ["quit", "servers_save", "session_prompt"] {
        assert!(all.iter().any(|(_, path, _)| *path == format!("/api/{command}")), "{command}");
    }
    // What needs less than the token is written down here once more.
    let mut open: Vec<&str> = all
        .iter()
        .filter(|(_, _, needs)| *needs != Needs::Token)
        .map(|(_, path, _)| path.as_str())
        .collect();
    open.sort_unstable();
    assert_eq!(
        open,
        ["/", "/computer/progress/none", "/events", "/health", "/mcp/one", "/mcp/one", "/mcp/one"],
        "a route that needs less than the token was added: is that right?"
    );
    all.extend(
        [
            (Method::GET, "/no/such/route"),
            (Method::GET, "/run/token"),
            (Method::POST, "/health"),
            (Method::POST, "/no/such/route"),
            (Method::PUT, "/"),
            (Method::OPTIONS, "/api/quit"),
        ]
        .map(|(method, path)| (method, path.to_owned(), Needs::Token)),
    );
    all
}

/// How a request comes.
#[derive(Clone, Debug, Default)]
struct Way {
    what: &'static str,
    host: Option<String>,
    origin: Option<String>,
    token: Option<String>,
    query: bool,
}

/// Sends a request as it stands, so that `Host` can be missing or odd, and reads the status.
async fn status(address: &str, method: &Method, path: &str, way: &Way) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut head = format!("{method} {path}");
    if way.query
        && let Some(token) = &way.token
    {
        head.push_str(&format!("?token={token}"));
    }
    head.push_str(" HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\n");
    match way.host.as_deref() {
        Some("") => {}
        Some(host) => head.push_str(&format!("Host: {host}\r\n")),
        None => head.push_str(&format!("Host: {address}\r\n")),
    }
    if let Some(origin) = &way.origin {
        head.push_str(&format!("Origin: {origin}\r\n"));
    }
    if let (Some(token), false) = (&way.token, way.query) {
        head.push_str(&format!("Authorization: Bearer {token}\r\n"));
    }
    head.push_str("Content-Length: 2\r\n\r\n{}");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    // A stream of events does not end; its head is enough.
    while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
        let read = stream.read(&mut piece);
        let count = tokio::time::timeout(Duration::from_secs(10), read).await.unwrap().unwrap();
        if count == 0 {
            break;
        }
        answer.extend_from_slice(&piece[..count]);
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    let code = text.split(' ').nth(1).and_then(|code| code.parse().ok());
    (code.unwrap_or_else(|| panic!("{method} {path} {way:?}: {text:?}")), text)
}

#[tokio::test]
async fn every_route_refuses_every_wrong_way_in() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let config = programs::fake_mcp(&[]);
    instance.api("servers_save", json!({ "name": "one", "config": config })).await;
    // The token of a session's agent opens `/mcp` for that session and nothing else.
    let record = stage.path("agent.jsonl");
    let agent = programs::fake_agent(json!({ "FAKE_AGENT_RECORD": record }));
    let request = json!({ "project_id": "p", "prompt": "ECHO x", "agent_config": {
        "agent_server": agent, "context_servers": { "one": config } } });
    instance.turn(request, Duration::from_secs(20)).await;
    let recorded = std::fs::read_to_string(&record).unwrap();
    let bearer = recorded.split("Bearer ").nth(1).expect("the agent got a token");
    let sessions_token: String =
        bearer.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect();
    assert!(sessions_token.len() >= 32, "{sessions_token}");

    let address = instance.url.trim_start_matches("http://").to_owned();
    let port = address.rsplit(':').next().unwrap().to_owned();
    let own = instance.token.clone();
    let mut almost = own.clone();
    let last = almost.pop().unwrap();
    almost.push(if last == '0' { '1' } else { '0' });
    let token =
        |what, token: Option<&str>| Way { what, token: token.map(str::to_owned), ..Way::default() };
    let host = |what, host: &str| Way { host: Some(host.to_owned()), ..token(what, Some(&own)) };
    let origin =
        |what, origin: &str| Way { origin: Some(origin.to_owned()), ..token(what, Some(&own)) };
    // Each with the status that a route which needs a token gives; the first three come before
    // the token and hold for every route.
    let hosts = [
        host("foreign host", &format!("evil.example:{port}")),
        host("other port", "127.0.0.1:1"),
        host("no port", "127.0.0.1"),
        host("no host", ""),
        host("two hosts", &format!("{address}\r\nHost: {address}")),
        host("host with a suffix", &format!("127.0.0.1.evil.example:{port}")),
    ];
    let origins = [
        origin("foreign origin", "http://evil.example"),
        origin("null origin", "null"),
        origin("other port", "http://127.0.0.1:1"),
        origin("https", &format!("https://{address}")),
        origin("suffix", &format!("http://127.0.0.1.evil.example:{port}")),
        origin("empty", ""),
    ];
    let tokens = [
        token("no token", None),
        token("empty token", Some("")),
        token("wrong token", Some(&almost)),
        token("longer token", Some(&format!("{own}0"))),
        token("shorter token", Some(&own[..own.len() - 1])),
        token("upper case", Some(&own.to_uppercase())),
        token("a session's token", Some(&sessions_token)),
    ];

    let all = routes(&instance).await;
    let mut tried = 0;
    for (method, path, needs) in &all {
        for way in hosts.iter().chain(&origins) {
            tried += 1;
            let (code, text) = status(&address, method, path, way).await;
            // A request without Host is none at all for HTTP itself.
            let is_refused = code == 403 || (code == 400 && way.what.contains("host"));
            assert!(is_refused, "{method} {path} with {}: {text}", way.what);
            assert!(!text.to_lowercase().contains("access-control-allow-origin"), "{text}");
        }
        for way in &tokens {
            tried += 1;
            let (code, text) = status(&address, method, path, way).await;
            let is_open = *needs == Needs::Nothing
                || (*needs == Needs::ServerToken && way.what == "a session's token");
            assert_eq!(code != 401, is_open, "{method} {path} with {}: {text}", way.what);
            assert!(!text.contains(&own), "{method} {path} with {} tells the token", way.what);
        }
        // In the query only where a browser cannot send it otherwise.
        let way = Way { query: true, ..token("query", Some(&own)) };
        let (code, text) = status(&address, method, path, &way).await;
        let is_open = matches!(needs, Needs::Nothing | Needs::TokenAnywhere);
        assert_eq!(code != 401, is_open, "{method} {path} with the token in the query: {text}");
        tried += 1;
        let is_end = path == "/api/quit";
        if matches!(needs, Needs::Token | Needs::TokenAnywhere) && !is_end {
            let good = Way {
                origin: Some(format!("http://localhost:{port}")),
                ..token("good", Some(&own))
            };
            let (code, text) = status(&address, method, path, &good).await;
            assert!(![401, 403].contains(&code), "{method} {path} with its own token: {text}");
            assert!(code < 500, "{method} {path}: {text}");
        }
    }
    assert!(tried > 800, "only {tried}");
    // None of it reached the core.
    let health = instance.send(instance.request_without_token(Method::GET, "/health")).await;
    assert_eq!(health.body["status"], "ok");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn nothing_outside_of_the_interface_is_served() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let address = instance.url.trim_start_matches("http://").to_owned();
    for path in [
        "/assets/../../run/token",
        "/assets/%2e%2e/%2e%2e/run/token",
        "/assets/..%2f..%2frun%2ftoken",
        "/..%5c..%5crun%5ctoken",
        "//etc/passwd",
        "/assets//etc/passwd",
        "/%2e%2e/gantry.db",
        "/assets/%00token",
        "/index.html/../../run/token",
        "http://127.0.0.1/run/token",
    ] {
        let way = Way { token: Some(instance.token.clone()), ..Way::default() };
        let (code, text) = status(&address, &Method::GET, path, &way).await;
        assert!([400, 401, 403, 404].contains(&code), "{path}: {text}");
        assert!(!text.contains(&instance.token) && !text.contains("root:"), "{path}: {text}");
    }
    // Ids that are paths, where a path takes an id.
    for path in ["/computer/progress/..%2f..%2frun", "/api/..%2fhealth", "/mcp/..%2f..%2fapi"] {
        let answer = instance.send(instance.request(Method::GET, path)).await;
        assert!(answer.status.is_client_error(), "{path}: {}", answer.status);
    }
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_request_head_has_a_limit_in_size_and_in_time() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start_with(&stage, |command| {
        command.env("GANTRY_LOG", "debug");
    })
    .await;
    let address = instance.url.trim_start_matches("http://").to_owned();

    let large =
        format!("GET /health HTTP/1.1\r\nHost: {address}\r\nX: {}\r\n\r\n", "x".repeat(200 << 10));
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let _ = stream.write_all(large.as_bytes()).await;
    let mut text = String::new();
    let reading = stream.read_to_string(&mut text);
    let _ = tokio::time::timeout(Duration::from_secs(10), reading).await.expect("it ends");
    assert!(text.is_empty() || text.contains(" 431 "), "{text}");

    // A hundred that dribble their heads hold up nobody, and are let go.
    let began = Instant::now();
    let mut slow = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(b"GET /health HTTP/1.1\r\nHo").await.unwrap();
        slow.push(stream);
    }
    let health = instance.send(instance.request_without_token(Method::GET, "/health")).await;
    assert_eq!(health.status, StatusCode::OK);
    for mut stream in slow {
        let mut text = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut text));
        let _ = ended.await.expect("a head that does not end is not waited for for ever");
    }
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());

    // An idle connection is another thing: clients keep them.
    let mut idle = TcpStream::connect(&address).await.unwrap();
    let ask = format!("GET /health HTTP/1.1\r\nHost: {address}\r\n\r\n");
    for _ in 0..2 {
        idle.write_all(ask.as_bytes()).await.unwrap();
        let mut piece = [0; 1024];
        let count = idle.read(&mut piece).await.unwrap();
        assert!(String::from_utf8_lossy(&piece[..count]).contains(" 200 "));
    }
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_token_file_that_others_can_read_is_refused_at_the_start() {
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::shared().await;
    let file = stage.path("token");
    std::fs::write(&file, "0123456789abcdef0123456789abcdef").unwrap();
    for (mode, starts) in
        [(0o644, false), (0o640, false), (0o604, false), (0o600, true), (0o400, true)]
    {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut command = stage.program("gantry");
        command.args(["serve", "--data-dir"]).arg(stage.data_dir()).arg("--token-file").arg(&file);
        if starts {
            let mut instance = Instance::start_with(&stage, |command| {
                command.arg("--token-file").arg(&file);
            })
            .await;
            assert_eq!(instance.token, "0123456789abcdef0123456789abcdef");
            instance.quit().await;
            continue;
        }
        let output = tokio::time::timeout(Duration::from_secs(10), command.output()).await;
        let output = output.unwrap().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{mode:o}: {errors}");
        assert!(errors.contains("chmod 600"), "{mode:o}: {errors}");
        assert!(!errors.contains("0123456789abcdef"), "{errors}");
    }
    stage.finish().await;
}

/// Case 86: everything that an instance writes, says and starts, against everything secret that it was told.
#[tokio::test]
async fn no_secret_is_in_anything_that_comes_out() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start_with(&stage, |command| {
        command.env("GANTRY_LOG", "trace");
    })
    .await;
    let secret = |what: &str| format!("planted-{what}-9f8e7d");
    let planted: Vec<String> =
        ["key", "agent-env", "server-env", "header", "saved-env", "import"].map(secret).to_vec();
    let mut server = programs::fake_mcp(&[]);
    server["env"] = json!({ "API_TOKEN": planted[2] });
    let mut saved = programs::fake_mcp(&[]);
    saved["env"] = json!({ "PASSWORD": planted[4] });
    saved["persistent"] = json!(true);
    let mut said = String::new();
    let mut keep = |value: &Value| said.push_str(&value.to_string());

    keep(&instance.api("servers_save", json!({ "name": "kept", "config": saved })).await);
    let pasted = json!({ "x": { "command": "x", "env": { "KEY": planted[5] } } }).to_string();
    keep(&instance.api("servers_import", json!({ "text": pasted })).await);
    let agent = programs::fake_agent(json!({ "SECRET_KEY": planted[1] }));
    let request = json!({
        "project_id": "p", "prompt": "TOOLS\nPERMISSION",
        "model_provider": { "provider": "x", "api_key": planted[0], "base_url": "http://127.0.0.1:9", "model": "m" },
        "agent_config": { "agent_server": agent, "context_servers": {
            "one": server,
            "far": { "url": "http://127.0.0.1:9/mcp", "headers": { "Authorization": planted[3] } } } },
    });
    let (answer, text) = instance.turn(request, Duration::from_secs(30)).await;
    keep(&answer);
    said.push_str(&text);
    // Errors tell what was wrong, and not what was there.
    for body in [
        json!({ "user_id": "u", "prompt": "x", "model_provider": { "api_key": [planted[0]] } }),
        json!({ "user_id": "u", "prompt": "x", "agent_config": { "agent_server":
            { "command": "/no/such/agent", "env": { "SECRET_KEY": planted[1] } } } }),
    ] {
        said.push_str(&instance.post("/computer/chat", &body).await.body.to_string());
    }
    let session = answer["session_id"].as_str().unwrap().to_owned();
    for (command, input) in [
        ("snapshot", json!({})),
        ("servers_list", json!({})),
        ("sessions_list", json!({})),
        ("agents_list", json!({})),
        ("processes", json!({})),
        ("session_history", json!({ "session": session })),
        ("servers_log", json!({ "name": "kept" })),
    ] {
        said.push_str(&instance.api(command, input).await.to_string());
    }
    for path in ["/metrics", "/api", "/health"] {
        let answer = instance.request(Method::GET, path).send().await.unwrap();
        said.push_str(&answer.text().await.unwrap());
    }
    let mut progress = instance.progress(&session).await;
    progress.end_of_turn(Duration::from_secs(10)).await;
    for event in &progress.seen {
        said.push_str(&event.data.to_string());
    }
    let token = instance.token.clone();
    for row in stage.members() {
        said.push_str(&row.command);
    }
    instance.quit().await;
    said.push_str(&instance.log());
    for entry in std::fs::read_dir(stage.data_dir().join("logs")).unwrap().flatten() {
        said.push_str(&String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()));
    }
    assert!(said.contains("session/prompt sent") && said.len() > 10_000, "too little to look at");
    for secret in planted.iter().chain([&token]) {
        let at = said.find(secret.as_str());
        let around = at.map(|at| {
            let from = said.floor_char_boundary(at.saturating_sub(200));
            said[from..said.floor_char_boundary(at + 80)].to_owned()
        });
        assert!(at.is_none(), "{secret} came out: …{}…", around.unwrap_or_default());
    }
    // In the data directory only what the user saved himself (until there is a keychain).
    for entry in ["gantry.db", "gantry.db-wal"] {
        let bytes = std::fs::read(stage.data_dir().join(entry)).unwrap_or_default();
        for secret in planted.iter().filter(|secret| !secret.contains("saved-env")) {
            let is_there = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!is_there, "{secret} is in {entry}");
        }
    }
    stage.finish().await;
}
