//! Reading a request's body: bounded in size and time, and JSON with errors
//! that name the field.

use crate::answer;
use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use bytes::{Bytes, BytesMut};
use gantry_core::Error;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::time::Duration;

/// Largest body of a request, except on `/mcp`.
pub(crate) const BODY_LIMIT: usize = 10 * 1024 * 1024;
/// How much more of a body that is too large is read and thrown away, so that
/// its sender gets to read the answer instead of a broken connection.
const DISCARDED: usize = 64 * 1024 * 1024;
/// How long one that is thrown away may take.
const DISCARD_TIME: Duration = Duration::from_secs(10);
/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(60);

/// Why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyProblem {
    /// Over the limit.
    TooLarge,
    /// It did not come in time.
    Slow,
    /// The connection broke off.
    Broken,
}

impl BodyProblem {
    /// The status of an answer about it.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
        }
    }

    /// What happened, where `limit` bytes are accepted.
    pub fn words(&self, limit: usize) -> String {
        match self {
            Self::TooLarge => {
                let mib = limit >> 20;
                format!(
                    "the body is larger than what this route accepts ({mib} MiB, {limit} bytes)"
                )
            }
            Self::Slow => "the body took longer than a minute".to_owned(),
            Self::Broken => "the body could not be read to its end".to_owned(),
        }
    }

    /// The answer for it.
    pub fn answer(&self, path: &str) -> Response {
        let code = match self {
            Self::TooLarge => "PAYLOAD_TOO_LARGE",
            Self::Slow => "REQUEST_TIMEOUT",
            Self::Broken => "VALIDATION_ERROR",
        };
        let (status, message) = (self.status(), self.words(BODY_LIMIT));
        let mut response = answer::refuse(path, status, code, &message);
        // What is left of the body is not read, so nothing else can follow on this connection.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }
}

/// Reads a body of at most `limit` bytes.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Bytes, BodyProblem> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok())
        .unwrap_or(0);
    if announced > limit.saturating_add(DISCARDED) {
        return Err(BodyProblem::TooLarge);
    }
    let (time, late) = match announced > limit {
        true => (DISCARD_TIME, BodyProblem::TooLarge),
        false => (BODY_TIME, BodyProblem::Slow),
    };
    let reading = collect(body, limit, announced);
    tokio::time::timeout(time, reading).await.unwrap_or(Err(late))
}

async fn collect(mut body: Body, limit: usize, announced: usize) -> Result<Bytes, BodyProblem> {
    let mut too_large = announced > limit;
    let mut kept = BytesMut::with_capacity(if too_large { 0 } else { announced });
    let mut seen = 0_usize;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Err(if too_large { BodyProblem::TooLarge } else { BodyProblem::Broken });
        };
        let Ok(data) = frame.into_data() else { continue };
        seen = seen.saturating_add(data.len());
        if seen > limit {
            too_large = true;
            kept = BytesMut::new();
        }
        if seen > limit.saturating_add(DISCARDED) {
            break;
        }
        if !too_large {
            kept.extend_from_slice(&data);
        }
    }
    if too_large { Err(BodyProblem::TooLarge) } else { Ok(kept.freeze()) }
}

/// The body as JSON; an empty one is `{}`.
///
/// # Errors
/// Invalid, with line and column, but never with what was there.
pub(crate) fn json(body: &[u8]) -> Result<Value, Error> {
    let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
    if body.trim_ascii().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    serde_json::from_slice(body)
        .map_err(|error| Error::invalid(format!("the body is not JSON: {error}")))
}

/// The body as an object of a known shape, all of whose fields may be absent.
///
/// # Errors
/// Invalid; the message names the field.
pub(crate) fn shaped<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    let Value::Object(fields) = &value else {
        return Err(Error::invalid("the body must be a JSON object"));
    };
    let culprit = culprit::<T>(fields, &mut Vec::new());
    serde_json::from_value(value).map_err(|error| match culprit {
        Some(path) => Error::invalid(format!("`{path}`: {error}")),
        None => Error::invalid(format!("the body is not right: {error}")),
    })
}

/// The path of the first field that alone does not fit `T`. Works because no field of `T` is required.
fn culprit<T: DeserializeOwned>(
    fields: &Map<String, Value>,
    path: &mut Vec<String>,
) -> Option<String> {
    for (name, value) in fields {
        path.push(name.clone());
        if serde_json::from_value::<T>(alone(path, value)).is_err() {
            let deeper = match value {
                Value::Object(inner) => culprit::<T>(inner, path),
                _ => None,
            };
            return deeper.or_else(|| Some(path.join(".")));
        }
        path.pop();
    }
    None
}

/// An object that has nothing but this value at this path.
fn alone(path: &[String], value: &Value) -> Value {
    path.iter()
        .rev()
        .fold(value.clone(), |inner, name| Value::Object(Map::from_iter([(name.clone(), inner)])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use gantry_core::wire::ChatRequest;
    use serde_json::json;

    #[test]
    fn a_wrong_type_is_reported_with_its_field() {
        let message = |body: Value| shaped::<ChatRequest>(body).unwrap_err().message;
        assert!(message(json!({"user_id": 5})).starts_with("`user_id`: "));
        assert!(message(json!({"user_id": "u", "prompt": ["x"]})).starts_with("`prompt`: "));
        let nested = json!({"agent_config": {"agent_server": {"command": "a", "args": "b"}}});
        assert!(message(nested).starts_with("`agent_config.agent_server.args`: "));
        assert!(message(json!({"permission": "never"})).starts_with("`permission`: "));
        assert!(message(json!([])).contains("object"));
    }

    #[test]
    fn unknown_fields_are_no_error() {
        let request: ChatRequest =
            shaped(json!({"user_id": "u", "new_field": {"a": [1]}, "prompt": null})).unwrap();
        assert_eq!(request.user_id.as_deref(), Some("u"));
    }

    #[test]
    fn what_is_not_json_is_reported_without_its_content() {
        let message = json(b"{\"api_key\": \"sk-planted\" ").unwrap_err().message;
        assert!(message.contains("line 1") && !message.contains("planted"), "{message}");
        assert_eq!(json(b"  ").unwrap(), json!({}));
        assert_eq!(json(b"\xef\xbb\xbf{\"a\":1}").unwrap(), json!({"a": 1}));
    }

    async fn read_chunks(sizes: &[usize], limit: usize) -> Result<usize, BodyProblem> {
        let chunks: Vec<_> =
            sizes.iter().map(|size| Ok::<_, std::io::Error>(vec![b'x'; *size])).collect();
        let body = Body::from_stream(stream::iter(chunks));
        read(&HeaderMap::new(), body, limit).await.map(|bytes| bytes.len())
    }

    #[tokio::test]
    async fn a_body_has_a_limit_whether_it_is_announced_or_not() {
        assert_eq!(read_chunks(&[4, 6], 10).await, Ok(10));
        assert_eq!(read_chunks(&[4, 7], 10).await, Err(BodyProblem::TooLarge));
        let headers = HeaderMap::from_iter([(header::CONTENT_LENGTH, HeaderValue::from(11))]);
        let body = Body::from("x");
        assert_eq!(read(&headers, body, 10).await, Err(BodyProblem::TooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_given_up() {
        let body = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        assert_eq!(read(&HeaderMap::new(), body, 10).await, Err(BodyProblem::Slow));
    }
}
