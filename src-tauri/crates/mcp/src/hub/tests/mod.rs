//! A hub between scripted clients and a scripted server, over in-memory pipes.

mod gluts;
mod life;
mod listens;
mod mapping;
mod modern;
mod notices;
mod questions;
mod strict;
mod walks;

use super::*;
use crate::LineReader;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

/// Longer than anything here takes; an expectation that fails ends by it.
const BOUND: Duration = Duration::from_secs(20);

pub fn options(name: &str) -> HubOptions {
    HubOptions {
        name: name.into(),
        filter: ToolFilter::default(),
        line_limit: 1024 * 1024,
        start_wait: Duration::from_secs(5),
    }
}

/// The server's end of a connection. Tests play the server by hand.
pub struct Server {
    lines: LineReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

impl Server {
    /// The streams for [`Hub::connect`] and the other end.
    pub fn pair() -> ((ReadHalf<DuplexStream>, WriteHalf<DuplexStream>), Self) {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(theirs);
        (tokio::io::split(ours), Self { lines: LineReader::new(reader, 64 << 20), writer })
    }

    pub async fn next_text(&mut self) -> String {
        let line = tokio::time::timeout(BOUND, self.lines.next()).await.expect("the hub is silent");
        match line.expect("readable") {
            Some(crate::Line::Full(line)) => String::from_utf8(line.to_vec()).expect("UTF-8"),
            other => panic!("a line expected, not {other:?}"),
        }
    }

    pub async fn next(&mut self) -> Value {
        serde_json::from_str(&self.next_text().await).expect("JSON")
    }

    /// The next message, which has this method.
    pub async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }

    pub async fn say(&mut self, text: &str) {
        self.writer.write_all(format!("{text}\n").as_bytes()).await.expect("the hub reads");
    }

    pub async fn answer(&mut self, request: &Value, result: Value) {
        let id = &request["id"];
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()).await;
    }

    /// Plays the handshake of a server with all capabilities and one page of these tools.
    pub async fn shake_hands(&mut self, tools: &[&str]) {
        let initialize = self.expect("initialize").await;
        self.answer(&initialize, server_info()).await;
        self.expect("notifications/initialized").await;
        let mut list = self.next().await;
        while list["method"] != "tools/list" {
            list = self.next().await;
        }
        self.answer(&list, tool_page(tools)).await;
    }
}

pub fn server_info() -> Value {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": { "tools": {}, "prompts": {}, "resources": {}, "logging": {}, "x-own": 1 },
        "serverInfo": { "name": "scripted", "version": "9" },
    })
}

pub fn tool_page(tools: &[&str]) -> Value {
    let tools: Vec<Value> = tools.iter().map(|name| json!({ "name": name })).collect();
    json!({ "tools": tools })
}

/// A client that tests play by hand.
pub struct Peer {
    pub client: Client,
    pub inbox: mpsc::Receiver<ToClient>,
}

impl Peer {
    pub fn attach(hub: &Hub, label: &str) -> Self {
        let (client, inbox) = hub.attach(label);
        Self { client, inbox }
    }

    /// Attached and initialised with these capabilities.
    pub async fn ready(hub: &Hub, label: &str, capabilities: Value) -> Self {
        let mut peer = Self::attach(hub, label);
        peer.request(
            json!("init"),
            "initialize",
            json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "clientInfo": { "name": label, "version": "1" },
            }),
        );
        let answer = peer.next().await;
        assert_eq!(answer["id"], "init");
        peer.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        peer
    }

    pub fn say(&self, text: &str) {
        self.client.send(Bytes::copy_from_slice(text.as_bytes())).expect("a valid message");
    }

    pub fn request(&self, id: Value, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.say(&message.to_string());
    }

    pub async fn next_raw(&mut self) -> ToClient {
        let next = tokio::time::timeout(BOUND, self.inbox.recv()).await;
        next.expect("nothing came for this client").expect("attached")
    }

    pub async fn next(&mut self) -> Value {
        serde_json::from_slice(&self.next_raw().await.line).expect("JSON")
    }

    pub fn is_quiet(&mut self) -> bool {
        self.inbox.try_recv().is_err()
    }
}

/// A hub with a ready server that lists `tools`, and the task that carries the connection.
pub async fn ready_hub(options: HubOptions, tools: &[&str]) -> (Hub, Server, Connection) {
    let hub = Hub::new(options);
    let (server, connection) = connect(&hub, 1, tools).await;
    (hub, server, connection)
}

pub type Connection = tokio::task::JoinHandle<Disconnected>;

#[expect(
    clippy::disallowed_methods,
    reason = "a test owns its tasks itself; this crate knows no Scope"
)]
pub fn run<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}

pub async fn connect(hub: &Hub, generation: u64, tools: &[&str]) -> (Server, Connection) {
    let ((reader, writer), mut server) = Server::pair();
    let connection = run(hub.connect(generation, reader, writer));
    server.shake_hands(tools).await;
    let mut phase = hub.phase();
    let ready = phase.wait_for(
        |phase| matches!(phase, Phase::Ready { generation: now, .. } if *now == generation),
    );
    tokio::time::timeout(BOUND, ready).await.expect("ready in time").expect("the hub lives");
    (server, connection)
}

/// Counts of everything that a client could leave behind.
pub fn left_behind(hub: &Hub) -> [usize; 6] {
    hub.shared.act(|state, _| {
        let subscriptions = state.clients.values().map(|client| client.subscriptions.len()).sum();
        let State { clients, calls, retired, asked, held, .. } = state;
        [clients.len(), calls.len(), retired.len(), asked.len(), held.len(), subscriptions]
    })
}
