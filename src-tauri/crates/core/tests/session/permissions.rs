use crate::world::*;
use gantry_core::{ErrorCode, wire::*};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_shown_answered_once_and_what_was_chosen_reaches_the_agent() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    for (choice, round) in [("yes", 0), ("no", 1)] {
        let accepted = world.prompt(&session, "ask execute").await;
        world.until_state(&session, SessionState::WaitingForYou).await;
        let view = world.view(&session);
        let request = &view.permissions[0];
        assert_eq!(request.turn.as_deref(), Some(accepted.turn.as_str()));
        assert_eq!(request.tool_call["rawInput"]["x"], 1);
        let kinds: Vec<_> = request.options.iter().map(|option| &option["kind"]).collect();
        assert_eq!(kinds, ["reject_once", "allow_always", "allow_once"]);
        let wrong = world.sessions.permit(&session, &request.request, "perhaps").await.unwrap_err();
        assert_eq!(wrong.code, ErrorCode::ValidationError);
        world.sessions.permit(&session, &request.request, choice).await.unwrap();
        let again = world.sessions.permit(&session, &request.request, choice).await.unwrap_err();
        assert_eq!(again.code, ErrorCode::NotFound);
        world.ended(&session, &accepted.turn).await;
        assert_eq!(world.texts(&session).await[round], choice);
        assert!(world.view(&session).permissions.is_empty());
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_request_is_answered_cancelled_by_a_cancel_before_the_agent_hears_of_it() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let accepted = world.prompt(&session, "ask edit").await;
    let mut reader = world.reader(&session);
    reader.asked().await;
    world.sessions.cancel(&session).await.unwrap();
    let (outcome, reason) = reader.resolved().await;
    assert_eq!(outcome, "cancelled");
    assert!(reason.unwrap().contains("cancelled"));
    assert_eq!(world.ended(&session, &accepted.turn).await.reason, "cancelled");
    world.until("the cancel", || !world.got("session/cancel").is_empty()).await;
    let log = world.log();
    let answer =
        log.iter().position(|line| line["got"]["result"]["outcome"]["outcome"] == "cancelled");
    let cancel = log.iter().position(|line| line["got"]["method"] == "session/cancel");
    assert!(answer.unwrap() < cancel.unwrap());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_comes_after_the_cancel_is_answered_cancelled() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let accepted = world.prompt(&session, "askafter").await;
    world.sessions.cancel(&session).await.unwrap();
    assert_eq!(world.ended(&session, &accepted.turn).await.reason, "cancelled");
    assert_eq!(world.texts(&session).await[0], "cancelled");
    assert!(world.view(&session).permissions.is_empty());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_answers_for_the_user() {
    let world = World::new().await;
    let session = world.create_with(|new| new.policy = Policy::Reads).await;
    world.turn(&session, "ask read").await;
    // The kind was said by the tool call before the request.
    world.turn(&session, "asklater").await;
    assert_eq!(world.texts(&session).await, ["yes", "yes"]);
    let accepted = world.prompt(&session, "ask fetch").await;
    let request = world.reader(&session).asked().await;
    world.sessions.permit(&session, &request.request, "no").await.unwrap();
    world.ended(&session, &accepted.turn).await;

    let mut all = World::prompt_of("ask execute");
    all.policy = Some(Policy::All);
    let accepted = world.sessions.prompt(&session, all).await.unwrap();
    world.ended(&session, &accepted.turn).await;
    assert_eq!(world.texts(&session).await, ["yes", "yes", "no", "yes"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_answers_what_is_open() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let accepted = world.prompt(&session, "ask edit").await;
    let mut reader = world.reader(&session);
    reader.asked().await;
    world.stop(&session).await;
    assert_eq!(reader.resolved().await.0, "cancelled");
    assert_eq!(world.ended(&session, &accepted.turn).await.reason, "cancelled");
    let answered =
        world.log().iter().any(|line| line["got"]["result"]["outcome"]["outcome"] == "cancelled");
    assert!(answered, "the agent got the answer");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_nobody_answers_in_time_is_refused_and_the_transcript_says_why() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let mut reader = world.reader(&session);
    let mut prompt = World::prompt_of("ask edit");
    prompt.permission_timeout = Some(Duration::from_millis(300));
    let turn = world.sessions.prompt(&session, prompt).await.unwrap().turn;
    reader.asked().await;
    let (outcome, reason) = reader.resolved().await;
    assert_eq!(outcome, "no", "the agent's own no");
    assert!(reason.as_deref().is_some_and(|why| why.contains("nobody answered within 0.3 s")));
    // The agent goes on with the answer.
    assert_eq!(world.ended(&session, &turn).await.reason, "end_turn");
    assert_eq!(world.texts(&session).await[0], "no");
    let kept = &world.turns(&session).await[0].permissions[0];
    assert_eq!((&kept.outcome, &kept.reason), (&outcome, &reason));
    assert!(world.view(&session).permissions.is_empty());
    // The next prompt says anew how long: this one waits.
    let asked = world.prompt(&session, "ask edit").await;
    let request = reader.asked().await;
    world.sessions.permit(&session, &request.request, "yes").await.unwrap();
    assert_eq!(world.ended(&session, &asked.turn).await.reason, "end_turn");
    assert_eq!(world.texts(&session).await[1], "yes");
    world.end().await;
}
