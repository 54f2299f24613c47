use super::*;
use axum::http::HeaderValue;
use gantry_core::{events::Events, wire::PermissionView};
use std::time::Duration;

struct Block {
    id: Option<u64>,
    name: String,
    data: Value,
}

fn parse(text: &str) -> Block {
    assert!(text.ends_with("\n\n") && text.matches("\n\n").count() == 1, "{text:?}");
    let field = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::to_owned)
    };
    Block {
        id: field("id").map(|id| id.parse().unwrap()),
        name: field("event").unwrap_or_default(),
        data: field("data").map(|data| serde_json::from_str(&data).unwrap()).unwrap_or_default(),
    }
}

/// A stream whose pieces are read event by event.
struct Reader {
    progress: Progress,
    read: std::collections::VecDeque<String>,
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        assert!(self.read.is_empty());
        self.progress.next().await
    }
}

fn open(events: &Events, after: u64) -> (Reader, watch::Sender<Phase>) {
    let (sender, phase) = watch::channel(Phase::Running);
    let reader = events.feed("s").read(after);
    let progress = Progress::new("s", reader, Box::new(|| Some("acp-1".into())), phase);
    (Reader { progress, read: Default::default() }, sender)
}

async fn block(reader: &mut Reader) -> Block {
    if reader.read.is_empty() {
        let piece = tokio::time::timeout(Duration::from_secs(60), reader.progress.next());
        let piece = piece.await.expect("an event in time").expect("the stream goes on");
        let text = std::str::from_utf8(&piece).unwrap();
        reader.read = text.split_inclusive("\n\n").map(str::to_owned).collect();
    }
    parse(&reader.read.pop_front().expect("a piece has an event"))
}

fn update(kind: &str, text: &str) -> Happening {
    Happening::Update {
        session: "s".into(),
        turn: Some("t".into()),
        update: json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}, "new": 1})
            .into(),
    }
}

fn start() -> Happening {
    Happening::TurnStarted {
        session: "s".into(),
        turn: "t".into(),
        number: 1,
        request_id: Some("r1".into()),
        prompt: vec![],
    }
}

fn end(reason: &str) -> Happening {
    Happening::TurnEnded {
        session: "s".into(),
        turn: "t".into(),
        reason: reason.into(),
        description: None,
    }
}

#[tokio::test]
async fn a_turn_is_told_in_the_form_that_back_ends_know() {
    let events = Events::new();
    events.publish(start());
    events.publish(update("agent_message_chunk", "hi"));
    events.publish(Happening::PermissionRequested {
        session: "s".into(),
        permission: Box::new(PermissionView {
            request: "p1".into(),
            turn: None,
            tool_call: json!({"toolCallId": "c1"}),
            options: vec![json!({"optionId": "allow"})],
            asked_at: 0,
        }),
    });
    events.publish(end("end_turn"));
    let (mut progress, _phase) = open(&events, 0);
    assert_eq!(block(&mut progress).await.data, Value::Null, "the opening is no event");

    let first = block(&mut progress).await;
    assert_eq!((first.id, first.name.as_str()), (Some(1), "prompt_start"));
    assert_eq!(first.data["messageType"], "sessionPromptStart");
    assert_eq!(first.data["subType"], "prompt_start");
    assert_eq!(first.data["sessionId"], "s");
    assert_eq!(first.data["acpSessionId"], "acp-1");
    assert_eq!(first.data["data"]["request_id"], "r1");
    assert!(first.data["timestamp"].as_str().unwrap().ends_with('Z'));

    let second = block(&mut progress).await;
    assert_eq!((second.id, second.name.as_str()), (Some(2), "agent_message_chunk"));
    assert_eq!(second.data["messageType"], "agentSessionUpdate");
    assert_eq!(second.data["data"]["new"], 1, "unknown fields stay");
    assert_eq!(second.data["data"]["sessionUpdate"], "agent_message_chunk");

    let third = block(&mut progress).await;
    assert_eq!(third.data["messageType"], "permissionRequest");
    assert_eq!(third.data["data"]["request"], "p1");

    let last = block(&mut progress).await;
    assert_eq!((last.id, last.name.as_str()), (Some(4), "end_turn"));
    assert_eq!(last.data["messageType"], "sessionPromptEnd");
    assert_eq!(last.data["data"], json!({"reason": "end_turn", "description": null}));
}

