//! Notifications: whom they reach; what is replayed; clients that do not read.

use super::*;
use crate::Full;

fn notice(method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

#[tokio::test]
async fn changed_tools_are_fetched_before_anybody_hears_of_them() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::ready(&hub, "p", json!({})).await;
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"x":1}}}"#;
    server.say(changed).await;
    let list = server.expect("tools/list").await;
    assert!(peer.is_quiet());
    let mut page = tool_page(&["a"]);
    page["nextCursor"] = json!("next");
    server.answer(&list, page).await;
    let list = server.expect("tools/list").await;
    server.answer(&list, tool_page(&["b"])).await;
    assert_eq!(peer.next_raw().await.line, changed);
    peer.request(json!(1), "tools/list", json!({}));
    assert_eq!(peer.next().await["result"], tool_page(&["a", "b"]));
    assert_eq!(*hub.phase().borrow(), Phase::Ready { generation: 1, tools: 2 });
}

/// The list from before stays, the owner of the hub is told why, and it is asked for again until
/// it can be used; only then do clients hear that it changed.
#[tokio::test(start_paused = true)]
async fn a_changed_list_that_cannot_be_used_is_known_and_asked_for_again() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::ready(&hub, "p", json!({})).await;
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let mut fault = hub.fault();
    let long = "x".repeat(2 * 1024 * 1024);
    let answers = [
        (r#""error":{"code":-1,"message":"no memory"}"#.to_owned(), "no memory"),
        (r#""error":{"code":-32601,"message":"what?"}"#.to_owned(), "any more"),
        (r#""result":[]"#.to_owned(), "not an object"),
        (r#""result":{"tools":[{"no":"name"}]}"#.to_owned(), "cannot be used"),
        (format!(r#""result":{{"tools":["{long}"]}}"#), "bytes"),
        // It says nothing, until its time is over.
        (String::new(), "within 30 s"),
    ];
    for (number, (answer, part)) in answers.into_iter().enumerate() {
        if number != 1 {
            server.say(changed).await;
        }
        // The second time it is asked without having said anything.
        let list = server.expect("tools/list").await;
        if answer.is_empty() {
            tokio::time::sleep(Duration::from_secs(25)).await;
            let cancelled = server.expect("notifications/cancelled").await;
            assert_eq!(cancelled["params"]["requestId"], list["id"]);
        } else {
            server.say(&format!(r#"{{"jsonrpc":"2.0","id":{},{answer}}}"#, list["id"])).await;
        }
        let why = fault.wait_for(|fault| {
            fault.as_ref().is_some_and(|(generation, why)| *generation == 1 && why.contains(part))
        });
        tokio::time::timeout(BOUND * 10, why).await.expect(part).expect("the hub lives");
        assert_eq!(hub.catalogue().expect("known").tools.len(), 1);
        assert!(peer.is_quiet(), "{part}");
    }
    server.say(changed).await;
    let list = server.expect("tools/list").await;
    server.answer(&list, tool_page(&["a", "b"])).await;
    assert_eq!(peer.next_raw().await.line, changed);
    assert_eq!(*fault.borrow_and_update(), None);
    assert_eq!(hub.catalogue().expect("known").tools.len(), 2);
}

#[tokio::test]
async fn other_news_go_to_all_who_are_initialised_as_they_are() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut first = Peer::ready(&hub, "first", json!({})).await;
    let mut second = Peer::ready(&hub, "second", json!({})).await;
    let mut silent = Peer::attach(&hub, "not initialised");
    for method in [
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/x/unknown",
    ] {
        let text = notice(method, json!({ "n": 1 }));
        server.say(&text).await;
        for peer in [&mut first, &mut second] {
            let got = peer.next_raw().await;
            assert_eq!((got.line.as_ref(), got.concerning), (text.as_bytes(), None));
        }
    }
    assert!(silent.is_quiet());
}

#[tokio::test]
async fn log_messages_follow_the_running_call_or_else_everybodys_own_level() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut chatty = Peer::ready(&hub, "chatty", json!({})).await;
    let mut terse = Peer::ready(&hub, "terse", json!({})).await;
    let mut unset = Peer::ready(&hub, "unset", json!({})).await;
    for (peer, level, upstream) in [(&mut terse, "error", "info"), (&mut chatty, "debug", "debug")]
    {
        peer.request(json!(1), "logging/setLevel", json!({ "level": level }));
        let set = server.expect("logging/setLevel").await;
        assert_eq!(set["params"]["level"], upstream);
        server.answer(&set, json!({})).await;
        peer.next().await;
    }
    // Somebody wants less: the server stays as talkative as the other needs it.
    terse.request(json!(1), "logging/setLevel", json!({ "level": "alert" }));
    let set = server.expect("logging/setLevel").await;
    assert_eq!(set["params"]["level"], "debug");
    server.answer(&set, json!({})).await;
    terse.next().await;
    for level in ["debug", "warning", "emergency"] {
        server.say(&notice("notifications/message", json!({ "level": level, "data": 1 }))).await;
    }
    for (peer, expected) in [
        (&mut chatty, &["debug", "warning", "emergency"][..]),
        (&mut unset, &["warning", "emergency"]),
        (&mut terse, &["emergency"]),
    ] {
        for level in expected {
            let got = peer.next_raw().await;
            assert_eq!(got.concerning, None);
            let got: Value = serde_json::from_slice(&got.line).expect("JSON");
            assert_eq!(got["params"]["level"], *level);
        }
        assert!(peer.is_quiet());
    }
    terse.request(json!(2), "tools/call", json!({ "name": "a" }));
    server.expect("tools/call").await;
    server.say(&notice("notifications/message", json!({ "level": "alert" }))).await;
    assert_eq!(terse.next_raw().await.concerning.as_deref(), Some("2"));
    assert!(chatty.is_quiet() && unset.is_quiet());
}

#[tokio::test]
async fn subscriptions_are_counted_per_client_and_replayed_with_the_level_after_a_restart() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut first = Peer::ready(&hub, "first", json!({})).await;
    let mut second = Peer::ready(&hub, "second", json!({})).await;
    let uri = |uri: &str| json!({ "uri": uri });
    for peer in [&mut first, &mut second] {
        peer.request(json!(1), "resources/subscribe", uri("r:a"));
        let asked = server.expect("resources/subscribe").await;
        server.answer(&asked, json!({})).await;
        peer.next().await;
    }
    first.request(json!(2), "resources/subscribe", uri("r:refused"));
    let asked = server.expect("resources/subscribe").await;
    server
        .say(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32602,"message":""}}}}"#,
            asked["id"]
        ))
        .await;
    first.next().await;
    second.request(json!(3), "logging/setLevel", json!({ "level": "notice" }));
    let asked = server.expect("logging/setLevel").await;
    server.answer(&asked, json!({})).await;
    second.next().await;
    // The first leaves it; the second still needs it, so the server is not told.
    for id in 4..6 {
        // The second time it has none to give up, which is no reason to take that of another.
        first.request(json!(id), "resources/unsubscribe", uri("r:a"));
        assert_eq!(first.next().await["result"], json!({}));
    }
    server.say(&notice("notifications/resources/updated", uri("r:a"))).await;
    assert_eq!(second.next().await["params"]["uri"], "r:a");
    server.say(&notice("notifications/resources/updated", uri("r:a/part"))).await;
    assert_eq!(second.next().await["params"]["uri"], "r:a/part");
    assert!(first.is_quiet());
    drop(server);
    let (mut server, _connection) = connect(&hub, 2, &["a"]).await;
    let level = server.expect("logging/setLevel").await;
    assert_eq!(level["params"]["level"], "info", "the first never chose");
    assert_eq!(server.expect("resources/subscribe").await["params"], uri("r:a"));
    // The last one who needs it goes: now the server is told.
    drop(second);
    assert_eq!(server.expect("resources/unsubscribe").await["params"], uri("r:a"));
}

