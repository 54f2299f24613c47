//! A scripted agent at the other end of a pipe.
mod connection;
mod requests;
mod updates;

use crate::*;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    sync::{mpsc, oneshot},
    task::JoinSet,
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

    async fn initialize(&mut self) -> Value {
        let request = self.expect("initialize").await;
        assert_eq!(request["params"]["protocolVersion"], 1);
        self.answer(
            &request,
            json!({"protocolVersion": 1, "agentCapabilities": {"mcpCapabilities": {"http": true}}}),
        )
        .await;
        request["params"]["clientCapabilities"].clone()
    }
}

struct Client {
    peer: Peer,
    queue: mpsc::Receiver<FromAgent>,
    /// The connection's driver; ends with the test.
    driver: JoinSet<Result<(), Disconnected>>,
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

/// A task that ends with the test.
fn task<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinSet<T> {
    let mut task = JoinSet::new();
    task.spawn(work);
    task
}

async fn joined<T: 'static>(mut task: JoinSet<T>) -> T {
    timeout(SOON, task.join_next()).await.expect("it did not end").unwrap().unwrap()
}

fn pair(limits: Limits, offers: Offers) -> (Client, Agent) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(ours);
    let (peer, queue, driver) = connect(reader, writer, limits, offers, None);
    let (input, output) = tokio::io::split(theirs);
    let agent = Agent { input: BufReader::new(input).lines(), output };
    (Client { peer, queue, driver: task(driver) }, agent)
}

async fn initialized(limits: Limits) -> (Client, Agent) {
    initialized_with(limits, Offers::default()).await.0
}

/// With what the agent was told that we do for it.
async fn initialized_with(limits: Limits, offers: Offers) -> ((Client, Agent), Value) {
    let (mut client, mut agent) = pair(limits, offers);
    let (sender, receiver) = oneshot::channel();
    let peer = client.peer.clone();
    let _initializing = task(async move {
        let info = ClientInfo { name: "test", title: "Test", version: "0" };
        let _ = sender.send(peer.initialize(info).await);
    });
    let told = agent.initialize().await;
    let facts = client.until(receiver).await.unwrap();
    assert!(facts.http && !facts.load);
    ((client, agent), told)
}

fn chunk(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
}
