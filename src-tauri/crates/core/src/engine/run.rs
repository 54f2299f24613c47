//! An engine's life: launch, `initialize`, what the agent sends, the end.

use super::{Engine, Engines, Process, state::EngineEvent};
use crate::{VERSION, engine::EngineState, session::MEMORY_VARIABLE};
use gantry_acp::{ClientInfo, FromAgent, Limits, RawUpdate, Tap, connect};
use gantry_supervisor::{
    Cause, Child, Deadline, Exit, Launch, LaunchError, Role, StderrTail, Task,
};
use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::Instant};

/// How long the warden gives the agent on its own account between TERM and KILL.
const GRACE: Duration = Duration::from_secs(1);
/// How long what a dead agent wrote last may take to reach us.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long what a failed agent left behind may take to end.
const CLEAN_UP: Duration = Duration::from_secs(5);
/// An agent that closed its output should end by itself within this.
const AFTER_OUTPUT: Duration = Duration::from_secs(1);
/// How many bytes that are no messages an agent may write before it has answered `initialize`:
/// one that writes without end would keep a processor busy until its time is over.
const MOST_RUBBISH: usize = 8_000_000;
/// How many lines of standard error explain a failure.
const STDERR_LINES: usize = 10;
/// Messages that are handed on together, when so many are there.
const BATCH: usize = 512;
/// Updates that follow others so closely are of an agent that streams faster than anybody reads.
/// As long is waited for more of them: each batch wakes the store, the feed and every reader, and
/// batches of one or two cost several times what the updates themselves do.
const BURST: Duration = Duration::from_millis(1);

/// Runs an engine from its launch to its end.
pub(super) async fn run(engine: Engine, engines: Engines) {
    let child = match launch(&engine).await {
        Ok(child) => child,
        Err(error) => {
            let why = format!("agent `{}`: {error}", engine.key().agent.id);
            return fail(&engine, &engines, why);
        }
    };
    let Child { tree, stdin, stdout, stderr } = child;
    tracing::info!(
        engine = engine.key().agent.id,
        pid = tree.program().pid,
        executable = %tree.executable().display(),
        "engine started"
    );
    let wire = engine.wire();
    let tap: Tap = Arc::new(move |direction, line| wire.add(direction, line));
    let offers = engine.key().agent.offers.into();
    let (peer, received, driver) = connect(stdout, stdin, Limits::default(), offers, Some(tap));
    let scope = &engine.inner.parts.scope;
    let name = format!("agent-{}-{}", engine.key().agent.id, engine.number());
    let driver = scope.spawn(format!("{name}-connection"), driver);
    let pump = scope.spawn(format!("{name}-updates"), pump(engine.clone(), received));
    let process = Process { tree: tree.clone(), peer: peer.clone() };
    if engine.inner.process.set(process).is_err() {
        tracing::error!("an engine was started twice");
        return;
    }
    // Whoever waits to stop it sees that there is a process now.
    engine.inner.state.send_modify(|_| {});

    let client = ClientInfo { name: "gantry", title: "Gantry", version: VERSION };
    let limit = engine.inner.parts.initialize_limit;
    let mut driver = Box::pin(driver.join());
    let mut stopping = Box::pin(until(&engine, |state| {
        !matches!(state, EngineState::Starting | EngineState::Ready)
    }));
    let why = tokio::select! {
        biased;
        _ = &mut stopping => None,
        exit = tree.exited() => Some(ended_with(&engine, exit, pump, &stderr).await),
        () = peer.rubbish_reaches(MOST_RUBBISH) => Some(explain(
            format!(
                "the agent wrote {} MB that are no messages instead of an answer to \
                 `initialize`; its command may not be an ACP agent",
                MOST_RUBBISH / 1_000_000
            ),
            &stderr,
            &peer.noise(),
        )),
        answer = Deadline::after(limit).bound(peer.initialize(client)) => match answer {
            Ok(Ok(facts)) => {
                tracing::info!(
                    engine = engine.key().agent.id,
                    agent = facts.name,
                    version = facts.version,
                    http = facts.http,
                    load = facts.load,
                    resume = facts.resume,
                    close = facts.close,
                    "engine ready"
                );
                let _ = engine.inner.facts.set(facts);
                engine.apply(EngineEvent::Initialized);
                tokio::select! {
                    biased;
                    _ = &mut stopping => None,
                    exit = tree.exited() => Some(ended_with(&engine, exit, pump, &stderr).await),
                    ended = &mut driver => {
                        Some(output_closed(&engine, ended.and_then(Result::err), &tree, pump, &stderr).await)
                    }
                }
            }
            Ok(Err(gantry_acp::PeerError::Lost)) => {
                Some(output_closed(&engine, None, &tree, pump, &stderr).await)
            }
            Ok(Err(error)) => {
                Some(explain(format!("the agent refused `initialize`: {error}"), &stderr, &peer.noise()))
            }
            Err(_) => Some(explain(
                format!("the agent did not answer `initialize` within {} s", limit.as_secs_f32()),
                &stderr,
                &peer.noise(),
            )),
        },
    };
    let cause = match why {
        Some(why) => {
            fail(&engine, &engines, why);
            Cause::Failed
        }
        None => {
            // Whoever asked for the stop ends the tree, unless they gave up before the launch was done.
            let _ = Deadline::after(CLEAN_UP).bound(until(&engine, EngineState::is_final)).await;
            Cause::Unused
        }
    };
    // Its children may still live, or it does not answer: everything of it goes.
    tree.stop(cause, Deadline::after(CLEAN_UP)).await;
}

