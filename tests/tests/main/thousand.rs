//! 1,000 of 1,000 first prompts with real processes: servers that take 0 to 3 s
//! and are started for them, many sessions at once, and an agent that asks each
//! server for its tools when the prompt comes. `GANTRY_TEST_PROMPTS` says how many.

use futures::{StreamExt as _, stream};
use gantry_tests::{Instance, Stage, programs, wait_until};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Sessions that begin together and share their new servers.
const GROUP: usize = 20;
/// New servers of a group. The bridge starts a few at a time, so the others wait longer.
const SERVERS: usize = 3;
/// Groups at once: what they keep open must stay below the usual limit of descriptors.
const AT_ONCE: usize = 3;
/// Tools of `fake_mcp` that are always there.
const STANDARD: usize = 9;
/// On a busy machine too; nothing here is about speed.
const BOUND: Duration = Duration::from_secs(120);

/// The same numbers each time, so that a failure comes back.
fn shuffled(group: usize, server: usize) -> usize {
    (group * 7_919 + server * 104_729 + 577) * 1_103 % 3_001
}

/// How many tools of its own a server has: others are others.
fn own_tools(group: usize, server: usize) -> usize {
    1 + (group + server) % 5
}

async fn group(instance: &Instance, group: usize) {
    let servers: Map<String, Value> = (0..SERVERS)
        .map(|server| {
            let label = format!("{group}-{server}");
            let delay = shuffled(group, server).to_string();
            let tools = own_tools(group, server).to_string();
            let args = ["--label", &label, "--start-delay", &delay, "--tools", &tools];
            (format!("n{server}"), programs::fake_mcp(&args))
        })
        .collect();
    let sessions = (0..GROUP).map(|_| a_first_prompt(instance, group, &servers));
    let sessions = futures::future::join_all(sessions).await;
    // What the agent fetched is on record, per session and server.
    wait_until("each session shows what its agent fetched", BOUND, async || {
        let list = instance.api("sessions_list", json!({})).await;
        let has_fetched = |id: &String| {
            let all = list["sessions"].as_array().into_iter().flatten();
            let session = all.into_iter().find(|session| session["id"] == *id)?;
            let shown = session["servers"].as_array()?;
            let of = |server: usize| {
                let name = format!("n{server}");
                let found = shown.iter().find(|shown| shown["name"] == name)?;
                Some(found["fetched"] == STANDARD + own_tools(group, server))
            };
            (0..SERVERS).all(|server| of(server) == Some(true)).then_some(())
        };
        sessions.iter().all(|id| has_fetched(id).is_some()).then_some(())
    })
    .await;
    let stops = sessions.iter().map(|id| instance.api("session_stop", json!({ "session": id })));
    futures::future::join_all(stops).await;
}

/// Opens a session with its first prompt, and holds what its agent sees against what there is.
async fn a_first_prompt(instance: &Instance, group: usize, servers: &Map<String, Value>) -> String {
    let request = json!({
        "project_id": "p", "prompt": "TOOLS\nCALLON n1 echo {\"text\":\"it\"}",
        "ready_timeout_ms": BOUND.as_millis(),
        "agent_config": {
            "agent_server": programs::fake_agent(json!({})), "context_servers": servers },
    });
    let (answer, text) = instance.turn(request, BOUND).await;
    for server in answer["servers"].as_array().unwrap() {
        assert_eq!(
            (&server["state"], &server["via"]),
            (&json!("ready"), &json!("bridge")),
            "{answer}"
        );
    }
    for server in 0..SERVERS {
        let name = format!("n{server}: ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        let seen: Vec<&str> =
            line.unwrap_or_else(|| panic!("no {name}in {text}")).split(' ').collect();
        let own = own_tools(group, server);
        assert_eq!(seen.len(), STANDARD + own, "{answer}: {text}");
        assert!((0..own).all(|n| seen.contains(&&*format!("tool_{n}"))), "{text}");
    }
    assert!(text.contains(&format!("echo: {group}-1: it")), "{text}");
    answer["session_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_thousand_of_a_thousand_first_prompts_see_every_tool() {
    let prompts = std::env::var("GANTRY_TEST_PROMPTS").ok().and_then(|count| count.parse().ok());
    let groups = prompts.unwrap_or(1_000_usize).div_ceil(GROUP);
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let done = stream::iter(0..groups)
        .map(|number| group(&instance, number))
        .buffer_unordered(AT_ONCE)
        .count()
        .await;
    assert_eq!(done, groups);
    instance.quit().await;
    stage.finish().await;
}
