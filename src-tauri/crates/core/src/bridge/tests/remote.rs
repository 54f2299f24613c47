use super::*;

/// Case 37, and "a ping decides the light": what is said of a remote server was seen.
#[tokio::test(start_paused = true)]
async fn a_remote_one_is_waited_for_and_watched_though_agents_reach_it_themselves() {
    let fixture = Fixture::new();
    fixture.bridge.configure(vec![far("far", "delay=3000", json!({}))]).await;
    let view = fixture.bridge.view("far").unwrap();
    assert_eq!((view.state, view.tools), (ServerState::Stopped, None), "nothing is claimed");
    let begun = tokio::time::Instant::now();
    fixture.bridge.lease("s", None).await;
    let ready = fixture.bridge.ready("s", Deadline::after(Duration::from_secs(30))).await;
    assert_eq!(begun.elapsed().as_secs(), 3);
    assert_eq!((ready[0].state, ready[0].via), (ReadinessState::PassedThrough, Via::Remote));
    assert_eq!((ready[0].tools, ready[0].error.as_ref()), (2, None));
    let handed = fixture.bridge.handover("s", true);
    assert_eq!(handed[0].entry["url"], "https://example.org/mcp#delay=3000");
    let view = fixture.bridge.view("far").unwrap();
    assert_eq!((view.state, view.tools, view.pid), (ServerState::Ready, Some(2), None));
    assert_eq!(view.url, "https://example.org/mcp#delay=3000");
    fixture.bridge.release("s", soon()).await;
    assert_eq!(fixture.bridge.view("far").unwrap().state, ServerState::Stopped);
    assert_eq!(fixture.world.alive(), Vec::<String>::new());
    // The tools form works on it as on any other.
    let result = fixture.bridge.call("far", "who", Value::Null).await.unwrap();
    assert!(result["content"][0]["text"].as_str().unwrap().starts_with("none "));
    assert_eq!(fixture.bridge.tools("far").await.unwrap().len(), 2);
    fixture.close().await;
}

/// Case 47: one that accepts and never answers is not green after 30 s, and holds nobody up longer
/// than the deadline.
#[tokio::test(start_paused = true)]
async fn a_silent_remote_one_is_never_green() {
    let fixture = Fixture::new();
    fixture.bridge.lease("s", Some(vec![far("far", "silent", json!({}))])).await;
    let ready = fixture.bridge.ready("s", Deadline::after(Duration::from_secs(10))).await;
    assert_eq!((ready[0].state, ready[0].tools), (ReadinessState::PassedThrough, 0));
    assert!(ready[0].error.as_ref().is_some_and(|why| why.contains("not answered")), "{ready:?}");
    for _ in 0..31 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let view = fixture.bridge.views().remove(0);
        assert_ne!(view.state, ServerState::Ready);
    }
    let view = fixture.until("far", |view| view.state == ServerState::Failed).await;
    assert!(view.error.as_ref().is_some_and(|why| why.contains("30 s")), "{view:?}");
    fixture.close().await;
}

/// An unreachable one costs the prompt one try, not all of them.
#[tokio::test(start_paused = true)]
async fn a_dead_remote_one_does_not_hold_up_the_prompt() {
    let fixture = Fixture::new();
    let begun = tokio::time::Instant::now();
    fixture.bridge.lease("s", Some(vec![far("far", "dies", json!({}))])).await;
    let ready = fixture.bridge.ready("s", Deadline::after(Duration::from_secs(30))).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!((ready[0].state, ready[0].via), (ReadinessState::PassedThrough, Via::Remote));
    assert!(ready[0].error.as_ref().is_some_and(|why| why.contains("KEY missing")), "{ready:?}");
    assert_eq!(fixture.bridge.handover("s", true)[0].via, Via::Remote);
    // An agent without HTTP gets it by our proxy, which tries on.
    fixture.until("far", |view| view.state == ServerState::Failed).await;
    let handed = fixture.bridge.handover("s", false);
    assert_eq!(handed[0].entry["args"], json!(["mcp", "--config", "-"]));
    fixture.close().await;
}

/// Back-off when it vanishes, green when it is back, however long that takes.
#[tokio::test(start_paused = true)]
async fn a_vanished_remote_one_comes_back() {
    let fixture = Fixture::new();
    let filtered = json!({ "denyTools": ["other"] });
    fixture.open("s", Some(vec![far("far", "mark=far", filtered)])).await;
    assert_eq!(fixture.reach("s", "far").await.as_deref(), Some("far 1"));
    fixture.world.vanish("far", true);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let view = fixture.bridge.views().remove(0);
    assert!(matches!(view.state, ServerState::Restarting | ServerState::Starting), "{view:?}");
    let launches = fixture.world.launches("far");
    assert!((25..60).contains(&launches), "{launches} tries in ten minutes");
    // A call does not wait for what has been gone for long.
    let begun = tokio::time::Instant::now();
    assert_eq!(fixture.reach("s", "far").await, None);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    fixture.world.vanish("far", false);
    let begun = tokio::time::Instant::now();
    fixture.until("far", |view| view.state == ServerState::Ready).await;
    assert!(begun.elapsed() <= Duration::from_secs(31), "{:?}", begun.elapsed());
    assert!(fixture.reach("s", "far").await.is_some());
    fixture.close().await;
}

/// With a tool filter its way is the bridge, which enforces it.
#[tokio::test(start_paused = true)]
async fn a_filtered_remote_one_goes_through_the_bridge() {
    let fixture = Fixture::new();
    let servers = vec![far("far", "delay=1000 mark=far", json!({ "denyTools": ["other"] }))];
    let outcome = fixture.open("s", Some(servers)).await;
    assert_eq!(outcome, [("far".to_owned(), ReadinessState::Ready)]);
    let handed = fixture.bridge.handover("s", true);
    assert_eq!(
        (handed[0].via, &handed[0].entry["url"]),
        (Via::Bridge, &json!("http://127.0.0.1:1/mcp/far"))
    );
    let view = fixture.bridge.views().remove(0);
    assert_eq!((view.url.as_str(), view.tools), ("http://127.0.0.1:1/mcp/far", Some(1)));
    let hub = fixture.endpoint("s", "far").unwrap().hub;
    let refused = hub.call_tool("other", json!({}), Duration::from_secs(1)).await.unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("tool filter"), "{refused}");
    // Without HTTP the same, over stdio.
    let handed = fixture.bridge.handover("s", false);
    assert_eq!(handed[0].entry["args"], json!(["mcp", "--url", "http://127.0.0.1:1/mcp/far"]));
    fixture.close().await;
}
