//! Event streams over a socket.

use crate::site::Site;
use gantry_core::wire::Happening;
use serde_json::json;

fn update(session: &str, text: &str) -> Happening {
    let content = json!({"type": "text", "text": text});
    Happening::Update {
        session: session.into(),
        turn: None,
        update: json!({"sessionUpdate": "agent_message_chunk", "content": content}).into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_replayed_and_resumed() {
    let site = Site::open().await;
    let session = site.session().await.id;
    let first = site.app.events().publish(update(&session, "one"));
    site.app.events().publish(update(&session, "two"));
    let path = format!("/computer/progress/{session}");

    let mut client = site.connect().await;
    client.write(format!("{}\r\n", site.head("GET", &path)).as_bytes()).await;
    let (status, head) = client.head().await;
    assert_eq!(status, 200);
    let head = head.to_ascii_lowercase();
    assert!(head.contains("content-type: text/event-stream"));
    assert!(head.contains("x-accel-buffering: no") && head.contains("cache-control: no-cache"));
    for expected in ["one", "two"] {
        let (name, data) = client.event().await.unwrap();
        assert_eq!(name, "agent_message_chunk");
        assert_eq!(data["data"]["content"]["text"], expected);
    }
    site.app.events().publish(update(&session, "three"));
    assert_eq!(client.event().await.unwrap().1["data"]["content"]["text"], "three");
    // A reader that goes away changes nothing for the one that comes back.
    drop(client);
    site.app.events().publish(update(&session, "four"));

    for (path, header) in [
        (format!("{path}?after={first}"), String::new()),
        (format!("{path}?after=0"), format!("Last-Event-ID: {first}\r\n")),
    ] {
        let mut client = site.connect().await;
        client.write(format!("{}{header}\r\n", site.head("GET", &path)).as_bytes()).await;
        client.head().await;
        for expected in ["two", "three", "four"] {
            assert_eq!(client.event().await.unwrap().1["data"]["content"]["text"], expected);
        }
    }
    assert_eq!(site.get("/computer/progress/ghost").await.status, 404);
    site.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_readers_see_the_same_and_a_slow_one_holds_nobody() {
    let site = Site::open().await;
    let session = site.session().await.id;
    let head = format!("{}\r\n", site.head("GET", &format!("/computer/progress/{session}")));
    let mut slow = site.connect().await;
    slow.write(head.as_bytes()).await;
    let mut readers = Vec::new();
    for _ in 0..100 {
        let mut reader = site.connect().await;
        reader.write(head.as_bytes()).await;
        assert_eq!(reader.head().await.0, 200);
        readers.push(reader);
    }
    let text = "x".repeat(10_000);
    for _ in 0..200 {
        site.app.events().publish(update(&session, &text));
    }
    site.app.events().publish(Happening::TurnEnded {
        session: session.clone(),
        turn: "t".into(),
        reason: "end_turn".into(),
        description: None,
    });
    for mut reader in readers {
        for _ in 0..200 {
            assert_eq!(reader.event().await.unwrap().0, "agent_message_chunk");
        }
        assert_eq!(reader.event().await.unwrap().0, "end_turn");
    }
    slow.head().await;
    while slow.event().await.unwrap().0 != "end_turn" {}
    site.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_begin_with_a_snapshot() {
    let site = Site::open().await;
    let mut client = site.connect().await;
    let path = format!("/events?token={}", site.app.token());
    client.write(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", site.address).as_bytes()).await;
    assert_eq!(client.head().await.0, 200);
    let (name, snapshot) = client.event().await.unwrap();
    assert_eq!(name, "snapshot");
    assert_eq!(snapshot["sessions"], json!([]));
    let session = site.session().await;
    loop {
        let (name, event) = client.event().await.unwrap();
        assert_eq!(name, "");
        assert!(event["seq"].as_u64() > snapshot["seq"].as_u64());
        if event["type"] == "session_changed" && event["session"]["id"] == json!(session.id) {
            break;
        }
    }
    site.close().await;
}
