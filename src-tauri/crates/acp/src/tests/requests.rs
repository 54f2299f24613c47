//! Requests, both ways.

use super::*;

#[tokio::test]
async fn a_request_says_when_it_was_written() {
    let (client, mut agent) = initialized(Limits::default()).await;
    let written = client.peer.prompt("s1", &[], |_| {}).unwrap();
    timeout(SOON, written.wait()).await.unwrap().unwrap();
    agent.expect("session/prompt").await;
}

#[tokio::test]
async fn a_permission_request_is_answered_once_and_dropping_it_cancels() {
    let (mut client, mut agent) = initialized(Limits::default()).await;
    let ask = |id: u32| {
        json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {
            "sessionId": "s1", "toolCall": {"toolCallId": "t", "new": true},
            "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
        }})
    };
    agent.send(ask(7)).await;
    agent.send(ask(8)).await;
    agent.send(ask(9)).await;
    let FromAgent::Permission(first) = client.next().await else { panic!() };
    let FromAgent::Permission(second) = client.next().await else { panic!() };
    let FromAgent::Permission(third) = client.next().await else { panic!() };
    assert_eq!(first.tool_call["new"], true);
    assert_eq!(first.options[0]["optionId"], "yes");
    drop(second);
    let answer = agent.read().await;
    assert_eq!(answer["id"], 8);
    assert_eq!(answer["result"], json!({"outcome": {"outcome": "cancelled"}}));
    first.select("yes");
    let answer = agent.read().await;
    assert_eq!(answer["id"], 7);
    assert_eq!(answer["result"], json!({"outcome": {"outcome": "selected", "optionId": "yes"}}));
    third.cancel();
    let answer = agent.read().await;
    assert_eq!(answer["id"], 9);
    assert_eq!(answer["result"], json!({"outcome": {"outcome": "cancelled"}}));
    // Exactly three answers: the next thing that we write is a notification.
    client.peer.cancel("s1").unwrap();
    agent.expect("session/cancel").await;
}

