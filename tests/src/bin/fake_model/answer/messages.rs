//! Anthropic messages.

use super::{Frame, Wire, id};
use serde_json::{Value, json};

pub(super) struct Messages {
    pub(super) model: String,
    /// Whether the block with the text is open.
    pub(super) text: Option<()>,
    pub(super) has_calls: bool,
}

impl Wire for Messages {
    fn begin(&mut self) -> Vec<Frame> {
        vec![Frame::named(
            "message_start",
            json!({ "message": message(&self.model, &json!([]), None) }),
        )]
    }

    fn piece(&mut self, text: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        if self.text.replace(()).is_none() {
            let block = json!({ "type": "text", "text": "" });
            frames.push(Frame::named(
                "content_block_start",
                json!({ "index": 0, "content_block": block }),
            ));
        }
        let delta = json!({ "type": "text_delta", "text": text });
        frames.push(Frame::named("content_block_delta", json!({ "index": 0, "delta": delta })));
        frames
    }

    fn calls(&mut self, calls: &[(String, Value)]) -> Vec<Frame> {
        self.has_calls = true;
        let frames = calls.iter().enumerate().flat_map(|(index, (name, arguments))| {
            let block =
                json!({ "type": "tool_use", "id": id("toolu_"), "name": name, "input": {} });
            let delta =
                json!({ "type": "input_json_delta", "partial_json": arguments.to_string() });
            [
                Frame::named(
                    "content_block_start",
                    json!({ "index": index, "content_block": block }),
                ),
                Frame::named("content_block_delta", json!({ "index": index, "delta": delta })),
                Frame::named("content_block_stop", json!({ "index": index })),
            ]
        });
        frames.collect()
    }

    fn end(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        if self.text.take().is_some() {
            frames.push(Frame::named("content_block_stop", json!({ "index": 0 })));
        }
        let delta = json!({ "stop_reason": reason(self.has_calls), "stop_sequence": null });
        let usage = json!({ "output_tokens": 10 });
        frames.push(Frame::named("message_delta", json!({ "delta": delta, "usage": usage })));
        frames.push(Frame::named("message_stop", json!({})));
        frames
    }
}

fn reason(has_calls: bool) -> &'static str {
    if has_calls { "tool_use" } else { "end_turn" }
}

fn message(model: &str, content: &Value, reason: Option<&str>) -> Value {
    json!({
        "id": id("msg_"), "type": "message", "role": "assistant", "model": model,
        "content": content, "stop_reason": reason, "stop_sequence": null,
        "usage": { "input_tokens": 100, "output_tokens": 10, "cache_creation_input_tokens": 0,
                   "cache_read_input_tokens": 0 },
    })
}

pub(super) fn whole(model: &str, text: &str, calls: &[(String, Value)]) -> Value {
    let content: Vec<Value> = if calls.is_empty() {
        vec![json!({ "type": "text", "text": text })]
    } else {
        let call = |(name, arguments): &(String, Value)| json!({ "type": "tool_use", "id": id("toolu_"), "name": name, "input": arguments });
        calls.iter().map(call).collect()
    };
    message(model, &json!(content), Some(reason(!calls.is_empty())))
}
