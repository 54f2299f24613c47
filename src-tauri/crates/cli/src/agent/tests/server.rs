//! A small MCP server over streamable HTTP, one request per connection, that can be
//! told to change its tools and to keep a call waiting. And a model endpoint.

use gantry_supervisor::Scope;
use serde_json::{Value, json};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
};

pub(super) const TOKEN: &str = "a-token-for-the-test";

/// What has happened at the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Methods of messages, `DELETE` among them.
    pub(super) methods: Vec<String>,
    /// Whole messages.
    pub(super) messages: Vec<Value>,
}

pub(super) struct Server {
    pub(super) url: String,
    pub(super) seen: watch::Receiver<Seen>,
    tools: Arc<Mutex<Value>>,
    changed: watch::Sender<u32>,
    /// Answers everything with an error.
    pub(super) broken: Arc<AtomicBool>,
}

struct Request {
    method: String,
    authorization: String,
    body: Value,
}

impl Server {
    /// Serves `tools` until the scope is cancelled.
    pub(super) async fn start(scope: &Scope, tools: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp/x", listener.local_addr().unwrap());
        let tools = Arc::new(Mutex::new(tools));
        let (put, seen) = watch::channel(Seen::default());
        let (changed, hears) = watch::channel(0);
        let put = Arc::new(put);
        let (inner, mine) = (scope.clone(), tools.clone());
        let broken = Arc::new(AtomicBool::new(false));
        let is_broken = broken.clone();
        scope.spawn("mcp server", async move {
            let mut cancelled = Box::pin(inner.cancelled());
            loop {
                let stream = tokio::select! {
                    () = &mut cancelled => return,
                    accepted = listener.accept() => accepted.unwrap().0,
                };
                let (tools, put, hears) = (mine.clone(), put.clone(), hears.clone());
                let cancelled = inner.cancelled();
                let broken = is_broken.load(Ordering::Relaxed);
                inner.spawn("mcp connection", async move {
                    tokio::select! {
                        () = cancelled => {}
                        () = answer(stream, tools, put, hears, broken) => {}
                    }
                });
            }
        });
        Self { url, seen, tools, changed, broken }
    }

    /// Other tools from now on; clients are told.
    pub(super) fn change_tools(&self, tools: Value) {
        *self.tools.lock().unwrap() = tools;
        self.changed.send_modify(|n| *n += 1);
    }

    pub(super) async fn saw(&self, method: &str) -> Value {
        let mut seen = self.seen.clone();
        let wait = seen.wait_for(|seen| seen.methods.iter().any(|m| m == method));
        let seen = tokio::time::timeout(super::PATIENCE, wait).await.expect(method).unwrap();
        let at = seen.methods.iter().position(|m| m == method).unwrap();
        seen.messages[at].clone()
    }
}

