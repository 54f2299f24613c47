//! What surrounds a server: its arguments, its runtime, the folders.

use gantry_tests::{Instance, Stage, npm, programs};
use serde_json::{Value, json};
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(20);

fn chat(servers: &Value, prompt: &str) -> Value {
    json!({
        "project_id": "p", "prompt": prompt,
        "agent_config": {
            "agent_server": programs::fake_agent(json!({})),
            "context_servers": servers,
        },
    })
}

/// Case 54.
#[tokio::test]
async fn arguments_arrive_byte_for_byte() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let odd = [
        "two words",
        "a \"quoted\" 'one'",
        "100% & more",
        "first\nsecond\r\n",
        "网页 内容",
        "$HOME `id` \\",
        "",
        "--flag=value",
        "tab\there",
        "*",
    ];
    let mut args: Vec<&str> = Vec::new();
    for word in odd {
        args.extend(["--word", word]);
    }
    let servers = json!({ "one": programs::fake_mcp(&args) });
    let (answer, text) = instance.turn(chat(&servers, "CALL args"), BOUND).await;
    let arrived = text.strip_prefix("args: ").unwrap_or_else(|| panic!("{answer} {text}"));
    assert_eq!(serde_json::from_str::<Vec<String>>(arrived.trim()).unwrap(), args);
    instance.quit().await;
    stage.finish().await;
}

/// Cases 3 and 20.
#[tokio::test]
async fn servers_of_every_runtime_end_with_all_that_they_started() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let fake = programs::path("fake_mcp").display().to_string();
    let script = stage.path("server.sh");
    // Not `exec`: the shell stays, and what we started is not what speaks.
    std::fs::write(&script, format!("#!/bin/sh\n{fake} --spawn setsid,daemon\ntrue\n")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let everything = npm::server_everything();
    let nested = format!("sh -c 'node {} stdio; true'; true", everything.display());
    let servers = json!({
        "binary": programs::fake_mcp(&["--spawn", "plain"]),
        "script": { "command": script },
        "node": { "command": "node", "args": [everything, "stdio"] },
        "nested": { "command": "sh", "args": ["-c", nested] },
    });
    let (answer, _) = instance.turn(chat(&servers, "TOOLS"), BOUND).await;
    for server in answer["servers"].as_array().unwrap() {
        assert_eq!(server["state"], "ready", "{answer}");
    }
    assert_eq!(stage.running("node").len(), 2);
    assert_eq!(stage.running("stubborn").len(), 3);
    let body =
        json!({ "user_id": "tester", "project_id": "p", "session_id": answer["session_id"] });
    instance.post("/computer/agent/session/stop", &body).await;
    stage.empty_but(&[instance.pid], Duration::from_secs(1)).await;
    instance.quit().await;
    stage.finish().await;
}

/// Case 79.
#[tokio::test]
async fn a_data_directory_that_is_a_symbolic_link_survives_a_restart() {
    let stage = Stage::shared().await;
    let real = stage.path("elsewhere");
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, stage.data_dir()).unwrap();
    let mut instance = Instance::start(&stage).await;
    let mut config = programs::fake_mcp(&[]);
    config["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": "kept", "config": config })).await;
    instance.server_in("kept", "ready", BOUND).await;
    instance.quit().await;
    assert!(stage.data_dir().is_symlink());
    assert!(real.join("gantry.db").is_file());
    let mut instance = Instance::start(&stage).await;
    instance.server_in("kept", "ready", BOUND).await;
    instance.quit().await;
    stage.finish().await;
}

/// Case 56, the second half.
#[tokio::test]
async fn a_server_whose_variable_is_not_set_is_not_started_and_the_error_names_it() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start_with(&stage, |command| {
        command.env("SET_FOR_THE_TEST", "its value");
    })
    .await;
    let mut good = programs::fake_mcp(&[]);
    good["env"]["TAKEN"] = json!("${env:SET_FOR_THE_TEST}");
    let mut bad = programs::fake_mcp(&["--pid-file", &stage.text("pids")]);
    bad["env"]["API_KEY"] = json!("${env:NOT_SET_ANYWHERE}");
    let servers = json!({ "good": good, "bad": bad });
    let request = chat(&servers, "CALLON good env {\"name\":\"TAKEN\"}");
    let (answer, text) = instance.turn(request, BOUND).await;
    assert_eq!(text, "env: its value\n");
    let servers = answer["servers"].as_array().unwrap();
    let bad = servers.iter().find(|server| server["name"] == "bad").unwrap();
    assert_eq!(bad["state"], "failed", "{answer}");
    let why = bad["error"].as_str().unwrap_or_default();
    assert!(why.contains("API_KEY") && why.contains("NOT_SET_ANYWHERE"), "{why}");
    assert!(!stage.path("pids").exists(), "it was started");
    instance.quit().await;
    stage.finish().await;
}
