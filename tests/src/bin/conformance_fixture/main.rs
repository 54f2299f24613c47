//! An MCP server with everything that the official conformance suite asks a
//! server for: its `test_*` tools, resources, prompts and the rest.
//!
//! Without arguments it is a stdio server of the revisions with `initialize`,
//! as the bridge starts one; with `--modern` it knows only revision 2026-07-28.
//! With `--http` it serves both over streamable HTTP by itself, prints
//! `{"url":…}`, and ends with its standard input: so the suite's verdict on
//! the server is there without the bridge. `--http MS` takes so long to answer
//! `initialize` and `server/discover`.

#![allow(clippy::disallowed_methods, reason = "a fake: its tasks end with the process")]

mod content;
mod headers;
mod http;
mod modern;
mod peer;
mod rounds;
mod schemas;
mod server;
mod tools;

use gantry_tests::census;
use peer::{Outlet, Peer};
use serde_json::Value;
use std::{io::Write, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    sync::mpsc,
};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    census::sign_in();
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => stdio(false).await,
        ["--modern"] => stdio(true).await,
        ["--http"] => http::serve(Duration::ZERO).await,
        ["--http", delay] => {
            let delay = delay.parse().unwrap_or_else(|why| panic!("{delay}: {why}"));
            http::serve(Duration::from_millis(delay)).await;
        }
        other => panic!("conformance_fixture: unknown arguments {other:?}"),
    }
    // Calls that still run are not waited for: this is a fake.
    std::process::exit(0);
}

async fn stdio(is_modern: bool) {
    let (outlet, mut messages) = mpsc::unbounded_channel::<Value>();
    tokio::spawn(async move {
        while let Some(message) = messages.recv().await {
            say(&message.to_string());
        }
    });
    let peer = Arc::new(Peer::default());
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str::<Value>(&line) {
            Ok(message) if is_modern => take_modern(&outlet, message),
            Ok(message) => take(&peer, &outlet, message),
            Err(why) => eprintln!("conformance_fixture: not JSON: {why}"),
        }
    }
}

/// One message of the client; what it causes goes to `outlet`.
fn take(peer: &Arc<Peer>, outlet: &Outlet, message: Value) {
    if message.get("method").is_none() {
        peer.answered(message);
    } else if message.get("id").is_some() {
        let (peer, outlet) = (Arc::clone(peer), outlet.clone());
        tokio::spawn(async move {
            let answer = server::answer(&peer, &outlet, &message).await;
            let _ = outlet.send(answer);
        });
    }
}

/// The same for revision 2026-07-28, where a client sends no answers.
fn take_modern(outlet: &Outlet, message: Value) {
    if message["method"] == "notifications/cancelled" {
        modern::cancelled(&message["params"]["requestId"]);
    } else if message.get("id").is_some() && message.get("method").is_some() {
        let outlet = outlet.clone();
        tokio::spawn(async move {
            if let Some(answer) = modern::answer(&outlet, &message).await {
                let _ = outlet.send(answer);
            }
        });
    }
}

/// Writes one line to standard output; a reader that is gone is no error.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
