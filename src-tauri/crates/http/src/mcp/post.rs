//! `POST`: messages of the client.

use super::{
    Admitted, Endpoints, Refused, Routes, SESSION_ID, accepts, modern,
    session::{Connection, NotTaken, Session, connection},
    stream,
    unread::Lane,
};
use crate::body;
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use gantry_mcp::{
    Envelope, Kind, ToClient,
    frame::{self, INVALID_REQUEST, PARSE_ERROR},
};
use serde_json::value::RawValue;
use std::{sync::Arc, time::Duration};

/// Contract: bodies on `/mcp` up to 32 MiB.
const BODY_LIMIT: usize = 32 * 1024 * 1024;
/// How long a response may take before its head leaves as a stream: clients give up on
/// a connection that stays silent for some minutes, and a call may take an hour.
pub(super) const SILENT_START: Duration = Duration::from_secs(5);
const JSON: &str = "application/json";
/// Messages in one body (revision 2025-03-26 alone has more than one).
const BATCH: usize = 1024;

pub(super) async fn post<E: Endpoints>(
    State(routes): State<Routes<E>>,
    admitted: Admitted,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match take(&routes, &admitted, &headers, body).await {
        Ok(response) => response,
        Err(refused) => refused.into_response(),
    }
}

async fn take<E: Endpoints>(
    routes: &Routes<E>,
    admitted: &Admitted,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Refused> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case(JSON) {
        let why = "`Content-Type` must be application/json";
        return Err(Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, why.to_owned()));
    }
    if !accepts(headers, JSON) || !accepts(headers, stream::EVENT_STREAM) {
        let why = "`Accept` must include both application/json and text/event-stream";
        return Err(Refused(StatusCode::NOT_ACCEPTABLE, why.to_owned()));
    }
    let body = match read(headers, body).await {
        Ok(body) => body,
        Err(response) => return Ok(response),
    };
    let messages = match messages(body) {
        Ok(messages) => messages,
        Err(line) => return Ok(json(StatusCode::BAD_REQUEST, line)),
    };
    if let [message] = messages.as_slice()
        && modern::is_one(message, headers)
    {
        return Ok(modern::serve(routes, admitted, headers, message.clone()).await);
    }
    if let [message] = messages.as_slice()
        && message.kind() == Kind::Request
        && message.method() == "initialize"
    {
        let session = routes.sessions.begin(&admitted.server, &admitted.endpoint);
        let mut response = carry(&session, messages, &admitted.lane).await?;
        if let Ok(id) = HeaderValue::from_str(session.id()) {
            response.headers_mut().insert(SESSION_ID, id);
        }
        return Ok(response);
    }
    let session = admitted.session(headers, &routes.sessions)?;
    carry(&session, messages, &admitted.lane).await
}

/// Reads the body. What is left of one that is too large is read and thrown away, so that its
/// sender gets to read why.
async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Response> {
    let problem = match body::read(headers, body, BODY_LIMIT).await {
        Ok(body) => return Ok(body),
        Err(problem) => problem,
    };
    let mut response = Refused(problem.status(), problem.words(BODY_LIMIT)).into_response();
    // There may be more of it than was thrown away: nothing else can follow on this connection.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    Err(response)
}

/// The messages of a body: one, or (revision 2025-03-26) an array of several.
fn messages(body: Bytes) -> Result<Vec<Envelope>, Bytes> {
    let wrong = |code, why: &str| frame::error("null", code, why, None).freeze();
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'[') {
        return match Envelope::parse(body.clone()) {
            Ok(message) => Ok(vec![message]),
            Err(error) => {
                let json = serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok();
                let code = if json { INVALID_REQUEST } else { PARSE_ERROR };
                Err(wrong(code, &error.to_string()))
            }
        };
    }
    let parts: Vec<&RawValue> =
        serde_json::from_slice(&body).map_err(|error| wrong(PARSE_ERROR, &error.to_string()))?;
    let messages: Result<Vec<Envelope>, _> = parts
        .iter()
        .map(|part| Envelope::parse(Bytes::copy_from_slice(part.get().as_bytes())))
        .collect();
    match messages {
        Ok(messages) if messages.is_empty() => Err(wrong(INVALID_REQUEST, "an empty batch")),
        Ok(messages) if messages.len() > BATCH => {
            let why = format!("a batch of {} messages; at most {BATCH}", messages.len());
            Err(wrong(INVALID_REQUEST, &why))
        }
        Ok(messages) if messages.iter().any(|message| message.method() == "initialize") => {
            Err(wrong(INVALID_REQUEST, "`initialize` must not be part of a batch"))
        }
        Ok(messages) => Ok(messages),
        Err(error) => Err(wrong(INVALID_REQUEST, &error.to_string())),
    }
}

/// Hands the messages to the server and gives back what answers them.
async fn carry(
    session: &Arc<Session>,
    messages: Vec<Envelope>,
    lane: &Lane,
) -> Result<Response, Refused> {
    let (connection, mut answers) = connection(lane);
    let batch = messages.len() > 1;
    let mut open = 0;
    for message in messages {
        if message.kind() == Kind::Request {
            open += 1;
            ask(session, message, &connection);
        } else if let Err(line) = session.client.send_parsed(message) {
            return Ok(refusal(line));
        }
    }
    // From here on the session holds the only sending ends: when it hangs up, this ends.
    drop(connection);
    if open == 0 {
        return Ok(StatusCode::ACCEPTED.into_response());
    }
    match tokio::time::timeout(SILENT_START, answers.recv()).await {
        Ok(Some(first)) if first.last && !batch => Ok(json(StatusCode::OK, first.line)),
        Ok(Some(first)) => Ok(stream::events(Some(first), answers, Some(open), None)),
        Ok(None) => Err(ended()),
        Err(_) => Ok(stream::events(None, answers, Some(open), None)),
    }
}

fn ask(session: &Session, message: Envelope, connection: &Connection) {
    let id = message.id().unwrap_or("null").to_owned();
    let refused = |line| {
        let refusal = ToClient { line, concerning: Some(id.clone()), last: true };
        send(connection, refusal);
    };
    match session.expect(&id, connection) {
        Ok(()) => {}
        Err(NotTaken::InUse) => {
            let why = "a request with this id is still running";
            return refused(frame::error(&id, INVALID_REQUEST, why, None).freeze());
        }
        // With no sending end left, the response says that the session is gone.
        Err(NotTaken::Ended) => return,
    }
    if let Err(line) = session.client.send_parsed(message) {
        session.forget(&id);
        refused(line);
    }
}

fn send(connection: &Connection, message: ToClient) {
    // Only a batch of more refusals than the queue is long could fill it.
    let _ = connection.try_send(message);
}

/// Not 404, which says that a request was not taken: whoever gets that sends it once more.
fn ended() -> Refused {
    let why = "the MCP session ended during the request; whether it took effect is not known";
    Refused(StatusCode::SERVICE_UNAVAILABLE, why.to_owned())
}

/// What the server was not told, and why.
pub(super) fn refusal(line: Bytes) -> Response {
    let message = Envelope::parse(line.clone()).ok();
    let code = message.as_ref().and_then(Envelope::outcome);
    let code = code.and_then(|error| frame::field(error, "code")?.parse().ok());
    let invalid = code == Some(INVALID_REQUEST);
    json(if invalid { StatusCode::BAD_REQUEST } else { StatusCode::SERVICE_UNAVAILABLE }, line)
}

pub(super) fn json(status: StatusCode, line: Bytes) -> Response {
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static(JSON))], line).into_response()
}
