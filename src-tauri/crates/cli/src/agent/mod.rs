//! `gantry agent`: the built-in ACP agent on standard input and output.
//!
//! Without a model it is a tool console: it shows and calls the tools of the
//! session's MCP servers. It needs no key and no network. With `OPENAI_BASE_URL`
//! it is a tool-calling agent over chat completions; without, the models of an
//! Ollama on this computer are offered.

mod call;
mod command;
mod console;
mod context;
mod conversation;
mod memory;
mod model;
mod models;
mod protocol;
mod session;
mod speaker;
mod tools;
mod upstream;
mod wire;

use crate::mcp::stdio;
use agent_client_protocol::Lines;
use gantry_supervisor::{Cause, Deadline, Scope, Supervisor, warden_beside_us};
use memory::Memory;
use models::Models;
use session::Sessions;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// How long the whole end may take: connections closed, servers ended, output written.
const END: Duration = Duration::from_secs(4);

/// Serves one client until the end of input, SIGTERM, SIGINT or SIGHUP, and
/// returns the program's exit code: 0, or 1 when the connection broke or
/// something had to be left behind.
pub async fn run() -> u8 {
    // Another part of the program may have chosen one already; either will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let models = match Models::from_environment() {
        Ok(models) => models,
        Err(problem) => {
            wire::tell(&format!("gantry: agent: {problem}"));
            return 2;
        }
    };
    let (input, output) = match stdio::input().and_then(|input| Ok((input, stdio::output()?))) {
        Ok(streams) => streams,
        Err(error) => {
            wire::tell(&format!("gantry: agent: standard input and output: {error}"));
            return 1;
        }
    };
    let scope = Scope::root("agent");
    let supervisor = Supervisor::new(scope.child("processes"), warden_beside_us());
    let memory = Memory::from_environment();
    let sessions = Sessions::new(scope.child("sessions"), supervisor.clone(), models, memory);

    let transport = Lines::new(wire::lines_out(output.clone()), wire::lines_in(input));
    let served = tokio::select! {
        served = protocol::serve(sessions.clone(), transport) => served,
        signal = signal() => {
            tracing::info!(signal, "ending");
            Ok(())
        }
    };
    let mut code = 0;

    let deadline = Deadline::after(END);
    sessions.close_all(deadline).await;
    for (tree, ended) in supervisor.stop_all(Cause::Quit, deadline).await {
        tracing::debug!(tree = tree.id(), how = ?ended.how, "ended");
    }
    let census = scope.spawn_blocking("census", move || supervisor.survivors());
    let left = census.join().await.unwrap_or_default();
    if !left.is_empty() {
        wire::tell(&format!("gantry: agent: {} processes were not ended: {left:?}", left.len()));
        code = 1;
    }
    let tasks = scope.close(deadline).await;
    if !tasks.is_empty() {
        tracing::warn!(?tasks, "tasks did not end by themselves");
    }
    // What was said last must arrive, unless the client reads no more; that is how
    // one that was killed looks, and is no failure of ours.
    let written = deadline.bound(output.flush()).await;
    if let (Err(error), false) = (served, matches!(written, Ok(Err(_)))) {
        wire::tell(&format!("gantry: agent: the connection to the client broke: {error}"));
        code = 1;
    }
    code
}

/// Resolves at the first signal that asks for the end.
#[cfg(unix)]
pub(crate) async fn signal() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let wait = async |kind| match signal(kind) {
        Ok(mut stream) => {
            stream.recv().await;
        }
        Err(error) => {
            tracing::warn!(%error, "a signal cannot be watched");
            std::future::pending().await
        }
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => "SIGTERM",
        () = wait(SignalKind::interrupt()) => "SIGINT",
        () = wait(SignalKind::hangup()) => "SIGHUP",
    }
}

/// Resolves at the first signal that asks for the end.
#[cfg(not(unix))]
pub(crate) async fn signal() -> &'static str {
    match tokio::signal::ctrl_c().await {
        Ok(()) => "Ctrl+C",
        Err(error) => {
            tracing::warn!(%error, "Ctrl+C cannot be watched");
            std::future::pending().await
        }
    }
}

/// An id that no other process and no other call of this one gives out.
fn unique(what: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{what}-{now:x}-{:x}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests;
