use crate::world::*;
use gantry_core::{ErrorCode, wire::*};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn every_server_has_listed_its_tools_before_the_agent_hears_of_the_session() {
    let world = World::new().await;
    let servers = vec![world.server("quick", 0.0), world.server("slow", 1.5)];
    let session = world.create("http", servers).await;
    let (accepted, ended) = world.turn(&session, "say hello").await;
    assert_eq!(ended.reason, "end_turn");
    assert_eq!(accepted.engine, EngineOutcome::Started);
    assert_eq!(accepted.context, ContextOutcome::New);
    assert_eq!(accepted.servers.len(), 2);
    for server in &accepted.servers {
        assert_eq!((server.state, server.via), (ReadinessState::Ready, Via::Bridge), "{server:?}");
        assert_eq!(server.tools, 1);
    }
    let log = world.log();
    let place = |what: &dyn Fn(&serde_json::Value) -> bool| {
        log.iter().position(what).expect("it is in the log")
    };
    let new = place(&|line| line["got"]["method"] == "session/new");
    assert!(place(&|line| line["served"] == "quick") < new);
    assert!(place(&|line| line["served"] == "slow") < new);
    assert!(new < place(&|line| line["got"]["method"] == "session/prompt"));
    let given = &world.got("session/new")[0];
    assert_eq!(given["cwd"], world.view(&session).project);
    for server in given["mcpServers"].as_array().unwrap() {
        assert_eq!(server["type"], "http");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_do_http_gets_programs_of_ours() {
    let world = World::new().await;
    let session = world.create("close", vec![world.server("one", 0.0)]).await;
    let (accepted, _) = world.turn(&session, "say hello").await;
    assert_eq!(accepted.servers[0].via, Via::Stdio);
    assert_eq!(accepted.servers[0].state, ReadinessState::Ready);
    let given = &world.got("session/new")[0]["mcpServers"][0];
    assert_eq!(given["name"], "one");
    assert!(given["command"].as_str().unwrap().ends_with("gantry"), "{given}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_server_does_not_hold_the_prompt_beyond_its_deadline() {
    let world = World::new().await;
    let servers = vec![world.server("quick", 0.0), world.server("slow", 30.0)];
    let session = world.create("http", servers).await;
    let mut prompt = World::prompt_of("say hello");
    prompt.ready_timeout = Duration::from_secs(2);
    let accepted = world.sessions.prompt(&session, prompt).await.unwrap();
    let state = |name: &str| {
        accepted.servers.iter().find(|server| server.name == name).map(|server| server.state)
    };
    assert_eq!(state("quick"), Some(ReadinessState::Ready));
    assert_eq!(state("slow"), Some(ReadinessState::Starting));
    // It is handed over all the same: it joins later.
    assert_eq!(world.got("session/new")[0]["mcpServers"].as_array().unwrap().len(), 2);
    world.ended(&session, &accepted.turn).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_first_prompts_at_once_start_one_engine() {
    let world = World::new().await;
    let mut sessions = Vec::new();
    for _ in 0..100 {
        sessions.push(world.create("http", vec![world.server("shared", 0.0)]).await);
    }
    let turns = sessions.iter().map(|session| world.turn(session, "say hi"));
    let results = futures::future::join_all(turns).await;
    assert!(results.iter().all(|(_, ended)| ended.reason == "end_turn"));
    let started = results.iter().filter(|(accepted, _)| accepted.engine == EngineOutcome::Started);
    assert_eq!(started.count(), 1);
    let pids: std::collections::BTreeSet<_> =
        sessions.iter().map(|session| world.view(session).engine.unwrap().pid).collect();
    assert_eq!(pids.len(), 1);
    assert_eq!(world.got("initialize").len(), 1);
    let served = world.log().iter().filter(|line| line["served"] == "shared").count();
    assert_eq!(served, 1, "one process of the server for all");
    assert_eq!(world.sessions.engines().len(), 1);
    assert_eq!(world.sessions.engines()[0].sessions.len(), 100);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_waits_for_an_opening_that_is_under_way() {
    let world = World::new().await;
    let session = world
        .create_with(|new| {
            new.servers = Some(vec![world.server("slow", 0.7)]);
            new.open_now = true;
        })
        .await;
    world.until_state(&session, SessionState::Starting).await;
    let (accepted, _) = world.turn(&session, "say hi").await;
    assert_eq!(accepted.context, ContextOutcome::New);
    assert_eq!(world.got("session/new").len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_system_prompt_goes_before_the_first_prompt_only() {
    let world = World::new().await;
    let session = world.create_with(|new| new.system_prompt = Some("be kind".into())).await;
    world.turn(&session, "say one").await;
    world.turn(&session, "say two").await;
    let prompts = world.got("session/prompt");
    assert_eq!(prompts[0]["prompt"][0]["text"], "be kind");
    assert_eq!(prompts[0]["prompt"][1]["text"], "say one");
    assert_eq!(prompts[1]["prompt"].as_array().unwrap().len(), 1);
    assert_eq!(world.view(&session).title, "say one");
    assert_eq!(world.view(&session).commands[0]["name"], "early");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_not_there_is_said_and_holds_nothing() {
    let world = World::new().await;
    let session = world
        .create_with(|new| {
            new.agent.command = "no-such-agent-anywhere".into();
            new.servers = Some(vec![world.server("one", 0.0)]);
        })
        .await;
    let error = world.try_prompt(&session, "say hi").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::UpstreamFailed);
    assert!(error.message.contains("no-such-agent-anywhere"), "{}", error.message);
    let view = world.view(&session);
    assert_eq!(view.state, SessionState::Failed);
    assert!(view.error.unwrap().contains("was not found"));
    world.no_survivors().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_dies_at_its_start_is_quoted() {
    let world = World::new().await;
    let session = world.create("exit", Vec::new()).await;
    let error = world.try_prompt(&session, "say hi").await.unwrap_err();
    assert!(error.message.contains("exit code 7"), "{}", error.message);
    assert!(error.message.contains("KEY missing"), "{}", error.message);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_never_answers_fails_at_its_limit_with_its_last_words() {
    let world = World::with_limit(Duration::from_millis(800)).await;
    let session = world.create("mute", Vec::new()).await;
    let error = world.try_prompt(&session, "say hi").await.unwrap_err();
    assert!(error.message.contains("`initialize` within"), "{}", error.message);
    assert!(error.message.contains("scripted agent is here"), "{}", error.message);
    world.no_survivors().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_wants_a_sign_in_says_so() {
    let world = World::new().await;
    let session = world.create("refuse", Vec::new()).await;
    let error = world.try_prompt(&session, "say hi").await.unwrap_err();
    assert!(error.message.contains("sign in"), "{}", error.message);
    assert_eq!(error.detail.unwrap()["code"], -32000);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_during_the_opening_works_and_the_prompt_says_why() {
    let world = World::new().await;
    for can in ["http", "slow"] {
        // Waiting for a server, and waiting in `session/new`.
        let delay = if can == "http" { 30.0 } else { 0.0 };
        let session = world.create(can, vec![world.server("s", delay)]).await;
        let prompting = world.try_prompt(&session, "say hi");
        let stopping = async {
            world.until_state(&session, SessionState::Starting).await;
            if can == "slow" {
                world.until("session/new", || !world.got("session/new").is_empty()).await;
            } else {
                world.until("the engine", || world.view(&session).engine.is_some()).await;
            }
            world.stop(&session).await
        };
        let (refused, stopped) = futures::future::join(prompting, stopping).await;
        assert!(refused.unwrap_err().message.contains("before it reached the agent"));
        assert!(stopped.success);
        assert_eq!(world.view(&session).state, SessionState::Stopped);
        world.no_survivors().await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_interrupts_an_opening_that_a_prompt_waits_for() {
    let world = World::new().await;
    let session = world
        .create_with(|new| {
            new.servers = Some(vec![world.server("slow", 30.0)]);
            new.open_now = true;
        })
        .await;
    assert_eq!(world.view(&session).state, SessionState::Starting);
    let prompting = world.try_prompt(&session, "say hi");
    let stopping = async {
        world.until("the engine", || world.view(&session).engine.is_some()).await;
        let began = std::time::Instant::now();
        assert!(world.stop(&session).await.engine_stopped || world.marked().is_empty());
        assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    };
    let (refused, ()) = futures::future::join(prompting, stopping).await;
    assert!(refused.unwrap_err().message.contains("before it reached the agent"));
    assert_eq!(world.view(&session).state, SessionState::Stopped);
    // A later prompt finds nothing in its way.
    let mut quick = World::prompt_of("say hi");
    quick.servers = Some(Some(Vec::new()));
    let accepted = world.sessions.prompt(&session, quick).await.unwrap();
    assert_eq!(world.ended(&session, &accepted.turn).await.reason, "end_turn");
    world.end().await;
}