/// More than the queue to a server holds, while it does not read.
#[tokio::test]
async fn what_was_taken_is_not_lost_when_the_server_does_not_read() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::ready(&hub, "p", json!({})).await;
    for n in 0..1500 {
        peer.request(json!(n), "resources/subscribe", json!({ "uri": format!("r:{n}") }));
        let asked = server.expect("resources/subscribe").await;
        server.answer(&asked, json!({})).await;
        peer.next().await;
    }
    drop(server);
    let (mut server, _connection) = connect(&hub, 2, &["a"]).await;
    // A call that was taken, then what nobody reads until there is no room; its cancellation.
    peer.request(json!("call"), "tools/call", json!({ "name": "a" }));
    let marker = notice("notifications/marker", json!({}));
    let refused = loop {
        if let Err(refused) = peer.client.send(marker.clone().into()) {
            break refused;
        }
    };
    assert!(String::from_utf8_lossy(&refused).contains("its input is full"));
    peer.client.cancel("\"call\"", "test");
    let mut replayed = std::collections::HashSet::new();
    let mut call = None;
    loop {
        let message = server.next().await;
        match message["method"].as_str().unwrap_or_default() {
            "resources/subscribe" => drop(replayed.insert(message["params"]["uri"].to_string())),
            "tools/call" => call = Some(message["id"].clone()),
            "notifications/cancelled" => {
                assert_eq!(Some(&message["params"]["requestId"]), call.as_ref());
                break;
            }
            _ => {}
        }
    }
    assert_eq!(replayed.len(), 1500);
}

