use super::*;
use crate::bridge::HandedServer;

#[tokio::test(start_paused = true)]
async fn identical_servers_share_one_process() {
    let fixture = Fixture::new();
    fixture.bridge.configure(vec![spec("saved", "mark=s")]).await;
    for n in 0..20 {
        let servers = vec![spec("a", "mark=a"), spec("saved", "mark=s")];
        fixture.bridge.lease(&format!("s{n}"), Some(servers)).await;
    }
    fixture.open("follower", None).await;
    fixture.open("s0", Some(vec![spec("a", "mark=a"), spec("saved", "mark=s")])).await;
    assert_eq!(fixture.world.alive(), ["saved", "a"]);
    let view = fixture.until("saved", |_| true).await;
    assert_eq!((view.used_by.len(), view.saved), (21, true));
    for n in 1..20 {
        assert_eq!(fixture.bridge.release(&format!("s{n}"), soon()).await.servers, [""; 0]);
    }
    assert_eq!(fixture.bridge.release("s0", soon()).await.servers, ["a"]);
    assert_eq!(fixture.world.alive(), ["saved"]);
    let released = fixture.bridge.release("follower", soon()).await;
    assert_eq!((released.servers, released.ended.len()), (vec!["saved".to_owned()], 1));
    fixture.close().await;
}

