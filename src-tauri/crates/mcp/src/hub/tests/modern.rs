//! Clients and servers of revision 2026-07-28, each in front of or behind the older ones.

use super::*;

const META: &str = "io.modelcontextprotocol";

/// `_meta` of a client that can do these things.
pub fn meta(capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// Parameters with that `_meta`.
pub fn params(mut params: Value) -> Value {
    let mut all = meta(json!({}));
    for (key, value) in params["_meta"].as_object().cloned().unwrap_or_default() {
        all[key] = value;
    }
    params["_meta"] = all;
    params
}

impl Server {
    /// Answers the question whether it is of this revision: no.
    pub async fn is_older(&mut self) {
        let probe = self.expect("server/discover").await;
        assert_eq!(
            probe["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
        self.fail(&probe, -32601, "Method not found").await;
    }

    pub async fn fail(&mut self, request: &Value, code: i64, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.say(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }).to_string())
            .await;
    }
}

/// A hub with a server that knows no `initialize`.
pub async fn modern_hub(tools: &[&str]) -> (Hub, Server, Connection) {
    let hub = Hub::new(options("s"));
    let ((reader, writer), mut server) = Server::pair();
    let connection = run(hub.connect(1, reader, writer));
    let initialize = server.expect("initialize").await;
    server.fail(&initialize, -32601, "this server speaks 2026-07-28").await;
    let discover = server.expect("server/discover").await;
    server.answer(&discover, discovered()).await;
    let list = server.expect("tools/list").await;
    assert_eq!(list["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    let mut page = tool_page(tools);
    page["resultType"] = json!("complete");
    page["ttlMs"] = json!(5000);
    page["cacheScope"] = json!("public");
    server.answer(&list, page).await;
    let listen = server.expect("subscriptions/listen").await;
    assert_eq!(listen["params"]["notifications"]["toolsListChanged"], true, "{listen}");
    (hub, server, connection)
}

fn discovered() -> Value {
    json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": { "tools": {}, "resources": { "subscribe": true }, "x-own": 1 },
        "instructions": "Be kind.", "ttlMs": 7, "cacheScope": "public",
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "new", "version": "3" } },
    })
}

#[tokio::test(start_paused = true)]
async fn a_client_without_initialize_is_served_by_an_older_server() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::attach(&hub, "client");
    peer.request(json!("d"), "server/discover", params(json!({})));
    server.is_older().await;
    let discover = peer.next().await["result"].clone();
    assert_eq!(discover["resultType"], "complete");
    assert_eq!(discover["supportedVersions"][0], "2026-07-28");
    assert_eq!(discover["capabilities"]["x-own"], 1);
    assert_eq!(discover["_meta"][format!("{META}/serverInfo")]["name"], "scripted");
    assert_eq!((&discover["ttlMs"], &discover["cacheScope"]), (&json!(0), &json!("private")));

    peer.request(json!(1), "tools/list", params(json!({})));
    let list = peer.next().await["result"].clone();
    assert_eq!((&list["tools"][0]["name"], &list["resultType"]), (&json!("a"), &json!("complete")));
    assert_eq!((&list["ttlMs"], &list["cacheScope"]), (&json!(0), &json!("private")));
    assert_eq!(hub.receipt("client"), Some(1));

    let call = json!({ "name": "a", "_meta": { "progressToken": "p", "x": 1.50 } });
    peer.request(json!(2), "tools/call", params(call));
    let call = server.expect("tools/call").await;
    let ours = &call["id"];
    assert_eq!(call["params"]["_meta"], json!({ "x": 1.5, "progressToken": ours }), "{call}");
    let progress = json!({ "progressToken": ours, "progress": 1 });
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress });
    server.say(&note.to_string()).await;
    server.answer(&call, json!({ "content": [] })).await;
    let progress = peer.next_raw().await;
    assert_eq!(progress.concerning.as_deref(), Some("2"));
    let result = peer.next().await;
    assert_eq!(result["result"]["resultType"], "complete");
    assert_eq!(result["result"].get("ttlMs"), None);

    peer.request(json!(3), "resources/read", params(json!({ "uri": "x:y" })));
    let read = server.expect("resources/read").await;
    assert_eq!(read["params"], json!({ "uri": "x:y", "_meta": {} }));
    server.answer(&read, json!({ "contents": [], "ttlMs": 9 })).await;
    let read = peer.next().await["result"].clone();
    assert_eq!((&read["ttlMs"], &read["cacheScope"]), (&json!(9), &json!("private")));
    // Errors stay what they are.
    peer.request(json!(4), "prompts/get", params(json!({ "name": "x" })));
    let get = server.expect("prompts/get").await;
    server.fail(&get, -32050, "no such").await;
    assert_eq!(peer.next().await["error"]["code"], -32050);
    assert!(peer.is_quiet());
}

