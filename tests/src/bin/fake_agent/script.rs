//! What a prompt makes the agent do, line by line:
//!
//! - `TOOLS`: a line `server: tool tool …` for each server, asked now
//! - `CALL tool json`: a tool call with its updates, and the result's text
//! - `CALLON server tool json`: the same on the server of that name
//! - `PERMISSION`: asks; says which option was chosen, or `cancelled`
//! - `QUESTION [json]`: asks the user (`elicitation/create`), with these parameters or with a form of
//!   every kind of field; says the action and the values, or the error
//! - `COMPLETE id`: tells that what the page of this elicitation was for is done
//! - `SLOW ms`: one chunk each tenth of it; a cancel ends the turn
//! - `HANG`: until a cancel
//! - `IGNORE_CANCEL n ms`: n chunks, one every ms, whatever arrives; then `end_turn`
//! - `CHUNKS n`: so many chunks at once
//! - `BULK n bytes`: n updates of a tool call, each with so many bytes of output
//! - `STAMP n ms`: n updates of the kind `stamp`, one every ms, with the time in µs in `at`
//! - `SPAWN kinds`: children, see `gantry_tests::misbehave`
//! - `CRASH code`: ends the agent
//! - `UPDATE json`: that update as it is
//! - `STDERR text`, `NOISE`: a line on standard error; a line that is no JSON
//! - `ENV name`, `PID`, `CWD`: says it
//! - `READ path [line limit]`, `WRITE path text`: by `fs/*` of the client; says the text or the error
//! - `RUN line`: a command in a terminal of the client, shown in a tool call; says how it ended and
//!   what it wrote
//! - `START name json`: the same with these parameters of `terminal/create`, not waited for;
//!   `OUTPUT name`, `WAITFOR name`, `KILL name`, `RELEASE name`: what the client answers
//! - `REFUSE`, `ERROR text`: ends the turn with `refusal`, with a JSON-RPC error
//! - `ECHO text`, or anything else: says it

use crate::{
    Agent, client, say,
    session::{Server, Session},
};
use gantry_tests::misbehave;
use serde_json::{Value, json};
use std::time::Duration;

/// Runs the script; returns the stop reason.
pub async fn run(agent: &Agent, session: &Session, prompt: &Value) -> Result<&'static str, Value> {
    let blocks = prompt.as_array().cloned().unwrap_or_default();
    let text: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    for line in text.join("\n").lines().filter(|line| !line.trim().is_empty()) {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let reason = command(agent, session, word, rest).await?;
        if let Some(reason) = reason {
            return Ok(reason);
        }
    }
    Ok("end_turn")
}

