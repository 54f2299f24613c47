//! Revision 2026-07-28: no `initialize` and no sessions. Each request says in its
//! `_meta` what it speaks; what the server needs of the client it asks for with
//! its result, and is called again with the answers.

use crate::{
    content,
    peer::{Outlet, Peer, lock, tell},
    rounds, server, tools,
};
use serde_json::{Map, Value, json};
use std::sync::{Mutex, OnceLock};

/// The revision.
pub const REVISION: &str = "2026-07-28";
/// Members of `_meta`.
pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const ABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Error codes of the revision.
pub const HEADER_MISMATCH: i64 = -32020;
pub const MISSING_CAPABILITY: i64 = -32021;
pub const UNSUPPORTED_VERSION: i64 = -32022;
pub const METHOD_NOT_FOUND: i64 = -32601;

/// Methods whose results say how long they may be kept.
const CACHEABLE: [&str; 6] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// An open `subscriptions/listen`.
struct Listener {
    id: Value,
    wanted: Value,
    outlet: Outlet,
}

fn listeners() -> &'static Mutex<Vec<Listener>> {
    static LISTENERS: OnceLock<Mutex<Vec<Listener>>> = OnceLock::new();
    LISTENERS.get_or_init(Mutex::default)
}

/// What is wrong with the request's `_meta`; nothing with a good one.
pub fn check_meta(message: &Value) -> Result<(), Value> {
    let meta = &message["params"]["_meta"];
    let Some(version) = meta[VERSION].as_str() else {
        return Err(invalid(&format!("_meta lacks {VERSION}")));
    };
    if version != REVISION {
        return Err(json!({
            "code": UNSUPPORTED_VERSION, "message": format!("Unsupported protocol version {version}"),
            "data": { "supported": [REVISION], "requested": version },
        }));
    }
    if !meta[ABILITIES].is_object() {
        return Err(invalid(&format!("_meta lacks {ABILITIES}")));
    }
    Ok(())
}

/// The answer to a request; `None` for a subscription, which stays open.
pub async fn answer(outlet: &Outlet, message: &Value) -> Option<Value> {
    let id = &message["id"];
    let method = message["method"].as_str().unwrap_or_default();
    let outcome = match check_meta(message) {
        Ok(()) if method == "subscriptions/listen" => {
            listen(id, &message["params"], outlet);
            return None;
        }
        Ok(()) => dispatch(outlet, message).await,
        Err(error) => Err(error),
    };
    Some(match outcome {
        Ok(mut result) => {
            complete(method, &mut result);
            json!({ "jsonrpc": "2.0", "id": id, "result": result })
        }
        Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
    })
}

fn complete(method: &str, result: &mut Value) {
    let Some(result) = result.as_object_mut() else { return };
    result.entry("resultType").or_insert_with(|| json!("complete"));
    if CACHEABLE.contains(&method) {
        result.entry("ttlMs").or_insert_with(|| json!(60_000));
        result.entry("cacheScope").or_insert_with(|| json!("private"));
    }
    let meta = result.entry("_meta").or_insert_with(|| json!({}));
    meta[SERVER_INFO] = server::info();
}

async fn dispatch(outlet: &Outlet, message: &Value) -> Result<Value, Value> {
    let params = &message["params"];
    match message["method"].as_str().unwrap_or_default() {
        "server/discover" => Ok(json!({
            "supportedVersions": [REVISION],
            "capabilities": {
                "tools": { "listChanged": true },
                "prompts": { "listChanged": true },
                "resources": { "listChanged": true, "subscribe": true },
                "completions": {},
                "logging": {},
            },
            "instructions": "Everything that the conformance suite asks for.",
        })),
        "tools/list" => Ok(json!({ "tools": list_tools() })),
        "tools/call" => call(outlet, params).await,
        "prompts/list" => {
            let mut prompts = content::prompts();
            if let Some(prompts) = prompts.as_array_mut() {
                prompts.push(rounds::prompt());
            }
            Ok(json!({ "prompts": prompts }))
        }
        "prompts/get" if params["name"] == rounds::PROMPT => rounds::get_prompt(params),
        "prompts/get" => content::prompt(params),
        "resources/list" => Ok(json!({ "resources": content::resources() })),
        "resources/templates/list" => Ok(json!({ "resourceTemplates": content::templates() })),
        "resources/read" => content::read(params["uri"].as_str().unwrap_or_default()),
        "completion/complete" => Ok(content::complete(params)),
        other => Err(json!({
            "code": METHOD_NOT_FOUND, "message": format!("Method not found: {other}") })),
    }
}

