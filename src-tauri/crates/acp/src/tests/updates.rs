//! Updates: whole, in order, bounded.

use super::*;

#[tokio::test]
async fn unknown_updates_and_unknown_fields_are_kept_in_order() {
    let (mut client, mut agent) = initialized(Limits::default()).await;
    let odd = json!({"sessionUpdate": "hologram", "z": 1, "a": {"deep": [1, null, "x"]}});
    agent.update(chunk("one")).await;
    agent.update(odd.clone()).await;
    let FromAgent::Update { session, update } = client.next().await else { panic!() };
    assert_eq!(session, "s1");
    assert_eq!(update, chunk("one"));
    let FromAgent::Update { update, .. } = client.next().await else { panic!() };
    assert_eq!(update.get(), odd.to_string(), "fields keep their order");
}

#[tokio::test]
async fn updates_come_before_the_end_of_their_turn() {
    let (mut client, mut agent) = initialized(Limits { queue: 4, ..Limits::default() }).await;
    for _round in 0..20 {
        let mut ended = client.prompt();
        let request = agent.expect("session/prompt").await;
        for n in 0..10 {
            agent.update(chunk(&n.to_string())).await;
        }
        agent.answer(&request, json!({"stopReason": "end_turn"})).await;
        for n in 0..10 {
            let FromAgent::Update { update, .. } = client.next().await else {
                panic!("update {n} came after the end")
            };
            assert_eq!(update, chunk(&n.to_string()));
            assert!(ended.try_recv().is_err());
        }
        assert_eq!(client.until(ended).await.unwrap()["stopReason"], "end_turn");
    }
}

#[tokio::test]
async fn noise_on_the_output_is_skipped_and_remembered() {
    let (mut client, mut agent) = initialized(Limits { line: 4096, ..Limits::default() }).await;
    agent.raw("Debugger listening\n\n{ a: 1 }\n[1,2]\n17\n\u{feff}\n").await;
    agent.raw(&format!("{{\"x\":\"{}\"}}\n", "y".repeat(5000))).await;
    agent.update(chunk("after")).await;
    let FromAgent::Update { update, .. } = client.next().await else { panic!() };
    assert_eq!(update, chunk("after"));
    let noise = client.peer.noise();
    assert_eq!(noise[0], "Debugger listening");
    assert!(noise.iter().any(|line| line.starts_with("{\"x\":\"yyy") && line.len() <= 300));
    // None of it was answered.
    client.peer.cancel("s1").unwrap();
    agent.expect("session/cancel").await;
}

#[tokio::test]
async fn twenty_thousand_updates_wait_in_the_pipe_not_in_memory() {
    const COUNT: usize = 20_000;
    let (mut client, mut agent) = initialized(Limits { queue: 16, ..Limits::default() }).await;
    let ended = client.prompt();
    let request = agent.expect("session/prompt").await;
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = sent.clone();
    let writer = task(async move {
        for n in 0..COUNT {
            agent.update(chunk(&n.to_string())).await;
            counter.store(n + 1, std::sync::atomic::Ordering::Relaxed);
        }
        agent.answer(&request, json!({"stopReason": "end_turn"})).await;
        agent
    });
    let mut received = 0;
    while received < COUNT {
        let FromAgent::Update { update, .. } = client.next().await else {
            panic!("the end came after {received} updates")
        };
        assert_eq!(update, chunk(&received.to_string()));
        received += 1;
        if received % 1000 == 0 {
            // Let the agent write as far ahead as it can.
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            let ahead = sent.load(std::sync::atomic::Ordering::Relaxed).saturating_sub(received);
            // 64 KiB of pipe each way of about 140 bytes a line, the read buffer, the queue.
            assert!(ahead < 2500, "{ahead} updates are on their way");
        }
    }
    assert_eq!(client.until(ended).await.unwrap()["stopReason"], "end_turn");
    drop(joined(writer).await);
}

#[tokio::test]
async fn updates_keep_their_place_among_answers_and_questions() {
    let (mut client, mut agent) = initialized(Limits { queue: 4, ..Limits::default() }).await;
    for round in 0..50 {
        let ended = client.prompt();
        let request = agent.expect("session/prompt").await;
        agent.update(chunk("before")).await;
        agent
            .send(json!({"jsonrpc": "2.0", "id": round, "method": "session/request_permission",
                "params": {"sessionId": "s1", "toolCall": {}, "options": []}}))
            .await;
        agent.update(chunk("between")).await;
        agent.answer(&request, json!({"stopReason": "end_turn"})).await;
        agent.update(chunk("after")).await;
        let mut order = Vec::new();
        while order.len() < 5 {
            order.push(match client.next().await {
                FromAgent::Update { update, .. } => {
                    update.value()["content"]["text"].as_str().unwrap().to_owned()
                }
                FromAgent::Permission(_) => "question".to_owned(),
                FromAgent::Answer(answer) => {
                    answer.deliver();
                    "answer".to_owned()
                }
                other => panic!("{other:?}"),
            });
        }
        assert_eq!(order, ["before", "question", "between", "answer", "after"]);
        ended.await.unwrap().unwrap();
        agent.read().await;
    }
}

#[tokio::test]
async fn what_only_looks_like_an_update_goes_the_long_way() {
    let (mut client, mut agent) = initialized(Limits::default()).await;
    // A request: it wants an answer, and it is no method of ours.
    agent
        .send(json!({"jsonrpc": "2.0", "id": 5, "method": "session/update",
            "params": {"sessionId": "s1", "update": {}}}))
        .await;
    assert_eq!(agent.read().await["error"]["code"], -32601);
    // Without a session, with a name that only contains the method's.
    agent.send(json!({"jsonrpc": "2.0", "method": "session/update", "params": {}})).await;
    agent
        .send(json!({"jsonrpc": "2.0", "method": "x/session/update",
            "params": {"sessionId": "s1", "update": {}}}))
        .await;
    agent.send(json!({"method": "session/update", "params": {"update": chunk("a"), "sessionId": "s1"}})).await;
    let FromAgent::Notification { method, .. } = client.next().await else { panic!() };
    assert_eq!(method, "x/session/update");
    let FromAgent::Update { update, .. } = client.next().await else { panic!() };
    assert_eq!(update, chunk("a"));
}