/// One line; a stop reason ends the turn.
async fn command(
    agent: &Agent,
    session: &Session,
    word: &str,
    rest: &str,
) -> Result<Option<&'static str>, Value> {
    match word {
        "TOOLS" => tools(agent, session).await,
        "CALL" => {
            let (tool, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
            call(agent, session, None, tool, arguments).await;
        }
        "CALLON" => {
            let (server, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let (tool, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
            call(agent, session, Some(server), tool, arguments).await;
        }
        "QUESTION" => return Ok(question(agent, session, rest).await),
        "COMPLETE" => {
            let params = json!({ "elicitationId": rest });
            let told =
                json!({ "jsonrpc": "2.0", "method": "elicitation/complete", "params": params });
            say(&told.to_string());
        }
        "PERMISSION" => return Ok(permission(agent, session).await),
        "SLOW" => {
            let mut cancels = session.cancels();
            for _ in 0..10 {
                let part = tokio::time::sleep(Duration::from_millis(number(rest) / 10));
                tokio::select! {
                    () = part => agent.chunk(session, "."),
                    _ = cancels.changed() => return Ok(Some("cancelled")),
                }
            }
        }
        "HANG" => {
            let _ = session.cancels().changed().await;
            return Ok(Some("cancelled"));
        }
        "IGNORE_CANCEL" => {
            let (count, pause) = rest.split_once(' ').unwrap_or((rest, "100"));
            for chunk in 0..number(count) {
                tokio::time::sleep(Duration::from_millis(number(pause))).await;
                agent.chunk(session, &format!("late {chunk}\n"));
            }
        }
        "CHUNKS" => {
            for chunk in 0..number(rest) {
                agent.chunk(session, &format!("chunk {chunk}\n"));
            }
        }
        "BULK" => {
            let (count, bytes) = rest.split_once(' ').unwrap_or((rest, "1000"));
            bulk(agent, session, number(count), number(bytes));
        }
        "STAMP" => {
            let (count, pause) = rest.split_once(' ').unwrap_or((rest, "10"));
            for _ in 0..number(count) {
                tokio::time::sleep(Duration::from_millis(number(pause))).await;
                let now = std::time::SystemTime::now();
                let at = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                let at = u64::try_from(at.as_micros()).unwrap_or_default();
                agent.update(session, &json!({ "sessionUpdate": "stamp", "at": at }));
            }
        }
        "SPAWN" => misbehave::spawn_children(rest),
        "CRASH" => {
            eprintln!("fake_agent: crashes on request");
            std::process::exit(i32::try_from(number(rest)).unwrap_or(1));
        }
        "UPDATE" => {
            let update: Value = serde_json::from_str(rest)
                .map_err(|why| json!({ "code": -32602, "message": format!("UPDATE: {why}") }))?;
            agent.update(session, &update);
        }
        "STDERR" => eprintln!("{rest}"),
        "NOISE" => say("this is not JSON"),
        "ENV" => agent.chunk(session, &std::env::var(rest).unwrap_or_default()),
        "PID" => agent.chunk(session, &std::process::id().to_string()),
        "CWD" => {
            let cwd = std::env::current_dir().unwrap_or_default();
            agent.chunk(session, &cwd.display().to_string());
        }
        "READ" | "WRITE" | "RUN" | "START" | "OUTPUT" | "WAITFOR" | "KILL" | "RELEASE" => {
            let said = client::ask(agent, session, word, rest).await;
            agent.chunk(session, &said.unwrap_or_else(|why| format!("failed: {why}")));
        }
        "REFUSE" => return Ok(Some("refusal")),
        "ERROR" => return Err(json!({ "code": -32000, "message": rest })),
        "ECHO" => agent.chunk(session, rest),
        _ => agent.chunk(session, format!("{word} {rest}").trim()),
    }
    Ok(None)
}

/// A tool call with a lot of output, again and again.
fn bulk(agent: &Agent, session: &Session, count: u64, bytes: u64) {
    let id = format!("call-{}", agent.next());
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": id, "title": "bulk",
                       "kind": "other", "status": "in_progress" });
    agent.update(session, &call);
    let line = "all work and no play\n";
    let text = line.repeat(usize::try_from(bytes).unwrap_or_default() / line.len());
    let content = json!([{ "type": "content", "content": { "type": "text", "text": text } }]);
    for n in 1..=count {
        let status = if n == count { "completed" } else { "in_progress" };
        let update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": id,
                             "status": status, "content": content });
        agent.update(session, &update);
    }
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or(0)
}

async fn tools(agent: &Agent, session: &Session) {
    for server in session.servers() {
        let names = match &server.client {
            Ok(client) => client.tool_names().await.map_err(|why| format!("{why:#}")),
            Err(why) => Err(why.clone()),
        };
        let names = names.map_or_else(|why| format!("failed: {why}"), |names| names.join(" "));
        agent.chunk(session, &format!("{}: {names}\n", server.name));
    }
}

async fn call(agent: &Agent, session: &Session, on: Option<&str>, tool: &str, arguments: &str) {
    let id = format!("call-{}", agent.next());
    let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
    agent.update(
        session,
        &json!({ "sessionUpdate": "tool_call", "toolCallId": id, "title": tool, "kind": "other",
                 "status": "in_progress", "rawInput": input }),
    );
    let (status, text) = match call_first(&session.servers(), on, tool, input).await {
        Ok(result) => {
            let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
            ("completed", text)
        }
        Err(why) => ("failed", why),
    };
    let content = json!([{ "type": "content", "content": { "type": "text", "text": text } }]);
    agent.update(
        session,
        &json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status,
                 "content": content }),
    );
    agent.chunk(session, &format!("{tool}: {text}\n"));
}

