//! A scripted agent at the other end of a pipe.
#![allow(clippy::disallowed_methods, reason = "tests start their own tasks")]

use crate::*;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};

const SOON: Duration = Duration::from_secs(20);

/// The agent's end.
struct Agent {
    input: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
}

impl Agent {
    async fn read(&mut self) -> Value {
        let line = timeout(SOON, self.input.next_line()).await.unwrap().unwrap();
        serde_json::from_str(&line.expect("the client closed")).unwrap()
    }

    async fn expect(&mut self, method: &str) -> Value {
        let message = self.read().await;
        assert_eq!(message["method"], method);
        message
    }

    async fn raw(&mut self, text: &str) {
        self.output.write_all(text.as_bytes()).await.unwrap();
    }

    async fn send(&mut self, message: Value) {
        self.raw(&format!("{message}\n")).await;
    }

    async fn answer(&mut self, request: &Value, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    async fn update(&mut self, update: Value) {
        self.send(json!({
            "jsonrpc": "2.0", "method": "session/update",
            "params": {"sessionId": "s1", "update": update},
        }))
        .await;
    }

    async fn initialize(&mut self) {
        let request = self.expect("initialize").await;
        assert_eq!(request["params"]["protocolVersion"], 1);
        self.answer(
            &request,
            json!({"protocolVersion": 1, "agentCapabilities": {"mcpCapabilities": {"http": true}}}),
        )
        .await;
    }
}

struct Client {
    peer: Peer,
    queue: mpsc::Receiver<FromAgent>,
    driver: JoinHandle<Result<(), Disconnected>>,
}

impl Client {
    async fn next(&mut self) -> FromAgent {
        timeout(SOON, self.queue.recv()).await.unwrap().expect("the queue ended")
    }

    /// Drains the queue until `wanted` is answered.
    async fn until<T>(&mut self, mut wanted: oneshot::Receiver<T>) -> T {
        timeout(SOON, async {
            loop {
                tokio::select! {
                    answer = &mut wanted => return answer.expect("dropped without an answer"),
                    Some(FromAgent::Answer(answer)) = self.queue.recv() => answer.deliver(),
                }
            }
        })
        .await
        .unwrap()
    }

    fn prompt(&self) -> oneshot::Receiver<Result<Value, PeerError>> {
        let (sender, receiver) = oneshot::channel();
        self.peer
            .prompt("s1", &[json!({"type": "text", "text": "hi"})], move |result| {
                let _ = sender.send(result);
            })
            .unwrap();
        receiver
    }
}

fn pair(limits: Limits) -> (Client, Agent) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(ours);
    let (peer, queue, driver) = connect(reader, writer, limits, None);
    let (input, output) = tokio::io::split(theirs);
    let agent = Agent { input: BufReader::new(input).lines(), output };
    (Client { peer, queue, driver: tokio::spawn(driver) }, agent)
}

async fn initialized(limits: Limits) -> (Client, Agent) {
    let (mut client, mut agent) = pair(limits);
    let (sender, receiver) = oneshot::channel();
    let peer = client.peer.clone();
    tokio::spawn(async move {
        let info = ClientInfo { name: "test", title: "Test", version: "0" };
        let _ = sender.send(peer.initialize(info).await);
    });
    agent.initialize().await;
    let facts = client.until(receiver).await.unwrap();
    assert!(facts.http && !facts.load);
    (client, agent)
}

fn chunk(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
}

#[tokio::test]
async fn unknown_updates_and_unknown_fields_are_kept_in_order() {
    let (mut client, mut agent) = initialized(Limits::default()).await;
    let odd = json!({"sessionUpdate": "hologram", "z": 1, "a": {"deep": [1, null, "x"]}});
    agent.update(chunk("one")).await;
    agent.update(odd.clone()).await;
    let FromAgent::Update { session, update } = client.next().await else { panic!() };
    assert_eq!((session.as_str(), update), ("s1", chunk("one")));
    let FromAgent::Update { update, .. } = client.next().await else { panic!() };
    assert_eq!(update.to_string(), odd.to_string(), "fields keep their order");
}

