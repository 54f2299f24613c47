//! The event streams under many readers, late readers, slow readers, and ends.

use gantry_tests::{Instance, Progress, Stage, programs};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A turn of `count` chunks, run to its end by a reader of its own.
async fn chunks(instance: &Instance, count: usize) -> String {
    let agent = programs::fake_agent(json!({}));
    let request = json!({ "project_id": "p", "prompt": format!("CHUNKS {count}"),
        "agent_config": { "agent_server": agent } });
    let answer = instance.chat(request).await;
    answer["session_id"].as_str().unwrap().to_owned()
}

async fn idle(instance: &Instance, session: &str) {
    gantry_tests::wait_until("the turn is over", Duration::from_secs(60), async || {
        let list = instance.api("sessions_list", json!({})).await;
        let all = list["sessions"].as_array().unwrap();
        all.iter().any(|s| s["id"] == session && s["state"] == "idle").then_some(())
    })
    .await;
}

fn ids(progress: &Progress) -> Vec<u64> {
    progress.seen.iter().filter_map(|event| event.id.as_ref()?.parse().ok()).collect()
}

#[tokio::test]
async fn a_hundred_readers_of_one_session_each_get_everything_in_order() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let session = chunks(&instance, 300).await;
    let readers = (0..100).map(|_| async {
        let mut progress = instance.progress(&session).await;
        let reason = progress.end_of_turn(Duration::from_secs(60)).await;
        (reason, ids(&progress), progress.text())
    });
    let all = futures::future::join_all(readers).await;
    let (reason, first, text) = &all[0];
    assert_eq!(reason, "end_turn");
    assert!(first.len() >= 302 && first.is_sorted_by(|a, b| a < b), "{} ids", first.len());
    for (number, (_, ids, said)) in all.iter().enumerate() {
        assert!(ids == first && said == text, "reader {number}");
    }
    instance.quit().await;
    stage.finish().await;
}

/// The ring keeps 10,000 events a session, and never drops the end of a turn.
#[tokio::test]
async fn a_reader_that_comes_after_ten_thousand_events_still_gets_the_end() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let session = chunks(&instance, 11_000).await;
    idle(&instance, &session).await;
    let mut progress = instance.progress(&session).await;
    assert_eq!(progress.end_of_turn(Duration::from_secs(60)).await, "end_turn");
    let ids = ids(&progress);
    assert!((9_900..=10_100).contains(&ids.len()), "{} events were kept", ids.len());
    assert!(ids.is_sorted_by(|a, b| a < b));

    // Where a reader was is where it goes on: by the header, and by the query.
    let place = ids[ids.len() - 5];
    for by_header in [true, false] {
        let path = match by_header {
            true => format!("/computer/progress/{session}"),
            false => format!("/computer/progress/{session}?after={place}"),
        };
        let mut request = instance.request(Method::GET, &path);
        if by_header {
            request = request.header("last-event-id", place);
        }
        let mut progress = Progress::new(request.send().await.unwrap());
        progress.end_of_turn(Duration::from_secs(10)).await;
        let resumed: Vec<u64> = self::ids(&progress);
        assert_eq!(resumed, ids[ids.len() - 4..], "by header: {by_header}");
    }
    instance.quit().await;
    stage.finish().await;
}

/// Numbers of an earlier run are smaller than all of this one, and none is larger.
#[tokio::test]
async fn a_place_of_another_run_is_answered_with_resync_and_everything_there_is() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let session = chunks(&instance, 20).await;
    let mut all = instance.progress(&session).await;
    all.end_of_turn(Duration::from_secs(30)).await;
    let expected = ids(&all);
    let newest = *expected.last().unwrap();
    let path = format!("/computer/progress/{session}");
    for foreign in [1, expected[0] / 2, newest + 1_000_000, u64::MAX] {
        let request = instance.request(Method::GET, &path).header("last-event-id", foreign);
        let mut reader = Progress::new(request.send().await.unwrap());
        let first = tokio::time::timeout(Duration::from_secs(30), reader.next()).await;
        assert_eq!(first.unwrap().unwrap().name, "resync", "{foreign}");
        reader.end_of_turn(Duration::from_secs(30)).await;
        assert_eq!(ids(&reader), expected, "{foreign}");
    }
    instance.quit().await;

    let mut instance = Instance::start(&stage).await;
    let request = instance.request(Method::GET, &path).header("last-event-id", newest);
    let mut reader = Progress::new(request.send().await.unwrap());
    let first = tokio::time::timeout(Duration::from_secs(30), reader.next()).await;
    assert_eq!(first.unwrap().unwrap().name, "resync");
    let again = json!({ "project_id": "p", "session_id": session, "prompt": "ECHO again",
        "agent_config": { "agent_server": programs::fake_agent(json!({})) } });
    instance.chat(again).await;
    reader.end_of_turn(Duration::from_secs(30)).await;
    assert!(ids(&reader).iter().all(|id| *id > newest), "{newest} {:?}", ids(&reader));
    instance.quit().await;
    stage.finish().await;
}

