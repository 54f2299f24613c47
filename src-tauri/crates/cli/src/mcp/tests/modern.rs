//! A host that speaks revision 2026-07-28 only, strictly.

use super::*;
use crate::mcp::{
    front::Straight,
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
use tokio::net::TcpListener;

#[derive(Clone)]
struct Host {
    /// Methods with their headers, as they came; `dropped` for a stream that its reader closed.
    seen: UnboundedSender<(String, HeaderMap)>,
    listens: Arc<Mutex<u32>>,
}

/// Tells when a stream is dropped.
struct Alive(UnboundedSender<(String, HeaderMap)>);

impl Drop for Alive {
    fn drop(&mut self) {
        // The test may not look.
        let _ = self.0.send(("dropped".to_owned(), HeaderMap::new()));
    }
}

impl Host {
    async fn post(State(host): State<Self>, headers: HeaderMap, body: String) -> Response {
        let message: Value = serde_json::from_str(&body).expect("JSON");
        let (id, params) = (message["id"].clone(), &message["params"]);
        let method = message["method"].as_str().expect("a request").to_owned();
        let _ = host.seen.send((method.clone(), headers.clone()));
        let fail = |status: StatusCode, code: i64| {
            let error = json!({ "code": code, "message": "refused" });
            let body = json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string();
            (status, [("content-type", "application/json")], body).into_response()
        };
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let name = params["name"].as_str();
        if header("mcp-protocol-version") != Some("2026-07-28")
            || header("mcp-method") != Some(&*method)
            || (method == "tools/call" && header("mcp-name") != name)
            || header("mcp-session-id").is_some()
        {
            return fail(StatusCode::BAD_REQUEST, -32020);
        }
        if params["_meta"]["io.modelcontextprotocol/clientCapabilities"].is_null() {
            return fail(StatusCode::BAD_REQUEST, -32602);
        }
        let reply = |result: Value| {
            let body = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
            ([("content-type", "application/json")], body).into_response()
        };
        match (method.as_str(), name) {
            ("server/discover", _) => reply(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": { "listChanged": true } },
            })),
            ("tools/list", _) => {
                let region = json!({ "type": "string", "x-mcp-header": "Region" });
                let schema = json!({ "type": "object", "properties": { "r": region } });
                let tools = json!([{ "name": "echo", "inputSchema": schema }, { "name": "hang" }]);
                reply(json!({ "resultType": "complete", "tools": tools }))
            }
            ("tools/call", Some("hang")) => {
                let alive = Alive(host.seen.clone());
                let never = futures::stream::poll_fn(move |_| {
                    let _alive = &alive;
                    std::task::Poll::<Option<Result<Event, Infallible>>>::Pending
                });
                Sse::new(never).into_response()
            }
            ("tools/call", _) => {
                if header("mcp-param-region").is_none() && !params["arguments"]["r"].is_null() {
                    return fail(StatusCode::BAD_REQUEST, -32020);
                }
                reply(
                    json!({ "resultType": "complete", "content": [], "saw": params["arguments"] }),
                )
            }
            ("subscriptions/listen", _) => {
                let tag = json!({ "io.modelcontextprotocol/subscriptionId": id });
                let note = |method: &str| {
                    let params = json!({ "_meta": tag, "notifications": {} });
                    let note = json!({ "jsonrpc": "2.0", "method": method, "params": params });
                    Ok::<_, Infallible>(Event::default().data(note.to_string()))
                };
                let ack = note("notifications/subscriptions/acknowledged");
                let times = {
                    let mut listens = host.listens.lock().expect("lock");
                    *listens += 1;
                    *listens
                };
                if times == 1 {
                    // It breaks, and has to be made again.
                    return Sse::new(futures::stream::iter([ack])).into_response();
                }
                let changed = note("notifications/tools/list_changed");
                let news = futures::StreamExt::chain(
                    futures::stream::iter([ack, changed]),
                    futures::stream::pending(),
                );
                Sse::new(news).into_response()
            }
            _ => fail(StatusCode::NOT_FOUND, -32601),
        }
    }
}

/// Waits until the host has seen this.
async fn saw(seen: &mut UnboundedReceiver<(String, HeaderMap)>, method: &str) -> HeaderMap {
    loop {
        let next = tokio::time::timeout(BOUND, seen.recv()).await.expect("in time");
        let (what, headers) = next.expect("the host lives");
        if what == method {
            return headers;
        }
    }
}

#[tokio::test]
async fn a_host_of_2026_07_28_alone_is_carried_with_all_that_it_wants() {
    let (sender, mut seen) = mpsc::unbounded_channel();
    let host = Host { seen: sender, listens: Arc::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let routes = Router::new().route("/mcp", routing::post(Host::post)).with_state(host);
    run(async move { axum::serve(listener, routes).await.expect("serves") });

    let near = hub("near");
    let url = format!("http://{address}/mcp").parse().expect("a URL");
    let remote = Remote::new(url, HeaderMap::new(), Transport::Detect).expect("a client");
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let ((reader, writer), (from, to)) = (tokio::io::split(ours), tokio::io::split(theirs));
    let connection = near.connect(1, reader, writer);
    run(async move {
        let never = std::future::pending::<Deadline>();
        tokio::select! {
            over = remote.carry_until(from, to, never) => panic!("it is over: {over:?}"),
            over = connection => panic!("it is over: {over:?}"),
        }
    });
    let mut phase = near.phase();
    let ready = phase.wait_for(|phase| matches!(phase, Phase::Ready { .. }));
    tokio::time::timeout(BOUND, ready).await.expect("in time").expect("alive");
    near.ping(BOUND).await.expect("it lives");

    let mut peer = Peer::new();
    let front = Straight::new(&near, peer.output.clone(), peer.gate.clone());
    peer.initialize(&front, json!({})).await;
    let list = peer.ask(&front, "tools/list", json!({}), &mut vec![]).await;
    assert_eq!(names(&list, "tools", "name"), ["echo", "hang"]);
    // The subscription broke, was made again, and brings news.
    while peer.next().await["method"] != "notifications/tools/list_changed" {}
    let call = json!({ "name": "echo", "arguments": { "r": "é" } });
    let answer = peer.ask(&front, "tools/call", call, &mut vec![]).await;
    assert_eq!(answer["result"]["saw"], json!({ "r": "é" }), "{answer}");
    assert_eq!(saw(&mut seen, "tools/call").await["mcp-param-region"], "=?base64?w6k=?=");
    // A cancellation is a connection that closes.
    peer.request(&front, json!(7), "tools/call", json!({ "name": "hang" }));
    saw(&mut seen, "tools/call").await;
    let cancel = json!({ "requestId": 7 });
    peer.say(
        &front,
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel }),
    );
    saw(&mut seen, "dropped").await;
}
