//! One server's entry, of whichever program, as a configuration of ours.

use super::client::sign_in;
use crate::wire::ServerConfig;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, path::Path};

/// Fields of ours that may come as they are.
const OURS: &[&str] = &["persistent", "isolation", "startTimeoutMs", "callTimeoutMs"];
/// Fields that only say what we say ourselves, or that a person reads.
const SAID: &[&str] =
    &["name", "id", "type", "enabled", "disabled", "isActive", "active", "description"];
/// A name that ends so usually holds a secret.
const SECRETS: &[&str] = &["TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "AUTHORIZATION", "PAT"];

/// What became of an entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Read {
    /// As Gantry keeps it; never enabled.
    pub config: ServerConfig,
    /// What a person should know before it is used.
    pub problems: Vec<String>,
    /// Whether it cannot be saved as it is.
    pub is_refused: bool,
}

impl Read {
    pub(super) fn problem(&mut self, text: impl Into<String>) {
        self.problems.push(text.into());
    }

    fn refuse(&mut self, text: impl Into<String>) {
        self.is_refused = true;
        self.problem(text);
    }
}

/// Reads it. `home` stands for `${userHome}`.
pub fn read(entry: &Value, home: Option<&Path>) -> Read {
    let mut read = Read::default();
    read.config.enabled = false;
    let Value::Object(fields) = entry else {
        read.refuse("this is no server: an object with `command` or `url` was expected");
        return read;
    };
    let mut fields = fields.clone();
    program(&mut fields, &mut read);
    address(&mut fields, &mut read);
    sign_in(&mut fields, &mut read);
    read.config.cwd = text(&mut fields, "cwd", &mut read);
    for key in ["env", "environment", "envs"] {
        let pairs = pairs(&mut fields, key, &mut read);
        read.config.env.extend(pairs);
    }
    read.config.headers = pairs(&mut fields, "headers", &mut read);
    for (key, allows) in [
        ("allowTools", true),
        ("includeTools", true),
        ("denyTools", false),
        ("excludeTools", false),
    ] {
        let names = texts(&mut fields, key, &mut read);
        let list = if allows { &mut read.config.allow_tools } else { &mut read.config.deny_tools };
        list.extend(names);
    }
    let mut ours = Map::new();
    for key in OURS {
        if let Some(value) = fields.remove(*key) {
            ours.insert((*key).to_owned(), value);
        }
    }
    match serde_json::from_value::<ServerConfig>(Value::Object(ours)) {
        Ok(own) => {
            read.config.persistent = own.persistent;
            read.config.isolation = own.isolation;
            read.config.start_timeout_ms = own.start_timeout_ms;
            read.config.call_timeout_ms = own.call_timeout_ms;
        }
        Err(error) => read.problem(format!("left out what could not be read: {error}")),
    }
    fields.retain(|key, _| !SAID.contains(&key.as_str()));
    notes(&fields, &mut read);
    read.config.other = fields;
    references(&mut read, home);
    match (&read.config.command, &read.config.url) {
        (None, None) => read.refuse("it has neither `command` nor `url`"),
        (Some(_), Some(_)) => read.refuse("it has both `command` and `url`; keep one of them"),
        (None, Some(url)) if !url.starts_with("http://") && !url.starts_with("https://") => {
            read.refuse("its `url` does not begin with http:// or https://");
        }
        _ => {}
    }
    read
}

/// `command` and `args`, also where the command is a list or an object.
fn program(fields: &mut Map<String, Value>, read: &mut Read) {
    let command = fields.remove("command").or_else(|| fields.remove("cmd"));
    let mut args = texts(fields, "args", read);
    match command {
        None | Some(Value::Null) => {}
        Some(Value::String(command)) if args.is_empty() && is_line(&command) => {
            let mut words = command.split_whitespace().map(str::to_owned);
            read.config.command = words.next();
            args = words.collect();
            read.problem("`command` was a whole line; it was split at its spaces");
        }
        Some(Value::String(command)) => read.config.command = filled(&command),
        Some(Value::Array(words)) => {
            let mut words = words.into_iter().filter_map(|word| match word {
                Value::String(word) => Some(word),
                _ => None,
            });
            read.config.command = words.next().as_deref().and_then(filled);
            args = words.chain(args).collect();
        }
        Some(Value::Object(mut inner)) => {
            read.config.command = text(&mut inner, "path", read);
            args = texts(&mut inner, "args", read);
            read.config.env = pairs(&mut inner, "env", read);
        }
        Some(_) => read.problem("`command` is not a text"),
    }
    read.config.args = args;
}

