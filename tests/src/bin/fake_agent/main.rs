//! An ACP agent on stdio that does what the prompt says; see [`script`].
//!
//! Variables: `FAKE_AGENT_RECORD` (a file that gets what arrived and when, and
//! at `session/new` what every MCP server answered to `tools/list`),
//! `FAKE_AGENT_NO_HTTP` (does not offer MCP over HTTP), `FAKE_AGENT_LOADS`
//! (offers `session/load` and `session/resume`), `FAKE_AGENT_LAZY` (connects
//! to the servers after it answered `session/new`), `FAKE_AGENT_STUBBORN`
//! (ignores TERM and the end of its input), `FAKE_AGENT_SPAWN` (kinds of
//! children, see `gantry_tests::misbehave`), `FAKE_AGENT_INIT_DELAY` (ms),
//! `FAKE_AGENT_DIE` (a line for standard error; ends with 9 instead of answering
//! `initialize`).

#![allow(clippy::disallowed_methods, reason = "a fake: its tasks end with the process")]

mod client;
mod script;
mod session;

use gantry_tests::{census, misbehave, record};
use serde_json::{Value, json};
use session::Session;
use std::{
    collections::HashMap,
    io::Write,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    sync::oneshot,
};

/// The agent's state.
#[derive(Default)]
pub struct Agent {
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// Requests to the client that wait for an answer.
    pending: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    next: AtomicU64,
    record: Option<PathBuf>,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let is_stubborn = variable("FAKE_AGENT_STUBBORN").is_some();
    if is_stubborn {
        misbehave::ignore_signals();
    }
    census::sign_in();
    misbehave::spawn_children(&variable("FAKE_AGENT_SPAWN").unwrap_or_default());
    let record = variable("FAKE_AGENT_RECORD").map(PathBuf::from);
    let agent = Arc::new(Agent { record, ..Agent::default() });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str::<Value>(&line) {
            Ok(message) => agent.receive(message),
            Err(why) => eprintln!("fake_agent: not JSON: {why}"),
        }
    }
    agent.note("end of input", json!({}));
    if is_stubborn {
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    std::process::exit(0);
}

impl Agent {
    /// Writes an event into the record.
    pub fn note(&self, event: &str, fields: Value) {
        if let Some(path) = &self.record {
            record::write(path, event, fields);
        }
    }

    /// Where the record is, if one is kept.
    pub fn record_path(&self) -> Option<PathBuf> {
        self.record.clone()
    }

    fn receive(self: &Arc<Self>, message: Value) {
        let Some(method) = message["method"].as_str() else {
            let waiting = lock(&self.pending).remove(&message["id"].to_string());
            if let Some(waiting) = waiting {
                let _ = waiting.send(message);
            }
            return;
        };
        self.note(method, json!({ "params": message["params"] }));
        if method == "session/cancel" {
            if let Some(session) = self.session(&message["params"]) {
                session.cancel();
            }
            return;
        }
        let agent = Arc::clone(self);
        tokio::spawn(async move {
            let result = agent.answer(&message).await;
            if message.get("id").is_none() {
                return;
            }
            let answer = match result {
                Ok(result) => json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }),
                Err(error) => json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }),
            };
            say(&answer.to_string());
        });
    }

    async fn answer(self: &Arc<Self>, message: &Value) -> Result<Value, Value> {
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => Ok(initialize().await),
            "authenticate" | "session/set_mode" | "session/set_model" => Ok(json!({})),
            "session/new" => {
                let id = format!("fake-{}-{}", std::process::id(), self.next());
                self.open(&id, params).await;
                Ok(json!({ "sessionId": id }))
            }
            "session/load" | "session/resume" if variable("FAKE_AGENT_LOADS").is_some() => {
                self.open(params["sessionId"].as_str().unwrap_or_default(), params).await;
                Ok(json!({}))
            }
            "session/prompt" => {
                let session = self.session(params).ok_or_else(|| unknown_session(params))?;
                let reason = script::run(self, &session, &params["prompt"]).await?;
                self.note("turn ended", json!({ "session": session.id, "reason": reason }));
                Ok(json!({ "stopReason": reason }))
            }
            "session/close" => {
                let id = params["sessionId"].as_str().unwrap_or_default();
                let session = lock(&self.sessions).remove(id);
                let session = session.ok_or_else(|| unknown_session(params))?;
                session.close().await;
                Ok(json!({}))
            }
            other => Err(json!({ "code": -32601, "message": format!("no method {other}") })),
        }
    }

    async fn open(self: &Arc<Self>, id: &str, params: &Value) {
        let session = Arc::new(Session::new(id, params));
        lock(&self.sessions).insert(id.to_owned(), Arc::clone(&session));
        if variable("FAKE_AGENT_LAZY").is_some() {
            let agent = Arc::clone(self);
            tokio::spawn(async move { session.connect(&agent).await });
        } else {
            session.connect(self).await;
        }
    }

    fn session(&self, params: &Value) -> Option<Arc<Session>> {
        lock(&self.sessions).get(params["sessionId"].as_str()?).cloned()
    }

    fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Sends a `session/update`.
    pub fn update(&self, session: &Session, update: &Value) {
        let params = json!({ "sessionId": session.id, "update": update });
        say(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string());
    }

    /// Sends a chunk of the agent's message.
    pub fn chunk(&self, session: &Session, text: &str) {
        let content = json!({ "type": "text", "text": text });
        self.update(
            session,
            &json!({ "sessionUpdate": "agent_message_chunk", "content": content }),
        );
    }

    /// Sends a request to the client and waits for the answer.
    pub async fn ask(&self, method: &str, params: Value) -> Value {
        let id = json!(format!("ask-{}", self.next()));
        let (sender, answer) = oneshot::channel();
        lock(&self.pending).insert(id.to_string(), sender);
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        say(&request.to_string());
        answer.await.unwrap_or_default()
    }
}

async fn initialize() -> Value {
    if let Some(line) = variable("FAKE_AGENT_DIE") {
        eprintln!("{line}");
        std::process::exit(9);
    }
    let delay = variable("FAKE_AGENT_INIT_DELAY").and_then(|ms| ms.parse().ok()).unwrap_or(0);
    tokio::time::sleep(Duration::from_millis(delay)).await;
    let loads = variable("FAKE_AGENT_LOADS").is_some();
    let mut sessions = json!({ "close": {} });
    if loads {
        sessions["resume"] = json!({});
    }
    json!({
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": loads,
            "mcpCapabilities": { "http": variable("FAKE_AGENT_NO_HTTP").is_none(), "sse": false },
            "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
            "sessionCapabilities": sessions,
        },
        "agentInfo": { "name": "fake_agent", "version": "1.0.0" },
        "authMethods": [],
    })
}

fn unknown_session(params: &Value) -> Value {
    json!({ "code": -32002, "message": format!("no session {}", params["sessionId"]) })
}

/// Writes one line to standard output; a reader that is gone is no error.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
