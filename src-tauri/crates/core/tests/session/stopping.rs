use crate::world::*;
use gantry_core::wire::*;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_ends_with_its_last_session_and_the_next_prompt_starts_another() {
    let world = World::new().await;
    let one = world.create("http,close", vec![world.server("own", 0.0)]).await;
    let two = world.create("http,close", Vec::new()).await;
    world.turn(&one, "say 1").await;
    let (accepted, _) = world.turn(&two, "spawn").await;
    assert_eq!(accepted.engine, EngineOutcome::Reused);
    let pid = world.view(&one).engine.unwrap();
    assert_eq!(world.view(&two).engine.unwrap().pid, pid.pid);
    assert_eq!(pid.sessions, 2);

    let stopped = world.stop(&one).await;
    assert!(!stopped.engine_stopped);
    assert_eq!(stopped.servers_stopped, ["own"]);
    assert!(stopped.processes_ended <= 1, "only its server: {stopped:?}");
    assert_eq!(world.got("session/close").len(), 1);
    assert_eq!(world.view(&one).state, SessionState::Stopped);
    assert_eq!(world.view(&two).engine.unwrap(), EngineView { pid: pid.pid, sessions: 1 });

    let stopped = world.stop(&two).await;
    assert!(stopped.engine_stopped);
    assert!(stopped.processes_ended >= 4, "{stopped:?}");
    assert!(stopped.forced >= 1, "one of them ignores TERM: {stopped:?}");
    world.no_survivors().await;
    assert!(world.log().iter().any(|line| line["end"] == "of input"), "its input was closed first");
    let again = world.stop(&two).await;
    assert!(again.success && !again.engine_stopped && again.processes_ended == 0);

    let (accepted, ended) = world.turn(&two, "say back").await;
    assert_eq!(ended.reason, "end_turn");
    assert_eq!((accepted.engine, accepted.context), (EngineOutcome::Started, ContextOutcome::Lost));
    assert_ne!(world.view(&two).engine.unwrap().pid, pid.pid);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_stops_share_one() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let accepted = world.prompt(&session, "deaf").await;
    let began = Instant::now();
    let stops = futures::future::join_all((0..5).map(|_| world.stop(&session))).await;
    assert!(stops.iter().all(|stop| *stop == stops[0] && stop.engine_stopped), "{stops:?}");
    assert!(began.elapsed() < Duration::from_secs(8));
    assert_eq!(world.ended(&session, &accepted.turn).await.reason, "cancelled");
    let ask = SessionHistory { session: session.clone(), before: None, limit: None };
    let history = world.sessions.history(ask).await.unwrap();
    assert_eq!(history.turns[0].stop_reason.as_deref(), Some("cancelled"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_prompt_that_a_stop_drops_is_told_and_kept() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    world.prompt(&session, "hang").await;
    let mut waiting = World::prompt_of("say never");
    waiting.queue = true;
    let queued = world.sessions.prompt(&session, waiting).await.unwrap();
    world.stop(&session).await;
    let ended = world.ended(&session, &queued.turn).await;
    assert_eq!(ended.reason, "cancelled");
    assert!(ended.description.unwrap().contains("stopped"));
    assert_eq!(world.got("session/prompt").len(), 1);
    assert_eq!(world.texts(&session).await.len(), 2);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_gantry_ends_turns_engines_and_everything_below() {
    let world = World::new().await;
    let busy = world.create("http", vec![world.server("s", 0.0)]).await;
    let idle = world
        .create_with(|new| new.agent.env = [("OTHER".to_owned(), "1".to_owned())].into())
        .await;
    world.turn(&busy, "spawn").await;
    let accepted = world.prompt(&busy, "hang").await;
    world.turn(&idle, "spawn").await;
    assert_eq!(world.sessions.engines().len(), 2, "another environment, another engine");
    world.sessions.finish(soon(Duration::from_millis(1500))).await;
    assert_eq!(world.ended(&busy, &accepted.turn).await.reason, "cancelled");
    let refused = world.try_prompt(&idle, "say no").await.unwrap_err();
    assert_eq!(refused.code, gantry_core::ErrorCode::ShuttingDown);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_is_gone_with_everything() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    world.turn(&session, "say hi").await;
    world.sessions.rename(&session, "  A name ").await.unwrap();
    assert_eq!(world.view(&session).title, "A name");
    world.sessions.delete(&session, soon(Duration::from_secs(5))).await.unwrap();
    assert!(world.sessions.view(&session).is_none());
    assert!(world.store.session(&session).await.unwrap().is_none());
    world.no_survivors().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_five_rounds_of_create_prompt_stop_leave_nothing() {
    let world = World::new().await;
    for _ in 0..25 {
        let session = world.create("http", vec![world.server("s", 0.0)]).await;
        world.turn(&session, "say hi").await;
        assert!(world.stop(&session).await.engine_stopped);
        assert!(world.sessions.engines().is_empty());
    }
    world.no_survivors().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_during_the_opening_tells_what_it_ended() {
    let world = World::new().await;
    let session = world.create("http,slow", vec![world.server("own", 0.0)]).await;
    let waiting = world.try_prompt(&session, "say no");
    let stop = async {
        world.until("session/new", || !world.got("session/new").is_empty()).await;
        world.stop(&session).await
    };
    let (refused, stopped) = futures::future::join(waiting, stop).await;
    assert!(refused.is_err());
    assert!(stopped.engine_stopped, "{stopped:?}");
    assert_eq!(stopped.servers_stopped, ["own"], "{stopped:?}");
    assert!(stopped.processes_ended >= 2, "{stopped:?}");
    world.no_survivors().await;
    world.end().await;
}
