//! What the agent asks the client to do: files and terminals.

use crate::{Agent, session::Session};
use serde_json::{Value, json};

/// One line of the script; what it says, or the client's error.
pub async fn ask(
    agent: &Agent,
    session: &Session,
    word: &str,
    rest: &str,
) -> Result<String, String> {
    let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
    match word {
        "READ" => {
            let mut params = json!({ "path": first });
            let mut numbers = more.split_whitespace().filter_map(|part| part.parse::<u64>().ok());
            for field in ["line", "limit"] {
                params[field] = json!(numbers.next());
            }
            let answer = request(agent, session, "fs/read_text_file", params).await?;
            Ok(answer["content"].as_str().unwrap_or_default().to_owned())
        }
        "WRITE" => {
            let params = json!({ "path": first, "content": more });
            request(agent, session, "fs/write_text_file", params).await?;
            Ok("written".to_owned())
        }
        "RUN" => {
            let id = start(agent, session, json!({ "command": rest })).await?;
            let exit = of(agent, session, "wait_for_exit", &id).await?;
            let output = of(agent, session, "output", &id).await?;
            of(agent, session, "release", &id).await?;
            Ok(format!("{exit} {}", output["output"].as_str().unwrap_or_default()))
        }
        "START" => {
            let params: Value = serde_json::from_str(more).map_err(|why| why.to_string())?;
            let id = start(agent, session, params).await?;
            session.name_terminal(first, &id);
            Ok("started".to_owned())
        }
        _ => {
            let id = session.terminal(first).ok_or_else(|| format!("no terminal {first}"))?;
            let method = match word {
                "OUTPUT" => "output",
                "WAITFOR" => "wait_for_exit",
                "KILL" => "kill",
                _ => "release",
            };
            of(agent, session, method, &id).await.map(|answer| answer.to_string())
        }
    }
}

/// Starts a command and shows it in a tool call.
async fn start(agent: &Agent, session: &Session, params: Value) -> Result<String, String> {
    let call = format!("call-{}", agent.next());
    let answer = request(agent, session, "terminal/create", params.clone()).await?;
    let id = answer["terminalId"].as_str().unwrap_or_default().to_owned();
    agent.update(
        session,
        &json!({ "sessionUpdate": "tool_call", "toolCallId": call, "kind": "execute",
                 "title": params["command"], "status": "in_progress",
                 "content": [{ "type": "terminal", "terminalId": id }] }),
    );
    Ok(id)
}

async fn of(agent: &Agent, session: &Session, what: &str, id: &str) -> Result<Value, String> {
    request(agent, session, &format!("terminal/{what}"), json!({ "terminalId": id })).await
}

async fn request(
    agent: &Agent,
    session: &Session,
    method: &str,
    mut params: Value,
) -> Result<Value, String> {
    params["sessionId"] = json!(session.id);
    let mut answer = agent.ask(method, params).await;
    agent.note("client", json!({ "method": method, "answer": answer }));
    match answer.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => {
            let error = &answer["error"];
            Err(format!("{} {}", error["code"], error["message"].as_str().unwrap_or_default()))
        }
    }
}
