use super::*;
use crate::wire::Happening;

#[tokio::test(start_paused = true)]
async fn ready_waits_for_all_at_once_and_says_what_happened() {
    let fixture = Fixture::new();
    let servers = vec![
        spec("fast", "delay=10"),
        spec("slow", "delay=3000"),
        spec("late", "delay=40000"),
        spec("gone", "missing"),
        spec("bad", "dies"),
        ServerSpec {
            name: "far".into(),
            config: serde_json::from_value(json!({ "url": "https://example.org/mcp" })).unwrap(),
        },
    ];
    assert!(fixture.bridge.lease("s", Some(servers)).await);
    let begun = tokio::time::Instant::now();
    let ready = fixture.bridge.ready("s", Deadline::after(Duration::from_secs(30))).await;
    assert_eq!(begun.elapsed().as_secs(), 30);
    let of = |name: &str| ready.iter().find(|server| server.name == name).unwrap();
    let names: Vec<_> = ready.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["fast", "slow", "late", "gone", "bad", "far"]);
    assert_eq!((of("fast").state, of("fast").tools), (ReadinessState::Ready, 2));
    assert!(of("fast").ms < 100);
    assert_eq!(of("slow").state, ReadinessState::Ready);
    assert!((3000..3200).contains(&of("slow").ms));
    assert_eq!((of("late").state, of("late").via), (ReadinessState::Starting, Via::Bridge));
    assert_eq!((of("gone").state, of("gone").via), (ReadinessState::Failed, Via::Stdio));
    assert!(of("gone").ms < 100);
    let why = of("gone").error.as_deref().unwrap();
    assert!(why.contains("fake") && why.contains("/nowhere"), "{why}");
    assert_eq!(of("bad").state, ReadinessState::Failed);
    assert!(of("bad").ms < 3000, "a failed one ends its own waiting: {}", of("bad").ms);
    let why = of("bad").error.as_deref().unwrap();
    assert!(why.contains("code 3") && why.contains("KEY missing"), "{why}");
    assert_eq!((of("far").state, of("far").via), (ReadinessState::PassedThrough, Via::Remote));

    fixture.until("late", |view| view.state == ServerState::Ready).await;
    assert_eq!(fixture.bridge.log("bad", 10).unwrap(), ["KEY missing", "KEY missing"]);
    assert!(fixture.bridge.log("nobody", 10).is_err());
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_set_waits_for_nothing() {
    let fixture = Fixture::new();
    let begun = tokio::time::Instant::now();
    assert_eq!(fixture.open("s", Some(vec![])).await, []);
    assert_eq!(fixture.open("t", None).await, []);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(fixture.bridge.handover("s", true), []);
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn fails_twice_then_works() {
    let fixture = Fixture::new();
    let outcome = fixture.open("s", Some(vec![spec("x", "dies-first=2")])).await;
    assert_eq!(outcome, [("x".into(), ReadinessState::Ready)]);
    let view = fixture.until("x", |view| view.state == ServerState::Ready).await;
    assert_eq!((view.restarts, view.tools, view.saved), (2, Some(2), false));
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_one_fails_at_its_limit_while_others_are_served() {
    let fixture = Fixture::new();
    let silent = spec_with("silent", "silent", json!({ "startTimeoutMs": 4000 }));
    fixture.bridge.lease("s", Some(vec![silent])).await;
    assert_eq!(
        fixture.open("t", Some(vec![spec("x", "")])).await,
        [("x".into(), ReadinessState::Ready)]
    );
    let ready = fixture.bridge.ready("s", Deadline::after(Duration::from_secs(30))).await;
    assert_eq!(ready[0].state, ReadinessState::Failed);
    assert!((3900..4500).contains(&ready[0].ms), "{}", ready[0].ms);
    assert_eq!(fixture.world.launches("silent"), 1);
    // A new session tries again.
    fixture
        .bridge
        .lease("u", Some(vec![spec_with("silent", "silent", json!({ "startTimeoutMs": 4000 }))]))
        .await;
    let started = |view: &ServerView| view.state == ServerState::Starting && view.pid.is_some();
    fixture.until("silent", started).await;
    assert_eq!(fixture.world.launches("silent"), 2);
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_is_absorbed() {
    let fixture = Fixture::new();
    fixture.open("s", Some(vec![spec("x", "mark=m")])).await;
    let before = fixture.reach("s", "x").await.unwrap();
    let url = fixture.until("x", |_| true).await.url;
    fixture.world.crash("x");
    fixture.until("x", |view| view.state == ServerState::Restarting).await;
    // A call that arrives meanwhile waits for the recovery.
    let after = fixture.reach("s", "x").await.unwrap();
    assert!(after.starts_with("m ") && after != before, "{before} {after}");
    let view = fixture.until("x", |view| view.state == ServerState::Ready).await;
    assert_eq!((view.restarts, view.url), (1, url));
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_answers_no_ping_is_restarted() {
    let fixture = Fixture::new();
    fixture.open("s", Some(vec![spec("x", "deaf")])).await;
    let pid = fixture.world.pid("x");
    let view = fixture.until("x", |view| view.state == ServerState::Degraded).await;
    assert!(view.error.is_some());
    fixture.until("x", |view| view.restarts == 1 && view.state == ServerState::Ready).await;
    assert_ne!(fixture.world.pid("x"), pid);
    fixture.close().await;
}

/// A call may take as long as it likes.
#[tokio::test(start_paused = true)]
async fn one_that_works_is_not_restarted_for_a_missed_ping() {
    let fixture = Fixture::new();
    let server = spec_with("x", "slow-call=590000", json!({ "persistent": true }));
    fixture.bridge.configure(vec![server]).await;
    fixture.until("x", |view| view.state == ServerState::Ready).await;
    let call = fixture.bridge.call("x", "who", Value::Null);
    let degraded = fixture.until("x", |view| view.state == ServerState::Degraded);
    let (answer, degraded) = futures::join!(call, degraded);
    assert_eq!(answer.unwrap()["content"][0]["text"], "none 1");
    assert_eq!(degraded.restarts, 0);
    let view = fixture.until("x", |view| view.state == ServerState::Ready).await;
    assert_eq!((view.restarts, view.pid), (0, degraded.pid));
    fixture.close().await;
}

/// Another filter holds for the sessions that are connected.
#[tokio::test(start_paused = true)]
async fn a_changed_filter_keeps_the_connection() {
    let fixture = Fixture::new();
    fixture.bridge.configure(vec![spec("x", "mark=m")]).await;
    fixture.open("s", None).await;
    let before = fixture.bridge.resolve("instance", "x").unwrap().hub;
    fixture
        .bridge
        .configure(vec![spec_with("x", "mark=m", json!({ "denyTools": ["other"] }))])
        .await;
    let view = fixture.until("x", |view| view.state == ServerState::Ready).await;
    assert_eq!(view.tools, Some(1));
    let hub = fixture.bridge.resolve("instance", "x").unwrap().hub;
    assert!(hub.is_same(&before));
    let limit = Duration::from_secs(60);
    assert!(hub.call_tool("other", json!({}), limit).await.is_err());
    assert!(hub.call_tool("who", json!({}), limit).await.is_ok());
    fixture.close().await;
}

/// Case N2: a stop at any time during a back-off is final.
#[tokio::test(start_paused = true)]
async fn nothing_comes_back_after_a_stop() {
    for late in (0..=1300).step_by(50) {
        let fixture = Fixture::new();
        fixture.open("s", Some(vec![spec("x", "")])).await;
        fixture.world.crash("x");
        tokio::time::sleep(Duration::from_millis(late)).await;
        let released = fixture.bridge.release("s", soon()).await;
        assert_eq!(released.servers, ["x"]);
        assert_eq!(fixture.world.alive(), Vec::<String>::new(), "after {late} ms");
        let launches = fixture.world.launches("x");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(fixture.world.launches("x"), launches, "after {late} ms");
        assert_eq!(fixture.bridge.views(), []);
        fixture.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_by_hand_ends_the_old_one_first() {
    let fixture = Fixture::new();
    fixture
        .bridge
        .configure(vec![spec_with("x", "slow-end=2000", json!({ "persistent": true }))])
        .await;
    let before = fixture.until("x", |view| view.state == ServerState::Ready).await;
    let begun = tokio::time::Instant::now();
    let view = fixture.bridge.restart("x", soon()).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert!(view.pid.is_some() && view.pid != before.pid);
    assert_eq!(view.restarts, 0);
    assert_eq!(fixture.world.doubles(), Vec::<String>::new());
    assert!(fixture.bridge.restart("y", soon()).await.is_err());
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_by_name_reaches_all_servers_of_sessions_that_have_it() {
    let fixture = Fixture::new();
    fixture.open("a", Some(vec![spec("x", "mark=a")])).await;
    fixture.open("b", Some(vec![spec("x", "mark=b")])).await;
    let before = fixture.world.launches("x");
    fixture.bridge.restart("x", soon()).await.unwrap();
    assert_eq!(fixture.world.launches("x"), before + 2);
    assert_eq!(fixture.world.alive().len(), 2);
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn stop_all_is_final() {
    let fixture = Fixture::new();
    let saved: Vec<_> = (0..6)
        .map(|n| {
            spec_with(
                &format!("p{n}"),
                &format!("delay={}", n * 100),
                json!({ "persistent": true }),
            )
        })
        .collect();
    fixture.bridge.configure(saved.clone()).await;
    fixture
        .bridge
        .lease("s", Some(vec![spec("stubborn", "slow-end=60000"), spec("bad", "dies")]))
        .await;
    fixture.bridge.ready("s", Deadline::after(Duration::from_millis(150))).await;
    let begun = tokio::time::Instant::now();
    let ended = fixture.bridge.stop_all(Deadline::after(Duration::from_secs(3))).await;
    assert!(begun.elapsed() <= Duration::from_secs(3));
    assert!(ended.len() >= 7, "{ended:?}");
    assert_eq!(fixture.world.alive(), Vec::<String>::new());
    fixture.bridge.configure(saved).await;
    assert!(!fixture.bridge.lease("t", Some(vec![spec("new", "")])).await);
    fixture.bridge.try_out("p0").await;
    assert!(fixture.bridge.restart("p0", soon()).await.is_err());
    assert!(fixture.bridge.call("p0", "who", Value::Null).await.is_err());
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(fixture.world.alive(), Vec::<String>::new());
    assert_eq!(fixture.world.launches("new"), 0);
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn starts_are_bounded_but_no_silent_one_blocks_another() {
    let fixture = Fixture::new();
    let most = fixture.bridge.shared.starts.available_permits();
    let servers = (0..most * 3).map(|n| spec(&format!("x{n}"), "silent")).collect();
    fixture.bridge.lease("s", Some(servers)).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(fixture.world.most_starting(), most);
    let begun = tokio::time::Instant::now();
    fixture.open("t", Some(vec![spec("y", "")])).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_called_and_the_server_ends_a_minute_later() {
    let fixture = Fixture::new();
    fixture
        .bridge
        .configure(vec![spec_with("x", "mark=m", json!({ "denyTools": ["other"] }))])
        .await;
    assert!(fixture.bridge.tools("x").await.is_err());
    let answer = fixture.bridge.call("x", "who", Value::Null).await.unwrap();
    assert_eq!(answer["content"][0]["text"], "m 1");
    let tools = fixture.bridge.tools("x").await.unwrap();
    assert_eq!(tools.iter().map(|tool| &tool["name"]).collect::<Vec<_>>(), ["who"]);
    assert!(fixture.bridge.call("x", "other", json!({})).await.is_err());
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(fixture.world.alive(), ["x"]);
    fixture.bridge.call("x", "who", Value::Null).await.unwrap();
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(fixture.world.alive(), ["x"]);
    fixture.until("x", |view| view.state == ServerState::Stopped).await;
    assert_eq!((fixture.world.alive(), fixture.world.launches("x")), (vec![], 1));
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_try_ends_after_a_minute_or_with_the_first_lease() {
    let fixture = Fixture::new();
    fixture.bridge.configure(vec![spec("x", "delay=20000")]).await;
    let begun = tokio::time::Instant::now();
    fixture.bridge.try_out("x").await;
    fixture.until("x", |view| view.state == ServerState::Ready).await;
    fixture.until("x", |view| view.state == ServerState::Stopped).await;
    assert!((80..82).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());

    fixture.bridge.try_out("x").await;
    fixture.open("s", None).await;
    fixture.bridge.release("s", soon()).await;
    assert_eq!(fixture.world.alive(), Vec::<String>::new());
    fixture.bridge.try_out("nobody").await;
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn every_change_is_announced_and_the_last_is_the_truth() {
    let fixture = Fixture::new();
    let (_, mut reader) = fixture.events.subscribe();
    fixture
        .bridge
        .configure(vec![spec_with("x", "delay=100", json!({ "persistent": true }))])
        .await;
    fixture.until("x", |view| view.state == ServerState::Ready).await;
    fixture.world.crash("x");
    fixture.until("x", |view| view.restarts == 1 && view.state == ServerState::Ready).await;
    let last = fixture.bridge.view("x").unwrap();
    fixture.open("s", Some(vec![spec("y", "")])).await;
    fixture.bridge.release("s", soon()).await;
    fixture.bridge.configure(vec![]).await;
    let (mut states, mut views, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    while let Ok(event) = reader.try_recv() {
        match &event.what {
            Happening::ServerChanged { server } if server.name == "x" => {
                if states.last() != Some(&server.state) {
                    states.push(server.state);
                }
                views.push((**server).clone());
            }
            Happening::ServerRemoved { name } => removed.push(name.clone()),
            _ => {}
        }
    }
    use ServerState::*;
    assert_eq!(states, [Stopped, Starting, Ready, Restarting, Starting, Ready]);
    assert_eq!(views.last(), Some(&last));
    assert_eq!(removed, ["y", "x"]);
    assert_eq!(fixture.bridge.views(), []);
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_failed_is_tried_again_by_a_later_prompt_of_the_same_session() {
    let fixture = Fixture::new();
    let servers = || Some(vec![spec("x", "dies-first=5")]);
    let failed = [("x".to_owned(), ReadinessState::Failed)];
    assert_eq!(fixture.open("s", servers()).await, failed);
    let launches = fixture.world.launches("x");
    // Not at once: what it lacks is not there yet.
    assert_eq!(fixture.open("s", servers()).await, failed);
    assert_eq!(fixture.world.launches("x"), launches);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(fixture.open("s", servers()).await, [("x".to_owned(), ReadinessState::Ready)]);
    fixture.close().await;
}
