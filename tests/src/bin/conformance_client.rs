//! A client for the official suite's client scenarios: `gantry mcp --carry` and, where the server
//! wants it, `gantry mcp --sign-in` with a browser that says yes to everything. The suite gives
//! the server's URL as the last argument, and what it has registered by `MCP_CONFORMANCE_CONTEXT`.
//!
//! It ends with 0 when every tool was called.

#![allow(clippy::disallowed_methods, reason = "tests start the programs under test themselves")]

use anyhow::{Context as _, Result, bail};
use gantry_tests::{api::http_client, programs};
use serde_json::{Value, json};
use std::{path::Path, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

const BOUND: Duration = Duration::from_secs(25);
/// `gantry mcp --carry` ends with it when the server wants the user.
const SIGN_IN: i32 = 77;
/// More sign-ins than that would be a loop.
const SIGN_INS: usize = 3;
const MODERN: &str = "2026-07-28";

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().next_back().context("no URL")?;
    let folder = tempfile::tempdir()?;
    let given = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let given: Value = serde_json::from_str(&given).unwrap_or_default();
    let mut server = json!({ "url": url });
    if let Some(id) = given["client_id"].as_str() {
        server["oauth"] = json!({ "clientId": id });
        if let Some(secret) = given["client_secret"].as_str() {
            server["oauth"]["clientSecret"] = json!(secret);
        }
    }
    let work = run(&server, folder.path());
    tokio::time::timeout(BOUND, work).await.context("it takes too long")?
}

fn gantry(server: &Value, folder: &Path, mode: &str) -> Result<Child> {
    let config = json!({ "mcpServers": { "far": server } }).to_string();
    let mut command = Command::new(programs::path("gantry"));
    command.args(["mcp", mode]).env("GANTRY_MCP_CONFIG", config);
    command.env("GANTRY_MCP_SIGN_IN_FILE", folder.join("sign-ins/far.json"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    Ok(command.spawn()?)
}

/// A browser in which the user always says yes.
async fn sign_in(server: &Value, folder: &Path) -> Result<()> {
    let mut program = gantry(server, folder, "--sign-in")?;
    let _input = program.stdin.take();
    let mut lines = BufReader::new(program.stdout.take().context("no output")?).lines();
    let mut next = async || -> Result<Value> {
        Ok(serde_json::from_str(&lines.next_line().await?.context("it ended")?)?)
    };
    let said = next().await?;
    let page = said["url"].as_str().with_context(|| format!("no page: {said}"))?.to_owned();
    http_client().get(page).send().await?;
    let said = next().await?;
    if said["done"] != true {
        bail!("not signed in: {said}");
    }
    Ok(())
}

async fn run(server: &Value, folder: &Path) -> Result<()> {
    for _ in 0..SIGN_INS {
        let mut program = gantry(server, folder, "--carry")?;
        let session = Session {
            input: program.stdin.take().context("no input")?,
            lines: BufReader::new(program.stdout.take().context("no output")?).lines(),
            next: 0,
            modern: false,
            sign_ins: 0,
        };
        let done = session.act(server, folder).await;
        let status = program.wait().await?;
        if status.code() != Some(SIGN_IN) {
            return done;
        }
        sign_in(server, folder).await?;
    }
    bail!("it wants to be signed in to again and again")
}

struct Session {
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    next: u64,
    modern: bool,
    sign_ins: usize,
}

impl Session {
    /// What a client does: greets, lists, and calls everything that there is.
    async fn act(mut self, server: &Value, folder: &Path) -> Result<()> {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "conformance", "version": "1" },
        });
        let greeted = self.ask("initialize", params, server, folder).await?;
        if greeted["error"].is_object() {
            self.modern = true;
        } else {
            let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            self.say(&note).await?;
        }
        let listed = self.ask("tools/list", json!({}), server, folder).await?;
        let tools = listed["result"]["tools"].as_array().with_context(|| format!("{listed}"))?;
        for tool in tools.clone() {
            let params = json!({ "name": tool["name"], "arguments": {} });
            let answer = self.ask("tools/call", params, server, folder).await?;
            if answer["result"].is_null() {
                bail!("{answer}");
            }
        }
        Ok(())
    }

    async fn say(&mut self, message: &Value) -> Result<()> {
        self.input.write_all(format!("{message}\n").as_bytes()).await?;
        Ok(self.input.flush().await?)
    }

    async fn ask(
        &mut self,
        method: &str,
        mut params: Value,
        server: &Value,
        folder: &Path,
    ) -> Result<Value> {
        if self.modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        self.next += 1;
        let id = self.next;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.say(&message).await?;
        loop {
            let line = self.lines.next_line().await?.context("it ended")?;
            let message: Value = serde_json::from_str(&line)?;
            if message["id"] == id && message["method"].is_null() {
                return Ok(message);
            }
            let wants = message["params"]["needed"] == true;
            if message["method"] == "notifications/gantry/sign_in" && wants {
                self.sign_ins += 1;
                if self.sign_ins > SIGN_INS {
                    bail!("a call wants to be signed in to again and again");
                }
                sign_in(server, folder).await?;
            }
        }
    }
}
