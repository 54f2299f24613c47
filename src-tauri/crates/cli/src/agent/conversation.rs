//! A turn with a model: it answers, wants tools called, gets their results, and
//! goes on until it wants no more.

use super::{
    call::{self, Outcome},
    command, context,
    model::{Answer, Piece, Wish},
    models::Model,
    speaker::Speaker,
    tools::{Found, Toolbox},
};
use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, EmbeddedResourceResource, SessionUpdate, StopReason,
};
use futures::future::join_all;
use serde_json::{Value, json};
use std::collections::HashMap;
use tokio_util::sync::CancellationToken;

/// So often a model may ask for tools in one turn.
const MOST_ROUNDS: usize = 100;
/// Longest tool result that a model gets, in bytes.
const LONGEST_RESULT: usize = 200_000;

/// Said when a session goes on that the model knows nothing of.
const FORGOT: &str =
    "*This agent was started anew: the model does not know what was said before.*\n\n";

/// One turn. What was said is kept in the session, also when it ends early.
pub(super) async fn turn(
    model: &Model,
    speaker: &Speaker,
    toolbox: &Toolbox,
    prompt: &[ContentBlock],
    turn: &CancellationToken,
) -> StopReason {
    let mut messages = speaker.session.messages();
    if messages.is_empty() {
        if speaker.session.has_to_confess() {
            speaker.say(FORGOT).await;
        }
        messages.push(json!({"role": "system", "content": instructions(speaker)}));
    }
    messages.push(json!({"role": "user", "content": words(prompt)}));
    let functions = Functions::of(toolbox);
    let reason = rounds(model, speaker, &functions, &mut messages, turn).await;
    speaker.session.keep_messages(messages);
    reason
}

async fn rounds(
    model: &Model,
    speaker: &Speaker,
    functions: &Functions,
    messages: &mut Vec<Value>,
    turn: &CancellationToken,
) -> StopReason {
    for _ in 0..MOST_ROUNDS {
        let mut answer = Answer::default();
        let heard = |piece| match piece {
            Piece::Text(text) => speaker.say_piece(&text),
            Piece::Thought(text) => {
                let chunk = ContentChunk::new(ContentBlock::from(text));
                speaker.update(SessionUpdate::AgentThoughtChunk(chunk));
            }
        };
        let asked =
            model.endpoint.complete(&model.name, messages, &functions.declared, &mut answer, heard);
        match turn.run_until_cancelled(asked).await {
            None => {
                // What was heard stays in the conversation; a half tool call does not.
                if !answer.text.is_empty() {
                    messages.push(json!({"role": "assistant", "content": answer.text}));
                }
                return StopReason::Cancelled;
            }
            Some(Err(problem)) => {
                let left_out = if problem.too_long { context::shorten(messages) } else { 0 };
                if left_out == 0 {
                    if !answer.text.is_empty() {
                        messages.push(json!({"role": "assistant", "content": answer.text}));
                    }
                    speaker.say(&format!("\n\n**No answer:** {}\n", problem.words)).await;
                    return StopReason::EndTurn;
                }
                let results = if left_out == 1 { "result" } else { "results" };
                let notice = format!(
                    "\n\n*The conversation is longer than the model can take: its {left_out} \
                     oldest tool {results} are left out from here on.*\n\n"
                );
                speaker.say(&notice).await;
                continue;
            }
            Some(Ok(())) => {}
        }
        for wish in answer.wishes.iter_mut().filter(|wish| wish.id.is_empty()) {
            wish.id = super::unique("call");
        }
        messages.push(as_message(&answer));
        if answer.wishes.is_empty() {
            return match answer.finish.as_deref() {
                Some("length") => StopReason::MaxTokens,
                Some("content_filter") => StopReason::Refusal,
                _ => StopReason::EndTurn,
            };
        }
        // What the model wants at once happens at once. Every call needs an answer, or the
        // endpoint refuses the next request; a cancelled one gets one too.
        let granted = answer.wishes.iter().map(|wish| functions.grant(speaker, wish, turn));
        let results = join_all(granted).await;
        for (wish, result) in answer.wishes.iter().zip(results) {
            messages.push(json!({"role": "tool", "tool_call_id": wish.id, "content": result}));
        }
        if turn.is_cancelled() {
            return StopReason::Cancelled;
        }
    }
    StopReason::MaxTurnRequests
}

/// The tools as functions of the model.
struct Functions {
    declared: Vec<Value>,
    by_name: HashMap<String, Found>,
}

