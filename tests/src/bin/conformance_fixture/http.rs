//! The same server over streamable HTTP, without anything in between: one
//! path for all revisions, sessions where they have them, JSON when the answer is the first message and a stream
//! otherwise, `Host` and `Origin` checked.

use crate::{
    headers, modern,
    peer::{Outlet, Peer, lock},
    say, server, take, take_modern,
};
use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
    routing,
    serve::ListenerExt,
};
use futures::stream;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::AsyncReadExt,
    net::TcpListener,
    sync::mpsc::{self, UnboundedReceiver},
};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// A session, and the reading end of what belongs to none of its requests.
struct Session {
    peer: Arc<Peer>,
    /// Held, so that a stream without news stays open.
    general: (Outlet, Option<UnboundedReceiver<Value>>),
}

type Sessions = Arc<Mutex<HashMap<String, Session>>>;

/// What the first question of a client takes.
static DELAY: OnceLock<Duration> = OnceLock::new();

/// A number for each session, so that an ended one is not taken for another.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Serves until the standard input ends; the first question of a client takes `delay`.
pub async fn serve(delay: Duration) {
    let _ = DELAY.set(delay);
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.unwrap_or_else(|why| panic!("no port: {why}"));
    let address = listener.local_addr().unwrap_or_else(|why| panic!("no address: {why}"));
    say(&json!({ "url": format!("http://localhost:{}/mcp", address.port()) }).to_string());
    let methods = routing::post(post).get(get).delete(delete);
    let router = Router::new()
        .route("/mcp", methods)
        .layer(middleware::from_fn(only_from_here))
        .with_state(Sessions::default());
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let mut rest = Vec::new();
    let mut input = tokio::io::stdin();
    tokio::select! {
        ended = axum::serve(listener, router) => panic!("the listener ended: {ended:?}"),
        _ = input.read_to_end(&mut rest) => {}
    }
}

/// A name that was rebound to us, or a page of another origin, does not come in.
async fn only_from_here(request: Request, next: Next) -> Response {
    if is_from_here(request.headers()) {
        next.run(request).await
    } else {
        (StatusCode::FORBIDDEN, "only from this machine").into_response()
    }
}

fn is_from_here(headers: &HeaderMap) -> bool {
    let header = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let is_here = |authority: &str| {
        let name = authority.rsplit_once(':').map_or(authority, |(name, _)| name);
        ["localhost", "127.0.0.1", "[::1]"].contains(&name)
    };
    let origin = header(header::ORIGIN).map(|origin| origin.strip_prefix("http://"));
    header(header::HOST).is_some_and(is_here)
        && origin.is_none_or(|origin| origin.is_some_and(is_here))
}

async fn post(State(sessions): State<Sessions>, headers: HeaderMap, body: Bytes) -> Response {
    let Ok(message) = serde_json::from_slice::<Value>(&body) else {
        let error = json!({ "code": -32700, "message": "Parse error" });
        return refused(StatusCode::BAD_REQUEST, &Value::Null, &error);
    };
    if ["initialize", "server/discover"].iter().any(|method| message["method"] == *method) {
        tokio::time::sleep(DELAY.get().copied().unwrap_or_default()).await;
    }
    if headers::are_modern(&headers, &message) {
        return without_session(&headers, message).await;
    }
    if message["method"] == "initialize" {
        let (peer, (outlet, _)) = (Arc::new(Peer::default()), mpsc::unbounded_channel());
        let answer = server::answer(&peer, &outlet, &message).await;
        let (general, unread) = mpsc::unbounded_channel();
        let id = format!("session-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let session = Session { peer, general: (general, Some(unread)) };
        lock(&sessions).insert(id.clone(), session);
        return ([(SESSION_ID, id)], axum::Json(answer)).into_response();
    }
    let peer = match find(&sessions, &headers, |session| Arc::clone(&session.peer)) {
        Ok(peer) => peer,
        Err(status) => {
            let error = json!({ "code": -32000, "message": "no such session" });
            return refused(status, &message["id"], &error);
        }
    };
    let (outlet, mut messages) = mpsc::unbounded_channel();
    let is_request = message.get("method").is_some() && message.get("id").is_some();
    take(&peer, &outlet, message);
    drop(outlet);
    if !is_request {
        return StatusCode::ACCEPTED.into_response();
    }
    match messages.recv().await {
        Some(answer) if answer.get("method").is_none() => axum::Json(answer).into_response(),
        first => events(first, messages),
    }
}

/// Revision 2026-07-28: everything is in the request.
async fn without_session(headers: &HeaderMap, message: Value) -> Response {
    let id = message["id"].clone();
    if let Err(error) = headers::check(headers, &message) {
        return refused(StatusCode::BAD_REQUEST, &id, &error);
    }
    if let Err(error) = modern::check_meta(&message) {
        return refused(StatusCode::BAD_REQUEST, &id, &error);
    }
    if message.get("id").is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    let (outlet, mut messages) = mpsc::unbounded_channel();
    take_modern(&outlet, message);
    drop(outlet);
    match messages.recv().await {
        Some(answer) if answer.get("method").is_none() => {
            let status = match answer["error"]["code"].as_i64() {
                Some(modern::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
                Some(modern::MISSING_CAPABILITY) => StatusCode::BAD_REQUEST,
                _ => StatusCode::OK,
            };
            (status, axum::Json(answer)).into_response()
        }
        first => events(first, messages),
    }
}

async fn get(State(sessions): State<Sessions>, headers: HeaderMap) -> Response {
    match find(&sessions, &headers, |session| session.general.1.take()) {
        Ok(Some(messages)) => events(None, messages),
        Ok(None) => StatusCode::CONFLICT.into_response(),
        Err(status) => status.into_response(),
    }
}

async fn delete(State(sessions): State<Sessions>, headers: HeaderMap) -> StatusCode {
    match session_id(&headers).map(|id| lock(&sessions).remove(id)) {
        Some(Some(_)) => StatusCode::NO_CONTENT,
        Some(None) => StatusCode::NOT_FOUND,
        None => StatusCode::BAD_REQUEST,
    }
}

fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID)?.to_str().ok()
}

/// Uses the session that a request names.
fn find<T>(
    sessions: &Sessions,
    headers: &HeaderMap,
    with: impl FnOnce(&mut Session) -> T,
) -> Result<T, StatusCode> {
    let id = session_id(headers).ok_or(StatusCode::BAD_REQUEST)?;
    lock(sessions).get_mut(id).map(with).ok_or(StatusCode::NOT_FOUND)
}

fn refused(status: StatusCode, id: &Value, error: &Value) -> Response {
    let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
    (status, axum::Json(answer)).into_response()
}

/// A stream that ends after the answer, or with what belongs to no request only with the session.
fn events(first: Option<Value>, messages: UnboundedReceiver<Value>) -> Response {
    let messages =
        stream::unfold((first, messages, false), |(first, mut messages, done)| async move {
            if done {
                return None;
            }
            let message = match first {
                Some(first) => first,
                None => messages.recv().await?,
            };
            let done = message.get("method").is_none();
            let event = Event::default().event("message").data(message.to_string());
            Some((Ok::<_, Infallible>(event), (None, messages, done)))
        });
    Sse::new(messages).keep_alive(KeepAlive::default()).into_response()
}
