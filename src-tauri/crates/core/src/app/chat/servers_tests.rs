use super::*;
use serde_json::json;

fn known() -> Known<'static> {
    let config = ServerConfig {
        command: Some("gantry".into()),
        args: vec!["mcp".into()],
        enabled: false,
        ..ServerConfig::default()
    };
    Known {
        saved: vec![ServerSpec { name: "recall".into(), config }],
        urls: vec![("http://127.0.0.1:4000/mcp/recall".into(), "recall".into())],
        has_program: &|_| true,
    }
}

fn read_with(servers: Value, known: &Known<'_>) -> Result<(Vec<ServerSpec>, Vec<String>)> {
    let named = serde_json::from_value(servers).unwrap();
    let mut warnings = Vec::new();
    read(&named, known, &mut warnings).map(|servers| (servers, warnings))
}

fn good(servers: Value) -> Vec<ServerSpec> {
    read_with(servers, &known()).unwrap().0
}

fn one(servers: Value) -> ServerConfig {
    let mut servers = good(servers);
    assert_eq!(servers.len(), 1, "{servers:?}");
    servers.remove(0).config
}

fn message(servers: Value) -> String {
    read_with(servers, &known()).unwrap_err().message
}

#[test]
fn a_plain_server_is_taken_as_it_is_with_what_we_do_not_know() {
    let config = one(json!({"fetch": {
        "enabled": true, "command": "npx", "args": ["-y", "pkg", 7, "a b&c"],
        "env": {"A": "1", "N": 2, "B": true, "GONE": null},
        "persistent": true, "allowTools": ["a"], "denyTools": "b, c", "cwd": null,
        "source": "local", "futureField": {"x": [1]},
    }}));
    assert_eq!(config.command.as_deref(), Some("npx"));
    assert_eq!(config.args, ["-y", "pkg", "7", "a b&c"]);
    assert_eq!(config.env.len(), 3);
    assert_eq!((config.env["N"].as_str(), config.env["B"].as_str()), ("2", "true"));
    assert!(config.persistent);
    assert_eq!(
        (config.allow_tools, config.deny_tools),
        (vec!["a".to_owned()], vec!["b".into(), "c".into()])
    );
    assert_eq!(config.other["futureField"], json!({"x": [1]}));
    assert_eq!(config.other["source"], "local");
}

#[test]
fn switched_off_servers_are_dropped() {
    let servers = good(json!({
        "a": {"command": "x", "enabled": false},
        "b": {"command": "x", "disabled": true},
        "c": {"command": "x", "enabled": "false"},
        "d": false,
        "e": {"command": "x", "disabled": false},
    }));
    assert_eq!(servers.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["e"]);
}

#[test]
fn a_remote_server_gets_its_token_as_a_header() {
    let config = one(json!({"docs": {
        "url": "https://h/mcp", "type": "http", "headers": {"X-A": "1"}, "authToken": "t",
    }}));
    assert_eq!(config.transport.as_deref(), Some("streamable-http"));
    assert_eq!(config.headers["Authorization"], "Bearer t");
    assert_eq!(config.headers["X-A"], "1");
    assert_eq!(config.auth_token, None);
    let own = one(json!({"docs": {
        "url": "https://h/sse", "transport": "sse", "authToken": "t", "headers": {"authorization": "Basic x"},
    }}));
    assert_eq!(own.headers.len(), 1);
    assert_eq!(own.transport.as_deref(), Some("sse"));
}

/// Case 89.
#[test]
fn a_name_or_a_url_of_ours_means_the_saved_server() {
    for entry in [
        json!({}),
        json!(true),
        json!(null),
        json!({"url": "http://localhost:4000/mcp/recall/"}),
        json!({"command": "", "url": ""}),
    ] {
        let config = one(json!({"recall": entry}));
        assert_eq!(config.command.as_deref(), Some("gantry"));
        assert!(config.enabled);
    }
    let filtered = one(json!({"recall": {"allowTools": ["search"]}}));
    assert_eq!(filtered.allow_tools, ["search"]);
    let local = one(json!({"mine": {"url": "http://localhost:9999/mcp"}}));
    assert_eq!(local.url.as_deref(), Some("http://localhost:9999/mcp"));
}

#[test]
fn what_is_wrong_is_reported_by_its_field() {
    for (servers, field) in [
        (json!({"a": 5}), "agent_config.context_servers.a: "),
        (json!({"a": {"command": ["x"]}}), "agent_config.context_servers.a.command: "),
        (json!({"a": {"command": "x", "args": {"b": 1}}}), "agent_config.context_servers.a.args: "),
        (json!({"a": {"command": "x", "env": {"K": {}}}}), "agent_config.context_servers.a.env: "),
        (json!({"a": {"command": "x", "enabled": 1}}), "agent_config.context_servers.a.enabled: "),
        (json!({"a": {"command": "x", "url": "http://h"}}), "agent_config.context_servers.a: "),
        (json!({"a": {"url": "ftp://h"}}), "agent_config.context_servers.a.url: "),
        (json!({"ghost": {}}), "agent_config.context_servers.ghost: "),
        (
            json!({"a": {"command": "x", "startTimeoutMs": "soon"}}),
            "agent_config.context_servers.a: ",
        ),
        (json!({"": {"command": "x"}}), "agent_config.context_servers: "),
        (
            json!({"p": {"command": "mcp-proxy", "args": ["--config", "{"]}}),
            "agent_config.context_servers.p.args: ",
        ),
    ] {
        let message = message(servers);
        assert!(message.starts_with(field), "{message}");
    }
}

