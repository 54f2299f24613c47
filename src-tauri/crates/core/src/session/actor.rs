//! A session's actor: does what has to wait, one thing after the other.

use super::{
    cell::{Cell, Chore, Command, Job},
    notes::Note,
    opening::{self, Problem},
    sign_in,
    state::Event,
    stopping, turn,
};
use crate::{
    Error,
    events::now,
    wire::{ContextOutcome, EngineOutcome, Happening, PromptAccepted, TurnOpening},
};
use gantry_store::TurnRow;
use gantry_supervisor::Deadline;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// How long all servers together may take before a session that nobody has prompted yet is opened.
const OPEN_AHEAD: Duration = Duration::from_secs(30);
/// How long the servers of a failed session may take to end.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// Runs until the session is deleted or Gantry ends.
pub(super) async fn run(cell: Arc<Cell>, mut mailbox: mpsc::Receiver<Command>) {
    let mut over = Box::pin(cell.deps.scope.cancelled());
    loop {
        do_chores(&cell).await;
        if let Some(job) = cell.next_queued() {
            send_prompt(&cell, *job).await;
            continue;
        }
        let alarm_at = cell.alarm_at();
        let command = tokio::select! {
            biased;
            () = &mut over => return,
            () = cell.wake.notified() => continue,
            () = async { tokio::time::sleep_until(alarm_at.unwrap_or_else(far)).await },
                if alarm_at.is_some() =>
            {
                cell.alarm();
                continue;
            }
            command = mailbox.recv() => command,
        };
        match command {
            Some(Command::Open { epoch }) => open_ahead(&cell, epoch).await,
            Some(Command::Prompt(job)) => send_prompt(&cell, *job).await,
            Some(Command::Stop { deadline, warm }) => {
                let stopped = stopping::stop(&cell, deadline, warm).await;
                cell.stopped(stopped);
            }
            Some(Command::SignIn { method, epoch, reply }) => {
                let signed_in = match cell.life(epoch) {
                    Some(life) => sign_in::sign_in(&cell, &method, &life).await,
                    None => Err(Error::interrupted("the session was stopped meanwhile")),
                };
                // Whoever asked may have gone away.
                let _ = reply.send(signed_in);
            }
            Some(Command::Park(idle)) => {
                if cell.idle_for().is_some_and(|span| span >= idle) {
                    stopping::stop(&cell, Deadline::after(CLEAN_UP), false).await;
                }
            }
            Some(Command::End) | None => return,
        }
    }
}

fn far() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(86_400)
}

async fn open_ahead(cell: &Arc<Cell>, epoch: u64) {
    let Some((life, ahead)) = cell.ahead(epoch) else { return };
    match opening::prepare(cell, Deadline::after(OPEN_AHEAD), &life, &ahead).await {
        Ok(_) => save(cell).await,
        // The prompt goes on from here: what was joined and leased stays.
        Err(Problem::Interrupted) if cell.is_claimed() => {}
        // A prompt or a stop is next; they know what to do.
        Err(Problem::Interrupted) => give_up(cell).await,
        Err(Problem::Refused(error) | Problem::Failed(error)) => fail(cell, &error).await,
    }
}

/// Sends a claimed prompt and answers whoever waits for that.
async fn send_prompt(cell: &Arc<Cell>, mut job: Job) {
    // It could be claimed because the turn before it is over: that is told first.
    do_chores(cell).await;
    let reply = job.reply.take();
    let queued = reply.is_none();
    let result = match cell.interruption(job.epoch) {
        None => Err(Problem::Interrupted),
        Some(interrupt) => turn::send(cell, &mut job, &interrupt).await,
    };
    let result = match result {
        Ok(accepted) => Ok(accepted),
        Err(problem) => {
            let error = match problem {
                // Whatever it says, that is why.
                _ if cell.deps.engines.is_quitting() => {
                    drop_claim(cell, &job.turn);
                    give_up(cell).await;
                    Error::shutting_down()
                }
                Problem::Interrupted => {
                    drop_claim(cell, &job.turn);
                    give_up(cell).await;
                    Error::interrupted("the prompt was cancelled before it reached the agent")
                }
                Problem::Refused(error) => {
                    drop_claim(cell, &job.turn);
                    error
                }
                Problem::Failed(error) => {
                    drop_claim(cell, &job.turn);
                    if cell.lock().state.running().is_none() {
                        fail(cell, &error).await;
                    }
                    error
                }
            };
            let began = cell.lock().state.last.as_deref() == Some(job.turn.as_str());
            if queued && !began {
                // It was accepted: its end has to be told.
                unsent(cell, &job, super::state::ERROR, &error.message).await;
            }
            Err(error)
        }
    };
    if let Some(reply) = reply {
        // Whoever asked may have gone away.
        let _ = reply.send(result);
    }
}

fn drop_claim(cell: &Cell, turn: &str) {
    let mut inner = cell.lock();
    cell.apply(&mut inner, Event::ClaimDropped(turn.to_owned()));
}

