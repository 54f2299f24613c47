//! Real agents with a scripted model: the tools of a slow server at the first
//! prompt, calls through the bridge, permissions, cancels, two sessions, stops, a
//! killed engine, the quit. One test for each agent walks through all of it.

use gantry_tests::{Instance, Model, Progress, RealAgent, Stage, programs, record, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Duration;

/// A first start of some agents takes ten seconds on an idle machine.
const BOUND: Duration = Duration::from_secs(60);
/// Contract: nobody waits longer for a cancel.
const CANCEL: Duration = Duration::from_secs(5);

#[tokio::test]
async fn gemini_cli_works_with_slow_servers_and_leaves_nothing() {
    walk(RealAgent::Gemini).await;
}

#[tokio::test]
async fn codex_works_with_slow_servers_and_leaves_nothing() {
    walk(RealAgent::Codex).await;
}

#[tokio::test]
async fn claude_code_works_with_slow_servers_and_leaves_nothing() {
    walk(RealAgent::Claude).await;
}

#[tokio::test]
async fn opencode_works_with_slow_servers_and_leaves_nothing() {
    walk(RealAgent::Opencode).await;
}

async fn walk(agent: RealAgent) {
    let stage = Stage::shared().await;
    let model = Model::start(&stage).await;
    let mut instance = Instance::start(&stage).await;
    let play = Play {
        kind: agent,
        agent: agent.agent_server(&stage, &model),
        stage: &stage,
        model,
        instance: &instance,
    };

    let first = play.first_prompt().await;
    play.call_through_the_bridge(&first).await;
    play.permissions(&first).await;
    play.cancel_in_a_stream(&first).await;
    play.cancel_in_a_call(&first).await;
    let second = play.second_session(&first).await;
    play.killed_engine(&second).await;
    play.stop_the_last(&second).await;

    play.say("a last session", "ask").await;
    let Play { model, .. } = play;
    instance.quit().await;
    stage.empty_but(&[model.pid], Duration::from_millis(100)).await;
    model.stop().await;
    stage.finish().await;
}

struct Play<'a> {
    kind: RealAgent,
    agent: Value,
    stage: &'a Stage,
    model: Model,
    instance: &'a Instance,
}