/// Waits for a state.
async fn until(engine: &Engine, wanted: impl FnMut(&EngineState) -> bool) {
    let mut state = engine.inner.state.subscribe();
    // The sender lives as long as the engine, which we hold.
    drop(state.wait_for(wanted).await);
}

async fn launch(engine: &Engine) -> Result<Child, LaunchError> {
    let key = engine.key();
    let parts = &engine.inner.parts;
    let builtin = key.agent.command.is_empty();
    let mut env: Vec<(OsString, OsString)> =
        key.agent.env.iter().map(|(k, v)| (k.into(), v.into())).collect();
    if builtin {
        env.push((MEMORY_VARIABLE.into(), parts.memory.clone().into()));
    }
    let (program, args): (OsString, Vec<OsString>) = if builtin {
        (parts.gantry.clone().into(), vec!["agent".into()])
    } else {
        let program = PathBuf::from(&key.agent.command);
        (program.into(), key.agent.args.iter().map(OsString::from).collect())
    };
    parts
        .supervisor
        .launch(Launch {
            name: key.agent.id.clone(),
            role: Role::Engine,
            program,
            args,
            env,
            cwd: Some(key.project.clone()),
            grace: GRACE,
        })
        .await
}

/// Hands on what the agent sends, in its order. Never waits for anybody but the agent.
/// Updates that are there at once are handed on at once, those of a burst with the next of it.
async fn pump(engine: Engine, mut received: mpsc::Receiver<FromAgent>) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut burst_until = Instant::now();
    while received.recv_many(&mut batch, BATCH).await > 0 {
        let is_burst = batch.len() < BATCH && Instant::now() < burst_until;
        if is_burst && batch.iter().all(|message| matches!(message, FromAgent::Update { .. })) {
            tokio::time::sleep(BURST).await;
            while batch.len() < BATCH
                && let Ok(message) = received.try_recv()
            {
                batch.push(message);
            }
        }
        let mut updates = Updates { engine: &engine, session: String::new(), updates: Vec::new() };
        for message in batch.drain(..) {
            match message {
                FromAgent::Update { session, update } => updates.push(session, update),
                other => {
                    updates.hand_on();
                    hand_on(&engine, other);
                }
            }
        }
        updates.hand_on();
        burst_until = Instant::now() + BURST;
    }
}

/// Neighbouring updates of one session.
struct Updates<'a> {
    engine: &'a Engine,
    session: String,
    updates: Vec<RawUpdate>,
}

impl Updates<'_> {
    fn push(&mut self, session: String, update: RawUpdate) {
        if self.session != session {
            self.hand_on();
            self.session = session;
        }
        self.updates.push(update);
    }

    fn hand_on(&mut self) {
        if self.updates.is_empty() {
            return;
        }
        let updates = std::mem::take(&mut self.updates);
        let route = self.engine.routes().updates(&self.session, updates);
        if let Some((conversation, updates)) = route {
            conversation.updates(updates);
        }
    }
}

