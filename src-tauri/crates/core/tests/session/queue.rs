use crate::world::*;
use gantry_core::{
    ErrorCode,
    session::{EngineRules, SessionLimits},
    wire::*,
};
use gantry_supervisor::Deadline;
use serde_json::json;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn queued_prompts_are_seen_changed_dropped_and_sent_now() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let running = world.prompt(&session, "hang").await;
    let one = world.queue(&session, "say one").await;
    let two = world.queue(&session, "say two").await;
    let three = world.queue(&session, "say three").await;
    let texts = |view: &SessionView| view.queue.iter().map(|q| q.text.clone()).collect::<Vec<_>>();
    assert_eq!(texts(&world.view(&session)), ["say one", "say two", "say three"]);

    let at = |turn: &str| QueuedTurn { session: session.clone(), turn: turn.to_owned() };
    let edit = |turn: &str, text: &str| QueueEdit {
        session: session.clone(),
        turn: turn.to_owned(),
        text: text.to_owned(),
    };
    world.sessions.edit_queued(&edit(&two, "say zwei")).await.unwrap();
    let empty = world.sessions.edit_queued(&edit(&one, " ")).await.unwrap_err();
    assert_eq!(empty.code, ErrorCode::ValidationError);
    assert_eq!(texts(&world.view(&session)), ["say one", "say zwei", "say three"]);
    world.sessions.drop_queued(&at(&one)).await.unwrap();
    let dropped = world.ended(&session, &one).await;
    assert_eq!(dropped.reason, "cancelled");
    assert!(dropped.description.unwrap().contains("taken out"));
    world.sessions.send_queued(&at(&three)).unwrap();
    assert_eq!(world.ended(&session, &running.turn).await.reason, "cancelled");
    assert_eq!(world.ended(&session, &three).await.reason, "end_turn");
    assert_eq!(world.ended(&session, &two).await.reason, "end_turn");
    let sent: Vec<_> = world
        .got("session/prompt")
        .iter()
        .map(|params| params["prompt"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(sent, ["hang", "say three", "say zwei"]);
    assert!(world.view(&session).queue.is_empty());
    let gone = world.sessions.edit_queued(&edit(&two, "late")).await.unwrap_err();
    assert_eq!(gone.code, ErrorCode::NotFound);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_prompt_with_the_same_configuration_defers_nothing() {
    let world = World::new().await;
    let session = world.create("http", vec![world.server("a", 0.0)]).await;
    world.prompt(&session, "hang").await;
    let mut same = World::prompt_of("say same");
    same.queue = true;
    same.servers = Some(Some(vec![world.server("a", 0.0)]));
    same.agent = Some(world.agent("http"));
    let accepted = world.sessions.prompt(&session, same).await.unwrap();
    assert_eq!(accepted.engine, EngineOutcome::Reused);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_is_shown_once_and_ends_with_the_next_word() {
    let limits =
        SessionLimits { quiet_after: Duration::from_millis(300), ..SessionLimits::default() };
    let world = World::with_limits(limits).await;
    let session = world.create("http", Vec::new()).await;
    let mut reader = world.reader(&session);
    let turn = world.prompt(&session, "hang").await.turn;
    world.until("silence", || world.view(&session).quiet_since.is_some()).await;
    let began = world.turns(&session).await[0].started_at;
    assert!(world.view(&session).quiet_since.unwrap() >= began);
    world.sessions.cancel(&session).await.unwrap();
    world.ended(&session, &turn).await;
    assert_eq!(world.view(&session).quiet_since, None);
    // A turn that waits for the user is not quiet.
    let asked = world.prompt(&session, "ask edit").await;
    let request = reader.asked().await;
    // Another one that says nothing since is seen to be quiet, and this one is not.
    let other = world.create("http", Vec::new()).await;
    let silent = world.prompt(&other, "hang").await.turn;
    world.until("silence", || world.view(&other).quiet_since.is_some()).await;
    assert_eq!(world.view(&session).quiet_since, None);
    world.sessions.cancel(&other).await.unwrap();
    world.ended(&other, &silent).await;
    world.sessions.permit(&session, &request.request, "yes").await.unwrap();
    world.ended(&session, &asked.turn).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_keeps_receipts_answers_times_and_usage() {
    let world = World::new().await;
    let session = world.create("http", vec![world.server("a", 0.0)]).await;
    world.turn(&session, "tool").await;
    let asked = world.prompt(&session, "ask execute").await;
    let request = world.reader(&session).asked().await;
    world.sessions.permit(&session, &request.request, "no").await.unwrap();
    world.ended(&session, &asked.turn).await;
    let cancelled = world.prompt(&session, "askafter").await;
    world.sessions.cancel(&session).await.unwrap();
    world.ended(&session, &cancelled.turn).await;
    world.turn(&session, "withdraw").await;
    let mut all = World::prompt_of("ask edit");
    all.policy = Some(Policy::All);
    let allowed = world.sessions.prompt(&session, all).await.unwrap();
    world.ended(&session, &allowed.turn).await;

    let world = world.restarted().await;
    let turns = world.turns(&session).await;
    let opening = turns[0].opening.as_ref().unwrap();
    assert_eq!((opening.engine, opening.context), (EngineOutcome::Started, ContextOutcome::New));
    assert_eq!((opening.servers[0].name.as_str(), opening.servers[0].via), ("a", Via::Bridge));
    assert_eq!(turns[1].opening.as_ref().unwrap().context, ContextOutcome::Kept);
    let times = turns[0].tools["t1"];
    assert!(times.ended_at.unwrap() >= times.started_at && times.started_at >= turns[0].started_at);
    assert_eq!(turns[0].usage, Some(json!({"totalTokens": 7})));
    assert_eq!(turns[0].updates.len(), 2, "notes of ours are no updates");
    let answers: Vec<_> = turns
        .iter()
        .flat_map(|turn| &turn.permissions)
        .map(|answer| (answer.outcome.as_str(), answer.reason.as_deref()))
        .collect();
    assert_eq!(
        answers,
        [
            ("no", None),
            ("cancelled", Some("asked after the turn was cancelled")),
            ("cancelled", Some("the agent took it back")),
            ("yes", Some("allowed by the session's policy")),
        ]
    );
    assert_eq!(turns[1].permissions[0].asked.tool_call["rawInput"]["x"], 1);
    assert_eq!(world.texts(&session).await[3], "error -32800");

    let file = SessionExport { session: session.clone(), format: ExportFormat::Markdown };
    let file = world.sessions.export(&file).await.unwrap();
    assert_eq!(file.name, "tool.md");
    assert!(file.text.contains("## 2. You\n\nask execute") && file.text.contains("**Tool: Look**"));
    let file = SessionExport { session: session.clone(), format: ExportFormat::Json };
    let file = world.sessions.export(&file).await.unwrap();
    let all: serde_json::Value = serde_json::from_str(&file.text).unwrap();
    assert_eq!(all["turns"].as_array().unwrap().len(), 5);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_engine_ends_and_comes_back_with_the_next_prompt() {
    let world = World::new().await;
    let loads = world.create("http,load", vec![world.server("a", 0.0)]).await;
    let beside = world.create("http,load", Vec::new()).await;
    world.turn(&loads, "say one").await;
    world.turn(&beside, "say one").await;
    assert_eq!(world.view(&loads).engine.unwrap().sessions, 2);
    let busy = world.prompt(&beside, "hang").await;
    // An engine of its own, that nobody uses since.
    let apart = world.create("http", Vec::new()).await;
    world.turn(&apart, "say one").await;
    let idle = |span| EngineRules { idle: Some(span), ..EngineRules::default() };
    world.sessions.set_rules(idle(Duration::from_millis(200)));
    // One of its sessions works: the engine stays, and the other one ends.
    world.until_state(&apart, SessionState::Stopped).await;
    assert_eq!(world.view(&loads).state, SessionState::Idle);
    world.sessions.cancel(&beside).await.unwrap();
    world.ended(&beside, &busy.turn).await;
    for session in [&loads, &beside] {
        world.until_state(session, SessionState::Stopped).await;
        assert_eq!(world.view(session).restorable, Some(true));
    }
    world.no_survivors().await;
    assert!(world.sessions.engines().is_empty());

    world.sessions.set_rules(EngineRules { idle: None, ..EngineRules::default() });
    let (accepted, _) = world.turn(&loads, "say two").await;
    assert_eq!(
        (accepted.engine, accepted.context),
        (EngineOutcome::Started, ContextOutcome::Restored)
    );
    assert_eq!(world.texts(&loads).await, ["one", "two"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_engine_waits_for_the_next_session_and_no_longer_than_it_may() {
    let world = World::new().await;
    let rules = EngineRules { warm: 1, ..EngineRules::default() };
    world.sessions.set_rules(rules);
    let stop = async |session: &str| {
        let deadline = Deadline::after(Duration::from_secs(8));
        world.sessions.stop_warm(session, deadline).await.unwrap()
    };
    let first = world.create("http", vec![world.server("a", 0.0)]).await;
    let beside = world.create("http", Vec::new()).await;
    world.turn(&first, "say one").await;
    world.turn(&beside, "say one").await;
    let before = world.view(&first).engine.unwrap().pid;
    // One of two leaves: its engine goes on.
    assert!(!stop(&beside).await.engine_stopped);
    assert_eq!(world.sessions.engines().len(), 1);
    let stopped = stop(&first).await;
    assert!(stopped.engine_stopped && stopped.servers_stopped == ["a"]);
    // A new process, which has been asked for nothing but `initialize`.
    let waits = |world: &World| {
        world.sessions.engines().first().is_some_and(|engine| engine.sessions.is_empty())
    };
    world.until("a warm engine", || waits(&world)).await;
    let opened = world.got("session/new").len();
    world.until("its initialize", || world.got("initialize").len() == 2).await;
    let (accepted, _) = world.turn(&first, "say two").await;
    assert_eq!(accepted.engine, EngineOutcome::Reused);
    assert_eq!(world.got("initialize").len(), 2, "no other was started");
    assert!(world.view(&first).engine.unwrap().pid != before);
    assert!(world.got("session/new").len() > opened || accepted.context != ContextOutcome::Lost);

    // Of two agents the one that was used last.
    let other = world.create("http,load", Vec::new()).await;
    world.turn(&other, "say one").await;
    stop(&first).await;
    stop(&other).await;
    let agents = || -> Vec<String> {
        world.sessions.engines().into_iter().map(|engine| engine.agent).collect()
    };
    world.until("one warm engine", || agents().len() == 1).await;
    let (accepted, _) = world.turn(&other, "say two").await;
    assert_eq!(accepted.engine, EngineOutcome::Reused);

    // Its folder is another one now: it would work in what was removed.
    stop(&other).await;
    world.until("a warm engine", || waits(&world)).await;
    let project = world.dir.path().join("project");
    std::fs::rename(&project, project.with_extension("before")).unwrap();
    std::fs::create_dir(&project).unwrap();
    let (accepted, _) = world.turn(&other, "say anew").await;
    assert_eq!(accepted.engine, EngineOutcome::Started);

    // It ends with its time, and with its agent.
    stop(&other).await;
    world.until("a warm engine", || waits(&world)).await;
    let agent = agents().remove(0);
    world.sessions.end_warm("another").await;
    assert!(waits(&world));
    world.sessions.end_warm(&agent).await;
    assert!(world.sessions.engines().is_empty());
    world.no_survivors().await;
    // What is not meant to be gone on with is not followed by anything, and what was started
    // before its agent was changed neither.
    world.turn(&other, "say more").await;
    world.stop(&other).await;
    assert!(world.sessions.engines().is_empty());
    world.turn(&other, "say more").await;
    world.sessions.end_warm(&agent).await;
    stop(&other).await;
    assert!(world.sessions.engines().is_empty());
    world.turn(&other, "say three").await;
    stop(&other).await;
    world.until("a warm engine", || waits(&world)).await;
    // Their owner ends all that is his.
    let deadline = Deadline::after(Duration::from_secs(8));
    world.sessions.end_warm_beside(&[world.view(&other)], deadline).await;
    assert!(world.sessions.engines().is_empty());
    world.no_survivors().await;
    world.turn(&other, "say four").await;
    stop(&other).await;
    world.until("a warm engine", || waits(&world)).await;
    world.sessions.set_rules(EngineRules { idle: Some(Duration::from_millis(200)), ..rules });
    world.until("its end", || world.sessions.engines().is_empty()).await;
    world.no_survivors().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_session_can_have_an_engine_of_its_own() {
    let world = World::new().await;
    world.sessions.set_rules(EngineRules { one_per_session: true, ..EngineRules::default() });
    let one = world.create("http", Vec::new()).await;
    let two = world.create("http", Vec::new()).await;
    world.turn(&one, "say one").await;
    world.turn(&two, "say two").await;
    assert_eq!(world.sessions.engines().len(), 2);
    let (a, b) = (world.view(&one).engine.unwrap(), world.view(&two).engine.unwrap());
    assert!(a.pid != b.pid && a.sessions == 1 && b.sessions == 1);
    assert!(world.stop(&one).await.engine_stopped);
    assert_eq!(world.view(&two).engine.unwrap().pid, b.pid);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_sessions_of_an_engine_learn_who_is_there() {
    let world = World::new().await;
    let one = world.create("http", Vec::new()).await;
    let two = world.create("http", Vec::new()).await;
    world.turn(&one, "say one").await;
    let (_, mut events) = world.events.subscribe();
    world.turn(&two, "say two").await;
    let mut counts = Vec::new();
    let mut is_stopped = false;
    // What its own turn had to tell may still be on the way.
    while !counts.ends_with(&[2, 1]) {
        // Several changes in a short time are told as one.
        if counts.ends_with(&[2]) && !is_stopped {
            world.stop(&two).await;
            is_stopped = true;
        }
        let next = tokio::time::timeout(LIMIT, events.recv()).await.expect("it was not told");
        if let Happening::SessionChanged { session } = &next.unwrap().what
            && session.id == one
        {
            counts.extend(session.engine.as_ref().map(|engine| engine.sessions));
            counts.dedup();
        }
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_session_is_resumed_ahead_and_says_what_was_lost() {
    let world = World::new().await;
    let forgets = world.create("http", Vec::new()).await;
    let loads = world.create("http,load", Vec::new()).await;
    for session in [&forgets, &loads] {
        world.turn(session, "say one").await;
    }
    let world = world.restarted().await;
    assert_eq!(world.view(&forgets).restorable, Some(false), "told before the prompt is sent");
    assert_eq!(world.view(&loads).restorable, Some(true));
    for (session, context) in [(&forgets, ContextOutcome::Lost), (&loads, ContextOutcome::Restored)]
    {
        let view = world.sessions.resume(session).await.unwrap();
        assert_eq!(view.state, SessionState::Starting);
        world.until_state(session, SessionState::Idle).await;
        assert_eq!(world.view(session).context, Some(context));
        assert_eq!(world.sessions.resume(session).await.unwrap().state, SessionState::Idle);
        let (accepted, _) = world.turn(session, "say two").await;
        assert_eq!(accepted.context, context, "the first prompt tells it");
        let (accepted, _) = world.turn(session, "say three").await;
        assert_eq!(accepted.context, ContextOutcome::Kept);
    }
    assert_eq!(world.got("session/new").len(), 3);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_up_is_taken_back_and_what_is_deleted_is_deleted_there_too() {
    let world = World::new().await;
    let slow = world.create("http,slow", Vec::new()).await;
    let waiting = world.try_prompt(&slow, "say no");
    let stop = async {
        world.until("session/new", || !world.got("session/new").is_empty()).await;
        world.sessions.cancel(&slow).await.unwrap();
    };
    let (refused, ()) = futures::future::join(waiting, stop).await;
    assert!(refused.is_err());
    world.until("the request back", || !world.got("$/cancel_request").is_empty()).await;

    let session = world.create("http,delete", Vec::new()).await;
    world.turn(&session, "say one").await;
    let acp = world.view(&session).acp_session_id.unwrap();
    world.sessions.delete(&session, soon(Duration::from_secs(5))).await.unwrap();
    assert_eq!(world.got("session/delete")[0]["sessionId"], acp);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_not_sent_when_the_session_is_deleted_or_gantry_ends() {
    let world = World::new().await;
    let deleted = world.create("http", Vec::new()).await;
    let kept = world.create("http", Vec::new()).await;
    for session in [&deleted, &kept] {
        world.prompt(session, "hang").await;
        world.queue(session, "say never").await;
    }
    world.sessions.delete(&deleted, soon(Duration::from_secs(5))).await.unwrap();
    let world = world.restarted().await;
    assert_eq!(world.got("session/prompt").len(), 2);
    let turns = world.turns(&kept).await;
    let ends: Vec<_> = turns.iter().map(|turn| turn.stop_reason.as_deref().unwrap()).collect();
    assert_eq!(ends, ["cancelled", "cancelled"]);
    assert!(turns[1].description.as_deref().unwrap().contains("was quit"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_frees_a_session_whose_agent_does_not_read() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    world.turn(&session, "say first").await;
    let pid = world.view(&session).engine.unwrap().pid.to_string();
    let signal = |name: &str| {
        std::process::Command::new("kill").args([name, &pid]).status().unwrap();
    };
    signal("-STOP");
    let long = format!("say {}", "x".repeat(3_000_000));
    let prompt = world.prompt(&session, &long);
    let cancel = async {
        world.until_state(&session, SessionState::Working).await;
        world.sessions.cancel(&session).await.unwrap();
    };
    let (accepted, ()) = futures::join!(prompt, cancel);
    assert_eq!(world.ended(&session, &accepted.turn).await.reason, "cancelled");
    world.until_state(&session, SessionState::Idle).await;
    signal("-CONT");
    world.end().await;
}
