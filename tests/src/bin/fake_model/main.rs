//! A scripted model endpoint on loopback: OpenAI chat completions and
//! responses, Anthropic messages, Gemini, and the lists of models.
//!
//! `fake_model RECORD` prints `{"url":"http://127.0.0.1:PORT"}` and serves until
//! its standard input ends. What it answers stands in the last text of the
//! user, see [`script`]; what it was asked is in the record: `request` with the
//! whole body, `answered` or `abandoned` when the answer was complete or its
//! reader gone.

#![allow(clippy::disallowed_methods, reason = "a fake: its tasks end with it")]

mod answer;
mod conversation;
mod script;

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, State},
    http::{Method, StatusCode, Uri, header},
    response::Response,
};
use conversation::{Conversation, Protocol};
use gantry_tests::{census, record};
use script::Act;
use serde_json::{Value, json};
use std::{path::PathBuf, sync::Arc};
use tokio::io::AsyncReadExt;

/// The models that are offered.
const MODELS: &[&str] = &["fake-model", "fake-model-large"];

#[tokio::main(flavor = "current_thread")]
async fn main() {
    census::sign_in();
    let Some(path) = std::env::args().nth(1) else { panic!("usage: fake_model RECORD") };
    let record = Arc::new(PathBuf::from(path));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.unwrap_or_else(|why| panic!("no port: {why}"));
    let address = listener.local_addr().unwrap_or_else(|why| panic!("no address: {why}"));
    println!("{}", json!({ "url": format!("http://{address}") }));
    let routes =
        Router::new().fallback(serve).layer(DefaultBodyLimit::disable()).with_state(record);
    tokio::select! {
        served = async { axum::serve(listener, routes).await } => {
            served.unwrap_or_else(|why| panic!("fake_model: {why}"));
        }
        _ = end_of_input() => {}
    }
}

async fn end_of_input() {
    let mut rest = Vec::new();
    let _ = tokio::io::stdin().read_to_end(&mut rest).await;
}

async fn serve(State(to): State<Arc<PathBuf>>, method: Method, uri: Uri, body: Bytes) -> Response {
    let path = uri.path();
    if method != Method::POST {
        record::write(&to, "asked", json!({ "path": path }));
        return match path.rsplit_once("/models") {
            Some((_, "")) => json_answer(StatusCode::OK, &model_list()),
            Some((_, one)) => json_answer(StatusCode::OK, &model(one.trim_start_matches('/'))),
            None => json_answer(StatusCode::OK, &json!({})),
        };
    }
    if path.contains("count_tokens") || path.contains("countTokens") {
        return json_answer(StatusCode::OK, &json!({ "input_tokens": 10, "totalTokens": 10 }));
    }
    let Some(protocol) = Protocol::of(path) else {
        record::write(&to, "ignored", json!({ "path": path }));
        return json_answer(StatusCode::OK, &json!({}));
    };
    let Ok(body) = serde_json::from_slice::<Value>(&body) else {
        record::write(&to, "unreadable", json!({ "path": path, "bytes": body.len() }));
        return json_answer(StatusCode::BAD_REQUEST, &error("the body is no JSON"));
    };
    let conversation = Conversation::read(protocol, &body);
    let act = script::decide(&conversation);
    let streams = body["stream"] == true || path.contains("streamGenerateContent");
    record::write(
        &to,
        "request",
        json!({
            "protocol": format!("{protocol:?}"), "tools": conversation.tools,
            "act": format!("{act:?}").chars().take(200).collect::<String>(),
            "streams": streams, "body": body,
        }),
    );
    let model = body["model"].as_str().unwrap_or(MODELS[0]).to_owned();
    match act {
        Act::Fail { status, message } => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
            json_answer(status, &error(&message))
        }
        act if streams => {
            let ending = Ending { to, is_complete: false };
            let stream = answer::stream(protocol, model, act, ending);
            respond(StatusCode::OK, "text/event-stream", Body::from_stream(stream))
        }
        act => json_answer(StatusCode::OK, &answer::whole(protocol, &model, &act)),
    }
}

/// Notes how a stream ended.
pub(crate) struct Ending {
    to: Arc<PathBuf>,
    is_complete: bool,
}

impl Ending {
    /// The last frame was taken.
    pub(crate) fn complete(&mut self) {
        self.is_complete = true;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let event = if self.is_complete { "answered" } else { "abandoned" };
        record::write(&self.to, event, json!({}));
    }
}

fn respond(status: StatusCode, kind: &str, body: Body) -> Response {
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, kind).body(body);
    response.unwrap_or_else(|why| panic!("fake_model: {why}"))
}

fn json_answer(status: StatusCode, value: &Value) -> Response {
    respond(status, "application/json", Body::from(value.to_string()))
}

/// An error in a shape that every client finds its words in.
fn error(message: &str) -> Value {
    json!({ "type": "error", "error": { "type": "invalid_request_error", "message": message } })
}

fn model_list() -> Value {
    let models: Vec<Value> = MODELS.iter().map(|id| model(id)).collect();
    json!({ "object": "list", "data": models, "models": [], "has_more": false })
}

fn model(id: &str) -> Value {
    json!({
        "id": id, "object": "model", "type": "model", "display_name": id, "created": 1,
        "created_at": "2026-01-01T00:00:00Z", "owned_by": "tests", "name": format!("models/{id}"),
    })
}
