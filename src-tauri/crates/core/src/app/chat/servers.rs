//! `context_servers` of a chat request, read leniently: back ends write them in
//! several dialects. What we do not know is kept.

use super::{
    super::{commands::check_transport, words},
    proxy,
};
use crate::{Error, Result, bridge::ServerSpec, wire::ServerConfig};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Where in the request they are, for messages.
const FIELD: &str = "agent_config.context_servers";
/// Proxies inside proxies that are still unfolded.
const DEEPEST: usize = 4;

/// What the reading depends on besides the request.
pub(super) struct Known<'a> {
    /// The saved servers, enabled or not: an entry that is only a name means one of them.
    pub saved: Vec<ServerSpec>,
    /// The bridge's URLs and the names of the saved servers behind them: an entry with one of
    /// these as `url` means that server too.
    pub urls: Vec<(String, String)>,
    /// Whether a program is in `PATH`.
    pub has_program: &'a dyn Fn(&str) -> bool,
}

/// The servers that are named and not switched off.
///
/// # Errors
/// Invalid; the message names the field.
pub(super) fn read(
    named: &BTreeMap<String, Value>,
    known: &Known<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<ServerSpec>> {
    let mut found = Vec::new();
    for (name, value) in named {
        let field = format!("{FIELD}.{name}");
        if name.trim().is_empty() {
            return Err(Error::invalid(format!("{FIELD}: a server has no name")));
        }
        entry(name, value, &field, known, 0, &mut found)?;
    }
    Ok(unique(found, warnings))
}

/// A server and the entry of the request that it came in.
struct Found {
    spec: ServerSpec,
    /// The name of the proxy around it.
    inside: Option<String>,
}

fn entry(
    name: &str,
    value: &Value,
    field: &str,
    known: &Known<'_>,
    depth: usize,
    found: &mut Vec<Found>,
) -> Result<()> {
    let mut config = match value {
        // `"recall": true` and `"recall": null` are names as well.
        Value::Bool(false) => return Ok(()),
        Value::Bool(true) | Value::Null => ServerConfig { enabled: true, ..Default::default() },
        Value::Object(fields) => config(fields, field)?,
        _ => return Err(Error::invalid(format!("{field}: must be an object"))),
    };
    if !config.enabled {
        return Ok(());
    }
    let command = config.command.clone().unwrap_or_default();
    match (command.is_empty(), config.url.clone()) {
        (false, Some(_)) => {
            return Err(Error::invalid(format!(
                "{field}: has both `command` and `url`; keep one of them"
            )));
        }
        (true, None) => config = by_name(name, config, known, field)?,
        (true, Some(url)) => {
            let same = |(known_url, _): &&(String, String)| is_same_url(known_url, &url);
            if let Some((_, saved)) = known.urls.iter().find(same) {
                config = by_name(saved, config, known, field)?;
            } else if !(url.starts_with("http://") || url.starts_with("https://")) {
                return Err(Error::invalid(format!(
                    "{field}.url: must begin with http:// or https://"
                )));
            }
        }
        (false, None) => {
            if depth < DEEPEST
                && let Some(proxy) = proxy::unfold(&command, &config.args)
            {
                return unfold(name, &config, &proxy, field, known, depth, found);
            }
        }
    }
    finish(&mut config, known);
    words::check(field, config.command.as_deref(), &config.args, &config.env)?;
    words::check_headers(field, &config.headers)?;
    let spec = ServerSpec { name: name.to_owned(), config };
    found.push(Found { spec, inside: None });
    Ok(())
}

fn unfold(
    outer_name: &str,
    outer: &ServerConfig,
    proxy: &proxy::Proxy,
    field: &str,
    known: &Known<'_>,
    depth: usize,
    found: &mut Vec<Found>,
) -> Result<()> {
    let inner = proxy::inside(&proxy.config)
        .map_err(|why| Error::invalid(format!("{field}.args: the value of --config is {why}")))?;
    for (name, value) in &inner {
        let begin = found.len();
        let inner_field = format!("{field}.args --config {name}");
        entry(name, value, &inner_field, known, depth + 1, found)?;
        for server in &mut found[begin..] {
            let config = &mut server.spec.config;
            for (variable, value) in &outer.env {
                config.env.entry(variable.clone()).or_insert_with(|| value.clone());
            }
            if config.url.is_some() {
                for (name, value) in &proxy.headers {
                    if !config.headers.keys().any(|own| own.eq_ignore_ascii_case(name)) {
                        config.headers.insert(name.clone(), value.clone());
                    }
                }
            }
            if config.allow_tools.is_empty() && config.deny_tools.is_empty() {
                config.allow_tools.extend(either(&proxy.allow, &outer.allow_tools));
                config.deny_tools.extend(either(&proxy.deny, &outer.deny_tools));
            }
            config.persistent |= outer.persistent;
            if config.cwd.is_none() {
                config.cwd.clone_from(&outer.cwd);
            }
            server.inside = Some(outer_name.to_owned());
        }
    }
    Ok(())
}

fn either(first: &[String], second: &[String]) -> Vec<String> {
    if first.is_empty() { second.to_vec() } else { first.to_vec() }
}

/// One name, one server. A server that stands in the request itself keeps its
/// name; one from inside a proxy gives way.
fn unique(found: Vec<Found>, warnings: &mut Vec<String>) -> Vec<ServerSpec> {
    let mut servers: Vec<ServerSpec> = Vec::new();
    let (plain, inner): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|server| server.inside.is_none());
    for Found { mut spec, inside } in plain.into_iter().chain(inner) {
        if servers.contains(&spec) {
            continue;
        }
        let taken = |name: &str| servers.iter().any(|other| other.name == name);
        if taken(&spec.name) {
            let old = spec.name.clone();
            let base = format!("{}-{old}", inside.unwrap_or_default());
            let numbered = (2..).map(|number| format!("{base}-{number}"));
            let free = std::iter::once(base.clone()).chain(numbered).find(|name| !taken(name));
            spec.name = free.unwrap_or(base);
            warnings.push(format!(
                "{FIELD}: two servers are named `{old}`; one of them is `{}` now",
                spec.name
            ));
        }
        servers.push(spec);
    }
    servers
}