/// Whether it is a command line rather than a program: it has spaces, and its first word is no
/// path, which may have spaces itself.
fn is_line(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or_default();
    words.next().is_some() && !first.contains(['/', '\\', '"', '\''])
}

/// The address, and what is spoken there.
fn address(fields: &mut Map<String, Value>, read: &mut Read) {
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    let transport = text(fields, "transport", read).unwrap_or_default().to_lowercase();
    for (key, spoken) in [
        ("httpUrl", Some("streamable-http")),
        ("url", None),
        ("serverUrl", None),
        ("baseUrl", None),
        ("uri", None),
    ] {
        let Some(url) = text(fields, key, read) else { continue };
        if read.config.url.is_some() {
            continue;
        }
        read.config.transport = match (transport.as_str(), kind.as_str(), spoken) {
            (_, _, Some(spoken)) => Some(spoken.to_owned()),
            ("sse", ..) | (_, "sse", _) => Some("sse".to_owned()),
            ("streamable-http" | "streamable_http" | "http" | "streamablehttp", ..)
            | (_, "http" | "streamable-http" | "streamable_http" | "streamablehttp", _) => {
                Some("streamable-http".to_owned())
            }
            _ => None,
        };
        read.config.url = Some(url);
    }
    read.config.auth_token = text(fields, "authToken", read);
    // Some write an empty command beside an address, and the other way round.
    if matches!(kind.as_str(), "stdio" | "local") && read.config.command.is_some() {
        read.config.url = None;
        read.config.transport = None;
    }
}

/// What is kept, but does nothing here.
fn notes(fields: &Map<String, Value>, read: &mut Read) {
    if let Some(file) = fields.get("envFile").and_then(Value::as_str) {
        read.problem(format!(
            "`envFile` ({file}) is not read; put its variables into the server's environment"
        ));
    }
    for key in ["sandbox", "sandboxEnabled"] {
        if fields.get(key).is_some_and(|value| value != &Value::Bool(false)) {
            read.problem(format!("`{key}` is not used: the server runs with your own rights"));
        }
    }
}

/// `${NAME}`, `${env:NAME}`, `{env:NAME}` become ours; the rest is told.
fn references(read: &mut Read, home: Option<&Path>) {
    let mut problems = Vec::new();
    let config = &mut read.config;
    let mut unify = |place: String, value: &mut String, may_refer: bool| {
        if let Some(changed) = unified(value, &place, may_refer, home, &mut problems) {
            *value = changed;
        }
    };
    for (key, value) in &mut config.env {
        unify(format!("env.{key}"), value, true);
    }
    for (key, value) in &mut config.headers {
        unify(format!("headers.{key}"), value, true);
    }
    if let Some(token) = &mut config.auth_token {
        unify("authToken".to_owned(), token, true);
    }
    if let Some(secret) = config.client_secret_mut() {
        unify("oauth.clientSecret".to_owned(), secret, true);
    }
    if let Some(command) = &mut config.command {
        unify("command".to_owned(), command, false);
    }
    for (number, arg) in config.args.iter_mut().enumerate() {
        unify(format!("args[{number}]"), arg, false);
    }
    if let Some(cwd) = &mut config.cwd {
        unify("cwd".to_owned(), cwd, false);
    }
    if let Some(url) = &mut config.url {
        unify("url".to_owned(), url, false);
    }
    for (key, value) in config.env.iter().chain(&config.headers) {
        let name = key.to_uppercase().replace('-', "_");
        let is_secret = SECRETS
            .iter()
            .any(|end| name == *end || name.ends_with(&format!("_{end}")) || name.ends_with(end));
        if is_secret && !value.is_empty() && !value.contains("${") {
            problems.push(format!("`{key}` looks like a secret; it is stored as it is"));
        }
    }
    read.problems.extend(problems);
}

