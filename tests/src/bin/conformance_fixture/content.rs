//! Resources, prompts and completions.

use serde_json::{Value, json};

/// One red pixel as PNG.
pub const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
/// A sound of no length as WAV.
pub const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

const TEMPLATE: (&str, &str) = ("test://template/", "/data");

/// `resources/list`.
pub fn resources() -> Value {
    json!([
        { "uri": "test://static-text", "name": "static-text", "title": "Static text",
          "description": "A text that never changes", "mimeType": "text/plain" },
        { "uri": "test://static-binary", "name": "static-binary", "title": "Static image",
          "description": "A picture that never changes", "mimeType": "image/png" },
        { "uri": "test://watched-resource", "name": "watched-resource", "title": "Watched",
          "description": "What clients subscribe to", "mimeType": "text/plain" },
    ])
}

/// `resources/templates/list`.
pub fn templates() -> Value {
    json!([{
        "uriTemplate": "test://template/{id}/data", "name": "template", "title": "Template",
        "description": "Data for an id", "mimeType": "application/json",
    }])
}

/// `resources/read`.
pub fn read(uri: &str) -> Result<Value, Value> {
    let contents = match uri {
        "test://static-text" => json!({
            "uri": uri, "mimeType": "text/plain",
            "text": "This is the content of the static text resource.",
        }),
        "test://static-binary" => json!({ "uri": uri, "mimeType": "image/png", "blob": PNG }),
        "test://watched-resource" => json!({
            "uri": uri, "mimeType": "text/plain", "text": "The content of the watched resource.",
        }),
        _ => {
            let id = uri.strip_prefix(TEMPLATE.0).and_then(|rest| rest.strip_suffix(TEMPLATE.1));
            let Some(id) = id.filter(|id| !id.is_empty()) else {
                return Err(json!({
                    "code": -32602, "message": "Resource not found", "data": { "uri": uri },
                }));
            };
            let text =
                json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            json!({ "uri": uri, "mimeType": "application/json", "text": text.to_string() })
        }
    };
    Ok(json!({ "contents": [contents] }))
}

/// `prompts/list`.
pub fn prompts() -> Value {
    let argument =
        |name: &str, what: &str| json!({ "name": name, "description": what, "required": true });
    json!([
        { "name": "test_simple_prompt", "description": "A prompt without arguments" },
        { "name": "test_prompt_with_arguments", "description": "A prompt with two arguments",
          "arguments": [argument("arg1", "The first"), argument("arg2", "The second")] },
        { "name": "test_prompt_with_embedded_resource", "description": "A prompt with a resource",
          "arguments": [argument("resourceUri", "The resource")] },
        { "name": "test_prompt_with_image", "description": "A prompt with a picture" },
    ])
}

/// `prompts/get`.
pub fn prompt(params: &Value) -> Result<Value, Value> {
    let user = |content: Value| json!({ "role": "user", "content": content });
    let text = |text: String| user(json!({ "type": "text", "text": text }));
    let argument = |name: &str| {
        let value = params["arguments"][name].as_str();
        value.ok_or_else(|| json!({ "code": -32602, "message": format!("{name} is missing") }))
    };
    let messages = match params["name"].as_str().unwrap_or_default() {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.".to_owned())],
        "test_prompt_with_arguments" => {
            let (one, two) = (argument("arg1")?, argument("arg2")?);
            vec![text(format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource = json!({
                "uri": argument("resourceUri")?, "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            });
            let resource = user(json!({ "type": "resource", "resource": resource }));
            vec![resource, text("Please process the embedded resource above.".to_owned())]
        }
        "test_prompt_with_image" => vec![
            user(json!({ "type": "image", "data": PNG, "mimeType": "image/png" })),
            text("Please analyze the image above.".to_owned()),
        ],
        other => {
            return Err(json!({ "code": -32602, "message": format!("Unknown prompt: {other}") }));
        }
    };
    Ok(json!({ "description": "For the conformance suite", "messages": messages }))
}

/// `completion/complete`.
pub fn complete(params: &Value) -> Value {
    let begun = params["argument"]["value"].as_str().unwrap_or_default();
    let all = ["paris", "park", "party", "test", "testing"];
    let values: Vec<&str> = all.into_iter().filter(|value| value.starts_with(begun)).collect();
    json!({ "completion": { "values": values, "total": values.len(), "hasMore": false } })
}
