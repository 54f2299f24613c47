//! OpenAI chat completions.

use super::{Frame, Wire, id};
use serde_json::{Value, json};

pub(super) struct Chat {
    pub(super) model: String,
    pub(super) has_calls: bool,
}

impl Chat {
    fn chunk(&self, delta: &Value, finish: Option<&str>) -> Frame {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        Frame::data(json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
            "model": self.model, "choices": [choice],
        }))
    }
}

impl Wire for Chat {
    fn begin(&mut self) -> Vec<Frame> {
        vec![self.chunk(&json!({ "role": "assistant", "content": "" }), None)]
    }

    fn piece(&mut self, text: &str) -> Vec<Frame> {
        vec![self.chunk(&json!({ "content": text }), None)]
    }

    fn calls(&mut self, calls: &[(String, Value)]) -> Vec<Frame> {
        self.has_calls = true;
        let frames = calls.iter().enumerate().flat_map(|(index, (name, arguments))| {
            let head = json!({ "index": index, "id": id("call_"), "type": "function",
                               "function": { "name": name, "arguments": "" } });
            let rest =
                json!({ "index": index, "function": { "arguments": arguments.to_string() } });
            [head, rest].map(|call| self.chunk(&json!({ "tool_calls": [call] }), None))
        });
        frames.collect()
    }

    fn end(&mut self) -> Vec<Frame> {
        let reason = if self.has_calls { "tool_calls" } else { "stop" };
        let usage = Frame::data(json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
            "model": self.model, "choices": [], "usage": usage(),
        }));
        vec![self.chunk(&json!({}), Some(reason)), usage, Frame(None, "[DONE]".into())]
    }
}

fn usage() -> Value {
    json!({ "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110 })
}

pub(super) fn whole(model: &str, text: &str, calls: &[(String, Value)]) -> Value {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(name, arguments)| {
            json!({ "id": id("call_"), "type": "function",
                    "function": { "name": name, "arguments": arguments.to_string() } })
        })
        .collect();
    let (message, reason) = if calls.is_empty() {
        (json!({ "role": "assistant", "content": text }), "stop")
    } else {
        (json!({ "role": "assistant", "content": null, "tool_calls": calls }), "tool_calls")
    };
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model,
        "choices": [{ "index": 0, "message": message, "finish_reason": reason }], "usage": usage(),
    })
}
