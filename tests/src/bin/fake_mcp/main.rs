//! A stdio MCP server whose behaviour is chosen by arguments; see [`options`].

#![allow(clippy::disallowed_methods, reason = "a fake: its tasks end with the process")]

mod era;
mod options;
mod pranks;
mod tools;

use gantry_tests::{census, misbehave, record};
use options::Options;
use serde_json::{Value, json};
use std::{io::Write, path::Path, sync::Arc, time::Duration};
use tokio::io::{AsyncBufReadExt, BufReader};

/// The server's state that its tools share.
pub struct Server {
    options: Options,
    counter: std::sync::atomic::AtomicU64,
    calls: std::sync::atomic::AtomicU64,
    cancelled: tokio::sync::broadcast::Sender<Value>,
    /// What the client answered.
    answers: tokio::sync::broadcast::Sender<Value>,
    /// The ids of subscriptions of revision 2026-07-28.
    listens: std::sync::Mutex<Vec<Value>>,
}

impl Server {
    fn listens(&self) -> std::sync::MutexGuard<'_, Vec<Value>> {
        self.listens.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let options = Options::parse(std::env::args().skip(1));
    if options.ignore_term {
        misbehave::ignore_signals();
    }
    census::sign_in();
    begin(&options);
    if let Some(delay) = options.term_delay {
        end_slowly_on_term(delay);
    }
    misbehave::spawn_children(&options.spawn);
    if options.flood {
        std::thread::spawn(|| {
            loop {
                eprintln!("fake_mcp: one more line of the flood on standard error");
            }
        });
    }
    for line in 0..options.stderr_lines {
        eprintln!("fake_mcp: line {line} on standard error");
    }
    if options.noise {
        say("this is not JSON");
    }
    tokio::time::sleep(options.start_delay).await;
    if options.silent {
        tokio::time::sleep(Duration::from_secs(600)).await;
        return;
    }
    serve(options).await;
}

/// What happens before anything is read: the pid file, failing starts, the lock.
fn begin(options: &Options) {
    if let Some(path) = &options.pid_file {
        append(path, &format!("{}\n", std::process::id()));
    }
    if let Some((count, path)) = &options.fail_starts {
        append(path, "start\n");
        let starts = std::fs::read_to_string(path).unwrap_or_default().lines().count();
        if starts <= *count {
            eprintln!("fake_mcp: start {starts} fails on purpose: KEY missing");
            std::process::exit(3);
        }
    }
    if let Some(path) = &options.lock {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let file = file.unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        if rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            append(&path.with_extension("conflicts"), &format!("{}\n", std::process::id()));
            eprintln!("fake_mcp: {} is locked by another process", path.display());
            std::process::exit(4);
        }
        // Held until the process ends, however it ends.
        std::mem::forget(file);
    }
}

fn append(path: &Path, text: &str) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.unwrap_or_else(|why| panic!("{}: {why}", path.display()));
}

fn end_slowly_on_term(delay: Duration) {
    let kind = tokio::signal::unix::SignalKind::terminate();
    let mut term = tokio::signal::unix::signal(kind).unwrap_or_else(|why| panic!("{why}"));
    tokio::spawn(async move {
        term.recv().await;
        tokio::time::sleep(delay).await;
        eprintln!("fake_mcp: stopped in good order");
        if let Some(ledger) = std::env::var_os(census::TAG) {
            record::write(Path::new(&ledger), "ended in good order", json!({}));
        }
        std::process::exit(0);
    });
}

/// Writes one line to standard output; a reader that is gone is no error.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

async fn serve(options: Options) {
    let server = Arc::new(Server {
        options,
        counter: 0.into(),
        calls: 0.into(),
        cancelled: tokio::sync::broadcast::channel(64).0,
        answers: tokio::sync::broadcast::channel(64).0,
        listens: std::sync::Mutex::default(),
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if let Some(path) = &server.options.record {
            record::write(
                path,
                "received",
                json!({ "method": message["method"], "id": message["id"], "tool": message["params"]["name"] }),
            );
        }
        if message["method"] == "notifications/cancelled" {
            let id = message["params"]["requestId"].clone();
            server.listens().retain(|open| *open != id);
            let _ = server.cancelled.send(id);
        }
        if message.get("id").is_some() && message.get("method").is_none() {
            let _ = server.answers.send(message);
            continue;
        }
        if message.get("id").is_some() && message.get("method").is_some() {
            let server = Arc::clone(&server);
            tokio::spawn(async move {
                let Some(answer) = answer(&server, &message).await else { return };
                if let Some(path) = &server.options.record {
                    let fields = json!({ "method": message["method"], "id": message["id"] });
                    record::write(path, "answered", fields);
                }
                say(&answer.to_string());
            });
        }
    }
    if server.options.ignore_eof {
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    std::process::exit(0);
}

async fn answer(server: &Server, message: &Value) -> Option<Value> {
    let params = &message["params"];
    let method = message["method"].as_str().unwrap_or_default();
    if method == "subscriptions/listen" && server.options.era != era::Era::Initialize {
        era::listen(server, message);
        return None;
    }
    let by_era = era::answer(server, message);
    let mut result = match method {
        _ if by_era.is_some() => by_era.unwrap_or_else(|| Ok(json!({}))),
        "initialize" => Ok(json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "fake_mcp", "version": "1.0.0" },
        })),
        "ping" => Ok(json!({})),
        "tools/list" if server.options.broken_list => Ok(json!({ "tools": "none" })),
        "tools/list" => Ok(tools::page(&server.options, params["cursor"].as_str())),
        "tools/call" => tools::call(server, message).await?,
        other => Err(json!({ "code": -32601, "message": format!("no method {other}") })),
    };
    if era::is_modern(message)
        && server.options.era != era::Era::Initialize
        && let Ok(result) = &mut result
    {
        era::complete(method, result);
    }
    Some(match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }),
        Err(error) => json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }),
    })
}
