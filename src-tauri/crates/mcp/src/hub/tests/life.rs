//! Before the server is there, when it goes, when it comes back.

use super::*;

fn tools_of(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().expect("a list");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn the_handshake_reads_every_page_and_the_filter_holds_on_list_and_call() {
    let mut filtered = options("s");
    filtered.filter.deny = vec!["b".into()];
    let hub = Hub::new(filtered);
    let ((reader, writer), mut server) = Server::pair();
    let _connection = run(hub.connect(1, reader, writer));
    assert_eq!(*hub.phase().borrow(), Phase::Handshake { generation: 1 });
    let initialize = server.expect("initialize").await;
    assert_eq!(initialize["params"]["protocolVersion"], "2025-11-25");
    server.answer(&initialize, server_info()).await;
    server.expect("notifications/initialized").await;
    for (page, cursor) in [("a", None), ("b", Some("1")), ("c", Some("2"))] {
        let list = server.expect("tools/list").await;
        assert_eq!(list["params"]["cursor"].as_str(), cursor);
        assert!(!matches!(*hub.phase().borrow(), Phase::Ready { .. }));
        let mut result = tool_page(&[page]);
        result["nextCursor"] = match cursor {
            None => json!("1"),
            Some("1") => json!("2"),
            _ => json!(null),
        };
        server.answer(&list, result).await;
    }
    let mut phase = hub.phase();
    let ready = phase.wait_for(|phase| *phase == Phase::Ready { generation: 1, tools: 2 });
    tokio::time::timeout(BOUND, ready).await.expect("in time").expect("alive");
    let mut peer = Peer::ready(&hub, "client", json!({})).await;
    let served = peer.client.has_tools();
    assert!(!*served.borrow() && hub.receipt("client").is_none());
    peer.request(json!(1), "tools/list", json!({}));
    assert_eq!(tools_of(&peer.next().await), ["a", "c"]);
    assert!(*served.borrow());
    assert_eq!(hub.receipt("client"), Some(2));
    peer.request(json!(2), "tools/call", json!({ "name": "b" }));
    let refused = peer.next().await;
    assert_eq!(refused["error"]["code"], -32602);
    assert!(refused["error"]["message"].as_str().expect("text").contains("`b`"));
    assert_eq!(hub.call_tool("b", json!({}), BOUND).await.expect_err("off")["code"], -32602);
    peer.request(json!(3), "tools/list", json!({ "cursor": "2" }));
    assert_eq!(peer.next().await["error"]["code"], -32602);
    // Another filter holds from the next list and call on, without the server's help.
    hub.set_filter(ToolFilter { allow: vec!["b".into()], deny: vec![] });
    assert_eq!(peer.next().await["method"], "notifications/tools/list_changed");
    assert_eq!(*hub.phase().borrow(), Phase::Ready { generation: 1, tools: 1 });
    peer.request(json!(4), "tools/list", json!({}));
    assert_eq!(tools_of(&peer.next().await), ["b"]);
    peer.request(json!(5), "tools/call", json!({ "name": "b" }));
    server.expect("tools/call").await;
    assert_eq!(hub.in_flight(), 1);
}

#[tokio::test]
async fn initialize_is_answered_from_the_catalogue_in_the_revision_that_was_asked_for() {
    let (hub, _server, _connection) = ready_hub(options("s"), &["a"]).await;
    for (asked, granted) in
        [("2025-06-18", "2025-06-18"), ("2025-03-26", "2025-03-26"), ("2026-07-28", "2025-11-25")]
    {
        let mut peer = Peer::attach(&hub, "client");
        peer.request(
            json!(0),
            "initialize",
            json!({ "protocolVersion": asked, "capabilities": {} }),
        );
        let mut expected = server_info();
        expected["protocolVersion"] = json!(granted);
        assert_eq!(peer.next().await["result"], expected);
        peer.request(json!(1), "ping", json!({}));
        assert_eq!(peer.next().await["result"], json!({}));
        peer.request(json!(2), "server/discover", json!({}));
        assert_eq!(peer.next().await["error"]["code"], -32601);
    }
}

#[tokio::test(start_paused = true)]
async fn with_nothing_known_the_list_is_empty_within_a_second_and_changes_when_ready() {
    let hub = Hub::new(options("s"));
    run(hub.clock());
    let begun = Instant::now();
    let mut peer = Peer::ready(&hub, "client", json!({})).await;
    assert!(begun.elapsed() < Duration::from_millis(1), "initialize does not wait");
    peer.request(json!(1), "tools/list", json!({}));
    peer.request(json!("c"), "tools/call", json!({ "name": "a" }));
    assert_eq!(tools_of(&peer.next().await), [""; 0]);
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert!(!*peer.client.has_tools().borrow(), "an empty list is no receipt");
    let (mut server, _connection) = connect(&hub, 1, &["a"]).await;
    let call = server.expect("tools/call").await;
    server.answer(&call, json!("done")).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let message = peer.next().await;
        seen.push(message["method"].as_str().unwrap_or("response").to_owned());
    }
    assert_eq!(seen[0], "notifications/tools/list_changed");
    assert_eq!(seen[3], "response");
    peer.request(json!(2), "tools/list", json!({}));
    assert_eq!(tools_of(&peer.next().await), ["a"]);
    assert!(*peer.client.has_tools().borrow());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_waits_gets_the_tools_when_the_server_is_quick() {
    let hub = Hub::new(options("s"));
    run(hub.clock());
    let mut peer = Peer::ready(&hub, "client", json!({})).await;
    peer.request(json!(1), "tools/list", json!({}));
    let _up = connect(&hub, 1, &["a", "b"]).await;
    let mut answer = peer.next().await;
    while answer["id"] != 1 {
        answer = peer.next().await;
    }
    assert_eq!(tools_of(&answer), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_starting_server_as_long_as_it_may_and_no_longer() {
    let hub = Hub::new(options("s"));
    run(hub.clock());
    let mut peer = Peer::ready(&hub, "client", json!({})).await;
    hub.announce_down("restarting after exit code 1", true);
    let begun = Instant::now();
    peer.request(json!(1), "tools/call", json!({ "name": "a" }));
    let error = peer.next().await["error"].clone();
    assert_eq!(begun.elapsed().as_secs(), 5);
    assert!(error["message"].as_str().expect("text").contains("restarting after exit code 1"));
    assert_eq!(error["data"]["server"], "s");
    // Nobody is about to start it: no waiting; and what waits is let go.
    peer.request(json!(2), "tools/call", json!({ "name": "a" }));
    hub.announce_down("stopped", false);
    peer.request(json!(3), "tools/call", json!({ "name": "a" }));
    for id in [2, 3] {
        let answer = peer.next().await;
        assert_eq!(answer["id"], id);
        assert_eq!(answer["error"]["data"]["reason"], "stopped");
    }
    // Nor does a list pretend that there are no tools when nobody knows.
    peer.request(json!(4), "tools/list", json!({}));
    let answer = peer.next().await;
    assert_eq!((&answer["id"], &answer["error"]["data"]["reason"]), (&json!(4), &json!("stopped")));
    assert!(begun.elapsed() < Duration::from_millis(5001));
    assert!(hub.call_tool("a", json!({}), BOUND).await.is_err());
    assert!(hub.ping(BOUND).await.expect_err("down").contains("stopped"));
}

#[tokio::test]
async fn calls_in_flight_fail_at_once_when_the_server_dies_and_are_never_repeated() {
    let (hub, mut server, connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::ready(&hub, "client", json!({})).await;
    peer.request(json!(1), "tools/list", json!({}));
    peer.next().await;
    peer.request(json!(2), "tools/call", json!({ "name": "a" }));
    server.expect("tools/call").await;
    drop(server);
    let failed = peer.next_raw().await;
    assert!(failed.last);
    let failed: Value = serde_json::from_slice(&failed.line).expect("JSON");
    let message = failed["error"]["message"].as_str().expect("text");
    assert!(message.contains("`s`") && message.contains("not repeated"), "{message}");
    let over = connection.await.expect("no panic");
    assert_eq!(over.generation, 1);
    // Listed from the catalogue meanwhile; after the restart the client is told.
    peer.request(json!(3), "tools/list", json!({}));
    assert_eq!(tools_of(&peer.next().await), ["a"]);
    let (mut server, _connection) = connect(&hub, 2, &["a", "new"]).await;
    let mut methods = Vec::new();
    for _ in 0..3 {
        methods.push(peer.next().await["method"].clone());
    }
    assert!(methods.contains(&json!("notifications/tools/list_changed")), "{methods:?}");
    peer.request(json!(4), "tools/call", json!({ "name": "new" }));
    let call = server.next().await;
    assert_eq!(call["params"]["name"], "new", "the lost call was not sent again");
    server.answer(&call, json!("works")).await;
    assert_eq!(peer.next().await["result"], "works");
}

#[tokio::test]
async fn an_older_generation_and_a_dropped_connection_do_no_harm() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let ((reader, writer), _old) = Server::pair();
    assert!(hub.connect(1, reader, writer).await.why.contains("newer"));
    assert!(matches!(*hub.phase().borrow(), Phase::Ready { generation: 1, .. }));
    let mut peer = Peer::ready(&hub, "client", json!({})).await;
    peer.request(json!(1), "tools/call", json!({ "name": "a" }));
    server.expect("tools/call").await;
    // A newer one takes over; the older future ends.
    let ((reader, writer), mut newer) = Server::pair();
    let second = hub.connect(2, reader, writer);
    assert_eq!(peer.next().await["error"]["data"]["reason"], "was replaced by a newer start");
    let second = run(second);
    newer.shake_hands(&["a"]).await;
    second.abort();
    let mut phase = hub.phase();
    let down = phase.wait_for(|phase| matches!(phase, Phase::Down(_)));
    tokio::time::timeout(BOUND, down).await.expect("in time").expect("alive");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_fails_says_why() {
    let named = r#""result":{"tools":[{"name":"a"},{"title":"b"}]}"#;
    for (initialize, list, expected) in [
        (r#""error":{"code":1,"message":"KEY missing"}"#, "", "KEY missing"),
        (r#""result":[]"#, "", "not an object"),
        (
            r#""result":{"capabilities":{"tools":{}}}"#,
            r#""error":{"code":-32603,"message":"no"}"#,
            "tools/list with an error: no",
        ),
        (r#""result":{"capabilities":{"tools":{}}}"#, r#""result":{"tools":7}"#, "not a list"),
        (r#""result":{"capabilities":{"tools":{}}}"#, r#""result":{}"#, "no `tools`"),
        (r#""result":{"capabilities":{"tools":{}}}"#, named, "position 2 has no name"),
    ] {
        let hub = Hub::new(options("s"));
        let ((reader, writer), mut server) = Server::pair();
        let connection = run(hub.connect(1, reader, writer));
        let asked = server.expect("initialize").await;
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":{},{initialize}}}"#, asked["id"])).await;
        if !list.is_empty() {
            server.expect("notifications/initialized").await;
            let asked = server.expect("tools/list").await;
            server.say(&format!(r#"{{"jsonrpc":"2.0","id":{},{list}}}"#, asked["id"])).await;
        }
        let why = connection.await.expect("no panic").why;
        assert!(why.contains(expected), "{why}");
    }
}

#[tokio::test]
async fn a_server_without_tools_is_ready_and_answers_for_itself() {
    let hub = Hub::new(options("s"));
    let ((reader, writer), mut server) = Server::pair();
    let _connection = run(hub.connect(1, reader, writer));
    let asked = server.expect("initialize").await;
    server.answer(&asked, json!({ "capabilities": { "prompts": {} } })).await;
    server.expect("notifications/initialized").await;
    let mut phase = hub.phase();
    let ready = phase.wait_for(|phase| *phase == Phase::Ready { generation: 1, tools: 0 });
    tokio::time::timeout(BOUND, ready).await.expect("in time").expect("alive");
    let peer = Peer::ready(&hub, "client", json!({})).await;
    peer.request(json!(1), "tools/list", json!({}));
    server.expect("tools/list").await;
}

#[tokio::test(start_paused = true)]
async fn a_ping_measures_and_a_call_of_our_own_gives_up_in_time() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let ping = run({
        let hub = hub.clone();
        async move { hub.ping(BOUND).await }
    });
    let asked = server.expect("ping").await;
    server
        .say(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":""}}}}"#,
            asked["id"]
        ))
        .await;
    assert!(ping.await.expect("no panic").is_ok(), "an error is a sign of life too");
    assert!(hub.ping(Duration::from_secs(1)).await.expect_err("silent").contains("1000 ms"));
    server.expect("ping").await;
    server.expect("notifications/cancelled").await;
    let error = hub.call_tool("a", json!({}), Duration::from_secs(2)).await.expect_err("silent");
    assert!(error["message"].as_str().expect("text").contains("2000 ms"));
    let call = server.expect("tools/call").await;
    let cancel = server.expect("notifications/cancelled").await;
    assert_eq!(cancel["params"]["requestId"], call["id"]);
    assert_eq!(left_behind(&hub)[1], 0);
}

#[tokio::test(start_paused = true)]
async fn a_tool_over_its_limit_is_cancelled_and_its_client_told_but_nothing_else() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::ready(&hub, "client", json!({})).await;
    peer.request(json!(1), "tools/call", json!({ "name": "a" }));
    server.expect("tools/call").await;
    hub.set_call_limit(Some(Duration::from_millis(1500)));
    let begun = Instant::now();
    peer.request(json!(2), "tools/call", json!({ "name": "a" }));
    let call = server.expect("tools/call").await;
    peer.request(json!(3), "prompts/get", json!({ "name": "a" }));
    server.expect("prompts/get").await;
    let cancel = server.expect("notifications/cancelled").await;
    assert_eq!(begun.elapsed().as_millis(), 1500);
    assert_eq!(cancel["params"]["requestId"], call["id"]);
    let failed = peer.next().await;
    assert_eq!(failed["id"], 2);
    let message = failed["error"]["message"].as_str().expect("text");
    assert!(message.contains("`a`") && message.contains("callTimeoutMs"), "{message}");
    assert!(peer.is_quiet());
    assert_eq!(hub.in_flight(), 2, "one from before the limit, and what is no tool");
}

#[tokio::test(start_paused = true)]
async fn a_call_has_its_own_limit_whatever_the_clock_was_set_to_for_others() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::ready(&hub, "client", json!({})).await;
    hub.set_call_limit(Some(Duration::from_secs(3)));
    peer.request(json!(1), "tools/call", json!({ "name": "a" }));
    let call = server.expect("tools/call").await;
    server.answer(&call, json!({})).await;
    assert_eq!(peer.next().await["id"], 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    // The clock is still set for the first one, and rings in vain.
    let begun = Instant::now();
    peer.request(json!(2), "tools/call", json!({ "name": "a" }));
    server.expect("tools/call").await;
    assert_eq!(peer.next().await["id"], 2);
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
    // One with a longer limit is open when one with a shorter limit comes.
    hub.set_call_limit(Some(Duration::from_secs(4)));
    peer.request(json!(3), "tools/call", json!({ "name": "a" }));
    hub.set_call_limit(Some(Duration::from_secs(1)));
    peer.request(json!(4), "tools/call", json!({ "name": "a" }));
    let begun = Instant::now();
    assert_eq!(peer.next().await["id"], 4);
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
    assert_eq!(peer.next().await["id"], 3);
    assert_eq!(begun.elapsed(), Duration::from_secs(4));
}
