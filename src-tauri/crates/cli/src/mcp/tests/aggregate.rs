//! Several servers as one.

use super::*;
use crate::mcp::aggregate::Aggregate;
use gantry_supervisor::Scope;

const LEFT: Script = Script {
    name: "left",
    tools: &["echo", "ask", "hang", "only_left"],
    prompts: &["greet"],
    resources: &["r:both", "r:left"],
};
const RIGHT: Script = Script {
    name: "right",
    tools: &["echo", "ask", "news", "withdraw"],
    prompts: &["greet", "only_right"],
    resources: &["r:both"],
};

struct Pair {
    hubs: Vec<Hub>,
    front: Aggregate,
    peer: Peer,
    _scope: Scope,
}

impl Pair {
    fn new() -> Self {
        let hubs = vec![hub("left"), hub("right")];
        let (peer, scope) = (Peer::new(), Scope::root("test"));
        let front = Aggregate::new(&hubs, peer.output.clone(), peer.gate.clone(), scope.clone());
        Self { hubs, front, peer, _scope: scope }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.peer.ask(&self.front, method, params, &mut vec![]).await
    }
}

#[tokio::test]
async fn lists_are_joined_shared_names_are_changed_for_both_and_calls_find_their_server() {
    let mut pair = Pair::new();
    let _left = LEFT.connect(&pair.hubs[0], 1).await;
    let _right = RIGHT.connect(&pair.hubs[1], 1).await;
    let initialize = pair.peer.initialize(&pair.front, json!({})).await;
    assert_eq!(initialize["serverInfo"]["name"], "gantry");
    // Without a list before: the table is made for the call.
    let meta = json!({ "progressToken": 5 });
    let mut before = Vec::new();
    let params = json!({ "name": "right__echo", "arguments": { "a": 1 }, "_meta": meta });
    let answer = pair.peer.ask(&pair.front, "tools/call", params, &mut before).await;
    assert_eq!(answer["result"]["by"], "right");
    assert_eq!(answer["result"]["asked"]["name"], "echo");
    assert_eq!(before[0]["params"], json!({ "progressToken": 5, "progress": 1 }));
    let list = pair.ask("tools/list", json!({})).await;
    assert_eq!(
        names(&list, "tools", "name"),
        [
            "left__echo",
            "left__ask",
            "hang",
            "only_left",
            "right__echo",
            "right__ask",
            "news",
            "withdraw"
        ]
    );
    let call = pair.ask("tools/call", json!({ "name": "only_left" })).await;
    assert_eq!(call["result"]["by"], "left");
    let unknown = pair.ask("tools/call", json!({ "name": "echo" })).await;
    assert_eq!(unknown["error"]["code"], -32602);
    let list = pair.ask("prompts/list", json!({})).await;
    assert_eq!(names(&list, "prompts", "name"), ["left__greet", "right__greet", "only_right"]);
    let prompt = pair.ask("prompts/get", json!({ "name": "right__greet" })).await;
    assert_eq!(prompt["result"], json!({ "by": "right", "asked": { "name": "greet" } }));
    let list = pair.ask("resources/list", json!({})).await;
    assert_eq!(names(&list, "resources", "uri"), ["r:both", "r:left"]);
    for (uri, by) in [("r:both", "left"), ("r:left", "left"), ("right://7", "right")] {
        let read = pair.ask("resources/read", json!({ "uri": uri })).await;
        assert_eq!(read["result"]["by"], by, "{uri}");
    }
    let read = pair.ask("resources/read", json!({ "uri": "nowhere://7" })).await;
    assert_eq!(read["result"]["by"], "left", "the only one that lists resources of its own");
    let complete = json!({ "ref": { "type": "ref/prompt", "name": "only_right" } });
    assert_eq!(pair.ask("completion/complete", complete).await["result"]["by"], "right");
    for (method, code) in [("x/unknown", -32601), ("server/discover", -32601)] {
        assert_eq!(pair.ask(method, json!({})).await["error"]["code"], code);
    }
    assert_eq!(pair.ask("logging/setLevel", json!({ "level": "info" })).await["result"], json!({}));
    assert_eq!(pair.peer.gate.running(), [""; 0]);
}