#[test]
fn a_proxy_is_unfolded_and_what_it_says_applies_to_each_server_inside() {
    let inside = json!({"mcpServers": {
        "fetch": {"command": "uvx", "args": ["mcp-server-fetch"], "env": {"A": "inner"}},
        "docs": {"url": "https://h/mcp", "headers": {"x-a": "own"}, "allowTools": ["only"]},
        "off": {"command": "x", "enabled": false},
    }});
    let servers = good(json!({"wrapped": {
        "command": "/usr/bin/mcp-proxy",
        "args": ["--config", inside.to_string(), "--allow-tools", "a,b", "-H", "X-A=1", "--header", "X-B: 2"],
        "env": {"A": "outer", "B": "outer"},
        "persistent": true,
    }}));
    assert_eq!(servers.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["fetch", "docs"]);
    let (fetch, docs) = (&servers[0].config, &servers[1].config);
    assert_eq!((fetch.env["A"].as_str(), fetch.env["B"].as_str()), ("inner", "outer"));
    assert_eq!(fetch.allow_tools, ["a", "b"]);
    assert!(fetch.persistent && fetch.headers.is_empty());
    assert_eq!(docs.allow_tools, ["only"], "its own list counts");
    assert_eq!(docs.headers.len(), 2);
    assert_eq!((docs.headers["x-a"].as_str(), docs.headers["X-B"].as_str()), ("own", "2"));
}

#[test]
fn proxies_inside_proxies_are_unfolded() {
    let inner = json!({"mcpServers": {"deep": {"command": "x"}}}).to_string();
    let outer = json!({"mcpServers": {"mid": {
        "command": "mcp-proxy", "args": ["--config", inner], "env": {"M": "1"},
    }}});
    let servers =
        good(json!({"p": {"command": "mcp-proxy.exe", "args": ["--config", outer.to_string()]}}));
    assert_eq!(servers[0].name, "deep");
    assert_eq!(servers[0].config.env["M"], "1");
}

#[test]
fn two_servers_with_one_name_are_told_apart() {
    let proxy = |command: &str| {
        let inside = json!({"mcpServers": {"fetch": {"command": command}}});
        json!({"command": "mcp-proxy", "args": ["--config", inside.to_string()]})
    };
    let servers = json!({
        "a": proxy("one"), "b": proxy("two"), "c": proxy("two"), "fetch": {"command": "plain"},
    });
    let (servers, warnings) = read_with(servers, &known()).unwrap();
    let names: Vec<_> =
        servers.iter().map(|s| (s.name.as_str(), s.config.command.as_deref().unwrap())).collect();
    assert_eq!(
        names,
        [("fetch", "plain"), ("a-fetch", "one"), ("b-fetch", "two"), ("c-fetch", "two")]
    );
    assert_eq!(warnings.len(), 3);
    let same = json!({"a": proxy("one"), "b": proxy("one")});
    assert_eq!(good(same).len(), 1);
}

#[test]
fn a_transport_that_there_is_not_is_refused() {
    let why = message(json!({"far": {"url": "https://x/mcp", "transport": "bogus"}}));
    assert!(why.contains("far.transport") && why.contains("`bogus`"), "{why}");
    for (transport, wanted) in [("http", "streamable-http"), ("sse", "sse")] {
        let config = one(json!({"far": {"url": "https://x/mcp", "transport": transport}}));
        assert_eq!(config.transport.as_deref(), Some(wanted));
    }
    // Of a program it means nothing.
    one(json!({"near": {"command": "x", "transport": "stdio"}}));
}

#[test]
fn uvx_becomes_uv_tool_run_only_where_uv_stands_alone() {
    let entry = || json!({"f": {"command": "uvx", "args": ["mcp-server-fetch"]}});
    let with = |has: &'static dyn Fn(&str) -> bool| {
        let known = Known { has_program: has, ..known() };
        read_with(entry(), &known).unwrap().0.remove(0).config
    };
    assert_eq!(with(&|_| true).command.as_deref(), Some("uvx"));
    assert_eq!(with(&|_| false).command.as_deref(), Some("uvx"));
    let only_uv = with(&|name| name == "uv");
    assert_eq!(only_uv.command.as_deref(), Some("uv"));
    assert_eq!(only_uv.args, ["tool", "run", "mcp-server-fetch"]);
}
