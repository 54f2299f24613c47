//! One server: the client talks to its hub, and the gate counts.

use super::*;
use crate::mcp::front::Straight;

#[tokio::test]
async fn requests_are_counted_from_their_dispatch_until_their_answer_is_queued() {
    let hub = hub("s");
    let script = Script { name: "s", tools: &["echo", "hang"], prompts: &[], resources: &[] };
    let _seen = script.connect(&hub, 1).await;
    let mut peer = Peer::new();
    let front = Straight::new(&hub, peer.output.clone(), peer.gate.clone());
    let initialize = peer.initialize(&front, json!({})).await;
    assert_eq!(initialize["protocolVersion"], "2025-11-25");
    let answer = peer.ask(&front, "tools/call", json!({ "name": "echo" }), &mut vec![]).await;
    assert_eq!(answer["result"], json!({ "by": "s", "asked": { "name": "echo" } }));
    assert_eq!(peer.gate.running(), [""; 0]);
    peer.request(&front, json!(7), "tools/call", json!({ "name": "hang" }));
    assert_eq!(peer.gate.running(), ["tools/call 7"]);
    // Its id is in use; a second one under it is refused and does not free the first.
    peer.request(&front, json!(7), "ping", json!({}));
    assert_eq!(peer.next().await["error"]["code"], -32600);
    assert_eq!(peer.gate.running(), ["tools/call 7"]);
    peer.say(&front, &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } }));
    assert_eq!(peer.gate.running(), [""; 0]);
    // No answer to it is written: the next line is that of the next request.
    peer.request(&front, json!(9), "ping", json!({}));
    assert_eq!(peer.next().await["id"], 9);
    // Once the gate is closed nothing is dispatched.
    peer.gate.close();
    peer.request(&front, json!(8), "tools/call", json!({ "name": "echo" }));
    assert_eq!(peer.next().await["error"]["message"], "shutting down");
}

#[tokio::test]
async fn nonsense_is_answered_and_a_batch_is_taken_apart() {
    let hub = hub("s");
    let script = Script { name: "s", tools: &[], prompts: &[], resources: &[] };
    let _seen = script.connect(&hub, 1).await;
    let mut peer = Peer::new();
    let front = Straight::new(&hub, peer.output.clone(), peer.gate.clone());
    for (line, code) in [("{", -32700), ("{}", -32600), ("[", -32700), ("[1]", -32600)] {
        take_line(&front, &peer.output, Bytes::from_static(line.as_bytes()));
        assert_eq!(peer.next().await["error"]["code"], code, "{line}");
    }
    let ping = |id: u8| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    peer.say(&front, &json!([ping(1), ping(2)]));
    for id in [1, 2] {
        assert_eq!(peer.next().await, json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
    }
}

/// A subscription is open as long as its client likes: our end does not wait for it.
#[tokio::test]
async fn a_subscription_is_no_call_that_runs() {
    let hub = hub("s");
    let script = Script { name: "s", tools: &["echo"], prompts: &[], resources: &[] };
    let _seen = script.connect(&hub, 1).await;
    let mut peer = Peer::new();
    let front = Straight::new(&hub, peer.output.clone(), peer.gate.clone());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "_meta": meta, "notifications": { "toolsListChanged": true } });
    peer.request(&front, json!("l"), "subscriptions/listen", params);
    assert_eq!(peer.next().await["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(peer.gate.running(), [""; 0]);
    // Its id is in use all the same.
    peer.request(&front, json!("l"), "tools/list", json!({}));
    assert_eq!(peer.next().await["error"]["code"], -32600);
}