/// The saved server of this name, with what the request says about it.
fn by_name(
    name: &str,
    asked: ServerConfig,
    known: &Known<'_>,
    field: &str,
) -> Result<ServerConfig> {
    let saved = known.saved.iter().find(|saved| saved.name == name).ok_or_else(|| {
        Error::invalid(format!(
            "{field}: has neither `command` nor `url`, and there is no saved server `{name}`"
        ))
    })?;
    let mut config = saved.config.clone();
    // The request asks for it, so whether it is on for everybody does not matter.
    config.enabled = true;
    config.env.extend(asked.env);
    if !(asked.allow_tools.is_empty() && asked.deny_tools.is_empty()) {
        config.allow_tools = asked.allow_tools;
        config.deny_tools = asked.deny_tools;
    }
    Ok(config)
}

fn is_same_url(first: &str, second: &str) -> bool {
    let plain = |url: &str| url.trim_end_matches('/').replace("://localhost:", "://127.0.0.1:");
    plain(first) == plain(second)
}

fn finish(config: &mut ServerConfig, known: &Known<'_>) {
    if let Some(token) = config.auth_token.take().filter(|token| !token.is_empty())
        && config.url.is_some()
        && !config.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
    {
        let value = match token.split_once(' ') {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("bearer") => token,
            _ => format!("Bearer {token}"),
        };
        config.headers.insert("Authorization".into(), value);
    }
    let is_uvx = matches!(config.command.as_deref(), Some("uvx" | "uvx.exe"));
    if is_uvx && !(known.has_program)("uvx") && (known.has_program)("uv") {
        config.command = Some("uv".into());
        config.args.splice(0..0, ["tool".to_owned(), "run".to_owned()]);
    }
}

/// Reads one entry, whatever its dialect.
fn config(fields: &Map<String, Value>, field: &str) -> Result<ServerConfig> {
    let mut plain = Map::new();
    for (name, value) in fields {
        if value.is_null() {
            continue;
        }
        let (name, value) = match name.as_str() {
            "command" | "cwd" | "transport" => (name.as_str(), text(name, value, field)?),
            "url" | "serverUrl" | "httpUrl" => ("url", text(name, value, field)?),
            "authToken" | "auth_token" => ("authToken", text(name, value, field)?),
            // `type` says what `transport` says, where that is absent.
            "type" if !fields.contains_key("transport") && value != "stdio" => {
                ("transport", text(name, value, field)?)
            }
            "args" => ("args", list(name, value, field)?),
            "allowTools" | "allow_tools" => ("allowTools", names(name, value, field)?),
            "denyTools" | "deny_tools" => ("denyTools", names(name, value, field)?),
            "env" | "headers" => (name.as_str(), map(name, value, field)?),
            "enabled" | "persistent" => (name.as_str(), switch(name, value, field)?),
            "disabled" => {
                ("enabled", Value::Bool(switch(name, value, field)? == Value::Bool(false)))
            }
            _ => (name.as_str(), value.clone()),
        };
        // An empty text is nothing, and the first of two spellings counts.
        if value != "" && !plain.contains_key(name) {
            plain.insert(name.to_owned(), value);
        }
    }
    if let Some(Value::String(transport)) = plain.get_mut("transport")
        && matches!(
            transport.as_str(),
            "http" | "streamable_http" | "streamableHttp" | "streamablehttp"
        )
    {
        *transport = "streamable-http".into();
    }
    if plain.contains_key("url") {
        check_transport(field, plain.get("transport").and_then(Value::as_str))?;
    }
    serde_json::from_value(Value::Object(plain))
        .map_err(|error| Error::invalid(format!("{field}: {error}")))
}

fn wrong(name: &str, field: &str, what: &str) -> Error {
    Error::invalid(format!("{field}.{name}: must be {what}"))
}

/// A string; numbers and truth values as they are written.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}

fn text(name: &str, value: &Value, field: &str) -> Result<Value> {
    match value {
        Value::String(text) => Ok(Value::String(text.trim().to_owned())),
        _ => Err(wrong(name, field, "a string")),
    }
}

fn list(name: &str, value: &Value, field: &str) -> Result<Value> {
    let items = match value {
        Value::Array(items) => items.iter().map(scalar).collect::<Option<Vec<_>>>(),
        Value::String(one) => Some(vec![one.clone()]),
        _ => None,
    };
    items.map(Value::from).ok_or_else(|| wrong(name, field, "a list of strings"))
}

/// A list of names, or one text with commas.
fn names(name: &str, value: &Value, field: &str) -> Result<Value> {
    if let Value::String(text) = value {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        return Ok(names.collect());
    }
    list(name, value, field)
}

fn map(name: &str, value: &Value, field: &str) -> Result<Value> {
    let Value::Object(fields) = value else {
        return Err(wrong(name, field, "an object of strings"));
    };
    let mut plain = Map::new();
    for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let text = scalar(value).ok_or_else(|| wrong(name, field, "an object of strings"))?;
        plain.insert(key.clone(), Value::String(text));
    }
    Ok(Value::Object(plain))
}

fn switch(name: &str, value: &Value, field: &str) -> Result<Value> {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(Value::Bool(true)),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(Value::Bool(false)),
        _ => Err(wrong(name, field, "true or false")),
    }
}

#[cfg(test)]
#[path = "servers_tests.rs"]
mod tests;
