//! Where the built programs are.

use serde_json::{Value, json};
use std::path::PathBuf;

/// The path of a program of this workspace: beside the test executable's
/// folder, or in `$GANTRY_PROGRAMS`.
///
/// # Panics
/// When it has not been built.
pub fn path(name: &str) -> PathBuf {
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let mut folders: Vec<PathBuf> =
        std::env::var_os("GANTRY_PROGRAMS").map(PathBuf::from).into_iter().collect();
    if let Ok(exe) = std::env::current_exe() {
        folders.extend(exe.ancestors().skip(1).take(2).map(PathBuf::from));
    }
    let found = folders.iter().map(|folder| folder.join(&file)).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!("{file} is not in {folders:?}; run `cargo build --workspace --all-targets` first")
    })
}

/// What every fake server and every fake agent is told as a secret. Nothing that
/// the product writes or answers may hold it; [`crate::Stage::finish`] and
/// [`crate::Api::send`] look.
pub const PLANTED: [&str; 2] = ["planted-with-the-server-7c21e9", "planted-with-the-agent-4b80fd"];

/// A `context_servers` entry (or a stored configuration) that runs `fake_mcp`
/// with these arguments.
pub fn fake_mcp(args: &[&str]) -> Value {
    let env = json!({ "PLANTED_API_KEY": PLANTED[0] });
    json!({ "enabled": true, "command": path("fake_mcp"), "args": args, "env": env })
}

/// An `agent_server` that runs `fake_agent` with these variables.
pub fn fake_agent(mut env: Value) -> Value {
    env["PLANTED_API_KEY"] = json!(PLANTED[1]);
    json!({ "agent_id": "fake", "command": path("fake_agent"), "args": [], "env": env })
}
