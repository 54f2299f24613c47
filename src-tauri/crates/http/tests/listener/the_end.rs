use crate::site::Site;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread")]
async fn quit_is_answered_and_then_everything_ends() {
    let site = Site::open().await;
    let session = site.session().await.id;
    let mut events = site.connect().await;
    events.write(format!("{}\r\n", site.head("GET", "/events")).as_bytes()).await;
    events.head().await;
    assert_eq!(events.event().await.unwrap().0, "snapshot");
    let mut progress = site.connect().await;
    let path = format!("/computer/progress/{session}");
    progress.write(format!("{}\r\n", site.head("GET", &path)).as_bytes()).await;
    progress.head().await;
    // One that keeps its connection for later, one that never finishes its request, and one
    // that never finishes its body.
    let mut idle = site.connect().await;
    assert_eq!(idle.ask(&format!("{}\r\n", site.head("GET", "/health")), b"").await.status, 200);
    let mut half = site.connect().await;
    half.write(b"GET /hea").await;
    let mut unfinished = site.connect().await;
    let head = format!("{}Content-Length: 100\r\n\r\n{{", site.head("POST", "/api/servers_list"));
    unfinished.write(head.as_bytes()).await;

    let begin = Instant::now();
    let answer = site.post("/api/quit", &json!({})).await;
    assert_eq!((answer.status, &answer.json()["ok"]), (200, &json!(true)));
    let mut last = None;
    while let Some((_, event)) = events.event().await {
        last = Some(event);
    }
    assert_eq!(last.unwrap()["type"], "shutting_down");
    assert_eq!(progress.event().await.unwrap().0, "shutting_down");
    assert!(progress.event().await.is_none());
    for client in [&mut idle, &mut half, &mut unfinished] {
        client.closed().await;
    }
    let report = site.app.ended().await;
    assert_eq!((report.code, report.stuck_tasks), (0, vec![]));
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert!(TcpStream::connect(site.address).await.is_err(), "nobody listens any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_still_arrives_is_told_so() {
    let site = Site::open().await;
    let mut client = site.connect().await;
    // The server has begun to read this request, so the connection is not idle.
    client.write(site.head("GET", "/computer/progress/x").as_bytes()).await;
    let mut phase = site.app.shutdown().phase();
    site.app.shutdown().request("test");
    phase.wait_for(|phase| *phase > gantry_core::shutdown::Phase::Running).await.unwrap();
    // Either the connection was closed already, or the answer is the right one.
    client.try_write(b"\r\n").await;
    let answered = tokio::time::timeout(Duration::from_secs(5), client.try_head()).await.unwrap();
    assert!(matches!(answered, None | Some(503)), "{answered:?}");
    assert_eq!(site.app.ended().await.code, 0);
}
