//! OpenAI responses.

use super::{Frame, Wire, id};
use serde_json::{Value, json};

pub(super) struct Responses {
    model: String,
    /// The id of the response.
    id: String,
    number: u64,
    text: Option<String>,
    output: Vec<Value>,
}

const MESSAGE: &str = "msg_1";

impl Responses {
    pub(super) fn new(model: String) -> Self {
        Self { model, id: id("resp_"), number: 0, text: None, output: Vec::new() }
    }

    fn event(&mut self, name: &'static str, mut fields: Value) -> Frame {
        fields["sequence_number"] = json!(self.number);
        self.number += 1;
        Frame::named(name, fields)
    }
}

impl Wire for Responses {
    fn begin(&mut self) -> Vec<Frame> {
        let response = response(&self.model, &self.id, "in_progress", &[]);
        vec![self.event("response.created", json!({ "response": response }))]
    }

    fn piece(&mut self, text: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        if self.text.is_none() {
            let item = message("in_progress", None);
            frames.push(
                self.event(
                    "response.output_item.added",
                    json!({ "output_index": 0, "item": item }),
                ),
            );
            frames.push(self.event(
                "response.content_part.added",
                json!({ "item_id": MESSAGE, "output_index": 0, "content_index": 0, "part": part("") }),
            ));
        }
        self.text.get_or_insert_default().push_str(text);
        frames.push(self.event(
            "response.output_text.delta",
            json!({ "item_id": MESSAGE, "output_index": 0, "content_index": 0, "delta": text }),
        ));
        frames
    }

    fn calls(&mut self, calls: &[(String, Value)]) -> Vec<Frame> {
        let mut frames = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            let item = function_call(call);
            let mut open = item.clone();
            open["arguments"] = json!("");
            open["status"] = json!("in_progress");
            let place = json!({ "output_index": index, "item_id": item["id"] });
            let with = |fields: Value| {
                let mut all = place.clone();
                if let (Some(all), Value::Object(fields)) = (all.as_object_mut(), fields) {
                    all.extend(fields);
                }
                all
            };
            frames.push(self.event("response.output_item.added", with(json!({ "item": open }))));
            frames.push(self.event(
                "response.function_call_arguments.delta",
                with(json!({ "delta": item["arguments"] })),
            ));
            frames.push(self.event(
                "response.function_call_arguments.done",
                with(json!({ "arguments": item["arguments"] })),
            ));
            frames.push(self.event("response.output_item.done", with(json!({ "item": item }))));
            self.output.push(item);
        }
        frames
    }

    fn end(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        if let Some(text) = self.text.take() {
            let place = json!({ "item_id": MESSAGE, "output_index": 0, "content_index": 0 });
            let (mut done, mut closed) = (place.clone(), place);
            done["text"] = json!(text);
            closed["part"] = part(&text);
            let item = message("completed", Some(&text));
            frames.push(self.event("response.output_text.done", done));
            frames.push(self.event("response.content_part.done", closed));
            frames.push(
                self.event("response.output_item.done", json!({ "output_index": 0, "item": item })),
            );
            self.output.push(item);
        }
        let response = response(&self.model, &self.id, "completed", &self.output);
        frames.push(self.event("response.completed", json!({ "response": response })));
        frames
    }
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [] })
}

fn message(status: &str, text: Option<&str>) -> Value {
    let content: Vec<Value> = text.map(part).into_iter().collect();
    json!({ "id": MESSAGE, "type": "message", "role": "assistant", "status": status, "content": content })
}

fn function_call((name, arguments): &(String, Value)) -> Value {
    let mut item = json!({
        "id": id("fc_"), "type": "function_call", "call_id": id("call_"), "name": name,
        "arguments": arguments.to_string(), "status": "completed",
    });
    if let Some((space, name)) = name.split_once("::") {
        item["namespace"] = json!(space);
        item["name"] = json!(name);
    }
    item
}

fn response(model: &str, id: &str, status: &str, output: &[Value]) -> Value {
    let usage = (status == "completed").then(|| {
        json!({ "input_tokens": 100, "input_tokens_details": { "cached_tokens": 0 },
                "output_tokens": 10, "output_tokens_details": { "reasoning_tokens": 0 },
                "total_tokens": 110 })
    });
    json!({
        "id": id, "object": "response", "created_at": 1, "status": status, "model": model,
        "output": output, "usage": usage, "error": null, "incomplete_details": null,
        "instructions": null, "metadata": {}, "parallel_tool_calls": true, "tool_choice": "auto",
        "tools": [],
    })
}

pub(super) fn whole(model: &str, text: &str, calls: &[(String, Value)]) -> Value {
    let output: Vec<Value> = if calls.is_empty() {
        vec![message("completed", Some(text))]
    } else {
        calls.iter().map(function_call).collect()
    };
    response(model, &id("resp_"), "completed", &output)
}
