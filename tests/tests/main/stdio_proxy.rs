//! `gantry mcp`: a stdio server in front of others, and its end.

use gantry_tests::{Proxy, Stage, programs, proxy::config, record, wait_until};
use serde_json::json;
use std::{
    process::Stdio,
    time::{Duration, Instant},
};

#[tokio::test]
async fn the_end_of_input_ends_the_proxy_and_its_child_within_a_tenth_of_a_second() {
    let stage = Stage::alone().await;
    let config = config(&json!({ "one": programs::fake_mcp(&["--tools", "2"]) }));
    let mut proxy = Proxy::start(&stage, &["--config", &config]).await;
    assert_eq!(proxy.client.tool_names().await.unwrap().len(), 11);
    assert_eq!(stage.running("fake_mcp").len(), 1);
    proxy.client.close_input().await;
    let (code, took) = proxy.ended(Duration::from_secs(6)).await;
    assert_eq!(code, Some(0), "{}", proxy.log());
    assert!(took <= Duration::from_millis(100), "it took {took:?}");
    assert!(stage.running("fake_mcp").is_empty());
    let errors = proxy.log();
    assert_eq!(errors.matches("Shutting down (stdin closed)...").count(), 1, "{errors}");
    stage.finish().await;
}

#[tokio::test]
async fn a_call_of_two_seconds_is_answered_after_the_end_of_input() {
    let stage = Stage::alone().await;
    let seen = stage.path("server.jsonl");
    let server = programs::fake_mcp(&["--record", &stage.text("server.jsonl")]);
    let config = config(&json!({ "one": server }));
    let mut proxy = Proxy::start(&stage, &["--config", &config]).await;
    let call = proxy.client.call("slow", json!({ "ms": 2000 }));
    let close = async {
        wait_until("the server has the call", Duration::from_secs(5), async || {
            record::events(&seen, "received")
                .iter()
                .any(|line| line["tool"] == "slow")
                .then_some(())
        })
        .await;
        proxy.client.close_input().await;
    };
    let (result, ()) = futures::future::join(call, close).await;
    assert_eq!(result.unwrap()["content"][0]["text"], "done");
    // Once it is answered there is nothing more to wait for.
    let (code, took) = proxy.ended(Duration::from_secs(5)).await;
    assert_eq!(code, Some(0), "{}", proxy.log());
    assert!(took <= Duration::from_millis(200), "it took {took:?}");
    assert!(!proxy.log().contains("failed during shutdown"), "{}", proxy.log());
    stage.finish().await;
}

#[tokio::test]
async fn a_call_of_thirty_seconds_delays_the_end_by_five_at_most_and_is_named() {
    let stage = Stage::alone().await;
    let server = programs::fake_mcp(&["--ignore-term", "--ignore-eof", "--spawn", "setsid,daemon"]);
    let config = config(&json!({ "one": server }));
    let mut proxy = Proxy::start(&stage, &["--config", &config]).await;
    let call = proxy.client.call("slow", json!({ "ms": 30_000 }));
    let end = async {
        proxy.client.close_input().await;
        let began = Instant::now();
        let status = tokio::time::timeout(Duration::from_secs(8), proxy.child.wait()).await;
        (status.unwrap().unwrap().code(), began.elapsed())
    };
    let (_, (code, took)) = futures::future::join(call, end).await;
    assert_eq!(code, Some(1), "{}", proxy.log());
    assert!(took <= Duration::from_millis(5200), "it took {took:?}");
    assert!(took >= Duration::from_secs(4), "it had time to answer until then, not {took:?}");
    let line = "gantry mcp: drain failed during shutdown (given up: tools/call 2); continuing\n";
    assert!(proxy.log().contains(line), "{}", proxy.log());
    stage.finish().await;
}

#[tokio::test]
async fn sigterm_ends_the_proxy_in_the_same_way() {
    let stage = Stage::alone().await;
    let config = config(&json!({ "one": programs::fake_mcp(&["--spawn", "setsid,daemon"]) }));
    let mut proxy = Proxy::start(&stage, &["--config", &config]).await;
    gantry_tests::census::signal(proxy.child.id().unwrap(), rustix::process::Signal::TERM);
    let (code, _) = proxy.ended(Duration::from_secs(6)).await;
    let errors = proxy.log();
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(errors.matches("Shutting down (signal)...").count(), 1, "{errors}");
    stage.finish().await;
}

