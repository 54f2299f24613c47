use crate::world::*;
use gantry_core::wire::*;

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_sessions_are_listed_start_nothing_and_go_on_when_prompted() {
    let world = World::new().await;
    let loads = world.create("http,load", vec![world.server("s", 0.0)]).await;
    let forgets = world.create("http", Vec::new()).await;
    world.turn(&loads, "say first").await;
    world.turn(&forgets, "say first").await;
    let acp = world.view(&loads).acp_session_id.unwrap();

    let world = world.restarted().await;
    assert_eq!(world.sessions.views().len(), 2);
    for view in world.sessions.views() {
        assert_eq!(view.state, SessionState::Stopped);
        assert_eq!(world.texts(&view.id).await, ["first"]);
        assert_eq!(view.title, "say first");
    }
    assert!(world.sessions.engines().is_empty() && world.marked().is_empty());

    let mut news = world.reader(&loads);
    let (accepted, _) = world.turn(&loads, "say second").await;
    assert_eq!(
        (accepted.engine, accepted.context),
        (EngineOutcome::Started, ContextOutcome::Restored)
    );
    assert_eq!(world.got("session/load")[0]["sessionId"], acp);
    assert_eq!(world.got("session/load")[0]["mcpServers"].as_array().unwrap().len(), 1);
    // The replay is not shown twice.
    assert_eq!(world.texts(&loads).await, ["first", "second"]);
    while let event = news.next().await
        && !matches!(event, Happening::TurnEnded { .. })
    {
        assert!(!format!("{event:?}").contains("old answer"), "{event:?}");
    }
    let (accepted, _) = world.turn(&forgets, "say second").await;
    assert_eq!(accepted.context, ContextOutcome::Lost);
    assert_eq!(world.texts(&forgets).await, ["first", "second"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_servers_reopen_the_session_where_the_agent_can_and_another_agent_replaces_the_engine()
 {
    let world = World::new().await;
    let session = world.create("http,resume", vec![world.server("a", 0.0)]).await;
    world.turn(&session, "say one").await;
    let (accepted, _) = world.turn(&session, "say two").await;
    assert_eq!((accepted.engine, accepted.context), (EngineOutcome::Reused, ContextOutcome::Kept));

    let mut changed = World::prompt_of("say three");
    changed.servers = Some(Some(vec![world.server("a", 0.0), world.server("b", 0.8)]));
    let accepted = world.sessions.prompt(&session, changed).await.unwrap();
    assert_eq!(
        (accepted.engine, accepted.context),
        (EngineOutcome::Reused, ContextOutcome::Restored)
    );
    world.ended(&session, &accepted.turn).await;
    let log = world.log();
    let served = log.iter().position(|line| line["served"] == "b").unwrap();
    let resumed = log.iter().position(|line| line["got"]["method"] == "session/resume").unwrap();
    assert!(served < resumed);
    assert_eq!(world.got("session/resume")[0]["mcpServers"].as_array().unwrap().len(), 2);

    let before = world.view(&session).engine.unwrap().pid;
    let mut other = World::prompt_of("say four");
    let mut agent = world.agent("http,resume");
    agent.env.insert("OPENAI_API_KEY".into(), "s3cret-value".into());
    other.agent = Some(agent);
    let accepted = world.sessions.prompt(&session, other).await.unwrap();
    assert_eq!(
        (accepted.engine, accepted.context),
        (EngineOutcome::Recreated, ContextOutcome::Restored)
    );
    world.ended(&session, &accepted.turn).await;
    assert_ne!(world.view(&session).engine.unwrap().pid, before);
    assert_eq!(world.sessions.engines().len(), 1, "the old engine ended with its last session");
    let row = world.store.session(&session).await.unwrap().unwrap();
    assert!(!format!("{row:?}").contains("s3cret"), "secrets are not stored");
    assert_eq!(world.texts(&session).await.len(), 4);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_reopen_never_keeps_a_server_that_was_configured_otherwise() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let far = |path: &str, header: &str| {
        let mut spec = world.server("far", 0.0);
        spec.config = ServerConfig {
            url: Some(format!("http://127.0.0.1:9/{path}")),
            headers: [("X-Of".to_owned(), header.to_owned())].into(),
            enabled: true,
            ..ServerConfig::default()
        };
        spec
    };
    let near = || world.server("far", 0.0);
    let mut opened = 0;
    for (servers, context) in [
        (vec![far("a", "1")], ContextOutcome::New),
        (vec![far("b", "1")], ContextOutcome::Lost),
        (vec![far("b", "2")], ContextOutcome::Lost),
        (vec![near()], ContextOutcome::Lost),
    ] {
        let mut prompt = World::prompt_of("say x");
        prompt.servers = Some(Some(servers));
        prompt.ready_timeout = std::time::Duration::from_secs(5);
        let accepted = world.sessions.prompt(&session, prompt).await.unwrap();
        world.ended(&session, &accepted.turn).await;
        assert_eq!(accepted.context, context);
        opened += 1;
        assert_eq!(world.got("session/new").len(), opened);
    }
    // Behind the bridge a change needs nothing of the agent.
    let mut prompt = World::prompt_of("say y");
    prompt.servers = Some(Some(vec![world.server("far", 0.1)]));
    let accepted = world.sessions.prompt(&session, prompt).await.unwrap();
    world.ended(&session, &accepted.turn).await;
    assert_eq!(accepted.context, ContextOutcome::Kept);
    world.end().await;
}
