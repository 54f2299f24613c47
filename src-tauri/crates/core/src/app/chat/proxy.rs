//! Servers that back ends wrap into a stdio proxy of their own:
//! `mcp-proxy --config '{"mcpServers":{…}}' --allow-tools a,b -H K=V`. We are
//! the proxy, so what is inside is taken out.

use serde_json::{Map, Value};

/// What the arguments of a proxy say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Proxy {
    /// The configuration, as JSON text.
    pub config: String,
    /// For each server inside that has no list of its own.
    pub allow: Vec<String>,
    /// The same.
    pub deny: Vec<String>,
    /// For each server inside that has no such header.
    pub headers: Vec<(String, String)>,
}

/// The proxy behind a command, if it is one that can be unfolded.
pub(super) fn unfold(command: &str, args: &[String]) -> Option<Proxy> {
    is_proxy(command).then(|| parse(args)).flatten()
}

fn is_proxy(command: &str) -> bool {
    // Both kinds of path, wherever we run: the request may come from elsewhere.
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command).to_ascii_lowercase();
    name.strip_suffix(".exe").unwrap_or(&name) == "mcp-proxy"
}

fn parse(args: &[String]) -> Option<Proxy> {
    let mut proxy = Proxy::default();
    let mut config = None;
    let mut rest = args.iter();
    while let Some(argument) = rest.next() {
        let (name, mut value) = match argument.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (argument.as_str(), None),
        };
        if !matches!(name, "--config" | "--allow-tools" | "--deny-tools" | "--header" | "-H") {
            continue;
        }
        if value.is_none() {
            value = rest.next().cloned();
        }
        let Some(value) = value else { break };
        match name {
            "--config" => config = Some(value),
            "--allow-tools" => proxy.allow.extend(list(&value)),
            "--deny-tools" => proxy.deny.extend(list(&value)),
            _ => proxy.headers.extend(header(&value)),
        }
    }
    proxy.config = config?;
    Some(proxy)
}

fn list(text: &str) -> impl Iterator<Item = String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned)
}

/// `K=V` or `K: V`. A header's name can hold neither sign, so the first one divides.
fn header(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(['=', ':'])?;
    let name = name.trim();
    (!name.is_empty()).then(|| (name.to_owned(), value.trim().to_owned()))
}

/// The servers inside a configuration: `{"mcpServers":{…}}`, or the map itself.
pub(super) fn inside(config: &str) -> Result<Map<String, Value>, String> {
    // Where it is wrong, but not what is there: it may hold secrets.
    let value: Value = serde_json::from_str(config)
        .map_err(|error| format!("not JSON at line {} column {}", error.line(), error.column()))?;
    let Value::Object(mut fields) = value else { return Err("not a JSON object".into()) };
    match fields.remove("mcpServers").or_else(|| fields.remove("servers")) {
        Some(Value::Object(servers)) => Ok(servers),
        Some(_) => Err("`mcpServers` is not an object".into()),
        None => Ok(fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(args: &[&str]) -> Vec<String> {
        args.iter().map(|arg| (*arg).to_owned()).collect()
    }

    #[test]
    fn a_proxy_is_known_by_its_base_name() {
        let with = args(&["--config", "{}"]);
        for command in
            ["mcp-proxy", "/usr/local/bin/mcp-proxy", "mcp-proxy.exe", r"C:\tools\MCP-Proxy.EXE"]
        {
            assert!(unfold(command, &with).is_some(), "{command}");
        }
        for command in ["mcp-proxy2", "npx", "/opt/mcp-proxy/run", "xmcp-proxy"] {
            assert!(unfold(command, &with).is_none(), "{command}");
        }
        assert!(unfold("mcp-proxy", &args(&["http://x/sse"])).is_none(), "without --config");
        assert!(unfold("mcp-proxy", &args(&["--config"])).is_none(), "without its value");
    }

    #[test]
    fn arguments_are_read_in_every_spelling() {
        let given = args(&[
            "convert",
            "--config",
            "{}",
            "--allow-tools",
            "a, b",
            "--deny-tools=c",
            "-H",
            "Authorization=Bearer a:b=c",
            "--header",
            "X-Url: http://h/?a=b",
            "--allow-tools=d",
            "--verbose",
        ]);
        let proxy = unfold("mcp-proxy", &given).unwrap();
        assert_eq!(proxy.allow, ["a", "b", "d"]);
        assert_eq!(proxy.deny, ["c"]);
        assert_eq!(
            proxy.headers,
            [
                ("Authorization".to_owned(), "Bearer a:b=c".to_owned()),
                ("X-Url".to_owned(), "http://h/?a=b".to_owned())
            ]
        );
    }

    #[test]
    fn a_broken_configuration_is_reported_without_its_content() {
        let error = inside("{\"mcpServers\": {\"a\": sk-planted}}").unwrap_err();
        assert!(error.contains("line 1") && !error.contains("planted"), "{error}");
        assert!(inside("[]").is_err() && inside("{\"mcpServers\": 1}").is_err());
        assert_eq!(inside("{\"a\": {}}").unwrap().len(), 1);
    }
}
