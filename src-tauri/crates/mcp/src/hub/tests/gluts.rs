//! Servers that do not read, and what clients leave for them.

use super::{modern::params, *};

/// What one client may have news of.
const MOST: usize = 4096;

/// A hub whose server has resources and stops to read once it is ready.
async fn subscribable() -> (Hub, Server, Connection) {
    let hub = Hub::new(options("s"));
    let ((reader, writer), mut server) = Server::pair();
    let connection = run(hub.connect(1, reader, writer));
    let initialize = server.expect("initialize").await;
    let capabilities = json!({ "resources": { "subscribe": true }, "logging": {} });
    server.answer(&initialize, json!({ "capabilities": capabilities })).await;
    server.expect("notifications/initialized").await;
    hub.settled().await;
    (hub, server, connection)
}

fn listen(count: usize, of: &str) -> Value {
    let addresses: Vec<String> = (0..count).map(|number| format!("x:{of}/{number}")).collect();
    params(json!({ "notifications": { "resourceSubscriptions": addresses } }))
}

#[tokio::test]
async fn calls_of_our_own_that_nobody_reads_are_bounded_by_their_size() {
    let (hub, server, _connection) = ready_hub(options("s"), &["a"]).await;
    let text = "x".repeat(9 << 20);
    let mut refused = 0;
    for _ in 0..20 {
        // Whoever asks gives up at once; what was asked still waits to be read.
        let call = hub.call_tool("a", json!({ "text": text }), BOUND);
        if let Ok(Err(error)) = tokio::time::timeout(Duration::ZERO, call).await {
            let message = error["message"].as_str().expect("text");
            assert!(message.contains("takes no more messages"), "{message}");
            refused += 1;
        }
    }
    assert!((5..8).contains(&refused), "{refused} of 20 calls of 9 MiB");
    drop(server);
}

#[tokio::test]
async fn a_large_cancellation_is_passed_on_as_a_small_one() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let peer = Peer::ready(&hub, "client", json!({})).await;
    for (length, passes) in [(10, true), (100_000, false)] {
        peer.request(json!(1), "tools/call", json!({ "name": "a" }));
        let call = server.expect("tools/call").await;
        let reason = "x".repeat(length);
        let params = json!({ "requestId": 1, "reason": reason });
        peer.say(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
                .to_string(),
        );
        let cancel = server.expect("notifications/cancelled").await;
        assert_eq!(cancel["params"]["requestId"], call["id"]);
        assert_eq!(cancel["params"]["reason"] == json!(reason), passes, "{length}");
    }
}

#[tokio::test]
async fn a_client_cannot_have_news_of_everything() {
    let (hub, mut server, _connection) = subscribable().await;
    let mut one = Peer::attach(&hub, "one");
    one.request(json!(1), "subscriptions/listen", listen(MOST + 1, "a"));
    let refused = one.next().await;
    assert!(refused["error"]["message"].as_str().expect("text").contains("4096"), "{refused}");
    one.request(json!(2), "subscriptions/listen", listen(MOST - 1, "a"));
    assert_eq!(one.next().await["method"], "notifications/subscriptions/acknowledged");
    for _ in 1..MOST {
        server.expect("resources/subscribe").await;
    }
    one.request(json!(3), "resources/subscribe", json!({ "uri": "x:last" }));
    let last = server.expect("resources/subscribe").await;
    assert_eq!(last["params"]["uri"], "x:last");
    server.answer(&last, json!({})).await;
    assert_eq!(one.next().await["result"], json!({}));
    one.request(json!(4), "resources/subscribe", json!({ "uri": "x:more" }));
    let refused = one.next().await;
    assert!(refused["error"]["message"].as_str().expect("text").contains("4096"), "{refused}");
    // Others can, and it can when it wants less.
    let two = Peer::ready(&hub, "two", json!({})).await;
    two.request(json!(1), "resources/subscribe", json!({ "uri": "x:more" }));
    assert_eq!(server.expect("resources/subscribe").await["params"]["uri"], "x:more");
    one.request(json!(5), "resources/unsubscribe", json!({ "uri": "x:last" }));
    server.expect("resources/unsubscribe").await;
    one.request(json!(6), "resources/subscribe", json!({ "uri": "x:more" }));
    assert_eq!(server.expect("resources/subscribe").await["params"]["uri"], "x:more");
}

#[tokio::test]
async fn a_server_that_does_not_read_what_comes_and_goes_is_given_up() {
    let (hub, _server, connection) = subscribable().await;
    for round in 0..50 {
        let mut peer = Peer::attach(&hub, "comes and goes");
        peer.request(json!(1), "subscriptions/listen", listen(MOST, &round.to_string()));
        peer.next().await;
    }
    let ended = tokio::time::timeout(BOUND, connection).await.expect("it is given up");
    assert_eq!(ended.expect("no panic").why, "does not read what it is told");
    assert_eq!(left_behind(&hub)[..2], [0, 0]);
}

#[tokio::test]
async fn a_level_that_the_server_was_not_told_is_not_set() {
    let (hub, _server, _connection) = subscribable().await;
    let mut peer = Peer::ready(&hub, "client", json!({})).await;
    let text = "x".repeat(8 << 20);
    let mut id = 0;
    // Until it takes no more.
    loop {
        id += 1;
        peer.request(json!(id), "logging/setLevel", json!({ "level": "error", "x": text }));
        if !peer.is_quiet() {
            break;
        }
        hub.shared
            .act(|state, _| state.clients.values_mut().for_each(|client| client.level = None));
        hub.shared.act(|state, _| state.told_level = None);
        assert!(id < 100, "it takes everything");
    }
    let (told, levels) = hub.shared.act(|state, _| {
        (state.told_level, state.clients.values().map(|client| client.level).collect::<Vec<_>>())
    });
    assert_eq!((told, levels), (None, vec![None]));
}
