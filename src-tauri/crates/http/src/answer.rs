//! The two forms of an answer: the envelope of `/computer/*`, which back ends
//! know, and `{"ok":…}` everywhere else.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use gantry_core::{Error, ErrorCode};
use serde::Serialize;
use serde_json::{Value, json};

/// A successful answer of `/computer/*`.
pub(crate) fn envelope(data: impl Serialize) -> Response {
    match serde_json::to_value(data) {
        Ok(data) => Json(json!({
            "code": "0000", "message": "success", "data": data, "tid": null, "success": true,
        }))
        .into_response(),
        Err(error) => failed_envelope(&unwritable(&error)),
    }
}

/// A failed answer of `/computer/*`.
pub(crate) fn failed_envelope(error: &Error) -> Response {
    let (status, code) = match error.code {
        ErrorCode::ValidationError => (StatusCode::BAD_REQUEST, "VALIDATION_ERROR"),
        ErrorCode::NotFound => (StatusCode::NOT_FOUND, "NOT_FOUND"),
        ErrorCode::Busy => (StatusCode::CONFLICT, "BUSY"),
        ErrorCode::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, "SHUTTING_DOWN"),
        // What back ends know: whatever went wrong with an agent is this.
        ErrorCode::Interrupted | ErrorCode::UpstreamFailed | ErrorCode::Failed => {
            (StatusCode::INTERNAL_SERVER_ERROR, "5000")
        }
    };
    raw_envelope(status, code, &error.message, error.detail.as_ref())
}

fn raw_envelope(status: StatusCode, code: &str, message: &str, data: Option<&Value>) -> Response {
    let body = json!({
        "code": code, "message": message, "data": data, "tid": null, "success": false,
    });
    (status, Json(body)).into_response()
}

/// A successful answer of `/api/*`.
pub(crate) fn api(data: Value) -> Response {
    Json(json!({ "ok": true, "data": data })).into_response()
}

/// A failed answer of `/api/*`.
pub(crate) fn failed_api(error: &Error) -> Response {
    let status = match error.code {
        ErrorCode::ValidationError => StatusCode::BAD_REQUEST,
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::Busy | ErrorCode::Interrupted => StatusCode::CONFLICT,
        ErrorCode::UpstreamFailed => StatusCode::BAD_GATEWAY,
        ErrorCode::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::Failed => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let code = serde_json::to_value(error.code).unwrap_or_default();
    raw_api(status, &code, &error.message, error.detail.as_ref())
}

fn raw_api(status: StatusCode, code: &Value, message: &str, detail: Option<&Value>) -> Response {
    let body = json!({
        "ok": false, "error": { "code": code, "message": message, "detail": detail },
    });
    (status, Json(body)).into_response()
}

/// A failed answer in the form that the path's clients know.
pub(crate) fn failed(path: &str, error: &Error) -> Response {
    if is_envelope(path) { failed_envelope(error) } else { failed_api(error) }
}

/// A refusal by HTTP itself (401, 403, 404, 405, 413) in the form that the path's clients know.
pub(crate) fn refuse(path: &str, status: StatusCode, code: &str, message: &str) -> Response {
    if is_envelope(path) {
        raw_envelope(status, code, message, None)
    } else {
        raw_api(status, &json!(code), message, None)
    }
}

fn is_envelope(path: &str) -> bool {
    path == "/computer" || path.starts_with("/computer/")
}

fn unwritable(error: &serde_json::Error) -> Error {
    Error::failed(format!("the answer could not be written: {error}"))
}
