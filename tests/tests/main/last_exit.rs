//! What a shutdown and a crash leave for the next start to tell, and ends that are in a hurry.

use crate::stubborn;
use gantry_tests::{Instance, Stage, programs};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::io::{AsyncBufReadExt, BufReader};

const BOUND: Duration = Duration::from_secs(20);

fn written(stage: &Stage) -> Value {
    let text = std::fs::read_to_string(stage.data_dir().join("run/last-exit.json"));
    serde_json::from_str(&text.unwrap_or_else(|why| panic!("{why}"))).unwrap()
}

async fn told(instance: &Instance) -> Value {
    instance.api("snapshot", json!({})).await["last_exit"].clone()
}

#[tokio::test]
async fn what_was_forced_at_a_quit_is_written_down_and_told_once() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    assert_eq!(told(&instance).await, Value::Null);
    stubborn::session(&instance, &stage, "HANG").await;
    let mut polite = programs::fake_mcp(&[]);
    polite["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": "polite", "config": polite })).await;
    instance.server_in("polite", "ready", BOUND).await;
    instance.quit().await;
    let report = written(&stage);
    assert_eq!((&report["code"], &report["cause"]), (&json!(0), &json!("SIGTERM")), "{report}");
    let trees = report["trees"].as_array().unwrap();
    let end = |name: &str| {
        let tree = trees.iter().find(|tree| tree["name"] == name);
        tree.unwrap_or_else(|| panic!("no {name} in {report}")).clone()
    };
    assert_eq!(end("polite")["how"], "exited");
    let forced = end("own");
    assert_eq!((&forced["how"], &forced["role"]), (&json!("killed"), &json!("server")));
    // The server and the five that it had started.
    assert_eq!((&forced["processes"], &forced["forced"]), (&json!(6), &json!(6)), "{forced}");
    assert_eq!(report["left"], json!([]));
    let log = instance.log();
    assert!(log.contains("how=killed") && log.contains("how=exited"), "{log}");

    let mut next = Instance::start(&stage).await;
    let last = told(&next).await;
    let summary = last["summary"].as_str().unwrap();
    assert!(summary.contains("were killed") && summary.contains("own"), "{last}");
    assert!(!summary.contains("polite") && last["crashed"] == false, "{last}");
    assert!(last["report"].as_str().unwrap().contains("own (server): killed"), "{last}");
    assert!(!stage.data_dir().join("run/last-exit.json").exists());
    next.quit().await;
    let mut third = Instance::start(&stage).await;
    assert_eq!(told(&third).await, Value::Null);
    third.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_crash_is_told_with_a_report_to_copy() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    stubborn::session(&instance, &stage, "HANG").await;
    let crashed = instance.pid;
    instance.signal(Signal::KILL);
    instance.ended(BOUND).await;
    // At once, while the wardens are still at work.
    let mut next = Instance::start(&stage).await;
    let last = told(&next).await;
    let summary = last["summary"].as_str().unwrap();
    assert!(summary.starts_with("Gantry ended unexpectedly; "), "{last}");
    assert_eq!(last["crashed"], true);
    let report = last["report"].as_str().unwrap();
    assert!(report.contains("The end of the log:") && report.contains("started"), "{report}");
    assert!(next.log().contains(summary), "{crashed}: {}", next.log());
    next.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_crash_is_told_also_when_the_next_start_fails() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    instance.signal(Signal::KILL);
    instance.ended(BOUND).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut command = stage.program("gantry");
    command.args(["serve", "--port", &port, "--data-dir"]).arg(stage.data_dir());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut failing = command.spawn().unwrap();
    let failed = tokio::time::timeout(BOUND, failing.wait()).await.unwrap().unwrap();
    assert!(!failed.success());
    let mut next = Instance::start(&stage).await;
    assert_eq!(told(&next).await["crashed"], true);
    next.quit().await;
    let mut last = Instance::start(&stage).await;
    assert_eq!(told(&last).await, Value::Null, "it is told once");
    last.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_third_request_ends_at_once_and_leaves_nothing() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    stubborn::session(&instance, &stage, "HANG").await;
    instance.signal(Signal::TERM);
    tokio::time::sleep(Duration::from_millis(1050)).await;
    instance.signal(Signal::TERM);
    // Two signals of one kind that are not taken yet would count as one.
    instance.signal(Signal::INT);
    let began = Instant::now();
    let (status, _) = instance.ended(Duration::from_secs(1)).await;
    // By the watchdog, or by the kill that the second request began and that was faster.
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
    stage.empty_but(&[], Duration::from_millis(300)).await;
    assert!(began.elapsed() < Duration::from_millis(1300));
    if status.code() == Some(1) {
        assert_eq!(written(&stage)["cut_short"], "asked a third time");
        let mut next = Instance::start(&stage).await;
        assert_eq!(told(&next).await["crashed"], false);
        next.quit().await;
    }
    stage.finish().await;
}

/// A back end that starts Gantry and never reads what it logs.
#[tokio::test]
async fn a_log_that_nobody_reads_holds_up_nothing() {
    let stage = Stage::shared().await;
    let (unread, mut full) = std::io::pipe().unwrap();
    // Not one line more goes in.
    let size = rustix::pipe::fcntl_setpipe_size(&full, 4096).unwrap();
    std::io::Write::write_all(&mut full, &vec![b'x'; size]).unwrap();
    let mut command = stage.program("gantry");
    command.args(["serve", "--data-dir"]).arg(stage.data_dir());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(full);
    let mut child = command.spawn().unwrap();
    drop(command);
    stage.owns(child.id().unwrap());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(BOUND, lines.next_line()).await.unwrap().unwrap().unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    let token = std::fs::read_to_string(ready["token_file"].as_str().unwrap()).unwrap();
    let api = gantry_tests::Api::new(ready["url"].as_str().unwrap(), &token);
    let request = json!({ "project_id": "p", "prompt": "ECHO hello",
                          "agent_config": { "agent_server": programs::fake_agent(json!({})) } });
    let (_, text) = api.turn(request, BOUND).await;
    assert_eq!(text.trim(), "hello");
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let ended = tokio::time::timeout(Duration::from_millis(5200), child.wait()).await;
    assert_eq!(ended.unwrap().unwrap().code(), Some(0));
    let log = std::fs::read_to_string(stage.data_dir().join("logs/gantry.log")).unwrap();
    assert!(log.contains("Cleanup complete, exiting"));
    drop(unread);
    stage.finish().await;
}

#[tokio::test]
async fn the_process_view_says_whose_each_is_and_which_memory_is_meant() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let request = json!({ "project_id": "p", "prompt": "ECHO hello", "agent_config": {
        "agent_server": programs::fake_agent(json!({ "FAKE_AGENT_SPAWN": "daemon" })),
        "context_servers": { "own": programs::fake_mcp(&[]) } } });
    let (answer, _) = instance.turn(request, BOUND).await;
    let session = answer["session_id"].as_str().unwrap();
    let processes = instance.api("processes", json!({})).await;
    assert_eq!(processes["strays"], 0);
    let app = &processes["roots"][0];
    assert!(app["pss"].as_u64() > Some(500_000), "{processes}");
    let mut command = stage.program("gantry");
    let output = command.args(["status", "--tree", "--data-dir"]).arg(stage.data_dir()).output();
    let output = output.await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    for part in [
        "server · own · ready · used by ",
        &format!("session {session} · idle"),
        "MB PSS",
        "stubborn  child",
        "\n  0 strays",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    instance.quit().await;
    stage.finish().await;
}