#[tokio::test]
async fn questions_of_two_servers_under_one_id_get_their_own_answers() {
    let mut pair = Pair::new();
    let _left = LEFT.connect(&pair.hubs[0], 1).await;
    let _right = RIGHT.connect(&pair.hubs[1], 1).await;
    pair.peer.initialize(&pair.front, json!({ "elicitation": {} })).await;
    let mut questions = Vec::new();
    for (id, tool) in [("l", "left__ask"), ("r", "right__ask")] {
        pair.peer.request(&pair.front, json!(id), "tools/call", json!({ "name": tool }));
        questions.push((id, pair.peer.next().await));
    }
    for (id, question) in questions.iter().rev() {
        assert_eq!(question["method"], "elicitation/create");
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "for": id } });
        pair.peer.say(&pair.front, &answer);
        let result = pair.peer.next().await;
        assert_eq!((&result["id"], &result["result"]), (&json!(id), &json!({ "for": id })));
    }
}

#[tokio::test]
async fn whatever_a_server_asks_gets_its_answer_or_its_error_and_may_be_taken_back() {
    let mut pair = Pair::new();
    let mut left = LEFT.connect(&pair.hubs[0], 1).await;
    let _right = RIGHT.connect(&pair.hubs[1], 1).await;
    let all = json!({ "elicitation": {}, "sampling": {}, "roots": { "listChanged": true } });
    pair.peer.initialize(&pair.front, all).await;
    pair.ask("tools/list", json!({})).await;
    for method in ["elicitation/create", "sampling/createMessage", "roots/list", "x/unknown"] {
        let params = json!({ "name": "left__ask", "method": method });
        pair.peer.request(&pair.front, json!(method), "tools/call", params);
        let question = pair.peer.next().await;
        assert_eq!(question["method"], method);
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "to": method } });
        pair.peer.say(&pair.front, &answer);
        let result = pair.peer.next().await;
        assert_eq!((&result["id"], &result["result"]["to"]), (&json!(method), &json!(method)));
    }
    // What the server takes back is taken back under the id that the client knows.
    pair.peer.request(&pair.front, json!(5), "tools/call", json!({ "name": "withdraw" }));
    let (question, withdrawn) = (pair.peer.next().await, pair.peer.next().await);
    assert_eq!(question["method"], "roots/list");
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"], json!({ "requestId": question["id"], "reason": "no need" }));
    assert_eq!(pair.peer.next().await["id"], 5);
    // What the client tells reaches every server.
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
    pair.peer.say(&pair.front, &told);
    loop {
        let heard = tokio::time::timeout(BOUND, left.recv()).await.expect("in time");
        if heard.expect("alive")["method"] == told["method"] {
            break;
        }
    }
}

#[tokio::test]
async fn a_cancel_reaches_the_server_that_has_the_call_and_notifications_pass() {
    let mut pair = Pair::new();
    let mut left = LEFT.connect(&pair.hubs[0], 1).await;
    let _right = RIGHT.connect(&pair.hubs[1], 1).await;
    pair.peer.initialize(&pair.front, json!({})).await;
    pair.ask("tools/list", json!({})).await;
    pair.peer.request(&pair.front, json!(9), "tools/call", json!({ "name": "hang" }));
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 9 } });
    pair.peer.say(&pair.front, &cancel);
    assert_eq!(pair.peer.next().await["id"], 9);
    let (mut call, mut cancelled) = (Value::Null, Value::Null);
    while cancelled.is_null() {
        let message =
            tokio::time::timeout(BOUND, left.recv()).await.expect("in time").expect("alive");
        match message["method"].as_str() {
            Some("tools/call") => call = message["id"].clone(),
            Some("notifications/cancelled") => cancelled = message["params"]["requestId"].clone(),
            _ => {}
        }
    }
    assert_eq!(call, cancelled);
    let mut before = Vec::new();
    pair.peer.ask(&pair.front, "tools/call", json!({ "name": "news" }), &mut before).await;
    assert_eq!(before[0]["params"], json!({ "from": "right" }));
}

