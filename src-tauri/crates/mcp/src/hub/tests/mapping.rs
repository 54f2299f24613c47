//! Ids and progress tokens of many clients over one server; nothing else changes.

use super::*;

#[tokio::test]
async fn four_clients_with_the_same_ids_and_tokens_each_get_their_own() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["echo"]).await;
    // The same number, the same string, and a string that looks like the number.
    let ids = [json!(1), json!(1), json!("1"), json!("a\"b")];
    let mut peers = Vec::new();
    for (index, id) in ids.iter().enumerate() {
        let peer = Peer::ready(&hub, "client", json!({})).await;
        let params = json!({
            "name": "echo", "arguments": { "from": index }, "_meta": { "progressToken": id },
        });
        peer.request(id.clone(), "tools/call", params);
        peers.push(peer);
    }
    let mut calls = Vec::new();
    for _ in &ids {
        calls.push(server.expect("tools/call").await);
    }
    let mut seen: Vec<&Value> = calls.iter().map(|call| &call["id"]).collect();
    seen.dedup();
    assert_eq!(seen.len(), 4, "every call has an id of its own at the server");
    for call in calls.iter().rev() {
        let token = &call["params"]["_meta"]["progressToken"];
        let params = json!({ "progressToken": token, "progress": 0.50 });
        let progress =
            json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
        server.say(&progress.to_string()).await;
        server.answer(call, call["params"]["arguments"].clone()).await;
    }
    for (index, (peer, id)) in peers.iter_mut().zip(&ids).enumerate() {
        let progress = peer.next_raw().await;
        let text: Value = serde_json::from_slice(&progress.line).expect("JSON");
        assert_eq!(text["params"]["progressToken"], *id);
        assert_eq!(progress.concerning, Some(id.to_string()));
        assert!(!progress.last);
        let result = peer.next_raw().await;
        let text: Value = serde_json::from_slice(&result.line).expect("JSON");
        assert_eq!(text, json!({ "jsonrpc": "2.0", "id": id, "result": { "from": index } }));
        assert!(result.last);
        assert!(peer.is_quiet());
    }
    assert_eq!(left_behind(&hub)[1], 0);
}

#[tokio::test]
async fn everything_but_ids_and_tokens_passes_byte_for_byte() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["t"]).await;
    let mut peer = Peer::ready(&hub, "client", json!({})).await;
    peer.say("{ \"params\" : {\"_meta\":{ \"x\":1.0,\"progressToken\" : \"p\\u0041\" },\"name\":\"t\",\n \"u\":[1e2,-0.0,null]},\"method\":\"tools/call\", \"extra\":{\"jsonrpc\":\"1\",\"id\":5}, \"id\" : 1.50 ,\"jsonrpc\":\"2.0\"}");
    let call = server.next_text().await;
    let id = serde_json::from_str::<Value>(&call).expect("JSON")["id"].to_string();
    assert_eq!(
        call,
        format!(
            "{{ \"params\" : {{\"_meta\":{{ \"x\":1.0,\"progressToken\" : {id} }},\"name\":\"t\",  \"u\":[1e2,-0.0,null]}},\"method\":\"tools/call\", \"extra\":{{\"jsonrpc\":\"1\",\"id\":5}}, \"id\" : {id} ,\"jsonrpc\":\"2.0\"}}"
        )
    );
    server.say(&format!(r#"{{"result":{{"content":[{{"type":"new-kind","v":1.0}}],"z":12345678901234567890123}} , "jsonrpc":"2.0","id":{id},"more":[]}}"#)).await;
    let result = peer.next_raw().await;
    assert_eq!(
        result.line,
        r#"{"result":{"content":[{"type":"new-kind","v":1.0}],"z":12345678901234567890123} , "jsonrpc":"2.0","id":1.50,"more":[]}"#
    );
}

#[tokio::test]
async fn errors_keep_code_and_data_and_a_null_result_is_a_result() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["t"]).await;
    let mut peer = Peer::ready(&hub, "client", json!({})).await;
    peer.request(json!(7), "x/unknown", json!([1]));
    let call = server.expect("x/unknown").await;
    let id = &call["id"];
    server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32042,"message":"m","data":{{"u":[]}}}}}}"#)).await;
    assert_eq!(
        peer.next().await["error"],
        json!({ "code": -32042, "message": "m", "data": { "u": [] } })
    );
    peer.request(json!(8), "x/null", json!({}));
    let call = server.expect("x/null").await;
    server.answer(&call, Value::Null).await;
    assert_eq!(peer.next().await, json!({ "jsonrpc": "2.0", "id": 8, "result": null }));
}

