//! Methods of the revisions with `initialize`.

use crate::{
    content,
    peer::{Outlet, Peer, lock},
    tools,
};
use serde_json::{Value, json};

/// The revisions that are granted as asked for; any other gets the last.
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The server's name and version.
pub fn info() -> Value {
    json!({ "name": "conformance_fixture", "version": "1.0.0" })
}

/// The answer to a request.
pub async fn answer(peer: &Peer, outlet: &Outlet, message: &Value) -> Value {
    let id = &message["id"];
    match dispatch(peer, outlet, message).await {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
    }
}

async fn dispatch(peer: &Peer, outlet: &Outlet, message: &Value) -> Result<Value, Value> {
    let params = &message["params"];
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => Ok(initialize(peer, params)),
        "ping" | "logging/setLevel" => Ok(json!({})),
        "tools/list" => Ok(json!({ "tools": tools::list() })),
        "tools/call" => tools::call(peer, outlet, params).await,
        "resources/list" => Ok(json!({ "resources": content::resources() })),
        "resources/templates/list" => Ok(json!({ "resourceTemplates": content::templates() })),
        "resources/read" => content::read(params["uri"].as_str().unwrap_or_default()),
        "resources/subscribe" => {
            lock(&peer.subscriptions).insert(uri(params)?);
            Ok(json!({}))
        }
        "resources/unsubscribe" => {
            lock(&peer.subscriptions).remove(&uri(params)?);
            Ok(json!({}))
        }
        "prompts/list" => Ok(json!({ "prompts": content::prompts() })),
        "prompts/get" => content::prompt(params),
        "completion/complete" => Ok(content::complete(params)),
        other => Err(json!({ "code": -32601, "message": format!("Method not found: {other}") })),
    }
}

fn initialize(peer: &Peer, params: &Value) -> Value {
    *lock(&peer.abilities) = params["capabilities"].clone();
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let revision = REVISIONS.into_iter().find(|known| *known == asked).unwrap_or(REVISIONS[3]);
    json!({
        "protocolVersion": revision,
        "capabilities": {
            "tools": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true },
            "prompts": { "listChanged": true },
            "logging": {},
            "completions": {},
        },
        "serverInfo": info(),
        "instructions": "Everything that the conformance suite asks for.",
    })
}

fn uri(params: &Value) -> Result<String, Value> {
    let uri = params["uri"].as_str();
    uri.map(str::to_owned).ok_or_else(|| json!({ "code": -32602, "message": "uri is missing" }))
}