#[tokio::test(start_paused = true)]
async fn what_revision_2026_07_28_has_no_more_is_not_found_and_what_it_lacks_is_malformed() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::attach(&hub, "client");
    for method in
        ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"]
    {
        peer.request(json!(1), method, params(json!({})));
        assert_eq!(peer.next().await["error"]["code"], -32601, "{method}");
    }
    let mut bare = meta(json!({}));
    bare.as_object_mut().expect("an object").remove("io.modelcontextprotocol/clientCapabilities");
    peer.request(json!(2), "tools/list", json!({ "_meta": bare }));
    assert_eq!(peer.next().await["error"]["code"], -32602);
    let mut past = meta(json!({}));
    past["io.modelcontextprotocol/protocolVersion"] = json!("2025-11-25");
    peer.request(json!(3), "tools/list", json!({ "_meta": past }));
    let error = peer.next().await["error"].clone();
    assert_eq!(
        (&error["code"], &error["data"]["requested"]),
        (&json!(-32022), &json!("2025-11-25"))
    );
    // What nobody knows goes to the server.
    peer.request(json!(4), "x/unknown", params(json!({})));
    server.is_older().await;
    let unknown = server.expect("x/unknown").await;
    server.fail(&unknown, -32601, "no x").await;
    assert_eq!(peer.next().await["error"]["message"], "no x");
}

#[tokio::test(start_paused = true)]
async fn a_server_of_both_eras_gets_the_requests_of_this_one_as_they_are() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::attach(&hub, "client");
    // Several come before the server has said what it is; it is asked once.
    peer.request(json!(1), "tools/call", params(json!({ "name": "a", "x": 1.0 })));
    peer.request(json!(2), "server/discover", params(json!({})));
    let probe = server.expect("server/discover").await;
    server.answer(&probe, discovered()).await;
    let call = server.expect("tools/call").await;
    assert_eq!(call["params"], params(json!({ "name": "a", "x": 1.0 })), "{call}");
    let question = json!({
        "resultType": "input_required", "requestState": "s",
        "inputRequests": { "q": { "method": "elicitation/create", "params": {} } },
    });
    let discover = peer.next().await;
    assert_eq!((&discover["id"], &discover["result"]["ttlMs"]), (&json!(2), &json!(7)));
    assert_eq!(discover["result"]["supportedVersions"][1], "2025-11-25");
    server.answer(&call, question.clone()).await;
    assert_eq!(peer.next().await["result"], question);
    // Its answers to those who were initialised are not touched, nor are theirs.
    let mut old = Peer::ready(&hub, "old", json!({})).await;
    old.request(json!(1), "tools/call", json!({ "name": "a" }));
    let call = server.expect("tools/call").await;
    assert_eq!(call["params"], json!({ "name": "a" }));
    server.answer(&call, json!({ "content": [] })).await;
    assert_eq!(old.next().await["result"], json!({ "content": [] }));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_say_what_it_is_counts_as_older() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    run(hub.clock());
    let mut peer = Peer::attach(&hub, "client");
    let begun = Instant::now();
    peer.request(json!(0), "server/discover", params(json!({})));
    peer.request(json!(1), "tools/call", params(json!({ "name": "a" })));
    let probe = server.expect("server/discover").await;
    let discover = peer.next().await;
    assert_eq!((&discover["id"], begun.elapsed().as_secs()), (&json!(0), 1));
    assert_eq!(discover["result"]["capabilities"]["x-own"], 1);
    let call = server.expect("tools/call").await;
    assert_eq!((&call["params"]["_meta"], begun.elapsed().as_secs()), (&json!({}), 5));
    // Too late to change its mind.
    server.answer(&probe, discovered()).await;
    server.answer(&call, json!({ "content": [] })).await;
    assert_eq!(peer.next().await["result"]["resultType"], "complete");
}

