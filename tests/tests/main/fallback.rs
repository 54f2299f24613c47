//! What an agent gets when a server is not healthy, or when it cannot do HTTP: programs of
//! ours on stdio, which answer at once, try the server again, and end with the agent.

use gantry_tests::{Instance, Stage, programs, record, wait_until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const BOUND: Duration = Duration::from_secs(20);
/// Starts that the bridge gives a server that was never ready.
const STARTS: &str = "4";

fn server<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let servers = answer["servers"].as_array().into_iter().flatten();
    servers
        .into_iter()
        .find(|server| server["name"] == name)
        .unwrap_or_else(|| panic!("no `{name}` in {answer}"))
}

/// The agent's own view of one server of its session.
fn seen(record: &std::path::Path, name: &str) -> Value {
    let lines = record::events(record, "tools");
    let line = lines.iter().find(|line| line["server"] == name);
    line.unwrap_or_else(|| panic!("the agent was not given `{name}`: {lines:#?}")).clone()
}

/// A server that failed for the bridge is given to the agent behind `gantry mcp`, which
/// starts it again: when it works by then, it works for the agent.
#[tokio::test]
async fn a_server_that_failed_works_through_our_proxy_once_it_starts() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let agent_record = stage.path("agent.jsonl");
    let starts = stage.text("starts");
    let mut late = programs::fake_mcp(&["--label", "late", "--fail-starts", STARTS, &starts]);
    late["env"] = json!({ "KEY": "s3cret-of-the-test" });
    let request = json!({
        "project_id": "p", "prompt": "CALLON late echo {\"text\":\"there\"}\nCALLON late env {\"name\":\"KEY\"}",
        "agent_config": {
            "agent_server": programs::fake_agent(json!({ "FAKE_AGENT_RECORD": agent_record })),
            "context_servers": { "late": late, "good": programs::fake_mcp(&[]) },
        },
    });
    let (answer, text) = instance.turn(request, BOUND).await;
    let failed = server(&answer, "late");
    assert_eq!((&failed["state"], &failed["via"]), (&json!("failed"), &json!("stdio")), "{answer}");
    assert!(failed["error"].as_str().is_some_and(|why| why.contains("KEY missing")), "{answer}");
    assert_eq!(server(&answer, "good")["via"], "bridge", "{answer}");

    let entry = &seen(&agent_record, "late")["entry"];
    assert!(entry["command"].as_str().is_some_and(|path| path.ends_with("/gantry")), "{entry}");
    assert_eq!(entry["args"], json!(["mcp", "--config", "-"]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines, ["echo: late: there", "env: s3cret-of-the-test"], "{answer}");
    for row in stage.members() {
        assert!(!row.command.contains("s3cret"), "a secret in arguments: {}", row.command);
    }

    // It hangs under the agent, and ends with it.
    assert_eq!(stage.running("fake_mcp").len(), 2);
    let session = json!({ "session": answer["session_id"] });
    instance.api("session_stop", session).await;
    wait_until("the fall-back has ended with its agent", Duration::from_secs(5), async || {
        stage.running("fake_mcp").is_empty().then_some(())
    })
    .await;
    instance.quit().await;
    stage.finish().await;
}

/// One that will never start costs the session its tools, not the session.
#[tokio::test]
async fn a_server_that_never_starts_cannot_hang_the_session() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let agent_record = stage.path("agent.jsonl");
    let request = json!({
        "project_id": "p", "prompt": "CALLON good echo {\"text\":\"there\"}",
        "agent_config": {
            "agent_server": programs::fake_agent(json!({ "FAKE_AGENT_RECORD": agent_record })),
            "context_servers": {
                "gone": { "command": "no-such-program-at-all" },
                "mute": { "command": programs::path("fake_mcp"), "args": ["--silent"], "startTimeoutMs": 700 },
                "good": programs::fake_mcp(&[]),
            },
        },
    });
    let began = Instant::now();
    let (answer, text) = instance.turn(request, BOUND).await;
    assert_eq!(text, "echo: there\n", "{answer}");
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    for name in ["gone", "mute"] {
        assert_eq!(server(&answer, name)["via"], "stdio", "{answer}");
        // Our proxy had answered `initialize`, and a list, when `session/new` was answered.
        let line = seen(&agent_record, name);
        assert_eq!(line["entry"]["args"], json!(["mcp", "--config", "-"]), "{line}");
    }
    assert_eq!(seen(&agent_record, "mute")["tools"], json!([]));
    instance.quit().await;
    stage.finish().await;
}

/// An agent without HTTP gets every kind of server over stdio, and a server that crashes
/// comes back behind it.
#[tokio::test]
async fn an_agent_without_http_has_everything_over_stdio() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let agent_record = stage.path("agent.jsonl");
    let starts = stage.text("starts");
    let prompt = "CALLON one crash {\"code\":7}\nCALLON one echo {\"text\":\"back\"}\n\
                  CALLON two echo {\"text\":\"two\"}\nCALLON recall status {}";
    let request = json!({
        "project_id": "p", "prompt": prompt,
        "agent_config": {
            "agent_server": programs::fake_agent(json!({
                "FAKE_AGENT_NO_HTTP": "1", "FAKE_AGENT_RECORD": agent_record })),
            "context_servers": {
                "one": programs::fake_mcp(&[]),
                "two": programs::fake_mcp(&["--fail-starts", STARTS, &starts]),
                "recall": { "command": "gantry", "args": ["mcp", "--recall"] },
            },
        },
    });
    let (answer, text) = instance.turn(request, BOUND).await;
    for (name, state) in [("one", "ready"), ("two", "failed"), ("recall", "ready")] {
        let server = server(&answer, name);
        assert_eq!(
            (&server["state"], &server["via"]),
            (&json!(state), &json!("stdio")),
            "{answer}"
        );
        let entry = seen(&agent_record, name)["entry"].clone();
        assert!(entry["url"].is_null() && entry["command"].is_string(), "{entry}");
    }
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("crash: failed"), "{text}");
    assert!(lines.contains(&"echo: back") && lines.contains(&"echo: two"), "{text}");
    assert!(text.contains("status: ") && !text.contains("status: failed"), "{text}");
    instance.quit().await;
    stage.finish().await;
}
