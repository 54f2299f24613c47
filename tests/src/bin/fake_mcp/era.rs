//! Which revisions the server speaks: those with `initialize`, 2026-07-28 without, or both.

use crate::{Server, say};
use serde_json::{Value, json};

pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// What `--era` says.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Era {
    /// `initialize`: only what was before 2026-07-28.
    #[default]
    Initialize,
    /// `both`: as the request says.
    Both,
    /// `modern`: nothing but 2026-07-28.
    Modern,
}

impl std::str::FromStr for Era {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "initialize" => Ok(Self::Initialize),
            "both" => Ok(Self::Both),
            "modern" => Ok(Self::Modern),
            other => Err(format!("no era {other}")),
        }
    }
}

/// Whether a request is one of 2026-07-28.
pub fn is_modern(message: &Value) -> bool {
    message["params"]["_meta"][VERSION] == "2026-07-28"
}

/// What is answered because of the era alone; `None`: it is like any other request.
pub fn answer(server: &Server, message: &Value) -> Option<Result<Value, Value>> {
    let method = message["method"].as_str().unwrap_or_default();
    let not_found = || Some(Err(json!({ "code": -32601, "message": format!("no {method}") })));
    match (server.options.era, is_modern(message)) {
        // It does not look: an older server knows nothing of this `_meta`.
        (Era::Initialize, _) | (Era::Both, false) => None,
        (Era::Modern, false) => {
            let why = "this server speaks 2026-07-28 only";
            let code = if method == "initialize" { -32601 } else { -32602 };
            Some(Err(json!({ "code": code, "message": why })))
        }
        (_, true) => match method {
            "server/discover" => Some(Ok(json!({
                "supportedVersions": ["2026-07-28"], "ttlMs": 1000, "cacheScope": "public",
                "capabilities": { "tools": { "listChanged": true }, "x-fake": true },
                "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "fake_mcp", "version": "1.0.0" } },
            }))),
            "initialize" | "ping" => not_found(),
            _ => None,
        },
    }
}

/// Opens a subscription; its answer would be its end.
pub fn listen(server: &Server, message: &Value) {
    let id = &message["id"];
    let wish = &message["params"]["notifications"];
    let granted = json!({ "toolsListChanged": wish["toolsListChanged"] == true });
    let params = json!({ "_meta": { SUBSCRIPTION: id }, "notifications": granted });
    server.listens().push(id.clone());
    let method = "notifications/subscriptions/acknowledged";
    say(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
}

/// Says that the tools changed, to everybody who can hear it.
pub fn tools_changed(server: &Server) {
    let method = "notifications/tools/list_changed";
    if server.options.era != Era::Modern {
        say(&json!({ "jsonrpc": "2.0", "method": method }).to_string());
    }
    for id in server.listens().iter() {
        let params = json!({ "_meta": { SUBSCRIPTION: id } });
        say(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }
}

/// A result as 2026-07-28 has it.
pub fn complete(method: &str, result: &mut Value) {
    if result.get("resultType").is_none() {
        result["resultType"] = json!("complete");
    }
    if method == "tools/list" {
        result["ttlMs"] = json!(1000);
        result["cacheScope"] = json!("public");
    }
}

/// The tool `ask`: greets the user by the name that it asks the client for.
pub async fn ask(server: &Server, message: &Value) -> Value {
    let params = json!({
        "message": "What is your name?",
        "requestedSchema": {
            "type": "object", "required": ["name"],
            "properties": { "name": { "type": "string" } },
        },
    });
    let answer = if is_modern(message) && server.options.era != Era::Initialize {
        let given = &message["params"]["inputResponses"]["who"];
        if given.is_null() || message["params"]["requestState"] != "the state" {
            return json!({
                "resultType": "input_required", "requestState": "the state",
                "inputRequests": { "who": { "method": "elicitation/create", "params": params } },
            });
        }
        json!({ "result": given })
    } else {
        let mut answers = server.answers.subscribe();
        let id = json!(format!("ask {}", message["id"]));
        say(&json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params })
            .to_string());
        loop {
            match answers.recv().await {
                Ok(answer) if answer["id"] == id => break answer,
                Ok(_) => {}
                Err(_) => std::future::pending().await,
            }
        }
    };
    let text = |text: String| json!([{ "type": "text", "text": text }]);
    match answer["result"]["content"]["name"].as_str() {
        Some(name) => json!({ "content": text(format!("Hello {name}")) }),
        None => {
            json!({ "content": text(format!("no name: {}", answer["error"]["message"])), "isError": true })
        }
    }
}
