use super::{
    super::model::Model,
    Desk, declared,
    server::{Server, endpoint, tool, wish, words},
    with_agent,
};
use agent_client_protocol::v1::schema::{ResumeSessionRequest, StopReason};
use gantry_supervisor::{Deadline, Scope};
use serde_json::{Value, json};
use tokio::sync::watch;

async fn with_model<F>(streams: Vec<(&'static str, Option<Vec<Value>>)>, test: F)
where
    F: AsyncFnOnce(Desk, &Server, watch::Receiver<Vec<Value>>),
{
    let scope = Scope::root("fixture");
    let server = Server::start(&scope, json!([tool("echo", true), tool("write", false)])).await;
    let (base, requests) = endpoint(&scope, streams).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let model = Model::new(&base, Some("key"), "a-model".into()).unwrap();
    with_agent(Some(model), async |desk| {
        desk.initialize().await;
        test(desk, &server, requests).await;
    })
    .await;
    assert_eq!(scope.close(Deadline::after(super::PATIENCE)).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_model_gets_its_tools_called_and_the_results() {
    let streams = vec![
        (
            "200 OK",
            Some(vec![words("Let me "), words("see. "), wish("w1", "echo", r#"{"message":"hi"}"#)]),
        ),
        ("200 OK", Some(vec![words("It said hi.")])),
        ("200 OK", Some(vec![words("Again.")])),
    ];
    with_model(streams, async |desk, server, requests| {
        let session = desk.open(vec![declared("s", server)]).await;
        assert_eq!(desk.say(&session, "what does echo say?").await.0, "Let me see. It said hi.");
        assert_eq!(desk.updates("tool_call")[0]["rawInput"], json!({"message": "hi"}));
        {
            let requests = requests.borrow();
            assert_eq!(requests[0]["model"], "a-model");
            assert_eq!(requests[0]["tools"][0]["function"]["name"], "echo");
            assert_eq!(requests[0]["tools"][0]["function"]["parameters"]["type"], "object");
            let messages = requests[1]["messages"].as_array().unwrap();
            let roles: Vec<_> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
            assert_eq!(roles, ["system", "user", "assistant", "tool"]);
            assert_eq!(
                messages[3],
                json!({"role": "tool", "tool_call_id": "w1", "content": "Echo: hi"})
            );
        }
        assert_eq!(desk.say(&session, "and again?").await.0, "Again.");
        assert_eq!(requests.borrow()[2]["messages"].as_array().unwrap().len(), 6, "it remembers");
        assert!(desk.say(&session, "/tools").await.0.contains("`echo`"), "commands still work");
        assert_eq!(requests.borrow().len(), 3);
    })
    .await;
}

#[tokio::test]
async fn a_model_hears_of_rejections_unknown_tools_and_broken_arguments() {
    let streams = vec![
        ("200 OK", Some(vec![wish("1", "write", "{}")])),
        ("200 OK", Some(vec![wish("2", "nothing", "{}")])),
        ("200 OK", Some(vec![wish("3", "echo", "{broken")])),
        ("200 OK", Some(vec![words("Sorry.")])),
    ];
    with_model(streams, async |desk, server, requests| {
        let session = desk.open(vec![declared("s", server)]).await;
        *desk.answer.lock().unwrap() = Some("reject_once");
        assert_eq!(desk.say(&session, "do it").await.0, "Sorry.");
        let requests = requests.borrow();
        let told: Vec<&str> = requests[3]["messages"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|m| m["role"] == "tool")
            .map(|m| m["content"].as_str().unwrap())
            .collect();
        assert!(told[0].contains("rejected"), "{told:?}");
        assert!(told[1].contains("no tool named nothing"), "{told:?}");
        assert!(told[2].contains("not valid JSON"), "{told:?}");
        assert!(!server.seen.borrow().methods.contains(&"tools/call".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn a_stream_can_be_cancelled_and_what_was_said_is_kept() {
    let streams = vec![("200 OK", None), ("200 OK", Some(vec![words("On.")]))];
    with_model(streams, async |desk, server, requests| {
        let session = desk.open(vec![declared("s", server)]).await;
        let (reason, _) = tokio::join!(desk.prompt(&session, "think"), async {
            desk.update("words", |u| u["content"]["text"] == "thinking").await;
            desk.cancel(&session);
        });
        assert_eq!(reason, StopReason::Cancelled);
        assert_eq!(desk.say(&session, "go on").await.0, "On.");
        let requests = requests.borrow();
        assert_eq!(requests[1]["messages"][2], json!({"role": "assistant", "content": "thinking"}));
    })
    .await;
}

#[tokio::test]
async fn the_endpoint_s_errors_are_shown_in_its_words() {
    let error = json!({"error": {"message": "model `a-model` not found"}});
    with_model(vec![("404 Not Found", Some(vec![error]))], async |desk, _, _| {
        let session = desk.open(vec![]).await;
        let (said, _) = desk.say(&session, "hello").await;
        assert!(said.contains("404 Not Found: model `a-model` not found"), "{said}");
        assert!(!said.contains("key"), "{said}");
    })
    .await;
}

#[tokio::test]
async fn a_conversation_that_is_lost_is_not_pretended() {
    with_model(vec![], async |desk, _, _| {
        let request = ResumeSessionRequest::new("unknown", std::env::temp_dir());
        let error = desk.agent.send_request(request).block_task().await.unwrap_err();
        assert_eq!(i32::from(error.code), -32002);
    })
    .await;
}