/// A reader that takes nothing while more comes than the ring keeps.
/// Case 32: also the end of a turn that a crash cut off.
#[tokio::test]
async fn the_end_of_a_turn_is_told_by_the_next_run_when_gantry_was_killed_in_it() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let agent = programs::fake_agent(json!({}));
    let request =
        json!({ "project_id": "p", "prompt": "HANG", "agent_config": { "agent_server": agent } });
    let answer = instance.chat(request).await;
    let session = answer["session_id"].as_str().unwrap().to_owned();
    instance.signal(rustix::process::Signal::KILL);
    instance.ended(Duration::from_secs(20)).await;
    let mut next = Instance::start(&stage).await;
    for last in [None, Some("7")] {
        let mut request = next.request(Method::GET, &format!("/computer/progress/{session}"));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let mut progress = Progress::new(request.send().await.unwrap());
        assert_eq!(progress.end_of_turn(Duration::from_secs(20)).await, "error");
    }
    next.quit().await;
    stage.finish().await;
}

/// What was accepted is not lost: it is in the history, as what was not sent.
#[tokio::test]
async fn a_prompt_that_waited_when_gantry_was_killed_is_kept_and_its_end_told() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let agent = programs::fake_agent(json!({}));
    let request = |prompt: &str| {
        json!({ "project_id": "p", "prompt": prompt, "queue": true,
                "agent_config": { "agent_server": agent } })
    };
    let answer = instance.chat(request("HANG")).await;
    let session = answer["session_id"].as_str().unwrap().to_owned();
    for prompt in ["ECHO kept", "ECHO taken back"] {
        let mut request = request(prompt);
        request["session_id"] = json!(session);
        instance.chat(request).await;
    }
    let list = instance.api("sessions_list", json!({})).await;
    let queue = list["sessions"][0]["queue"].as_array().unwrap().clone();
    assert_eq!(queue.len(), 2, "{list}");
    let back = json!({ "session": session, "turn": queue[1]["turn"] });
    instance.api("session_queue_drop", back).await;
    instance.signal(rustix::process::Signal::KILL);
    instance.ended(Duration::from_secs(20)).await;

    let mut next = Instance::start(&stage).await;
    let path = format!("/computer/progress/{session}");
    let mut progress = Progress::new(next.request(Method::GET, &path).send().await.unwrap());
    for _ in 0..2 {
        assert_eq!(progress.end_of_turn(Duration::from_secs(20)).await, "error");
        progress.seen.clear();
    }
    let history = next.api("session_history", json!({ "session": session })).await;
    let turns = history["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 2, "{history}");
    assert_eq!(turns[1]["id"], queue[0]["turn"], "{history}");
    assert_eq!(turns[1]["prompt"][0]["text"], "ECHO kept", "{history}");
    let why = turns[1]["description"].as_str().unwrap_or_default();
    assert!(why.contains("before this prompt was sent"), "{history}");
    next.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_slow_reader_is_told_to_resync_and_holds_up_nobody() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let session = chunks(&instance, 1).await;
    idle(&instance, &session).await;
    let mut slow = instance.progress(&session).await;
    slow.end_of_turn(Duration::from_secs(10)).await;
    slow.seen.clear();
    // Large pieces, so that the buffers of the system are full soon, four times the ring's 32 MiB.
    let text = "x".repeat(32 << 10);
    let update = json!({ "sessionUpdate": "agent_message_chunk",
        "content": { "type": "text", "text": text } });
    let line = format!("UPDATE {update}\n");
    let mut fast = instance.progress(&session).await;
    fast.end_of_turn(Duration::from_secs(10)).await;
    for _ in 0..10 {
        let prompt = line.repeat(120);
        let request = json!({ "project_id": "p", "session_id": session, "prompt": prompt });
        instance.chat(request).await;
        assert_eq!(fast.end_of_turn(Duration::from_secs(60)).await, "end_turn");
        fast.seen.clear();
    }
    let mut ends = 0;
    let mut resyncs = 0;
    while ends < 10 {
        let event = tokio::time::timeout(Duration::from_secs(30), slow.next()).await;
        let event = event.expect("events in time").expect("the stream goes on");
        resyncs += usize::from(event.name == "resync");
        ends += usize::from(event.data["messageType"] == "sessionPromptEnd");
        slow.seen.clear();
    }
    assert!(resyncs >= 1, "it was never told that it had missed something");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_stream_of_a_stopped_session_goes_on_and_of_a_deleted_one_ends() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let agent = programs::fake_agent(json!({}));
    let request = json!({ "project_id": "p", "prompt": "HANG",
        "agent_config": { "agent_server": agent } });
    let answer = instance.chat(request).await;
    let session = answer["session_id"].as_str().unwrap().to_owned();
    let mut progress = instance.progress(&session).await;
    let begun =
        progress.until("the start", Duration::from_secs(10), |event| event.name == "prompt_start");
    begun.await;
    instance.api("session_stop", json!({ "session": session })).await;
    assert_eq!(progress.end_of_turn(Duration::from_secs(10)).await, "cancelled");

    // The same stream tells what the session does when it is started again.
    let again = json!({ "project_id": "p", "session_id": session, "prompt": "ECHO again",
        "agent_config": { "agent_server": programs::fake_agent(json!({})) } });
    progress.seen.clear();
    instance.chat(again).await;
    assert_eq!(progress.end_of_turn(Duration::from_secs(20)).await, "end_turn");
    assert_eq!(progress.text().trim(), "again");

    instance.api("session_delete", json!({ "session": session })).await;
    let last =
        progress.until("the removal", Duration::from_secs(10), |e| e.name == "session_removed");
    last.await;
    assert!(progress.next().await.is_none(), "nothing comes after that");
    let answer = instance
        .send(instance.request(Method::GET, &format!("/computer/progress/{session}")))
        .await;
    assert_eq!(answer.status.as_u16(), 404);
    instance.quit().await;
    stage.finish().await;
}

