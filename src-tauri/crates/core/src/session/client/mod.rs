//! What a session does for its agent when the agent asks: reads and writes files of the
//! session's folder, runs commands. Only what was offered comes here.

mod files;
mod output;
mod terminals;

pub(super) use terminals::Terminals;

use super::cell::Cell;
use gantry_acp::{CallError, ClientCall};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// Requests of one agent that are worked on at once in a session.
const MOST_CALLS: usize = 256;

/// A session's side that serves its agent.
#[derive(Default)]
pub(super) struct Client {
    pub(super) terminals: Terminals,
    /// Requests that are being worked on, by their JSON-RPC id.
    pending: Mutex<HashMap<String, CancellationToken>>,
}

impl Client {
    // A short lock, never held across an await.
    fn pending(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The agent took a request back.
    pub(super) fn withdraw(&self, request: &Value) {
        if let Some(token) = self.pending().get(&request.to_string()) {
            token.cancel();
        }
    }
}

/// Does what the agent asks for, and answers. Does not wait.
pub(super) fn serve(cell: Arc<Cell>, call: ClientCall) {
    let key = call.request.to_string();
    let token = CancellationToken::new();
    {
        let mut pending = cell.client.pending();
        if pending.len() >= MOST_CALLS {
            drop(pending);
            let why = format!("{MOST_CALLS} requests are being worked on; wait for some of them");
            return call.answer(Err(CallError::failed(why)));
        }
        pending.insert(key.clone(), token.clone());
    }
    let name = format!("{} of session {}", call.method, cell.id);
    let scope = cell.deps.scope.clone();
    scope.spawn(name, async move {
        let _done = Done { cell: &cell, key: &key };
        let answer = tokio::select! {
            biased;
            () = token.cancelled() => Err(CallError::withdrawn()),
            answer = work(&cell, &call.method, call.params.clone()) => answer,
        };
        if let Err(error) = &answer {
            tracing::debug!(session = cell.id, method = call.method, ?error, "refused the agent");
        }
        call.answer(answer);
    });
}

/// Takes a request off the list however its work ends.
struct Done<'a> {
    cell: &'a Cell,
    key: &'a str,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.cell.client.pending().remove(self.key);
    }
}

async fn work(cell: &Arc<Cell>, method: &str, params: Value) -> Result<Value, CallError> {
    let terminals = &cell.client.terminals;
    let begins = matches!(method, "fs/write_text_file" | "terminal/create");
    if begins && cell.lock().state.refuses_asks() {
        return Err(CallError::failed("the user has stopped the turn: nothing new is begun in it"));
    }
    match method {
        "fs/read_text_file" => {
            let ask: files::Read = parse(params)?;
            let content = on_disk(cell, method, move |folder| files::read(&folder, &ask)).await?;
            Ok(json!({ "content": content }))
        }
        "fs/write_text_file" => {
            let ask: files::Write = parse(params)?;
            on_disk(cell, method, move |folder| files::write(&folder, &ask)).await?;
            Ok(json!({}))
        }
        "terminal/create" => terminals::create(cell, parse(params)?).await,
        "terminal/output" => terminals.output(&parse(params)?),
        "terminal/wait_for_exit" => terminals.wait(&parse(params)?).await,
        "terminal/kill" => terminals.kill(&parse(params)?).await,
        "terminal/release" => terminals.release(&parse(params)?).await,
        other => Err(CallError::invalid(format!("there is no method `{other}`"))),
    }
}

/// Outside the runtime's threads: a disk may be slow, and a network's folder hang.
async fn on_disk<T: Send + 'static>(
    cell: &Arc<Cell>,
    method: &str,
    work: impl FnOnce(PathBuf) -> Result<T, CallError> + Send + 'static,
) -> Result<T, CallError> {
    let folder = PathBuf::from(&cell.lock().project_path);
    let task = cell.deps.scope.spawn_blocking(method.to_owned(), move || work(folder));
    task.join().await.unwrap_or_else(|| Err(CallError::failed("Gantry is shutting down")))
}

fn parse<T: DeserializeOwned>(params: Value) -> Result<T, CallError> {
    serde_json::from_value(params).map_err(|error| CallError::invalid(error.to_string()))
}
