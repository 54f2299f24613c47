//! `gantry agent` as a program: every way in which its client can go, with a call in
//! flight and a server that does not want to end; and with a scripted model.

use gantry_tests::{Instance, Model, Stage, instance, programs, record, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

const BOUND: Duration = Duration::from_secs(20);
/// From the end of the client to the end of the agent and all it started.
const END: Duration = Duration::from_secs(5);
const CHILDREN: &str = "plain,setsid,daemon,cleared,holding";

/// A client's first messages: a session with a stubborn server, and a call.
fn opening(stage: &Stage) -> [Value; 2] {
    let server = json!({
        "name": "own", "command": programs::path("fake_mcp"), "env": [],
        "args": ["--ignore-term", "--ignore-eof", "--spawn", CHILDREN,
                 "--record", stage.path("calls.jsonl")],
    });
    let initialize = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    let new = json!({ "cwd": stage.path("project"), "mcpServers": [server] });
    [request(1, "initialize", &initialize), request(2, "session/new", &new)]
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn prompt(session: &str, text: &str) -> Value {
    let content = json!([{ "type": "text", "text": text }]);
    request(3, "session/prompt", &json!({ "sessionId": session, "prompt": content }))
}

struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    session: String,
}

impl Agent {
    async fn start(stage: &Stage) -> Self {
        let mut command = stage.program("gantry");
        let log = std::fs::File::create(stage.path("agent.log")).unwrap();
        // Nothing that runs on this machine is looked for.
        command.arg("agent").env("OLLAMA_HOST", "127.0.0.1:9").stderr(log);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        stage.owns(child.id().unwrap());
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let output = BufReader::new(output).lines();
        let mut agent = Self { child, input, output, session: String::new() };
        let [initialize, new] = opening(stage);
        agent.send(&initialize).await;
        agent.answer(1).await;
        agent.send(&new).await;
        agent.session = agent.answer(2).await["sessionId"].as_str().unwrap().to_owned();
        agent
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.input.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    async fn answer(&mut self, id: u64) -> Value {
        let answer = async {
            while let Some(line) = self.output.next_line().await.unwrap() {
                let message: Value = serde_json::from_str(&line).unwrap();
                if message["id"] == id && message.get("method").is_none() {
                    return message["result"].clone();
                }
            }
            panic!("the agent ended before it answered request {id}");
        };
        tokio::time::timeout(BOUND, answer).await.expect("an answer in time")
    }

    /// Begins a call that takes ten minutes, and waits until the server works on it.
    async fn begin_call(&mut self, stage: &Stage) {
        let prompt = prompt(&self.session, r#"/call slow {"ms":600000}"#);
        self.send(&prompt).await;
        in_flight(stage).await;
    }

    /// It ends by itself with 0, and nothing of it is left.
    async fn ended(mut self, stage: Stage) {
        let (status, _) = instance::ended(&mut self.child, &stage.path("agent.log"), END).await;
        let log = std::fs::read_to_string(stage.path("agent.log")).unwrap();
        assert_eq!(status.code(), Some(0), "{status}; the log:\n{log}");
        stage.empty_but(&[], Duration::from_millis(100)).await;
        stage.finish().await;
    }
}

async fn in_flight(stage: &Stage) {
    wait_until("server, children and the call run", BOUND, async || {
        let calls = record::events(&stage.path("calls.jsonl"), "received");
        let is_called = calls.iter().any(|call| call["method"] == "tools/call");
        (is_called && stage.running("stubborn").len() == 5).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_end_of_its_input_ends_it_with_everything_that_it_started() {
    let stage = Stage::shared().await;
    let mut agent = Agent::start(&stage).await;
    wait_until("the server's children run", BOUND, async || {
        (stage.running("stubborn").len() == 5).then_some(())
    })
    .await;
    agent.input.take();
    agent.ended(stage).await;
}

#[tokio::test]
async fn the_end_of_its_input_ends_a_call_in_flight() {
    let stage = Stage::shared().await;
    let mut agent = Agent::start(&stage).await;
    agent.begin_call(&stage).await;
    agent.input.take();
    agent.ended(stage).await;
}

#[tokio::test]
async fn sigterm_ends_it_and_a_call_in_flight() {
    let stage = Stage::shared().await;
    let mut agent = Agent::start(&stage).await;
    agent.begin_call(&stage).await;
    gantry_tests::census::signal(agent.child.id().unwrap(), Signal::TERM);
    agent.ended(stage).await;
}

/// The client is two processes that hold the agent's streams; both die at once, as
/// when one program is killed.
#[tokio::test]
async fn a_client_that_is_killed_in_a_call_takes_it_along() {
    let stage = Stage::shared().await;
    let messages = stage.path("messages.jsonl");
    // The agent gives out the session's id, so that nobody can write it down before.
    // `session/load` takes up one under the client's own id.
    let [initialize, mut open] = opening(&stage);
    open["method"] = json!("session/load");
    open["params"]["sessionId"] = json!("mine");
    let call = prompt("mine", r#"/call slow {"ms":600000}"#);
    let all: String =
        [initialize, open, call].iter().map(|message| format!("{message}\n")).collect();
    std::fs::write(&messages, all).unwrap();
    let script = r#"
        { sed -n 1p "$1"
          until grep -q result "$2" 2>/dev/null; do sleep 0.05; done
          sed 1d "$1"
          exec sleep 6123; } | "$0" agent | tee "$2""#;
    let mut client = stage.command("sh");
    client.arg("-c").arg(script).arg(programs::path("gantry")).arg(&messages);
    client.arg(stage.path("answers.jsonl")).env("OLLAMA_HOST", "127.0.0.1:9");
    let mut client = client.stdout(Stdio::null()).spawn().unwrap();
    in_flight(&stage).await;
    let agent = stage.running("gantry")[0].pid;
    stage.owns(agent);
    let mut holders = stage.members_like("sleep 6123");
    holders.retain(|row| row.command == "sleep 6123");
    holders.extend(stage.running("tee"));
    assert_eq!(holders.len(), 2, "{holders:?}");
    for holder in holders {
        gantry_tests::census::signal(holder.pid, Signal::KILL);
    }
    stage.empty_but(&[], END).await;
    tokio::time::timeout(END, client.wait()).await.unwrap().unwrap();
    stage.finish().await;
}

#[tokio::test]
async fn with_a_scripted_model_it_calls_tools_in_parallel_asks_and_is_cancelled() {
    let stage = Stage::shared().await;
    let model = Model::start(&stage).await;
    let mut instance = Instance::start(&stage).await;
    let request = |prompt: &str, session: Option<&str>| {
        json!({
            "project_id": "p", "prompt": prompt, "session_id": session,
            "model_provider": { "base_url": format!("{}/v1", model.url), "api_key": "x" },
            "agent_config": { "context_servers": {
                "own": programs::fake_mcp(&["--tools", "1", "--record", &stage.text("calls.jsonl")]),
            } },
        })
    };
    // No model is named: the first of the endpoint's list answers.
    let (answer, text) = instance.turn(request("Hello.", None), BOUND).await;
    let session = answer["session_id"].as_str().unwrap().to_owned();
    assert!(text.contains("tool_0"), "{text}");
    assert_eq!(model.requests()[0]["body"]["model"], "fake-model");

    let calls = request(r#"DO: CALLS 3 echo {"text":"three"}"#, Some(&session));
    let (_, text) = instance.turn(calls, BOUND).await;
    assert_eq!(text.matches("three").count(), 3, "{text}");

    let (_, text) =
        instance.turn(request("DO: FAIL 402 no credit left", Some(&session)), BOUND).await;
    assert!(text.contains("no credit left"), "{text}");

    for directive in ["DO: TICK", "DO: SILENT", r#"DO: CALL slow {"ms":600000}"#] {
        let requests = model.requests().len();
        instance.chat(request(directive, Some(&session))).await;
        wait_until("the model or the server works", BOUND, async || {
            let is_asked = model.requests().len() > requests;
            let calls = record::events(&stage.path("calls.jsonl"), "received");
            let is_called = calls.iter().any(|call| call["tool"] == "slow");
            (is_asked && (is_called || !directive.contains("slow"))).then_some(())
        })
        .await;
        instance.api("session_cancel", json!({ "session": session })).await;
        wait_until("the turn has ended", Duration::from_secs(5), async || {
            let list = instance.api("sessions_list", json!({})).await;
            (list["sessions"][0]["state"] == "idle").then_some(())
        })
        .await;
    }
    let (_, text) = instance.turn(request("DO: SAY fine", Some(&session)), BOUND).await;
    assert_eq!(text.trim(), "fine");
    instance.quit().await;

    // Another run of Gantry, another process of the agent: the model is told what was said.
    let mut instance = Instance::start(&stage).await;
    let (answer, _) = instance.turn(request("DO: SAY still here", Some(&session)), BOUND).await;
    assert_eq!(answer["context"], "restored", "{answer}");
    let last = model.requests().last().unwrap()["body"]["messages"].to_string();
    assert!(last.contains("Hello.") && last.contains("three"), "{last}");
    let kept = stage.data_dir().join("conversations");
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 1);
    instance.api("session_delete", json!({ "session": session })).await;
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 0);
    instance.quit().await;
    model.stop().await;
    stage.finish().await;
}
