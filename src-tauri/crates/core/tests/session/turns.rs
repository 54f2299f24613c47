use crate::world::*;
use gantry_core::{ErrorCode, wire::*};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn updates_come_in_order_before_the_end_and_stay_in_the_history() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let (accepted, _) = world.turn(&session, "count 500").await;
    let mut reader = world.reader(&session);
    let mut next = 0;
    let Happening::Update { turn: None, .. } = reader.next().await else {
        panic!("the commands come first, outside of any turn")
    };
    let Happening::TurnStarted { turn, number, .. } = reader.next().await else { panic!() };
    assert_eq!((turn.as_str(), number), (accepted.turn.as_str(), 1));
    loop {
        match reader.next().await {
            Happening::Update { turn, update, .. } => {
                assert_eq!(turn.as_deref(), Some(accepted.turn.as_str()));
                assert_eq!(update.value()["content"]["text"], format!("{next} "));
                next += 1;
            }
            Happening::TurnEnded { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(next, 500);
    let all: String = (0..500).map(|n| format!("{n} ")).collect();
    assert_eq!(world.texts(&session).await, [all]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_updates_are_kept_raw_and_the_reason_is_the_agents() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let (_, ended) = world.turn(&session, "odd").await;
    assert_eq!(ended.reason, "max_tokens");
    let ask = SessionHistory { session: session.clone(), before: None, limit: None };
    let history = world.sessions.history(ask).await.unwrap();
    let odd = json!({"sessionUpdate": "hologram", "z": 1, "a": {"deep": [1, null]}});
    assert_eq!(history.turns[0].updates[0].to_string(), odd.to_string());
    assert_eq!(history.turns[0].stop_reason.as_deref(), Some("max_tokens"));
    assert_eq!(world.view(&session).commands[0]["name"], "fix");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_agent_ends_the_turn_in_its_words() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let (_, ended) = world.turn(&session, "error").await;
    assert_eq!(ended.reason, "error");
    assert_eq!(ended.description.as_deref(), Some("Internal error: no credit"));
    assert_eq!(world.view(&session).state, SessionState::Idle);
    world.turn(&session, "say still here").await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_turn_refuses_another_prompt_unless_it_may_wait() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let first = world.prompt(&session, "hang").await;
    let busy = world.try_prompt(&session, "say no").await.unwrap_err();
    assert_eq!(busy.code, ErrorCode::Busy);
    let mut waiting = World::prompt_of("say later");
    waiting.queue = true;
    let plain = world.sessions.prompt(&session, waiting.clone()).await.unwrap();
    assert_eq!(plain.engine, EngineOutcome::Reused);
    waiting.servers = Some(Some(vec![world.server("new", 0.0)]));
    let changed = world.sessions.prompt(&session, waiting).await.unwrap();
    assert_eq!(changed.engine, EngineOutcome::Deferred);
    world.until("the first prompt", || world.got("session/prompt").len() == 1).await;
    assert_eq!(world.got("session/new").len(), 1);

    world.sessions.cancel(&session).await.unwrap();
    assert_eq!(world.ended(&session, &first.turn).await.reason, "cancelled");
    assert_eq!(world.ended(&session, &plain.turn).await.reason, "end_turn");
    assert_eq!(world.ended(&session, &changed.turn).await.reason, "end_turn");
    let log = world.log();
    let served = log.iter().position(|line| line["served"] == "new").unwrap();
    let reopened = log.iter().rposition(|line| line["got"]["method"] == "session/new").unwrap();
    assert!(served < reopened, "the new server was ready before the agent heard of it");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_is_answered_with_end_turn_is_a_cancel() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    for word in ["hang", "endturn"] {
        let accepted = world.prompt(&session, word).await;
        assert_eq!(world.view(&session).state, SessionState::Working);
        world.sessions.cancel(&session).await.unwrap();
        assert_eq!(world.ended(&session, &accepted.turn).await.reason, "cancelled");
    }
    world.sessions.cancel(&session).await.unwrap();
    assert_eq!(world.got("session/cancel").len(), 2, "nothing runs: nothing is cancelled");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_ignores_the_cancel_loses_its_turn_but_not_its_late_words() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let ignoring = world.prompt(&session, "ignore").await;
    world.sessions.cancel(&session).await.unwrap();
    assert_eq!(world.view(&session).state, SessionState::Cancelling);
    let began = std::time::Instant::now();
    assert_eq!(world.ended(&session, &ignoring.turn).await.reason, "cancelled");
    assert!(began.elapsed() < std::time::Duration::from_secs(4), "{:?}", began.elapsed());
    // Usable again while the agent still works at the old turn; what it says to the new prompt
    // belongs to that.
    let (next, ended) = world.turn(&session, "say fresh").await;
    assert_eq!(ended.reason, "end_turn");
    assert_eq!(world.texts(&session).await[1], "fresh");
    let mut late = 0;
    let mut reader = world.reader(&session);
    while late < 22 {
        if let Happening::Update { turn, update, .. } = reader.next().await
            && update.value()["content"]["text"]
                .as_str()
                .is_some_and(|text| text.starts_with("late"))
        {
            assert_eq!(turn.as_deref(), Some(ignoring.turn.as_str()));
            late += 1;
        }
    }
    assert_eq!(world.view(&session).state, SessionState::Idle);
    let texts = world.texts(&session).await;
    assert_eq!(texts.len(), 2);
    assert!(texts[1] == "fresh" && texts[0].contains("late 21"), "{texts:?}");
    assert_ne!(next.turn, ignoring.turn);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_never_answers_a_cancelled_turn_is_asked_and_heard_in_the_next() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let deaf = world.prompt(&session, "deaf").await;
    world.sessions.cancel(&session).await.unwrap();
    assert_eq!(world.ended(&session, &deaf.turn).await.reason, "cancelled");
    let accepted = world.prompt(&session, "ask").await;
    let asked = world.reader(&session).asked().await;
    assert_eq!(asked.turn.as_deref(), Some(accepted.turn.as_str()));
    world.sessions.permit(&session, &asked.request, "yes").await.unwrap();
    assert_eq!(world.ended(&session, &accepted.turn).await.reason, "end_turn");
    let texts = world.texts(&session).await;
    assert!(texts[0].is_empty() && texts[1].contains("yes"), "{texts:?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_characters_and_answers_without_form_end_their_turns() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let (_, ended) = world.turn(&session, "half").await;
    assert_eq!(ended.reason, "end_turn");
    assert_eq!(world.texts(&session).await, ["cut \u{fffd} here"]);
    let (_, ended) = world.turn(&session, "formless").await;
    assert_eq!(ended.reason, "error");
    assert!(ended.description.unwrap().contains("out of money"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_history_says_whether_there_is_more() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    for n in 1..=5 {
        world.turn(&session, &format!("say {n}")).await;
    }
    let page = |before, limit| SessionHistory { session: session.clone(), before, limit };
    let newest = world.sessions.history(page(None, Some(2))).await.unwrap();
    let numbers = |history: &History| history.turns.iter().map(|t| t.number).collect::<Vec<_>>();
    assert_eq!((numbers(&newest), newest.more), (vec![4, 5], true));
    assert!(newest.seq > 0);
    let older = world.sessions.history(page(Some(4), Some(3))).await.unwrap();
    assert_eq!((numbers(&older), older.more), (vec![1, 2, 3], false));
    let nobody = SessionHistory { session: "nobody".into(), before: None, limit: None };
    assert_eq!(world.sessions.history(nobody).await.unwrap_err().code, ErrorCode::NotFound);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_updates_arrive_whole_and_become_one_text() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    world.turn(&session, "say warm").await;
    let began = std::time::Instant::now();
    let accepted = world.prompt(&session, "count 20000").await;
    let accepted_after = began.elapsed();
    // The ring keeps half of them; the end is never dropped.
    assert_eq!(world.ended(&session, &accepted.turn).await.reason, "end_turn");
    let took = began.elapsed();
    println!("accepted after {accepted_after:?}, 20,000 updates in {took:?}");
    let all: String = (0..20_000).map(|n| format!("{n} ")).collect();
    assert_eq!(world.texts(&session).await[1], all);
    println!("history after {:?}", began.elapsed());
    world.end().await;
}