fn hand_on(engine: &Engine, message: FromAgent) {
    match message {
        FromAgent::Update { session, update } => {
            Updates { engine, session, updates: vec![update] }.hand_on();
        }
        FromAgent::Permission(ask) => {
            let conversation = engine.routes().conversation(&ask.session);
            match conversation {
                Some(conversation) => conversation.permission(ask),
                // Dropping it answers `cancelled`.
                None => tracing::warn!("a permission request of an unknown session was cancelled"),
            }
        }
        FromAgent::Call(call) => {
            let session = call.session.as_deref().unwrap_or_default();
            let conversation = match call.params.get("requestId") {
                Some(request) if call.session.is_none() => engine.routes().of_request(request),
                _ => engine.routes().conversation(session),
            };
            match conversation {
                Some(conversation) => conversation.call(call),
                None if call.session.is_none() => {
                    let why = "neither `sessionId` nor `requestId` names a session of ours";
                    call.answer(Err(gantry_acp::CallError::invalid(why)));
                }
                None => {
                    let why = format!("`sessionId`: there is no session `{session}`");
                    call.answer(Err(gantry_acp::CallError::invalid(why)));
                }
            }
        }
        FromAgent::Withdrawn { request } => {
            let conversations = engine.routes().all();
            conversations.iter().for_each(|conversation| conversation.withdrawn(&request));
        }
        FromAgent::Answer(answer) => answer.deliver(),
        FromAgent::Notification { method, params } if method == "elicitation/complete" => {
            let Some(id) = params.get("elicitationId").and_then(serde_json::Value::as_str) else {
                return;
            };
            let conversations = engine.routes().all();
            conversations.iter().for_each(|conversation| conversation.question_completed(id));
        }
        FromAgent::Notification { method, .. } => {
            tracing::debug!(method, "a notification of the agent was ignored");
        }
    }
}

fn fail(engine: &Engine, engines: &Engines, why: String) {
    // What the agent wrote last may hold what it was given to keep for itself.
    let why = engine.wire().masked(&why);
    if engines.is_quitting() {
        engine.apply(EngineEvent::StopAsked);
    }
    engine.apply(EngineEvent::Ended { why: why.clone() });
    if matches!(engine.state(), EngineState::Failed { .. }) {
        tracing::warn!(engine = engine.key().agent.id, why, "engine failed");
        engines.gone(engine, &why);
    }
}

/// The program ended: what it wrote last is taken in before anybody is told.
async fn ended_with(engine: &Engine, exit: Exit, pump: Task<()>, stderr: &StderrTail) -> String {
    let _ = Deadline::after(LAST_WORDS).bound(pump.join()).await;
    // Standard error is read by somebody else; it says why.
    stderr.settled().await;
    let noise = engine.inner.process.get().map(|process| process.peer.noise()).unwrap_or_default();
    explain(format!("agent ended with {exit}"), stderr, &noise)
}

/// The agent's output ended before the agent did.
async fn output_closed(
    engine: &Engine,
    problem: Option<gantry_acp::Disconnected>,
    tree: &gantry_supervisor::ProcessTree,
    pump: Task<()>,
    stderr: &StderrTail,
) -> String {
    match Deadline::after(AFTER_OUTPUT).bound(tree.exited()).await {
        Ok(exit) => ended_with(engine, exit, pump, stderr).await,
        Err(_) => {
            let what = problem.map_or_else(
                || "the agent closed its output but did not end".to_owned(),
                |problem| problem.to_string(),
            );
            explain(what, stderr, &[])
        }
    }
}

/// What happened, with what the agent said last: standard error, or else stray output.
fn explain(what: String, stderr: &StderrTail, noise: &[String]) -> String {
    let mut said = stderr.lines(STDERR_LINES);
    if said.is_empty() {
        said = noise.iter().rev().take(STDERR_LINES).rev().cloned().collect();
    }
    if said.is_empty() { what } else { format!("{what}: {}", said.join("\n")) }
}