#[tokio::test(start_paused = true)]
async fn a_question_of_an_older_server_ends_in_a_clear_error() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::attach(&hub, "client");
    let mut first = true;
    for (capabilities, tool_error) in
        [(json!({}), true), (json!({ "sampling": {} }), true), (json!({ "sampling": {} }), false)]
    {
        let call = json!({ "name": "a", "_meta": meta(capabilities.clone()) });
        peer.request(json!(1), "tools/call", call);
        if std::mem::take(&mut first) {
            server.is_older().await;
        }
        let call = server.expect("tools/call").await;
        server
            .say(r#"{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}"#)
            .await;
        let refused = server.next().await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("q"), &json!(-32601)));
        if tool_error {
            let failed =
                json!({ "content": [{ "type": "text", "text": "ouch" }], "isError": true });
            server.answer(&call, failed).await;
        } else {
            server.fail(&call, -32603, "ouch").await;
        }
        let answer = peer.next().await;
        if capabilities == json!({}) {
            assert_eq!(answer["error"]["code"], -32021, "{answer}");
            assert_eq!(answer["error"]["data"]["requiredCapabilities"], json!({ "sampling": {} }));
        } else {
            let result = &answer["result"];
            assert_eq!(
                (&result["isError"], &result["resultType"]),
                (&json!(true), &json!("complete"))
            );
            let text = result["content"][0]["text"].as_str().expect("text");
            assert!(text.contains("sampling") && text.contains("2026-07-28"), "{text}");
            assert_eq!(result["content"][1]["text"], "ouch");
        }
    }
    // A server that can do without is not put down.
    peer.request(json!(2), "tools/call", params(json!({ "name": "a" })));
    let call = server.expect("tools/call").await;
    server.say(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#).await;
    server.next().await;
    server.answer(&call, json!({ "content": [] })).await;
    assert_eq!(peer.next().await["result"]["content"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn log_messages_come_for_calls_that_ask_for_them_only() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::attach(&hub, "client");
    let log = |level: &str| {
        let params = json!({ "level": level, "data": 1 });
        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params }).to_string()
    };
    peer.request(json!(1), "tools/call", params(json!({ "name": "a" })));
    server.is_older().await;
    let call = server.expect("tools/call").await;
    server.say(&log("emergency")).await;
    server.answer(&call, json!({})).await;
    assert_eq!(peer.next().await["id"], 1);

    let level = json!({ "name": "a", "_meta": { "io.modelcontextprotocol/logLevel": "warning" } });
    peer.request(json!(2), "tools/call", params(level));
    let set = server.expect("logging/setLevel").await;
    assert_eq!(set["params"]["level"], "warning");
    server.answer(&set, json!({})).await;
    let call = server.expect("tools/call").await;
    assert_eq!(call["params"]["_meta"], json!({}));
    server.say(&log("info")).await;
    server.say(&log("error")).await;
    server.answer(&call, json!({})).await;
    let heard = peer.next_raw().await;
    assert_eq!(heard.concerning.as_deref(), Some("2"));
    assert!(String::from_utf8_lossy(&heard.line).contains("error"));
    assert_eq!(peer.next().await["id"], 2);
    let wrong = json!({ "name": "a", "_meta": { "io.modelcontextprotocol/logLevel": "loud" } });
    peer.request(json!(3), "tools/call", params(wrong));
    assert_eq!(peer.next().await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn who_was_initialised_is_served_by_a_server_that_knows_no_initialize() {
    let (hub, mut server, _connection) = modern_hub(&["a"]).await;
    let mut peer = Peer::attach(&hub, "client");
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "old", "version": "1" },
    });
    peer.request(json!(0), "initialize", hello);
    let initialize = peer.next().await["result"].clone();
    assert_eq!(initialize["protocolVersion"], "2025-06-18");
    assert_eq!(initialize["serverInfo"]["name"], "new");
    assert_eq!(
        (&initialize["instructions"], &initialize["capabilities"]["x-own"]),
        (&json!("Be kind."), &json!(1))
    );
    peer.request(json!(1), "tools/list", json!({}));
    assert_eq!(peer.next().await["result"]["tools"][0]["name"], "a");
    peer.request(json!(2), "logging/setLevel", json!({ "level": "info" }));
    assert_eq!(peer.next().await["result"], json!({}));
    peer.say(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);

    let call = json!({ "name": "a", "arguments": { "n": 1.0 }, "_meta": { "progressToken": 1 } });
    peer.request(json!(3), "tools/call", call);
    let call = server.expect("tools/call").await;
    let told = &call["params"]["_meta"];
    assert_eq!(told["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(told["io.modelcontextprotocol/clientCapabilities"], json!({ "elicitation": {} }));
    assert_eq!(told["io.modelcontextprotocol/clientInfo"]["name"], "old");
    assert_eq!(told["io.modelcontextprotocol/logLevel"], "info");
    assert_eq!(told["progressToken"], call["id"]);
    // What the server wants to know is asked as the client is used to.
    let form = json!({ "method": "elicitation/create", "params": { "message": "who?" } });
    let question = json!({
        "resultType": "input_required", "requestState": "blob", "inputRequests": { "who": form },
    });
    server.answer(&call, question.clone()).await;
    let asked = peer.next_raw().await;
    assert_eq!(asked.concerning.as_deref(), Some("3"));
    let asked: Value = serde_json::from_slice(&asked.line).expect("JSON");
    assert_eq!(
        (&asked["method"], &asked["params"]["message"]),
        (&json!("elicitation/create"), &json!("who?"))
    );
    // An id in use stays in use while the client thinks.
    let busy = peer.client.send(Bytes::from(r#"{"jsonrpc":"2.0","id":3,"method":"x"}"#));
    assert!(busy.is_err());
    let answer = json!({ "action": "accept", "content": { "name": "me" } });
    peer.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer }).to_string());
    let again = server.expect("tools/call").await;
    assert_ne!(again["id"], call["id"]);
    let sent = &again["params"];
    assert_eq!(sent["inputResponses"], json!({ "who": answer }));
    assert_eq!((&sent["requestState"], &sent["arguments"]), (&json!("blob"), &json!({ "n": 1.0 })));
    assert_eq!(sent["_meta"]["progressToken"], again["id"]);
    server.answer(&again, json!({ "resultType": "complete", "content": [] })).await;
    let result = peer.next().await;
    assert_eq!((&result["id"], &result["result"]["content"]), (&json!(3), &json!([])));

    // What it cannot be asked is an error that says so; a cancel in the middle leaves nothing.
    peer.request(json!(4), "tools/call", json!({ "name": "a" }));
    let call = server.expect("tools/call").await;
    let sampling = json!({ "resultType": "input_required",
        "inputRequests": { "s": { "method": "sampling/createMessage", "params": {} } } });
    server.answer(&call, sampling).await;
    let error = peer.next().await["error"].clone();
    assert!(error["message"].as_str().expect("text").contains("sampling/createMessage"), "{error}");
    peer.request(json!(5), "tools/call", json!({ "name": "a" }));
    let call = server.expect("tools/call").await;
    server.answer(&call, question).await;
    assert_eq!(peer.next().await["method"], "elicitation/create");
    peer.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#);
    assert_eq!(peer.next().await["error"]["code"], -32800);
    drop(peer);
    // Ours at the server is the only call that is left.
    let left = left_behind(&hub);
    assert_eq!([left[0], left[1], left[3], left[4]], [0, 1, 0, 0]);
    assert_eq!(hub.shared.act(|state, _| state.asking.len()), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_knows_no_initialize_is_pinged_called_and_cancelled_in_its_own_way() {
    let (hub, mut server, _connection) = modern_hub(&["a"]).await;
    let ping = run({
        let hub = hub.clone();
        async move { hub.ping(BOUND).await }
    });
    let asked = server.expect("server/discover").await;
    server.answer(&asked, discovered()).await;
    ping.await.expect("no panic").expect("alive");
    let call = run({
        let hub = hub.clone();
        async move { hub.call_tool("a", json!({}), BOUND).await }
    });
    let asked = server.expect("tools/call").await;
    assert_eq!(asked["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    server.answer(&asked, json!({ "content": [] })).await;
    call.await.expect("no panic").expect("a result");

    let mut peer = Peer::attach(&hub, "client");
    peer.request(json!(1), "server/discover", params(json!({})));
    let discover = peer.next().await["result"].clone();
    assert_eq!((&discover["ttlMs"], &discover["instructions"]), (&json!(7), &json!("Be kind.")));
    peer.request(json!(2), "tools/list", params(json!({})));
    let list = peer.next().await["result"].clone();
    assert_eq!((&list["ttlMs"], &list["cacheScope"]), (&json!(5000), &json!("public")));
    peer.request(json!(3), "tools/call", params(json!({ "name": "a" })));
    let call = server.expect("tools/call").await;
    assert_eq!(call["params"], params(json!({ "name": "a" })));
    peer.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#);
    let cancelled = server.expect("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], call["id"]);
    // Nothing is said of a call that was cancelled.
    let end = peer.next_raw().await;
    assert!(end.last && end.line.is_empty() && end.concerning.as_deref() == Some("3"));
    // A client that goes cancels what it has running.
    peer.request(json!(4), "tools/call", params(json!({ "name": "a" })));
    let call = server.expect("tools/call").await;
    drop(peer);
    let cancelled = server.expect("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], call["id"]);
}

#[tokio::test(start_paused = true)]
async fn with_nothing_known_a_client_without_initialize_waits_for_nothing_either() {
    let hub = Hub::new(options("s"));
    run(hub.clock());
    let mut peer = Peer::attach(&hub, "client");
    let begun = Instant::now();
    peer.request(json!(1), "server/discover", params(json!({})));
    let discover = peer.next().await["result"].clone();
    assert_eq!(discover["capabilities"]["tools"]["listChanged"], true);
    assert_eq!(discover["ttlMs"], 0);
    peer.request(json!(2), "tools/list", params(json!({})));
    let list = peer.next().await["result"].clone();
    assert_eq!((&list["tools"], &list["ttlMs"]), (&json!([]), &json!(0)));
    assert!(begun.elapsed() < Duration::from_secs(1));
}