/// Case N10: each session calls its own.
#[tokio::test(start_paused = true)]
async fn different_servers_under_one_name_do_not_meet() {
    let fixture = Fixture::new();
    fixture.bridge.configure(vec![spec("x", "mark=saved")]).await;
    let own = |mark: &str| Some(vec![spec("x", &format!("mark={mark}"))]);
    fixture.bridge.lease("a", own("a")).await;
    fixture.bridge.lease("b", own("b")).await;
    fixture.bridge.lease("f", None).await;
    fixture
        .bridge
        .lease("env", Some(vec![spec_with("x", "mark=a", json!({ "env": { "K": "1" } }))]))
        .await;
    let mut reached = Vec::new();
    for _ in 0..3 {
        for (session, mark) in [("a", "a"), ("b", "b"), ("f", "saved"), ("env", "a")] {
            let answer = fixture.reach(session, "x").await.expect("reached");
            assert_eq!(answer.split(' ').next(), Some(mark), "{session}");
            reached.push(answer);
        }
    }
    // Each its own, and always the same.
    assert!(reached.chunks(4).all(|round| round == &reached[..4]), "{reached:?}");
    let apart: std::collections::HashSet<_> = reached.iter().collect();
    assert_eq!(apart.len(), 4, "{reached:?}");
    let urls: Vec<_> =
        fixture.bridge.handover("a", true).into_iter().map(|handed| handed.entry).collect();
    assert_eq!(urls[0]["url"], "http://127.0.0.1:1/mcp/x");
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_opens_its_own_servers_only() {
    let fixture = Fixture::new();
    fixture
        .bridge
        .configure(vec![spec("saved", ""), spec_with("off", "", json!({ "enabled": false }))])
        .await;
    fixture.open("a", Some(vec![spec("mine", "")])).await;
    let handed = fixture.bridge.handover("a", true);
    let bearer = handed[0].entry["headers"][0]["value"].as_str().unwrap();
    let token = bearer.strip_prefix("Bearer ").unwrap();
    let resolve = |token: &str, name: &str| fixture.bridge.resolve(token, name).map(|e| e.session);
    assert_eq!(resolve(token, "mine"), Ok(Some("a".into())));
    assert_eq!(resolve(token, "saved"), Err(Unresolved::UnknownServer));
    assert_eq!(resolve("instance", "saved"), Ok(None));
    assert_eq!(resolve("instance", "mine"), Err(Unresolved::UnknownServer));
    assert_eq!(resolve("instance", "off"), Err(Unresolved::UnknownServer));
    for wrong in
        ["", "x", &token[1..], &token[..79], &format!("{}{}", &token[..16], "0".repeat(64))]
    {
        assert_eq!(resolve(wrong, "mine"), Err(Unresolved::BadToken));
    }
    fixture.bridge.release("a", soon()).await;
    assert_eq!(resolve(token, "mine"), Err(Unresolved::BadToken));
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn sessions_of_their_own_when_isolated() {
    let fixture = Fixture::new();
    let own = json!({ "isolation": "session" });
    fixture.bridge.configure(vec![spec_with("x", "mark=m", own.clone())]).await;
    let inline = || Some(vec![spec_with("y", "mark=m", own.clone())]);
    fixture.open("a", None).await;
    fixture.open("b", None).await;
    fixture.open("c", inline()).await;
    fixture.open("d", inline()).await;
    assert_eq!(fixture.world.alive().len(), 4);
    assert_ne!(fixture.reach("a", "x").await, fixture.reach("b", "x").await);
    assert_ne!(fixture.reach("c", "y").await, fixture.reach("d", "y").await);
    let view = fixture.bridge.view("x").unwrap();
    assert_eq!((view.used_by, view.state), (vec!["a".into(), "b".into()], ServerState::Ready));
    let before = fixture.reach("b", "x").await;
    fixture.bridge.release("a", soon()).await;
    assert_eq!(fixture.reach("b", "x").await, before);
    assert_eq!(fixture.world.alive().len(), 3);
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn reconcile_touches_what_changed_and_nothing_else() {
    let fixture = Fixture::new();
    let persistent = json!({ "persistent": true });
    let saved = |a: &str, env: &str| {
        vec![
            spec_with("a", a, persistent.clone()),
            spec_with("b", "", json!({ "persistent": true, "env": { "K": env } })),
            spec("c", ""),
        ]
    };
    fixture.bridge.configure(saved("slow-end=3000", "1")).await;
    fixture.open("s", None).await;
    let pids =
        |names: &[&str]| names.iter().map(|name| fixture.world.pid(name)).collect::<Vec<_>>();
    let first = pids(&["a", "b", "c"]);
    let hub = fixture.bridge.resolve("instance", "b").unwrap().hub;

    // Nothing changed.
    fixture.bridge.configure(saved("slow-end=3000", "1")).await;
    assert_eq!(pids(&["a", "b", "c"]), first);

    // An environment value: that one alone, with its URL and its hub.
    fixture.bridge.configure(saved("slow-end=3000", "2")).await;
    fixture.until("b", |view| view.state == ServerState::Ready && view.pid != first[1]).await;
    assert_eq!(pids(&["a", "c"]), [first[0], first[2]]);
    assert!(fixture.bridge.resolve("instance", "b").unwrap().hub.is_same(&hub));
    assert!(!fixture.bridge.lease("s", None).await, "its URLs are the same");

    // Persistent or not is no reason to restart.
    let second = pids(&["a", "b", "c"]);
    let mut changed = saved("slow-end=3000", "2");
    changed[2].config.persistent = true;
    fixture.bridge.configure(changed.clone()).await;
    assert_eq!(pids(&["a", "b", "c"]), second);
    fixture.bridge.release("s", soon()).await;
    assert_eq!(pids(&["a", "b", "c"]), second);

    // Disabled, removed.
    changed[1].config.enabled = false;
    changed.remove(0);
    let begun = tokio::time::Instant::now();
    fixture.bridge.configure(changed).await;
    assert!(begun.elapsed() >= Duration::from_secs(3), "it returns when they have ended");
    assert_eq!(fixture.world.alive(), ["c"]);
    assert_eq!(fixture.bridge.view("b").unwrap().state, ServerState::Stopped);
    assert_eq!(fixture.bridge.view("a"), None);
    assert_eq!(fixture.world.doubles(), Vec::<String>::new());
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn followers_follow() {
    let fixture = Fixture::new();
    fixture.bridge.configure(vec![spec("a", "")]).await;
    assert!(fixture.bridge.lease("s", None).await);
    assert!(!fixture.bridge.lease("s", None).await);
    fixture.bridge.configure(vec![spec("a", ""), spec("b", "mark=b")]).await;
    assert!(fixture.reach("s", "b").await.is_some_and(|mark| mark.starts_with("b ")));
    assert!(fixture.bridge.lease("s", None).await, "there is one more");
    fixture.bridge.configure(vec![spec("a", "")]).await;
    assert_eq!(fixture.world.alive(), ["a"]);
    assert_eq!(fixture.reach("s", "b").await, None);
    assert!(fixture.bridge.lease("s", None).await, "there is one less");
    assert!(fixture.bridge.lease("s", Some(vec![])).await);
    assert_eq!(
        fixture.until("a", |view| view.state == ServerState::Stopped).await.used_by,
        [""; 0]
    );
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_named_a_saved_server_keeps_it_when_that_changes() {
    // Only sessions that named it: the process stays theirs.
    let fixture = Fixture::new();
    fixture.bridge.configure(vec![spec("x", "mark=old")]).await;
    fixture.open("own", Some(vec![spec("x", "mark=old")])).await;
    let before = fixture.reach("own", "x").await;
    fixture.bridge.configure(vec![spec("x", "mark=new")]).await;
    assert_eq!(fixture.reach("own", "x").await, before);
    assert!(!fixture.bridge.lease("own", Some(vec![spec("x", "mark=old")])).await);
    fixture.open("f", None).await;
    assert_eq!(fixture.reach("f", "x").await.as_deref(), Some("new 2"));
    assert_eq!(
        fixture.bridge.views().iter().map(|view| view.saved).collect::<Vec<_>>(),
        [true, false]
    );

    // With followers, the followers keep the slot.
    fixture.open("own2", Some(vec![spec("x", "mark=new")])).await;
    assert_eq!(fixture.reach("own2", "x").await.as_deref(), Some("new 2"));
    fixture.bridge.configure(vec![spec("x", "mark=third")]).await;
    let marks = [("own", "old"), ("own2", "new"), ("f", "third")];
    for (session, mark) in marks {
        let reached = fixture.reach(session, "x").await.unwrap();
        assert!(reached.starts_with(mark), "{session}: {reached}");
    }
    // Removed: each keeps what it named, followers have nothing.
    fixture.bridge.configure(vec![]).await;
    assert!(fixture.reach("own2", "x").await.unwrap().starts_with("new"));
    assert_eq!(fixture.reach("f", "x").await, None);
    assert_eq!(fixture.world.alive(), ["x", "x"]);
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_saved_server_takes_over_the_same_that_a_session_brought() {
    let fixture = Fixture::new();
    fixture.open("s", Some(vec![spec("x", "mark=m")])).await;
    fixture.bridge.configure(vec![spec_with("x", "mark=m", json!({ "persistent": true }))]).await;
    fixture.open("f", None).await;
    assert_eq!(fixture.world.launches("x"), 1);
    fixture.bridge.release("s", soon()).await;
    fixture.bridge.release("f", soon()).await;
    assert_eq!(fixture.world.alive(), ["x"]);
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn persistent_ones_that_came_with_a_request_stay() {
    let fixture = Fixture::new();
    let server = |mark: &str| {
        Some(vec![spec_with("x", &format!("mark={mark}"), json!({ "persistent": true }))])
    };
    fixture.open("a", server("m")).await;
    let pid = fixture.world.pid("x");
    assert_eq!(fixture.bridge.release("a", soon()).await.servers, [""; 0]);
    fixture.open("b", server("m")).await;
    assert_eq!(fixture.world.pid("x"), pid);
    // Its own change ends it; nobody else's does.
    fixture.open("c", server("n")).await;
    assert_eq!(fixture.world.alive().len(), 2);
    fixture.bridge.release("b", soon()).await;
    assert_eq!(fixture.world.alive().len(), 1);
    assert_ne!(fixture.world.pid("x"), pid);
    fixture.close().await;
}

/// Case N8 for a request's server: the old one has ended before the new one starts.
#[tokio::test(start_paused = true)]
async fn a_changed_server_of_a_session_replaces_its_own() {
    let fixture = Fixture::new();
    let servers = |env: &str| {
        Some(vec![
            spec_with("x", "slow-end=2000 mark=x", json!({ "env": { "K": env } })),
            spec("y", ""),
        ])
    };
    fixture.open("s", servers("1")).await;
    let y = fixture.world.pid("y");
    assert!(!fixture.bridge.lease("s", servers("1")).await);
    assert!(fixture.bridge.lease("s", servers("2")).await, "another hub behind the URL");
    let begun = tokio::time::Instant::now();
    let ready = fixture.bridge.ready("s", Deadline::after(Duration::from_secs(30))).await;
    assert_eq!(ready[0].state, ReadinessState::Ready);
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(fixture.world.pid("y"), y);
    assert_eq!(fixture.world.doubles(), Vec::<String>::new());
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn handover_follows_the_contract() {
    let fixture = Fixture::new();
    let remote = |more: Value| {
        let mut config = json!({ "url": "https://example.org/mcp", "headers": { "X": "s3cret" } });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value::<ServerConfig>(config).unwrap()
    };
    let far = |name: &str, more: Value| ServerSpec { name: name.into(), config: remote(more) };
    let servers = vec![
        spec("a/b", ""),
        spec_with("late", "delay=50000", json!({})),
        spec_with("bad", "dies", json!({ "env": { "KEY": "s3cret" }, "allowTools": ["who"] })),
        spec_with("unset", "", json!({ "env": { "KEY": "${env:GANTRY_TEST_UNSET}" } })),
        far("far", json!({ "authToken": "t0k" })),
        far("old", json!({ "transport": "sse" })),
        far("few", json!({ "denyTools": ["x"] })),
        far("fewbad", json!({ "url": "https://example.org/mcp#dies", "denyTools": ["x"] })),
        far("farunset", json!({ "authToken": "${env:GANTRY_TEST_UNSET}" })),
    ];
    fixture.bridge.lease("s", Some(servers)).await;
    let ready = fixture.bridge.ready("s", Deadline::after(Duration::from_secs(10))).await;
    let unset = ready.iter().find(|server| server.name == "unset").unwrap();
    let why = unset.error.as_deref().unwrap();
    assert!(why.contains("env.KEY") && why.contains("GANTRY_TEST_UNSET"), "{why}");

    let handed = fixture.bridge.handover("s", true);
    let kinds: Vec<_> = handed.iter().map(|of| (of.name.as_str(), of.via)).collect();
    use Via::*;
    assert_eq!(
        kinds,
        [
            ("a/b", Bridge),
            ("late", Bridge),
            ("bad", Stdio),
            ("far", Remote),
            ("old", Remote),
            ("few", Bridge),
            ("fewbad", Stdio)
        ]
    );
    let of = |name: &str| &handed.iter().find(|of| of.name == name).unwrap().entry;
    assert_eq!(of("a/b")["type"], "http");
    assert_eq!(of("a/b")["url"], "http://127.0.0.1:1/mcp/a%2Fb");
    let token = of("a/b")["headers"][0]["value"].as_str().unwrap().to_owned();
    assert_eq!(of("bad")["command"], "/opt/gantry");
    assert_eq!(of("bad")["args"], json!(["mcp", "--config", "-"]));
    assert_eq!(of("bad")["env"][0]["name"], CONFIG_VARIABLE);
    let config: Value =
        serde_json::from_str(of("bad")["env"][0]["value"].as_str().unwrap()).unwrap();
    let inner = &config["mcpServers"]["bad"];
    assert_eq!((&inner["command"], &inner["env"]["KEY"]), (&json!("fake"), &json!("s3cret")));
    assert_eq!(inner["allowTools"], json!(["who"]));
    assert_eq!(
        *of("far"),
        json!({ "type": "http", "name": "far", "url": "https://example.org/mcp", "headers": [
            { "name": "X", "value": "s3cret" }, { "name": "Authorization", "value": "Bearer t0k" }] })
    );
    assert_eq!(of("old")["type"], "sse");
    for HandedServer { name, entry, .. } in &handed {
        let args = entry["args"].to_string();
        assert!(!args.contains("s3cret") && !args.contains("t0k"), "{name}: {args}");
    }

    let stdio = fixture.bridge.handover("s", false);
    assert!(stdio.iter().all(|of| of.via == Stdio && of.entry.get("type").is_none()));
    let of = |name: &str| &stdio.iter().find(|of| of.name == name).unwrap().entry;
    assert_eq!(of("a/b")["args"], json!(["mcp", "--url", "http://127.0.0.1:1/mcp/a%2Fb"]));
    assert_eq!(of("a/b")["env"][0]["name"], TOKEN_VARIABLE);
    assert_eq!(format!("Bearer {}", of("a/b")["env"][0]["value"].as_str().unwrap()), token);
    assert_eq!(of("far")["args"], json!(["mcp", "--url", "http://127.0.0.1:1/mcp/far"]));
    let config: Value =
        serde_json::from_str(of("fewbad")["env"][0]["value"].as_str().unwrap()).unwrap();
    assert_eq!(config["mcpServers"]["fewbad"]["headers"]["X"], "s3cret");
    assert_eq!(config["mcpServers"]["fewbad"]["cwd"], Value::Null);

    let shown = serde_json::to_string(&fixture.bridge.views()).unwrap();
    assert!(!shown.contains("s3cret") && !shown.contains("t0k"));
    fixture.close().await;
}
