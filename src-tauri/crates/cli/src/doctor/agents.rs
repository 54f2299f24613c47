//! Agents: each is started, asked for `initialize`, and ended again.

use super::Finding;
use crate::terminal::quoted;
use futures::{StreamExt as _, stream::FuturesUnordered};
use gantry_core::{data_dir::DataDir, programs::Programs, wire::AgentConfig};
use gantry_store::Reader;
use gantry_supervisor::{Cause, Deadline, Launch, LaunchError, Role, Supervisor};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

/// How long an agent may take; one that is downloaded first takes its time.
const ANSWERS: Duration = Duration::from_secs(30);
/// For how a program ended to be known.
const EXIT: Duration = Duration::from_secs(1);
/// For its end.
const END: Duration = Duration::from_secs(4);

/// The built-in one and the saved ones; each is told when it is known.
pub async fn agents(
    supervisor: &Supervisor,
    ours: &Programs,
    data: &DataDir,
    mut tell: impl FnMut(Finding),
) {
    let builtin = AgentConfig {
        name: "Built-in".into(),
        command: ours.gantry.display().to_string(),
        args: vec!["agent".into()],
        env: Default::default(),
        offers: Default::default(),
    };
    let mut all = vec![("built-in".to_owned(), builtin)];
    for row in Reader::new(&data.database).agents().unwrap_or_default() {
        match serde_json::from_str(&row.config) {
            Ok(config) => all.push((row.id, config)),
            Err(error) => tell(Finding::problem(
                format!("agent {}", row.id),
                format!("its stored configuration cannot be read: {error}"),
                "remove it and add it again",
            )),
        }
    }
    let looks = all.into_iter().map(|(id, config)| look(supervisor, id, config));
    let mut looks: FuturesUnordered<_> = looks.collect();
    while let Some(finding) = looks.next().await {
        tell(finding);
    }
}

async fn look(supervisor: &Supervisor, id: String, config: AgentConfig) -> Finding {
    let check = format!("agent {id}");
    let words = std::iter::once(&config.command).chain(&config.args);
    let command = words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    match start(supervisor, &id, config).await {
        Ok(said) => Finding::ok(check, said),
        Err((why, advice)) => {
            let advice =
                advice.unwrap_or_else(|| format!("run `{command}` in a terminal and look"));
            Finding::problem(check, format!("does not start: {why}"), advice)
        }
    }
}

async fn start(
    supervisor: &Supervisor,
    id: &str,
    config: AgentConfig,
) -> Result<String, (String, Option<String>)> {
    let command = config.command.clone();
    let child = supervisor
        .launch(Launch {
            name: format!("agent {id}"),
            role: Role::Engine,
            program: config.command.into(),
            args: config.args.into_iter().map(Into::into).collect(),
            env: config.env.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            cwd: None,
            grace: Duration::from_secs(1),
        })
        .await
        .map_err(|error| {
            let advice = matches!(error, LaunchError::NotFound { .. })
                .then(|| format!("install `{command}`, or give its full path"));
            (error.to_string(), advice)
        })?;
    let mut stdin = child.stdin;
    let mut lines = BufReader::new(child.stdout).lines();
    let asked = async {
        let hello = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": { "protocolVersion": 1, "clientCapabilities": {},
                "clientInfo": { "name": "gantry-doctor", "version": gantry_core::VERSION } },
        });
        stdin.write_all(format!("{hello}\n").as_bytes()).await.ok()?;
        stdin.flush().await.ok()?;
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap_or_default();
            if message["id"] == 1 && message.get("method").is_none() {
                return Some(message);
            }
        }
        None
    };
    let answer = Deadline::after(ANSWERS).bound(asked).await;
    let exit = match answer {
        Ok(None) => Deadline::after(EXIT).bound(child.tree.exited()).await.ok(),
        _ => None,
    };
    let ended = child.tree.stop(Cause::Quit, Deadline::after(END)).await;
    child.stderr.settled().await;
    let last = child.stderr.lines(3).join(" | ");
    let with_last = |why: &str| match last.is_empty() {
        true => why.to_owned(),
        false => format!("{why}; it said: {last}"),
    };
    match answer {
        Err(_) => Err((with_last("it did not answer `initialize` within 30 s"), None)),
        Ok(None) => {
            let exit = exit.map_or(String::new(), |exit| format!(" with {exit}"));
            let why = format!("it ended{exit} before it answered `initialize`");
            Err((with_last(&why), None))
        }
        Ok(Some(message)) if message.get("error").is_some() => {
            Err((format!("it refused `initialize`: {}", message["error"]["message"]), None))
        }
        Ok(Some(message)) => {
            let agent = &message["result"]["agentInfo"];
            let name = agent["name"].as_str().unwrap_or("answers");
            let version = agent["version"].as_str().unwrap_or_default();
            let forced = if ended.forced > 0 { ", had to be ended by force" } else { "" };
            Ok(format!("{name} {version}{forced}").trim().to_owned())
        }
    }
}