#[tokio::test]
async fn the_quick_ones_are_there_at_once_and_the_late_one_is_announced() {
    let mut pair = Pair::new();
    let _left = LEFT.connect(&pair.hubs[0], 1).await;
    let begun = tokio::time::Instant::now();
    pair.peer.initialize(&pair.front, json!({})).await;
    let list = pair.ask("tools/list", json!({})).await;
    assert_eq!(names(&list, "tools", "name"), ["echo", "ask", "hang", "only_left"]);
    assert!(begun.elapsed() < Duration::from_secs(2), "an agent waits no longer");
    let _right = RIGHT.connect(&pair.hubs[1], 1).await;
    while pair.peer.next().await["method"] != "notifications/tools/list_changed" {}
    // Both have it now; who was listed it by its own name means the one that was there then.
    let call = pair.ask("tools/call", json!({ "name": "echo" })).await;
    assert_eq!(call["result"]["by"], "left", "{call}");
    let list = pair.ask("tools/list", json!({})).await;
    assert_eq!(names(&list, "tools", "name").len(), 8);
    let call = pair.ask("tools/call", json!({ "name": "right__echo" })).await;
    assert_eq!(call["result"]["by"], "right");
    let call = pair.ask("tools/call", json!({ "name": "echo" })).await;
    assert_eq!(call["result"]["by"], "left");
    // One that goes for good keeps its place in the list and says at a call what is wrong.
    pair.hubs[1].announce_down("exited with code 1", false);
    let list = pair.ask("tools/list", json!({})).await;
    assert_eq!(names(&list, "tools", "name").len(), 8);
    let call = pair.ask("tools/call", json!({ "name": "news" })).await;
    assert_eq!(call["error"]["data"]["reason"], "exited with code 1");
}

#[tokio::test]
async fn a_cancel_that_comes_before_it_is_known_whose_the_call_is_ends_the_call() {
    let mut pair = Pair::new();
    pair.peer.initialize(&pair.front, json!({})).await;
    // Nothing is known of either yet, so the call waits.
    pair.peer.request(&pair.front, json!(9), "tools/call", json!({ "name": "hang" }));
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 9 } });
    pair.peer.say(&pair.front, &cancel);
    let mut left = LEFT.connect(&pair.hubs[0], 1).await;
    let _right = RIGHT.connect(&pair.hubs[1], 1).await;
    while !pair.peer.gate.running().is_empty() {
        tokio::task::yield_now().await;
    }
    // It is over without an answer, and its id may be used again.
    let mut before = Vec::new();
    pair.peer.request(&pair.front, json!(9), "tools/call", json!({ "name": "only_left" }));
    loop {
        let message = pair.peer.next().await;
        if message["id"] == 9 {
            assert_eq!(message["result"]["by"], "left");
            break;
        }
        before.push(message);
    }
    assert!(before.iter().all(|message| message["method"].is_string()), "{before:?}");
    while let Ok(message) = left.try_recv() {
        assert_ne!(message["params"]["name"], "hang", "it was cancelled before");
    }
}

