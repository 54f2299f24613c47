use super::{End, server::Recall};
use crate::mcp::shutdown::Step;
use bytes::Bytes;
use gantry_mcp::LineReader;
use gantry_store::{ProjectRow, Reader, SessionRow, Store, TurnRow, UpdateRow};
use gantry_supervisor::{Deadline, Scope};
use rmcp::{
    ServiceExt,
    model::{CallToolRequestParams, CallToolResult},
    service::{RoleClient, RunningService},
    transport::async_rw::AsyncRwTransport,
};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWriteExt},
    sync::watch,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// A client of a recall server on this database.
struct Client {
    running: RunningService<RoleClient, ()>,
    scope: Scope,
}

impl Client {
    async fn of(database: &Path) -> Self {
        let scope = Scope::root("test");
        let recall = Recall::new(Reader::new(database), scope.child("reads"));
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        scope.spawn("recall", async move {
            let (read, write) = tokio::io::split(theirs);
            let running = recall.serve(AsyncRwTransport::new_server(read, write)).await.unwrap();
            running.waiting().await.unwrap();
        });
        let (read, write) = tokio::io::split(ours);
        let running = ().serve(AsyncRwTransport::new_client(read, write)).await.unwrap();
        Self { running, scope }
    }

    async fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        let Value::Object(arguments) = arguments else { panic!("no object") };
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        self.running.call_tool(params).await.unwrap()
    }

    async fn ask(&self, tool: &'static str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        assert_ne!(result.is_error, Some(true), "{result:?}");
        result.structured_content.expect("a structured answer")
    }

    async fn refusal(&self, tool: &'static str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result.is_error, Some(true), "{result:?}");
        serde_json::to_value(&result).unwrap()["content"][0]["text"].as_str().unwrap().to_owned()
    }

    async fn end(self) {
        self.running.cancel().await.unwrap();
        assert_eq!(self.scope.close(Deadline::after(PATIENCE)).await, Vec::<String>::new());
    }
}

async fn say(store: &Store, number: i64, prompt: &str, answer: &str) {
    let turn = TurnRow {
        id: format!("t{number}"),
        session_id: "s1".into(),
        number,
        prompt: json!([{"type": "text", "text": prompt}]).to_string(),
        request_id: None,
        started_at: number * 86_400_000,
        ended_at: None,
        stop_reason: None,
        description: None,
    };
    store.save_turn(turn.clone()).await.unwrap();
    store.append_updates(vec![UpdateRow {
        session_id: "s1".into(),
        turn_id: Some(turn.id.clone()),
        seq: number,
        at: 0,
        json: json!({"sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": answer}})
        .to_string(),
    }]);
    let ended = TurnRow { ended_at: Some(number * 86_400_000 + 1), ..turn };
    store.save_turn(ended).await.unwrap();
}

async fn filled(path: &Path) -> Store {
    let store = Store::open(path).unwrap();
    let project = ProjectRow { id: "p".into(), path: "/p".into(), name: "p".into(), created_at: 0 };
    store.ensure_project(project).await.unwrap();
    let session = SessionRow {
        id: "s1".into(),
        acp_id: None,
        project_id: "p".into(),
        agent: "{}".into(),
        title: "Pool size".into(),
        options: "null".into(),
        created_at: 0,
        last_activity: 0,
        closed: None,
    };
    store.save_session(session).await.unwrap();
    say(&store, 1, "如何配置连接池?", "Set pool_size to 20.").await;
    say(&store, 2, "and the timeout", &"long ".repeat(10_000)).await;
    store
}

#[tokio::test]
async fn all_tools_only_read_and_say_what_they_take() {
    let dir = tempfile::tempdir().unwrap();
    let client = Client::of(&dir.path().join("gantry.db")).await;
    let tools = client.running.list_all_tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|t| t.name.as_ref()).collect();
    assert_eq!(names, ["get", "search", "status"]);
    for tool in &tools {
        assert_eq!(tool.annotations.as_ref().unwrap().read_only_hint, Some(true), "{}", tool.name);
        assert!(tool.description.as_ref().is_some_and(|d| d.len() > 40), "{}", tool.name);
    }
    let schema = serde_json::to_value(&tools[1].input_schema).unwrap();
    for name in ["query", "project", "role", "since", "limit"] {
        assert!(schema["properties"][name].is_object(), "{name}: {schema}");
    }
    assert_eq!(schema["required"], json!(["query"]));
    client.end().await;
}