#[tokio::test]
async fn updates_come_before_the_end_of_their_turn() {
    let (mut client, mut agent) = initialized(Limits { queue: 4, ..Limits::default() }).await;
    for _round in 0..20 {
        let mut ended = client.prompt();
        let request = agent.expect("session/prompt").await;
        for n in 0..10 {
            agent.update(chunk(&n.to_string())).await;
        }
        agent.answer(&request, json!({"stopReason": "end_turn"})).await;
        for n in 0..10 {
            let FromAgent::Update { update, .. } = client.next().await else {
                panic!("update {n} came after the end")
            };
            assert_eq!(update, chunk(&n.to_string()));
            assert!(ended.try_recv().is_err());
        }
        assert_eq!(client.until(ended).await.unwrap()["stopReason"], "end_turn");
    }
}

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
async fn noise_on_the_output_is_skipped_and_remembered() {
    let (mut client, mut agent) = initialized(Limits { line: 4096, ..Limits::default() }).await;
    agent.raw("Debugger listening\n\n{ a: 1 }\n[1,2]\n17\n\u{feff}\n").await;
    agent.raw(&format!("{{\"x\":\"{}\"}}\n", "y".repeat(5000))).await;
    agent.update(chunk("after")).await;
    let FromAgent::Update { update, .. } = client.next().await else { panic!() };
    assert_eq!(update, chunk("after"));
    let noise = client.peer.noise();
    assert_eq!(noise[0], "Debugger listening");
    assert!(noise.iter().any(|line| line.starts_with("{\"x\":\"yyy") && line.len() <= 300));
    // None of it was answered.
    client.peer.cancel("s1").unwrap();
    agent.expect("session/cancel").await;
}

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
    timeout(SOON, &mut client.driver).await.unwrap().unwrap().unwrap();
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
        let asking = tokio::spawn(async move {
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
        timeout(SOON, asking).await.expect("a request was left waiting").unwrap();
    }
}

#[tokio::test]
async fn an_agent_of_another_version_is_refused() {
    let (mut client, mut agent) = pair(Limits::default());
    let (sender, receiver) = oneshot::channel();
    let peer = client.peer.clone();
    tokio::spawn(async move {
        let info = ClientInfo { name: "test", title: "Test", version: "0" };
        let _ = sender.send(peer.initialize(info).await);
    });
    let request = agent.expect("initialize").await;
    agent.answer(&request, json!({"protocolVersion": 99})).await;
    assert!(client.until(receiver).await.is_err());
}

#[tokio::test]
async fn twenty_thousand_updates_wait_in_the_pipe_not_in_memory() {
    const COUNT: usize = 20_000;
    let (mut client, mut agent) = initialized(Limits { queue: 16, ..Limits::default() }).await;
    let ended = client.prompt();
    let request = agent.expect("session/prompt").await;
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = sent.clone();
    let writer = tokio::spawn(async move {
        for n in 0..COUNT {
            agent.update(chunk(&n.to_string())).await;
            counter.store(n + 1, std::sync::atomic::Ordering::Relaxed);
        }
        agent.answer(&request, json!({"stopReason": "end_turn"})).await;
        agent
    });
    let mut received = 0;
    while received < COUNT {
        let FromAgent::Update { update, .. } = client.next().await else {
            panic!("the end came after {received} updates")
        };
        assert_eq!(update, chunk(&received.to_string()));
        received += 1;
        if received % 1000 == 0 {
            // Let the agent write as far ahead as it can.
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            let ahead = sent.load(std::sync::atomic::Ordering::Relaxed).saturating_sub(received);
            // 64 KiB of pipe each way of about 140 bytes a line, the read buffer, the queue.
            assert!(ahead < 2500, "{ahead} updates are on their way");
        }
    }
    assert_eq!(client.until(ended).await.unwrap()["stopReason"], "end_turn");
    drop(writer.await.unwrap());
}

#[tokio::test]
async fn settings_sign_in_and_lists_are_asked_for_as_the_protocol_says() {
    let (mut client, mut agent) = initialized(Limits::default()).await;
    let peer = client.peer.clone();
    let asked = tokio::spawn(async move {
        peer.set_mode("s1", "plan").await?;
        peer.set_model("s1", "big").await?;
        let options = peer.set_option("s1", "effort", &json!("high")).await?;
        peer.set_option("s1", "fast", &json!(true)).await?;
        peer.authenticate("key").await?;
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
    let (options, listed) = asked.await.unwrap().unwrap();
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
async fn the_tap_sees_every_line_both_ways() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(ours);
    let seen: std::sync::Arc<std::sync::Mutex<Vec<(Direction, String)>>> = Default::default();
    let log = seen.clone();
    let tap: Tap =
        std::sync::Arc::new(move |way, line| log.lock().unwrap().push((way, line.to_owned())));
    let (peer, _queue, driver) = connect(reader, writer, Limits::default(), Some(tap));
    let driver = tokio::spawn(driver);
    let (input, mut output) = tokio::io::split(theirs);
    let asked = tokio::spawn(async move {
        peer.initialize(ClientInfo { name: "n", title: "t", version: "1" }).await
    });
    let mut lines = BufReader::new(input).lines();
    let line = timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
    let id = serde_json::from_str::<Value>(&line).unwrap()["id"].clone();
    let answer = json!({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "no"}});
    output.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
    drop((output, lines));
    timeout(SOON, driver).await.unwrap().unwrap().unwrap();
    asked.abort();
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0], (Direction::ToAgent, line));
    assert_eq!(seen[1], (Direction::FromAgent, answer.to_string()));
}
