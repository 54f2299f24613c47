//! The routes over a real socket, in front of a hub with a scripted server.

mod modern;
mod rules;
mod sessions;
mod streams;

use super::*;
use bytes::Bytes;
use gantry_mcp::{HubOptions, Line, LineReader, Phase, ToolFilter};
use http_body_util::{BodyExt, Full};
use hyper::{Request, body::Incoming};
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};
use std::{collections::HashMap, time::Duration};
use tokio::{io::AsyncWriteExt, net::TcpListener, sync::mpsc, time::Instant};

/// Longer than anything here takes.
const BOUND: Duration = Duration::from_secs(20);
pub const TOKEN: &str = "token-one";
pub const OTHER: &str = "token-two";

#[expect(clippy::disallowed_methods, reason = "a test owns its tasks itself")]
pub fn run(work: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(work);
}

#[derive(Clone)]
struct Known(Arc<HashMap<&'static str, Hub>>);

use gantry_mcp::Hub;

impl Endpoints for Known {
    fn resolve(&self, token: &str, server: &str) -> Result<Endpoint, Unresolved> {
        let session = match token {
            TOKEN => "s1",
            OTHER => "s2",
            _ => return Err(Unresolved::BadToken),
        };
        let hub = self.0.get(server).cloned().ok_or(Unresolved::UnknownServer)?;
        Ok(Endpoint { hub, session: Some(session.to_owned()) })
    }
}

/// The server: what it does is in the name of the method.
async fn serve_mcp(stream: tokio::io::DuplexStream, seen: mpsc::UnboundedSender<Value>) {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = LineReader::new(reader, 64 << 20);
    let (mut asking, mut headed) = (Value::Null, false);
    while let Ok(Some(Line::Full(line))) = lines.next().await {
        let message: Value = serde_json::from_slice(&line).expect("JSON");
        let (id, params) = (message["id"].clone(), &message["params"]);
        let reply = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
        let note = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let mut say = vec![];
        match message["method"].as_str().unwrap_or("answer") {
            "initialize" => say.push(reply(
                json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} } }),
            )),
            "server/discover" | "x/unknown" | "tools/call" => {
                let error = json!({ "code": -32601, "message": "Method not found" });
                say.push(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
            "x/headed" => {
                headed = true;
                say.push(note("notifications/tools/list_changed", json!({})));
                say.push(reply(json!({})));
            }
            "x/begin" => say.push(note(
                "notifications/progress",
                json!({ "progressToken": params["_meta"]["progressToken"] }),
            )),
            "tools/list" if headed => say.push(reply(json!({ "tools": [{
                "name": "h",
                "inputSchema": { "properties": { "r": { "type": "string", "x-mcp-header": "Region" } } },
            }] }))),
            "tools/list" => say.push(reply(json!({ "tools": [{ "name": "x" }] }))),
            "x/echo" => say.push(reply(params.clone())),
            "x/progress" => {
                let token = &params["_meta"]["progressToken"];
                say.push(note(
                    "notifications/progress",
                    json!({ "progressToken": token, "progress": 1 }),
                ));
                say.push(reply(json!("done")));
            }
            "x/large" => {
                say.push(note(
                    "notifications/progress",
                    json!({ "progressToken": params["_meta"]["progressToken"] }),
                ));
                say.push(reply(json!("y".repeat(3_000_000))));
            }
            "x/news" => {
                let count = params["n"].as_u64().unwrap_or(1);
                say.extend((0..count).map(|n| note("notifications/x", json!({ "n": n }))));
                say.push(reply(json!(count)));
            }
            "x/ask" => {
                asking = id.clone();
                say.push(json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {} }));
            }
            "answer" if message["id"] == "q" => {
                let text = json!({ "jsonrpc": "2.0", "id": asking, "result": message["result"] });
                say.push(text);
            }
            // `x/hang` and notifications.
            _ => {}
        }
        let _ = seen.send(message);
        for message in say {
            if writer.write_all(format!("{message}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

pub struct Site {
    base: String,
    pub http: HttpClient<HttpConnector, Full<Bytes>>,
    pub sessions: Sessions,
    pub hub: Hub,
    /// What the server `main` received after its handshake.
    pub seen: mpsc::UnboundedReceiver<Value>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub session: Option<String>,
    pub kind: String,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// The messages of an event stream.
    pub fn events(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.body).expect("UTF-8");
        let data =
            text.split("\n\n").filter_map(|event| event.strip_prefix("event: message\ndata: "));
        data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
    }
}

pub const NAMES: [&str; 4] = ["main", "Fetch 网页内容抓取", "a/b", "100%"];

impl Site {
    pub async fn open() -> Self {
        let (seen, mut received) = mpsc::unbounded_channel();
        let mut hubs = HashMap::new();
        for name in NAMES {
            let hub = Hub::new(HubOptions {
                name: name.into(),
                filter: ToolFilter::default(),
                line_limit: 64 << 20,
                start_wait: Duration::from_secs(5),
            });
            run(hub.clock());
            let (ours, theirs) = tokio::io::duplex(1 << 20);
            let (reader, writer) = tokio::io::split(ours);
            let connection = hub.connect(1, reader, writer);
            run(async move {
                connection.await;
            });
            let seen = if name == "main" { seen.clone() } else { mpsc::unbounded_channel().0 };
            run(serve_mcp(theirs, seen));
            let mut phase = hub.phase();
            let ready = phase.wait_for(|phase| matches!(phase, Phase::Ready { .. }));
            tokio::time::timeout(BOUND, ready).await.expect("in time").expect("alive");
            hubs.insert(name, hub);
        }
        while received.try_recv().is_ok() {}
        let (hub, sessions) = (hubs["main"].clone(), Sessions::new());
        let router = router(Known(Arc::new(hubs)), sessions.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}/mcp/", listener.local_addr().expect("an address"));
        run(async move { axum::serve(listener, router).await.expect("serves") });
        let http = HttpClient::builder(TokioExecutor::new()).build_http();
        Self { base, http, sessions, hub, seen: received }
    }

    pub fn request(&self, method: &str, server: &str) -> hyper::http::request::Builder {
        Request::builder()
            .method(method)
            .uri(format!("{}{server}", self.base))
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
    }

    pub async fn send(&self, request: Request<Full<Bytes>>) -> hyper::Response<Incoming> {
        let answer = tokio::time::timeout(BOUND, self.http.request(request)).await;
        answer.expect("an answer in time").expect("an answer")
    }

    pub async fn answer(&self, request: Request<Full<Bytes>>) -> Answer {
        let response = self.send(request).await;
        let header = |name: &str| {
            response.headers().get(name).map(|value| value.to_str().expect("text").to_owned())
        };
        let (status, session) = (response.status().as_u16(), header(SESSION_ID));
        let kind = header("content-type").unwrap_or_default();
        let body = tokio::time::timeout(BOUND, response.into_body().collect()).await;
        let body = body.expect("a whole body in time").expect("a whole body").to_bytes();
        Answer { status, session, kind, body }
    }

    /// `initialize`; the session's id.
    pub async fn begin(&self, server: &str) -> String {
        let capabilities = json!({ "elicitation": {} });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities });
        let message =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let request = self.request("POST", server).body(body(&message)).expect("a request");
        let answer = self.answer(request).await;
        assert_eq!((answer.status, answer.kind.as_str()), (200, "application/json"));
        assert_eq!(answer.json()["result"]["protocolVersion"], "2025-11-25");
        answer.session.expect("a session id")
    }

    pub fn post(&self, session: &str, message: &Value) -> Request<Full<Bytes>> {
        let request = self.request("POST", "main").header("mcp-session-id", session);
        request.body(body(message)).expect("a request")
    }

    pub async fn ask(&self, session: &str, id: Value, method: &str, params: Value) -> Answer {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.answer(self.post(session, &message)).await
    }

    /// An open GET stream.
    pub async fn listen(&self, session: &str) -> Stream {
        let request = self.request("GET", "main").header("mcp-session-id", session);
        let response = self.send(request.body(Full::default()).expect("a request")).await;
        assert_eq!(response.status(), 200);
        Stream { body: response.into_body(), text: String::new() }
    }

    /// Waits until the server has received this method.
    pub async fn saw(&mut self, method: &str) -> Value {
        loop {
            let next = tokio::time::timeout(BOUND, self.seen.recv()).await;
            let next = next.expect("the server saw nothing").expect("the server lives");
            if next["method"] == method {
                return next;
            }
        }
    }
}

pub fn body(message: &Value) -> Full<Bytes> {
    Full::from(message.to_string())
}

/// Events as they come.
pub struct Stream {
    pub body: Incoming,
    text: String,
}

impl Stream {
    /// The next message; `None` when the stream is over.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let data = event.strip_prefix("event: message\ndata: ").map(str::to_owned);
                self.text = rest.to_owned();
                match data {
                    Some(data) => return Some(serde_json::from_str(&data).expect("JSON")),
                    None => continue,
                }
            }
            let frame = tokio::time::timeout(BOUND, self.body.frame()).await;
            let data = frame.expect("a piece in time")?.expect("readable").into_data();
            self.text.push_str(std::str::from_utf8(&data.expect("data")).expect("whole events"));
        }
    }
}
