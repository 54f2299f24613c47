//! The OpenAPI document: every route of the table, every command.

use super::{commands, schema};
use crate::table::{self, Access, Route};
use gantry_core::api;
use serde_json::{Map, Value, json};

/// Where schemas are.
const PREFIX: &str = "#/components/schemas/";

/// What can go wrong with a request: the status, the code beside it, and what it means.
pub(super) const REFUSALS: &[(u16, &str, &str)] = &[
    (400, "VALIDATION_ERROR", "the input is wrong; the message names the field"),
    (401, "UNAUTHORIZED", "no token, or a wrong one"),
    (403, "FORBIDDEN", "a foreign Host or Origin"),
    (404, "NOT_FOUND", "the session, server, agent or command is not there"),
    (405, "METHOD_NOT_ALLOWED", "the route is there, but not for this method"),
    (408, "REQUEST_TIMEOUT", "the body took longer than a minute"),
    (
        409,
        "BUSY or INTERRUPTED",
        "a turn is running; or what it was about was stopped or cancelled meanwhile",
    ),
    (413, "PAYLOAD_TOO_LARGE", "the body is larger than 10 MiB"),
    (431, "", "the head of the request is too large"),
    (
        500,
        "FAILED",
        "Gantry itself could not do it (its disk, its database); the message says what",
    ),
    (
        502,
        "UPSTREAM_FAILED",
        "an agent, a server or another program or endpoint failed, was not found or did not \
         answer; the message says which and why",
    ),
    (503, "SHUTTING_DOWN", "Gantry is shutting down"),
];

/// What back ends know as 500 with the code 5000, whoever was to blame.
const COMPUTER_FAILED: &str = "it was tried and failed: the agent was not found, ended, did not \
    answer in time, or Gantry itself could not; the message says what";

/// The whole document.
///
/// # Errors
/// A type that cannot be read; a test sees to it that there is none.
pub(super) fn document() -> Result<Value, String> {
    let mut schemas = schema::declarations(&api::typescript(), PREFIX)?;
    schemas.extend(schema::declarations(&api::computer_types(), PREFIX)?);
    schemas.insert("ApiError".into(), api_error());
    schemas.insert("Envelope".into(), envelope(&json!({}), false));
    let mut paths = Map::new();
    for route in table::all() {
        if route.path == "/api/{command}" {
            add_commands(route, &schemas, &mut paths)?;
            continue;
        }
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method] = operation(route, &schemas)?;
    }
    let bearer = |about: &str| json!({ "type": "http", "scheme": "bearer", "description": about });
    Ok(json!({
        "openapi": "3.1.0",
        "info": { "title": "Gantry", "version": gantry_core::VERSION },
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": bearer("The instance's token, from `run/token` of the data directory."),
                "query": { "type": "apiKey", "in": "query", "name": "token",
                    "description": "The same where a browser cannot send headers." },
                "agent": bearer("The token that Gantry gives to the agent of a session."),
            },
        },
        "paths": paths,
    }))
}

fn add_commands(
    route: &Route,
    schemas: &Map<String, Value>,
    paths: &mut Map<String, Value>,
) -> Result<(), String> {
    for command in commands() {
        let data = schema::of(&command.output, PREFIX)?;
        let ok = json!({ "type": "object", "required": ["ok", "data"],
            "properties": { "ok": { "const": true }, "data": data } });
        let path = route.path.replace("{command}", command.name);
        let mut operation = json!({ "operationId": command.name, "summary": command.about,
            "security": security(route.access), "responses": responses(Some(("application/json", &ok)), "ApiError") });
        // Nothing at all counts as `{}`.
        let is_needed =
            schemas.get(&command.input).is_none_or(|schema| schema.get("required").is_some());
        let input = schema::of(&command.input, PREFIX)?;
        operation["requestBody"] = json!({ "required": is_needed,
            "content": { "application/json": { "schema": input } } });
        paths.insert(path, json!({ "post": operation }));
    }
    Ok(())
}