/// The value with references in our form; `None` when nothing changes.
fn unified(
    value: &str,
    place: &str,
    may_refer: bool,
    home: Option<&Path>,
    problems: &mut Vec<String>,
) -> Option<String> {
    let mut out = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('{') {
        let (before, inside) = (&rest[..at], &rest[at + 1..]);
        let Some(end) = inside.find('}') else { break };
        let has_dollar = before.ends_with('$');
        let word = &inside[..end];
        let whole_end = at + 1 + end + 1;
        if !has_dollar && !word.starts_with("env:") {
            out.push_str(&rest[..whole_end]);
            rest = &rest[whole_end..];
            continue;
        }
        out.push_str(before.strip_suffix('$').unwrap_or(before));
        out.push_str(&reference(word, place, may_refer, home, problems));
        rest = &rest[whole_end..];
    }
    out.push_str(rest);
    (out != value).then_some(out)
}

fn reference(
    word: &str,
    place: &str,
    may_refer: bool,
    home: Option<&Path>,
    problems: &mut Vec<String>,
) -> String {
    let kept = format!("${{{word}}}");
    let name = word.strip_prefix("env:").unwrap_or(word);
    if let Some((name, default)) = name.split_once(":-") {
        problems.push(format!(
            "`{place}`: the default of ${{{name}}} was not taken over; it must be set, or write \
             the value here"
        ));
        let _ = default;
        return variable(name, place, may_refer, problems);
    }
    match word {
        "userHome" => {
            return home.map_or(kept, |home| home.to_string_lossy().into_owned());
        }
        "pathSeparator" | "/" => return std::path::MAIN_SEPARATOR.to_string(),
        _ => {}
    }
    if word.starts_with("workspaceFolder") {
        problems.push(format!("`{place}`: ${{{word}}} has no meaning here; write the folder"));
        return kept;
    }
    if let Some(id) = word.strip_prefix("input:") {
        problems.push(format!(
            "`{place}`: it asks for a value (`{id}`); write it, or ${{env:NAME}}, before you enable it"
        ));
        return format!("${{secret:{id}}}");
    }
    if word.starts_with("secret:") {
        return kept;
    }
    variable(name, place, may_refer, problems)
}

fn variable(name: &str, place: &str, may_refer: bool, problems: &mut Vec<String>) -> String {
    let is_name = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if !is_name {
        return format!("${{{name}}}");
    }
    if !may_refer {
        problems.push(format!(
            "`{place}`: ${{{name}}} is not filled in there; write the value, or pass it in `env`"
        ));
    }
    format!("${{env:{name}}}")
}

fn filled(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

pub(super) fn text(fields: &mut Map<String, Value>, key: &str, read: &mut Read) -> Option<String> {
    match fields.remove(key) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => filled(&text),
        Some(_) => {
            read.problem(format!("`{key}` is not a text and was left out"));
            None
        }
    }
}

fn texts(fields: &mut Map<String, Value>, key: &str, read: &mut Read) -> Vec<String> {
    match fields.remove(key) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(line)) => {
            let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            if words.len() > 1 {
                read.problem(format!("`{key}` was one text; it was split at its spaces"));
            }
            words
        }
        Some(Value::Array(items)) => items
            .into_iter()
            .filter_map(|item| match item {
                Value::String(text) => Some(text),
                Value::Number(number) => Some(number.to_string()),
                Value::Bool(truth) => Some(truth.to_string()),
                _ => {
                    read.problem(format!("an entry of `{key}` is not a text and was left out"));
                    None
                }
            })
            .collect(),
        Some(_) => {
            read.problem(format!("`{key}` is not a list and was left out"));
            Vec::new()
        }
    }
}

