//! `subscriptions/listen`: many of many clients, out of the news of one server.

use super::{
    modern::{modern_hub, params},
    *,
};

const ID: &str = "io.modelcontextprotocol/subscriptionId";
const TOOLS_CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

fn listen(wish: Value) -> Value {
    params(json!({ "notifications": wish }))
}

/// The next message, which is of this method and bears this id.
async fn heard(peer: &mut Peer, method: &str, id: Value) -> Value {
    let message = peer.next_raw().await;
    assert_eq!(message.concerning, Some(id.to_string()));
    let message: Value = serde_json::from_slice(&message.line).expect("JSON");
    assert_eq!(message["method"], method, "{message}");
    assert_eq!(message["params"]["_meta"][ID], id, "{message}");
    message
}

#[tokio::test]
async fn news_go_to_the_subscriptions_that_want_them_each_with_its_own_id() {
    let hub = Hub::new(options("s"));
    let ((reader, writer), mut server) = Server::pair();
    let _connection = run(hub.connect(1, reader, writer));
    let initialize = server.expect("initialize").await;
    let capabilities = json!({ "tools": {}, "resources": { "subscribe": true } });
    server.answer(&initialize, json!({ "capabilities": capabilities })).await;
    server.expect("notifications/initialized").await;
    let mut one = Peer::attach(&hub, "one");
    // Held until something is known of the server.
    let wish = json!({ "toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["x:a"] });
    one.request(json!(1), "subscriptions/listen", listen(wish));
    let list = server.expect("tools/list").await;
    server.answer(&list, tool_page(&["a"])).await;
    let ack = heard(&mut one, "notifications/subscriptions/acknowledged", json!(1)).await;
    // There are no prompts.
    assert_eq!(
        ack["params"]["notifications"],
        json!({ "toolsListChanged": true, "resourceSubscriptions": ["x:a"] })
    );
    let subscribe = server.expect("resources/subscribe").await;
    assert_eq!(subscribe["params"], json!({ "uri": "x:a" }));
    let mut two = Peer::attach(&hub, "two");
    two.request(
        json!("l"),
        "subscriptions/listen",
        listen(json!({ "resourcesListChanged": true })),
    );
    heard(&mut two, "notifications/subscriptions/acknowledged", json!("l")).await;
    let same = json!({ "resourceSubscriptions": ["x:a", "x:b"] });
    two.request(json!(7), "subscriptions/listen", listen(same));
    heard(&mut two, "notifications/subscriptions/acknowledged", json!(7)).await;
    let subscribe = server.expect("resources/subscribe").await;
    assert_eq!(
        subscribe["params"],
        json!({ "uri": "x:b" }),
        "what is subscribed already is not again"
    );
    let mut old = Peer::ready(&hub, "old", json!({})).await;

    server.say(TOOLS_CHANGED).await;
    let list = server.expect("tools/list").await;
    server.answer(&list, tool_page(&["a", "b"])).await;
    heard(&mut one, "notifications/tools/list_changed", json!(1)).await;
    assert_eq!(old.next().await, serde_json::from_str::<Value>(TOOLS_CHANGED).expect("JSON"));
    let updated = |uri: &str| {
        json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated",
                "params": { "uri": uri, "_meta": { "k": 1.0 } } })
        .to_string()
    };
    server.say(&updated("x:a")).await;
    let update = heard(&mut one, "notifications/resources/updated", json!(1)).await;
    assert_eq!(
        (&update["params"]["uri"], &update["params"]["_meta"]["k"]),
        (&json!("x:a"), &json!(1.0))
    );
    heard(&mut two, "notifications/resources/updated", json!(7)).await;
    server.say(&updated("x:b/part")).await;
    heard(&mut two, "notifications/resources/updated", json!(7)).await;
    server
        .say(r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed","params":{}}"#)
        .await;
    heard(&mut two, "notifications/resources/list_changed", json!("l")).await;
    assert_eq!(old.next().await["method"], "notifications/resources/list_changed");
    assert!(one.is_quiet() && two.is_quiet() && old.is_quiet());

    // The last who wanted a resource takes the subscription along.
    two.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#);
    let end = two.next_raw().await;
    assert!(end.last && end.line.is_empty());
    let unsubscribe = server.expect("resources/unsubscribe").await;
    assert_eq!(unsubscribe["params"], json!({ "uri": "x:b" }));
    drop(one);
    let unsubscribe = server.expect("resources/unsubscribe").await;
    assert_eq!(unsubscribe["params"], json!({ "uri": "x:a" }));
    // A server that is gone for good ends what is left, in good order.
    hub.announce_down("removed", false);
    let end = two.next_raw().await;
    assert!(end.last);
    let end: Value = serde_json::from_slice(&end.line).expect("JSON");
    assert_eq!(end["result"], json!({ "resultType": "complete", "_meta": { ID: "l" } }));
}

#[tokio::test]
async fn a_subscription_lasts_over_a_restart_of_the_server() {
    let (hub, server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::attach(&hub, "client");
    peer.request(json!(1), "subscriptions/listen", listen(json!({ "toolsListChanged": true })));
    heard(&mut peer, "notifications/subscriptions/acknowledged", json!(1)).await;
    let busy = peer.client.send(Bytes::from(r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#));
    assert!(busy.is_err(), "its id is in use");
    drop(server);
    let (_server, _connection) = connect(&hub, 2, &["a", "b"]).await;
    heard(&mut peer, "notifications/tools/list_changed", json!(1)).await;
    hub.set_filter(ToolFilter { allow: vec![], deny: vec!["a".into()] });
    heard(&mut peer, "notifications/tools/list_changed", json!(1)).await;
    peer.request(json!(2), "subscriptions/listen", params(json!({ "notifications": 7 })));
    assert_eq!(peer.next().await["error"]["code"], -32602);
}

#[tokio::test]
async fn a_server_of_this_revision_has_one_subscription_of_ours_for_all() {
    let (hub, mut server, _connection) = modern_hub(&["a"]).await;
    let mut one = Peer::attach(&hub, "one");
    one.request(json!(1), "subscriptions/listen", listen(json!({ "toolsListChanged": true })));
    heard(&mut one, "notifications/subscriptions/acknowledged", json!(1)).await;
    let mut old = Peer::ready(&hub, "old", json!({})).await;
    old.request(json!(1), "resources/subscribe", json!({ "uri": "x:a" }));
    assert_eq!(old.next().await["result"], json!({}));
    // Another one with more in it takes the place of the first, which is given up only then.
    let listen = server.expect("subscriptions/listen").await;
    assert_eq!(listen["params"]["notifications"]["resourceSubscriptions"], json!(["x:a"]));
    server.expect("notifications/cancelled").await;
    let tag = json!({ ID: listen["id"] });
    let ack = json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                      "params": { "_meta": tag, "notifications": {} } });
    server.say(&ack.to_string()).await;
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": { "_meta": tag } });
    server.say(&changed.to_string()).await;
    let list = server.expect("tools/list").await;
    server.answer(&list, tool_page(&["a", "b"])).await;
    heard(&mut one, "notifications/tools/list_changed", json!(1)).await;
    let changed = old.next().await;
    assert_eq!(changed["params"], json!({ "_meta": {} }), "no id of ours for who has none");
    let updated = json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated",
                          "params": { "uri": "x:a", "_meta": tag } });
    server.say(&updated.to_string()).await;
    assert_eq!(old.next().await["params"]["uri"], "x:a");
    assert!(one.is_quiet());
    drop(old);
    let listen = server.expect("subscriptions/listen").await;
    assert_eq!(listen["params"]["notifications"].get("resourceSubscriptions"), None);
}
