use super::{
    super::{model::Endpoint, models::Models},
    Desk, declared,
    server::{Server, endpoint, tool, wish, words},
    with_agent,
};
use agent_client_protocol::v1::schema::{
    NewSessionRequest, ResumeSessionRequest, SetSessionConfigOptionRequest, StopReason,
};
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
    let models = Models::set(Endpoint::new(&base, Some("key")).unwrap(), Some("a-model".into()));
    with_agent(models, async |desk| {
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
async fn an_endpoint_that_does_not_answer_does_not_hold_a_cancel() {
    let streams = vec![("silent", None), ("200 OK", Some(vec![words("On.")]))];
    with_model(streams, async |desk, server, requests| {
        let session = desk.open(vec![declared("s", server)]).await;
        let mut seen = requests.clone();
        let (reason, _) = tokio::join!(desk.prompt(&session, "think"), async {
            seen.wait_for(|requests| requests.len() == 1).await.unwrap();
            desk.cancel(&session);
        });
        assert_eq!(reason, StopReason::Cancelled);
        assert_eq!(desk.say(&session, "go on").await.0, "On.");
    })
    .await;
}

#[tokio::test]
async fn what_a_model_wants_at_once_happens_at_once_and_a_cancel_answers_all_of_it() {
    let two = json!({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "id": "1", "function": {"name": "write", "arguments": "{}"}},
        {"index": 1, "id": "2", "function": {"name": "write", "arguments": "{}"}},
    ]}, "finish_reason": "tool_calls"}]});
    let streams = vec![("200 OK", Some(vec![two])), ("200 OK", Some(vec![words("On.")]))];
    with_model(streams, async |desk, server, requests| {
        let session = desk.open(vec![declared("s", server)]).await;
        let mut asked = desk.asked.clone();
        let (reason, _) = tokio::join!(desk.prompt(&session, "write twice"), async {
            // Both questions are open before either is answered.
            let both = asked.wait_for(|asked| asked.len() == 2);
            tokio::time::timeout(super::PATIENCE, both).await.unwrap().unwrap();
            desk.cancel(&session);
        });
        assert_eq!(reason, StopReason::Cancelled);
        assert_eq!(desk.say(&session, "go on").await.0, "On.");
        let requests = requests.borrow();
        let messages = requests[1]["messages"].as_array().unwrap().iter();
        let answered: Vec<_> = messages.filter_map(|m| m["tool_call_id"].as_str()).collect();
        assert_eq!(answered, ["1", "2"]);
    })
    .await;
}

#[tokio::test]
async fn a_conversation_that_is_too_long_goes_on_without_its_oldest_results() {
    let long = "long ".repeat(100);
    let arguments = json!({"message": long}).to_string();
    let error = json!({"error": {"message": "This model's maximum context length is 10 tokens."}});
    let streams = vec![
        ("200 OK", Some(vec![wish("1", "echo", &arguments)])),
        ("400 Bad Request", Some(vec![error.clone()])),
        ("200 OK", Some(vec![words("Still here.")])),
        ("400 Bad Request", Some(vec![error])),
    ];
    with_model(streams, async |desk, server, requests| {
        let session = desk.open(vec![declared("s", server)]).await;
        let (said, _) = desk.say(&session, "echo a lot").await;
        assert!(said.contains("1 oldest tool result") && said.ends_with("Still here."), "{said}");
        {
            let requests = requests.borrow();
            let result = |request: usize| requests[request]["messages"][3]["content"].clone();
            assert_eq!(result(1), format!("Echo: {long}"));
            assert!(result(2).as_str().unwrap().starts_with("(left out"), "{}", result(2));
        }
        // Nothing is left to leave out: the endpoint's words are shown.
        let (said, _) = desk.say(&session, "more").await;
        assert!(said.contains("maximum context length is 10"), "{said}");
    })
    .await;
}

