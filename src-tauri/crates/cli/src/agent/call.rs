//! One tool call: the card, the permission, the call, the result.

use super::{speaker::Speaker, tools::Found, unique};
use agent_client_protocol::v1::schema::{
    ContentBlock, PermissionOption, PermissionOptionKind, RequestPermissionOutcome,
    RequestPermissionRequest, SessionUpdate, ToolCall, ToolCallContent, ToolCallId, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use rmcp::{
    ServiceError,
    model::{CallToolRequest, CallToolRequestParams, ClientRequest, ServerResult},
    service::PeerRequestOptions,
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// How a call ended.
pub(super) enum Outcome {
    /// The server answered: the MCP result.
    Answered(Value),
    /// There is no result, and why.
    Failed(String),
    /// The user said no.
    Rejected,
    /// The turn was cancelled.
    Cancelled,
}

/// Calls the tool, with a card in the conversation, and asks first unless the
/// tool only reads or was allowed before.
pub(super) async fn call(
    speaker: &Speaker,
    found: &Found,
    arguments: Map<String, Value>,
    turn: &CancellationToken,
) -> Outcome {
    let id = ToolCallId::from(unique("call"));
    let tool = found.tool.name.as_ref();
    let ask = !found.is_read_only() && !speaker.session.is_allowed(&found.server, tool);
    let input = Value::Object(arguments.clone());
    let status = if ask { ToolCallStatus::Pending } else { ToolCallStatus::InProgress };
    speaker.update(SessionUpdate::ToolCall(
        ToolCall::new(id.clone(), found.title())
            .name(tool.to_owned())
            .kind(kind(found))
            .status(status)
            .raw_input(input.clone()),
    ));
    let card = Card { speaker, id };
    let outcome = if ask {
        match card.ask(found, input, turn).await {
            Ok(()) => {
                card.update(ToolCallUpdateFields::new().status(ToolCallStatus::InProgress));
                send(found, arguments, turn).await
            }
            Err(outcome) => outcome,
        }
    } else {
        send(found, arguments, turn).await
    };
    card.finish(&outcome);
    outcome
}

/// A tool call as the client shows it.
struct Card<'a> {
    speaker: &'a Speaker,
    id: ToolCallId,
}

impl Card<'_> {
    fn update(&self, fields: ToolCallUpdateFields) {
        let update = ToolCallUpdate::new(self.id.clone(), fields);
        self.speaker.update(SessionUpdate::ToolCallUpdate(update));
    }

    async fn ask(
        &self,
        found: &Found,
        input: Value,
        turn: &CancellationToken,
    ) -> Result<(), Outcome> {
        const ONCE: &str = "allow_once";
        const ALWAYS: &str = "allow_always";
        const NO: &str = "reject_once";
        let fields = ToolCallUpdateFields::new()
            .title(found.title())
            .name(found.tool.name.to_string())
            .kind(kind(found))
            .status(ToolCallStatus::Pending)
            .raw_input(input);
        let options = vec![
            PermissionOption::new(ONCE, "Allow once", PermissionOptionKind::AllowOnce),
            PermissionOption::new(
                ALWAYS,
                "Always allow in this session",
                PermissionOptionKind::AllowAlways,
            ),
            PermissionOption::new(NO, "Reject", PermissionOptionKind::RejectOnce),
        ];
        let update = ToolCallUpdate::new(self.id.clone(), fields);
        let request =
            RequestPermissionRequest::new(self.speaker.session.id.clone(), update, options);
        let asked = self.speaker.client.send_request(request).block_task();
        let Some(answer) = turn.run_until_cancelled(asked).await else {
            return Err(Outcome::Cancelled);
        };
        match answer {
            Ok(answer) => match answer.outcome {
                RequestPermissionOutcome::Selected(chosen) => match &*chosen.option_id.0 {
                    ONCE => Ok(()),
                    ALWAYS => {
                        self.speaker.session.allow(&found.server, &found.tool.name);
                        Ok(())
                    }
                    _ => Err(Outcome::Rejected),
                },
                _ => Err(Outcome::Cancelled),
            },
            Err(error) => Err(Outcome::Failed(format!(
                "permission could not be asked for, so the tool was not called: {error}"
            ))),
        }
    }

    fn finish(&self, outcome: &Outcome) {
        let failed = |why: &str| {
            ToolCallUpdateFields::new()
                .status(ToolCallStatus::Failed)
                .content(vec![ToolCallContent::from(why)])
        };
        self.update(match outcome {
            Outcome::Answered(result) => {
                let status = if is_error(result) {
                    ToolCallStatus::Failed
                } else {
                    ToolCallStatus::Completed
                };
                ToolCallUpdateFields::new()
                    .status(status)
                    .content(content(result))
                    .raw_output(result.clone())
            }
            Outcome::Failed(why) => failed(why),
            Outcome::Rejected => failed("rejected by the user"),
            Outcome::Cancelled => failed("cancelled"),
        });
    }
}

