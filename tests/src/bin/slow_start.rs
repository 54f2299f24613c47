//! A wrapper around a stdio server: `slow_start MS RECORD PROGRAM ARGS…` waits
//! before it starts the program, then carries both directions and writes down
//! when each answer passed (`answered`, with the method that was asked).

#![allow(clippy::disallowed_methods, reason = "a fake: it starts what it wraps")]

use gantry_tests::{census, record};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::Command,
};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    census::sign_in();
    let mut args = std::env::args().skip(1);
    let (Some(delay), Some(path), Some(program)) = (args.next(), args.next(), args.next()) else {
        panic!("usage: slow_start MS RECORD PROGRAM ARGS…");
    };
    let delay = Duration::from_millis(delay.parse().unwrap_or_else(|why| panic!("{delay}: {why}")));
    let path = PathBuf::from(path);
    tokio::time::sleep(delay).await;
    let child =
        Command::new(&program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|why| panic!("{program}: {why}"));
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        panic!("no pipes");
    };
    let asked: Arc<Mutex<HashMap<String, Value>>> = Arc::default();
    let methods = Arc::clone(&asked);
    tokio::spawn(async move {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Ok(message) = serde_json::from_str::<Value>(&line)
                && message.get("method").is_some()
                && message.get("id").is_some()
            {
                let mut methods = methods.lock().unwrap_or_else(PoisonError::into_inner);
                methods.insert(message["id"].to_string(), message["method"].clone());
            }
            if input.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                break;
            }
        }
    });
    let mut lines = BufReader::new(output).lines();
    let mut out = tokio::io::stdout();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Ok(message) = serde_json::from_str::<Value>(&line)
            && message.get("method").is_none()
        {
            let id = message["id"].to_string();
            let method = asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            record::write(&path, "answered", json!({ "method": method }));
        }
        let written = out.write_all(format!("{line}\n").as_bytes()).await;
        if written.is_err() || out.flush().await.is_err() {
            break;
        }
    }
    let code = child.wait().await.ok().and_then(|status| status.code());
    std::process::exit(code.unwrap_or(1));
}
