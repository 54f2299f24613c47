//! Conversations that the agent had before us.

use crate::world::*;
use gantry_core::wire::*;

fn project(world: &World) -> std::path::PathBuf {
    world.dir.path().join("project")
}

async fn listed(world: &World, can: &str) -> AgentConversations {
    world.sessions.of_agent(project(world), world.agent(can)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_own_conversations_are_listed_and_nothing_is_left_running() {
    let world = World::new().await;
    let found = listed(&world, "http,load,list,endless").await;
    assert!(found.offered && found.replayed && !found.more);
    let shown: Vec<_> =
        found.conversations.iter().map(|one| (one.id.as_str(), one.title.as_deref())).collect();
    assert_eq!(shown, [("old-1", Some("From the past")), ("old-2", None)]);
    assert_eq!(found.conversations[0].updated_at.as_deref(), Some("2026-11-30T10:00:00Z"));
    assert!(world.sessions.engines().is_empty());
    // One that cannot list them, or not go on with one, offers none.
    for can in ["http,load", "http,list"] {
        let found = listed(&world, can).await;
        assert!(!found.offered && found.conversations.is_empty(), "{can}");
    }
    let refused = world.sessions.of_agent(project(&world), world.agent("exit")).await.unwrap_err();
    assert!(refused.message.contains("KEY missing"), "{}", refused.message);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_that_runs_is_asked_and_goes_on_running() {
    let world = World::new().await;
    let session = world.create("http,load,list", Vec::new()).await;
    world.turn(&session, "say one").await;
    let before = world.view(&session).engine.unwrap().pid;
    assert_eq!(listed(&world, "http,load,list").await.conversations.len(), 2);
    assert_eq!(world.got("initialize").len(), 1);
    assert_eq!(world.view(&session).engine.unwrap().pid, before);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_in_one_becomes_history_and_it_goes_on() {
    let world = World::new().await;
    let can = "http,load,resume,list";
    let session = world
        .create_with(|new| {
            new.agent = world.agent(can);
            new.acp_id = Some("old-1".into());
            new.open_now = true;
        })
        .await;
    world.until_state(&session, SessionState::Idle).await;
    assert_eq!(world.view(&session).context, Some(ContextOutcome::Restored));
    assert_eq!(world.texts(&session).await, ["an old answer"]);
    assert_eq!(world.view(&session).title, "from the past");
    let (accepted, _) = world.turn(&session, "say new").await;
    assert_eq!(accepted.context, ContextOutcome::Restored);
    assert!(world.got("session/new").is_empty());
    assert_eq!(world.got("session/prompt")[0]["sessionId"], "old-1");

    let found = listed(&world, can).await;
    assert_eq!(found.conversations[0].session.as_deref(), Some(session.as_str()));
    let again = world.try_create(|new| {
        new.agent = world.agent(can);
        new.acp_id = Some("old-1".into());
    });
    assert!(again.await.unwrap_err().message.contains("is session"));

    // From now on its history is ours: it is resumed, and not told twice.
    let world = world.restarted().await;
    let (accepted, _) = world.turn(&session, "say newer").await;
    assert_eq!(accepted.context, ContextOutcome::Restored);
    assert_eq!(world.texts(&session).await, ["an old answer", "new", "newer"]);
    let turns = world.turns(&session).await;
    assert_eq!(turns[0].prompt[0]["text"], "from the past");
    assert_eq!(turns[0].stop_reason.as_deref(), Some("end_turn"));
    assert_eq!(turns.iter().map(|turn| turn.number).collect::<Vec<_>>(), [1, 2, 3]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_cannot_be_opened_is_no_new_one() {
    let world = World::new().await;
    let session = world
        .create_with(|new| {
            new.agent = world.agent("http");
            new.acp_id = Some("old-1".into());
        })
        .await;
    let refused = world.try_prompt(&session, "say new").await.unwrap_err();
    assert!(refused.message.contains("could not open this conversation"), "{}", refused.message);
    assert!(world.got("session/new").is_empty());
    world.end().await;
}
