//! `gantry mcp --recall`: the built-in MCP server that searches past sessions.
//!
//! It opens the database read-only, for the moment of each call, while the
//! application writes it. It ends as every stdio server of ours does
//! ([`crate::mcp::shutdown`]).

mod server;
mod time;
mod transport;

use crate::{
    agent::signal,
    mcp::{
        shutdown::{BUDGET, Cause, Gate, Say, Shutdown, Step, Steps, stderr},
        stdio::{self, Input},
        written,
    },
};
use futures::future::BoxFuture;
use gantry_store::Reader;
use gantry_supervisor::Scope;
use rmcp::service::serve_server_with_ct;
use server::Recall;
use std::{path::PathBuf, sync::Arc};
use tokio::sync::oneshot;
use transport::{Messages, Send};

/// Serves one client on standard input and output and returns the program's
/// exit code: 0, or 1 when something failed or had to be given up.
pub async fn run(data_dir: PathBuf) -> u8 {
    let say = stderr();
    let (input, output) = match stdio::input().and_then(|input| Ok((input, stdio::output()?))) {
        Ok(pair) => pair,
        Err(error) => {
            say(&format!("gantry: mcp: standard input and output cannot be served: {error}"));
            return 1;
        }
    };
    let queue = output.clone();
    let end = End {
        signal: Box::pin(signal()),
        gone: Box::pin(output.gone()),
        flush: written(output),
        say,
    };
    let reader = Reader::new(data_dir.join("gantry.db"));
    Box::pin(serve(reader, input, Arc::new(move |line| queue.send(line)), end)).await
}

/// What ends a server, and what happens then.
struct End {
    signal: BoxFuture<'static, &'static str>,
    /// The client reads no more.
    gone: BoxFuture<'static, ()>,
    flush: Step,
    say: Say,
}

async fn serve(reader: Reader, input: Input, send: Send, end: End) -> u8 {
    let scope = Scope::root("recall");
    let recall = Recall::new(reader, scope.child("reads"));
    let gate = Gate::default();
    let (messages, valve) = Messages::new(input, send, gate.clone());
    let stop = valve.stop.clone();
    let (report, mut broke) = oneshot::channel();
    let connection = scope.spawn("connection", async move {
        let served = match serve_server_with_ct(recall, messages, stop).await {
            Ok(running) => running.waiting().await.map(drop).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        // Nobody listens any more when the shutdown has begun.
        let _ = report.send(served);
    });

    let (closing, stop, mut ended) = (valve.closing, valve.stop, valve.ended);
    let steps = Steps {
        close: vec![Step::new("transport", move |_| async move {
            closing.cancel();
            Ok(())
        })],
        rest: vec![
            end.flush,
            Step::new("connection", move |_| async move {
                stop.cancel();
                connection.join().await;
                Ok(())
            }),
            Step::new("store", move |deadline| async move {
                let left = scope.close(deadline).await;
                if left.is_empty() { Ok(()) } else { Err(format!("given up: {}", left.join(", "))) }
            }),
        ],
    };
    let shutdown = Shutdown::new("gantry mcp", gate, end.say.clone(), steps);
    let cause = tokio::select! {
        biased;
        _ = ended.wait_for(|ended| *ended) => Cause::InputClosed,
        _ = end.signal => Cause::Signal,
        served = &mut broke => {
            let why = match served {
                Ok(Err(why)) => why,
                Ok(Ok(())) | Err(_) => "it ended by itself".into(),
            };
            (end.say)(&format!("gantry: mcp: the connection to the client broke: {why}"));
            shutdown.keep_code(1);
            Cause::Done
        }
        () = end.gone => Cause::OutputClosed,
    };
    shutdown.begin(cause, BUDGET).await
}

#[cfg(test)]
mod tests;
