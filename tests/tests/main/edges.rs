//! The command line where something around it is not as it should be: an output that takes
//! nothing, a data directory that is none, a token from elsewhere.

use gantry_tests::{Instance, Stage, programs};
use serde_json::json;
use std::{
    fs::File,
    process::{Output, Stdio},
    time::Duration,
};

/// Runs `gantry` with these arguments on the stage's data directory.
async fn gantry(stage: &Stage, args: &[&str], out: Stdio) -> Output {
    let mut command = stage.program("gantry");
    command.args(args).env("GANTRY_DATA_DIR", stage.data_dir()).env("GANTRY_LOGIN_SHELL", "no");
    command.stdin(Stdio::null()).stdout(out).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    stage.owns(child.id().unwrap());
    tokio::time::timeout(Duration::from_secs(40), child.wait_with_output()).await.unwrap().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Standard output on a full disk.
fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// Standard output whose reader has gone.
fn gone() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[tokio::test]
async fn what_could_not_be_printed_is_a_failure_and_a_reader_that_has_enough_is_none() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    for args in [
        &["--help"][..],
        &["--version"],
        &["completions", "bash"],
        &["man"],
        &["status"],
        &["status", "--json", "--tree"],
        &["stop", "--all"],
        &["import", "--json"],
        &["doctor", "--json"],
        &["chat", "--json", "hello"],
        &["chat", "hello"],
    ] {
        let lost = gantry(&stage, args, full()).await;
        let said = errors(&lost);
        assert_eq!(lost.status.code(), Some(1), "{args:?}: {said}");
        let told: Vec<_> = said.lines().filter(|line| line.starts_with("gantry: ")).collect();
        assert_eq!(told.len(), 1, "{args:?}: {said}");
        assert!(told[0].contains("standard output: No space left"), "{args:?}: {said}");

        let enough = gantry(&stage, args, gone()).await;
        let said = errors(&enough);
        assert_eq!(enough.status.code(), Some(0), "{args:?}: {said}");
        assert!(!said.contains("gantry: ") && !said.contains("Ctrl+C"), "{args:?}: {said}");
    }
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_data_directory_that_cannot_be_used_is_named_with_what_to_do() {
    let stage = Stage::shared().await;
    // A file is in its place.
    std::fs::write(stage.data_dir(), "a file").unwrap();
    for args in [&["serve"][..], &["chat", "hello"], &["import", "--apply"]] {
        let output = gantry(&stage, args, Stdio::piped()).await;
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        assert!(said.starts_with(&format!("gantry: {}: ", args[0])), "{said}");
        assert!(said.contains("is no directory") && said.contains("--data-dir"), "{said}");
    }
    let output = gantry(&stage, &["status"], Stdio::piped()).await;
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    let output = gantry(&stage, &["doctor"], Stdio::piped()).await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("PROBLEM  data directory: "), "{said}");

    // It is one, and its database is damaged.
    std::fs::remove_file(stage.data_dir()).unwrap();
    std::fs::create_dir(stage.data_dir()).unwrap();
    let database = stage.data_dir().join("gantry.db");
    std::fs::write(&database, "this is no database, but long enough to look like one").unwrap();
    for args in [&["serve"][..], &["chat", "hello"]] {
        let output = gantry(&stage, args, Stdio::piped()).await;
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        let told: Vec<_> = said.lines().filter(|line| line.starts_with("gantry: ")).collect();
        assert_eq!(told.len(), 1, "{args:?}: {said}");
        assert!(told[0].contains(database.to_str().unwrap()), "{said}");
        assert!(told[0].contains("put it aside"), "{said}");
    }
    stage.finish().await;
}

