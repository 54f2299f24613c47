//! Which servers a configuration names, whatever program it was written for.

use serde_json::{Map, Value};
use std::path::Path;

/// One server as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Its name there.
    pub name: String,
    /// Where in the file, for people; empty when that says nothing.
    pub scope: String,
    /// Its entry.
    pub entry: Value,
}

/// The objects that hold servers by name, the usual one first.
const ROOTS: &[&[&str]] = &[
    &["mcpServers"],
    &["servers"],
    &["mcp", "servers"],
    &["mcp", "mcpServers"],
    &["mcp"],
    &["context_servers"],
];
/// What makes an object a server.
const MARKS: &[&str] = &["command", "cmd", "url", "httpUrl", "serverUrl", "baseUrl", "uri"];

/// All servers in a value.
///
/// # Errors
/// What was expected, when there is nothing that looks like a server.
pub fn servers(value: &Value) -> Result<Vec<Written>, String> {
    let mut found = Vec::new();
    match value {
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                match servers(item) {
                    Ok(more) => found.extend(more),
                    Err(_) => found.push(Written {
                        name: format!("#{}", number + 1),
                        scope: String::new(),
                        entry: item.clone(),
                    }),
                }
            }
        }
        Value::Object(root) => {
            if is_server(value) {
                found.push(Written {
                    name: own_name(root),
                    scope: String::new(),
                    entry: value.clone(),
                });
            } else if let Some(holder) = ROOTS.iter().find_map(|path| holder(value, path)) {
                found.extend(held(holder, ""));
            } else if root.values().any(is_server) {
                found.extend(held(value, ""));
            }
            // Claude Code keeps more of them for single folders.
            for (folder, project) in
                root.get("projects").and_then(Value::as_object).into_iter().flatten()
            {
                if let Some(holder) = holder(project, &["mcpServers"]) {
                    found.extend(held(holder, folder));
                }
            }
        }
        _ => {}
    }
    if found.is_empty() && !is_empty_configuration(value) {
        return Err("no MCP server is in it; expected `{\"mcpServers\": {\"name\": \
                    {\"command\": …} or {\"url\": …}}}`"
            .to_owned());
    }
    Ok(found)
}

fn is_server(value: &Value) -> bool {
    let Value::Object(fields) = value else { return false };
    MARKS.iter().any(|mark| matches!(fields.get(*mark), Some(Value::String(_) | Value::Array(_))))
        // Zed wrote the program as an object for a while.
        || fields.get("command").is_some_and(|command| command["path"].is_string())
}

/// A file with a place for servers and none in it is fine.
fn is_empty_configuration(value: &Value) -> bool {
    ROOTS.iter().any(|path| at(value, path).is_some_and(Value::is_object))
}

fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |inner, name| inner.get(name))
}

fn holder<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let holder = at(value, path)?;
    let holds = match holder {
        Value::Object(fields) => fields.values().any(Value::is_object),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    holds.then_some(holder)
}

/// The servers of an object by name, or of a list whose entries have their names inside.
fn held(holder: &Value, scope: &str) -> Vec<Written> {
    match holder {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, entry)| Written {
                name: name.clone(),
                scope: scope.to_owned(),
                entry: entry.clone(),
            })
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(number, entry)| {
                let name = entry.as_object().map(own_name).unwrap_or_default();
                let name = if name.is_empty() { format!("#{}", number + 1) } else { name };
                Written { name, scope: scope.to_owned(), entry: entry.clone() }
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// The name for an entry that has none above it.
pub fn name_of(entry: &Value) -> String {
    entry.as_object().map(own_name).unwrap_or_default()
}

/// The name of a server that stands alone: its own, else that of its program or host.
fn own_name(fields: &Map<String, Value>) -> String {
    let text = |key: &str| fields.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(name) = ["name", "id", "key"].into_iter().find_map(text) {
        return name.to_owned();
    }
    let address = ["url", "httpUrl", "serverUrl", "baseUrl", "uri"].into_iter().find_map(text);
    if let Some(host) = address
        .and_then(|url| url.split_once("://"))
        .and_then(|(_, rest)| rest.split(['/', ':', '?']).next())
    {
        return host.to_owned();
    }
    // `npx -y @scope/server-x` is `server-x`; `/opt/bin/tool` is `tool`.
    let package = fields
        .get("args")
        .and_then(Value::as_array)
        .and_then(|args| args.iter().filter_map(Value::as_str).find(|arg| !arg.starts_with('-')));
    let command = text("command").unwrap_or_default();
    let base = Path::new(command).file_stem().map(|name| name.to_string_lossy().into_owned());
    let runs_packages = matches!(base.as_deref(), Some("npx" | "uvx" | "bunx" | "pipx"));
    let name = if runs_packages { package.map(str::to_owned) } else { base };
    let name = name.unwrap_or_default();
    name.rsplit('/').next().unwrap_or_default().split('@').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(value: Value) -> Vec<String> {
        servers(&value).unwrap().into_iter().map(|written| written.name).collect()
    }

    #[test]
    fn every_usual_wrapper_is_looked_into() {
        let a = json!({"a": {"command": "x"}, "b": {"url": "https://h"}});
        for value in [
            json!({"mcpServers": a}),
            json!({"servers": a, "inputs": []}),
            json!({"mcp": {"servers": a}}),
            json!({"mcp": a, "$schema": "x"}),
            json!({"context_servers": a, "theme": "x"}),
            a.clone(),
            json!([{"name": "a", "command": "x"}, {"name": "b", "url": "https://h"}]),
            json!({"mcpServers": [{"name": "a", "command": "x"}, {"name": "b", "url": "y"}]}),
            json!([{"a": {"command": "x"}}, {"b": {"command": "y"}}]),
        ] {
            assert_eq!(names(value.clone()), ["a", "b"], "{value}");
        }
        assert!(names(json!({"mcpServers": {}})).is_empty());
    }

    #[test]
    fn claude_codes_folders_are_named() {
        let found = servers(&json!({
            "mcpServers": {"a": {"command": "x"}},
            "projects": {"/w": {"mcpServers": {"b": {"command": "y"}}, "history": []}, "/v": {}},
        }));
        let found = found.unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].name.as_str(), found[1].scope.as_str()), ("b", "/w"));
    }

    #[test]
    fn one_server_alone_gets_a_name() {
        for (value, name) in [
            (json!({"command": "npx", "args": ["-y", "@org/server-x@1.2"]}), "server-x"),
            (json!({"command": "/opt/bin/tool.exe"}), "tool"),
            (json!({"url": "https://mcp.example.com:8443/x"}), "mcp.example.com"),
            (json!({"name": "own", "command": "uvx"}), "own"),
        ] {
            assert_eq!(names(value), [name]);
        }
    }

    #[test]
    fn one_without_a_name_above_it_gets_one_too() {
        assert_eq!(name_of(&json!({"command": "/opt/bin/tool"})), "tool");
        assert_eq!(name_of(&json!(5)), "");
    }

    #[test]
    fn what_names_no_server_is_said() {
        for value in
            [json!({}), json!({"a": 1}), json!(["x"]), json!("text"), json!({"a": {"b": 1}})]
        {
            let result = servers(&value);
            let is_named_only = value.is_array();
            assert_eq!(result.is_ok(), is_named_only, "{value}");
        }
    }
}
