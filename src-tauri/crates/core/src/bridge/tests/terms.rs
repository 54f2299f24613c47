use super::*;

async fn tools_of(fixture: &Fixture, session: &str, name: &str) -> usize {
    let hub = fixture.endpoint(session, name).unwrap().hub;
    hub.catalogue().unwrap().tools.len()
}

/// What does not concern the process does not touch it: filter, limits, persistence.
#[tokio::test(start_paused = true)]
async fn a_saved_server_changes_its_terms_without_a_restart() {
    let fixture = Fixture::new();
    let saved = |more: Value| vec![spec_with("x", "mark=x", more)];
    fixture.bridge.configure(saved(json!({}))).await;
    fixture.open("s", None).await;
    let pid = fixture.world.pid("x");
    let hub = fixture.endpoint("s", "x").unwrap().hub;
    assert_eq!(tools_of(&fixture, "s", "x").await, 2);
    for (more, tools) in [
        (json!({ "denyTools": ["other"] }), 1),
        (json!({ "denyTools": ["other"], "persistent": true }), 1),
        (json!({ "allowTools": ["who", "other"], "denyTools": ["other"] }), 2),
        (json!({ "startTimeoutMs": 7000, "callTimeoutMs": 9000 }), 2),
        (json!({}), 2),
    ] {
        fixture.bridge.configure(saved(more.clone())).await;
        assert_eq!(fixture.world.pid("x"), pid, "{more}");
        assert_eq!(tools_of(&fixture, "s", "x").await, tools, "{more}");
        fixture.until("x", |view| view.tools == Some(tools)).await;
        assert!(fixture.endpoint("s", "x").unwrap().hub.is_same(&hub));
    }
    assert_eq!(fixture.world.launches("x"), 1);
    fixture.close().await;
}

/// A session's own server, too; but two that differ in their terms share nothing.
#[tokio::test(start_paused = true)]
async fn a_session_changes_the_terms_of_its_own_server() {
    let fixture = Fixture::new();
    let own = |more: Value| Some(vec![spec_with("x", "mark=x", more)]);
    fixture.open("a", own(json!({}))).await;
    fixture.bridge.handover("a", true);
    let pid = fixture.world.pid("x");
    fixture.open("a", own(json!({ "denyTools": ["other"] }))).await;
    assert_eq!(fixture.world.pid("x"), pid);
    assert!(!fixture.bridge.lease("a", own(json!({ "denyTools": ["other"] }))).await);
    let hub = fixture.endpoint("a", "x").unwrap().hub;
    let refused = hub.call_tool("other", json!({}), Duration::from_secs(1)).await.unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("tool filter"), "{refused}");

    fixture.open("b", own(json!({ "denyTools": ["other"] }))).await;
    assert_eq!(fixture.world.pid("x"), pid, "equal ones share");
    fixture.open("b", own(json!({}))).await;
    assert_eq!(fixture.world.alive(), ["x", "x"], "others use it on the old terms");
    assert_eq!(tools_of(&fixture, "a", "x").await, 1);
    assert_eq!(tools_of(&fixture, "b", "x").await, 2);
    fixture.close().await;
}

/// The limit of a call holds for agents, too, and the error names it.
#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_limit() {
    let fixture = Fixture::new();
    let own = |limit: u64| {
        Some(vec![spec_with("x", "slow-call=5000", json!({ "callTimeoutMs": limit }))])
    };
    for (limit, ends_after) in [(2000, 2000), (9000, 5000)] {
        fixture.open("s", own(limit)).await;
        let hub = fixture.endpoint("s", "x").unwrap().hub;
        let (client, mut messages) = hub.attach("s");
        let call = json!({ "jsonrpc": "2.0", "id": "c", "method": "tools/call",
                           "params": { "name": "who", "arguments": {} } });
        let begun = tokio::time::Instant::now();
        client.send(call.to_string().into()).unwrap();
        let answer: Value = serde_json::from_slice(&messages.recv().await.unwrap().line).unwrap();
        assert_eq!(begun.elapsed().as_millis(), ends_after, "{answer}");
        if ends_after == u128::from(limit) {
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.contains("callTimeoutMs") && message.contains("who"), "{message}");
        } else {
            assert!(answer["result"].is_object(), "{answer}");
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(fixture.world.launches("x"), 1);
    fixture.close().await;
}

/// Case 41: a start that may be a download is not thrown away, and says what it does.
#[tokio::test(start_paused = true)]
async fn a_first_download_has_time_and_shows_its_progress() {
    let fixture = Fixture::new();
    let servers =
        (0..10).map(|n| spec_with(&format!("n{n}"), "delay=100000", json!({ "command": "npx" })));
    fixture.bridge.lease("s", Some(servers.collect())).await;
    let ready = fixture.bridge.ready("s", Deadline::after(Duration::from_secs(30))).await;
    for server in &ready {
        assert_eq!(server.state, ReadinessState::Starting);
        assert!(
            server.error.as_ref().is_some_and(|note| note.contains("downloading")),
            "{server:?}"
        );
    }
    let view = fixture.bridge.views().remove(0);
    assert!(view.note.as_ref().is_some_and(|note| note.contains("`npx`")), "{view:?}");
    for n in 0..10 {
        let name = format!("n{n}");
        let view = fixture.until(&name, |view| view.state == ServerState::Ready).await;
        assert_eq!((view.note, fixture.world.launches(&name)), (None, 1));
    }
    fixture.close().await;
}

/// Case 40: nine that are fast and one that takes 20 s, with a deadline of 5 s.
#[tokio::test(start_paused = true)]
async fn a_prompt_leaves_with_nine_and_the_tenth_joins() {
    let fixture = Fixture::new();
    let servers = (0..10).map(|n| {
        let script = if n == 3 { "delay=20000" } else { "delay=100" };
        spec_with(&format!("n{n}"), script, json!({}))
    });
    fixture.bridge.lease("s", Some(servers.collect())).await;
    let begun = tokio::time::Instant::now();
    let ready = fixture.bridge.ready("s", Deadline::after(Duration::from_secs(5))).await;
    assert_eq!(begun.elapsed().as_secs(), 5);
    for (n, server) in ready.iter().enumerate() {
        let wanted = if n == 3 { ReadinessState::Starting } else { ReadinessState::Ready };
        assert_eq!((server.state, server.via), (wanted, Via::Bridge), "{server:?}");
        assert_eq!(server.error.is_some(), n == 3, "it is said why: {server:?}");
    }
    fixture.until("n3", |view| view.state == ServerState::Ready).await;
    assert!(begun.elapsed() < Duration::from_secs(22), "{:?}", begun.elapsed());
    assert_eq!(fixture.world.launches("n3"), 1);
    fixture.close().await;
}
