//! Google Gemini.

use super::{Frame, Wire};
use serde_json::{Value, json};

pub(super) struct Gemini;

impl Wire for Gemini {
    fn begin(&mut self) -> Vec<Frame> {
        Vec::new()
    }

    fn piece(&mut self, text: &str) -> Vec<Frame> {
        vec![Frame::data(response(&json!([{ "text": text }]), false))]
    }

    fn calls(&mut self, calls: &[(String, Value)]) -> Vec<Frame> {
        vec![Frame::data(response(&parts(calls), false))]
    }

    fn end(&mut self) -> Vec<Frame> {
        vec![Frame::data(response(&json!([{ "text": "" }]), true))]
    }
}

fn parts(calls: &[(String, Value)]) -> Value {
    let call = |(name, arguments): &(String, Value)| json!({ "functionCall": { "name": name, "args": arguments } });
    calls.iter().map(call).collect()
}

fn response(parts: &Value, is_last: bool) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if is_last {
        candidate["finishReason"] = json!("STOP");
    }
    json!({
        "candidates": [candidate], "modelVersion": "fake-model",
        "usageMetadata": { "promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110 },
    })
}

pub(super) fn whole(text: &str, calls: &[(String, Value)]) -> Value {
    let parts = if calls.is_empty() { json!([{ "text": text }]) } else { parts(calls) };
    response(&parts, true)
}