/// Whoever starts Gantry with a token of his own need not tell every command where it lies.
#[tokio::test]
async fn commands_find_the_token_that_serve_was_given() {
    let stage = Stage::shared().await;
    let file = stage.path("my-token");
    let mut instance = Instance::start_with(&stage, |command| {
        command.arg("--token-file").arg(&file);
    })
    .await;
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), instance.token);
    let status = gantry(&stage, &["status", "--json"], Stdio::piped()).await;
    assert_eq!(status.status.code(), Some(0), "{}", errors(&status));
    let quit = gantry(&stage, &["quit"], Stdio::piped()).await;
    assert_eq!(quit.status.code(), Some(0), "{}", errors(&quit));
    instance.ended(Duration::from_secs(6)).await;
    // The file is whose it was; our copy is gone.
    assert!(file.exists() && !stage.data_dir().join("run/token").exists());
    stage.finish().await;
}

/// Decision 0015: Gantry's own failures are told apart from those of others.
#[tokio::test]
async fn what_fails_beside_gantry_is_no_failure_of_gantry() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let ask = async |command: &str, body: serde_json::Value| {
        let answer = instance.post(&format!("/api/{command}"), &body).await;
        (answer.status.as_u16(), answer.body["error"]["code"].as_str().map(str::to_owned))
    };
    let upstream = (502, Some("UPSTREAM_FAILED".to_owned()));
    // A server that is not there; a tool that fails.
    for (name, config) in
        [("broken", json!({ "command": "/no/such/server" })), ("works", programs::fake_mcp(&[]))]
    {
        instance.api("servers_save", json!({ "name": name, "config": config })).await;
    }
    let call = |name: &str, tool: &str| json!({ "name": name, "tool": tool, "arguments": {} });
    assert_eq!(ask("servers_call", call("broken", "echo")).await, upstream);
    let crash = ask("servers_call", call("works", "crash")).await;
    assert_eq!(crash, upstream);

    // An agent that is not there; one that ends instead of answering.
    for (id, command) in [("none", "/no/such/agent"), ("ends", "/bin/false")] {
        let config = json!({ "name": id, "command": command });
        instance.api("agents_save", json!({ "id": id, "config": config })).await;
        let create = json!({ "project_dir": stage.path("project"), "agent": id, "servers": {} });
        let created = instance.api("session_create", create).await;
        let prompt = json!({ "session": created["session"]["id"],
            "content": [{ "type": "text", "text": "hello" }] });
        assert_eq!(ask("session_prompt", prompt).await, upstream, "{id}");
    }
    // Back ends are told what they know.
    let chat = json!({ "user_id": "u", "prompt": "x",
        "agent_config": { "agent_server": { "command": "/no/such/agent" } } });
    let answer = instance.post("/computer/chat", &chat).await;
    assert_eq!((answer.status.as_u16(), &answer.body["code"]), (500, &json!("5000")));
    instance.quit().await;
    stage.finish().await;
}

/// Somebody stops what somebody else has just asked for: neither is at fault.
#[tokio::test]
async fn a_prompt_whose_session_is_stopped_meanwhile_was_interrupted() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let config = json!({ "name": "Fake", "command": programs::path("fake_agent") });
    instance.api("agents_save", json!({ "id": "fake", "config": config })).await;
    let slow = json!({ "slow": programs::fake_mcp(&["--start-delay", "20000"]) });
    let create = json!({ "project_dir": stage.path("project"), "agent": "fake", "servers": slow });
    let created = instance.api("session_create", create).await;
    let session = &created["session"]["id"];
    let body = json!({ "session": session, "content": [{ "type": "text", "text": "hello" }] });
    let prompt = instance.post("/api/session_prompt", &body);
    let stop = async {
        gantry_tests::wait_until(
            "it is waited for the server",
            Duration::from_secs(10),
            async || (!stage.running("fake_mcp").is_empty()).then_some(()),
        )
        .await;
        instance.api("session_stop", json!({ "session": session })).await
    };
    let (prompted, _) = tokio::join!(prompt, stop);
    assert_eq!(prompted.status.as_u16(), 409, "{}", prompted.body);
    assert_eq!(prompted.body["error"]["code"], "INTERRUPTED", "{}", prompted.body);
    instance.quit().await;
    stage.finish().await;
}
