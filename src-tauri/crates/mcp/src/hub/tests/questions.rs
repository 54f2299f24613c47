//! What a server asks: whom it reaches, and what comes back.

use super::*;

fn all() -> Value {
    json!({ "roots": {}, "sampling": {}, "elicitation": {} })
}

async fn ask(server: &mut Server, id: Value, method: &str) {
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": { "x": 1 } });
    server.say(&message.to_string()).await;
}

#[tokio::test]
async fn the_client_whose_call_runs_is_asked_and_its_answer_comes_back_under_the_servers_id() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut busy = Peer::ready(&hub, "busy", all()).await;
    let mut idle = Peer::ready(&hub, "idle", all()).await;
    busy.request(json!("call"), "tools/call", json!({ "name": "a" }));
    server.expect("tools/call").await;
    for id in [json!("s-1"), json!(0)] {
        ask(&mut server, id.clone(), "elicitation/create").await;
        let question = busy.next_raw().await;
        assert_eq!(question.concerning.as_deref(), Some("\"call\""));
        let question: Value = serde_json::from_slice(&question.line).expect("JSON");
        assert_eq!(question["params"], json!({ "x": 1 }));
        let ours = &question["id"];
        // Another client cannot answer in its place.
        idle.say(&format!(r#"{{"jsonrpc":"2.0","id":{ours},"result":"forged"}}"#));
        busy.say(&format!(r#"{{"jsonrpc":"2.0","id":{ours},"result":{{"action":"accept"}}}}"#));
        // A second answer finds nothing to answer.
        busy.say(&format!(r#"{{"jsonrpc":"2.0","id":{ours},"result":"twice"}}"#));
        let answer = server.next().await;
        assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": id, "result": { "action": "accept" } }));
    }
    assert!(idle.is_quiet());
    assert_eq!(left_behind(&hub)[3], 0);
}

#[tokio::test]
async fn who_is_asked_by_what_runs_and_what_they_can() {
    // Per case: clients (can it answer, how many calls it has running), and who is asked.
    type Case<'a> = (&'a str, &'a [(bool, usize)], Option<usize>);
    let cases: [Case<'_>; 7] = [
        ("nobody there", &[], None),
        ("one call of one that cannot", &[(false, 1), (true, 0)], None),
        ("one call of one that can", &[(true, 1), (true, 0)], Some(0)),
        ("several calls: the newest", &[(true, 1), (true, 1)], Some(1)),
        ("several calls: the newest that can", &[(true, 2), (false, 1)], Some(0)),
        ("no call: one that can", &[(true, 0), (false, 0)], Some(0)),
        ("no call: nobody can", &[(false, 0), (false, 0)], None),
    ];
    for (case, clients, expected) in cases {
        let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
        let mut peers = Vec::new();
        for (able, calls) in clients {
            let peer = Peer::ready(&hub, "p", if *able { all() } else { json!({}) }).await;
            for id in 0..*calls {
                peer.request(json!(id), "tools/call", json!({ "name": "a" }));
                server.expect("tools/call").await;
            }
            peers.push(peer);
        }
        ask(&mut server, json!(5), "sampling/createMessage").await;
        match expected {
            Some(index) => assert_eq!(peers[index].next().await["params"]["x"], 1, "{case}"),
            None => assert_eq!(server.next().await["error"]["code"], -32601, "{case}"),
        }
        for (index, peer) in peers.iter_mut().enumerate() {
            assert!(peer.is_quiet(), "{case}: client {index} was asked too");
        }
    }
}

#[tokio::test]
async fn with_several_calls_the_owner_of_the_progress_token_is_asked() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut first = Peer::ready(&hub, "first", all()).await;
    let mut second = Peer::ready(&hub, "second", all()).await;
    let params = json!({ "name": "a", "_meta": { "progressToken": 1 } });
    first.request(json!(1), "tools/call", params.clone());
    let call = server.expect("tools/call").await;
    second.request(json!(1), "tools/call", params);
    server.expect("tools/call").await;
    let token = &call["params"]["_meta"]["progressToken"];
    server.say(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{{"_meta":{{"progressToken":{token}}}}}}}"#)).await;
    assert_eq!(first.next().await["method"], "roots/list");
    assert!(second.is_quiet());
}

#[tokio::test]
async fn a_ping_of_the_server_is_answered_here() {
    let (_hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    ask(&mut server, json!("p"), "ping").await;
    assert_eq!(server.next().await, json!({ "jsonrpc": "2.0", "id": "p", "result": {} }));
}

#[tokio::test]
async fn a_question_that_the_server_takes_back_is_cancelled_at_the_client() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::ready(&hub, "p", all()).await;
    ask(&mut server, json!("q"), "roots/list").await;
    let question = peer.next().await;
    server
        .say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}"#)
        .await;
    let cancel = peer.next().await;
    assert_eq!(cancel["params"]["requestId"], question["id"]);
    assert_eq!(left_behind(&hub)[3], 0);
}

#[tokio::test]
async fn a_client_that_goes_leaves_no_question_open_and_its_calls_are_cancelled() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::ready(&hub, "p", all()).await;
    peer.request(json!(1), "tools/call", json!({ "name": "a" }));
    let call = server.expect("tools/call").await;
    ask(&mut server, json!("q"), "elicitation/create").await;
    peer.next().await;
    drop(peer);
    let cancel = server.expect("notifications/cancelled").await;
    assert_eq!(cancel["params"]["requestId"], call["id"]);
    let answer = server.next().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("q"), &json!(-32603)));
    assert_eq!(left_behind(&hub), [0; 6]);
}

#[tokio::test]
async fn roots_that_were_asked_too_early_are_asked_again_when_somebody_has_them() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    ask(&mut server, json!(1), "roots/list").await;
    assert_eq!(server.next().await["error"]["code"], -32601);
    let _without = Peer::ready(&hub, "without", json!({})).await;
    let mut peer = Peer::ready(&hub, "with", all()).await;
    server.expect("notifications/roots/list_changed").await;
    ask(&mut server, json!(2), "roots/list").await;
    assert_eq!(peer.next().await["method"], "roots/list");
}

#[tokio::test]
async fn an_answer_for_a_process_that_died_does_not_reach_the_next_one() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::ready(&hub, "p", all()).await;
    ask(&mut server, json!(1), "roots/list").await;
    let question = peer.next().await;
    drop(server);
    let cancel = peer.next().await;
    assert_eq!(cancel["method"], "notifications/cancelled");
    let (mut server, _connection) = connect(&hub, 2, &["a"]).await;
    peer.say(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":"late"}}"#, question["id"]));
    peer.request(json!(9), "x/marker", json!({}));
    server.expect("x/marker").await;
}

/// Whose roots changed is asked for them, not who happens to be there.
#[tokio::test]
async fn roots_are_asked_of_the_client_that_announced_them() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["t"]).await;
    let can = json!({ "roots": { "listChanged": true } });
    let mut first = Peer::ready(&hub, "first", can.clone()).await;
    let mut second = Peer::ready(&hub, "second", can).await;
    let ask = r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#;
    first.say(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    server.expect("notifications/roots/list_changed").await;
    server.say(ask).await;
    assert_eq!(first.next().await["method"], "roots/list");
    // Once: the next question is anybody's again.
    server.say(ask).await;
    assert_eq!(second.next().await["method"], "roots/list");
    assert!(first.is_quiet());
}
