//! Questions of an agent over HTTP: shown, checked, answered by a back end, on a terminal, or by
//! nobody.

use gantry_tests::{Instance, Stage, programs, wait_until};
use serde_json::{Value, json};
use std::{process::Stdio, time::Duration};

const BOUND: Duration = Duration::from_secs(20);

fn request(prompt: &str) -> Value {
    let mut agent = programs::fake_agent(json!({}));
    agent["offers"] = json!({ "questions": true });
    json!({ "project_id": "p", "prompt": prompt,
            "agent_config": { "agent_server": agent, "context_servers": {} } })
}

#[tokio::test]
async fn a_back_end_sees_a_form_and_answers_it() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let opened = instance.chat(request("QUESTION")).await;
    let session = opened["session_id"].as_str().unwrap().to_owned();
    let mut progress = instance.progress(&session).await;
    let asked =
        progress.until("the question", BOUND, |event| event.name == "question_request").await;
    assert_eq!(asked.data["messageType"], "questionRequest");
    let question = asked.data["data"].clone();
    assert_eq!((&question["mode"], &question["url"]), (&json!("form"), &Value::Null));
    let fields = &question["requestedSchema"]["properties"];
    assert_eq!(fields["colour"]["oneOf"][0]["title"], "Red", "{question}");
    let list = instance.api("sessions_list", json!({})).await;
    assert_eq!(list["sessions"][0]["state"], "waiting_for_you");
    assert_eq!(list["sessions"][0]["questions"][0]["request"], question["request"]);

    let answer = |content: Value| {
        json!({ "session": session, "request": question["request"], "action": "accept",
                "content": content })
    };
    let wrong = answer(json!({ "name": "Ada", "size": 12 }));
    let refused = instance.post("/api/session_answer", &wrong).await;
    assert_eq!(refused.body["error"]["code"], "VALIDATION_ERROR", "{refused:?}");
    assert_eq!(refused.body["error"]["message"], "content.size: must be at most 9");
    let right = json!({ "name": "Ada", "size": 7, "tags": ["two"], "api_key": "s3cret-of-ada" });
    instance.api("session_answer", answer(right)).await;
    assert_eq!(progress.end_of_turn(BOUND).await, "end_turn");
    assert!(progress.text().starts_with("accept {"), "{}", progress.text());
    let answered = progress.seen.iter().find(|event| event.name == "question_answered").unwrap();
    assert_eq!(answered.data["data"]["content"]["api_key"], "•••");
    let history = instance.api("session_history", json!({ "session": session })).await;
    let kept = &history["turns"][0]["questions"][0];
    assert_eq!((&kept["outcome"], &kept["content"]["size"]), (&json!("accept"), &json!(7)));
    // The agent got it, and nobody else has it from us.
    let traffic = instance.api("session_traffic", json!({ "session": session })).await;
    let ours = traffic["messages"].as_array().unwrap().iter();
    let ours: Vec<&Value> = ours.filter(|line| line["from_agent"] == false).collect();
    assert!(!json!(ours).to_string().contains("s3cret-of-ada"));
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_page_is_told_and_so_is_what_it_was_for() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let page = json!({ "mode": "url", "message": "Sign in", "elicitationId": "e1",
                       "url": "https://example.com/a?b=c" });
    let opened = instance.chat(request(&format!("QUESTION {page}\nCOMPLETE e1"))).await;
    let session = opened["session_id"].as_str().unwrap().to_owned();
    let mut progress = instance.progress(&session).await;
    let asked =
        progress.until("the question", BOUND, |event| event.name == "question_request").await;
    assert_eq!(asked.data["data"]["url"], "https://example.com/a?b=c");
    let answer = json!({ "session": session, "request": asked.data["data"]["request"],
                         "action": "accept" });
    instance.api("session_answer", answer).await;
    progress.until("its end", BOUND, |event| event.name == "question_completed").await;
    assert_eq!(progress.end_of_turn(BOUND).await, "end_turn");

    let evil = json!({ "mode": "url", "message": "x", "elicitationId": "e2",
                       "url": "javascript:alert(1)" });
    let (_, text) = instance.turn(request(&format!("QUESTION {evil}")), BOUND).await;
    assert!(text.starts_with("failed: "), "{text}");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_stop_and_a_quit_answer_an_open_question() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let open = async || {
        let opened = instance.chat(request("QUESTION")).await;
        let session = opened["session_id"].as_str().unwrap().to_owned();
        let mut progress = instance.progress(&session).await;
        progress.until("the question", BOUND, |event| event.name == "question_request").await;
        (session, progress)
    };
    let (session, mut progress) = open().await;
    instance.api("session_stop", json!({ "session": session })).await;
    assert_eq!(progress.end_of_turn(BOUND).await, "cancelled");
    let answered = progress.seen.iter().find(|event| event.name == "question_answered").unwrap();
    assert_eq!(answered.data["data"]["action"], "cancel");
    open().await;
    instance.quit().await;
    stage.empty_but(&[], Duration::from_millis(100)).await;
    stage.finish().await;
}

#[tokio::test]
async fn without_a_terminal_a_question_is_declined_and_that_is_said() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let config = json!({ "name": "Fake", "command": programs::path("fake_agent"),
                         "offers": { "questions": true } });
    instance.api("agents_save", json!({ "id": "fake", "config": config })).await;
    let mut command = stage.program("gantry");
    command.args(["chat", "--agent", "fake", "QUESTION"]);
    command.env("GANTRY_DATA_DIR", stage.data_dir()).env("GANTRY_LOGIN_SHELL", "no");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let said = tokio::time::timeout(BOUND, command.output()).await.unwrap().unwrap();
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "{err}");
    assert!(out.contains("decline null"), "{out}");
    assert!(err.contains("declined: Where shall it go? (nobody can be asked here)"), "{err}");
    // Its time limit is that of permissions.
    let mut timed = request("QUESTION");
    timed["permission_timeout_ms"] = json!(100);
    let opened = instance.chat(timed).await;
    let session = opened["session_id"].as_str().unwrap().to_owned();
    wait_until("the end of the question", BOUND, async || {
        let history = instance.api("session_history", json!({ "session": session })).await;
        let reason = history["turns"][0]["questions"][0]["reason"].as_str()?.to_owned();
        reason.contains("nobody answered within 0.1 s").then_some(())
    })
    .await;
    instance.quit().await;
    stage.finish().await;
}