#[tokio::test]
async fn a_reader_that_comes_back_goes_on_where_it_was() {
    let events = Events::new();
    for number in 1..=3 {
        events.publish(update("agent_message_chunk", &number.to_string()));
    }
    let (mut progress, _phase) = open(&events, 2);
    block(&mut progress).await;
    assert_eq!(block(&mut progress).await.id, Some(3));
    events.publish(end("cancelled"));
    assert_eq!(block(&mut progress).await.name, "cancelled");
}

#[tokio::test]
async fn a_reader_that_is_overtaken_is_told_to_resync_and_then_goes_on() {
    let events = Events::new();
    events.publish(start());
    let (mut progress, _phase) = open(&events, 0);
    block(&mut progress).await;
    assert_eq!(block(&mut progress).await.id, Some(1));
    for number in 0..10_050 {
        events.publish(update("agent_message_chunk", &number.to_string()));
    }
    events.publish(end("end_turn"));
    assert_eq!(block(&mut progress).await.name, "resync");
    let mut last = block(&mut progress).await;
    while last.name == "agent_message_chunk" {
        last = block(&mut progress).await;
    }
    assert_eq!(last.name, "end_turn");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_is_kept_alive() {
    let events = Events::new();
    let (mut progress, _phase) = open(&events, 0);
    block(&mut progress).await;
    let begin = tokio::time::Instant::now();
    let ping = block(&mut progress).await;
    assert_eq!((ping.id, ping.name.as_str()), (None, "ping"));
    assert_eq!(ping.data["messageType"], "heartbeat");
    assert_eq!(begin.elapsed(), sse::PING_EVERY);
    block(&mut progress).await;
    assert_eq!(begin.elapsed(), 2 * sse::PING_EVERY);
}

#[tokio::test]
async fn a_shutdown_ends_the_stream_but_not_before_the_end_of_the_turn() {
    let events = Events::new();
    let (mut progress, phase) = open(&events, 0);
    block(&mut progress).await;
    phase.send_replace(Phase::Finish);
    events.publish(end("cancelled"));
    phase.send_replace(Phase::Ask);
    assert_eq!(block(&mut progress).await.name, "cancelled");
    assert_eq!(block(&mut progress).await.name, "shutting_down");
    assert!(progress.next().await.is_none());
}

#[tokio::test]
async fn a_removed_session_ends_the_stream() {
    let events = Events::new();
    let (mut progress, _phase) = open(&events, 0);
    block(&mut progress).await;
    events.publish(Happening::SessionRemoved { id: "s".into() });
    assert_eq!(block(&mut progress).await.name, "session_removed");
    assert!(progress.next().await.is_none());
}

#[test]
fn the_place_is_what_the_browser_says_before_what_the_url_says() {
    let header = |value| {
        HeaderMap::from_iter([(
            axum::http::HeaderName::from_static("last-event-id"),
            HeaderValue::from_static(value),
        )])
    };
    assert_eq!(place(&HeaderMap::new(), None), 0);
    assert_eq!(place(&HeaderMap::new(), Some("token=x&after=5")), 5);
    assert_eq!(place(&header("9"), Some("after=5")), 9);
    assert_eq!(place(&header("nonsense"), Some("after=5")), 5);
}

#[tokio::test]
async fn what_is_there_is_one_piece_and_a_piece_is_bounded() {
    let events = Events::new();
    let (mut reader, _phase) = open(&events, 0);
    block(&mut reader).await;
    events.publish_all((0..10).map(|n| update("agent_message_chunk", &n.to_string())));
    let piece = reader.next().await.unwrap();
    assert_eq!(std::str::from_utf8(&piece).unwrap().matches("\n\n").count(), 10);
    let long = "x".repeat(10_000);
    events.publish_all((0..10).map(|_| update("agent_message_chunk", &long)));
    events.publish(Happening::SessionRemoved { id: "s".into() });
    let mut sizes = Vec::new();
    let mut text = String::new();
    while let Some(piece) = reader.next().await {
        sizes.push(piece.len());
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
    assert_eq!(text.matches("id: ").count(), 10);
    assert!(sizes.iter().all(|size| *size < sse::PIECE + 11_000), "{sizes:?}");
    assert!(sizes.len() >= 4 && text.contains("session_removed"));
}
