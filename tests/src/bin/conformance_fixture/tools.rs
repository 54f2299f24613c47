//! The tools of the suite.

use crate::{
    content::{PNG, WAV},
    peer::{Outlet, Peer, tell},
    schemas,
};
use serde_json::{Value, json};
use std::time::Duration;

/// What the suite leaves between two notifications of a call.
const PAUSE: Duration = Duration::from_millis(50);

/// `tools/list`.
pub fn list() -> Value {
    let none = || json!({ "type": "object", "properties": {} });
    let text = |name: &str, what: &str| {
        json!({ "type": "object", "required": [name],
                "properties": { name: { "type": "string", "description": what } } })
    };
    let tools = [
        ("test_simple_text", "Answers with a text", none()),
        ("test_image_content", "Answers with a picture", none()),
        ("test_audio_content", "Answers with a sound", none()),
        ("test_embedded_resource", "Answers with a resource", none()),
        ("test_multiple_content_types", "Answers with a text, a picture and a resource", none()),
        ("test_tool_with_logging", "Logs while it works", none()),
        ("test_tool_with_progress", "Tells its progress", none()),
        ("test_error_handling", "Fails", none()),
        ("test_reconnection", "Answers a little later", none()),
        ("test_sampling", "Asks the client's model", text("prompt", "What to ask")),
        ("test_elicitation", "Asks the user", text("message", "What to ask")),
        ("test_elicitation_sep1034_defaults", "Asks the user, with defaults", none()),
        ("test_elicitation_sep1330_enums", "Lets the user choose", none()),
        ("json_schema_2020_12_tool", "Has a demanding schema", schemas::input_2020_12()),
    ];
    let tools = tools.map(|(name, description, schema)| {
        json!({ "name": name, "description": description, "inputSchema": schema })
    });
    json!(tools)
}

/// `tools/call`.
pub async fn call(peer: &Peer, outlet: &Outlet, params: &Value) -> Result<Value, Value> {
    let arguments = &params["arguments"];
    let picture = || json!({ "type": "image", "data": PNG, "mimeType": "image/png" });
    let content = match params["name"].as_str().unwrap_or_default() {
        "test_simple_text" => vec![text("This is a simple text response for testing.")],
        "test_image_content" => vec![picture()],
        "test_audio_content" => {
            vec![json!({ "type": "audio", "data": WAV, "mimeType": "audio/wav" })]
        }
        "test_embedded_resource" => vec![resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        )],
        "test_multiple_content_types" => vec![
            text("Multiple content types test:"),
            picture(),
            resource(
                "test://mixed-content-resource",
                "application/json",
                &json!({ "test": "data", "value": 123 }).to_string(),
            ),
        ],
        "test_tool_with_logging" => {
            log(outlet).await;
            vec![text("Tool with logging executed successfully")]
        }
        "test_tool_with_progress" => {
            progress(outlet, &params["_meta"]["progressToken"]).await;
            vec![text("Tool with progress executed successfully")]
        }
        "test_error_handling" => {
            let content = text("This tool intentionally returns an error for testing");
            return Ok(json!({ "content": [content], "isError": true }));
        }
        "test_reconnection" => {
            tokio::time::sleep(2 * PAUSE).await;
            vec![text("Reconnection test completed successfully")]
        }
        "test_sampling" => return Ok(sample(peer, outlet, arguments).await),
        "test_elicitation" => {
            let message = arguments["message"].as_str().unwrap_or_default();
            let answer = elicit(peer, outlet, message, schemas::contact()).await;
            return Ok(asked("User response", answer));
        }
        "test_elicitation_sep1034_defaults" => {
            let message = "Please review and update the form fields with defaults";
            let answer = elicit(peer, outlet, message, schemas::with_defaults()).await;
            return Ok(asked("Elicitation completed", answer));
        }
        "test_elicitation_sep1330_enums" => {
            let message = "Please select options from the enum fields";
            let answer = elicit(peer, outlet, message, schemas::with_choices()).await;
            return Ok(asked("Elicitation completed", answer));
        }
        "json_schema_2020_12_tool" => {
            vec![text(&format!("JSON Schema 2020-12 tool called with: {arguments}"))]
        }
        other => {
            return Err(json!({ "code": -32602, "message": format!("Unknown tool: {other}") }));
        }
    };
    Ok(json!({ "content": content }))
}

async fn log(outlet: &Outlet) {
    for (index, data) in
        ["Tool execution started", "Tool processing data", "Tool execution completed"]
            .into_iter()
            .enumerate()
    {
        if index > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        tell(outlet, "notifications/message", json!({ "level": "info", "data": data }));
    }
}

async fn progress(outlet: &Outlet, token: &Value) {
    for done in [0, 50, 100] {
        if done > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        if !token.is_null() {
            let message = format!("Completed step {done} of 100");
            let params = json!({
                "progressToken": token, "progress": done, "total": 100, "message": message,
            });
            tell(outlet, "notifications/progress", params);
        }
    }
}

async fn sample(peer: &Peer, outlet: &Outlet, arguments: &Value) -> Value {
    let content = json!({ "type": "text", "text": arguments["prompt"] });
    let params = json!({ "messages": [{ "role": "user", "content": content }], "maxTokens": 100 });
    match ask(peer, outlet, "sampling", "sampling/createMessage", params).await {
        Ok(answer) => {
            let said = answer["content"]["text"].as_str().unwrap_or("No response");
            json!({ "content": [text(&format!("LLM response: {said}"))] })
        }
        Err(why) => refused(&why),
    }
}

async fn elicit(
    peer: &Peer,
    outlet: &Outlet,
    message: &str,
    schema: Value,
) -> Result<Value, String> {
    let params = json!({ "message": message, "requestedSchema": schema });
    ask(peer, outlet, "elicitation", "elicitation/create", params).await
}

/// Asks what only a client with this capability may be asked.
async fn ask(
    peer: &Peer,
    outlet: &Outlet,
    ability: &str,
    method: &str,
    params: Value,
) -> Result<Value, String> {
    if !peer.can(ability) {
        return Err(format!("the client has no capability `{ability}`"));
    }
    peer.ask(outlet, method, params).await
}

/// What a tool says that asked the user.
pub fn asked(what: &str, answer: Result<Value, String>) -> Value {
    match answer {
        Ok(answer) => {
            let action = answer["action"].as_str().unwrap_or_default();
            let said = format!("{what}: action={action}, content={}", answer["content"]);
            json!({ "content": [text(&said)] })
        }
        Err(why) => refused(&why),
    }
}

/// What a tool says that may not ask.
pub fn refused(why: &str) -> Value {
    json!({ "content": [text(why)], "isError": true })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn resource(uri: &str, kind: &str, text: &str) -> Value {
    json!({ "type": "resource", "resource": { "uri": uri, "mimeType": kind, "text": text } })
}
