//! The tool console, and the way to the model where there is one.

use super::{
    call::{self, Outcome},
    command::{self, Call, Command},
    conversation,
    models::{Menu, Models},
    speaker::Speaker,
    tools::{Found, Lookup, Toolbox},
    upstream::State,
};
use agent_client_protocol::v1::schema::{ContentBlock, ContentChunk, SessionUpdate, StopReason};
use gantry_supervisor::Deadline;
use std::{fmt::Write as _, time::Duration};
use tokio_util::sync::CancellationToken;

/// How long a prompt waits for servers that have not answered yet.
const SETTLE: Duration = Duration::from_secs(10);
/// A longer result is cut in the text; the card has all of it.
const LONGEST_TEXT: usize = 50_000;

const HELP: &str = "\
Here you can run the tools of this session's MCP servers by hand.\n\n\
- `/tools` lists the tools, server by server\n\
- `/call <tool> <json>` calls one, for example `/call echo {\"message\": \"hello\"}`; \
where two servers have a tool of the same name, write `server/tool`\n\
- `/help` shows this\n\n\
A tool that may change something asks for your permission first.\n";

const NO_MODEL: &str = "\
No model is connected to this agent, so it cannot answer in words; it runs tools. To connect \
a model, set `OPENAI_BASE_URL` and `OPENAI_MODEL` (and `OPENAI_API_KEY` where it is needed) in \
this agent's environment: any OpenAI-compatible endpoint will do, a local one too.";

/// One turn: does what the prompt says and returns why it ended.
pub(super) async fn turn(
    models: &Models,
    speaker: &Speaker,
    prompt: &[ContentBlock],
    text: &str,
    turn: &CancellationToken,
) -> StopReason {
    for block in prompt {
        // The client has shown it; a later `session/load` needs it.
        let chunk = ContentChunk::new(block.clone());
        speaker.session.remember(&SessionUpdate::UserMessageChunk(chunk));
    }
    let answered = match Command::parse(text) {
        // A call has its own way of being cancelled: its card must be finished.
        Command::Call(wanted) => run(speaker, &wanted, turn).await,
        Command::Tools => {
            turn.run_until_cancelled(async {
                speaker.say(&list(&gather_again(speaker).await)).await;
            })
            .await
        }
        Command::Help => turn.run_until_cancelled(speaker.say(HELP)).await,
        Command::Unknown(name) => {
            let text = format!("There is no command `/{name}`.\n\n{HELP}");
            turn.run_until_cancelled(speaker.say(&text)).await
        }
        Command::Talk(_) => {
            let Some(toolbox) = turn.run_until_cancelled(gather(speaker)).await else {
                return StopReason::Cancelled;
            };
            // For the next prompt; this one does not wait for it.
            for upstream in speaker.session.upstreams() {
                upstream.try_again();
            }
            let Some(menu) = turn.run_until_cancelled(menu(models, speaker)).await else {
                return StopReason::Cancelled;
            };
            match (menu.chosen(), &menu.problem) {
                (Some(model), _) => {
                    return conversation::turn(&model, speaker, &toolbox, prompt, turn).await;
                }
                (None, Some(problem)) => {
                    let text = format!(
                        "**No answer:** OPENAI_MODEL is not set, and no model could be chosen: \
                         {problem}\n"
                    );
                    turn.run_until_cancelled(speaker.say(&text)).await
                }
                (None, None) => {
                    turn.run_until_cancelled(speaker.say(&introduce(&toolbox, &menu))).await
                }
            }
        }
    };
    if answered.is_none() { StopReason::Cancelled } else { StopReason::EndTurn }
}

/// The session's models; where none could be found they are looked for again.
async fn menu(models: &Models, speaker: &Speaker) -> Menu {
    let menu = speaker.session.menu();
    if menu.chosen().is_some() || menu.problem.is_none() {
        return menu;
    }
    speaker.session.offer(models.menu().await)
}

/// The session's servers as they are, once each has answered or failed.
async fn gather(speaker: &Speaker) -> Toolbox {
    Toolbox::gather(&speaker.session.upstreams(), Deadline::after(SETTLE)).await
}

/// The same, after those that failed have tried again.
async fn gather_again(speaker: &Speaker) -> Toolbox {
    for upstream in speaker.session.upstreams() {
        upstream.try_again();
    }
    gather(speaker).await
}

/// `None` when it was cancelled.
async fn run(speaker: &Speaker, wanted: &Call<'_>, turn: &CancellationToken) -> Option<()> {
    let mut toolbox = turn.run_until_cancelled(gather(speaker)).await?;
    // A server that failed does not delay the call of another one's tool.
    if matches!(toolbox.find(wanted.tool), Lookup::None(_)) {
        toolbox = turn.run_until_cancelled(gather_again(speaker)).await?;
    }
    let (found, arguments) = match choose(&toolbox, wanted) {
        Ok(chosen) => chosen,
        Err(problem) => return turn.run_until_cancelled(speaker.say(&problem)).await,
    };
    let arguments = match command::arguments(arguments) {
        Ok(arguments) => arguments,
        Err(problem) => return turn.run_until_cancelled(speaker.say(&problem)).await,
    };
    let name = &found.tool.name;
    let text = match call::call(speaker, &found, arguments, turn).await {
        Outcome::Answered(result) if call::is_error(&result) => {
            format!("`{name}` reported an error:\n\n{}", call::text(&result))
        }
        Outcome::Answered(result) => call::text(&result),
        Outcome::Failed(why) => format!("`{name}` gave no result: {why}"),
        Outcome::Rejected => format!("`{name}` was not called: you rejected it."),
        Outcome::Cancelled => return None,
    };
    turn.run_until_cancelled(speaker.say(&shortened(text))).await
}

