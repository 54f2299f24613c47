//! From a session to an ACP session in a running engine whose servers are ready.

use super::cell::{Cell, Counters, OpenInAgent};
use crate::{
    Error, Result,
    bridge::HandedServer,
    engine::{Engine, EngineState},
    session::{
        adopt::{self, Replay},
        records::of_a_server,
        setting::choose_again,
        sign_in,
        state::Event,
    },
    wire::{ContextOutcome, EngineOutcome, PromptCapabilities, ServerReadiness},
};
use gantry_acp::{AgentFacts, Opening, PeerError};
use gantry_supervisor::{Deadline, Ended};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// How long an engine that a session leaves may take to end.
const LEAVE: Duration = Duration::from_secs(5);
/// How long an agent may take to close a session.
const CLOSE: Duration = Duration::from_secs(2);
/// How long the reason of an engine's end may take to be known.
const REASON: Duration = Duration::from_secs(3);

/// Why a session was not opened.
pub(super) enum Problem {
    /// It was cancelled or stopped meanwhile.
    Interrupted,
    /// The prompt cannot be sent in this session; the session is as it was.
    Refused(Error),
    /// It failed.
    Failed(Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<gantry_store::StoreError> for Problem {
    fn from(error: gantry_store::StoreError) -> Self {
        Self::Failed(error.into())
    }
}

/// A session that can be prompted now.
pub(super) struct Prepared {
    pub(super) engine: Engine,
    pub(super) acp_id: String,
    pub(super) servers: Vec<ServerReadiness>,
    pub(super) outcome: EngineOutcome,
    pub(super) context: ContextOutcome,
}

/// Leases the session's servers, starts its engine if need be, waits for both, and opens
/// the session in the agent with the servers' URLs: every server that is ready by the
/// deadline has answered `tools/list` before the agent hears of the session. `waiting`
/// interrupts only as long as the agent has heard nothing of it.
pub(super) async fn prepare(
    cell: &Arc<Cell>,
    ready_by: Deadline,
    interrupt: &CancellationToken,
    waiting: &CancellationToken,
) -> std::result::Result<Prepared, Problem> {
    load_counters(cell).await?;
    let servers = {
        let mut inner = cell.lock();
        cell.apply(&mut inner, Event::OpeningBegan);
        inner.servers()
    };
    let (engine, outcome) = join_engine(cell).await?;
    cell.deps.bridge.lease(&cell.id, servers).await;
    let both = async {
        let ready = async { Ok(cell.deps.bridge.ready(&cell.id, ready_by).await) };
        // An engine that fails is not worth waiting for servers.
        futures::future::try_join(ready, engine.ready()).await
    };
    let (mut readiness, ()) = tokio::select! {
        biased;
        () = interrupt.cancelled() => return Err(Problem::Interrupted),
        () = waiting.cancelled() => return Err(Problem::Interrupted),
        both = both => both?,
    };
    learn(cell, &engine);
    let http = engine.facts().is_some_and(|facts| facts.http);
    let handover = cell.deps.bridge.handover(&cell.id, http);
    name_ways(&mut readiness, &handover);
    cell.lock().readiness.clone_from(&readiness);
    let (acp_id, context) = tokio::select! {
        biased;
        () = interrupt.cancelled() => return Err(Problem::Interrupted),
        opened = open(cell, &engine, handover) => opened?,
    };
    {
        // One that was open may have been opened otherwise than it would be now.
        let mut inner = cell.lock();
        if let Some(open) = &inner.open {
            name_ways(&mut readiness, &open.handed);
        }
        inner.readiness.clone_from(&readiness);
    }
    Ok(Prepared { engine, acp_id, servers: readiness, outcome, context })
}

/// How the agent reaches each server.
fn name_ways(readiness: &mut [ServerReadiness], handed: &[HandedServer]) {
    for server in readiness {
        if let Some(handed) = handed.iter().find(|handed| handed.name == server.name) {
            server.via = handed.via;
        }
    }
}

/// What its agent can do, for everybody to see.
fn learn(cell: &Cell, engine: &Engine) {
    let Some(facts) = engine.facts() else { return };
    let mut inner = cell.lock();
    inner.capabilities = Some(PromptCapabilities {
        image: facts.image,
        audio: facts.audio,
        embedded: facts.embedded,
    });
    inner.kept.restorable = Some(facts.load || facts.resume);
    let wanted = inner.sign_in.as_ref().is_some_and(|sign_in| sign_in.wanted);
    inner.sign_in = sign_in::of(facts, wanted);
}

/// The engine that fits the session now; leaves one that does not.
pub(super) async fn join_engine(cell: &Arc<Cell>) -> Result<(Engine, EngineOutcome)> {
    let (key, current, lost) = {
        let inner = cell.lock();
        let rules = *cell.deps.rules.borrow();
        (inner.key(rules), inner.engine.clone(), inner.lost_engine)
    };
    let mut replaces = lost;
    if let Some(current) = current {
        let lives = matches!(current.state(), EngineState::Starting | EngineState::Ready)
            && !current.has_ended();
        if lives && *current.key() == key {
            return Ok((current, EngineOutcome::Reused));
        }
        replaces = true;
        if current.key().agent != key.agent {
            // Another agent offers other things.
            cell.lock().offered.forget();
        }
        leave_engine(cell, Deadline::after(LEAVE)).await;
    }
    let attached = cell.deps.engines.attach(&key, &cell.id, cell.clone())?;
    {
        let mut inner = cell.lock();
        inner.engine = Some(attached.engine.clone());
        inner.open = None;
        inner.lost_engine = false;
    }
    let outcome = match (replaces, attached.started) {
        (true, _) => EngineOutcome::Recreated,
        (false, true) => EngineOutcome::Started,
        (false, false) => EngineOutcome::Reused,
    };
    Ok((attached.engine, outcome))
}

/// Leaves its engine, if it has one; ends it when it was the last session. The terminals
/// that it asked for end too.
pub(super) async fn leave_engine(cell: &Arc<Cell>, deadline: Deadline) -> Left {
    let (engine, open) = {
        let mut inner = cell.lock();
        (inner.engine.take(), inner.open.take())
    };
    let terminals = cell.client.terminals.stop_all(deadline).await;
    let mut left = Left { engine_stopped: false, ended: terminals };
    let Some(engine) = engine else { return left };
    if cell.deps.engines.detach(&engine, &cell.id) {
        left.engine_stopped = true;
        left.ended.extend(cell.deps.engines.stop_unused(&engine, deadline).await);
    } else if let Some(open) = open {
        engine.close_session(&open.acp_id, deadline.or_after(CLOSE)).await;
    }
    left
}

/// What ended with the leaving of an engine.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) engine_stopped: bool,
    pub(super) ended: Vec<Ended>,
}

/// Opens the session in the agent, unless it is open there with these servers.
async fn open(
    cell: &Arc<Cell>,
    engine: &Engine,
    handover: Vec<HandedServer>,
) -> Result<(String, ContextOutcome)> {
    let facts = engine.facts().cloned().unwrap_or_default();
    let (open, remembered, has_context, is_strange) = {
        let inner = cell.lock();
        let has_turns = inner.counters.unwrap_or_default().turn > 0;
        let adopted = inner.kept.adopted;
        (inner.open.clone(), inner.kept.acp_id.clone(), has_turns || adopted, adopted && !has_turns)
    };
    let unchanged = if has_context { ContextOutcome::Kept } else { ContextOutcome::New };
    if let Some(open) = &open {
        // A server that became healthy or fell ill is not worth the conversation; one that was
        // configured otherwise is.
        let pairs = open.handed.iter().zip(&handover);
        let does = open.handed.len() == handover.len()
            && pairs.into_iter().all(|(before, now)| before.does_as_well_as(now));
        let may_reopen = !does || !has_context || facts.resume || facts.load;
        if open.handed == handover || !may_reopen {
            return Ok((open.acp_id.clone(), unchanged));
        }
    }
    let servers: Vec<Value> = handover.iter().map(|handed| handed.entry.clone()).collect();
    let opened = match &remembered {
        Some(id) if is_strange => Some(take_up(cell, engine, &facts, id, &servers).await?),
        Some(id) if has_context => restore(cell, engine, &facts, id, &servers).await?,
        _ => None,
    };
    let context = match &opened {
        Some(_) => ContextOutcome::Restored,
        None if has_context => ContextOutcome::Lost,
        None => ContextOutcome::New,
    };
    let acp_id = match opened {
        Some(id) => id,
        None => match open_by(cell, engine, Opening::New, &servers).await {
            Ok(id) => id,
            Err(PeerError::Lost) => return Err(engine_error(engine).await),
            Err(error) => {
                if error.wants_sign_in() {
                    cell.lock().sign_in = sign_in::of(&facts, true);
                }
                return Err(refused(cell, &error));
            }
        },
    };
    if let Some(old) = open.filter(|open| open.acp_id != acp_id) {
        engine.close_session(&old.acp_id, Deadline::after(CLOSE)).await;
    }
    let fresh = context != ContextOutcome::Restored;
    // Before anybody can prompt it.
    choose_again(cell, engine, &acp_id).await;
    let open = OpenInAgent { acp_id: acp_id.clone(), handed: handover };
    if !opened_in(cell, engine, open, fresh, context) {
        return Err(engine_error(engine).await);
    }
    Ok((acp_id, context))
}

/// Goes on with the conversation. `None` when the agent cannot: it has to begin anew.
async fn restore(
    cell: &Arc<Cell>,
    engine: &Engine,
    facts: &AgentFacts,
    id: &str,
    servers: &[Value],
) -> Result<Option<String>> {
    let died_in = cell.lock().died_in;
    let ways = [(facts.resume, Opening::Resume(id)), (facts.load, Opening::Load(id))];
    let ways = ways.into_iter().filter(|(offered, way)| *offered && died_in != Some(way.method()));
    match by_one_of(cell, engine, ways, servers).await? {
        Ok(session) => Ok(Some(session)),
        // With what it had, it may well go on: a new conversation would give up the old one.
        Err(Some(refusal)) if cell.lock().kept.withheld.iter().any(|what| !of_a_server(what)) => {
            Err(refused(cell, &refusal))
        }
        Err(_) => Ok(None),
    }
}

/// Goes on with a conversation that the agent had before us. What was said in it is known to the
/// agent alone, so one that can tell it is asked for that.
async fn take_up(
    cell: &Arc<Cell>,
    engine: &Engine,
    facts: &AgentFacts,
    id: &str,
    servers: &[Value],
) -> Result<String> {
    cell.lock().replay = Some(Replay::default());
    let ways = [(facts.load, Opening::Load(id)), (facts.resume, Opening::Resume(id))];
    let ways = ways.into_iter().filter(|(offered, _)| *offered);
    let opened = by_one_of(cell, engine, ways, servers).await;
    let replay = cell.lock().replay.take().unwrap_or_default();
    match opened? {
        Ok(session) => {
            adopt::keep(cell, replay).await?;
            Ok(session)
        }
        Err(refusal) => {
            let why = refusal.map_or_else(
                || "it cannot go on with a conversation".to_owned(),
                |refusal| refusal.to_string(),
            );
            let agent = &engine.key().agent.id;
            Err(Error::upstream(format!("agent `{agent}` could not open this conversation: {why}")))
        }
    }
}

/// Opens a session that the agent knows in the first of these ways that it does not refuse. Inside,
/// what it said to the last one.
///
/// # Errors
/// The agent ended.
async fn by_one_of(
    cell: &Arc<Cell>,
    engine: &Engine,
    ways: impl Iterator<Item = (bool, Opening<'_>)>,
    servers: &[Value],
) -> Result<std::result::Result<String, Option<PeerError>>> {
    let mut refusal = None;
    for (_, way) in ways {
        match open_by(cell, engine, way, servers).await {
            Ok(session) => return Ok(Ok(session)),
            Err(PeerError::Lost) => {
                cell.lock().died_in = Some(way.method());
                return Err(engine_error(engine).await);
            }
            Err(error) => {
                tracing::warn!(session = cell.id, method = way.method(), %error, "the agent did not restore a session");
                refusal = Some(error);
            }
        }
    }
    Ok(Err(refusal))
}

/// The session is open from now on; false when its engine is gone already.
fn opened_in(
    cell: &Cell,
    engine: &Engine,
    open: OpenInAgent,
    fresh: bool,
    context: ContextOutcome,
) -> bool {
    let mut inner = cell.lock();
    if inner.engine.as_ref().is_none_or(|mine| mine.number() != engine.number()) {
        return false;
    }
    inner.kept.acp_id = Some(open.acp_id.clone());
    inner.kept.closed = None;
    inner.died_in = None;
    inner.fresh = fresh;
    inner.context = Some(context);
    inner.untold = Some(context);
    inner.wire = Some((engine.wire(), open.acp_id.clone()));
    if let Some(sign_in) = &mut inner.sign_in {
        sign_in.wanted = false;
    }
    inner.open = Some(open);
    let before = inner.state.clone();
    cell.apply(&mut inner, Event::Opened);
    if inner.state == before {
        cell.announce(&inner);
    }
    true
}

async fn open_by(
    cell: &Arc<Cell>,
    engine: &Engine,
    way: Opening<'_>,
    servers: &[Value],
) -> std::result::Result<String, PeerError> {
    let on_sent = || {
        tracing::info!(
            session = cell.id,
            agent = engine.key().agent.id,
            servers = servers.len(),
            "{} sent",
            way.method()
        );
    };
    engine.open_session(way, servers, cell.clone(), on_sent).await.map(|opened| opened.acp_id)
}

/// Why the engine is not there any more.
pub(super) async fn engine_error(engine: &Engine) -> Error {
    match Deadline::after(REASON).bound(engine.failure()).await {
        Ok(Some(why)) => Error::upstream(why),
        Ok(None) => Error::interrupted("the agent was stopped meanwhile; try again"),
        Err(_) => Error::upstream(PeerError::Lost.to_string()),
    }
}

fn refused(cell: &Cell, error: &PeerError) -> Error {
    let inner = cell.lock();
    let agent = &inner.agent().id;
    let message = if !inner.kept.withheld.is_empty() {
        format!(
            "agent `{agent}` could not open a session: {error}; these values of it are not kept on disk and must be sent again: {}",
            inner.kept.withheld.join(", ")
        )
    } else if error.wants_sign_in() {
        format!(
            "agent `{agent}` wants you to sign in first ({error}); sign in here, or start it once in a terminal and sign in there"
        )
    } else {
        format!("agent `{agent}` could not open a session: {error}")
    };
    Error::upstream(message).with_detail(error.to_value())
}

/// Reads where its turns and updates left off, once.
pub(super) async fn load_counters(cell: &Arc<Cell>) -> Result<()> {
    if cell.lock().counters.is_some() {
        return Ok(());
    }
    let turns = cell.deps.store.turns(&cell.id, None, 1).await?;
    let seq = cell.deps.store.last_seq(&cell.id).await?;
    let turn = turns.last().map_or(0, |turn| turn.number);
    cell.lock().counters.get_or_insert(Counters { turn, seq });
    Ok(())
}
