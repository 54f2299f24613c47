//! The tools of `fake_mcp`.

use crate::{Server, era, options::Options, pranks, say};
use serde_json::{Value, json};
use std::{
    sync::{Mutex, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

/// Name, description, and the properties of the input with their types.
type Tool = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const STANDARD: &[Tool] = &[
    ("echo", "Answers with the text", &[("text", "string")]),
    ("counter", "Counts its calls", &[]),
    ("slow", "Answers after so many milliseconds", &[("ms", "integer")]),
    ("pid", "Its process id", &[]),
    ("env", "The value of a variable", &[("name", "string")]),
    ("args", "Its arguments, as a JSON list", &[]),
    ("cwd", "Its working directory", &[]),
    ("fail", "Answers with a JSON-RPC error", &[]),
    ("crash", "Ends the server with an exit code", &[("code", "integer")]),
];

const ASKING: [(&str, &str); 2] = [
    ("ask", "Greets the user by the name that it asks for"),
    ("change", "Says that the list of tools changed"),
];

/// A page of `tools/list`; a cursor is the number of the page.
pub fn page(options: &Options, cursor: Option<&str>) -> Value {
    let all: Vec<Value> = STANDARD
        .iter()
        .map(|(name, description, properties)| {
            let properties: serde_json::Map<String, Value> = properties
                .iter()
                .map(|(name, kind)| ((*name).to_owned(), json!({ "type": kind })))
                .collect();
            let schema = json!({ "type": "object", "properties": properties });
            // A field that no revision knows: it has to come through.
            let known = json!({ "readOnlyHint": *name != "crash", "x-fake": true });
            json!({ "name": name, "description": description, "inputSchema": schema, "annotations": known })
        })
        .chain(ASKING.iter().filter(|_| options.asks).map(|(name, description)| {
            json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
        }))
        .chain((0..options.tools).map(|n| {
            json!({ "name": format!("tool_{n}"), "description": format!("Tool {n}"),
                    "inputSchema": { "type": "object" } })
        }))
        .collect();
    let number: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let size = all.len().div_ceil(options.pages);
    let tools: Vec<&Value> = all.iter().skip(number * size).take(size).collect();
    let mut page = json!({ "tools": tools });
    if number + 1 < options.pages {
        page["nextCursor"] = json!((number + 1).to_string());
    }
    page
}

/// A call: a result, an error, or no answer at all when it was cancelled.
pub async fn call(server: &Server, message: &Value) -> Option<Result<Value, Value>> {
    let calls = server.calls.fetch_add(1, Ordering::Relaxed);
    if server.options.crash_after.is_some_and(|limit| calls >= limit) {
        eprintln!("fake_mcp: crashes on purpose after {calls} calls");
        std::process::exit(5);
    }
    let params = &message["params"];
    let arguments = &params["arguments"];
    let label = &server.options.label;
    let text = match params["name"].as_str().unwrap_or_default() {
        "echo" if label.is_empty() => arguments["text"].as_str().unwrap_or_default().to_owned(),
        "echo" => format!("{label}: {}", arguments["text"].as_str().unwrap_or_default()),
        "counter" => (server.counter.fetch_add(1, Ordering::Relaxed) + 1).to_string(),
        "slow" => {
            slow(server, message, arguments["ms"].as_u64().unwrap_or(0)).await?;
            "done".to_owned()
        }
        "pid" => std::process::id().to_string(),
        "env" => std::env::var(arguments["name"].as_str().unwrap_or_default()).unwrap_or_default(),
        "args" => json!(std::env::args().skip(1).collect::<Vec<_>>()).to_string(),
        // Not listed: for measurements, and what no server should do.
        "big" => "x".repeat(arguments["bytes"].as_u64().unwrap_or(0) as usize),
        "work" => {
            work(Duration::from_micros(arguments["us"].as_u64().unwrap_or(0)));
            arguments["text"].as_str().unwrap_or_default().to_owned()
        }
        prank if pranks::NAMES.contains(&prank) => pranks::play(prank, &message["id"]).await,
        "ask" => return Some(Ok(era::ask(server, message).await)),
        "change" => {
            era::tools_changed(server);
            "changed".to_owned()
        }
        "cwd" => std::env::current_dir().unwrap_or_default().display().to_string(),
        "fail" => {
            let data = json!({ "why": "on purpose" });
            return Some(Err(json!({ "code": -32050, "message": "failed", "data": data })));
        }
        "crash" => {
            eprintln!("fake_mcp: crashes on request");
            let code = arguments["code"].as_i64().and_then(|code| i32::try_from(code).ok());
            std::process::exit(code.unwrap_or(1));
        }
        tool if tool
            .strip_prefix("tool_")
            .is_some_and(|n| n.parse::<usize>().is_ok_and(|n| n < server.options.tools)) =>
        {
            format!("{tool} was called")
        }
        unknown => {
            return Some(Err(json!({ "code": -32602, "message": format!("no tool {unknown}") })));
        }
    };
    Some(Ok(json!({ "content": [{ "type": "text", "text": text }], "x-fake": { "calls": calls } })))
}

/// Waits in ten parts with a progress notification after each; `None` when cancelled.
async fn slow(server: &Server, message: &Value, ms: u64) -> Option<()> {
    let mut cancelled = server.cancelled.subscribe();
    let token = &message["params"]["_meta"]["progressToken"];
    for part in 1..=10_u64 {
        let wait = tokio::time::sleep(Duration::from_millis(ms / 10));
        let cancel = async {
            while let Ok(id) = cancelled.recv().await {
                if id == message["id"] {
                    return;
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            () = wait => {}
            () = cancel => return None,
        }
        if !token.is_null() {
            let params = json!({ "progressToken": token, "progress": part, "total": 10 });
            say(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
                .to_string());
        }
    }
    Some(())
}

/// Uses a processor for so long, one call after the other, as a server with one thread does.
fn work(span: Duration) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let begun = Instant::now();
    while begun.elapsed() < span {
        std::hint::spin_loop();
    }
}
