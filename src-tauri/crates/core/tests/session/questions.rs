use crate::world::*;
use gantry_core::{ErrorCode, wire::*};
use serde_json::{Map, Value, json};
use std::time::Duration;

impl World {
    /// A session whose agent may ask the user.
    async fn asking(&self, can: &str) -> String {
        self.create_with(|new| {
            new.agent = self.agent(can);
            new.agent.offers.questions = true;
        })
        .await
    }

    fn answer(
        &self,
        session: &str,
        request: &str,
        action: QuestionAction,
        content: Value,
    ) -> gantry_core::Result<()> {
        let content = content.as_object().cloned();
        let (session, request) = (session.to_owned(), request.to_owned());
        self.sessions.answer(SessionAnswer { session, request, action, content })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_shown_its_values_are_checked_and_reach_the_agent_and_the_history() {
    let world = World::new().await;
    let session = world.asking("http").await;
    let accepted = world.prompt(&session, "question form").await;
    world.until_state(&session, SessionState::WaitingForYou).await;
    let view = world.view(&session);
    let question = &view.questions[0];
    assert_eq!(question.turn.as_deref(), Some(accepted.turn.as_str()));
    assert_eq!((question.mode, question.tool_call.as_deref()), (QuestionMode::Form, Some("t1")));
    assert_eq!(question.schema.as_ref().unwrap()["required"], json!(["name"]));
    let accept = QuestionAction::Accept;
    for wrong in [json!({}), json!({"name": "x"}), json!({"name": "ok", "new": 1})] {
        let error = world.answer(&session, &question.request, accept, wrong).unwrap_err();
        assert_eq!(error.code, ErrorCode::ValidationError);
        assert!(error.message.starts_with("content."), "{}", error.message);
    }
    let values = json!({"name": "Ada", "api_key": "s3cret-value"});
    world.answer(&session, &question.request, accept, values).unwrap();
    let again = world.answer(&session, &question.request, accept, json!({})).unwrap_err();
    assert_eq!(again.code, ErrorCode::NotFound);
    world.ended(&session, &accepted.turn).await;
    let said = &world.texts(&session).await[0];
    assert!(said.contains("accept") && said.contains("s3cret-value"), "{said}");
    assert!(world.view(&session).questions.is_empty());
    // The agent itself repeats the secret; what is ours does not hold it.
    let turns = world.turns(&session).await;
    let kept = &turns[0].questions[0];
    assert_eq!(kept.outcome, QuestionAction::Accept);
    let content: Map<String, Value> = kept.content.clone().unwrap();
    assert_eq!((&content["name"], &content["api_key"]), (&json!("Ada"), &json!("•••")));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_opened_declined_or_done_already_and_its_completion_is_told() {
    let world = World::new().await;
    let session = world.asking("http").await;
    let mut reader = world.reader(&session);
    let accepted = world.prompt(&session, "question url").await;
    let question = reader.question().await;
    assert_eq!(question.mode, QuestionMode::Url);
    assert_eq!(question.url.as_deref(), Some("https://example.com/sign-in"));
    world.answer(&session, &question.request, QuestionAction::Accept, Value::Null).unwrap();
    loop {
        if let Happening::QuestionCompleted { request, .. } = reader.next().await {
            assert_eq!(request, question.request);
            break;
        }
    }
    world.ended(&session, &accepted.turn).await;

    let accepted = world.prompt(&session, "question url").await;
    let question = reader.question().await;
    world.answer(&session, &question.request, QuestionAction::Decline, Value::Null).unwrap();
    world.ended(&session, &accepted.turn).await;

    // The agent is faster than the user.
    let accepted = world.prompt(&session, "complete").await;
    world.ended(&session, &accepted.turn).await;
    let texts = world.texts(&session).await;
    assert_eq!(texts, ["accept null", "decline null", "accept null"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancels_stops_time_and_the_agent_itself_end_a_question() {
    let world = World::new().await;
    let session = world.asking("http").await;
    let mut reader = world.reader(&session);

    // By a cancel, before the agent hears of it.
    let accepted = world.prompt(&session, "question form").await;
    reader.question().await;
    world.sessions.cancel(&session).await.unwrap();
    let answered = reader.answered().await;
    assert_eq!(answered.outcome, QuestionAction::Cancel);
    assert!(answered.reason.unwrap().contains("cancelled"));
    assert_eq!(world.ended(&session, &accepted.turn).await.reason, "cancelled");
    let log = world.log();
    let answer = log.iter().position(|line| line["got"]["result"]["action"] == "cancel");
    let cancel = log.iter().position(|line| line["got"]["method"] == "session/cancel");
    assert!(answer.unwrap() < cancel.unwrap());

    // One that comes after it.
    let accepted = world.prompt(&session, "questionafter").await;
    world.sessions.cancel(&session).await.unwrap();
    let answered = reader.answered().await;
    assert!(answered.reason.unwrap().contains("after the turn was cancelled"));
    world.ended(&session, &accepted.turn).await;

    // By time.
    let prompt = gantry_core::session::Prompt {
        permission_timeout: Some(Duration::from_millis(50)),
        ..World::prompt_of("question form")
    };
    let accepted = world.sessions.prompt(&session, prompt).await.unwrap();
    let answered = reader.answered().await;
    assert!(answered.reason.unwrap().contains("nobody answered within 0.05 s"));
    world.ended(&session, &accepted.turn).await;

    // By the agent; and what it cannot be shown as is refused.
    for word in ["takeback form", "question odd"] {
        let accepted = world.prompt(&session, word).await;
        world.ended(&session, &accepted.turn).await;
    }
    let texts = world.texts(&session).await;
    assert_eq!(texts[3..], ["error -32800", "error -32602"]);

    // By a stop.
    world.prompt(&session, "question form").await;
    world.until_state(&session, SessionState::WaitingForYou).await;
    world.stop(&session).await;
    let mut last = reader.answered().await;
    // The one that was taken back comes before it.
    if last.reason.as_deref() == Some("the agent took it back") {
        last = reader.answered().await;
    }
    assert_eq!(last.outcome, QuestionAction::Cancel);
    assert!(world.view(&session).questions.is_empty());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_sign_in_is_asked_in_the_session_that_signs_in() {
    let world = World::new().await;
    let session = world.asking("http,auth,question").await;
    let sessions = world.sessions.clone();
    let input = SessionAuthenticate { session: session.clone(), method: "browser".into() };
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { sessions.authenticate(input).await });
    world.until("the question", || !world.view(&session).questions.is_empty()).await;
    let request = world.view(&session).questions[0].request.clone();
    world.answer(&session, &request, QuestionAction::Accept, json!({"name": "Ada"})).unwrap();
    let signed_in = tasks.join_next().await.unwrap().unwrap().unwrap();
    assert!(signed_in.done);
    assert!(world.view(&session).questions.is_empty());
    world.until_state(&session, SessionState::Idle).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_not_offered_questions_is_answered_cancel_and_nobody_is_bothered() {
    let world = World::new().await;
    let session = world.create("http", Vec::new()).await;
    let (_, ended) = world.turn(&session, "question form").await;
    assert_eq!(ended.reason, "end_turn");
    assert_eq!(world.texts(&session).await[0], "cancel null");
    let initialize = &world.got("initialize")[0];
    assert!(initialize["clientCapabilities"].get("elicitation").is_none(), "{initialize}");
    world.end().await;
}