impl Functions {
    fn of(toolbox: &Toolbox) -> Self {
        let mut count: HashMap<String, usize> = HashMap::new();
        for found in toolbox.tools() {
            *count.entry(found.tool.name.to_string()).or_default() += 1;
        }
        let mut functions = Self { declared: Vec::new(), by_name: HashMap::new() };
        for found in toolbox.tools() {
            let shared = count.get(found.tool.name.as_ref()).is_some_and(|n| *n > 1);
            let full = if shared {
                format!("{}__{}", found.server, found.tool.name)
            } else {
                found.tool.name.to_string()
            };
            let name = free_name(&full, &functions.by_name);
            functions.declared.push(json!({"type": "function", "function": {
                "name": name,
                "description": found.tool.description.as_deref().unwrap_or_default(),
                "parameters": *found.tool.input_schema,
            }}));
            functions.by_name.insert(name, found);
        }
        functions
    }

    /// Calls the tool and returns what the model is told.
    async fn grant(&self, speaker: &Speaker, wish: &Wish, turn: &CancellationToken) -> String {
        let Some(found) = self.by_name.get(&wish.name) else {
            return format!("error: there is no tool named {}", wish.name);
        };
        let arguments = match command::arguments(wish.arguments.trim()) {
            Ok(arguments) => arguments,
            Err(problem) => return format!("error: {problem}"),
        };
        let mut told = match call::call(speaker, found, arguments, turn).await {
            Outcome::Answered(result) if call::is_error(&result) => {
                format!("error: {}", call::text(&result))
            }
            Outcome::Answered(result) => call::text(&result),
            Outcome::Failed(why) => format!("error: {why}"),
            Outcome::Rejected => "the user rejected this call; do not repeat it".into(),
            Outcome::Cancelled => "cancelled by the user".into(),
        };
        if told.len() > LONGEST_RESULT {
            let whole = told.len();
            told.truncate(told.floor_char_boundary(LONGEST_RESULT));
            told.push_str(&format!("\n… (cut: {whole} bytes in all)"));
        }
        told
    }
}

/// A function's name may hold letters, digits, `_` and `-`, 64 at most.
fn free_name<T>(wanted: &str, taken: &HashMap<String, T>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = wanted.chars().map(plain).take(60).collect();
    let name = if name.is_empty() { "tool".to_owned() } else { name };
    if !taken.contains_key(&name) {
        return name;
    }
    (2..).map(|n| format!("{name}_{n}")).find(|name| !taken.contains_key(name)).unwrap_or(name)
}

fn as_message(answer: &Answer) -> Value {
    let mut message = json!({"role": "assistant", "content": answer.text});
    if !answer.wishes.is_empty() {
        let calls = answer.wishes.iter().map(|wish| {
            // Some endpoints refuse a conversation whose arguments are no JSON.
            let arguments = if wish.arguments.trim().is_empty() { "{}" } else { &wish.arguments };
            json!({"id": wish.id, "type": "function",
                   "function": {"name": wish.name, "arguments": arguments}})
        });
        message["tool_calls"] = calls.collect();
    }
    message
}

fn instructions(speaker: &Speaker) -> String {
    format!(
        "You are an assistant in Gantry, a desktop application. The user's working directory \
         is {}. Use the tools you have when they help; say what you did. Answer in the \
         user's language, in Markdown.",
        speaker.session.cwd.display()
    )
}

/// A prompt as a model reads it.
fn words(prompt: &[ContentBlock]) -> String {
    let parts: Vec<String> = prompt
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.clone()),
            ContentBlock::ResourceLink(link) => Some(format!("[{}]({})", link.name, link.uri)),
            ContentBlock::Resource(resource) => match &resource.resource {
                EmbeddedResourceResource::TextResourceContents(text) => {
                    Some(format!("{}:\n\n{}", text.uri, text.text))
                }
                _ => None,
            },
            _ => None,
        })
        .collect();
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_names_are_what_endpoints_accept() {
        let mut taken = HashMap::new();
        for expected in ["a_b__c", "a_b__c_2", "a_b__c_3"] {
            let name = free_name("a b__c", &taken);
            assert_eq!(name, expected);
            taken.insert(name, ());
        }
        assert_eq!(free_name("抓取", &taken), "__");
        assert!(free_name(&"x".repeat(200), &taken).len() <= 64);
    }

    #[test]
    fn an_answer_with_wishes_becomes_a_message_that_endpoints_accept() {
        let wish = Wish { id: "1".into(), name: "n".into(), arguments: String::new() };
        let answer = Answer { text: "t".into(), wishes: vec![wish], finish: None };
        let message = as_message(&answer);
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{}");
        assert_eq!(as_message(&Answer::default()).get("tool_calls"), None);
    }
}
