//! The pieces of `gantry mcp` together: scripted servers behind hubs, a client in front.

mod aggregate;
mod forgetful;
mod modern;
mod odd_hosts;
mod older;
mod remote;
mod straight;

use super::{
    front::{Front, take_line},
    shutdown::Gate,
    stdio::{self, Output},
};
use bytes::Bytes;
use gantry_mcp::{Hub, HubOptions, Line, LineReader, Phase, ToolFilter};
use serde_json::{Value, json};
use std::{
    io::{self, Write},
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt,
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
};

/// Longer than anything here takes.
pub const BOUND: Duration = Duration::from_secs(20);

#[expect(clippy::disallowed_methods, reason = "a test owns its tasks itself")]
pub fn run(work: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(work);
}

pub fn hub(name: &str) -> Hub {
    let hub = Hub::new(HubOptions {
        name: name.into(),
        filter: ToolFilter::default(),
        line_limit: 1 << 20,
        start_wait: Duration::from_secs(5),
    });
    run(hub.clock());
    hub
}

/// A server: what it lists is given, what it does is in the name of the method or tool.
#[derive(Clone)]
pub struct Script {
    pub name: &'static str,
    pub tools: &'static [&'static str],
    pub prompts: &'static [&'static str],
    pub resources: &'static [&'static str],
}

impl Script {
    /// Connects it to a hub; what it receives can be read.
    pub async fn connect(self, hub: &Hub, generation: u64) -> UnboundedReceiver<Value> {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(ours);
        let connection = hub.connect(generation, reader, writer);
        run(async move {
            connection.await;
        });
        let (seen, received) = mpsc::unbounded_channel();
        run(self.serve(theirs, seen));
        let mut phase = hub.phase();
        let ready = phase.wait_for(
            |phase| matches!(phase, Phase::Ready { generation: now, .. } if *now == generation),
        );
        tokio::time::timeout(BOUND, ready).await.expect("in time").expect("alive");
        received
    }

    async fn serve(self, stream: tokio::io::DuplexStream, seen: UnboundedSender<Value>) {
        let (reader, mut writer) = tokio::io::split(stream);
        let mut lines = LineReader::new(reader, 1 << 20);
        let mut asking = Value::Null;
        while let Ok(Some(Line::Full(line))) = lines.next().await {
            let message: Value = serde_json::from_slice(&line).expect("JSON");
            let mut say = Vec::new();
            self.react(&message, &mut asking, &mut say);
            // The test may not look.
            let _ = seen.send(message);
            for message in say {
                if writer.write_all(format!("{message}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    }

    fn react(&self, message: &Value, asking: &mut Value, say: &mut Vec<Value>) {
        let (id, params) = (message["id"].clone(), &message["params"]);
        let reply = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
        let names =
            |names: &[&str]| names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>();
        match message["method"].as_str().unwrap_or("answer") {
            "initialize" => say.push(reply(json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "tools": {}, "prompts": {}, "resources": {}, "logging": {} },
            }))),
            "tools/list" => say.push(reply(json!({ "tools": names(self.tools) }))),
            "prompts/list" => say.push(reply(json!({ "prompts": names(self.prompts) }))),
            "resources/list" => {
                let list: Vec<_> = self.resources.iter().map(|uri| json!({ "uri": uri })).collect();
                say.push(reply(json!({ "resources": list })));
            }
            "resources/templates/list" => {
                let template = format!("{}://{{id}}", self.name);
                say.push(reply(json!({ "resourceTemplates": [{ "uriTemplate": template }] })));
            }
            "tools/call" if params["name"] == "ask" => {
                *asking = id.clone();
                let method = params["method"].as_str().unwrap_or("elicitation/create");
                say.push(json!({ "jsonrpc": "2.0", "id": 1, "method": method }));
            }
            "tools/call" if params["name"] == "withdraw" => {
                let taken_back = json!({ "requestId": 1, "reason": "no need" });
                say.push(json!({ "jsonrpc": "2.0", "id": 1, "method": "roots/list" }));
                say.push(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": taken_back }));
                say.push(reply(json!({})));
            }
            "tools/call" if params["name"] == "hang" => {}
            "tools/call" if params["name"] == "news" => {
                say.push(json!({ "jsonrpc": "2.0", "method": "notifications/x", "params": { "from": self.name } }));
                say.push(reply(json!(self.name)));
            }
            "tools/call" | "prompts/get" | "resources/read" | "completion/complete" => {
                if let Some(token) = params["_meta"].get("progressToken") {
                    let params = json!({ "progressToken": token, "progress": 1 });
                    say.push(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }));
                }
                say.push(reply(json!({ "by": self.name, "asked": params })));
            }
            "logging/setLevel" => say.push(reply(json!({}))),
            "answer" if message["id"] == 1 => {
                say.push(json!({ "jsonrpc": "2.0", "id": asking, "result": message["result"] }));
            }
            _ => {}
        }
    }
}

struct Lines(UnboundedSender<Value>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let message = serde_json::from_slice(line).expect("whole messages");
            self.0.send(message).map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The client: writes to a front, reads what would be on standard output.
pub struct Peer {
    pub output: Output,
    pub gate: Gate,
    lines: UnboundedReceiver<Value>,
}

impl Peer {
    pub fn new() -> Self {
        let (sender, lines) = mpsc::unbounded_channel();
        let output = stdio::write_to(Lines(sender)).expect("a thread");
        Self { output, gate: Gate::default(), lines }
    }

    pub fn say(&self, front: &dyn Front, message: &Value) {
        take_line(front, &self.output, Bytes::from(message.to_string()));
    }

    pub fn request(&self, front: &dyn Front, id: Value, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.say(front, &message);
    }

    pub async fn next(&mut self) -> Value {
        let next = tokio::time::timeout(BOUND, self.lines.recv()).await;
        next.expect("nothing was written").expect("open")
    }

    /// The answer to a request; what comes before it is put into `before`.
    pub async fn ask(
        &mut self,
        front: &dyn Front,
        method: &str,
        params: Value,
        before: &mut Vec<Value>,
    ) -> Value {
        let id = json!(format!("{method} {}", before.len()));
        self.request(front, id.clone(), method, params);
        loop {
            let message = self.next().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            before.push(message);
        }
    }

    pub async fn initialize(&mut self, front: &dyn Front, capabilities: Value) -> Value {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities });
        let answer = self.ask(front, "initialize", params, &mut vec![]).await;
        self.say(front, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer["result"].clone()
    }
}

/// The names in a list.
pub fn names<'a>(answer: &'a Value, list: &str, key: &str) -> Vec<&'a str> {
    let items = answer["result"][list].as_array().unwrap_or_else(|| panic!("no list: {answer}"));
    items.iter().map(|item| item[key].as_str().expect("a name")).collect()
}