#[tokio::test]
async fn a_missing_database_is_an_empty_answer_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("not/there/gantry.db");
    let client = Client::of(&path).await;
    let answer = client.ask("search", json!({"query": "anything"})).await;
    assert_eq!(answer["hits"], json!([]));
    assert!(answer["note"].as_str().unwrap().contains("no past sessions yet"), "{answer}");
    assert_eq!(client.ask("status", json!({})).await["sessions"], 0);
    assert!(client.ask("get", json!({"session": "x", "turn": 1})).await["note"].is_string());
    assert!(!dir.path().join("not").exists(), "looking creates nothing");

    let path = dir.path().join("gantry.db");
    let store = Store::open(&path).unwrap();
    let empty = Client::of(&path).await;
    let answer = empty.ask("search", json!({"query": "anything"})).await;
    assert!(answer["note"].as_str().unwrap().contains("No turn has ended"), "{answer}");
    store.close().await.unwrap();
    empty.end().await;
    client.end().await;
}

#[tokio::test]
async fn what_was_said_is_found_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gantry.db");
    let store = filled(&path).await;
    let client = Client::of(&path).await;

    let answer = client.ask("search", json!({"query": "连接池"})).await;
    assert_eq!(
        answer["hits"],
        json!([{"session": "s1", "turn": 1, "role": "user", "at": "1970-01-02T00:00:00Z",
            "title": "Pool size", "project": "/p", "snippet": "如何配置«连接池»?"}])
    );
    let hits =
        async |arguments| client.ask("search", arguments).await["hits"].as_array().unwrap().len();
    assert_eq!(hits(json!({"query": "pool_size", "role": "agent"})).await, 1);
    assert_eq!(hits(json!({"query": "pool_size", "role": "user"})).await, 0);
    assert_eq!(hits(json!({"query": "timeout", "since": "1970-01-03"})).await, 1);
    assert_eq!(hits(json!({"query": "timeout", "since": "7d"})).await, 0);
    assert_eq!(hits(json!({"query": "timeout", "project": "elsewhere"})).await, 0);
    let one = client.ask("search", json!({"query": "long OR timeout", "limit": 1})).await;
    assert_eq!(one["hits"].as_array().unwrap().len(), 1);
    assert!(one["note"].as_str().unwrap().contains("may be more"));

    let answer = client.ask("get", json!({"session": "s1", "turn": 2, "before": 1})).await;
    let said = answer["said"].as_array().unwrap();
    assert_eq!(said.len(), 4);
    assert_eq!(
        said[1],
        json!({"turn": 1, "role": "agent", "at": "1970-01-02T00:00:00Z",
        "text": "Set pool_size to 20."})
    );
    assert!(said[3]["text"].as_str().unwrap().len() <= 16_000, "bounded");
    assert!(answer["note"].as_str().unwrap().contains("cut"));

    let status = client.ask("status", json!({})).await;
    assert_eq!((&status["sessions"], &status["turns"]), (&json!(1), &json!(2)));
    assert_eq!(status["newest"], "1970-01-03T00:00:00Z");

    assert!(client.refusal("search", json!({"query": "\"open"})).await.contains("not closed"));
    let since = json!({"query": "x", "since": "yesterday"});
    assert!(client.refusal("search", since).await.contains("`yesterday`, which is no time"));

    say(&store, 3, "written while recall reads", "yes").await;
    assert_eq!(hits(json!({"query": "while recall"})).await, 1);
    client.end().await;
    store.close().await.unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no journal is left");
}

#[tokio::test]
async fn a_tool_that_panics_is_answered_with_an_error() {
    let panics = async { panic!("as the test wants it") };
    let error = super::server::answered::<()>("search", panics).await.unwrap_err();
    assert!(error.message.contains("`search` failed inside"), "{error}");
    assert_eq!(super::server::answered("search", async { Ok(7) }).await.unwrap(), 7);
}