impl Play<'_> {
    /// A chat request; the server needs 3 s before it says its first word.
    fn request(&self, prompt: &str, permission: &str) -> Value {
        let server = json!({
            "command": programs::path("slow_start"),
            "args": ["3000", self.stage.path("server.jsonl"), programs::path("fake_mcp"),
                     "--tools", "1", "--record", self.stage.path("calls.jsonl")],
        });
        json!({
            "project_id": "p", "prompt": prompt, "permission": permission,
            "agent_config": { "agent_server": self.agent, "context_servers": { "own": server } },
        })
    }

    /// A new session and its first turn: its id and the agent's text.
    async fn say(&self, prompt: &str, permission: &str) -> (String, String) {
        let (answer, text) = self.instance.turn(self.request(prompt, permission), BOUND).await;
        (answer["session_id"].as_str().unwrap().to_owned(), text)
    }

    /// A prompt in a session; what the agent does since is in the stream.
    async fn prompt(&self, session: &str, prompt: &str, permission: &str) -> (Value, Progress) {
        let mut request = self.request(prompt, permission);
        request["session_id"] = json!(session);
        let answer = self.instance.chat(request).await;
        let mut progress = self.instance.progress(session).await;
        let started = progress.until("the start of the turn", BOUND, |event| {
            event.data["messageType"] == "sessionPromptStart"
                && event.data["data"]["request_id"] == answer["request_id"]
        });
        started.await;
        progress.seen.clear();
        (answer, progress)
    }

    /// How often the server was asked to call this tool.
    fn calls(&self, tool: &str) -> usize {
        let received = record::events(&self.stage.path("calls.jsonl"), "received");
        let is_call = |line: &&Value| line["method"] == "tools/call" && line["tool"] == tool;
        received.iter().filter(is_call).count()
    }

    async fn first_prompt(&self) -> String {
        let (session, text) = self.say("Hello.", "all").await;
        let requests = self.model.requests();
        let with_tools = requests.iter().find(|request| request["tools"] != json!([]));
        let with_tools = with_tools.unwrap_or_else(|| panic!("no request has tools: {text}"));
        // Some agents hide tools behind a search: the name may stand anywhere.
        assert!(
            with_tools["body"].to_string().contains("tool_0"),
            "the first model request lacks the server's tool: {}",
            with_tools["tools"]
        );
        session
    }

    async fn call_through_the_bridge(&self, session: &str) {
        let prompt = r#"DO: CALL echo {"text":"through the bridge"}"#;
        let (_, mut progress) = self.prompt(session, prompt, "all").await;
        assert_eq!(progress.end_of_turn(BOUND).await, "end_turn");
        let text = progress.text();
        assert!(text.contains("RESULT") && text.contains("through the bridge"), "{text}");
        assert_eq!(self.calls("echo"), 1);
    }

    async fn permissions(&self, session: &str) {
        for (kind, called) in [("allow_once", 1), ("reject_once", 1)] {
            let (_, mut progress) = self.prompt(session, "DO: CALL tool_0 {}", "ask").await;
            let asked = progress
                .until("the question", BOUND, |e| e.data["messageType"] == "permissionRequest")
                .await;
            let question = &asked.data["data"];
            let options = question["options"].as_array().into_iter().flatten();
            let option = options.clone().find(|option| option["kind"] == kind);
            let option = option.unwrap_or_else(|| panic!("no option {kind}: {question}"));
            let id = question["request"].as_str().or(question["id"].as_str());
            let permit = json!({ "session": session, "request": id, "option": option["optionId"] });
            self.instance.api("session_permit", permit).await;
            progress.end_of_turn(BOUND).await;
            assert_eq!(self.calls("tool_0"), called, "{kind}: {}", progress.text());
        }
    }

    async fn cancel(&self, session: &str, mut progress: Progress) {
        self.instance.api("session_cancel", json!({ "session": session })).await;
        assert_eq!(progress.end_of_turn(CANCEL).await, "cancelled");
    }

    async fn cancel_in_a_stream(&self, session: &str) {
        let before = self.model.abandoned_so_far();
        let (_, mut progress) = self.prompt(session, "DO: TICK", "all").await;
        progress
            .until("the model's words", BOUND, |event| event.data.to_string().contains("tick0"))
            .await;
        self.cancel(session, progress).await;
        self.model.abandoned(before + 1, CANCEL).await;
    }

    async fn cancel_in_a_call(&self, session: &str) {
        let (_, progress) = self.prompt(session, r#"DO: CALL slow {"ms":600000}"#, "all").await;
        wait_until("the server works on the call", BOUND, async || {
            (self.calls("slow") == 1).then_some(())
        })
        .await;
        self.cancel(session, progress).await;
        // The session is not harmed.
        let (_, mut progress) = self.prompt(session, "DO: SAY still here", "all").await;
        assert_eq!(progress.end_of_turn(BOUND).await, "end_turn");
        assert!(progress.text().contains("still here"), "{}", progress.text());
    }

    /// A second session in the same engine; it lives on when the first is stopped.
    async fn second_session(&self, first: &str) -> String {
        let (answer, text) = self.instance.turn(self.request("Hello.", "all"), BOUND).await;
        let second = answer["session_id"].as_str().unwrap().to_owned();
        assert_eq!(answer["engine"], "reused", "{answer}");
        assert!(text.contains("tool_0"), "{text}");
        let stopped = self.stop(first).await;
        assert_eq!(stopped["engine_stopped"], false, "{stopped}");
        let prompt = r#"DO: CALL echo {"text":"second"}"#;
        let (answer, mut progress) = self.prompt(&second, prompt, "all").await;
        assert_eq!(answer["context"], "kept", "{answer}");
        progress.end_of_turn(BOUND).await;
        assert!(progress.text().contains("second"), "{}", progress.text());
        second
    }

    /// Kills the agent in a turn: the turn fails, and the next prompt works.
    async fn killed_engine(&self, session: &str) {
        let (_, mut progress) = self.prompt(session, "DO: TICK", "all").await;
        progress
            .until("the model's words", BOUND, |event| event.data.to_string().contains("tick0"))
            .await;
        let list = self.instance.api("sessions_list", json!({})).await;
        let entries = list["sessions"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["id"] == session).unwrap();
        let pid = entry["engine"]["pid"].as_u64().unwrap();
        gantry_tests::census::signal(u32::try_from(pid).unwrap(), Signal::KILL);
        assert_eq!(progress.end_of_turn(CANCEL).await, "error");
        let prompt = r#"DO: CALL echo {"text":"recovered"}"#;
        let (answer, mut progress) = self.prompt(session, prompt, "all").await;
        assert_eq!(answer["engine"], "recreated", "{answer}");
        assert_eq!(progress.end_of_turn(BOUND).await, "end_turn");
        assert!(progress.text().contains("recovered"), "{}", progress.text());
        // Where the agent can, it goes on where it was, and the model is told what was said;
        // Gemini CLI does not find a session again that it was killed in.
        if self.kind != RealAgent::Gemini {
            assert_eq!(answer["context"], "restored", "{answer}");
            let requests = self.model.requests();
            let asked = requests.iter().rfind(|request| request["tools"] != json!([])).unwrap();
            assert!(asked["body"].to_string().contains("second"), "{}", asked["body"]);
        }
    }

    async fn stop_the_last(&self, session: &str) {
        let stopped = self.stop(session).await;
        assert_eq!(stopped["engine_stopped"], true, "{stopped}");
        assert_eq!(stopped["servers_stopped"], json!(["own"]), "{stopped}");
        let keep = [self.instance.pid, self.model.pid];
        self.stage.empty_but(&keep, Duration::from_millis(100)).await;
    }

    async fn stop(&self, session: &str) -> Value {
        let body = json!({ "user_id": "tester", "project_id": "p", "session_id": session });
        let answer = self.instance.post("/computer/agent/session/stop", &body).await;
        assert!(answer.status.is_success(), "{answer:?}");
        if answer.body["data"].is_object() { answer.body["data"].clone() } else { answer.body }
    }
}