/// The tools of the older revisions, and the revision's own.
fn list_tools() -> Vec<Value> {
    let Value::Array(mut all) = tools::list() else { return Vec::new() };
    let none = || json!({ "type": "object", "properties": {} });
    let by_header = json!({
        "type": "object", "required": ["region"],
        "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "limit": { "type": "integer", "x-mcp-header": "Limit" },
        },
    });
    let own = [
        ("test_missing_capability", "Needs a client that can sample", none()),
        ("test_streaming_elicitation", "Tells its progress", none()),
        ("test_logging_tool", "Logs, if that was asked for", none()),
        ("test_trigger_tool_change", "Says that the tools have changed", none()),
        ("test_trigger_prompt_change", "Says that the prompts have changed", none()),
        ("test_custom_header", "Has arguments that are headers too", by_header),
    ];
    let own = own.into_iter().map(|(name, description, schema)| {
        json!({ "name": name, "description": description, "inputSchema": schema })
    });
    all.extend(own);
    all.extend(rounds::tools());
    all
}

async fn call(outlet: &Outlet, params: &Value) -> Result<Value, Value> {
    let meta = &params["_meta"];
    let name = params["name"].as_str().unwrap_or_default();
    if let Some(result) = rounds::call(name, params, &meta[ABILITIES]) {
        return result;
    }
    if let Some(result) = rounds::call_that_asks(name, params, &meta[ABILITIES]) {
        return Ok(result);
    }
    let said = match name {
        "test_missing_capability" if meta[ABILITIES]["sampling"].is_null() => {
            return Err(json!({
                "code": MISSING_CAPABILITY, "message": "The client cannot sample",
                "data": { "requiredCapabilities": { "sampling": {} } },
            }));
        }
        "test_missing_capability" => "The client can sample",
        "test_streaming_elicitation" => {
            let token = &meta["progressToken"];
            if !token.is_null() {
                let params = json!({ "progressToken": token, "progress": 1, "total": 2 });
                tell(outlet, "notifications/progress", params);
            }
            "Streamed"
        }
        "test_logging_tool" => {
            if !meta[LOG_LEVEL].is_null() {
                let params = json!({ "level": "info", "data": "as it was asked for" });
                tell(outlet, "notifications/message", params);
            }
            "Logged"
        }
        "test_trigger_tool_change" => {
            announce("toolsListChanged", "notifications/tools/list_changed");
            "The tools have changed"
        }
        "test_trigger_prompt_change" => {
            announce("promptsListChanged", "notifications/prompts/list_changed");
            "The prompts have changed"
        }
        "test_custom_header" => "The headers agreed",
        "test_tool_with_logging" if meta[LOG_LEVEL].is_null() => "Nobody wanted to hear a log",
        _ => return tools::call(&Peer::default(), outlet, params).await,
    };
    Ok(json!({ "content": [{ "type": "text", "text": said }] }))
}

fn listen(id: &Value, params: &Value, outlet: &Outlet) {
    // All kinds are supported: what was asked for is what is agreed to.
    let wanted = params["notifications"].clone();
    let agreed: Map<String, Value> = wanted
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| **value != json!(false))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let acknowledged = json!({ "_meta": { SUBSCRIPTION: id }, "notifications": agreed });
    tell(outlet, "notifications/subscriptions/acknowledged", acknowledged);
    lock(listeners()).push(Listener { id: id.clone(), wanted, outlet: outlet.clone() });
}

/// Ends a subscription whose request was cancelled.
pub fn cancelled(id: &Value) {
    lock(listeners()).retain(|listener| listener.id != *id);
}

/// Tells those that listen for it; one that is gone is let go.
fn announce(kind: &str, method: &str) {
    let mut listeners = lock(listeners());
    listeners.retain(|listener| !listener.outlet.is_closed());
    for listener in listeners.iter().filter(|listener| listener.wanted[kind] == true) {
        tell(&listener.outlet, method, json!({ "_meta": { SUBSCRIPTION: listener.id } }));
    }
}

/// The tool's arguments that are headers too: the argument, and the header's name.
pub fn header_parameters(tool: &str) -> Vec<(String, String)> {
    let all = list_tools();
    let found = all.iter().find(|listed| listed["name"] == tool);
    let properties = found.and_then(|tool| tool["inputSchema"]["properties"].as_object());
    let headers = properties.into_iter().flatten().filter_map(|(name, schema)| {
        Some((name.clone(), format!("mcp-param-{}", schema["x-mcp-header"].as_str()?)))
    });
    headers.collect()
}

fn invalid(why: &str) -> Value {
    json!({ "code": -32602, "message": format!("Invalid params: {why}") })
}