#[tokio::test]
async fn a_killed_proxy_takes_its_servers_along() {
    let stage = Stage::alone().await;
    let server = programs::fake_mcp(&["--ignore-term", "--ignore-eof", "--spawn", "setsid,daemon"]);
    let config = config(&json!({ "one": server }));
    let mut proxy = Proxy::start(&stage, &["--config", &config]).await;
    proxy.child.kill().await.unwrap();
    stage.empty_but(&[], Duration::from_secs(2)).await;
    stage.finish().await;
}

#[tokio::test]
async fn a_tool_name_that_two_servers_share_appears_under_both_names() {
    let stage = Stage::shared().await;
    let config = config(&json!({
        "left": programs::fake_mcp(&["--label", "L", "--tools", "1"]),
        "right": programs::fake_mcp(&["--label", "R"]),
        "broken": { "command": "no-such-program-anywhere" },
    }));
    let mut proxy = Proxy::start(&stage, &["--config", &config]).await;
    let names = proxy.client.tool_names().await.unwrap();
    assert!(names.contains(&"left__echo".to_owned()), "{names:?}");
    assert!(names.contains(&"right__echo".to_owned()), "{names:?}");
    assert!(names.contains(&"tool_0".to_owned()), "{names:?}");
    assert!(!names.contains(&"echo".to_owned()), "{names:?}");
    for (tool, expected) in [("left__echo", "L: hello"), ("right__echo", "R: hello")] {
        let result = proxy.client.call(tool, json!({ "text": "hello" })).await.unwrap();
        assert_eq!(result["content"][0]["text"], expected);
    }
    proxy.client.close_input().await;
    assert_eq!(proxy.ended(Duration::from_secs(6)).await.0, Some(0), "{}", proxy.log());
    stage.finish().await;
}

#[tokio::test]
async fn a_denied_tool_is_neither_listed_nor_called() {
    let stage = Stage::shared().await;
    let config = config(&json!({ "one": programs::fake_mcp(&[]) }));
    let mut proxy = Proxy::start(&stage, &["--config", &config, "--allow-tools", "echo,pid"]).await;
    assert_eq!(proxy.client.tool_names().await.unwrap(), ["echo", "pid"]);
    assert!(proxy.client.call("counter", json!({})).await.is_err());
    proxy.client.close_input().await;
    assert_eq!(proxy.ended(Duration::from_secs(6)).await.0, Some(0), "{}", proxy.log());
    stage.finish().await;
}

#[tokio::test]
async fn the_proxy_fails_with_the_reasons_when_no_server_starts() {
    let stage = Stage::shared().await;
    let config = config(&json!({ "broken": { "command": "no-such-program-anywhere" } }));
    let mut command = stage.program("gantry");
    command.args(["mcp", "--config", &config]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    stage.owns(child.id().unwrap());
    // An end of its input would be a reason of its own to end.
    let _input = child.stdin.take();
    let output = tokio::time::timeout(Duration::from_secs(20), child.wait_with_output()).await;
    let output = output.unwrap().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("no-such-program-anywhere"), "{errors}");
    stage.finish().await;
}

#[tokio::test]
async fn a_bridge_url_is_carried_to_stdio() {
    let stage = Stage::shared().await;
    let mut instance = gantry_tests::Instance::start(&stage).await;
    let mut server = programs::fake_mcp(&["--tools", "4"]);
    server["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": "kept", "config": server })).await;
    let server = instance.server_in("kept", "ready", Duration::from_secs(20)).await;
    let url = server["url"].as_str().unwrap().to_owned();
    let header = format!("Authorization: Bearer {}", instance.token);
    let mut proxy = Proxy::start(&stage, &["--url", &url, "--header", &header]).await;
    assert_eq!(proxy.client.tool_names().await.unwrap().len(), 13);
    let error =
        proxy.client.request("tools/call", json!({ "name": "fail", "arguments": {} })).await;
    assert_eq!(error.unwrap()["error"]["data"]["why"], "on purpose");
    proxy.client.close_input().await;
    assert_eq!(proxy.ended(Duration::from_secs(6)).await.0, Some(0), "{}", proxy.log());
    assert_eq!(stage.running("fake_mcp").len(), 1);
    instance.quit().await;
    stage.finish().await;
}
