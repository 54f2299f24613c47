//! Signing in to an agent, and out of it.

use super::{
    actor::{fail, give_up, save},
    cell::Cell,
    opening::{self, Problem},
    records::is_secret,
    state::Event,
};
use crate::{Error, Result, engine::Engine, wire::*};
use gantry_acp::AgentFacts;
use gantry_supervisor::Deadline;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// How long a person may take to sign in in a browser.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long the session's servers may take after it.
const OPEN: Duration = Duration::from_secs(30);
/// How long an agent may take to forget a sign-in.
const LOG_OUT: Duration = Duration::from_secs(30);

/// What the agent says about it.
pub(super) fn of(facts: &AgentFacts, wanted: bool) -> Option<SignIn> {
    let nothing = facts.auth_methods.is_empty() && !facts.logout && !wanted;
    (!nothing).then(|| SignIn {
        wanted,
        methods: facts.auth_methods.clone(),
        log_out: facts.logout,
    })
}

/// Starts the agent if need be, signs in, and opens the session. What has to be done in
/// a terminal is told instead.
pub(super) async fn sign_in(
    cell: &Arc<Cell>,
    method: &str,
    life: &CancellationToken,
) -> Result<Authenticated> {
    {
        let mut inner = cell.lock();
        cell.apply(&mut inner, Event::OpeningBegan);
    }
    let signed_in = tokio::select! {
        biased;
        () = life.cancelled() => Err(Problem::Interrupted),
        signed_in = authenticate(cell, method) => signed_in.map_err(Problem::Failed),
    };
    let opened = match signed_in {
        Ok(None) => match opening::prepare(cell, Deadline::after(OPEN), life, life).await {
            Ok(_) => {
                save(cell).await;
                return Ok(Authenticated { done: true, command: None, env: Vec::new() });
            }
            Err(problem) => Err(problem),
        },
        Ok(Some(terminal)) => Ok(terminal),
        Err(problem) => Err(problem),
    };
    match opened {
        Ok(terminal) => {
            give_up(cell).await;
            Ok(terminal)
        }
        Err(Problem::Interrupted) => {
            give_up(cell).await;
            Err(Error::interrupted("the sign-in was interrupted: the session was stopped"))
        }
        Err(Problem::Refused(error) | Problem::Failed(error)) => {
            if !cell.lock().state.is_open() {
                fail(cell, &error).await;
            }
            Err(error)
        }
    }
}

/// `None` when the agent was signed in to.
async fn authenticate(cell: &Arc<Cell>, method: &str) -> Result<Option<Authenticated>> {
    let (engine, _) = opening::join_engine(cell).await?;
    engine.ready().await?;
    let facts = engine.facts().cloned().unwrap_or_default();
    let found = facts.auth_methods.iter().find(|offered| offered["id"] == method);
    let Some(found) = found else {
        let ids: Vec<&str> = facts.auth_methods.iter().filter_map(|m| m["id"].as_str()).collect();
        return Err(Error::invalid(format!(
            "method: the agent has no sign-in `{method}`; it has {}",
            if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }
        )));
    };
    if found["type"] == "terminal" {
        return Ok(Some(in_terminal(cell, &engine, found)));
    }
    let answered = engine.authenticate(method, cell.clone());
    match Deadline::after(PATIENCE).bound(answered).await {
        Ok(Ok(())) => {
            if let Some(sign_in) = &mut cell.lock().sign_in {
                sign_in.wanted = false;
            }
            Ok(None)
        }
        Ok(Err(gantry_acp::PeerError::Lost)) => Err(opening::engine_error(&engine).await),
        Ok(Err(error)) => {
            Err(Error::upstream(format!("the sign-in failed: {error}"))
                .with_detail(error.to_value()))
        }
        Err(_) => Err(Error::upstream("nobody finished the sign-in within ten minutes; try again")),
    }
}

/// The agent's own program with other arguments.
fn in_terminal(cell: &Cell, engine: &Engine, method: &Value) -> Authenticated {
    let agent = &engine.key().agent;
    let mut command = match agent.command.as_str() {
        "" => vec![cell.deps.engines.gantry(), "agent".to_owned()],
        program => vec![program.to_owned()],
    };
    command.extend(agent.args.iter().cloned());
    let more = method["args"].as_array().map(Vec::as_slice).unwrap_or_default();
    command.extend(more.iter().filter_map(Value::as_str).map(str::to_owned));
    // Where the agent keeps what it knows of the user may depend on its own environment.
    let own = agent.env.iter().filter(|(name, _)| !is_secret(name));
    let mut env: BTreeMap<&str, &str> = own.map(|(name, value)| (&**name, &**value)).collect();
    let more = method["env"].as_object().into_iter().flatten();
    env.extend(more.filter_map(|(name, value)| Some((&**name, value.as_str()?))));
    let env = env.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    Authenticated { done: false, command: Some(command), env }
}

/// Tells the agent to forget the sign-in.
pub(super) async fn log_out(cell: &Cell) -> Result<()> {
    let engine = cell.lock().engine.clone();
    let Some(engine) = engine else {
        return Err(Error::invalid("session: its agent does not run; resume the session first"));
    };
    if !engine.facts().is_some_and(|facts| facts.logout) {
        return Err(Error::invalid(
            "the agent does not offer to sign out here; use its own program",
        ));
    }
    let answered = match engine.peer() {
        Ok(peer) => Deadline::after(LOG_OUT).bound(peer.log_out()).await,
        Err(error) => Ok(Err(error)),
    };
    match answered {
        Ok(Ok(())) => {
            let mut inner = cell.lock();
            if let Some(sign_in) = &mut inner.sign_in {
                sign_in.wanted = true;
            }
            cell.announce(&inner);
            Ok(())
        }
        Ok(Err(error)) => Err(Error::upstream(format!("the agent did not sign out: {error}"))),
        Err(_) => Err(Error::upstream("the agent did not answer to the sign-out in time")),
    }
}