/// What a proxy between needs: no buffering, no transformation, and a first byte at once.
#[tokio::test]
async fn both_streams_say_that_they_must_not_be_buffered() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let session = chunks(&instance, 1).await;
    for path in ["/events".to_owned(), format!("/computer/progress/{session}")] {
        let began = Instant::now();
        let request = instance.request(Method::GET, &path).header("accept-encoding", "gzip, br");
        let mut response = request.send().await.unwrap();
        let headers = response.headers().clone();
        let header = |name: &str| headers.get(name).map(|v| v.to_str().unwrap().to_owned());
        assert_eq!(header("content-type").as_deref(), Some("text/event-stream; charset=utf-8"));
        assert!(header("cache-control").unwrap().contains("no-transform"), "{path}");
        assert_eq!(header("x-accel-buffering").as_deref(), Some("no"));
        assert_eq!(header("content-encoding"), None);
        let first = response.chunk().await.unwrap().unwrap();
        assert!(!first.is_empty() && began.elapsed() < Duration::from_secs(5));
    }
    instance.quit().await;
    stage.finish().await;
}

/// 200 readers of everything beside each other; then memory and descriptors are back.
#[tokio::test]
async fn two_hundred_readers_of_everything_cost_nothing_when_they_are_gone() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let session = chunks(&instance, 10).await;
    idle(&instance, &session).await;
    let descriptors = |pid: u32| std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let before = descriptors(instance.pid);
    let open = (0..200).map(|_| instance.request(Method::GET, "/events").send());
    let mut readers: Vec<Progress> = futures::future::join_all(open)
        .await
        .into_iter()
        .map(|response| Progress::new(response.unwrap()))
        .collect();
    let prompt = json!({ "project_id": "p", "session_id": session, "prompt": "CHUNKS 200",
        "agent_config": { "agent_server": programs::fake_agent(json!({})) } });
    instance.chat(prompt).await;
    let reading = readers.iter_mut().map(|reader| {
        reader.until("the end of the turn", Duration::from_secs(60), |event| {
            event.data["type"] == "turn_ended"
        })
    });
    let ends: Vec<Value> =
        futures::future::join_all(reading).await.into_iter().map(|event| event.data).collect();
    assert!(ends.iter().all(|end| end["seq"] == ends[0]["seq"]), "all saw the same");
    drop(readers);
    gantry_tests::wait_until(
        "the descriptors are given back",
        Duration::from_secs(10),
        async || (descriptors(instance.pid) <= before + 5).then_some(()),
    )
    .await;
    instance.quit().await;
    stage.finish().await;
}
