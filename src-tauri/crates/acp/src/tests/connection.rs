//! The connection and its end.

use super::*;

#[tokio::test]
async fn an_agent_that_dies_ends_its_turn_and_the_connection() {
    let (mut client, mut agent) = initialized(Limits::default()).await;
    let ended = client.prompt();
    agent.expect("session/prompt").await;
    agent.update(chunk("last words")).await;
    drop(agent);
    let FromAgent::Update { update, .. } = client.next().await else { panic!() };
    assert_eq!(update, chunk("last words"), "what it wrote before is still delivered");
    assert_eq!(client.until(ended).await.unwrap_err(), PeerError::Lost);
    joined(std::mem::take(&mut client.driver)).await.unwrap();
    assert!(client.queue.recv().await.is_none(), "the queue ends with the connection");
    assert!(!client.peer.is_connected());
    assert_eq!(client.peer.call("session/new", json!({})).await.unwrap_err(), PeerError::Lost);
}

#[tokio::test]
async fn an_agent_that_stops_reading_does_not_hold_the_caller() {
    let (client, agent) = initialized(Limits::default()).await;
    let large = json!({"type": "text", "text": "x".repeat(1024 * 1024)});
    let written = client.peer.prompt("s1", &[large], |_| {}).unwrap();
    let mut written = Box::pin(written.wait());
    let waited = timeout(Duration::from_millis(50), &mut written).await;
    assert!(waited.is_err(), "a prompt that does not fit in the pipe was not written");
    drop(agent);
    let ended = timeout(SOON, written).await.expect("waits for a connection that has ended");
    assert_eq!(ended, Err(PeerError::Lost));
}

#[tokio::test]
async fn a_request_in_the_instant_of_the_end_is_not_left_waiting() {
    for _ in 0..200 {
        let (client, agent) = initialized(Limits::default()).await;
        let peer = client.peer.clone();
        let asking = task(async move {
            loop {
                let (sender, receiver) = oneshot::channel();
                let sent = peer.prompt("s1", &[], move |result| {
                    let _ = sender.send(result);
                });
                let Ok(written) = sent else { return };
                if written.wait().await.is_err() {
                    // Dropped or failed, but never left.
                    let _ = receiver.await;
                    return;
                }
                tokio::task::yield_now().await;
            }
        });
        let Client { mut queue, .. } = client;
        let drain = async {
            while let Some(message) = queue.recv().await {
                if let FromAgent::Answer(answer) = message {
                    answer.deliver();
                }
            }
        };
        tokio::task::yield_now().await;
        drop(agent);
        timeout(SOON, drain).await.expect("the queue ends");
        // None was left waiting.
        joined(asking).await;
    }
}

#[tokio::test]
async fn an_agent_of_another_version_is_refused() {
    let (mut client, mut agent) = pair(Limits::default(), Offers::default());
    let (sender, receiver) = oneshot::channel();
    let peer = client.peer.clone();
    let _initializing = task(async move {
        let info = ClientInfo { name: "test", title: "Test", version: "0" };
        let _ = sender.send(peer.initialize(info).await);
    });
    let request = agent.expect("initialize").await;
    agent.answer(&request, json!({"protocolVersion": 99})).await;
    assert!(client.until(receiver).await.is_err());
}

#[tokio::test]
async fn the_tap_sees_every_line_both_ways() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(ours);
    let seen: std::sync::Arc<std::sync::Mutex<Vec<(Direction, String)>>> = Default::default();
    let log = seen.clone();
    let tap: Tap =
        std::sync::Arc::new(move |way, line| log.lock().unwrap().push((way, line.to_owned())));
    let (peer, _queue, driver) =
        connect(reader, writer, Limits::default(), Offers::default(), Some(tap));
    let driver = task(driver);
    let (input, mut output) = tokio::io::split(theirs);
    let _asked = task(async move {
        peer.initialize(ClientInfo { name: "n", title: "t", version: "1" }).await
    });
    let mut lines = BufReader::new(input).lines();
    let line = timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
    let id = serde_json::from_str::<Value>(&line).unwrap()["id"].clone();
    let answer = json!({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "no"}});
    output.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
    drop((output, lines));
    joined(driver).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0], (Direction::ToAgent, line));
    assert_eq!(seen[1], (Direction::FromAgent, answer.to_string()));
}
