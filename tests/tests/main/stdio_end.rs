//! The end of every stdio server that we ship, however it comes about.

use gantry_tests::{
    Instance, McpClient, Proxy, Stage, census, programs, proxy::config, record, wait_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    process::{Output, Stdio},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
};

const BOUND: Duration = Duration::from_secs(20);
/// The contract's, with nothing in flight.
const AT_ONCE: Duration = Duration::from_millis(100);
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

fn one() -> String {
    config(&json!({ "one": programs::fake_mcp(&[]) }))
}

/// `gantry mcp` on bare pipes.
fn bare(stage: &Stage, args: &[&str]) -> Child {
    let mut command = stage.program("gantry");
    command.arg("mcp").args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    stage.owns(child.id().unwrap());
    child
}

/// Writes this, closes the input, and waits for the end.
async fn said(stage: &Stage, args: &[&str], input: &str) -> Output {
    let mut child = bare(stage, args);
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(input.as_bytes()).await.unwrap();
    drop(pipe);
    let output = tokio::time::timeout(BOUND, child.wait_with_output()).await;
    output.expect("it ends").unwrap()
}

/// What it answered; what it said by itself (that tools have changed) is left out.
fn answers(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line.get("method").is_none()).collect()
}

fn assert_one_clean_end(code: Option<i32>, log: &str, cause: &str) {
    assert_eq!(code, Some(0), "{log}");
    let line = format!("Shutting down ({cause})...");
    assert_eq!(log.matches("Shutting down").count(), 1, "{log}");
    assert_eq!(log.matches(&line).count(), 1, "{log}");
    assert!(!log.contains("failed during shutdown"), "{log}");
}

/// One server, several, a URL, and recall: each ends at once at the end of its input, and at
/// a signal.
#[tokio::test]
async fn every_server_of_ours_ends_with_its_input_and_with_a_signal() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    let mut server = programs::fake_mcp(&["--label", "kept"]);
    server["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": "kept", "config": server })).await;
    instance.server_in("kept", "ready", BOUND).await;
    let url = format!("{}/mcp/kept", instance.url);
    let header = format!("Authorization: Bearer {}", instance.token);
    let (one, data) = (one(), stage.data_dir().display().to_string());
    let two = config(&json!({ "a": programs::fake_mcp(&[]), "b": programs::fake_mcp(&[]) }));
    let all: [&[&str]; 4] = [
        &["--config", &one],
        &["--config", &two],
        &["--url", &url, "--header", &header],
        &["--recall", "--data-dir", &data],
    ];
    for args in all {
        for (cause, signal) in
            [("stdin closed", None), ("signal", Some(Signal::TERM)), ("signal", Some(Signal::INT))]
        {
            let mut proxy = Proxy::start(&stage, args).await;
            assert!(!proxy.client.tool_names().await.unwrap().is_empty());
            match signal {
                Some(signal) => census::signal(proxy.pid(), signal),
                None => proxy.client.close_input().await,
            }
            let (code, took) = proxy.ended(BOUND).await;
            assert_one_clean_end(code, &proxy.log(), cause);
            assert!(took <= AT_ONCE, "{} took {took:?} ({cause})", args[0]);
            assert_eq!(stage.running("fake_mcp").len(), 1, "only what the instance keeps");
        }
    }
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn an_input_that_has_ended_at_the_start_or_ends_within_a_line_is_an_end_like_any_other() {
    let stage = Stage::shared().await;
    let (one, data) = (one(), stage.text("nothing"));
    for args in
        [["--config", &one, "--protocol=streamable-http"], ["--recall", "--data-dir", &data]]
    {
        let ended = said(&stage, &args, "").await;
        assert_one_clean_end(
            ended.status.code(),
            &String::from_utf8_lossy(&ended.stderr),
            "stdin closed",
        );
        assert!(ended.stdout.is_empty());
        for begun in ["", &INITIALIZE[..40], &INITIALIZE[..INITIALIZE.len() - 1]] {
            let output = said(&stage, &args, &format!("{INITIALIZE}\n{begun}")).await;
            let log = String::from_utf8_lossy(&output.stderr);
            assert_one_clean_end(output.status.code(), &log, "stdin closed");
            let answers = answers(&output);
            assert!(answers[0]["result"]["protocolVersion"].is_string(), "{answers:?}");
            // What is no message was not dispatched, and may have been refused.
            assert!(answers[1..].iter().all(|answer| answer["error"].is_object()), "{answers:?}");
        }
        // A whole message counts, also without the end of its line.
        let output = said(&stage, &args, INITIALIZE).await;
        assert_eq!(answers(&output).len(), 1, "{output:?}");
    }
    stage.finish().await;
}

