//! Which message goes over which connection.

use super::*;

#[tokio::test]
async fn a_response_alone_is_json_and_one_with_progress_a_stream() {
    let site = Site::open().await;
    let session = site.begin("main").await;
    let answer = site.ask(&session, json!("a"), "x/echo", json!({ "v": [1.5, null] })).await;
    assert_eq!((answer.status, answer.kind.as_str()), (200, "application/json"));
    assert_eq!(
        answer.json(),
        json!({ "jsonrpc": "2.0", "id": "a", "result": { "v": [1.5, null] } })
    );
    for method in ["x/progress", "x/large"] {
        let answer = site
            .ask(&session, json!(7), method, json!({ "_meta": { "progressToken": "t" } }))
            .await;
        assert_eq!((answer.status, answer.kind.as_str()), (200, "text/event-stream"));
        let events = answer.events();
        assert_eq!(events.len(), 2);
        assert_eq!(events[0]["params"]["progressToken"], "t");
        assert_eq!(events[1]["id"], 7);
    }
}

#[tokio::test]
async fn notifications_and_answers_are_accepted_and_a_question_travels_on_the_stream_of_its_call() {
    let site = Site::open().await;
    let session = site.begin("main").await;
    let other = site.begin("main").await;
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let answer = site.answer(site.post(&session, &initialized)).await;
    assert_eq!((answer.status, answer.body.len()), (202, 0));
    let call = json!({ "jsonrpc": "2.0", "id": 5, "method": "x/ask", "params": {} });
    let response = site.send(site.post(&session, &call)).await;
    let mut stream = Stream { body: response.into_body(), text: String::new() };
    let question = stream.next().await.expect("a question");
    assert_eq!(question["method"], "elicitation/create");
    let answered =
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept" } });
    // Somebody else's session cannot answer it.
    assert_eq!(site.answer(site.post(&other, &answered)).await.status, 202);
    assert_eq!(site.answer(site.post(&session, &answered)).await.status, 202);
    let result = stream.next().await.expect("the result");
    assert_eq!(result, json!({ "jsonrpc": "2.0", "id": 5, "result": { "action": "accept" } }));
    assert_eq!(stream.next().await, None, "the response ends the stream");
}

#[tokio::test]
async fn general_messages_go_to_exactly_one_stream_and_wait_for_one() {
    let site = Site::open().await;
    let session = site.begin("main").await;
    let other = site.begin("main").await;
    // Nobody listens: kept.
    site.ask(&session, json!(1), "x/news", json!({ "n": 3 })).await;
    let mut first = site.listen(&session).await;
    for n in 0..3 {
        assert_eq!(first.next().await.expect("kept")["params"]["n"], n);
    }
    let mut second = site.listen(&session).await;
    site.ask(&session, json!(2), "x/news", json!({ "n": 5 })).await;
    for n in 0..5 {
        assert_eq!(second.next().await.expect("news")["params"]["n"], n);
    }
    // The newer one goes: the older one gets what comes, and had none of the others.
    drop(second);
    let mut round = 3;
    let mut seen = Value::Null;
    while seen.is_null() {
        site.ask(&session, json!(round), "x/news", json!({ "n": 1 })).await;
        round += 1;
        // A message written to a connection that is just closing is lost; another comes.
        if let Ok(next) = tokio::time::timeout(Duration::from_millis(200), first.next()).await {
            seen = next.expect("open");
        }
        assert!(round < 50, "the older stream gets nothing");
    }
    assert_eq!(seen["params"]["n"], 0);
    let mut others = site.listen(&other).await;
    assert_eq!(others.next().await.expect("its own copy")["params"]["n"], 0);
}

#[tokio::test]
async fn a_disconnect_does_not_cancel_and_a_cancel_ends_the_request() {
    let mut site = Site::open().await;
    let session = site.begin("main").await;
    let call = json!({ "jsonrpc": "2.0", "id": 5, "method": "x/hang", "params": {} });
    let request = site.http.request(site.post(&session, &call));
    tokio::select! {
        _ = request => panic!("it hangs"),
        _ = site.saw("x/hang") => {}
    }
    // The connection was dropped by that; the call goes on, so its id is in use.
    let again = site.ask(&session, json!(5), "x/echo", json!({})).await;
    assert_eq!(again.json()["error"]["code"], -32600);
    assert_eq!(site.sessions.working(), 1);
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 } });
    assert_eq!(site.answer(site.post(&session, &cancel)).await.status, 202);
    site.saw("notifications/cancelled").await;
    assert_eq!(site.sessions.working(), 0);
    assert_eq!(site.ask(&session, json!(5), "x/echo", json!({})).await.status, 200);
}

#[tokio::test]
async fn a_batch_gets_every_answer_on_one_stream() {
    let site = Site::open().await;
    let session = site.begin("main").await;
    let request =
        |id: u8| json!({ "jsonrpc": "2.0", "id": id, "method": "x/echo", "params": { "id": id } });
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/x" });
    let answer =
        site.answer(site.post(&session, &json!([request(1), note, request(2), request(1)]))).await;
    let mut events = answer.events();
    events.sort_by_key(|event| (event["id"].as_u64(), event["error"].is_object()));
    assert_eq!(events.len(), 3);
    assert_eq!(events[0]["result"], json!({ "id": 1 }));
    assert_eq!(events[1]["error"]["code"], -32600);
    assert_eq!(events[2]["result"], json!({ "id": 2 }));
    assert_eq!(site.answer(site.post(&session, &json!([note, note]))).await.status, 202);
    let many = site.answer(site.post(&session, &json!(vec![&note; 1025]))).await;
    assert_eq!(many.status, 400);
    assert!(many.json()["error"]["message"].as_str().expect("text").contains("1024"));
}