async fn send(found: &Found, arguments: Map<String, Value>, turn: &CancellationToken) -> Outcome {
    let params = CallToolRequestParams::new(found.tool.name.clone()).with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let sent = found.peer.send_cancellable_request(request, PeerRequestOptions::no_options());
    let mut handle = match turn.run_until_cancelled(sent).await {
        None => return Outcome::Cancelled,
        Some(Ok(handle)) => handle,
        Some(Err(error)) => return Outcome::Failed(explain(&error)),
    };
    let Some(answer) = turn.run_until_cancelled(&mut handle.rx).await else {
        // The server hears of it, so that it can stop; its answer is not waited for.
        let _ = handle.cancel(Some("the user cancelled the turn".into())).await;
        return Outcome::Cancelled;
    };
    match answer.unwrap_or(Err(ServiceError::TransportClosed)) {
        Ok(ServerResult::CallToolResult(result)) => match serde_json::to_value(&result) {
            Ok(value) => Outcome::Answered(value),
            Err(error) => Outcome::Failed(format!("the result could not be read: {error}")),
        },
        // A result with content that the model types do not know is still a result.
        Ok(ServerResult::CustomResult(result)) => Outcome::Answered(result.0),
        Ok(_) => {
            Outcome::Failed("the server answered with something that is no tool result".into())
        }
        Err(error) => Outcome::Failed(explain(&error)),
    }
}

fn explain(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => {
            let data = error.data.as_ref().map(|data| format!(" ({data})")).unwrap_or_default();
            format!("the server refused the call: {} [{}]{data}", error.message, error.code.0)
        }
        ServiceError::TransportClosed => {
            "the connection to the server ended before it answered; ask again to reconnect".into()
        }
        other => format!("the call did not get through: {other}"),
    }
}

/// Whether the result says that the tool failed.
pub(super) fn is_error(result: &Value) -> bool {
    result.get("isError").and_then(Value::as_bool) == Some(true)
}

/// MCP content blocks are ACP content blocks; one that is not known is shown as JSON.
fn content(result: &Value) -> Vec<ToolCallContent> {
    let blocks = result.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut shown: Vec<ToolCallContent> = blocks
        .into_iter()
        .map(|block| match serde_json::from_value::<ContentBlock>(block.clone()) {
            Ok(block) => ToolCallContent::from(block),
            Err(_) => ToolCallContent::from(block.to_string()),
        })
        .collect();
    if shown.is_empty()
        && let Some(value) = result.get("structuredContent")
    {
        shown.push(ToolCallContent::from(fenced(value)));
    }
    shown
}

/// The result as Markdown for people (and as text for a model).
pub(super) fn text(result: &Value) -> String {
    let blocks = result.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let texts: Vec<String> = blocks.iter().map(text_of_block).collect();
    if !texts.is_empty() {
        return texts.join("\n\n");
    }
    match result.get("structuredContent") {
        Some(value) => fenced(value),
        None => "(no output)".into(),
    }
}

fn text_of_block(block: &Value) -> String {
    let field = |name: &str| block.get(name).and_then(Value::as_str);
    let size = |base64: Option<&str>| base64.map_or(0, |data| data.len() * 3 / 4 / 1024);
    match field("type") {
        Some("text") => field("text").unwrap_or_default().to_owned(),
        Some(kind @ ("image" | "audio")) => {
            let mime = field("mimeType").unwrap_or("unknown type");
            format!("({kind}, {mime}, {} KiB)", size(field("data")))
        }
        Some("resource") => {
            let resource = block.get("resource").unwrap_or(&Value::Null);
            let of = |name: &str| resource.get(name).and_then(Value::as_str);
            let uri = of("uri").unwrap_or("no address");
            match of("text") {
                Some(text) => format!("{uri}:\n\n{text}"),
                None => format!("({uri}, {} KiB)", size(of("blob"))),
            }
        }
        Some("resource_link") => {
            let name = field("title").or(field("name")).unwrap_or("resource");
            format!("[{name}]({})", field("uri").unwrap_or_default())
        }
        _ => fenced(block),
    }
}

fn fenced(value: &Value) -> String {
    format!("```json\n{value:#}\n```")
}

/// What sort of thing the tool does, as far as its name and hints tell; for an icon only.
fn kind(found: &Found) -> ToolKind {
    let name = found.tool.name.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if has(&["search", "find", "query", "grep"]) {
        ToolKind::Search
    } else if has(&["fetch", "http", "download", "url"]) {
        ToolKind::Fetch
    } else if found.is_read_only() {
        ToolKind::Read
    } else if has(&["delete", "remove"]) {
        ToolKind::Delete
    } else if has(&["move", "rename"]) {
        ToolKind::Move
    } else if has(&["write", "edit", "create", "update"]) {
        ToolKind::Edit
    } else if has(&["run", "exec", "shell", "command"]) {
        ToolKind::Execute
    } else {
        ToolKind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_become_text_and_cards() {
        let result = json!({"content": [
            {"type": "text", "text": "hello"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "x://y", "text": "inside"}},
            {"type": "resource_link", "name": "n", "uri": "x://z"},
            {"type": "hologram", "depth": 3},
        ]});
        let text = text(&result);
        assert!(
            text.starts_with("hello\n\n(image, image/png, 0 KiB)\n\nx://y:\n\ninside"),
            "{text}"
        );
        assert!(text.contains("[n](x://z)") && text.contains("\"hologram\""), "{text}");
        let cards = serde_json::to_value(content(&result)).unwrap();
        assert_eq!(
            cards[0],
            json!({"type": "content", "content": {"type": "text", "text": "hello"}})
        );
        assert_eq!(cards[1]["content"]["mimeType"], "image/png");
        assert_eq!(cards[4]["content"]["text"], r#"{"type":"hologram","depth":3}"#);
    }

    #[test]
    fn a_result_without_content_shows_its_structure_or_says_so() {
        let structured = json!({"content": [], "structuredContent": {"sum": 5}});
        assert_eq!(text(&structured), "```json\n{\n  \"sum\": 5\n}\n```");
        assert_eq!(content(&structured).len(), 1);
        assert_eq!(text(&json!({})), "(no output)");
        assert!(is_error(&json!({"isError": true})) && !is_error(&json!({"isError": "yes"})));
    }
}
