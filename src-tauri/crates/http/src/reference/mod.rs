//! The reference: `GET /api` (JSON Schema), `GET /api/openapi.json` and
//! `GET /api/docs`, all made from the command table and the wire types.

mod page;
mod schema;

use crate::answer;
use axum::{
    Json,
    http::header,
    response::{IntoResponse as _, Response},
};
use gantry_core::{Error, api};
use serde_json::{Map, Value, json};

/// A command with its schemas.
struct Command {
    name: &'static str,
    about: &'static str,
    input: String,
    output: String,
}

fn commands() -> impl Iterator<Item = Command> {
    let config = ts_rs::Config::new().with_large_int("number");
    api::COMMANDS.iter().map(move |command| Command {
        name: command.name,
        about: command.about.trim(),
        input: (command.input)(&config),
        output: (command.output)(&config),
    })
}

/// `GET /api`: all commands with their types, as JSON Schema and as TypeScript.
pub(crate) async fn list() -> Response {
    let text = api::typescript();
    let prefix = "#/data/definitions/";
    let listed = schema::declarations(&text, prefix).and_then(|definitions| {
        let commands = commands().map(|command| {
            Ok(json!({
                "name": command.name,
                "about": command.about,
                "input": command.input,
                "output": command.output,
                "input_schema": schema::of(&command.input, prefix)?,
                "output_schema": schema::of(&command.output, prefix)?,
            }))
        });
        let commands: Vec<Value> = commands.collect::<Result<_, String>>()?;
        Ok(json!({ "commands": commands, "definitions": definitions, "types": text }))
    });
    match listed {
        Ok(listed) => answer::api(listed),
        Err(why) => answer::failed_api(&Error::failed(format!("the reference: {why}"))),
    }
}

/// `GET /api/openapi.json`.
pub(crate) async fn openapi() -> Response {
    match document() {
        Ok(document) => Json(document).into_response(),
        Err(why) => answer::failed_api(&Error::failed(format!("the reference: {why}"))),
    }
}

/// `GET /api/docs`: the reference to read, without anything from elsewhere.
pub(crate) async fn docs() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, page::page(commands(), &api::typescript())).into_response()
}

/// What can go wrong with every request, and what it means.
const REFUSALS: &[(u16, &str)] = &[
    (400, "the input is wrong; the message names the field"),
    (401, "no token, or a wrong one"),
    (403, "a foreign Host or Origin"),
    (404, "the session, server, agent or command is not there"),
    (405, "the route is there, but not for this method"),
    (408, "the body took longer than a minute"),
    (409, "a turn is running"),
    (413, "the body is larger than 10 MiB"),
    (431, "the head of the request is too large"),
    (500, "it was tried and failed; the message says what"),
    (503, "Gantry is shutting down"),
];

fn document() -> Result<Value, String> {
    let prefix = "#/components/schemas/";
    let schemas = schema::declarations(&api::typescript(), prefix)?;
    let mut paths = Map::new();
    for command in commands() {
        let data = schema::of(&command.output, prefix)?;
        let ok = json!({ "type": "object", "required": ["ok", "data"],
            "properties": { "ok": { "const": true }, "data": data } });
        let input = schema::of(&command.input, prefix)?;
        let operation = operation(command.about, command.name, Some(input), &ok, "ApiError");
        paths.insert(format!("/api/{}", command.name), json!({ "post": operation }));
    }
    let any = json!({ "type": "object" });
    for (path, about, input) in [
        ("chat", "Hands a prompt to an agent.", json!({ "$ref": format!("{prefix}ChatRequest") })),
        ("agent/status", "Whether the project's agent works.", any.clone()),
        ("agent/stop", "Stops the project's agent.", any.clone()),
        ("agent/session/cancel", "Cancels the running turn.", any.clone()),
        ("agent/session/stop", "Stops a session.", any.clone()),
    ] {
        let ok = json!({ "$ref": format!("{prefix}Envelope") });
        let name = format!("computer_{}", path.replace('/', "_"));
        let operation = operation(about, &name, Some(input), &ok, "Envelope");
        paths.insert(format!("/computer/{path}"), json!({ "post": operation }));
    }
    for (path, about, kind) in [
        ("/health", "Whether it is well; needs no token.", "application/json"),
        ("/metrics", "What is known now, as Prometheus reads it.", "text/plain"),
        ("/api", "All commands with their types.", "application/json"),
    ] {
        let mut operation = operation(about, path.trim_start_matches('/'), None, &any, "ApiError");
        operation["responses"]["200"]["content"] = json!({ kind: {} });
        paths.insert(path.to_owned(), json!({ "get": operation }));
    }
    let mut schemas = schemas;
    schemas.insert(
        "ApiError".into(),
        json!({
            "type": "object", "required": ["ok", "error"],
            "properties": { "ok": { "const": false }, "error": { "type": "object",
                "required": ["code", "message"],
                "properties": { "code": { "type": "string" }, "message": { "type": "string" } } } },
        }),
    );
    schemas.insert(
        "Envelope".into(),
        json!({
            "type": "object", "required": ["code", "message", "success"],
            "properties": { "code": { "type": "string" }, "message": { "type": "string" },
                "success": { "type": "boolean" } },
        }),
    );
    Ok(json!({
        "openapi": "3.1.0",
        "info": { "title": "Gantry", "version": gantry_core::VERSION },
        "security": [{ "token": [] }],
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "paths": paths,
    }))
}

fn operation(about: &str, name: &str, input: Option<Value>, ok: &Value, failed: &str) -> Value {
    let content = |schema: &Value| json!({ "application/json": { "schema": schema } });
    let failed = json!({ "$ref": format!("#/components/schemas/{failed}") });
    let mut responses = Map::new();
    responses.insert("200".into(), json!({ "description": "done", "content": content(ok) }));
    for (status, means) in REFUSALS {
        let answer = json!({ "description": means, "content": content(&failed) });
        responses.insert(status.to_string(), answer);
    }
    let mut operation =
        json!({ "operationId": name, "summary": about, "responses": Value::Object(responses) });
    if let Some(input) = input {
        operation["requestBody"] = json!({ "required": true, "content": content(&input) });
    }
    operation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_the_document_with_its_types() {
        let document = document().unwrap();
        for command in api::COMMANDS {
            let operation = &document["paths"][format!("/api/{}", command.name)]["post"];
            assert!(operation["requestBody"]["content"].is_object(), "{}", command.name);
            assert!(operation["responses"]["200"]["content"].is_object(), "{}", command.name);
            assert!(!operation["summary"].as_str().unwrap().is_empty(), "{}", command.name);
        }
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for reference in document.to_string().split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name} is declared nowhere");
        }
    }

    #[test]
    fn the_page_names_every_command_and_loads_nothing() {
        let page = page::page(commands(), &api::typescript());
        for command in api::COMMANDS {
            assert!(page.contains(&format!("<h3 id=\"{0}\">", command.name)), "{}", command.name);
        }
        for mark in ["src=", "http-equiv", "@import", "url(", "<script", "<link"] {
            assert!(!page.contains(mark), "{mark}");
        }
    }
}
