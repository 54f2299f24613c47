//! What a session does for its agent: files of its folder, commands in terminals, which
//! are the session's and end with it.

use super::stop;
use gantry_tests::{Instance, Progress, Stage, census, programs, wait_until};
use reqwest::Method;
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};

const BOUND: Duration = Duration::from_secs(20);

/// A chat request of an agent that is offered these.
fn request(prompt: &str, offers: Value) -> Value {
    let mut agent = programs::fake_agent(json!({}));
    agent["offers"] = offers;
    json!({
        "project_id": "p", "prompt": prompt,
        "agent_config": { "agent_server": agent, "context_servers": {} },
    })
}

fn everything() -> Value {
    json!({ "read_files": true, "write_files": true, "terminals": true })
}

/// A turn in a session of its own, or in this one: the session and what was said.
async fn turn(instance: &Instance, session: Option<&str>, prompt: &str) -> (String, String) {
    let mut request = request(prompt, everything());
    if let Some(session) = session {
        request["session_id"] = json!(session);
    }
    let (answer, text) = instance.turn(request, BOUND).await;
    (answer["session_id"].as_str().unwrap().to_owned(), text)
}

/// The newest turn of a session's history.
async fn newest(instance: &Instance, session: &str) -> Value {
    let history = instance.api("session_history", json!({ "session": session })).await;
    history["turns"].as_array().unwrap().last().unwrap().clone()
}

#[tokio::test]
async fn an_agent_reads_and_writes_files_of_the_sessions_folder_and_no_others() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let (session, folder) = turn(&instance, None, "CWD").await;
    let folder = PathBuf::from(folder);
    let file = folder.join("new/notes.txt");
    let secret = stage.path("secret.txt");
    std::fs::write(&secret, "s3cret").unwrap();
    std::os::unix::fs::symlink(&secret, folder.join("link")).unwrap();

    let said = async |line: String| turn(&instance, Some(&session), &line).await.1;
    assert_eq!(said(format!("WRITE {} first line", file.display())).await, "written");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "first line");
    std::fs::write(&file, "one\ntwo\nthree\n").unwrap();
    assert_eq!(said(format!("READ {}", file.display())).await, "one\ntwo\nthree\n");
    assert_eq!(said(format!("READ {} 2 1", file.display())).await, "two\n");
    for path in [secret.clone(), folder.join("link"), folder.join("../../secret.txt")] {
        let read = said(format!("READ {}", path.display())).await;
        assert!(read.starts_with("failed") && !read.contains("s3cret"), "{read}");
        let write = said(format!("WRITE {} x", path.display())).await;
        assert!(write.starts_with("failed: -32"), "{write}");
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "s3cret");
    let missing = said(format!("READ {}/nothing", folder.display())).await;
    assert!(missing.starts_with("failed: -32002") && missing.contains("ENOENT"), "{missing}");

    // An agent that is offered nothing is refused.
    let plain = request(&format!("READ {}", file.display()), json!({}));
    let (_, text) = instance.turn(plain, BOUND).await;
    assert!(text.starts_with("failed: -32601"), "{text}");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_command_runs_in_a_terminal_and_the_transcript_keeps_what_it_wrote() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let events = instance.request(Method::GET, "/events").send().await.unwrap();
    let mut events = Progress::new(events);
    let line = "RUN echo out; echo err >&2; read x; pwd; exit 3";
    let (session, text) = turn(&instance, None, line).await;
    let (_, folder) = turn(&instance, Some(&session), "CWD").await;
    let exit = json!({ "exitCode": 3, "signal": null });
    assert_eq!(text, format!("{exit} out\nerr\n{folder}\n"));

    let ended = events.until("the end of the command", BOUND, |event| {
        event.data["type"] == "terminal_changed" && event.data["terminal"]["exit"].is_object()
    });
    let terminal = ended.await.data["terminal"].clone();
    assert_eq!(terminal["exit"], json!({ "code": 3 }));
    assert_eq!(terminal["output"], format!("out\nerr\n{folder}\n"));
    let history = instance.api("session_history", json!({ "session": session })).await;
    let first = &history["turns"][0];
    assert_eq!(first["terminals"], json!([terminal]));
    let shown = &first["updates"][0]["content"][0];
    assert_eq!((&shown["type"], &shown["terminalId"]), (&json!("terminal"), &terminal["id"]));

    // Bytes arrive as they are, and what is not there says so as a shell does.
    let start = json!({ "command": "printf", "args": ["%s|", "a b", "$HOME", "é'\"", ""],
                        "env": [{ "name": "X", "value": "1" }], "cwd": "/" });
    let (_, text) = turn(
        &instance,
        Some(&session),
        &format!("START t {start}\nWAITFOR t\nOUTPUT t\nRELEASE t\nOUTPUT t"),
    )
    .await;
    assert!(text.contains(&json!("a b|$HOME|é'\"||").to_string()), "{text}");
    assert!(text.contains("failed: -32002"), "a released terminal is gone: {text}");
    let missing = json!({ "command": "no-such-program", "args": ["x"] });
    let (_, text) =
        turn(&instance, Some(&session), &format!("START m {missing}\nWAITFOR m\nOUTPUT m")).await;
    assert!(text.contains("\"exitCode\":127") && text.contains("no-such-program"), "{text}");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_long_output_is_cut_at_the_front_and_a_kill_leaves_it_readable() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let start = json!({ "command": "yes 語 | head -n 100000; echo end; sleep 600",
                        "outputByteLimit": 1000 });
    let (session, _) = turn(&instance, None, &format!("START long {start}")).await;
    wait_until("the output has come", BOUND, async || {
        let turn = newest(&instance, &session).await;
        let output = turn["terminals"][0]["output"].as_str()?;
        output.ends_with("end\n").then_some(())
    })
    .await;
    // It is seen where the processes are.
    let shown = instance.api("processes", json!({})).await.to_string();
    assert!(shown.contains("\"role\":\"terminal\""), "{shown}");
    let (_, text) =
        turn(&instance, Some(&session), "OUTPUT long\nKILL long\nOUTPUT long\nWAITFOR long").await;
    let before: Value =
        serde_json::Deserializer::from_str(&text).into_iter().next().unwrap().unwrap();
    let output = before["output"].as_str().unwrap();
    assert!(output.len() <= 1000 && output.len() > 990 && output.ends_with("語\nend\n"), "{text}");
    assert_eq!((&before["truncated"], before.get("exitStatus")), (&json!(true), None));
    assert!(text.contains("\"signal\":\"SIGTERM\""), "{text}");
    assert_eq!(stage.running("sleep").len(), 0);
    instance.quit().await;
    stage.finish().await;
}

