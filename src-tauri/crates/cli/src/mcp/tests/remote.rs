//! A URL as a byte stream: our own listener behind it, a hub in front.

use super::*;
use crate::mcp::{
    front::Straight,
    remote::{Remote, Transport},
};
use gantry_core::bridge::{Endpoint, Unresolved};
use gantry_http::mcp::{Endpoints, Sessions, router};
use gantry_supervisor::Deadline;
use reqwest::header::HeaderMap;
use tokio::{net::TcpListener, sync::oneshot};

const SCRIPT: Script =
    Script { name: "far", tools: &["echo", "ask", "hang", "news"], prompts: &[], resources: &[] };

#[derive(Clone)]
struct OneHub(Hub);

impl Endpoints for OneHub {
    fn resolve(&self, token: &str, _: &str) -> Result<Endpoint, Unresolved> {
        if token != "right" {
            return Err(Unresolved::BadToken);
        }
        Ok(Endpoint { hub: self.0.clone(), session: None })
    }
}

/// Listens at a port (0: any); the sessions and the port.
async fn listen(far: &Hub, port: u16) -> (Sessions, u16, oneshot::Sender<()>) {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (sessions, (stop, stopped)) = (Sessions::new(), oneshot::channel());
    let router = router(OneHub(far.clone()), sessions.clone());
    run(async move {
        let serve = axum::serve(listener, router).with_graceful_shutdown(async {
            let _ = stopped.await;
        });
        serve.await.expect("serves");
    });
    (sessions, port, stop)
}

pub struct Near {
    pub hub: Hub,
    /// Ends the session by our own wish.
    pub stop: oneshot::Sender<Deadline>,
    /// Why it was over.
    pub over: oneshot::Receiver<Result<String, ()>>,
}

/// A hub that is connected to the URL.
pub async fn connect(hub: Hub, generation: u64, port: u16, token: &str) -> Near {
    let mut headers = HeaderMap::new();
    let bearer = format!("Bearer {token}").parse().expect("a header");
    headers.insert("authorization", bearer);
    let url = format!("http://127.0.0.1:{port}/mcp/far").parse().expect("a URL");
    let remote = Remote::new(url, headers, Transport::Detect).expect("a client");
    let (near, far) = tokio::io::duplex(1 << 16);
    let ((reader, writer), (from, to)) = (tokio::io::split(near), tokio::io::split(far));
    let connection = hub.connect(generation, reader, writer);
    let ((stop, stopped), (tell, over)) = (oneshot::channel(), oneshot::channel());
    let down = hub.clone();
    run(async move {
        let stop = async { stopped.await.unwrap_or_else(|_| Deadline::after(Duration::ZERO)) };
        let over = tokio::select! {
            over = remote.carry_until(from, to, stop) => over,
            over = connection => Ok(over.why),
        };
        if let Ok(why) = &over {
            down.announce_down(why, true);
        }
        // The test may not look.
        let _ = tell.send(over);
    });
    Near { hub, stop, over }
}

pub async fn ready(hub: &Hub, generation: u64) {
    let mut phase = hub.phase();
    let ready = phase.wait_for(
        |phase| matches!(phase, Phase::Ready { generation: now, .. } if *now == generation),
    );
    tokio::time::timeout(BOUND, ready).await.expect("in time").expect("alive");
}

pub async fn why(over: oneshot::Receiver<Result<String, ()>>) -> Result<String, ()> {
    tokio::time::timeout(BOUND, over).await.expect("in time").expect("told")
}

