//! A `gantry mcp` with a client at its pipes.

use crate::{McpClient, Stage};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::process::Child;

/// A running `gantry mcp`. Killed when dropped.
pub struct Proxy {
    /// The program.
    pub child: Child,
    /// Initialised.
    pub client: McpClient,
    errors: PathBuf,
}

impl Proxy {
    /// Starts it and waits for the answer to `initialize`.
    ///
    /// # Panics
    /// When there is none within 20 s.
    pub async fn start(stage: &Stage, args: &[&str]) -> Self {
        let errors = (1..)
            .map(|number| stage.path(format!("mcp-{number}.log")))
            .find(|path| !path.exists())
            .unwrap_or_else(|| stage.path("mcp.log"));
        let log = std::fs::File::create(&errors).unwrap_or_else(|why| panic!("{why}"));
        let mut command = stage.program("gantry");
        command.arg("mcp").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap_or_else(|why| panic!("gantry mcp: {why}"));
        stage.owns(child.id().unwrap_or_default());
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            panic!("no pipes");
        };
        let connect = McpClient::stdio(input, output);
        let client = match tokio::time::timeout(Duration::from_secs(20), connect).await {
            Ok(Ok(client)) => client,
            Ok(Err(why)) => panic!("{why:#}: {}", read(&errors)),
            Err(_) => panic!("no initialize: {}", read(&errors)),
        };
        Self { child, client, errors }
    }

    /// Its pid.
    ///
    /// # Panics
    /// When it has ended.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or_else(|| panic!("it has ended: {}", self.log()))
    }

    /// What it wrote to standard error.
    pub fn log(&self) -> String {
        read(&self.errors)
    }

    /// Waits for the end; the exit code and how long it took.
    ///
    /// # Panics
    /// When it still runs after `bound`.
    pub async fn ended(&mut self, bound: Duration) -> (Option<i32>, Duration) {
        let began = Instant::now();
        match tokio::time::timeout(bound, self.child.wait()).await {
            Ok(Ok(status)) => (status.code(), began.elapsed()),
            Ok(Err(why)) => panic!("wait: {why}"),
            Err(_) => panic!("still running: {}", self.log()),
        }
    }

    /// Closes its input and expects the clean end.
    ///
    /// # Panics
    /// When the exit code is not 0, or it does not end within the contract's 5 s.
    pub async fn finish(mut self) {
        self.client.close_input().await;
        let (code, _) = self.ended(Duration::from_millis(5200)).await;
        assert_eq!(code, Some(0), "{}", self.log());
    }
}

fn read(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The text for `--config`.
pub fn config(servers: &Value) -> String {
    json!({ "mcpServers": servers }).to_string()
}