/// End of input and SIGTERM, one after the other while a call runs: the first is the
/// cause, there is one shutdown, and the call is answered.
#[tokio::test]
async fn the_end_of_input_and_a_signal_are_one_shutdown_in_either_order() {
    let stage = Stage::shared().await;
    for (number, cause) in ["stdin closed", "signal"].into_iter().enumerate() {
        let name = format!("server-{number}.jsonl");
        let server = programs::fake_mcp(&["--record", &stage.text(&name)]);
        let config = config(&json!({ "one": server }));
        let mut proxy = Proxy::start(&stage, &["--config", &config]).await;
        let pid = proxy.pid();
        let call = proxy.client.call("slow", json!({ "ms": 700 }));
        let ends = async {
            wait_until("the server has the call", BOUND, async || {
                let received = record::events(&stage.path(&name), "received");
                received.iter().any(|line| line["tool"] == "slow").then_some(())
            })
            .await;
            let log = || std::fs::read_to_string(stage.path(format!("mcp-{}.log", number + 1)));
            let begun = async || {
                wait_until("the shutdown has begun", BOUND, async || {
                    log().unwrap().contains("Shutting down").then_some(())
                })
                .await;
            };
            if cause == "signal" {
                census::signal(pid, Signal::TERM);
                begun().await;
                proxy.client.close_input().await;
            } else {
                proxy.client.close_input().await;
                begun().await;
                census::signal(pid, Signal::TERM);
                census::signal(pid, Signal::INT);
            }
        };
        let (result, ()) = futures::future::join(call, ends).await;
        assert_eq!(result.unwrap()["content"][0]["text"], "done");
        let (code, _) = proxy.ended(BOUND).await;
        assert_one_clean_end(code, &proxy.log(), cause);
    }
    stage.finish().await;
}

/// One socket for both ways, whose writing side is shut down: the answers still arrive.
#[tokio::test]
async fn a_client_that_half_closes_gets_its_answers() {
    let stage = Stage::shared().await;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut command = stage.program("gantry");
    command.args(["mcp", "--config", &one()]).stderr(Stdio::piped());
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs.try_clone().unwrap())));
    command.stdout(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
    let mut child = command.spawn().unwrap();
    stage.owns(child.id().unwrap());
    // It holds copies of the other end.
    drop(command);
    ours.set_nonblocking(true).unwrap();
    let (output, input) = tokio::net::UnixStream::from_std(ours).unwrap().into_split();
    let client = tokio::time::timeout(BOUND, McpClient::stdio(input, output)).await;
    let client = client.expect("an answer").unwrap();
    // The writing half, when dropped, is shut down.
    let call = client.call("slow", json!({ "ms": 500 }));
    let (result, ()) = futures::future::join(call, client.close_input()).await;
    assert_eq!(result.unwrap()["content"][0]["text"], "done");
    let output = tokio::time::timeout(BOUND, child.wait()).await.expect("it ends").unwrap();
    assert_eq!(output.code(), Some(0));
    stage.finish().await;
}

#[tokio::test]
async fn a_standard_error_or_output_that_nobody_reads_breaks_nothing() {
    let stage = Stage::shared().await;
    let data = stage.text("nothing");
    let one = one();
    for args in [["--config", &one, "--protocol=sse"], ["--recall", "--data-dir", &data]] {
        // Standard error is gone: the line about the end goes nowhere, without a SIGPIPE.
        let mut child = bare(&stage, &args);
        drop(child.stderr.take());
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(format!("{INITIALIZE}\n").as_bytes()).await.unwrap();
        drop(pipe);
        let output = tokio::time::timeout(BOUND, child.wait_with_output()).await.unwrap().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(answers(&output).len(), 1);

        // Standard output is gone while the input stays open.
        let mut child = bare(&stage, &args);
        drop(child.stdout.take());
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(format!("{INITIALIZE}\n").as_bytes()).await.unwrap();
        let ended = tokio::time::timeout(BOUND, child.wait()).await.expect("it ends").unwrap();
        assert!(matches!(ended.code(), Some(0 | 1)), "{ended}: no signal ended it");
        drop(pipe);
    }
    stage.finish().await;
}

