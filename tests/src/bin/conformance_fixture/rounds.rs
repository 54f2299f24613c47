//! Calls of several rounds (SEP-2322): a result that asks, and the call again
//! with the answers and the state that the server handed out.

use crate::{schemas, tools};
use serde_json::{Map, Value, json};
use std::{
    hash::{BuildHasher, RandomState},
    sync::OnceLock,
};

/// The prompt that asks.
pub const PROMPT: &str = "test_input_required_result_prompt";

/// Every tool of several rounds.
pub fn tools() -> impl Iterator<Item = Value> {
    let tools = [
        ("elicitation", "Asks for a name"),
        ("sampling", "Asks the model"),
        ("list_roots", "Asks for the roots"),
        ("request_state", "Hands out a state"),
        ("multiple_inputs", "Asks three things at once"),
        ("multi_round", "Asks twice"),
        ("tampered_state", "Takes only its own state"),
        ("capabilities", "Asks what the client can answer"),
    ];
    tools.into_iter().map(|(name, description)| {
        json!({ "name": format!("test_input_required_result_{name}"), "description": description,
                "inputSchema": { "type": "object", "properties": {} } })
    })
}

/// The prompt's entry.
pub fn prompt() -> Value {
    json!({ "name": PROMPT, "description": "Asks for its context" })
}

/// `prompts/get` of it.
pub fn get_prompt(params: &Value) -> Result<Value, Value> {
    match accepted(params, "user_context", "context") {
        Some(context) => {
            let content =
                json!({ "type": "text", "text": format!("Prompt with context: {context}") });
            Ok(json!({ "messages": [{ "role": "user", "content": content }] }))
        }
        None => Ok(asks(
            [("user_context", elicit("What context should the prompt use?", "context"))],
            None,
        )),
    }
}

/// `tools/call` of a tool that asks in the middle of its call where the revision lets it;
/// `None` for any other.
pub fn call_that_asks(name: &str, params: &Value, abilities: &Value) -> Option<Value> {
    let answer = Some(&params["inputResponses"]["asked"]).filter(|answer| answer.is_object());
    let (what, message, schema) = match name {
        "test_sampling" => {
            let question = params["arguments"]["prompt"].as_str().unwrap_or_default();
            return Some(match answer {
                Some(answer) => {
                    let said = answer["content"]["text"].as_str().unwrap_or("No response");
                    says(&format!("LLM response: {said}"))
                }
                None if abilities["sampling"].is_object() => {
                    asks([("asked", sample(question))], None)
                }
                None => tools::refused("the client has no capability `sampling`"),
            });
        }
        "test_elicitation" => {
            let message = params["arguments"]["message"].as_str().unwrap_or_default();
            ("User response", message, schemas::contact())
        }
        "test_elicitation_sep1034_defaults" => {
            ("Elicitation completed", "Please review and update the form", schemas::with_defaults())
        }
        "test_elicitation_sep1330_enums" => {
            ("Elicitation completed", "Please select options", schemas::with_choices())
        }
        _ => return None,
    };
    Some(match answer {
        Some(answer) => tools::asked(what, Ok(answer.clone())),
        None if abilities["elicitation"].is_object() => {
            let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
            asks([("asked", json!({ "method": "elicitation/create", "params": params }))], None)
        }
        None => tools::refused("the client has no capability `elicitation`"),
    })
}

