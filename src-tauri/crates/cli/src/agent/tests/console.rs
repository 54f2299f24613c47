use super::{
    super::models::Models,
    Desk, declared,
    server::{Server, tool},
    with_agent,
};
use agent_client_protocol::v1::schema::{
    CloseSessionRequest, ListSessionsRequest, LoadSessionRequest, McpServer, McpServerHttp,
    McpServerStdio, PromptRequest, ResumeSessionRequest, StopReason,
};
use gantry_supervisor::{Deadline, Scope};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// A test with one server that has these tools.
async fn with_server<F: AsyncFnOnce(Desk, &Server)>(tools: Value, test: F) {
    let scope = Scope::root("fixture");
    let server = Server::start(&scope, tools).await;
    with_agent(Models::none(), async |desk| {
        desk.initialize().await;
        test(desk, &server).await;
    })
    .await;
    assert_eq!(scope.close(Deadline::after(super::PATIENCE)).await, Vec::<String>::new());
}

fn statuses(desk: &Desk) -> Vec<String> {
    let updates = desk.updates("tool_call_update");
    updates.iter().filter_map(|u| u["status"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn it_says_what_it_can_do() {
    with_agent(Models::none(), async |desk| {
        let answer = serde_json::to_value(desk.initialize().await).unwrap();
        let capabilities = &answer["agentCapabilities"];
        assert_eq!(answer["protocolVersion"], 1);
        assert_eq!(capabilities["loadSession"], true);
        assert_eq!(capabilities["mcpCapabilities"]["http"], true);
        for name in ["list", "resume", "close"] {
            assert!(capabilities["sessionCapabilities"][name].is_object(), "{name}");
        }
        let session = desk.open(vec![]).await;
        let update =
            desk.update("commands", |u| u["sessionUpdate"] == "available_commands_update").await;
        let names: Vec<&str> = update["availableCommands"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["tools", "call", "help"]);
        let (help, pieces) = desk.say(&session, "/help").await;
        assert!(help.contains("/call <tool> <json>") && pieces > 1, "{pieces}: {help}");
        let (talk, pieces) = desk.say(&session, "hello there").await;
        assert!(talk.contains("OPENAI_BASE_URL") && talk.contains("No tools"), "{talk}");
        assert!(pieces > 1);
        assert!(desk.say(&session, "/frobnicate").await.0.contains("no command `/frobnicate`"));
        assert!(desk.say(&session, "/tools").await.0.contains("no tool servers"));
        assert!(desk.say(&session, "/call").await.0.contains("Which tool?"));
    })
    .await;
}

#[tokio::test]
async fn tools_are_listed_and_called() {
    with_server(json!([tool("echo", true), tool("fail", true)]), async |desk, server| {
        let session = desk.open(vec![declared("everything", server)]).await;
        let (list, pieces) = desk.say(&session, "/tools").await;
        assert!(list.contains("**everything**: 2 tools"), "{list}");
        assert!(list.contains("- `echo` (message) — The tool echo.\n"), "{list}");
        assert!(pieces > 1);
        assert!(desk.say(&session, "hi").await.0.contains("Ready tools: `echo`, `fail`."));

        let (said, _) = desk.say(&session, r#"/call echo {"message":"hello"}"#).await;
        assert_eq!(said, "Echo: hello");
        let card = &desk.updates("tool_call")[0];
        assert_eq!(card["title"], "echo");
        assert_eq!(card["kind"], "read");
        assert_eq!(card["status"], "in_progress");
        assert_eq!(card["rawInput"], json!({"message": "hello"}));
        let done = &desk.updates("tool_call_update")[0];
        assert_eq!(done["toolCallId"], card["toolCallId"]);
        assert_eq!(done["status"], "completed");
        assert_eq!(done["content"][0]["content"]["text"], "Echo: hello");
        assert_eq!(done["rawOutput"]["content"][0]["text"], "Echo: hello");
        assert!(desk.asked.borrow().is_empty(), "a tool that only reads asks nobody");

        let (said, _) = desk.say(&session, "/call fail").await;
        assert!(said.contains("`fail` reported an error:\n\nit broke"), "{said}");
        assert_eq!(statuses(&desk).last().unwrap(), "failed");
    })
    .await;
}

#[tokio::test]
async fn mistakes_in_a_call_are_explained() {
    with_server(json!([tool("echo", true)]), async |desk, server| {
        let session = desk.open(vec![declared("a server", server)]).await;
        for (prompt, part) in [
            ("/call echo {\"message\" 1}", "not valid JSON: expected `:`, at line 1, character 12"),
            ("/call echo [1]", "not an array"),
            ("/call echo 5", "not a number"),
            ("/call echo x {}", "`x` stands before it"),
            ("/call ech {}", "Did you mean `echo`?"),
            ("/call nothing", "`/tools` lists"),
        ] {
            let (said, _) = desk.say(&session, prompt).await;
            assert!(said.contains(part), "{prompt} -> {said}");
        }
        assert!(desk.updates("tool_call").is_empty(), "nothing was called");
        let (said, _) = desk.say(&session, r#"/call a server/echo {"message":"x"}"#).await;
        assert_eq!(said, "Echo: x");
    })
    .await;
}

#[tokio::test]
async fn a_result_with_unknown_content_is_shown() {
    with_server(json!([tool("strange", true)]), async |desk, server| {
        let session = desk.open(vec![declared("s", server)]).await;
        assert!(desk.say(&session, "/call strange").await.0.contains("hologram"));
        assert_eq!(statuses(&desk), ["completed"]);
    })
    .await;
}

#[tokio::test]
async fn a_tool_that_changes_something_asks_first() {
    with_server(json!([tool("write", false)]), async |desk, server| {
        let session = desk.open(vec![declared("s", server)]).await;
        *desk.answer.lock().unwrap() = Some("reject_once");
        let (said, _) = desk.say(&session, r#"/call write {"message":"x"}"#).await;
        assert!(said.contains("you rejected it"), "{said}");
        assert_eq!(statuses(&desk), ["failed"]);
        assert!(!server.seen.borrow().methods.contains(&"tools/call".to_owned()));
        {
            let asked = desk.asked.borrow();
            let kinds: Vec<_> =
                asked[0]["options"].as_array().unwrap().iter().map(|o| &o["kind"]).collect();
            assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"]);
            assert_eq!(asked[0]["toolCall"]["rawInput"], json!({"message": "x"}));
            assert_eq!(
                asked[0]["toolCall"]["toolCallId"],
                desk.updates("tool_call")[0]["toolCallId"]
            );
        }
        assert_eq!(desk.updates("tool_call")[0].get("status"), None, "pending while it asks");

        *desk.answer.lock().unwrap() = Some("allow_once");
        assert_eq!(desk.say(&session, r#"/call write {"message":"1"}"#).await.0, "Echo: 1");
        assert_eq!(statuses(&desk)[1..], ["in_progress", "completed"]);
        *desk.answer.lock().unwrap() = Some("allow_always");
        assert_eq!(desk.say(&session, r#"/call write {"message":"2"}"#).await.0, "Echo: 2");
        assert_eq!(desk.asked.borrow().len(), 3);
        assert_eq!(desk.say(&session, r#"/call write {"message":"3"}"#).await.0, "Echo: 3");
        assert_eq!(desk.asked.borrow().len(), 3, "allowed for the session");

        let other = desk.open(vec![declared("s", server)]).await;
        *desk.answer.lock().unwrap() = Some("reject_once");
        assert!(desk.say(&other, "/call write").await.0.contains("rejected"), "but only there");
    })
    .await;
}

#[tokio::test]
async fn a_running_call_can_be_cancelled_and_the_server_hears_of_it() {
    with_server(json!([tool("wait", true), tool("echo", true)]), async |desk, server| {
        let session = desk.open(vec![declared("s", server)]).await;
        let (reason, ()) = tokio::join!(desk.prompt(&session, "/call wait"), async {
            server.saw("tools/call").await;
            desk.cancel(&session);
        });
        assert_eq!(reason, StopReason::Cancelled);
        assert_eq!(statuses(&desk), ["failed"]);
        let call = server.saw("tools/call").await;
        let cancelled = server.saw("notifications/cancelled").await;
        assert_eq!(cancelled["params"]["requestId"], call["id"]);
        assert_eq!(desk.say(&session, r#"/call echo {"message":"on"}"#).await.0, "Echo: on");
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_waits_for_permission_can_be_cancelled() {
    with_server(json!([tool("write", false)]), async |desk, server| {
        let session = desk.open(vec![declared("s", server)]).await;
        let mut asked = desk.asked.clone();
        let (reason, second, ()) = tokio::join!(
            desk.prompt(&session, "/call write"),
            async {
                asked.wait_for(|asked| !asked.is_empty()).await.unwrap();
                let again = PromptRequest::new(session.clone(), vec!["/help".into()]);
                let refused = desk.agent.send_request(again).block_task().await;
                desk.cancel(&session);
                refused
            },
            async {}
        );
        assert_eq!(reason, StopReason::Cancelled);
        assert!(second.unwrap_err().message.contains("already running"));
        assert_eq!(statuses(&desk), ["failed"]);
        assert!(!server.seen.borrow().methods.contains(&"tools/call".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_waits_for_a_server_can_be_cancelled() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    with_agent(Models::none(), async |desk| {
        desk.initialize().await;
        let session = desk.open(vec![McpServer::Http(McpServerHttp::new("silent", url))]).await;
        let (reason, ()) = tokio::join!(desk.prompt(&session, "/tools"), async {
            let _connection = silent.accept().await.unwrap();
            desk.cancel(&session);
        });
        assert_eq!(reason, StopReason::Cancelled);
    })
    .await;
}

#[tokio::test]
async fn changed_tools_are_noticed() {
    with_server(json!([tool("old", true)]), async |desk, server| {
        let session = desk.open(vec![declared("s", server)]).await;
        assert!(desk.say(&session, "/tools").await.0.contains("`old`"));
        server.saw("GET").await;
        server.change_tools(json!([tool("new", true)]));
        let mut seen = server.seen.clone();
        let listed_again =
            seen.wait_for(|s| s.methods.iter().filter(|m| *m == "tools/list").count() == 2);
        tokio::time::timeout(super::PATIENCE, listed_again).await.expect("listed again").unwrap();
        let upstream = desk.sessions.get(&session).unwrap().upstreams().remove(0);
        let known = async {
            loop {
                if let super::super::upstream::State::Ready(ready) = upstream.state()
                    && ready.tools[0].name == "new"
                {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(super::PATIENCE, known).await.expect("the new list arrives");
        let (list, _) = desk.say(&session, "/tools").await;
        assert!(list.contains("`new`") && !list.contains("`old`"), "{list}");
    })
    .await;
}

#[tokio::test]
async fn a_name_on_two_servers_needs_its_server() {
    let scope = Scope::root("fixture");
    let one = Server::start(&scope, json!([tool("echo", true)])).await;
    let two = Server::start(&scope, json!([tool("echo", true), tool("other", true)])).await;
    with_agent(Models::none(), async |desk| {
        desk.initialize().await;
        let session = desk.open(vec![declared("one", &one), declared("two", &two)]).await;
        let (said, _) = desk.say(&session, "/call echo {}").await;
        assert!(said.contains("Write `one/echo` or `two/echo`"), "{said}");
        assert_eq!(desk.say(&session, r#"/call two/echo {"message":"x"}"#).await.0, "Echo: x");
        two.saw("tools/call").await;
        assert!(!one.seen.borrow().methods.contains(&"tools/call".to_owned()));
    })
    .await;
    scope.close(Deadline::after(super::PATIENCE)).await;
}

#[tokio::test]
async fn servers_that_cannot_be_used_are_named_with_the_reason() {
    let scope = Scope::root("fixture");
    let good = Server::start(&scope, json!([tool("echo", true)])).await;
    with_agent(Models::none(), async |desk| {
        desk.initialize().await;
        let missing = McpServer::Stdio(McpServerStdio::new("missing", "no-such-program-anywhere"));
        let url = good.url.clone();
        let refused = McpServer::Http(McpServerHttp::new("refused", url.clone()));
        let session = desk.open(vec![missing, refused, declared("good", &good)]).await;
        let (list, _) = desk.say(&session, "/tools").await;
        assert!(list.contains("**missing**: cannot be used: `no-such-program-anywhere`"), "{list}");
        assert!(list.contains("**refused**: cannot be used"), "{list}");
        assert!(!list.contains(&url), "an address may hold a secret: {list}");
        assert!(list.contains("**good**: 1 tool\n"), "{list}");
        let (said, _) = desk.say(&session, "/call nothing").await;
        assert!(said.contains("**missing**: cannot be used"), "{said}");
    })
    .await;
    scope.close(Deadline::after(super::PATIENCE)).await;
}

#[tokio::test]
async fn a_server_that_failed_is_tried_again() {
    with_server(json!([tool("echo", true)]), async |desk, server| {
        server.broken.store(true, Ordering::Relaxed);
        let session = desk.open(vec![declared("s", server)]).await;
        assert!(desk.say(&session, "/tools").await.0.contains("**s**: cannot be used"));
        let (said, _) = desk.say(&session, "/call echo").await;
        assert!(said.contains("no tool `echo`") && said.contains("cannot be used"), "{said}");
        server.broken.store(false, Ordering::Relaxed);
        let (said, _) = desk.say(&session, r#"/call echo {"message":"back"}"#).await;
        assert_eq!(said, "Echo: back");
    })
    .await;
}

#[tokio::test]
async fn a_session_gets_other_servers_and_keeps_the_unchanged_ones() {
    let scope = Scope::root("fixture");
    let one = Server::start(&scope, json!([tool("a", true)])).await;
    let two = Server::start(&scope, json!([tool("b", true)])).await;
    with_agent(Models::none(), async |desk| {
        desk.initialize().await;
        let id = desk.open(vec![declared("one", &one)]).await;
        assert!(desk.say(&id, "/tools").await.0.contains("`a`"));
        let cwd = std::env::temp_dir();
        let both = vec![declared("one", &one), declared("two", &two)];
        let resume = ResumeSessionRequest::new(id.clone(), cwd.clone()).mcp_servers(both);
        desk.agent.send_request(resume).block_task().await.unwrap();
        let (list, _) = desk.say(&id, "/tools").await;
        assert!(list.contains("`a`") && list.contains("`b`"), "{list}");
        let count = one.seen.borrow().methods.iter().filter(|m| *m == "initialize").count();
        assert_eq!(count, 1, "an unchanged server keeps its connection");

        let before = desk.updates("agent_message_chunk").len();
        let load = LoadSessionRequest::new(id.clone(), cwd.clone())
            .mcp_servers(vec![declared("two", &two)]);
        desk.agent.send_request(load).block_task().await.unwrap();
        one.saw("DELETE").await;
        let replayed = desk.updates("agent_message_chunk").len();
        assert_eq!(replayed, 2 * before, "load tells the conversation again, resume does not");
        let said: Vec<_> = desk
            .updates("user_message_chunk")
            .iter()
            .map(|u| u["content"]["text"].clone())
            .collect();
        assert_eq!(said, ["/tools", "/tools"]);
        let (list, _) = desk.say(&id, "/tools").await;
        assert!(!list.contains("`a`") && list.contains("`b`"), "{list}");

        let unknown = ResumeSessionRequest::new("from-before-a-restart", cwd.clone())
            .mcp_servers(vec![declared("one", &one)]);
        desk.agent.send_request(unknown).block_task().await.unwrap();
        let other = "from-before-a-restart".into();
        assert!(desk.say(&other, "/tools").await.0.contains("`a`"));

        let list = desk.agent.send_request(ListSessionsRequest::new()).block_task().await.unwrap();
        assert_eq!(list.sessions.len(), 2);
        assert!(list.sessions.iter().any(|s| s.title.as_deref() == Some("/tools")));

        desk.agent.send_request(CloseSessionRequest::new(id.clone())).block_task().await.unwrap();
        two.saw("DELETE").await;
        let gone = PromptRequest::new(id, vec!["/help".into()]);
        let error = desk.agent.send_request(gone).block_task().await.unwrap_err();
        assert!(error.message.contains("no such session"), "{error}");
    })
    .await;
    assert!(one.seen.borrow().methods.iter().filter(|m| *m == "DELETE").count() == 2);
    scope.close(Deadline::after(super::PATIENCE)).await;
}

#[tokio::test]
async fn sessions_work_side_by_side() {
    with_server(json!([tool("wait", true), tool("echo", true)]), async |desk, server| {
        let busy = desk.open(vec![declared("s", server)]).await;
        let free = desk.open(vec![declared("s", server)]).await;
        let (reason, ()) = tokio::join!(desk.prompt(&busy, "/call wait"), async {
            server.saw("tools/call").await;
            assert_eq!(desk.say(&free, r#"/call echo {"message":"me"}"#).await.0, "Echo: me");
            desk.cancel(&busy);
        });
        assert_eq!(reason, StopReason::Cancelled);
    })
    .await;
}

#[tokio::test]
async fn a_withdrawn_prompt_ends_its_turn() {
    with_server(json!([tool("wait", true)]), async |desk, server| {
        let session = desk.open(vec![declared("s", server)]).await;
        let prompt = PromptRequest::new(session.clone(), vec!["/call wait".into()]);
        let sent = desk.agent.send_request(prompt);
        server.saw("tools/call").await;
        sent.cancel().unwrap();
        let answer = sent.block_task().await.unwrap();
        assert_eq!(answer.stop_reason, StopReason::Cancelled);
        server.saw("notifications/cancelled").await;
    })
    .await;
}

#[tokio::test]
async fn the_client_may_go_in_the_middle_of_a_call() {
    // That nothing is left is checked at the end of every test.
    with_server(json!([tool("wait", true), tool("write", false)]), async |desk, server| {
        for prompt in ["/call wait", "/call write"] {
            let session = desk.open(vec![declared("s", server)]).await;
            let prompt = PromptRequest::new(session, vec![prompt.into()]);
            desk.agent.send_request(prompt).detach();
        }
        server.saw("tools/call").await;
        desk.asked.clone().wait_for(|asked| !asked.is_empty()).await.unwrap();
    })
    .await;
}
