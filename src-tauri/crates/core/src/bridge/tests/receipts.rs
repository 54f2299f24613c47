use super::*;
use crate::bridge::HandedServer;
use tokio_util::bytes::Bytes;

/// What an agent does that gives a server a second: connects, asks for the list, and goes on.
async fn tools_seen(endpoint: Endpoint) -> Option<usize> {
    let label = endpoint.session.clone().unwrap();
    let (client, mut messages) = endpoint.hub.attach(&label);
    for line in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "agent", "version": "1" } } }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
    ] {
        client.send(Bytes::from(line.to_string())).unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(1), messages.recv()).await.ok()??;
        let answer: Value = serde_json::from_slice(&answer.line).unwrap();
        if let Some(tools) = answer["result"]["tools"].as_array() {
            return Some(tools.len());
        }
    }
    None
}

/// The same numbers each time.
fn random() -> impl FnMut(u64) -> u64 {
    let mut state = 7_u64;
    move |below| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// 1,000 of 1,000: servers that take 0 to 3 s, in every order, many sessions at once; the agent
/// has all tools at its first question.
#[tokio::test(start_paused = true)]
async fn a_thousand_first_prompts_are_complete() {
    let fixture = Fixture::new();
    let mut random = random();
    let mut sessions = Vec::new();
    for number in 0..1000 {
        let session = format!("s{number}");
        let servers: Vec<ServerSpec> = (0..1 + random(4))
            .map(|n| spec(&format!("n{n}"), &format!("delay={} mark={number}", random(3001))))
            .collect();
        let delay = Duration::from_millis(random(1_500_000));
        let fixture = &fixture;
        sessions.push(async move {
            tokio::time::sleep(delay).await;
            fixture.bridge.lease(&session, Some(servers.clone())).await;
            let deadline = Deadline::after(Duration::from_secs(30));
            let ready = fixture.bridge.ready(&session, deadline).await;
            for server in &ready {
                assert_eq!((server.state, server.tools), (ReadinessState::Ready, 2), "{server:?}");
            }
            let handed = fixture.bridge.handover(&session, true);
            assert_eq!(handed.len(), servers.len());
            for HandedServer { name, via, .. } in handed {
                assert_eq!(via, Via::Bridge);
                let endpoint = fixture.endpoint(&session, &name).unwrap();
                assert_eq!(tools_seen(endpoint).await, Some(2), "{session} {name}");
            }
            tokio::task::yield_now().await;
            let receipts = fixture.bridge.with_receipts(&session, ready);
            assert!(receipts.iter().all(|server| server.fetched == Some(2)), "{receipts:?}");
            fixture.bridge.release(&session, soon()).await;
        });
    }
    futures::future::join_all(sessions).await;
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_receipt_belongs_to_one_agent_and_says_what_it_saw() {
    let fixture = Fixture::new();
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let ear = heard.clone();
    fixture.bridge.on_receipt(move |session| ear.lock().unwrap().push(session.to_owned()));
    let saved = |more: Value| vec![spec_with("x", "", more), spec("y", "")];
    fixture.bridge.configure(saved(json!({}))).await;
    fixture.open("a", None).await;
    fixture.open("b", None).await;
    let receipts = async |session: &str| {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let ready = fixture.bridge.ready(session, soon()).await;
        ready.into_iter().map(|server| server.fetched).collect::<Vec<_>>()
    };
    assert_eq!(receipts("a").await, [None, None]);
    // Until here it heard of the servers' states.
    heard.lock().unwrap().clear();
    tools_seen(fixture.endpoint("a", "x").unwrap()).await;
    assert_eq!(receipts("a").await, [Some(2), None]);
    assert_eq!(receipts("b").await, [None, None]);
    // It is what was fetched, not what there is.
    fixture.bridge.configure(saved(json!({ "denyTools": ["who"] }))).await;
    assert_eq!(receipts("a").await, [Some(2), None]);
    tools_seen(fixture.endpoint("a", "x").unwrap()).await;
    tools_seen(fixture.endpoint("a", "x").unwrap()).await;
    assert_eq!(receipts("a").await, [Some(1), None]);
    assert_eq!(*heard.lock().unwrap(), ["a", "a"], "once for each change");
    // The next agent of the session has fetched nothing yet.
    fixture.bridge.release("a", soon()).await;
    fixture.open("a", None).await;
    tools_seen(fixture.endpoint("b", "x").unwrap()).await;
    assert_eq!(receipts("a").await, [None, None]);
    assert_eq!(receipts("b").await, [Some(1), None]);
    fixture.close().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_session_was_told_is_brought_up_to_date() {
    let fixture = Fixture::new();
    let heard = Arc::new(std::sync::Mutex::new(0));
    let ear = heard.clone();
    fixture.bridge.on_receipt(move |session| {
        assert_eq!(session, "s");
        *ear.lock().unwrap() += 1;
    });
    let servers = vec![
        spec("late", "delay=3000"),
        spec_with("bad", "silent", json!({ "startTimeoutMs": 2000 })),
    ];
    fixture.bridge.lease("s", Some(servers)).await;
    let told = fixture.bridge.ready("s", Deadline::after(Duration::from_secs(1))).await;
    let now = || {
        let now = fixture.bridge.as_of_now("s", told.clone());
        now.into_iter().map(|server| (server.state, server.tools)).collect::<Vec<_>>()
    };
    let starting = (ReadinessState::Starting, 0);
    assert_eq!(now(), [starting, starting]);
    let before = *heard.lock().unwrap();
    fixture.until("late", |view| view.state == ServerState::Ready).await;
    fixture.until("bad", |view| view.state == ServerState::Failed).await;
    assert_eq!(now(), [(ReadinessState::Ready, 2), (ReadinessState::Failed, 0)]);
    assert!(*heard.lock().unwrap() >= before + 2);
    let late = fixture.bridge.as_of_now("s", told.clone()).remove(0);
    assert!((3000..4000).contains(&late.ms) && late.error.is_none(), "{late:?}");
    tools_seen(fixture.endpoint("s", "late").unwrap()).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(fixture.bridge.as_of_now("s", told.clone())[0].fetched, Some(2));
    // What was told at the time of the prompt stays for those who keep that.
    assert_eq!(fixture.bridge.with_receipts("s", told.clone())[0].state, ReadinessState::Starting);
    fixture.world.crash("late");
    fixture.until("late", |view| view.state == ServerState::Restarting).await;
    assert_eq!(now()[0].0, ReadinessState::Starting);
    fixture.close().await;
}
