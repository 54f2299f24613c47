//! Prompts that wait: while the turn before them opens, when their agent changes, when the store
//! does not take them.

use crate::world::*;
use gantry_core::{ErrorCode, session::EngineRules, wire::*};
use serde_json::json;
use std::{os::unix::fs::PermissionsExt, process::Command, time::Duration};

fn sent(world: &World) -> Vec<String> {
    let prompts = world.got("session/prompt");
    prompts.iter().map(|got| got["prompt"][0]["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn send_now_takes_the_place_of_a_prompt_that_is_on_its_way() {
    let world = World::new().await;
    let session = world.create("http", vec![world.server("slow", 1.5)]).await;
    let first = world.try_prompt(&session, "hang");
    let second = async {
        world.until_state(&session, SessionState::Starting).await;
        let turn = world.queue(&session, "say two").await;
        let at = QueuedTurn { session: session.clone(), turn: turn.clone() };
        world.sessions.send_queued(&at).unwrap();
        turn
    };
    let (first, turn) = futures::future::join(first, second).await;
    assert_eq!(first.unwrap_err().code, ErrorCode::Interrupted);
    assert_eq!(world.ended(&session, &turn).await.reason, "end_turn");
    assert_eq!(sent(&world), ["say two"]);
    world.end().await;
}

/// The chat that opened a session takes it back when its prompt was cancelled on the way; what
/// others had queued in it went with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_in_which_something_waits_is_not_unused() {
    let world = World::new().await;
    let session = world.create("http", vec![world.server("slow", 1.5)]).await;
    let first = async {
        let error = world.try_prompt(&session, "say one").await.unwrap_err();
        let taken = world.sessions.delete_unused(&session, soon(Duration::from_secs(5))).await;
        (error.code, taken.map_err(|error| error.code))
    };
    let second = async {
        world.until_state(&session, SessionState::Starting).await;
        let turn = world.queue(&session, "say two").await;
        world.sessions.cancel(&session).await.unwrap();
        turn
    };
    let (first, turn) = futures::future::join(first, second).await;
    assert_eq!(first, (ErrorCode::Interrupted, Err(ErrorCode::Busy)));
    assert_eq!(world.ended(&session, &turn).await.reason, "end_turn");
    let used = world.sessions.delete_unused(&session, soon(Duration::from_secs(5))).await;
    assert_eq!(used.unwrap_err().code, ErrorCode::Busy);
    let unused = world.create("http", Vec::new()).await;
    world.sessions.delete_unused(&unused, soon(Duration::from_secs(5))).await.unwrap();
    assert!(world.sessions.view(&unused).is_none());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_waits_goes_to_its_agent_as_that_is_then() {
    let world = World::new().await;
    let mut changed = world.agent("http");
    changed.env.insert("OTHER".to_owned(), "1".to_owned());
    for (user, outcome) in
        [(None, EngineOutcome::Recreated), (Some("u".to_owned()), EngineOutcome::Reused)]
    {
        let session = world.create_with(|new| new.user_id.clone_from(&user)).await;
        world.prompt(&session, "hang").await;
        let mut prompt = World::queued("say two");
        prompt.agent = Some(world.agent("http"));
        let turn = world.sessions.prompt(&session, prompt).await.unwrap().turn;
        world.sessions.agent_changed(&changed);
        world.sessions.cancel(&session).await.unwrap();
        assert_eq!(world.ended(&session, &turn).await.reason, "end_turn");
        let turns = world.turns(&session).await;
        let opening = turns[1].opening.as_ref().unwrap();
        assert_eq!(opening.engine, outcome, "{user:?}");
        world.stop(&session).await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_engine_of_a_program_that_was_replaced_is_not_used() {
    let world = World::new().await;
    let rules = EngineRules { warm: 1, ..EngineRules::default() };
    world.sessions.set_rules(rules);
    let program = world.database().with_file_name("agent");
    let write = |version: &str| {
        let script = format!("#!/bin/sh\n# {version}\nexec {} \"$@\"\n", python().display());
        let new = program.with_extension("new");
        std::fs::write(&new, script).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(&new, &program).unwrap();
    };
    write("1");
    let session =
        world.create_with(|new| new.agent.command = program.to_str().unwrap().to_owned()).await;
    for (replaced, outcome) in [(false, EngineOutcome::Reused), (true, EngineOutcome::Started)] {
        world.turn(&session, "say one").await;
        world.sessions.stop_warm(&session, soon(Duration::from_secs(8))).await.unwrap();
        world.until("a warm engine", || !world.sessions.engines().is_empty()).await;
        if replaced {
            write("2");
        }
        let (accepted, _) = world.turn(&session, "say two").await;
        assert_eq!(accepted.engine, outcome);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_cannot_be_kept_is_not_taken() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let running = world.prompt(&session, "hang").await;
    let kept = world.queue(&session, "say one").await;
    let refuse = "import sqlite3, sys\n\
                  base = sqlite3.connect(sys.argv[1])\n\
                  for what in 'insert', 'update':\n \
                      base.execute(f\"create trigger no_{what} before {what} on queued begin \
                      select raise(abort, 'no room'); end\")\n\
                  base.commit()\n";
    let script = Command::new(python()).args(["-c", refuse]).arg(world.database()).output();
    let script = script.unwrap();
    assert!(script.status.success(), "{}", String::from_utf8_lossy(&script.stderr));
    let refused = world.sessions.prompt(&session, World::queued("say two")).await.unwrap_err();
    assert!(refused.message.contains("no room"), "{}", refused.message);
    let edit = QueueEdit { session: session.clone(), turn: kept.clone(), text: "say zwei".into() };
    let refused = world.sessions.edit_queued(&edit).await.unwrap_err();
    assert!(refused.message.contains("no room"), "{}", refused.message);
    let texts: Vec<_> = world.view(&session).queue.iter().map(|q| q.text.clone()).collect();
    assert_eq!(json!(texts), json!(["say one"]));
    world.sessions.cancel(&session).await.unwrap();
    assert_eq!(world.ended(&session, &running.turn).await.reason, "cancelled");
    assert_eq!(world.ended(&session, &kept).await.reason, "end_turn");
    assert_eq!(sent(&world), ["hang", "say one"]);
    world.end().await;
}