/// `tools/call` of one of these tools; `None` for any other.
pub fn call(name: &str, params: &Value, abilities: &Value) -> Option<Result<Value, Value>> {
    let state = match params["requestState"].as_str().map(opened) {
        Some(None) => {
            let message = "requestState is not one that this server handed out";
            return Some(Err(json!({ "code": -32602, "message": message })));
        }
        Some(Some(state)) => Some(state),
        None => None,
    };
    let answer =
        |key: &str| Some(&params["inputResponses"][key]).filter(|answer| answer.is_object());
    let result = match name.strip_prefix("test_input_required_result_") {
        Some("elicitation") => match accepted(params, "user_name", "name") {
            Some(name) => says(&format!("Hello, {name}!")),
            None => asks([("user_name", elicit("What is your name?", "name"))], None),
        },
        Some("sampling") => match answer("capital_question") {
            Some(answer) => says(answer["content"]["text"].as_str().unwrap_or("no response")),
            None => asks([("capital_question", sample("What is the capital of France?"))], None),
        },
        Some("list_roots") => match answer("client_roots") {
            Some(answer) => says(&format!("The roots are {}", answer["roots"])),
            None => asks([("client_roots", roots())], None),
        },
        Some("request_state" | "tampered_state") => match (&state, answer("confirm")) {
            (Some(_), Some(_)) => says("state-ok"),
            _ => asks([("confirm", elicit_of("Please confirm", "ok", "boolean"))], Some("confirm")),
        },
        Some("multiple_inputs") => {
            match (&state, answer("user_name"), answer("greeting"), answer("client_roots")) {
                (Some(_), Some(_), Some(_), Some(_)) => says("All three were answered"),
                _ => asks(
                    [
                        ("user_name", elicit("What is your name?", "name")),
                        ("greeting", sample("Generate a greeting")),
                        ("client_roots", roots()),
                    ],
                    Some("three"),
                ),
            }
        }
        Some("multi_round") => match (state.as_deref(), answer("step1"), answer("step2")) {
            (Some("step 2"), _, Some(answer)) => says(&format!("Done: {}", answer["content"])),
            (Some("step 1"), Some(_), _) => asks(
                [("step2", elicit("Step 2: What is your favorite color?", "color"))],
                Some("step 2"),
            ),
            _ => asks([("step1", elicit("Step 1: What is your name?", "name"))], Some("step 1")),
        },
        Some("capabilities") => {
            let all = [
                ("elicitation", "elicit_input", elicit("What value?", "value")),
                ("sampling", "sample_input", sample("Sample request")),
            ];
            let can = all.into_iter().filter(|(ability, _, _)| abilities[*ability].is_object());
            let questions: Vec<_> = can.map(|(_, key, question)| (key, question)).collect();
            if questions.is_empty() || params["inputResponses"].is_object() {
                says("Asked what could be answered")
            } else {
                asks(questions, Some("capabilities"))
            }
        }
        _ => return None,
    };
    Some(Ok(result))
}

/// The text that the user gave for a question, if it was answered so.
fn accepted(params: &Value, key: &str, field: &str) -> Option<String> {
    let answer = &params["inputResponses"][key];
    Some(answer["content"][field].as_str()?.to_owned())
}

fn asks<'a>(questions: impl IntoIterator<Item = (&'a str, Value)>, state: Option<&str>) -> Value {
    let questions: Map<String, Value> =
        questions.into_iter().map(|(key, question)| (key.to_owned(), question)).collect();
    let mut result = json!({ "resultType": "input_required", "inputRequests": questions });
    if let Some(state) = state {
        result["requestState"] = json!(sealed(state));
    }
    result
}

fn says(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn elicit(message: &str, field: &str) -> Value {
    elicit_of(message, field, "string")
}

fn elicit_of(message: &str, field: &str, kind: &str) -> Value {
    let schema = json!({
        "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    json!({ "method": "elicitation/create",
            "params": { "mode": "form", "message": message, "requestedSchema": schema } })
}

fn sample(question: &str) -> Value {
    let content = json!({ "type": "text", "text": question });
    let messages = json!([{ "role": "user", "content": content }]);
    json!({ "method": "sampling/createMessage",
            "params": { "messages": messages, "maxTokens": 100 } })
}

fn roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

/// A state with a seal that only this process can make.
fn sealed(state: &str) -> String {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    let seal = KEY.get_or_init(RandomState::new).hash_one(state);
    format!("{state}:{seal:016x}")
}

/// What was sealed, if the seal is ours.
fn opened(sealed_state: &str) -> Option<String> {
    let (state, _) = sealed_state.rsplit_once(':')?;
    (sealed(state) == sealed_state).then(|| state.to_owned())
}
