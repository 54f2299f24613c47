//! How long sessions live.

use super::*;
use crate::mcp::session::{NotTaken, connection};

#[tokio::test]
async fn a_session_ends_by_delete_and_its_calls_are_cancelled() {
    let mut site = Site::open().await;
    let session = site.begin("main").await;
    assert_eq!(session.len(), 32);
    let mut stream = site.listen(&session).await;
    let call = json!({ "jsonrpc": "2.0", "id": 5, "method": "x/hang", "params": {} });
    let hanging = site.http.request(site.post(&session, &call));
    let hanging = async { hanging.await.expect("an answer").status() };
    let end = async {
        let hang = site.saw("x/hang").await;
        let delete = site.request("DELETE", "main").header("mcp-session-id", &session);
        let delete = delete.body(Full::default()).expect("a request");
        assert_eq!(site.answer(delete).await.status, 204);
        let cancel = site.saw("notifications/cancelled").await;
        assert_eq!(cancel["params"]["requestId"], hang["id"]);
    };
    let (status, ()) = tokio::join!(hanging, end);
    assert_eq!(status, 503);
    assert_eq!(stream.next().await, None);
    assert_eq!(site.ask(&session, json!(1), "x/echo", json!({})).await.status, 404);
    assert_eq!(site.sessions.count(), 0);
}

#[tokio::test]
async fn a_thousand_clients_that_vanish_leave_idle_sessions_and_nothing_running() {
    let site = Site::open().await;
    for _ in 0..1000 {
        site.begin("main").await;
    }
    assert_eq!((site.sessions.count(), site.sessions.working()), (1000, 0));
    site.sessions.close();
    assert_eq!(site.sessions.count(), 0);
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize" });
    let request = site.request("POST", "main").body(body(&initialize)).expect("a request");
    assert_eq!(site.answer(request).await.status, 503);
}

#[tokio::test]
async fn a_shutdown_ends_streams_at_once_and_requests_when_it_closes() {
    let mut site = Site::open().await;
    let session = site.begin("main").await;
    let mut stream = site.listen(&session).await;
    let call = json!({ "jsonrpc": "2.0", "id": 5, "method": "x/hang", "params": {} });
    let hanging = site.http.request(site.post(&session, &call));
    let hanging = async { hanging.await.expect("an answer").status() };
    let close = async {
        site.saw("x/hang").await;
        site.sessions.drain();
        assert_eq!(stream.next().await, None);
        assert_eq!((site.sessions.count(), site.sessions.working()), (1, 1));
        site.sessions.close();
    };
    let (status, ()) = tokio::join!(hanging, close);
    assert_eq!(status, 503);
}

#[tokio::test]
async fn a_request_that_arrives_while_its_session_ends_does_not_wait_for_ever() {
    let (sessions, endpoint) = (Sessions::new(), endpoint());
    let session = sessions.begin("s", &endpoint);
    sessions.end(session.id());
    let (connection, mut answers) = connection(&Lane::default());
    assert_eq!(session.expect("1", &connection), Err(NotTaken::Ended));
    drop(connection);
    assert!(answers.recv().await.is_none());
    assert!(session.open_stream(&Lane::default()).recv().await.is_none());
}

/// News of an end may be read after the session was opened anew.
#[tokio::test(start_paused = true)]
async fn an_end_reaches_what_was_there_and_not_what_came_later() {
    let (sessions, mut endpoint) = (Sessions::new(), endpoint());
    endpoint.session = Some("mine".to_owned());
    let before = sessions.begin("s", &endpoint);
    let _visit = sessions.enter(Some("guest".to_owned()), true);
    let seen = Instant::now();
    tokio::time::advance(Duration::from_millis(1)).await;
    let after = sessions.begin("s", &endpoint);
    assert_eq!(sessions.owners().into_iter().collect::<Vec<_>>(), ["guest", "mine"]);
    sessions.end_of("mine", seen);
    assert!(sessions.find(before.id(), "s", &endpoint).is_none());
    assert!(sessions.find(after.id(), "s", &endpoint).is_some());
    sessions.end_of("mine", Instant::now());
    assert_eq!(sessions.count(), 0);
}

fn endpoint() -> Endpoint {
    let hub = Hub::new(HubOptions {
        name: "s".into(),
        filter: ToolFilter::default(),
        line_limit: 1024,
        start_wait: Duration::from_secs(1),
    });
    Endpoint { hub, session: None }
}

#[tokio::test(start_paused = true)]
async fn a_day_of_silence_ends_a_session_but_never_one_that_works_or_listens() {
    let (sessions, endpoint) = (Sessions::new(), endpoint());
    let idle = sessions.begin("s", &endpoint);
    let working = sessions.begin("s", &endpoint);
    let (connection, answers) = connection(&Lane::default());
    working.expect("1", &connection).expect("taken");
    // Whoever asked is gone; the call still runs.
    drop((connection, answers));
    let listening = sessions.begin("s", &endpoint);
    let stream = listening.open_stream(&Lane::default());
    let ids = [&idle, &working, &listening].map(|session| session.id().to_owned());
    drop((idle, working, listening));
    tokio::time::advance(Duration::from_secs(25 * 3600)).await;
    sessions.begin("s", &endpoint);
    let there = || ids.each_ref().map(|id| sessions.find(id, "s", &endpoint).is_some());
    assert_eq!(there(), [false, true, true]);
    // Its day begins when its stream ends.
    tokio::time::advance(Duration::from_secs(23 * 3600)).await;
    sessions.begin("s", &endpoint);
    drop(stream);
    tokio::time::advance(Duration::from_secs(2 * 3600)).await;
    sessions.begin("s", &endpoint);
    assert_eq!(there(), [false, true, true]);
    tokio::time::advance(Duration::from_secs(25 * 3600)).await;
    sessions.begin("s", &endpoint);
    assert_eq!(there(), [false, true, false]);
}

#[tokio::test(start_paused = true)]
async fn beyond_two_thousand_idle_ones_the_least_recently_used_ends() {
    let (sessions, endpoint) = (Sessions::new(), endpoint());
    let working = sessions.begin("s", &endpoint);
    let (connection, _answers) = connection(&Lane::default());
    working.expect("1", &connection).expect("taken");
    let mut ids = Vec::new();
    for _ in 0..2005 {
        tokio::time::advance(Duration::from_millis(1)).await;
        ids.push(sessions.begin("s", &endpoint).id().to_owned());
        // The first one is used again and again, so others are older.
        assert!(sessions.find(&ids[0], "s", &endpoint).is_some());
    }
    assert!(sessions.count() <= 2002, "{}", sessions.count());
    assert!(sessions.find(working.id(), "s", &endpoint).is_some());
    assert!(sessions.find(&ids[0], "s", &endpoint).is_some());
    assert!(sessions.find(&ids[1], "s", &endpoint).is_none());
    assert!(sessions.find(&ids[2004], "s", &endpoint).is_some());
}

#[tokio::test]
async fn a_session_of_a_server_that_was_replaced_is_gone() {
    let (sessions, endpoint_then, endpoint_now) = (Sessions::new(), endpoint(), endpoint());
    let id = sessions.begin("s", &endpoint_then).id().to_owned();
    assert!(sessions.find(&id, "s", &endpoint_then).is_some());
    assert!(sessions.find(&id, "s", &endpoint_now).is_none());
    assert_eq!(sessions.count(), 0);
}