/// Calls the tool on the first server that has it.
async fn call_first(
    servers: &[std::sync::Arc<Server>],
    on: Option<&str>,
    tool: &str,
    input: Value,
) -> Result<Value, String> {
    for server in servers.iter().filter(|server| on.is_none_or(|name| server.name == name)) {
        let Ok(client) = &server.client else { continue };
        let names = client.tool_names().await.map_err(|why| format!("failed: {why:#}"))?;
        if names.iter().any(|name| name == tool) {
            return client.call(tool, input).await.map_err(|why| format!("failed: {why:#}"));
        }
    }
    Err(format!("failed: I have no tool {tool}"))
}

async fn permission(agent: &Agent, session: &Session) -> Option<&'static str> {
    let options = json!([
        { "optionId": "yes", "name": "Allow once", "kind": "allow_once" },
        { "optionId": "always", "name": "Always allow", "kind": "allow_always" },
        { "optionId": "no", "name": "Reject", "kind": "reject_once" },
    ]);
    let call = json!({ "toolCallId": format!("call-{}", agent.next()), "title": "Write a file",
                       "kind": "edit", "status": "pending", "rawInput": { "path": "notes.txt" } });
    agent.update(session, &{
        let mut update = call.clone();
        update["sessionUpdate"] = json!("tool_call");
        update
    });
    let params = json!({ "sessionId": session.id, "toolCall": call, "options": options });
    let answer = agent.ask("session/request_permission", params).await;
    let outcome = &answer["result"]["outcome"];
    agent.note("permission", json!({ "answer": answer }));
    let chosen = outcome["optionId"].as_str().unwrap_or("cancelled");
    let status = if matches!(chosen, "yes" | "always") { "completed" } else { "failed" };
    agent.update(
        session,
        &json!({ "sessionUpdate": "tool_call_update", "toolCallId": call["toolCallId"], "status": status }),
    );
    if outcome["outcome"] == "cancelled" {
        return Some("cancelled");
    }
    agent.chunk(session, &format!("permission: {chosen}\n"));
    None
}

/// A form with every kind of field that ACP has.
fn form() -> Value {
    json!({ "mode": "form", "message": "Where shall it go?", "requestedSchema": {
        "type": "object", "required": ["name", "size"],
        "properties": {
            "name": { "type": "string", "title": "Name", "description": "Of the place",
                      "minLength": 2, "maxLength": 20 },
            "mail": { "type": "string", "title": "Mail", "format": "email" },
            "day": { "type": "string", "title": "Day", "format": "date" },
            "size": { "type": "integer", "title": "Size", "minimum": 1, "maximum": 9 },
            "share": { "type": "number", "title": "Share", "default": 0.5 },
            "public": { "type": "boolean", "title": "Public", "default": true },
            "colour": { "type": "string", "title": "Colour", "default": "g",
                        "oneOf": [{ "const": "r", "title": "Red" }, { "const": "g", "title": "Green" }] },
            "tags": { "type": "array", "title": "Tags", "maxItems": 2,
                      "items": { "type": "string", "enum": ["one", "two", "three"] } },
            "api_key": { "type": "string", "title": "Key" },
        },
    } })
}

async fn question(agent: &Agent, session: &Session, rest: &str) -> Option<&'static str> {
    let mut params =
        if rest.is_empty() { form() } else { serde_json::from_str(rest).unwrap_or_default() };
    params["sessionId"] = json!(session.id);
    let answer = agent.ask("elicitation/create", params).await;
    agent.note("question", json!({ "answer": answer }));
    let result = &answer["result"];
    match result["action"].as_str() {
        Some("cancel") => return Some("cancelled"),
        Some(action) => agent.chunk(session, &format!("{action} {}\n", result["content"])),
        None => agent.chunk(session, &format!("failed: {}\n", answer["error"]["message"])),
    }
    None
}