#[tokio::test]
async fn other_requests_of_the_agent_are_not_found() {
    let (_client, mut agent) = initialized(Limits::default()).await;
    for method in ["fs/read_text_file", "terminal/create", "x/unknown"] {
        agent.send(json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": {}})).await;
        let answer = agent.read().await;
        assert_eq!(answer["id"], "q");
        assert_eq!(answer["error"]["code"], -32601);
    }
}

#[tokio::test]
async fn an_error_keeps_the_agents_words_code_and_data() {
    let (mut client, mut agent) = initialized(Limits::default()).await;
    let ended = client.prompt();
    let request = agent.expect("session/prompt").await;
    agent
        .send(json!({"jsonrpc": "2.0", "id": request["id"], "error": {
            "code": -32603, "message": "Internal error", "data": {"details": "the key is wrong"},
        }}))
        .await;
    let error = client.until(ended).await.unwrap_err();
    assert_eq!(error.to_string(), "Internal error: the key is wrong");
    let PeerError::Agent { code, data, .. } = &error else { panic!() };
    assert_eq!((*code, &data.as_ref().unwrap()["details"]), (-32603, &json!("the key is wrong")));
    assert!(!error.wants_sign_in());
}

#[tokio::test]
async fn settings_sign_in_and_lists_are_asked_for_as_the_protocol_says() {
    let (mut client, mut agent) = initialized(Limits::default()).await;
    let peer = client.peer.clone();
    let asked = task(async move {
        peer.set_mode("s1", "plan").await?;
        peer.set_model("s1", "big").await?;
        let options = peer.set_option("s1", "effort", &json!("high")).await?;
        peer.set_option("s1", "fast", &json!(true)).await?;
        peer.authenticate("key", |_| {}).await?;
        peer.log_out().await?;
        let listed = peer.list_sessions(std::path::Path::new("/p"), Some("next")).await?;
        peer.delete_session("s1").await?;
        Ok::<_, PeerError>((options, listed))
    });
    let wanted = [
        ("session/set_mode", json!({"sessionId": "s1", "modeId": "plan"})),
        ("session/set_model", json!({"sessionId": "s1", "modelId": "big"})),
        (
            "session/set_config_option",
            json!({"sessionId": "s1", "configId": "effort", "value": "high"}),
        ),
        (
            "session/set_config_option",
            json!({"sessionId": "s1", "configId": "fast", "value": true, "type": "boolean"}),
        ),
        ("authenticate", json!({"methodId": "key"})),
        ("logout", json!({})),
        ("session/list", json!({"cwd": "/p", "cursor": "next"})),
        ("session/delete", json!({"sessionId": "s1"})),
    ];
    for (method, params) in wanted {
        let request = agent.expect(method).await;
        assert_eq!(request["params"], params, "{method}");
        agent.answer(&request, json!({"configOptions": [method]})).await;
        let FromAgent::Answer(answer) = client.next().await else { panic!() };
        answer.deliver();
    }
    let (options, listed) = joined(asked).await.unwrap();
    assert_eq!(options["configOptions"][0], "session/set_config_option");
    assert_eq!(listed["configOptions"][0], "session/list");
}

#[tokio::test]
async fn requests_are_taken_back_both_ways_and_questions_are_cancelled() {
    let (mut client, mut agent) = initialized(Limits::default()).await;
    let written = client.peer.request("session/prompt", json!({}), |_| {}).unwrap();
    let request = written.request();
    written.wait().await.unwrap();
    let sent = agent.expect("session/prompt").await;
    request.take_back();
    let taken = agent.expect("$/cancel_request").await;
    assert_eq!(taken["params"]["requestId"], sent["id"]);

    agent
        .send(json!({"jsonrpc": "2.0", "id": 71, "method": "session/request_permission",
            "params": {"sessionId": "s1", "toolCall": {}, "options": []}}))
        .await;
    let FromAgent::Permission(ask) = client.next().await else { panic!() };
    agent
        .send(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 71}}))
        .await;
    let FromAgent::Withdrawn { request } = client.next().await else { panic!() };
    assert_eq!(request, ask.request);
    ask.withdraw();
    let answer = agent.read().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(71), &json!(-32800)));

    agent
        .send(json!({"jsonrpc": "2.0", "id": 72, "method": "elicitation/create", "params": {}}))
        .await;
    let answer = agent.read().await;
    assert_eq!((&answer["id"], &answer["result"]["action"]), (&json!(72), &json!("cancel")));
}

#[tokio::test]
async fn what_is_offered_is_told_and_handed_on_and_answered_once() {
    let offers = Offers { read_files: true, terminals: true, questions: true, write_files: false };
    let ((mut client, mut agent), told) = initialized_with(Limits::default(), offers).await;
    assert_eq!(told["fs"], json!({"readTextFile": true, "writeTextFile": false}));
    assert_eq!(
        (&told["terminal"], &told["elicitation"]),
        (&json!(true), &json!({"form": {}, "url": {}}))
    );
    let ask = |id: u32, method: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": method,
               "params": {"sessionId": "s1", "path": "/a", "new": 1}})
    };
    agent.send(ask(1, "fs/write_text_file")).await;
    assert_eq!(agent.read().await["error"]["code"], -32601, "it is not offered");
    for (id, method) in
        [(2, "fs/read_text_file"), (3, "terminal/create"), (4, "elicitation/create")]
    {
        agent.send(ask(id, method)).await;
        let FromAgent::Call(call) = client.next().await else { panic!("{method}") };
        assert_eq!((call.method.as_str(), call.session.as_deref()), (method, Some("s1")));
        assert_eq!((&call.params["new"], &call.request), (&json!(1), &json!(id)));
        match id {
            2 => call.answer(Ok(json!({"content": "x"}))),
            3 => call.answer(Err(CallError::not_found("no such program"))),
            _ => drop(call),
        }
        let answer = agent.read().await;
        assert_eq!(answer["id"], id);
        match id {
            2 => assert_eq!(answer["result"]["content"], "x"),
            3 => assert_eq!(answer["error"]["message"], "no such program"),
            _ => assert_eq!(answer["result"]["action"], "cancel"),
        }
    }
}