#[tokio::test]
async fn a_call_waits_for_the_server_that_may_have_it_and_not_for_one_that_never_comes() {
    let mut pair = Pair::new();
    let _left = LEFT.connect(&pair.hubs[0], 1).await;
    pair.peer.initialize(&pair.front, json!({})).await;
    pair.peer.request(&pair.front, json!(5), "tools/call", json!({ "name": "news" }));
    let _right = RIGHT.connect(&pair.hubs[1], 1).await;
    let answer = loop {
        let message = pair.peer.next().await;
        if message["id"] == 5 {
            break message;
        }
    };
    assert_eq!(answer["result"], "right");

    let mut pair = Pair::new();
    let _left = LEFT.connect(&pair.hubs[0], 1).await;
    pair.peer.initialize(&pair.front, json!({})).await;
    pair.peer.request(&pair.front, json!(6), "tools/call", json!({ "name": "news" }));
    pair.hubs[1].announce_down("cannot be started", false);
    let answer = pair.peer.next().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(6), &json!(-32602)));
}

/// A client of revision 2026-07-28: what the servers are together, the lists, calls, and news by
/// subscription alone.
#[tokio::test]
async fn a_client_of_2026_07_28_is_answered_in_its_own_way() {
    let mut pair = Pair::new();
    let _left = LEFT.connect(&pair.hubs[0], 1).await;
    let _right = RIGHT.connect(&pair.hubs[1], 1).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let with = |mut params: Value| {
        params["_meta"] = meta.clone();
        params
    };
    let discover = pair.ask("server/discover", with(json!({}))).await;
    let result = &discover["result"];
    assert_eq!(result["supportedVersions"][0], "2026-07-28", "{discover}");
    assert_eq!((&result["resultType"], &result["ttlMs"]), (&json!("complete"), &json!(0)));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "gantry");
    assert_eq!(result["capabilities"]["tools"]["listChanged"], true);
    let list = pair.ask("tools/list", with(json!({}))).await;
    assert!(names(&list, "tools", "name").contains(&"right__echo"), "{list}");
    assert_eq!(list["result"]["cacheScope"], "private", "{list}");
    let call = pair.ask("tools/call", with(json!({ "name": "right__echo" }))).await;
    assert_eq!(call["result"]["by"], "right", "{call}");
    assert_eq!(call["result"]["resultType"], "complete", "{call}");
    for (method, params, code) in [
        ("ping", with(json!({})), -32601),
        ("x/unknown", with(json!({})), -32601),
        ("tools/call", with(json!({ "name": "nowhere" })), -32602),
        (
            "tools/list",
            json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2099-01-01" } }),
            -32022,
        ),
        ("subscriptions/listen", with(json!({})), -32602),
    ] {
        assert_eq!(pair.ask(method, params).await["error"]["code"], code, "{method}");
    }

    let wanted = json!({ "toolsListChanged": true, "resourceSubscriptions": ["r:left"] });
    let params = with(json!({ "notifications": wanted }));
    pair.peer.request(&pair.front, json!("l"), "subscriptions/listen", params);
    let acknowledged = pair.peer.next().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], wanted);
    // It is no call that an end would wait for.
    assert_eq!(pair.peer.gate.running(), [""; 0]);
    // News of a server that nobody asked for are not heard; what was asked for bears its id.
    let news = pair.ask("tools/call", with(json!({ "name": "news" }))).await;
    assert_eq!(news["result"], "right", "{news}");
    pair.hubs[0].set_filter(ToolFilter { allow: vec![], deny: vec!["hang".into()] });
    let changed = pair.peer.next().await;
    assert_eq!(changed["method"], "notifications/tools/list_changed", "{changed}");
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
    let list = pair.ask("tools/list", with(json!({}))).await;
    assert!(!names(&list, "tools", "name").contains(&"hang"), "an old list: {list}");
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
                            "params": { "requestId": "l" } });
    pair.peer.say(&pair.front, &cancelled);
    pair.hubs[0].set_filter(ToolFilter::default());
    // Nothing comes between this and its answer.
    let mut before = Vec::new();
    pair.peer.ask(&pair.front, "server/discover", with(json!({})), &mut before).await;
    assert_eq!(before, Vec::<Value>::new());
}
