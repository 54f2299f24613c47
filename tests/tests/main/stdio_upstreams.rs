//! What is behind `gantry mcp`: late, crashing, filtered and remote servers.

use gantry_tests::{Instance, Proxy, Stage, programs, proxy::config, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const BOUND: Duration = Duration::from_secs(20);

/// Calls until it works; a server that is being restarted may refuse.
async fn text(proxy: &Proxy, tool: &str, arguments: Value) -> String {
    let call = wait_until("the call works", BOUND, async || {
        proxy.client.call(tool, arguments.clone()).await.ok()
    });
    call.await["content"][0]["text"].as_str().unwrap().to_owned()
}

fn changes(proxy: &Proxy) -> usize {
    let all = proxy.client.notifications();
    all.iter().filter(|told| told["method"] == "notifications/tools/list_changed").count()
}

/// The answer to `initialize` waits for nobody; the tools of a late server are announced, also
/// when its first starts fail.
#[tokio::test]
async fn late_servers_hold_nothing_up_and_are_announced() {
    let stage = Stage::shared().await;
    let starts = stage.text("starts");
    let config = config(&json!({
        "quick": programs::fake_mcp(&["--label", "Q"]),
        "late": programs::fake_mcp(&["--label", "L", "--start-delay", "3000", "--tools", "2"]),
        "failing": programs::fake_mcp(&["--fail-starts", "2", &starts, "--tools", "3"]),
    }));
    let began = Instant::now();
    let proxy = Proxy::start(&stage, &["--config", &config]).await;
    assert!(began.elapsed() < Duration::from_millis(2500), "{:?}", began.elapsed());
    wait_until("the quick one is usable", BOUND, async || {
        let names = proxy.client.tool_names().await.unwrap();
        names.iter().any(|name| name.ends_with("echo")).then_some(())
    })
    .await;
    wait_until("all three are announced and listed", BOUND, async || {
        let names = proxy.client.tool_names().await.unwrap();
        // The third tool is the failing one's alone; the others are shared.
        let all = ["quick__echo", "late__echo", "failing__echo", "late__tool_1", "tool_2"];
        all.iter().all(|name| names.iter().any(|known| known == name)).then_some(())
    })
    .await;
    assert!(changes(&proxy) >= 1);
    assert_eq!(text(&proxy, "late__echo", json!({ "text": "x" })).await, "L: x");
    assert_eq!(std::fs::read_to_string(&starts).unwrap().lines().count(), 3, "two failed");
    proxy.finish().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_server_that_crashes_is_started_again_beside_one_that_stays() {
    let stage = Stage::shared().await;
    let config = config(&json!({
        "left": programs::fake_mcp(&[]), "right": programs::fake_mcp(&[]),
    }));
    let proxy = Proxy::start(&stage, &["--config", &config]).await;
    let left = text(&proxy, "left__pid", json!({})).await;
    let right = text(&proxy, "right__pid", json!({})).await;
    // The call that it was given fails with the reason, and is not repeated.
    let failed = proxy.client.call("left__crash", json!({ "code": 9 })).await.unwrap_err();
    assert!(
        format!("{failed:#}").contains("exited with code 9")
            || format!("{failed:#}").contains("closed its output"),
        "{failed:#}"
    );
    let again = text(&proxy, "left__pid", json!({})).await;
    assert_ne!(again, left);
    assert_eq!(text(&proxy, "right__pid", json!({})).await, right);
    // Killed from outside, with a call in flight: that call fails, it does not hang.
    let call = proxy.client.call("left__slow", json!({ "ms": 60_000 }));
    let kill = async {
        let pid = again.parse().unwrap();
        wait_until("it is on its way", BOUND, async || {
            // Its answer shows that the one before it has arrived.
            proxy.client.call("left__echo", json!({ "text": "x" })).await.ok()
        })
        .await;
        gantry_tests::census::signal(pid, Signal::KILL);
    };
    let both = futures::future::join(call, kill);
    let (failed, ()) = tokio::time::timeout(BOUND, both).await.expect("no call hangs");
    assert!(failed.is_err(), "{failed:?}");
    assert_ne!(text(&proxy, "left__pid", json!({})).await, again);
    assert_eq!(stage.running("fake_mcp").len(), 2);
    proxy.finish().await;
    stage.finish().await;
}

/// A server's own lists go before the global ones, allow before deny; what is not listed
/// cannot be called.
#[tokio::test]
async fn filters_hold_for_the_list_and_for_calls() {
    let stage = Stage::shared().await;
    let mut own = programs::fake_mcp(&[]);
    own["allowTools"] = json!(["counter", "pid"]);
    own["denyTools"] = json!(["pid"]);
    let config = config(&json!({ "own": own, "other": programs::fake_mcp(&[]) }));
    let args = ["--config", &config, "--deny-tools", "crash,fail,slow,env,args,cwd"];
    let proxy = Proxy::start(&stage, &args).await;
    let expected = ["echo", "other__counter", "other__pid", "own__counter", "own__pid"];
    wait_until("both are listed", BOUND, async || {
        (proxy.client.tool_names().await.unwrap() == expected).then_some(())
    })
    .await;
    assert_eq!(text(&proxy, "own__counter", json!({})).await, "1");
    for tool in ["crash", "own__crash", "other__crash", "own__echo", "fail", "pid"] {
        proxy.client.call(tool, json!({})).await.expect_err(tool);
    }
    assert_eq!(text(&proxy, "own__counter", json!({})).await, "2", "nothing crashed");
    proxy.finish().await;
    stage.finish().await;
}

/// The host behind a URL is killed in the middle of a call and comes back without any memory
/// of us: the call fails with the reason, the next ones work in a new session.
#[tokio::test]
async fn a_host_that_is_lost_fails_its_calls_and_is_found_again() {
    let stage = Stage::shared().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let token = stage.path("token");
    std::fs::write(&token, "e".repeat(64)).unwrap();
    let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&token, own).unwrap();
    let start = async || {
        Instance::start_with(&stage, |command| {
            command.args(["--port", &port, "--token-file"]).arg(&token);
        })
        .await
    };
    let mut host = start().await;
    let mut server = programs::fake_mcp(&["--label", "far"]);
    server["persistent"] = json!(true);
    host.api("servers_save", json!({ "name": "kept", "config": server })).await;
    host.server_in("kept", "ready", BOUND).await;
    let url = format!("http://127.0.0.1:{port}/mcp/kept");
    let header = format!("Authorization: Bearer {}", "e".repeat(64));
    let proxy = Proxy::start(&stage, &["--url", &url, "--header", &header]).await;
    assert_eq!(text(&proxy, "echo", json!({ "text": "1" })).await, "far: 1");

    let call = proxy
        .client
        .request("tools/call", json!({ "name": "slow", "arguments": { "ms": 60_000 } }));
    let kill = async {
        text(&proxy, "echo", json!({ "text": "2" })).await;
        host.signal(Signal::KILL);
        host.ended(BOUND).await;
    };
    let both = futures::future::join(call, kill);
    let (failed, ()) = tokio::time::timeout(BOUND, both).await.expect("no call hangs");
    let failed = failed.unwrap();
    assert!(failed["error"]["message"].as_str().is_some_and(|why| why.len() > 10), "{failed}");

    // While it is away a call fails too, within a bound, or waits for it.
    let mut host = start().await;
    host.server_in("kept", "ready", BOUND).await;
    assert_eq!(text(&proxy, "echo", json!({ "text": "3" })).await, "far: 3");
    // It goes in good order and forgets the session.
    host.quit().await;
    let mut host = start().await;
    host.server_in("kept", "ready", BOUND).await;
    assert_eq!(text(&proxy, "echo", json!({ "text": "4" })).await, "far: 4");
    proxy.finish().await;
    host.quit().await;
    stage.finish().await;
}

/// What was never known is not an empty list: a client that reads "no tools" would believe it.
#[tokio::test]
async fn an_address_where_nobody_is_gives_an_error_and_hangs_nobody() {
    let stage = Stage::shared().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", free.local_addr().unwrap());
    drop(free);
    let proxy = Proxy::start(&stage, &["--url", &url]).await;
    let refused = wait_until("the list is refused", BOUND, async || {
        let answer = proxy.client.request("tools/list", json!({})).await.unwrap();
        // As long as it is still being tried for the first time, nothing is known.
        (answer["error"].is_object()).then_some(answer)
    })
    .await;
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("not running") && message.contains("cannot be reached"), "{refused}");
    let call = proxy.client.request("tools/call", json!({ "name": "x" })).await.unwrap();
    assert!(call["error"]["message"].as_str().unwrap().contains("cannot be reached"), "{call}");
    proxy.finish().await;
    stage.finish().await;
}
