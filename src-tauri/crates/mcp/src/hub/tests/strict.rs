//! What was judged is what the server gets: nothing that can be read in two ways passes.

use super::*;

fn refused(peer: &Peer, text: &str) -> Value {
    let refused = peer.client.send(Bytes::copy_from_slice(text.as_bytes())).expect_err(text);
    serde_json::from_slice::<Value>(&refused).expect("JSON")
}

#[tokio::test]
async fn no_way_of_writing_a_call_gets_around_the_filter() {
    let mut filtered = options("s");
    filtered.filter.deny = vec!["b".into()];
    let (hub, mut server, _connection) = ready_hub(filtered, &["a", "b"]).await;
    let mut peer = Peer::ready(&hub, "client", json!({})).await;
    for call in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","n\u0061me":"b"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","NAME":"b"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"\ud800":1,"name":"b"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"Params":{"name":"b"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x/y","Method":"tools/call","params":{"name":"b"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"p\u0061rams":{"name":"b"}}"#,
    ] {
        assert_eq!(refused(&peer, call)["error"]["code"], -32600, "{call}");
    }
    for name in [r#""b""#, r#""\u0062""#, r#"["b"]"#, r#""b\ud800""#, "null"] {
        peer.say(&format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tools\/call","params":{{"n\u0061me":{name}}}}}"#
        ));
        assert_eq!(peer.next().await["error"]["code"], -32602, "{name}");
    }
    peer.say(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":["b"]}"#);
    assert_eq!(peer.next().await["error"]["code"], -32602);
    // One that wants no answer is not carried out either.
    peer.say(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"b"}}"#);
    peer.say(r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"n\u0061me":"\u0061"}}"#);
    let call = server.expect("tools/call").await;
    assert_eq!(call["params"], json!({ "name": "a" }), "nothing else came through");
}

#[tokio::test]
async fn ids_and_tokens_of_others_cannot_be_smuggled() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["t"]).await;
    let peer = Peer::ready(&hub, "client", json!({})).await;
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"ID":2,"method":"x/y"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"_meta":{"progressToken":1,"progressToken":2}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"_meta":{},"_meta":{"progressToken":2}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"_meta":{"\udfff":1,"progressToken":2}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":2}}"#,
    ] {
        assert_eq!(refused(&peer, text)["error"]["code"], -32600, "{text}");
    }
    peer.request(json!(1), "x/marker", json!({ "Name": 1, "name": 2 }));
    server.expect("x/marker").await;
}

#[tokio::test]
async fn a_server_may_write_our_ids_in_its_own_way() {
    let hub = Hub::new(options("s"));
    let ((reader, writer), mut server) = Server::pair();
    let _connection = run(hub.connect(1, reader, writer));
    let said = |id: &Value, way: usize, result: Value| {
        let id = [json!(id.to_string()), json!(id.as_f64().expect("a number"))][way].clone();
        json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
    };
    let initialize = server.expect("initialize").await;
    server.say(&said(&initialize["id"], 0, server_info())).await;
    server.expect("notifications/initialized").await;
    let list = server.expect("tools/list").await;
    server.say(&said(&list["id"], 1, tool_page(&["t"]))).await;
    let mut phase = hub.phase();
    let ready = phase.wait_for(|phase| matches!(phase, Phase::Ready { .. }));
    tokio::time::timeout(BOUND, ready).await.expect("ready in time").expect("the hub lives");
    let mut peer = Peer::ready(&hub, "client", json!({})).await;
    for way in [0, 1] {
        let params = json!({ "name": "t", "_meta": { "progressToken": "p" } });
        peer.request(json!("a"), "tools/call", params);
        let call = server.expect("tools/call").await;
        let token = json!(call["params"]["_meta"]["progressToken"].to_string());
        let params = json!({ "progressToken": token, "progress": 1 });
        let progress =
            json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
        server.say(&progress.to_string()).await;
        server.say(&said(&call["id"], way, json!(way))).await;
        assert_eq!(peer.next().await["params"]["progressToken"], "p");
        assert_eq!(peer.next().await, json!({ "jsonrpc": "2.0", "id": "a", "result": way }));
    }
}