fn operation(route: &Route, schemas: &Map<String, Value>) -> Result<Value, String> {
    let name = format!("{}_{}", route.method, route.path.trim_matches('/').replace('/', "_"));
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let is_computer = route.path.starts_with("/computer/");
    let (kind, ok) = match route.path {
        "/events" | "/computer/progress/{session}" => ("text/event-stream", json!({})),
        "/metrics" => ("text/plain", json!({})),
        "/api/docs" | "/" => ("text/html", json!({})),
        _ => ("application/json", json!({ "type": "object" })),
    };
    let (input, ok) = match computer_types(route.path) {
        Some((input, output)) => (Some(input), envelope(&schema::of(output, PREFIX)?, true)),
        None => (None, ok),
    };
    let failed = if is_computer { "Envelope" } else { "ApiError" };
    let mut operation = json!({ "operationId": name, "summary": route.about,
        "security": security(route.access), "responses": responses(Some((kind, &ok)), failed) });
    if route.access == Access::Own {
        // MCP says what passes here.
        operation["responses"] = json!({ "default": { "description": "as MCP says" } });
    }
    if let Some(input) = input {
        // What must be there, the types leave open, because every mistake has its own message.
        let mut schema = schemas.get(input).cloned().unwrap_or_default();
        let required: &[&str] = match route.path {
            "/computer/chat" => &["user_id", "prompt"],
            "/computer/agent/session/stop" => &["user_id", "session_id"],
            _ => &["user_id"],
        };
        schema["required"] = json!(required);
        operation["requestBody"] = json!({ "required": true,
            "content": { "application/json": { "schema": schema } } });
    }
    let parameters: Vec<Value> = route
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        })
        .collect();
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    Ok(operation)
}

/// Input and output of a route for back ends.
fn computer_types(path: &str) -> Option<(&'static str, &'static str)> {
    Some(match path {
        "/computer/chat" => ("ChatRequest", "ChatAnswer"),
        "/computer/agent/status" => ("ChatTarget", "AgentStatus"),
        "/computer/agent/stop" => ("ChatTarget", "AgentStopped"),
        "/computer/agent/session/cancel" => ("ChatTarget", "ChatCancelled"),
        "/computer/agent/session/stop" => ("ChatTarget", "SessionStopped"),
        _ => return None,
    })
}

fn security(access: Access) -> Value {
    match access {
        Access::Open => json!([]),
        Access::Bearer => json!([{ "token": [] }]),
        Access::BearerOrQuery => json!([{ "token": [] }, { "query": [] }]),
        Access::Own => json!([{ "agent": [] }]),
    }
}

fn responses(ok: Option<(&str, &Value)>, kind_of_failure: &str) -> Value {
    let content = |kind: &str, schema: &Value| json!({ kind: { "schema": schema } });
    let failed = json!({ "$ref": format!("{PREFIX}{kind_of_failure}") });
    let mut responses = Map::new();
    if let Some((kind, schema)) = ok {
        let answer = json!({ "description": "done", "content": content(kind, schema) });
        responses.insert("200".into(), answer);
    }
    let is_computer = kind_of_failure == "Envelope";
    for (status, code, means) in REFUSALS {
        let means = match status {
            502 if is_computer => continue,
            500 if is_computer => COMPUTER_FAILED.to_owned(),
            _ if code.is_empty() || is_computer => (*means).to_owned(),
            _ => format!("{code}: {means}"),
        };
        let answer =
            json!({ "description": means, "content": content("application/json", &failed) });
        responses.insert(status.to_string(), answer);
    }
    Value::Object(responses)
}

fn api_error() -> Value {
    json!({
        "type": "object", "required": ["ok", "error"],
        "properties": { "ok": { "const": false }, "error": { "type": "object",
            "required": ["code", "message"],
            "properties": { "code": { "type": "string" }, "message": { "type": "string" } } } },
    })
}

/// The envelope of `/computer/*`.
fn envelope(data: &Value, success: bool) -> Value {
    json!({
        "type": "object", "required": ["code", "message", "data", "tid", "success"],
        "properties": {
            "code": if success { json!({ "const": "0000" }) } else { json!({ "type": "string" }) },
            "message": { "type": "string" },
            "data": data,
            "tid": { "type": "null" },
            "success": { "const": success },
        },
    })
}
