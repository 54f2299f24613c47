//! A host that forgets sessions (404), and what it refused for that.

use super::{
    remote::{connect, ready, why},
    *,
};
use crate::mcp::front::Straight;
use axum::{
    Router,
    extract::State,
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse, Response},
};
use futures::FutureExt;
use std::sync::{Arc, Mutex};
use tokio::{net::TcpListener, sync::Notify};

#[derive(Clone, Default)]
struct Host {
    /// The one session that it knows.
    known: Arc<Mutex<String>>,
    /// Which method came with which session.
    seen: Arc<Mutex<Vec<(String, String)>>>,
    news: Arc<Notify>,
    /// Lets go of calls of `hang`.
    go: Arc<Notify>,
}

impl Host {
    async fn listen(&self) -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let routes = Router::new().fallback(Self::answer).with_state(self.clone());
        run(async move { axum::serve(listener, routes).await.expect("serves") });
        port
    }

    fn forget(&self) {
        self.known.lock().expect("lock").clear();
    }

    fn methods_of(&self, session: &str) -> Vec<String> {
        let seen = self.seen.lock().expect("lock");
        seen.iter().filter(|(of, _)| of == session).map(|(_, method)| method.clone()).collect()
    }

    async fn saw(&self, session: &str, method: &str) {
        let seen = async {
            while !self.methods_of(session).iter().any(|seen| seen == method) {
                self.news.notified().await;
            }
        };
        tokio::time::timeout(BOUND, seen).await.expect("it came");
    }

    async fn answer(
        State(host): State<Self>,
        method: Method,
        headers: HeaderMap,
        body: String,
    ) -> Response {
        if method != Method::POST {
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        }
        let message: Value = serde_json::from_str(&body).expect("JSON");
        let method = message["method"].as_str().unwrap_or("answer").to_owned();
        let named = headers.get("mcp-session-id").and_then(|id| id.to_str().ok());
        let mut session = named.unwrap_or_default().to_owned();
        if method == "initialize" {
            let begun =
                host.seen.lock().expect("lock").iter().filter(|(_, m)| *m == method).count();
            session = format!("session {}", begun + 1);
            if host.go.notified().now_or_never().is_none() {
                host.known.lock().expect("lock").clone_from(&session);
            }
        } else if session != *host.known.lock().expect("lock") {
            return StatusCode::NOT_FOUND.into_response();
        }
        host.seen.lock().expect("lock").push((session.clone(), method.clone()));
        host.news.notify_waiters();
        host.news.notify_one();
        if message.get("id").is_none() {
            return StatusCode::ACCEPTED.into_response();
        }
        let result = match method.as_str() {
            "initialize" => json!({ "protocolVersion": "2025-06-18",
                "capabilities": { "tools": {}, "logging": {}, "resources": { "subscribe": true } } }),
            "tools/list" => json!({ "tools": [{ "name": "echo" }, { "name": "hang" }] }),
            "tools/call" if message["params"]["name"] == "hang" => {
                host.go.notified().await;
                json!({ "by": session })
            }
            "tools/call" => json!({ "by": session }),
            _ => json!({}),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        let headers =
            [("mcp-session-id", session), ("content-type", "application/json".to_owned())];
        (headers, answer.to_string()).into_response()
    }
}

#[tokio::test]
async fn what_was_refused_is_sent_in_a_new_session_and_the_rest_goes_on() {
    let host = Host::default();
    let near = connect(hub("near"), 1, host.listen().await, "right").await;
    ready(&near.hub, 1).await;
    let mut peer = Peer::new();
    let front = Straight::new(&near.hub, peer.output.clone(), peer.gate.clone());
    peer.initialize(&front, json!({})).await;
    let mut before = Vec::new();
    peer.ask(&front, "tools/list", json!({}), &mut before).await;
    peer.ask(&front, "logging/setLevel", json!({ "level": "info" }), &mut before).await;
    for uri in ["a://1", "a://2"] {
        peer.ask(&front, "resources/subscribe", json!({ "uri": uri }), &mut before).await;
    }
    peer.ask(&front, "resources/unsubscribe", json!({ "uri": "a://2" }), &mut before).await;
    peer.request(&front, json!(1), "tools/call", json!({ "name": "hang" }));
    host.saw("session 1", "tools/call").await;
    host.forget();
    let mut before = Vec::new();
    let answer = peer.ask(&front, "tools/call", json!({ "name": "echo" }), &mut before).await;
    assert_eq!(answer["result"]["by"], "session 2", "{answer}");
    let seen = host.methods_of("session 2");
    let wanted =
        ["initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe"];
    assert_eq!(seen[..4], wanted, "{seen:?}");
    assert_eq!(seen.iter().filter(|method| *method == "resources/subscribe").count(), 1);
    // Its tools may be others now: they are fetched again, and clients hear of it.
    host.saw("session 2", "tools/list").await;
    while !before.iter().any(|news| news["method"] == "notifications/tools/list_changed") {
        before.push(peer.next().await);
    }
    // The other call was not touched.
    host.go.notify_waiters();
    let answer = loop {
        let message = peer.next().await;
        if message["id"] == 1 {
            break message;
        }
    };
    assert_eq!(answer["result"]["by"], "session 1", "{answer}");
    // Notifications, too, begin a new one.
    host.forget();
    peer.say(&front, &json!({ "jsonrpc": "2.0", "method": "notifications/x" }));
    host.saw("session 3", "notifications/x").await;
}

#[tokio::test]
async fn a_host_that_knows_no_session_for_long_is_lost() {
    let host = Host::default();
    let near = connect(hub("near"), 1, host.listen().await, "right").await;
    ready(&near.hub, 1).await;
    let mut peer = Peer::new();
    let front = Straight::new(&near.hub, peer.output.clone(), peer.gate.clone());
    peer.initialize(&front, json!({})).await;
    host.forget();
    // The next session is forgotten as soon as it is begun.
    host.go.notify_one();
    peer.request(&front, json!(1), "tools/call", json!({ "name": "echo" }));
    let lost = why(near.over).await.expect("not our wish");
    assert!(lost.contains("404"), "{lost}");
    assert_eq!(peer.next().await["error"]["code"], -32000);
    assert_eq!(host.methods_of("session 2"), ["initialize"], "it was asked once");
}
