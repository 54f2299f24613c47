//! Things that no server should do, in the middle of a call.

use crate::say;
use serde_json::{Value, json};
use std::{io::Write, time::Duration};

/// - `noise`: lines that are no messages, among them half a message
/// - `strangers`: answers to what nobody asked, and questions that nobody knows
/// - `twice`: its answer comes a second time, a little later
/// - `halves`: its answer comes in pieces
/// - `spill`: 4 MB on standard error
/// - `deaf`: closes its output and lives on
pub const NAMES: [&str; 6] = ["noise", "strangers", "twice", "halves", "spill", "deaf"];

/// Plays it and returns the text of the answer.
pub async fn play(prank: &str, id: &Value) -> String {
    match prank {
        "noise" => {
            for line in
                ["Welcome!", "", "[]", "{\"jsonrpc\":\"2.0\"}", "{\"jsonrpc\":\"2.0\",\"id\":1"]
            {
                say(line);
            }
        }
        "strangers" => {
            for id in [json!(999_999), json!("x"), json!(null), json!(-1), json!(1.5)] {
                say(&json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [] } }).to_string());
                say(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": 1, "message": "m" } })
                    .to_string());
            }
            say(&json!({ "jsonrpc": "2.0", "id": 1, "method": "x/unknown" }).to_string());
            say(&json!({ "jsonrpc": "2.0", "method": "notifications/x-unknown" }).to_string());
        }
        "twice" => say(&answer(id, "first").to_string()),
        "halves" => {
            let text = answer(id, "halves").to_string();
            let mut out = std::io::stdout();
            for piece in text.as_bytes().chunks(10) {
                let _ = out.write_all(piece).and_then(|()| out.flush());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            say("");
        }
        "spill" => {
            let line = "x".repeat(127);
            for _ in 0..(4 << 20) / 128 {
                eprintln!("{line}");
            }
        }
        "deaf" => {
            // Another file in its place closes the pipe.
            if let Ok(nowhere) = std::fs::File::create("/dev/null") {
                let _ = rustix::stdio::dup2_stdout(&nowhere);
            }
            tokio::time::sleep(Duration::from_secs(600)).await;
        }
        _ => {}
    }
    prank.to_owned()
}

fn answer(id: &Value, text: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [{ "type": "text", "text": text }] } })
}