/// What a program said on standard output and standard error, and its code.
struct Said {
    answers: Vec<Value>,
    lines: Vec<String>,
    code: u8,
}

/// Serves these lines as the program does. With `signal`, the input stays open and a
/// signal comes when everything is answered.
async fn session(lines: &[&str], answers: usize, signal: bool) -> Said {
    let dir = tempfile::tempdir().unwrap();
    let (mut client, input) = tokio::io::duplex(1 << 16);
    for line in lines {
        client.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
    let client = signal.then_some(client);
    let (put, said) = watch::channel(Vec::new());
    let put = Arc::new(put);
    let (log, told) = watch::channel(Vec::new());
    let mut seen = said.clone();
    let end = End {
        signal: Box::pin(async move {
            if !signal {
                std::future::pending::<()>().await;
            }
            seen.wait_for(|said: &Vec<Value>| said.len() >= answers).await.unwrap();
            "test"
        }),
        gone: Box::pin(std::future::pending()),
        flush: Step::new("output", |_| async { Ok(()) }),
        say: Arc::new(move |line| log.send_modify(|log: &mut Vec<String>| log.push(line.into()))),
    };
    let send = move |line: Bytes| {
        put.send_modify(|said| said.push(serde_json::from_slice(&line).unwrap()));
        Ok(())
    };
    let input = LineReader::new(Box::new(input) as Box<dyn AsyncRead + Send + Unpin>, 1 << 20);
    let reader = Reader::new(dir.path().join("gantry.db"));
    let serving = Box::pin(super::serve(reader, input, Arc::new(send), end));
    let code = Deadline::after(PATIENCE).bound(serving).await.expect("it ends");
    drop(client);
    let (answers, lines) = (said.borrow().clone(), told.borrow().clone());
    Said { answers, lines, code }
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const STATUS: &str =
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"status","arguments":{}}}"#;

#[tokio::test]
async fn input_that_ends_is_a_clean_end_and_answers_still_come() {
    let said = session(&[INITIALIZE, INITIALIZED, STATUS], 2, false).await;
    assert_eq!(said.code, 0);
    assert_eq!(said.answers[0]["result"]["serverInfo"]["name"], "gantry-recall");
    assert_eq!(said.answers[1]["id"], 2);
    assert_eq!(said.answers[1]["result"]["structuredContent"]["sessions"], 0);
    assert_eq!(said.answers.len(), 2);
    assert_eq!(said.lines, ["Shutting down (stdin closed)..."]);
}

#[tokio::test]
async fn input_that_ended_before_it_began_is_a_clean_end() {
    let said = session(&[], 0, false).await;
    assert_eq!((said.answers.len(), said.code), (0, 0));
    assert_eq!(said.lines, ["Shutting down (stdin closed)..."]);
    assert_eq!(session(&[INITIALIZE], 1, false).await.code, 0);
}

#[tokio::test]
async fn a_signal_is_a_clean_end() {
    let said = session(&[INITIALIZE, INITIALIZED, STATUS], 2, true).await;
    assert_eq!(said.code, 0);
    assert_eq!(said.lines, ["Shutting down (signal)..."]);
    let early = session(&[], 0, true).await;
    assert_eq!((early.code, early.answers.len()), (0, 0));
}

#[tokio::test]
async fn what_is_no_message_is_refused_and_does_no_harm() {
    let lines = [INITIALIZE, INITIALIZED, "nonsense {", r#"{"id":9,"method":5}"#, "{}", STATUS];
    let said = session(&lines, 4, false).await;
    assert_eq!(said.code, 0);
    let answers = &said.answers;
    assert!(
        answers.iter().any(|m| m["error"]["code"] == -32700 && m["id"].is_null()),
        "{answers:?}"
    );
    assert!(answers.iter().any(|m| m["error"]["code"] == -32600 && m["id"] == 9), "{answers:?}");
    assert!(answers.iter().any(|m| m["id"] == 2 && m["result"].is_object()), "{answers:?}");
}