/// A tool as `tools/list` has it.
pub(super) fn tool(name: &str, read_only: bool) -> Value {
    json!({"name": name, "description": format!("The tool {name}.\nMore about it."),
        "inputSchema": {"type": "object", "required": ["message"]},
        "annotations": {"readOnlyHint": read_only}})
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> Request {
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    let method = line.split(' ').next().unwrap_or_default().to_owned();
    let (mut length, mut authorization) = (0, String::new());
    loop {
        line.clear();
        stream.read_line(&mut line).await.unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "authorization" => authorization = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    Request { method, authorization, body: serde_json::from_slice(&body).unwrap_or_default() }
}

async fn answer(
    stream: TcpStream,
    tools: Arc<Mutex<Value>>,
    put: Arc<watch::Sender<Seen>>,
    mut changed: watch::Receiver<u32>,
    broken: bool,
) {
    let mut stream = BufReader::new(stream);
    let request = read_request(&mut stream).await;
    let method = match request.body["method"].as_str() {
        Some(method) => method.to_owned(),
        None => request.method.clone(),
    };
    put.send_modify(|seen| {
        seen.methods.push(method.clone());
        seen.messages.push(request.body.clone());
    });
    if broken {
        respond(&mut stream, "503 Service Unavailable", None).await;
        return;
    }
    if request.authorization != format!("Bearer {TOKEN}") {
        respond(&mut stream, "401 Unauthorized", None).await;
        return;
    }
    if method == "GET" {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        changed.mark_unchanged();
        while changed.changed().await.is_ok() {
            let message = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            let event = format!("data: {message}\n\n");
            if stream.write_all(event.as_bytes()).await.is_err() {
                return;
            }
        }
        return;
    }
    let arguments = &request.body["params"]["arguments"];
    let result = match method.as_str() {
        "initialize" => json!({"protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "test", "version": "1"}}),
        "tools/list" => json!({"tools": *tools.lock().unwrap()}),
        "tools/call" => match request.body["params"]["name"].as_str() {
            Some("wait") => std::future::pending().await,
            Some("fail") => {
                json!({"content": [{"type": "text", "text": "it broke"}], "isError": true})
            }
            Some("strange") => json!({"content": [{"type": "hologram", "depth": 3}]}),
            _ => {
                let said = arguments["message"].as_str().unwrap_or_default();
                json!({"content": [{"type": "text", "text": format!("Echo: {said}")}]})
            }
        },
        _ => {
            respond(&mut stream, "202 Accepted", None).await;
            return;
        }
    };
    let message = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result});
    respond(&mut stream, "200 OK", Some(message)).await;
}

async fn respond(stream: &mut BufReader<TcpStream>, status: &str, body: Option<Value>) {
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nmcp-session-id: s1\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// A chat completions endpoint that answers the n-th request with the n-th stream;
/// a stream that is `None` never ends, and with the status `silent` not even a head
/// is sent. It has two models.
pub(super) async fn endpoint(
    scope: &Scope,
    streams: Vec<(&'static str, Option<Vec<Value>>)>,
) -> (String, watch::Receiver<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1/", listener.local_addr().unwrap());
    let (put, requests) = watch::channel(Vec::new());
    let inner = scope.clone();
    scope.spawn("model endpoint", async move {
        let serve = async {
            let mut held = Vec::new();
            for (status, events) in streams {
                let mut stream = BufReader::new(listener.accept().await.unwrap().0);
                let mut request = read_request(&mut stream).await;
                while request.method == "GET" {
                    let models = json!({"data": [{"id": "a-model"}, {"id": "b-model"}]});
                    respond(&mut stream, "200 OK", Some(models)).await;
                    stream = BufReader::new(listener.accept().await.unwrap().0);
                    request = read_request(&mut stream).await;
                }
                put.send_modify(|requests: &mut Vec<Value>| requests.push(request.body));
                if status == "silent" {
                    held.push(stream);
                    continue;
                }
                let is_cut = status == "cut";
                let status = if is_cut { "200 OK" } else { status };
                let kind =
                    if status == "200 OK" { "text/event-stream" } else { "application/json" };
                let mut text = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n"
                );
                let ends = events.is_some();
                for event in events.unwrap_or_else(|| vec![words("thinking")]) {
                    if status == "200 OK" {
                        text.push_str(&format!("data: {event}\n\n"));
                    } else {
                        text.push_str(&event.to_string());
                    }
                }
                if status == "200 OK" && ends && !is_cut {
                    text.push_str("data: [DONE]\n\n");
                }
                stream.write_all(text.as_bytes()).await.unwrap();
                if ends {
                    stream.shutdown().await.unwrap();
                } else {
                    held.push(stream);
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = inner.cancelled() => {}
            () = serve => {}
        }
    });
    (base, requests)
}

/// An event with words.
pub(super) fn words(text: &str) -> Value {
    json!({"choices": [{"delta": {"content": text}}]})
}

/// An event with a tool call.
pub(super) fn wish(id: &str, name: &str, arguments: &str) -> Value {
    json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": id,
        "function": {"name": name, "arguments": arguments}}]}, "finish_reason": "tool_calls"}]})
}