/// A client in a process of its own: a shell that holds the pipes to its `gantry mcp`
/// and says the answer to `initialize`.
async fn client_process(stage: &Stage, config: &str) -> (Child, u32) {
    let script = r#"coproc SERVER { exec "$GANTRY" mcp --config "$CONFIG"; }
        echo "$SERVER_PID"
        printf '%s\n' "$INITIALIZE" >&"${SERVER[1]}"
        IFS= read -r answer <&"${SERVER[0]}" && echo "$answer"
        read -r forever"#;
    let mut command: Command = stage.command("bash");
    command.args(["-c", script]).env("GANTRY", programs::path("gantry"));
    command.env("CONFIG", config).env("INITIALIZE", INITIALIZE);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let answers = async {
        let pid = output.next_line().await.unwrap().unwrap().parse().unwrap();
        let answer = output.next_line().await.unwrap().unwrap();
        assert!(answer.contains("protocolVersion"), "{answer}");
        pid
    };
    let pid = tokio::time::timeout(Duration::from_secs(60), answers).await.expect("initialize");
    stage.owns(pid);
    (child, pid)
}

#[tokio::test]
async fn a_client_that_is_killed_takes_its_server_along_within_a_tenth_of_a_second() {
    let stage = Stage::alone().await;
    let (mut client, server) = client_process(&stage, &one()).await;
    wait_until("its server runs", BOUND, async || {
        (stage.running("fake_mcp").len() == 1).then_some(())
    })
    .await;
    client.kill().await.unwrap();
    let began = Instant::now();
    wait_until("the server ends", BOUND, async || census::row(server).is_none().then_some(()))
        .await;
    let took = began.elapsed();
    assert!(took <= AT_ONCE, "it took {took:?}");
    assert!(stage.members().is_empty(), "{}", census::listing(&stage.members()));

    // With a call in flight, and children that do not want to go.
    let server = programs::fake_mcp(&[
        "--ignore-term",
        "--ignore-eof",
        "--spawn",
        "plain,setsid,daemon,cleared",
    ]);
    let (mut client, _) = client_process(&stage, &config(&json!({ "one": server }))).await;
    wait_until("all children run", BOUND, async || {
        (stage.running("stubborn").len() == 4).then_some(())
    })
    .await;
    client.kill().await.unwrap();
    stage.empty_but(&[], Duration::from_millis(5200)).await;
    stage.finish().await;
}

/// With nothing in flight the contract has the servers end with it, also those that neither
/// hear the end of their input nor TERM. The fastest of three: other tests keep the processors busy.
#[tokio::test]
async fn servers_that_do_not_want_to_go_are_gone_with_it() {
    let stage = Stage::alone().await;
    let deaf = programs::fake_mcp(&[
        "--ignore-term",
        "--ignore-eof",
        "--spawn",
        "plain,setsid,daemon,cleared",
    ]);
    let config = config(&json!({ "one": deaf.clone(), "two": deaf }));
    let mut fastest = BOUND;
    for _ in 0..3 {
        let mut proxy = Proxy::start(&stage, &["--config", &config]).await;
        assert!(!proxy.client.tool_names().await.unwrap().is_empty());
        wait_until("all children run", BOUND, async || {
            (stage.running("stubborn").len() == 8).then_some(())
        })
        .await;
        proxy.client.close_input().await;
        let (code, took) = proxy.ended(BOUND).await;
        assert_one_clean_end(code, &proxy.log(), "stdin closed");
        assert!(stage.members().is_empty(), "{}", census::listing(&stage.members()));
        fastest = fastest.min(took);
    }
    assert!(fastest <= AT_ONCE, "it took {fastest:?}");
    stage.finish().await;
}

/// Nothing of any of them lives on, re-parented or not.
#[tokio::test]
async fn fifty_clients_killed_at_once_leave_nothing() {
    const CLIENTS: usize = 50;
    let stage = Stage::alone().await;
    let (plain, deaf) = (one(), config(&json!({ "one": programs::fake_mcp(&["--ignore-eof"]) })));
    let start = |number: usize| {
        let config = if number.is_multiple_of(10) { &deaf } else { &plain };
        client_process(&stage, config)
    };
    let mut clients = futures::future::join_all((0..CLIENTS).map(start)).await;
    wait_until("all servers run", Duration::from_secs(60), async || {
        (stage.running("fake_mcp").len() == CLIENTS).then_some(())
    })
    .await;
    for (client, _) in &mut clients {
        client.start_kill().unwrap();
    }
    let took = stage.empty_but(&[], Duration::from_secs(3)).await;
    eprintln!("50 clients and what they had were gone after {took:?}");
    for (client, _) in &mut clients {
        client.wait().await.unwrap();
    }
    stage.finish().await;
}
