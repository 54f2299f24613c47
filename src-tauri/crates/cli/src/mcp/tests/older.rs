//! A host that speaks the transport of two endpoints only.

use super::*;
use crate::mcp::{
    memory::Memory,
    remote::{Remote, Transport},
};
use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response, Sse, sse::Event},
    routing,
};
use gantry_supervisor::Deadline;
use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};
use tokio::{net::TcpListener, sync::oneshot};

/// The open streams of the host, and the headers that came with messages.
#[derive(Clone, Default)]
struct Host {
    streams: Arc<Mutex<Vec<UnboundedSender<String>>>>,
    keys: Arc<Mutex<Vec<String>>>,
    /// Messages to the address of the stream, which takes none.
    misled: Arc<Mutex<u32>>,
}

impl Host {
    async fn stream(State(host): State<Self>) -> Response {
        let (sender, mut receiver) = mpsc::unbounded_channel::<String>();
        host.streams.lock().expect("lock").push(sender);
        let mut named = false;
        let events = futures::stream::poll_fn(move |context| {
            if !std::mem::replace(&mut named, true) {
                let event = Event::default().event("endpoint").data("/messages?session=1");
                return std::task::Poll::Ready(Some(Ok::<_, Infallible>(event)));
            }
            receiver.poll_recv(context).map(|text| text.map(|text| Ok(Event::default().data(text))))
        });
        Sse::new(events).into_response()
    }

    async fn message(State(host): State<Self>, headers: HeaderMap, body: String) -> StatusCode {
        let key = headers.get("x-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
        host.keys.lock().expect("lock").push(key.to_owned());
        let message: Value = serde_json::from_str(&body).expect("JSON");
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                json!({ "protocolVersion": "2024-11-05", "capabilities": { "tools": {} },
                                    "serverInfo": { "name": "old", "version": "1" } })
            }
            "tools/list" => json!({ "tools": [{ "name": "echo", "inputSchema": {} }] }),
            "tools/call" if message["params"]["name"] == "refuse" => {
                return StatusCode::BAD_REQUEST;
            }
            "tools/call" if message["params"]["name"] == "end" => {
                host.streams.lock().expect("lock").clear();
                return StatusCode::ACCEPTED;
            }
            "tools/call" => json!({ "content": [], "x-seen": message["params"] }),
            _ => json!({}),
        };
        if message.get("id").is_some() {
            let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
            let streams = host.streams.lock().expect("lock");
            streams.last().expect("a stream").send(answer.to_string()).expect("it is read");
        }
        StatusCode::ACCEPTED
    }

    async fn nothing_here(State(host): State<Self>) -> StatusCode {
        *host.misled.lock().expect("lock") += 1;
        StatusCode::METHOD_NOT_ALLOWED
    }

    /// Listens; the address.
    async fn listen(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let routes = Router::new()
            .route("/sse", routing::get(Self::stream).post(Self::nothing_here))
            .route(
                "/hangs",
                routing::get(Self::stream)
                    .post(async || std::future::pending::<StatusCode>().await),
            )
            .route("/messages", routing::post(Self::message))
            .with_state(self.clone());
        run(async move { axum::serve(listener, routes).await.expect("serves") });
        format!("http://{address}")
    }
}

/// A hub connected to a URL; why that was over.
fn connect(hub: &Hub, url: &str, transport: Transport) -> oneshot::Receiver<Result<String, ()>> {
    connect_with(hub, url, transport, None)
}

fn connect_with(
    hub: &Hub,
    url: &str,
    transport: Transport,
    memory: Option<Memory>,
) -> oneshot::Receiver<Result<String, ()>> {
    let mut headers = HeaderMap::new();
    headers.insert("x-key", "k3y".parse().expect("a header"));
    let remote = Remote::new(url.parse().expect("a URL"), headers, transport).expect("a client");
    let remote = remote.remembering(memory);
    let (near, far) = tokio::io::duplex(1 << 16);
    let ((reader, writer), (from, to)) = (tokio::io::split(near), tokio::io::split(far));
    let connection = hub.connect(1, reader, writer);
    let (tell, over) = oneshot::channel();
    run(async move {
        let never = std::future::pending::<Deadline>();
        let over = tokio::select! {
            over = remote.carry_until(from, to, never) => over,
            over = connection => Ok(over.why),
        };
        // The test may not look.
        let _ = tell.send(over);
    });
    over
}

async fn ready(hub: &Hub) {
    let mut phase = hub.phase();
    let ready = phase.wait_for(|phase| matches!(phase, Phase::Ready { .. }));
    tokio::time::timeout(BOUND, ready).await.expect("in time").expect("alive");
}

/// The address of its stream takes a message and never answers.
#[tokio::test]
async fn it_is_found_out_though_the_first_request_hangs() {
    let (host, near) = (Host::default(), hub("near"));
    let url = format!("{}/hangs", host.listen().await);
    let over = connect(&near, &url, Transport::Detect);
    ready(&near).await;
    assert_eq!(near.catalogue().expect("ready").tools.len(), 1);
    drop(over);
}

#[tokio::test]
async fn it_is_found_out_or_told_and_carries_everything() {
    for transport in [Transport::Detect, Transport::Older] {
        let (host, near) = (Host::default(), hub("near"));
        let url = format!("{}/sse", host.listen().await);
        let over = connect(&near, &url, transport);
        ready(&near).await;
        let answer = near.call_tool("echo", json!({ "x": 1.0 }), BOUND).await.expect("a result");
        assert_eq!(answer["x-seen"]["arguments"], json!({ "x": 1.0 }));
        let refused = near.call_tool("refuse", json!({}), BOUND).await.expect_err("refused");
        assert!(refused["message"].as_str().expect("text").contains("HTTP 400"), "{refused}");
        assert!(host.keys.lock().expect("lock").iter().all(|key| key == "k3y"));
        // The host ends the stream in the middle of a call.
        near.call_tool("end", json!({}), BOUND).await.expect_err("it is gone");
        let lost = tokio::time::timeout(BOUND, over).await.expect("in time").expect("told");
        assert!(lost.expect("not our wish").contains("ended its event stream"));
    }
}

#[tokio::test]
async fn a_url_that_speaks_neither_says_what_it_said_first() {
    let host = Host::default();
    let url = format!("{}/nothing", host.listen().await);
    for (transport, part) in [
        (Transport::Detect, "answered `initialize` with HTTP 404"),
        (Transport::Older, "instead of its event stream"),
    ] {
        let over = connect(&hub("near"), &url, transport);
        let lost = tokio::time::timeout(BOUND, over).await.expect("in time").expect("told");
        let lost = lost.expect("not our wish");
        assert!(lost.contains(part), "{lost}");
    }
}

#[tokio::test]
async fn what_was_found_out_is_remembered_until_it_is_no_longer_true() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("transports").join("one");
    let memory = || Some(Memory::at(file.clone()));
    let host = Host::default();
    let base = host.listen().await;
    for _ in 0..2 {
        let near = hub("near");
        let _over = connect_with(&near, &format!("{base}/sse"), Transport::Detect, memory());
        ready(&near).await;
        assert_eq!(std::fs::read_to_string(&file).expect("remembered"), "sse");
        assert_eq!(*host.misled.lock().expect("lock"), 1, "it was asked once");
    }
    // The same address speaks something else by now.
    let over = connect_with(&hub("near"), &format!("{base}/nothing"), Transport::Detect, memory());
    tokio::time::timeout(BOUND, over).await.expect("in time").expect("told").expect("not our wish");
    assert!(!file.exists(), "forgotten");
}
