//! The harness and the fake programs themselves: a proof is worth what its
//! instruments are.

use gantry_tests::{McpClient, Stage, census, record, wait_until};
use serde_json::json;
use std::{process::Stdio, time::Duration};
use tokio::process::Child;

async fn connect(child: &mut Child) -> McpClient {
    let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    McpClient::stdio(input, output).await.unwrap()
}

fn fake_mcp(stage: &Stage, args: &[&str]) -> Child {
    let mut command = stage.program("fake_mcp");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

#[tokio::test]
async fn the_census_finds_children_that_left_the_group_the_session_and_the_environment() {
    let stage = Stage::shared().await;
    let mut server = fake_mcp(&stage, &["--spawn", "plain,setsid,daemon,cleared"]);
    let client = connect(&mut server).await;
    let children = wait_until("four children", Duration::from_secs(5), async || {
        Some(stage.running("stubborn")).filter(|rows| rows.len() == 4)
    })
    .await;
    let pid = server.id().unwrap();
    assert_eq!(children.iter().filter(|row| row.parent == pid).count(), 2, "{children:?}");
    assert_eq!(children.iter().filter(|row| row.tag.is_none()).count(), 1, "{children:?}");
    let group = census::row(pid).unwrap().group;
    assert_eq!(children.iter().filter(|row| row.group == group).count(), 1, "{children:?}");

    // They ignore TERM, and the end of their parent.
    for child in &children {
        census::signal(child.pid, rustix::process::Signal::TERM);
    }
    client.close_input().await;
    server.wait().await.unwrap();
    assert_eq!(stage.running("stubborn").len(), 4);

    census::kill(&children);
    stage.finish().await;
}

#[tokio::test]
#[should_panic(expected = "survivors after")]
async fn a_survivor_fails_the_test() {
    let stage = Stage::shared().await;
    let _server = fake_mcp(&stage, &[]);
    wait_until("it runs", Duration::from_secs(5), async || {
        (stage.running("fake_mcp").len() == 1).then_some(())
    })
    .await;
    stage.finish().await;
}

#[tokio::test]
#[should_panic(expected = "a bystander was harmed")]
async fn a_harmed_bystander_fails_the_test() {
    let mut stage = Stage::shared().await;
    stage.assert_bystanders_unharmed();
    let pid = stage.bystanders()[1];
    census::signal(pid, rustix::process::Signal::KILL);
    wait_until("it is gone", Duration::from_secs(5), async || {
        census::row(pid).is_none().then_some(())
    })
    .await;
    stage.finish().await;
}

#[tokio::test]
async fn the_fake_server_pages_its_tools_reports_progress_and_obeys_a_cancel() {
    let stage = Stage::shared().await;
    let mut server = fake_mcp(&stage, &["--tools", "7", "--pages", "3", "--noise", "--label", "L"]);
    let client = connect(&mut server).await;
    let names = client.tool_names().await.unwrap();
    assert_eq!(names.len(), 16, "{names:?}");
    let echo = client.call("echo", json!({ "text": "hello" })).await.unwrap();
    assert_eq!(echo["content"][0]["text"], "L: hello");
    let error = client.call("fail", json!({})).await.unwrap_err();
    assert!(format!("{error:#}").contains("-32050"), "{error:#}");
    let slow =
        json!({ "name": "slow", "arguments": { "ms": 50 }, "_meta": { "progressToken": "t" } });
    client.request("tools/call", slow).await.unwrap();
    assert_eq!(client.notifications().len(), 10);
    client.close_input().await;
    assert_eq!(server.wait().await.unwrap().code(), Some(0));
    stage.finish().await;
}

#[tokio::test]
async fn the_fake_server_that_shares_a_lock_file_notes_the_conflict() {
    let stage = Stage::shared().await;
    let lock = stage.text("lock");
    let mut first = fake_mcp(&stage, &["--lock", &lock]);
    let client = connect(&mut first).await;
    let mut second = fake_mcp(&stage, &["--lock", &lock]);
    assert_eq!(second.wait().await.unwrap().code(), Some(4));
    assert!(stage.path("lock.conflicts").is_file());
    client.close_input().await;
    first.wait().await.unwrap();
    stage.finish().await;
}

#[tokio::test]
async fn the_records_of_two_processes_share_one_clock() {
    let stage = Stage::shared().await;
    let file = stage.path("record.jsonl");
    let before = record::now();
    let mut server = fake_mcp(&stage, &["--record", &stage.text("record.jsonl")]);
    let client = connect(&mut server).await;
    client.tools().await.unwrap();
    let after = record::now();
    let answered = record::events(&file, "answered");
    let list = answered.iter().find(|line| line["method"] == "tools/list").unwrap();
    assert!((before..after).contains(&record::at(list)), "{before} {list} {after}");
    client.close_input().await;
    server.wait().await.unwrap();
    stage.finish().await;
}
