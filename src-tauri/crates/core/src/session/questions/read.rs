//! What the agent's request says. Pure.

use crate::wire::QuestionMode;
use serde_json::Value;

/// Longest request in bytes of JSON: forms are for people.
const LONGEST: usize = 256 * 1024;
/// Fields that a person can be asked to fill in.
const MOST_FIELDS: usize = 100;

/// A question as the agent asks it.
#[derive(Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) mode: QuestionMode,
    pub(super) message: String,
    pub(super) schema: Option<Value>,
    pub(super) url: Option<String>,
    pub(super) elicitation: Option<String>,
    pub(super) tool_call: Option<String>,
    /// The id of our request that it is about, when it is about no session.
    pub(super) about: Option<Value>,
}

/// Reads a request's parameters.
///
/// # Errors
/// What cannot be shown; the message says why.
pub(super) fn question(params: &Value) -> Result<Asked, String> {
    if params.to_string().len() > LONGEST {
        return Err(format!("the question is longer than {} KiB", LONGEST / 1024));
    }
    let text = |key: &str| params[key].as_str().map(str::to_owned);
    let message = text("message").ok_or("`message` is missing")?;
    let about = params.get("requestId").filter(|id| !id.is_null()).cloned();
    let mut asked = Asked {
        mode: QuestionMode::Form,
        message,
        schema: None,
        url: None,
        elicitation: None,
        tool_call: text("toolCallId"),
        about: about.filter(|_| params["sessionId"].is_null()),
    };
    match params["mode"].as_str().unwrap_or("form") {
        "form" => {
            let schema = &params["requestedSchema"];
            if !schema.is_object() || schema["type"].as_str().unwrap_or("object") != "object" {
                return Err("`requestedSchema` is no schema of an object".to_owned());
            }
            let fields = schema["properties"].as_object().map_or(0, serde_json::Map::len);
            if fields > MOST_FIELDS {
                return Err(format!("`requestedSchema` has more than {MOST_FIELDS} fields"));
            }
            asked.schema = Some(schema.clone());
        }
        "url" => {
            asked.mode = QuestionMode::Url;
            asked.elicitation = Some(text("elicitationId").ok_or("`elicitationId` is missing")?);
            asked.url = Some(address(&text("url").ok_or("`url` is missing")?)?);
        }
        // It must not be shown as something that it is not.
        other => return Err(format!("`mode`: `{other}` is not offered; `form` and `url` are")),
    }
    Ok(asked)
}

/// An address that a browser may be sent to. Others start programs.
fn address(url: &str) -> Result<String, String> {
    let rest = ["https://", "http://"].iter().find_map(|scheme| {
        let head = url.get(..scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then(|| &url[scheme.len()..])
    });
    let is_plain = !url.chars().any(|c| c.is_whitespace() || c.is_control());
    let has_host = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '#']));
    if is_plain && has_host {
        Ok(url.to_owned())
    } else {
        Err("`url` is no address of a page (`https://…`)".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn forms_and_pages_are_read() {
        let form = question(&json!({
            "sessionId": "s", "toolCallId": "t", "mode": "form", "message": "Name?", "new": 1,
            "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
        }))
        .unwrap();
        assert_eq!((form.mode, form.tool_call.as_deref()), (QuestionMode::Form, Some("t")));
        assert_eq!(form.schema.unwrap()["properties"]["name"]["type"], "string");
        let page = question(&json!({
            "requestId": 7, "mode": "url", "message": "Sign in", "elicitationId": "e",
            "url": "https://example.com/a?b=c",
        }))
        .unwrap();
        assert_eq!((page.mode, page.elicitation.as_deref()), (QuestionMode::Url, Some("e")));
        assert_eq!((page.about, page.schema), (Some(json!(7)), None));
    }

    #[test]
    fn what_cannot_be_shown_is_refused_with_the_reason() {
        let form =
            |schema: Value| json!({"sessionId": "s", "message": "m", "requestedSchema": schema});
        let page = |url: &str| json!({"sessionId": "s", "message": "m", "mode": "url", "elicitationId": "e", "url": url});
        let many: serde_json::Map<String, Value> =
            (0..101).map(|n| (n.to_string(), json!({"type": "string"}))).collect();
        for (params, word) in [
            (json!({"mode": "form", "requestedSchema": {}}), "message"),
            (form(json!([])), "requestedSchema"),
            (form(json!({"type": "array"})), "requestedSchema"),
            (form(json!({"properties": many})), "fields"),
            (form(json!({"title": "x".repeat(LONGEST)})), "longer"),
            (json!({"message": "m", "mode": "_browser", "target": "x"}), "_browser"),
            (page("javascript:alert(1)"), "url"),
            (page("file:///etc/passwd"), "url"),
            (page("https://"), "url"),
            (page("https:///x"), "url"),
            (page("https://a b"), "url"),
            (page("\nhttps://a"), "url"),
        ] {
            let why = question(&params).unwrap_err();
            assert!(why.contains(word), "{params}: {why}");
        }
    }
}