/// The opening was interrupted: what is not open is closed again.
pub(super) async fn give_up(cell: &Arc<Cell>) {
    if cell.lock().state.is_open() {
        return;
    }
    let left = opening::leave_engine(cell, Deadline::after(CLEAN_UP)).await;
    {
        let mut inner = cell.lock();
        cell.apply(&mut inner, Event::Stopped);
    }
    let released = cell.deps.bridge.release(&cell.id, Deadline::after(CLEAN_UP)).await;
    // A stop that interrupted it comes next, and tells what ended.
    let mut inner = cell.lock();
    if !inner.is_stopping() {
        return;
    }
    let given_up = &mut inner.given_up;
    given_up.engine_stopped |= left.engine_stopped;
    given_up.servers.extend(released.servers);
    given_up.ended.extend(left.ended.into_iter().chain(released.ended));
}

/// It cannot be opened: it holds nothing until the next prompt.
pub(super) async fn fail(cell: &Arc<Cell>, error: &Error) {
    tracing::warn!(session = cell.id, error = error.message, "a session could not be opened");
    opening::leave_engine(cell, Deadline::after(CLEAN_UP)).await;
    let mut inner = cell.lock();
    cell.apply(&mut inner, Event::OpeningFailed(error.message.clone()));
}

/// Writes down what happened since the last time.
pub(super) async fn do_chores(cell: &Arc<Cell>) {
    while let Some(chore) = cell.next_chore() {
        match chore {
            Chore::EndTurn { turn, reason, description } => {
                end_turn(cell, turn, reason, description).await;
            }
            Chore::Unsent { job, reason, description } => {
                unsent(cell, &job, reason, &description).await;
            }
            Chore::EndTerminals => {
                cell.client.terminals.stop_all(Deadline::after(CLEAN_UP)).await;
            }
            Chore::Release => {
                // A prompt may have opened it again meanwhile.
                let unused = {
                    let inner = cell.lock();
                    inner.is_closed() && inner.state.claim.is_none()
                };
                if unused {
                    cell.deps.bridge.release(&cell.id, Deadline::after(CLEAN_UP)).await;
                }
            }
            Chore::Save => save(cell).await,
        }
        cell.chore_done();
    }
}

/// Stores the end of a turn, then tells it.
async fn end_turn(cell: &Arc<Cell>, turn: String, reason: String, description: Option<String>) {
    let row = {
        let mut inner = cell.lock();
        inner.kept.last_activity = now();
        if let Some(opening) = inner.opening.take() {
            let servers = cell.deps.bridge.with_receipts(&cell.id, opening.servers.clone());
            if servers != opening.servers {
                // What the agent fetched was not known when the turn began.
                let note = Note::Opening(TurnOpening { servers, ..opening });
                cell.note(&mut inner, Some(&turn), &note);
            }
        }
        let ours = inner.turn_row.as_ref().is_some_and(|row| row.id == turn);
        if ours { inner.turn_row.take() } else { None }
    };
    if let Some(row) = row {
        let row = TurnRow {
            ended_at: Some(now()),
            stop_reason: Some(reason.clone()),
            description: description.clone(),
            ..row
        };
        if let Err(error) = cell.deps.store.save_turn(row).await {
            tracing::error!(session = cell.id, %error, "the end of a turn was not stored");
        }
    }
    tracing::info!(session = cell.id, turn, reason, "turn ended");
    {
        let inner = cell.lock();
        let session = cell.id.clone();
        cell.deps.events.publish(Happening::TurnEnded { session, turn, reason, description });
        cell.announce(&inner);
    }
    save(cell).await;
}

/// A queued prompt that was never sent: it is kept with the reason.
async fn unsent(cell: &Arc<Cell>, job: &Job, reason: &str, description: &str) {
    let row = match turn::new_row(cell, job).await {
        Ok(row) => row,
        Err(error) => {
            tracing::error!(session = cell.id, %error, "a dropped prompt was not stored");
            return;
        }
    };
    let row = TurnRow {
        ended_at: Some(now()),
        stop_reason: Some(reason.to_owned()),
        description: Some(description.to_owned()),
        ..row
    };
    let number = row.number;
    if let Err(error) = cell.deps.store.save_turn(row).await {
        tracing::error!(session = cell.id, %error, "a dropped prompt was not stored");
    }
    cell.deps.events.publish(Happening::TurnStarted {
        session: cell.id.clone(),
        turn: job.turn.clone(),
        number,
        request_id: job.prompt.request_id.clone(),
        prompt: job.prompt.content.clone(),
    });
    cell.deps.events.publish(Happening::TurnEnded {
        session: cell.id.clone(),
        turn: job.turn.clone(),
        reason: reason.to_owned(),
        description: Some(description.to_owned()),
    });
}

/// Stores the session's row.
pub(super) async fn save(cell: &Arc<Cell>) {
    let row = cell.lock().kept.to_row();
    if let Err(error) = cell.deps.store.save_session(row).await {
        tracing::error!(session = cell.id, %error, "a session was not stored");
    }
}

/// What the caller of a prompt learns.
pub(super) fn accepted(
    turn: &str,
    servers: Vec<crate::wire::ServerReadiness>,
    engine: EngineOutcome,
    context: ContextOutcome,
) -> PromptAccepted {
    PromptAccepted { turn: turn.to_owned(), servers, engine, context }
}