#[tokio::test]
async fn everything_passes_both_ways_and_our_own_end_ends_the_session_there() {
    let far = hub("far");
    let mut seen = SCRIPT.connect(&far, 1).await;
    let (sessions, port, _stop) = listen(&far, 0).await;
    let near = connect(hub("near"), 1, port, "right").await;
    ready(&near.hub, 1).await;
    let mut peer = Peer::new();
    let front = Straight::new(&near.hub, peer.output.clone(), peer.gate.clone());
    peer.initialize(&front, json!({ "elicitation": {} })).await;
    let mut before = Vec::new();
    let list = peer.ask(&front, "tools/list", json!({}), &mut before).await;
    assert_eq!(names(&list, "tools", "name"), ["echo", "ask", "hang", "news"]);
    let params = json!({ "name": "echo", "_meta": { "progressToken": "t" }, "x": 1.0 });
    let answer = peer.ask(&front, "tools/call", params, &mut before).await;
    assert_eq!(answer["result"]["asked"]["x"], json!(1.0));
    assert_eq!(before.last().expect("progress")["params"]["progressToken"], "t");
    // A question during a call, over the stream of the call; its answer over a POST.
    peer.request(&front, json!(1), "tools/call", json!({ "name": "ask" }));
    let question = peer.next().await;
    assert_eq!(question["method"], "elicitation/create");
    peer.say(
        &front,
        &json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept" } }),
    );
    assert_eq!(peer.next().await["result"], json!({ "action": "accept" }));
    // What belongs to no request, over the GET stream.
    peer.request(&front, json!(2), "tools/call", json!({ "name": "news" }));
    let mut two = [peer.next().await, peer.next().await];
    two.sort_by_key(|message| message.get("id").is_some());
    assert_eq!(two[0]["params"], json!({ "from": "far" }));
    // A cancel arrives as one.
    peer.request(&front, json!(3), "tools/call", json!({ "name": "hang" }));
    peer.say(&front, &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 3 } }));
    loop {
        let message =
            tokio::time::timeout(BOUND, seen.recv()).await.expect("in time").expect("alive");
        if message["method"] == "notifications/cancelled" {
            break;
        }
    }
    assert_eq!(sessions.count(), 1);
    near.stop.send(Deadline::after(BOUND)).expect("it runs");
    assert_eq!(why(near.over).await, Err(()));
    assert_eq!(sessions.count(), 0, "the host was told");
}

#[tokio::test]
async fn a_host_that_comes_back_without_our_session_gets_a_new_one() {
    let far = hub("far");
    let mut seen = SCRIPT.connect(&far, 1).await;
    let (sessions, port, stop) = listen(&far, 0).await;
    let near = connect(hub("near"), 1, port, "right").await;
    ready(&near.hub, 1).await;
    let mut peer = Peer::new();
    let front = Straight::new(&near.hub, peer.output.clone(), peer.gate.clone());
    peer.initialize(&front, json!({})).await;
    peer.ask(&front, "tools/list", json!({}), &mut vec![]).await;
    peer.request(&front, json!(1), "tools/call", json!({ "name": "hang" }));
    // It has to be on its way: one that finds nobody ends the session.
    let is_there = async { while seen.recv().await.expect("alive")["params"]["name"] != "hang" {} };
    tokio::time::timeout(BOUND, is_there).await.expect("in time");
    // The host goes with everything it knew.
    stop.send(()).expect("it runs");
    sessions.close();
    let failed = peer.next().await;
    assert_eq!((&failed["id"], &failed["error"]["code"]), (&json!(1), &json!(-32000)));
    drop(sessions);
    // It comes back at the same place and does not know us, which nobody notices.
    let (_sessions, _port, _stop) = listen_again(&far, port).await;
    let answer = peer.ask(&front, "tools/call", json!({ "name": "echo" }), &mut vec![]).await;
    assert_eq!(answer["result"]["by"], "far", "{answer}");
    drop(near.stop);
    assert_eq!(why(near.over).await, Err(()), "it was one and the same connection");
}

/// The port may need a moment to be free.
async fn listen_again(far: &Hub, port: u16) -> (Sessions, u16, oneshot::Sender<()>) {
    let free = async {
        while TcpListener::bind(("127.0.0.1", port)).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(BOUND, free).await.expect("the old listener ends");
    listen(far, port).await
}

#[tokio::test]
async fn a_refused_token_and_a_port_where_nobody_listens_are_reasons() {
    let far = hub("far");
    let (_sessions, port, _stop) = listen(&far, 0).await;
    let near = connect(hub("near"), 1, port, "wrong").await;
    let refused = why(near.over).await.expect("not our wish");
    assert!(refused.contains("initialize") && refused.contains("token"), "{refused}");
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = closed.local_addr().expect("an address").port();
    drop(closed);
    let near = connect(hub("near"), 1, port, "right").await;
    let refused = why(near.over).await.expect("not our wish");
    assert!(refused.starts_with("cannot be reached"), "{refused}");
    assert!(!refused.contains("127.0.0.1"), "a URL may hold a token: {refused}");
}