fn pairs(fields: &mut Map<String, Value>, key: &str, read: &mut Read) -> BTreeMap<String, String> {
    match fields.remove(key) {
        None | Some(Value::Null) => BTreeMap::new(),
        Some(Value::Object(pairs)) => pairs
            .into_iter()
            .filter_map(|(name, value)| match value {
                Value::String(text) => Some((name, text)),
                Value::Number(number) => Some((name, number.to_string())),
                Value::Bool(truth) => Some((name, truth.to_string())),
                _ => {
                    read.problem(format!("`{key}.{name}` is not a text and was left out"));
                    None
                }
            })
            .collect(),
        Some(_) => {
            read.problem(format!("`{key}` is not an object and was left out"));
            BTreeMap::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(entry: Value) -> Read {
        read(&entry, Some(Path::new("/home/u")))
    }

    #[test]
    fn programs_and_addresses_of_every_form() {
        for (entry, command, args, url, transport) in [
            (
                json!({"command": "npx", "args": ["-y", 1]}),
                Some("npx"),
                &["-y", "1"][..],
                None,
                None,
            ),
            (
                json!({"type": "local", "command": ["npx", "-y", "p"]}),
                Some("npx"),
                &["-y", "p"],
                None,
                None,
            ),
            (json!({"command": "npx -y p"}), Some("npx"), &["-y", "p"], None, None),
            (json!({"command": "npx", "args": "-y p"}), Some("npx"), &["-y", "p"], None, None),
            // A path may have spaces of its own.
            (
                json!({"command": "C:\\Program Files\\x.exe"}),
                Some("C:\\Program Files\\x.exe"),
                &[],
                None,
                None,
            ),
            (json!({"command": {"path": "/x", "args": ["a"]}}), Some("/x"), &["a"], None, None),
            (
                json!({"type": "http", "url": "https://h", "command": ""}),
                None,
                &[],
                Some("https://h"),
                Some("streamable-http"),
            ),
            (
                json!({"type": "streamableHttp", "baseUrl": "https://h"}),
                None,
                &[],
                Some("https://h"),
                Some("streamable-http"),
            ),
            (
                json!({"httpUrl": "https://h"}),
                None,
                &[],
                Some("https://h"),
                Some("streamable-http"),
            ),
            (json!({"type": "sse", "url": "https://h"}), None, &[], Some("https://h"), Some("sse")),
            (json!({"url": "https://h"}), None, &[], Some("https://h"), None),
        ] {
            let read = of(entry.clone());
            assert!(!read.is_refused && !read.config.enabled, "{entry}: {read:?}");
            assert_eq!(read.config.command.as_deref(), command, "{entry}");
            assert_eq!(read.config.args, args, "{entry}");
            assert_eq!(read.config.url.as_deref(), url, "{entry}");
            assert_eq!(read.config.transport.as_deref(), transport, "{entry}");
        }
    }

    #[test]
    fn references_are_put_into_our_form() {
        let read = of(json!({
            "command": "x", "cwd": "${userHome}/w", "args": ["${workspaceFolder}", "{literal}"],
            "env": {"A": "${TOKEN}", "B": "${env:B}", "C": "{env:C}", "D": "${E:-def}", "F": "$PLAIN ${",
                     "G": "${input:key}"},
        }));
        let env = &read.config.env;
        assert_eq!(env["A"], "${env:TOKEN}");
        assert_eq!(env["B"], "${env:B}");
        assert_eq!(env["C"], "${env:C}");
        assert_eq!(env["D"], "${env:E}");
        assert_eq!(env["F"], "$PLAIN ${");
        assert_eq!(env["G"], "${secret:key}");
        assert_eq!(read.config.cwd.as_deref(), Some("/home/u/w"));
        assert_eq!(read.config.args, ["${workspaceFolder}", "{literal}"]);
        assert_eq!(read.problems.len(), 3, "{:?}", read.problems);
    }

    #[test]
    fn what_does_nothing_here_is_kept_and_told() {
        let read = of(json!({
            "command": "x", "envFile": ".env", "disabled": false, "autoApprove": ["a"],
            "env": {"API_KEY": "planted", "LEVEL": 3, "BAD": [1]},
        }));
        assert_eq!(read.config.other["autoApprove"], json!(["a"]));
        assert_eq!(read.config.env["LEVEL"], "3");
        let told = read.problems.join("\n");
        for word in ["envFile", "API_KEY", "env.BAD"] {
            assert!(told.contains(word), "{told}");
        }
        assert!(!told.contains("planted"), "{told}");
    }

    #[test]
    fn what_cannot_be_started_is_refused_with_the_reason() {
        for (entry, word) in [
            (json!({}), "neither"),
            (json!({"command": "x", "url": "https://h"}), "both"),
            (json!({"url": "unix:///sock"}), "http://"),
            (json!("npx"), "object"),
        ] {
            let read = of(entry.clone());
            assert!(read.is_refused && read.problems.join(" ").contains(word), "{entry}: {read:?}");
        }
    }
}
