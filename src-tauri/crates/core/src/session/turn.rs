//! A turn: from the accepted prompt to `session/prompt` on its way to the agent.

use super::{
    actor::{accepted, save},
    cell::{Cell, Job},
    notes::Note,
    opening::{Problem, engine_error, load_counters, prepare},
    state::{CANCELLED, Event, Outcome, Phase},
};
use crate::{
    Result,
    events::now,
    wire::{ContextOutcome, EngineOutcome, Happening, PromptAccepted, TurnOpening},
};
use gantry_store::TurnRow;
use gantry_supervisor::Deadline;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The row of a turn that begins now.
pub(super) async fn new_row(cell: &Arc<Cell>, job: &Job) -> Result<TurnRow> {
    load_counters(cell).await?;
    let number = {
        let mut inner = cell.lock();
        let counters = inner.counters.get_or_insert_default();
        counters.turn += 1;
        counters.turn
    };
    Ok(TurnRow {
        id: job.turn.clone(),
        session_id: cell.id.clone(),
        number,
        prompt: Value::Array(job.prompt.content.clone()).to_string(),
        request_id: job.prompt.request_id.clone(),
        started_at: now(),
        ended_at: None,
        stop_reason: None,
        description: None,
    })
}

/// Sends a claimed prompt. Returns once it was written to the agent.
pub(super) async fn send(
    cell: &Arc<Cell>,
    job: &mut Job,
    interrupt: &CancellationToken,
) -> std::result::Result<PromptAccepted, Problem> {
    cell.lock().adopt(&job.prompt);
    let ready_by = Deadline::after(job.prompt.ready_timeout);
    let mut prepared = prepare(cell, ready_by, interrupt, interrupt).await?;
    if prepared.outcome == EngineOutcome::Reused && prepared.engine.has_ended() {
        // It died since, which nobody has been told yet: the prompt deserves another one.
        prepared = prepare(cell, ready_by, interrupt, interrupt).await?;
    }
    let engine = prepared.engine;
    let context = {
        let mut inner = cell.lock();
        // What it can take is known only now.
        super::content::check(&job.prompt.content, inner.capabilities).map_err(Problem::Refused)?;
        // A session that was opened ahead tells with its first prompt what that did.
        match (prepared.context, inner.untold.take()) {
            (ContextOutcome::Kept, Some(untold)) => untold,
            (context, _) => context,
        }
    };
    let opening =
        TurnOpening { servers: prepared.servers.clone(), engine: prepared.outcome, context };

    let row = new_row(cell, job).await?;
    let number = row.number;
    if !begin(cell, job, row.clone()) {
        // The engine ended in between.
        return Err(Problem::Failed(engine_error(&engine).await));
    }
    if let Err(error) = cell.deps.store.save_turn(row).await {
        let mut inner = cell.lock();
        let outcome = Outcome::Error(error.to_string());
        cell.apply(&mut inner, Event::Replied(job.turn.clone(), outcome));
        return Err(error.into());
    }
    let content = {
        let mut inner = cell.lock();
        cell.note(&mut inner, Some(&job.turn), &Note::Opening(opening.clone()));
        inner.opening = Some(opening);
        cell.deps.events.publish(Happening::TurnStarted {
            session: cell.id.clone(),
            turn: job.turn.clone(),
            number,
            request_id: job.prompt.request_id.clone(),
            prompt: job.prompt.content.clone(),
        });
        cell.announce(&inner);
        if matches!(inner.state.phase, Phase::Cancelling { .. }) {
            // Cancelled in the instant before it was sent: the agent need not see it.
            let outcome = Outcome::Done(CANCELLED.to_owned());
            cell.apply(&mut inner, Event::Replied(job.turn.clone(), outcome));
            return Ok(accepted(&job.turn, prepared.servers, prepared.outcome, context));
        }
        let mut content = Vec::new();
        if std::mem::take(&mut inner.fresh)
            && let Some(system) = &inner.kept.system_prompt
        {
            content.push(json!({ "type": "text", "text": system }));
        }
        content.extend(job.prompt.content.iter().cloned());
        content
    };
    let (of, turn) = (cell.clone(), job.turn.clone());
    let written =
        engine.prompt(&prepared.acp_id, &content, move |answer| of.replied(&turn, answer));
    if let Ok(written) = &written {
        cell.lock().sent = Some(written.request());
    }
    let sent = match written {
        Ok(written) => tokio::select! {
            biased;
            sent = written.wait() => sent,
            // An agent that does not read: the stop goes on, the turn is cancelled by it.
            () = interrupt.cancelled() => Ok(()),
        },
        Err(error) => Err(error),
    };
    if sent.is_err() {
        return Err(Problem::Failed(engine_error(&engine).await));
    }
    tracing::info!(
        session = cell.id,
        turn = job.turn,
        agent = engine.key().agent.id,
        "session/prompt sent"
    );
    save(cell).await;
    Ok(accepted(&job.turn, prepared.servers, prepared.outcome, context))
}

/// The turn runs from now on; false when there is nothing to run it in.
fn begin(cell: &Cell, job: &Job, row: TurnRow) -> bool {
    let mut inner = cell.lock();
    cell.apply(&mut inner, Event::Prompted(job.turn.clone()));
    if inner.state.running() != Some(job.turn.as_str()) {
        return false;
    }
    inner.begin_turn(row);
    if inner.kept.title.is_empty() {
        inner.kept.title = title_of(&job.prompt.content);
    }
    true
}

/// A title from the first prompt's text.
pub(super) fn title_of(content: &[Value]) -> String {
    let text = content
        .iter()
        .find_map(|block| block.get("text").and_then(Value::as_str))
        .unwrap_or_default();
    super::title_from(text)
}
