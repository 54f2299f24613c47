use crate::world::*;
use gantry_core::wire::*;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_ends_the_turn_with_the_reason_and_the_next_prompt_starts_again() {
    let world = World::new().await;
    let session = world.create("http", vec![world.server("s", 0.0)]).await;
    let other = world.create("http", Vec::new()).await;
    world.turn(&session, "spawn").await;
    world.turn(&other, "say bystanding").await;
    let began = Instant::now();
    let (_, ended) = world.turn(&session, "die 3").await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(ended.reason, "error");
    let why = ended.description.unwrap();
    assert!(why.starts_with("agent ended with exit code 3: "), "{why}");
    assert!(why.contains("boom: the disk is full"), "{why}");
    assert_eq!(world.texts(&session).await[1], "last words");
    for id in [&session, &other] {
        world.until_state(id, SessionState::Failed).await;
        assert!(world.view(id).error.unwrap().contains("boom"));
    }
    world.no_survivors().await;
    // However much it wrote, the end of it says why.
    let (_, ended) = world.turn(&other, "flood").await;
    assert!(ended.description.unwrap().ends_with("the end"));
    world.no_survivors().await;

    let (accepted, ended) = world.turn(&session, "say again").await;
    assert_eq!(ended.reason, "end_turn");
    assert_eq!(
        (accepted.engine, accepted.context),
        (EngineOutcome::Recreated, ContextOutcome::Lost)
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_killed_behind_our_back_is_noticed() {
    let world = World::new().await;
    let session = world.create("http,resume", Vec::new()).await;
    let accepted = world.prompt(&session, "hang").await;
    let acp = world.view(&session).acp_session_id.unwrap();
    let pid = world.view(&session).engine.unwrap().pid;
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.unwrap().success());
    let ended = world.ended(&session, &accepted.turn).await;
    assert_eq!(ended.reason, "error");
    assert!(ended.description.unwrap().starts_with("agent ended with signal 9"));
    let (accepted, _) = world.turn(&session, "say resumed").await;
    assert_eq!(accepted.context, ContextOutcome::Restored);
    assert_eq!(world.got("session/resume")[0]["sessionId"], acp);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_an_agent_prints_as_it_dies_is_not_told() {
    let world = World::new().await;
    let session = world
        .create_with(|new| {
            new.agent = world.agent("http");
            new.agent.env.insert("OPENAI_API_KEY".into(), "s3cret-value".into());
        })
        .await;
    let (_, ended) = world.turn(&session, "betray").await;
    assert!(ended.description.unwrap().ends_with("my key is •••"));
    assert!(!world.view(&session).error.unwrap().contains("s3cret"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_dies_of_the_past_begins_anew_with_the_next_prompt() {
    let world = World::new().await;
    let session = world.create("http,load,dieload", Vec::new()).await;
    world.turn(&session, "say first").await;
    world.stop(&session).await;
    let refused = world.try_prompt(&session, "say second").await.unwrap_err();
    assert!(refused.message.contains("the past is too heavy"), "{}", refused.message);
    let (accepted, ended) = world.turn(&session, "say third").await;
    assert_eq!((accepted.context, &*ended.reason), (ContextOutcome::Lost, "end_turn"));
    assert_eq!(world.texts(&session).await, ["first", "third"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_dies_while_nothing_runs_is_started_anew_by_the_next_prompt() {
    let world = World::new().await;
    let session = world.create("http,load", Vec::new()).await;
    world.turn(&session, "say first").await;
    let pid = world.view(&session).engine.unwrap().pid;
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.unwrap().success());
    // At once: that it is gone may not have been told yet. A zombie has closed its pipes.
    let is_over = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_none_or(|state| !state.starts_with(['R', 'S', 'D', 'T']))
    };
    world.until("the end of the process", is_over).await;
    let (accepted, ended) = world.turn(&session, "say second").await;
    assert_eq!((accepted.context, &*ended.reason), (ContextOutcome::Restored, "end_turn"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_session_with_the_id_of_another_is_refused() {
    let world = World::new().await;
    let one = world.create("http,sameid", Vec::new()).await;
    let other = world.create("http,sameid", Vec::new()).await;
    world.turn(&one, "say one").await;
    let refused = world.try_prompt(&other, "say other").await.unwrap_err();
    assert!(refused.message.contains("acp-same"), "{}", refused.message);
    world.turn(&one, "say two").await;
    assert_eq!(world.texts(&one).await, ["one", "two"]);
    world.end().await;
}