#[tokio::test]
async fn progress_after_the_answer_still_finds_its_client() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut peer = Peer::ready(&hub, "p", json!({})).await;
    peer.request(
        json!(1),
        "tools/call",
        json!({ "name": "a", "_meta": { "progressToken": "tok" } }),
    );
    let call = server.expect("tools/call").await;
    server.answer(&call, json!({ "task": { "taskId": "t" } })).await;
    peer.next().await;
    let token = &call["params"]["_meta"]["progressToken"];
    server
        .say(&notice("notifications/progress", json!({ "progressToken": token, "progress": 1 })))
        .await;
    let late = peer.next_raw().await;
    assert_eq!(late.concerning, None);
    assert_eq!(
        serde_json::from_slice::<Value>(&late.line).expect("JSON")["params"]["progressToken"],
        "tok"
    );
}

#[tokio::test]
async fn a_client_that_does_not_read_is_detached_and_nobody_else_notices() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    let mut reader = Peer::ready(&hub, "reader", json!({})).await;
    let mut deaf = Peer::ready(&hub, "deaf", json!({})).await;
    deaf.request(json!(1), "tools/call", json!({ "name": "a" }));
    let call = server.expect("tools/call").await;
    for n in 0..=crate::outlet::MAILBOX_MESSAGES {
        server.say(&notice("notifications/x", json!({ "n": n }))).await;
        assert_eq!(reader.next().await["params"]["n"], n);
    }
    let cancel = server.expect("notifications/cancelled").await;
    assert_eq!(cancel["params"]["requestId"], call["id"]);
    let refused = deaf.client.send(Bytes::from_static(br#"{"jsonrpc":"2.0","id":2,"method":"m"}"#));
    assert!(String::from_utf8_lossy(&refused.expect_err("detached")).contains("detached"));
    let mut got = 0;
    while deaf.inbox.recv().await.is_some() {
        got += 1;
    }
    assert_eq!(got, crate::outlet::MAILBOX_MESSAGES, "what fitted is there, then it is over");
    assert_eq!(left_behind(&hub)[0], 1);
}

#[tokio::test]
async fn a_thousand_clients_that_vanish_leave_nothing() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["a"]).await;
    for round in 0..1000 {
        let mut peer = Peer::ready(&hub, &format!("client {round}"), json!({ "roots": {} })).await;
        peer.request(json!(1), "resources/subscribe", json!({ "uri": format!("r:{round}") }));
        let asked = server.expect("resources/subscribe").await;
        server.answer(&asked, json!({})).await;
        peer.next().await;
        let params = json!({ "name": "a", "_meta": { "progressToken": 1 } });
        peer.request(json!(2), "tools/call", params.clone());
        let call = server.expect("tools/call").await;
        server.answer(&call, json!(1)).await;
        peer.request(json!(3), "tools/call", params);
        server.expect("tools/call").await;
        drop(peer);
        server.expect("notifications/cancelled").await;
        let asked = server.expect("resources/unsubscribe").await;
        server.answer(&asked, json!({})).await;
    }
    let mut marker = Peer::ready(&hub, "marker", json!({})).await;
    marker.request(json!(1), "x/marker", json!({}));
    let asked = server.expect("x/marker").await;
    server.answer(&asked, json!(1)).await;
    marker.next().await;
    drop(marker);
    assert_eq!(left_behind(&hub), [0; 6]);
}