#[tokio::test]
async fn a_cancel_reaches_only_the_call_of_its_client() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["t"]).await;
    let mut first = Peer::ready(&hub, "first", json!({})).await;
    let mut second = Peer::ready(&hub, "second", json!({})).await;
    first.request(json!(1), "tools/call", json!({ "name": "t" }));
    let theirs = server.expect("tools/call").await;
    second.request(json!(1), "tools/call", json!({ "name": "t" }));
    let others = server.expect("tools/call").await;
    first.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"enough","requestId":1,"x":0}}"#);
    let cancel = server.expect("notifications/cancelled").await;
    assert_eq!(cancel["params"], json!({ "reason": "enough", "requestId": theirs["id"], "x": 0 }));
    let let_go = first.next_raw().await;
    assert!(let_go.last && let_go.concerning.as_deref() == Some("1"));
    // The answer that comes all the same goes nowhere, and the other client is not touched.
    server.answer(&theirs, json!("late")).await;
    server.answer(&others, json!("ok")).await;
    assert_eq!(second.next().await["result"], "ok");
    assert!(first.is_quiet());
    // Cancelling what is not there says nothing to the server.
    first.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#);
    first.request(json!(1), "marker", json!({}));
    server.expect("marker").await;
}

#[tokio::test]
async fn invalid_messages_and_an_id_in_use_are_refused() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["t"]).await;
    let peer = Peer::ready(&hub, "client", json!({})).await;
    for (text, code) in [
        ("{", -32700),
        ("[]", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
    ] {
        let refused = peer.client.send(Bytes::copy_from_slice(text.as_bytes())).expect_err(text);
        let refused: Value = serde_json::from_slice(&refused).expect("JSON");
        assert_eq!(refused["error"]["code"], code, "{text}");
    }
    peer.request(json!(1), "x/slow", json!({}));
    server.expect("x/slow").await;
    let again = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"x/slow"}"#);
    let refused: Value =
        serde_json::from_slice(&peer.client.send(again).expect_err("in use")).expect("JSON");
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1), &json!(-32600)));
}

#[tokio::test]
async fn noise_unknown_answers_and_second_answers_change_nothing() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["t"]).await;
    let mut peer = Peer::ready(&hub, "client", json!({})).await;
    peer.request(json!(1), "tools/call", json!({ "name": "t" }));
    let call = server.expect("tools/call").await;
    for noise in [
        "Server listening…",
        "",
        "   ",
        "{\"level\":\"info\"}",
        "[1,2]",
        "nul",
        "\u{1}\u{2}",
        r#"{"jsonrpc":"2.0","id":424242,"result":1}"#,
        r#"{"jsonrpc":"2.0","id":"x","result":1}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#,
    ] {
        server.say(noise).await;
    }
    server.answer(&call, json!(1)).await;
    server.answer(&call, json!(2)).await;
    peer.request(json!(2), "x/marker", json!({}));
    let marker = server.expect("x/marker").await;
    server.answer(&marker, json!(3)).await;
    assert_eq!(peer.next().await["result"], 1);
    assert_eq!(peer.next().await["result"], 3);
}

#[tokio::test]
async fn a_line_over_the_limit_fails_its_own_call_and_no_other() {
    let mut small = options("s");
    small.line_limit = 10_000;
    let (hub, mut server, connection) = ready_hub(small, &["t"]).await;
    let mut peer = Peer::ready(&hub, "client", json!({})).await;
    for at_end in [false, true] {
        peer.request(json!(1), "tools/call", json!({ "name": "t" }));
        let call = server.expect("tools/call").await;
        peer.request(json!(2), "tools/call", json!({ "name": "t" }));
        let other = server.expect("tools/call").await;
        let (id, long) = (&call["id"], "x".repeat(20_000));
        let line = if at_end {
            format!(r#"{{"result":"{long}","jsonrpc":"2.0","id":{id}}}"#)
        } else {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"{long}"}}"#)
        };
        server.say(&line).await;
        server.answer(&other, json!("ok")).await;
        let failed = peer.next().await;
        assert_eq!(failed["id"], 1);
        let message = failed["error"]["message"].as_str().expect("a message");
        assert!(message.contains("`s`") && message.contains("10000"), "{message}");
        assert_eq!(peer.next().await["result"], "ok");
    }
    // One that cannot be told whose it is ends the connection, so that nobody waits for ever.
    peer.request(json!(3), "tools/call", json!({ "name": "t" }));
    server.expect("tools/call").await;
    server.say(&"y".repeat(20_000)).await;
    let why = connection.await.expect("no panic").why;
    assert!(why.contains("20000 bytes"), "{why}");
    assert_eq!(peer.next().await["id"], 3);
}