#[tokio::test]
async fn the_endpoint_s_models_are_offered_and_the_choice_is_kept() {
    let streams = vec![("200 OK", Some(vec![words("A.")])), ("200 OK", Some(vec![words("B.")]))];
    with_model(streams, async |desk, _, requests| {
        let request = NewSessionRequest::new(std::env::temp_dir());
        let opened = desk.agent.send_request(request).block_task().await.unwrap();
        let options = serde_json::to_value(&opened.config_options).unwrap();
        assert_eq!(options[0]["category"], "model", "{options}");
        assert_eq!(options[0]["currentValue"], "a-model", "{options}");
        let session = opened.session_id;
        desk.say(&session, "one").await;
        let choose = |value: &'static str| {
            let request = SetSessionConfigOptionRequest::new(session.clone(), "model", value);
            desk.agent.send_request(request).block_task()
        };
        let chosen = serde_json::to_value(choose("b-model").await.unwrap()).unwrap();
        assert_eq!(chosen["configOptions"][0]["currentValue"], "b-model", "{chosen}");
        assert!(choose("no-model").await.is_err());
        desk.say(&session, "two").await;
        let names: Vec<Value> = requests.borrow().iter().map(|r| r["model"].clone()).collect();
        assert_eq!(names, ["a-model", "b-model"]);
    })
    .await;
}

#[tokio::test]
async fn an_ollama_that_runs_here_is_offered_and_used_when_it_is_chosen() {
    let scope = Scope::root("fixture");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (base, requests) = endpoint(&scope, vec![("200 OK", Some(vec![words("Hi.")]))]).await;
    let host = base.trim_end_matches("/v1/").to_owned();
    with_agent(Models::ollama(Some(&host)), async |desk| {
        desk.initialize().await;
        let session = desk.open(vec![]).await;
        let (said, _) = desk.say(&session, "hello").await;
        assert!(said.contains("Ollama runs on this computer with `a-model`, `b-model`"), "{said}");
        assert!(requests.borrow().is_empty(), "nothing is sent to it before it is chosen");
        let request =
            SetSessionConfigOptionRequest::new(session.clone(), "model", "ollama/b-model");
        desk.agent.send_request(request).block_task().await.unwrap();
        assert_eq!(desk.say(&session, "hello").await.0, "Hi.");
        assert_eq!(requests.borrow()[0]["model"], "b-model");
    })
    .await;
    assert_eq!(scope.close(Deadline::after(super::PATIENCE)).await, Vec::<String>::new());
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

#[tokio::test]
async fn an_answer_that_breaks_off_is_said_to_and_stays_in_the_conversation() {
    let streams =
        vec![("cut", Some(vec![words("Half a ")])), ("200 OK", Some(vec![words("Whole.")]))];
    with_model(streams, async |desk, _, requests| {
        let session = desk.open(Vec::new()).await;
        let (said, _) = desk.say(&session, "tell me").await;
        assert!(said.starts_with("Half a ") && said.contains("broke off"), "{said}");
        assert_eq!(desk.say(&session, "go on").await.0, "Whole.");
        let requests = requests.borrow();
        assert_eq!(requests[1]["messages"][2], json!({"role": "assistant", "content": "Half a "}));
    })
    .await;
}

#[tokio::test]
async fn a_key_that_the_endpoint_repeats_is_not_shown() {
    let refusal = json!({"error": {"message": "wrong key: the-key-of-mine"}});
    let scope = Scope::root("fixture");
    let (base, _requests) = endpoint(&scope, vec![("401 Unauthorized", Some(vec![refusal]))]).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let endpoint = Endpoint::new(&base, Some("the-key-of-mine")).unwrap();
    with_agent(Models::set(endpoint, Some("m".into())), async |desk| {
        desk.initialize().await;
        let session = desk.open(Vec::new()).await;
        let (said, _) = desk.say(&session, "hi").await;
        assert!(said.contains("wrong key: •••"), "{said}");
    })
    .await;
    scope.close(Deadline::after(super::PATIENCE)).await;
}