/// Each list is followed by word of a change: that is the server's mistake, and must not cost much.
#[tokio::test(start_paused = true)]
async fn a_server_whose_list_changes_with_every_list_is_asked_ever_less_often() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["t"]).await;
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    server.say(changed).await;
    let begun = Instant::now();
    for _ in 0..40 {
        let list = server.expect("tools/list").await;
        server.answer(&list, tool_page(&["t"])).await;
        server.say(changed).await;
    }
    assert!(begun.elapsed() > Duration::from_secs(60), "{:?}", begun.elapsed());
    // After a while of silence a change is followed at once.
    let list = server.expect("tools/list").await;
    server.answer(&list, tool_page(&["t", "u"])).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let begun = Instant::now();
    server.say(changed).await;
    server.expect("tools/list").await;
    assert!(begun.elapsed() < Duration::from_millis(10), "{:?}", begun.elapsed());
    assert_eq!(hub.catalogue().expect("known").tools.len(), 2);
}

#[tokio::test]
async fn the_level_of_one_client_takes_nothing_from_another_and_goes_with_it() {
    let (hub, mut server, _connection) = ready_hub(options("s"), &["t"]).await;
    let quiet = Peer::ready(&hub, "quiet", json!({})).await;
    let mut usual = Peer::ready(&hub, "usual", json!({})).await;
    let wanted = async |server: &mut Server| {
        let told = server.expect("logging/setLevel").await;
        server.answer(&told, json!({})).await;
        told["params"]["level"].as_str().expect("a level").to_owned()
    };
    quiet.request(json!(1), "logging/setLevel", json!({ "level": "emergency" }));
    assert_eq!(wanted(&mut server).await, "info", "the other one never chose");
    let log = |level: &str| {
        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": level } })
            .to_string()
    };
    server.say(&log("debug")).await;
    server.say(&log("info")).await;
    assert_eq!(usual.next().await["params"]["level"], "info");
    usual.request(json!(1), "logging/setLevel", json!({ "level": "error" }));
    assert_eq!(wanted(&mut server).await, "error", "both chose");
    assert_eq!(usual.next().await["id"], 1);
    drop(usual);
    assert_eq!(wanted(&mut server).await, "emergency");
    // One more comes and has not chosen.
    let _third = Peer::ready(&hub, "third", json!({})).await;
    assert_eq!(wanted(&mut server).await, "info");
    drop(quiet);
    assert!(hub.shared.act(|state, _| state.told_level == Some(1)));
}

/// A client's outlet that takes its time.
struct Slow {
    entered: std::sync::mpsc::SyncSender<()>,
    go_on: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Outlet for Slow {
    fn deliver(&self, _: ToClient) -> Result<(), Full> {
        self.entered.send(()).expect("the test waits");
        self.go_on.lock().expect("one at a time").recv_timeout(BOUND).expect("the test goes on");
        Ok(())
    }
}

/// Also when another task decided it: an answer to `initialize` comes before what follows it.
#[test]
fn a_client_hears_things_in_the_order_in_which_they_were_decided() {
    let hub = Hub::new(options("s"));
    let (entered, is_in) = std::sync::mpsc::sync_channel(1);
    let (let_go, go_on) = std::sync::mpsc::channel();
    let slow = hub.attach_to("slow", Arc::new(Slow { entered, go_on: Mutex::new(go_on) }));
    let (quick, mut heard) = hub.attach("quick");
    let say = |state: &State, client: &Client, line: &'static str, effects: &mut Effects| {
        state.deliver(client.key, Bytes::from_static(line.as_bytes()), None, false, effects);
    };
    std::thread::scope(|threads| {
        threads.spawn(|| {
            hub.shared.act(|state, effects| {
                say(state, &slow, "0", effects);
                say(state, &quick, "1", effects);
            });
        });
        is_in.recv_timeout(BOUND).expect("the first is being delivered");
        let (done, is_done) = std::sync::mpsc::channel();
        let (hub, quick) = (&hub, &quick);
        threads.spawn(move || {
            hub.shared.act(|state, effects| say(state, quick, "2", effects));
            let _ = done.send(());
        });
        // It has to wait for the first; if it does not, it is done by then.
        let _ = is_done.recv_timeout(Duration::from_millis(200));
        let_go.send(()).expect("the first waits");
    });
    let lines: Vec<Bytes> =
        std::iter::from_fn(|| heard.try_recv().ok()).map(|message| message.line).collect();
    assert_eq!(lines, ["1", "2"]);
}
