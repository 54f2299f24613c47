//! The reference: `GET /api` (JSON Schema), `GET /api/openapi.json` and
//! `GET /api/docs`, all made from the command table and the wire types.

mod document;
mod locked;
mod page;
mod schema;

pub(crate) use locked::{asks_for_a_page, locked};

use crate::answer;
use axum::{
    Json,
    http::header,
    response::{IntoResponse as _, Response},
};
use document::document;
use gantry_core::{Error, api};
use serde_json::{Value, json};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_in_the_document_with_what_it_asks_for() {
        let document = document().unwrap();
        let mut described = 0;
        for route in crate::table::all().filter(|route| route.path != "/api/{command}") {
            let operation = &document["paths"][route.path][route.method];
            assert!(operation["responses"].is_object(), "{} {}", route.method, route.path);
            let security = operation["security"].as_array().unwrap();
            let schemes = security.iter().flat_map(|one| one.as_object().unwrap().keys());
            let wanted: &[&str] = match route.access {
                crate::table::Access::Open => &[],
                crate::table::Access::Bearer => &["token"],
                crate::table::Access::BearerOrQuery => &["token", "query"],
                crate::table::Access::Own => &["agent"],
            };
            assert_eq!(schemes.collect::<Vec<_>>(), wanted, "{} {}", route.method, route.path);
            described += 1;
        }
        let paths = document["paths"].as_object().unwrap();
        let operations: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
        assert_eq!(operations, described + api::COMMANDS.len(), "and nothing else is");
    }

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