/// Starts commands that do not want to end, with what they left behind; their turn has ended.
async fn unruly(stage: &Stage, instance: &Instance) -> String {
    let stubborn = json!({ "command": programs::path("stubborn"), "args": ["ignore-term"] });
    let line = json!({ "command": "trap '' TERM; (setsid sleep 600 &); sleep 600 & sleep 600; sleep 600" });
    let (session, text) =
        turn(instance, None, &format!("START a {stubborn}\nSTART b {line}\nECHO .")).await;
    assert_eq!(text, "startedstarted.");
    wait_until("everything runs", BOUND, async || {
        (stage.running("stubborn").len() == 1 && stage.running("sleep").len() == 3).then_some(())
    })
    .await;
    session
}

#[tokio::test]
async fn terminals_end_with_their_session_and_are_counted() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let session = unruly(&stage, &instance).await;
    // Another session of the same engine keeps its own.
    let start = json!({ "command": "sleep", "args": ["599"] });
    let (other, _) = turn(&instance, None, &format!("START c {start}")).await;
    let stopped = stop(&instance, &json!(session)).await;
    assert_eq!(stopped["engine_stopped"], false, "{stopped}");
    assert!(stopped["processes_ended"].as_u64() >= Some(5), "{stopped}");
    assert!(stopped["forced"].as_u64() >= Some(1), "{stopped}");
    let left: Vec<String> = stage.running("sleep").into_iter().map(|row| row.command).collect();
    assert_eq!(left, ["sleep 599"]);
    assert_eq!(stage.running("stubborn").len(), 0);
    let ended = newest(&instance, &session).await;
    assert!(ended["terminals"][0]["exit"].is_object(), "the transcript has its end: {ended}");
    // It goes on with the next prompt.
    let (_, text) = turn(&instance, Some(&session), "RUN echo again").await;
    assert!(text.ends_with("again\n"), "{text}");
    stop(&instance, &json!(session)).await;
    let stopped = stop(&instance, &json!(other)).await;
    assert_eq!(stopped["engine_stopped"], true, "{stopped}");
    stage.empty_but(&[instance.pid], Duration::from_millis(100)).await;
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn terminals_end_with_an_agent_that_dies() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let session = unruly(&stage, &instance).await;
    let agent = stage.running("fake_agent")[0].pid;
    census::signal(agent, rustix::process::Signal::KILL);
    stage.empty_but(&[instance.pid], Duration::from_secs(8)).await;
    let (_, text) = turn(&instance, Some(&session), "RUN echo new").await;
    assert!(text.ends_with("new\n"), "{text}");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_quit_ends_terminals_in_time() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    unruly(&stage, &instance).await;
    instance.quit().await;
    stage.finish().await;
}
