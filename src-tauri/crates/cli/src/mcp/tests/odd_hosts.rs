//! Hosts that answer with something else than what was asked for.

use super::*;
use crate::mcp::remote::{Remote, Transport};
use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use gantry_supervisor::Deadline;
use reqwest::header::HeaderMap;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use tokio::{io::AsyncReadExt, net::TcpListener};

/// Answers every request so; its URL, and how many came.
async fn host(
    answer: impl Fn() -> Response + Clone + Send + Sync + 'static,
) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let router = Router::new().fallback(async move |_: Request| {
        counted.fetch_add(1, SeqCst);
        answer()
    });
    run(async move { axum::serve(listener, router).await.expect("serves") });
    (url, count)
}

/// What comes back for one request.
async fn asked(url: &str) -> Value {
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", HeaderValue::from_static("a secret"));
    let url = url.parse().expect("a URL");
    let remote = Remote::new(url, headers, Transport::Streamable).expect("a client");
    let (near, far) = tokio::io::duplex(1 << 16);
    let ((reader, mut writer), (from, to)) = (tokio::io::split(near), tokio::io::split(far));
    let (over, stop) = tokio::sync::oneshot::channel::<()>();
    run(async move {
        let stop = async {
            let _ = stop.await;
            Deadline::after(BOUND)
        };
        let _ = Box::pin(remote.carry_until(from, to, stop)).await;
    });
    let request = "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"tools/list\"}\n";
    writer.write_all(request.as_bytes()).await.expect("sent");
    let mut lines = LineReader::new(reader.take(1 << 20), 1 << 20);
    let answer = loop {
        let line = tokio::time::timeout(BOUND, lines.next()).await.expect("no answer in time");
        let Ok(Some(Line::Full(line))) = line else { panic!("it ended without an answer") };
        let message: Value = serde_json::from_slice(&line).expect("JSON");
        if message["id"] == "q" {
            break message;
        }
        assert!(message["method"].is_string(), "an answer to nothing: {message}");
    };
    drop(over);
    answer
}

#[tokio::test]
async fn a_success_without_the_answer_is_an_error_that_says_what_came() {
    let odd: [(&str, &str, &str); 6] = [
        ("text/html", "<html>please log in</html>", "text/html"),
        ("application/json", "{\"jsonrpc\":\"2.0\",\"id\":", "no answer"),
        ("application/json", "{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}", "no answer"),
        ("application/json", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}", "no answer"),
        ("application/json", "[]", "no answer"),
        ("application/json", "\u{1f}\u{8b}\u{8}", "no answer"),
    ];
    for (kind, body, part) in odd {
        let answer = move || {
            ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], body).into_response()
        };
        let (url, _) = host(answer).await;
        let answer = asked(&url).await;
        let why = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains(part), "{body}: {answer}");
    }
    // Among other things it is found.
    let body = "[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"},{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"result\":{\"a\":1.0}}]";
    let answer = move || {
        ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body)
            .into_response()
    };
    let (url, _) = host(answer).await;
    assert_eq!(asked(&url).await["result"], json!({ "a": 1.0 }));
}

#[tokio::test]
async fn secrets_do_not_follow_a_redirect_to_another_host() {
    let (elsewhere, count) = host(|| "who are you?".into_response()).await;
    for status in [301, 302, 303, 307, 308] {
        let to = elsewhere.clone();
        let (url, _) = host(move || {
            let location = HeaderValue::from_str(&to).expect("a header");
            let status = axum::http::StatusCode::from_u16(status).expect("a status");
            (status, [(header::LOCATION, location)]).into_response()
        })
        .await;
        let answer = asked(&format!("{url}?token=another-secret")).await;
        let why = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains(&status.to_string()) && why.contains("another host"), "{answer}");
    }
    assert_eq!(count.load(SeqCst), 0, "nothing was sent there");
}
