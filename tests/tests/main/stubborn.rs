//! A session that does not want to end.

use gantry_tests::{Api, Stage, programs, wait_until};
use serde_json::json;
use std::time::Duration;

const CHILDREN: &str = "plain,setsid,daemon,cleared,holding";

/// Starts a session whose agent and server ignore TERM and the end of their
/// input, and have five children each that are hard to find.
pub async fn session(api: &Api, stage: &Stage, prompt: &str) {
    let request = json!({
        "project_id": "p", "prompt": prompt,
        "agent_config": {
            "agent_server": programs::fake_agent(json!({
                "FAKE_AGENT_STUBBORN": "1", "FAKE_AGENT_SPAWN": CHILDREN })),
            "context_servers": {
                "own": programs::fake_mcp(&["--ignore-term", "--ignore-eof", "--spawn", CHILDREN]),
            },
        },
    });
    api.chat(request).await;
    wait_until("agent, server and their children run", Duration::from_secs(10), async || {
        let counts = ["stubborn", "fake_agent", "fake_mcp"].map(|name| stage.running(name).len());
        (counts == [10, 1, 1]).then_some(())
    })
    .await;
}
