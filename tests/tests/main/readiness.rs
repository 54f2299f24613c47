//! Ready at the first prompt: every server of the session has answered
//! `tools/list` before `session/new` reaches the agent, and a broken or slow
//! one keeps nobody for ever.

use gantry_tests::{Instance, McpClient, Stage, npm, programs, record, wait_until};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    process::Stdio,
    time::{Duration, Instant},
};

/// What server-everything offers to a client without any capability.
async fn tools_of_everything(stage: &Stage) -> BTreeSet<String> {
    let mut command = stage.command("node");
    command.arg(npm::server_everything()).arg("stdio");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = command.spawn().unwrap();
    let (input, output) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
    let client = McpClient::stdio(input, output).await.unwrap();
    let names = client.tool_names().await.unwrap();
    server.kill().await.unwrap();
    assert!(names.iter().any(|name| name == "echo"), "{names:?}");
    names.into_iter().collect()
}

fn names(tools: &Value) -> BTreeSet<String> {
    let names = tools.as_array().into_iter().flatten();
    names.filter_map(|name| Some(name.as_str()?.to_owned())).collect()
}

/// The first line of a record with this event, as its time.
fn first(lines: &[Value], what: impl Fn(&Value) -> bool) -> u64 {
    let line = lines.iter().find(|line| what(line));
    record::at(line.unwrap_or_else(|| panic!("not in the record: {lines:#?}")))
}

async fn a_first_prompt(instance: &Instance, stage: &Stage, number: usize, all: &BTreeSet<String>) {
    let server_record = stage.text(&format!("server-{number}.jsonl"));
    let agent_record = stage.text(&format!("agent-{number}.jsonl"));
    let server = json!({
        "command": programs::path("slow_start"),
        "args": ["3000", server_record, "node", npm::server_everything(), "stdio"],
    });
    let request = json!({
        "project_id": format!("new-{number}"),
        "prompt": "TOOLS",
        "agent_config": {
            "agent_server": programs::fake_agent(json!({ "FAKE_AGENT_RECORD": agent_record })),
            "context_servers": { "everything": server },
        },
    });
    let (answer, text) = instance.turn(request, Duration::from_secs(60)).await;

    let entry = &answer["servers"][0];
    assert_eq!(entry["name"], "everything", "{answer}");
    assert_eq!((&entry["state"], &entry["via"]), (&json!("ready"), &json!("bridge")), "{answer}");

    let server_lines = record::read(stage.path(&server_record).as_path());
    let agent_lines = record::read(stage.path(&agent_record).as_path());
    let listed =
        first(&server_lines, |line| line["event"] == "answered" && line["method"] == "tools/list");
    let opened = first(&agent_lines, |line| line["event"] == "session/new");
    let prompted = first(&agent_lines, |line| line["event"] == "session/prompt");
    assert!(
        listed < opened,
        "session/new came {} ms before tools/list",
        (listed - opened) / 1_000_000
    );
    assert!(opened < prompted);

    let seen = record::events(stage.path(&agent_record).as_path(), "tools");
    assert_eq!(seen[0]["entry"]["type"], "http", "{}", seen[0]);
    let tools = names(&seen[0]["tools"]);
    assert!(tools.is_superset(all), "missing: {:?}", all.difference(&tools));
    assert!(all.iter().all(|tool| text.contains(tool.as_str())), "{text}");
    assert_eq!(entry["tools"].as_u64(), u64::try_from(tools.len()).ok(), "{answer}");
}

#[tokio::test]
async fn twenty_of_twenty_first_prompts_find_the_tools_of_a_server_that_needs_three_seconds() {
    for round in 0..4 {
        let stage = Stage::alone().await;
        let all = tools_of_everything(&stage).await;
        let mut instance = Instance::start(&stage).await;
        let prompts =
            (0..5).map(|number| a_first_prompt(&instance, &stage, round * 5 + number, &all));
        futures::future::join_all(prompts).await;
        instance.quit().await;
        stage.finish().await;
    }
}