/// The tool that is meant and the text of its arguments, or what to tell the user.
fn choose<'a>(toolbox: &Toolbox, wanted: &Call<'a>) -> Result<(Found, &'a str), String> {
    if wanted.tool.is_empty() {
        return Err("Which tool? Write `/call <tool> <json>`; `/tools` lists them.".into());
    }
    let near = match toolbox.find(wanted.tool) {
        Lookup::One(found) => return Ok((*found, wanted.arguments)),
        Lookup::Several(names) => return Err(ambiguous(wanted.tool, &names)),
        Lookup::None(near) => near,
    };
    // No tool has that name: the name may end earlier, with arguments that are no object.
    if let Some((name, rest)) = wanted.at_first_space() {
        match toolbox.find(name) {
            Lookup::One(found) => {
                // The problem lies in the arguments; all of what was written belongs to them.
                // The problem lies in the arguments, and what was written says which.
                if wanted.arguments.is_empty() {
                    return Ok((*found, rest.trim()));
                }
                return Err(format!(
                    "The arguments of `{}` must be one JSON object, but `{}` stands before it.",
                    found.tool.name,
                    rest.trim()
                ));
            }
            Lookup::Several(names) => return Err(ambiguous(name, &names)),
            Lookup::None(_) => {}
        }
    }
    let mut text = format!("There is no tool `{}`.", wanted.tool);
    if near.is_empty() {
        text.push_str(" `/tools` lists those that are ready.");
    } else {
        let _ = write!(text, " Did you mean {}?", quoted(&near));
    }
    for listed in &toolbox.servers {
        if !matches!(listed.state, State::Ready(_)) {
            let _ = write!(text, "\n\n{}", status(&listed.server, &listed.state));
        }
    }
    Err(text)
}

fn ambiguous(name: &str, names: &[String]) -> String {
    format!("More than one server has a tool `{name}`. Write {}.", quoted(names))
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(" or ")
}

/// `/tools`.
fn list(toolbox: &Toolbox) -> String {
    if toolbox.servers.is_empty() {
        return "This session has no tool servers. Add one in Gantry and it will be here.".into();
    }
    let mut text = String::new();
    for listed in &toolbox.servers {
        let _ = writeln!(text, "{}\n", status(&listed.server, &listed.state));
        if let State::Ready(ready) = &listed.state {
            for tool in &ready.tools {
                let about = tool.description.as_deref().unwrap_or_default();
                let about = about.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
                let short: String = about.trim().chars().take(140).collect();
                let more = if short.len() < about.trim().len() { "…" } else { "" };
                let dash = if short.is_empty() { "" } else { " — " };
                let _ = writeln!(text, "- `{}`{}{dash}{short}{more}", tool.name, parameters(tool));
            }
            text.push('\n');
        }
    }
    text.push_str("Call one with `/call <tool> <json>`.\n");
    text
}

/// The parameters that must be given.
fn parameters(tool: &rmcp::model::Tool) -> String {
    let required = tool.input_schema.get("required").and_then(|r| r.as_array());
    let names: Vec<&str> = required.into_iter().flatten().filter_map(|n| n.as_str()).collect();
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

fn status(server: &str, state: &State) -> String {
    match state {
        State::Ready(ready) => {
            let count = ready.tools.len();
            let word = if count == 1 { "tool" } else { "tools" };
            format!("**{server}**: {count} {word}")
        }
        State::Connecting => format!("**{server}**: has not answered yet"),
        State::Failed(why) => format!("**{server}**: cannot be used: {why}"),
        State::Closed => format!("**{server}**: closed"),
    }
}

/// The answer to anything that is not a command.
fn introduce(toolbox: &Toolbox, menu: &Menu) -> String {
    let mut text = format!("{NO_MODEL}\n\n");
    let local: Vec<String> = menu.names().map(|name| format!("`{name}`")).collect();
    if !local.is_empty() {
        let _ = write!(
            text,
            "Ollama runs on this computer with {}: choose one of its models in this session's \
             options.\n\n",
            local.join(", ")
        );
    }
    let names: Vec<String> =
        toolbox.tools().map(|found| format!("`{}`", found.tool.name)).collect();
    const SHOWN: usize = 12;
    if names.is_empty() {
        text.push_str("No tools are ready in this session.");
    } else {
        let more = names.len().saturating_sub(SHOWN);
        let _ = write!(text, "Ready tools: {}", names[..names.len().min(SHOWN)].join(", "));
        if more > 0 {
            let _ = write!(text, " and {more} more");
        }
        text.push('.');
    }
    text.push_str(
        " `/tools` lists them with what they do, `/call <tool> <json>` calls one, \
         `/help` says more.\n",
    );
    text
}

fn shortened(mut text: String) -> String {
    if text.len() > LONGEST_TEXT {
        let whole = text.len();
        text.truncate(text.floor_char_boundary(LONGEST_TEXT));
        let _ = write!(text, "\n\n… ({whole} bytes in all; the tool card has the whole output)");
    }
    text
}