/// Servers of every speed, in every order; `GANTRY_TEST_PROMPTS` sessions at once. What the agent
/// fetched is what there is, and the session shows it.
#[tokio::test]
async fn first_prompts_are_complete_whatever_their_servers_take() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let prompts = std::env::var("GANTRY_TEST_PROMPTS").ok().and_then(|count| count.parse().ok());
    let chats = (0..prompts.unwrap_or(12_u64)).map(|number| {
        let instance = &instance;
        let servers: serde_json::Map<String, Value> = (0..3)
            .map(|n| {
                let delay = ((number * 3 + n) * 1_103 + 577) % 3_000;
                let label = format!("{number}-{n}");
                let args = ["--start-delay", &delay.to_string(), "--label", &label, "--tools", "2"];
                (format!("n{n}"), programs::fake_mcp(&args))
            })
            .collect();
        async move {
            let request = json!({
                "project_id": "p", "prompt": "TOOLS\nCALLON n1 echo {\"text\":\"it\"}",
                "agent_config": {
                    "agent_server": programs::fake_agent(json!({})), "context_servers": servers },
            });
            let (answer, text) = instance.turn(request, Duration::from_secs(60)).await;
            for server in answer["servers"].as_array().unwrap() {
                assert_eq!(
                    (&server["state"], &server["tools"]),
                    (&json!("ready"), &json!(11)),
                    "{answer}"
                );
            }
            assert_eq!(text.matches("tool_1").count(), 3, "{text}");
            assert!(text.contains(&format!("echo: {number}-1: it")), "{text}");
            wait_until("the session shows what was fetched", Duration::from_secs(5), async || {
                let list = instance.api("sessions_list", json!({})).await;
                let session = list["sessions"]
                    .as_array()?
                    .iter()
                    .find(|session| session["id"] == answer["session_id"])?
                    .clone();
                let servers = session["servers"].as_array()?;
                servers.iter().all(|server| server["fetched"] == 11).then_some(())
            })
            .await;
        }
    });
    futures::future::join_all(chats).await;
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_prompt_leaves_at_its_deadline_with_the_servers_that_are_ready_and_the_slow_one_joins() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let agent_record = stage.path("agent.jsonl");
    let began = Instant::now();
    let answer = instance
        .chat(json!({
            "project_id": "p", "prompt": "TOOLS", "ready_timeout_ms": 1500,
            "agent_config": {
                "agent_server": programs::fake_agent(json!({
                    "FAKE_AGENT_RECORD": agent_record, "FAKE_AGENT_LAZY": "1" })),
                "context_servers": {
                    "fast": programs::fake_mcp(&[]),
                    "slow": programs::fake_mcp(&["--start-delay", "6000", "--tools", "3"]),
                },
            },
        }))
        .await;
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(1500) && took < Duration::from_secs(5), "{took:?}");
    let state = |name: &str| {
        let servers = answer["servers"].as_array().unwrap();
        servers.iter().find(|server| server["name"] == name).unwrap()["state"].clone()
    };
    assert_eq!((state("fast"), state("slow")), (json!("ready"), json!("starting")), "{answer}");

    // It joins: the agent hears of it, and has its tools in the same session.
    wait_until("the agent heard that the tools changed", Duration::from_secs(15), async || {
        let heard = record::events(&agent_record, "heard");
        let is_it = |line: &Value| {
            line["server"] == "slow"
                && line["message"]["method"] == "notifications/tools/list_changed"
        };
        heard.iter().any(is_it).then_some(())
    })
    .await;
    let again = json!({ "project_id": "p", "prompt": "TOOLS", "session_id": answer["session_id"] });
    let (_, text) = instance.turn(again, Duration::from_secs(10)).await;
    assert!(text.contains("slow: ") && text.contains("tool_2"), "{text}");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_server_that_says_nothing_keeps_nobody_longer_than_the_deadline() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let request = json!({
        "project_id": "p", "prompt": "ECHO hello", "ready_timeout_ms": 1000,
        "agent_config": {
            "agent_server": programs::fake_agent(json!({ "FAKE_AGENT_LAZY": "1" })),
            "context_servers": {
                "good": programs::fake_mcp(&[]),
                "dumb": programs::fake_mcp(&["--silent"]),
            },
        },
    });
    let began = Instant::now();
    let (answer, text) = instance.turn(request, Duration::from_secs(10)).await;
    assert_eq!(text, "hello", "{answer}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    instance.quit().await;
    stage.finish().await;
}

/// Case N3.
#[tokio::test]
async fn a_command_that_is_not_found_fails_at_once_by_name_and_works_once_it_is_there() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let late = stage.path("late-server");
    let request = json!({
        "project_id": "p", "prompt": "TOOLS",
        "agent_config": {
            "agent_server": programs::fake_agent(json!({})),
            "context_servers": {
                "good": programs::fake_mcp(&[]),
                "late": { "command": late, "args": ["--tools", "1"] },
            },
        },
    });
    let began = Instant::now();
    let (answer, text) = instance.turn(request.clone(), Duration::from_secs(20)).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let server = |answer: &Value, name: &str| {
        let servers = answer["servers"].as_array().unwrap();
        servers.iter().find(|server| server["name"] == name).unwrap().clone()
    };
    assert_eq!(server(&answer, "good")["state"], "ready", "{answer}");
    let failed = server(&answer, "late");
    assert_eq!((&failed["state"], &failed["via"]), (&json!("failed"), &json!("stdio")), "{answer}");
    let why = failed["error"].as_str().unwrap_or_default();
    assert!(why.contains("late-server"), "the error names no command: {answer}");
    assert!(text.contains("good: ") && text.contains("echo"), "{text}");

    std::os::unix::fs::symlink(programs::path("fake_mcp"), &late).unwrap();
    let (answer, text) = instance.turn(request, Duration::from_secs(20)).await;
    assert_eq!(server(&answer, "late")["state"], "ready", "{answer}");
    assert!(text.contains("tool_0"), "{text}");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn an_agent_that_cannot_do_http_gets_the_bridge_over_stdio() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let request = json!({
        "project_id": "p", "prompt": "TOOLS\nCALL echo {\"text\":\"through\"}",
        "agent_config": {
            "agent_server": programs::fake_agent(json!({
                "FAKE_AGENT_NO_HTTP": "1", "FAKE_AGENT_RECORD": stage.path("agent.jsonl") })),
            "context_servers": { "one": programs::fake_mcp(&["--tools", "2"]) },
        },
    });
    let (answer, text) = instance.turn(request, Duration::from_secs(20)).await;
    assert!(text.contains("tool_1") && text.contains("echo: through"), "{answer}\n{text}");
    let seen = record::events(&stage.path("agent.jsonl"), "tools");
    assert!(seen[0]["entry"]["command"].as_str().unwrap().ends_with("gantry"), "{}", seen[0]);
    // One process for the server: the bridge's.
    assert_eq!(stage.running("fake_mcp").len(), 1);
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_chat_without_servers_waits_for_nothing() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let began = Instant::now();
    let request = json!({
        "project_id": "p", "prompt": "hello",
        "agent_config": { "agent_server": programs::fake_agent(json!({})), "context_servers": {} },
    });
    let (answer, text) = instance.turn(request, Duration::from_secs(10)).await;
    assert_eq!(text, "hello");
    assert_eq!(answer["servers"], json!([]), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    instance.quit().await;
    stage.finish().await;
}
