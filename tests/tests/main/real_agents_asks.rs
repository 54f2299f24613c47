//! What real agents ask of us where it is offered: files, terminals, questions to the user.
//! Who does what by itself is seen here, and decides what the list of known agents offers
//! (decision 0013).

use gantry_tests::{Instance, Model, RealAgent, Stage};
use serde_json::{Value, json};
use std::time::Duration;

/// A first start of some agents takes ten seconds on an idle machine.
const BOUND: Duration = Duration::from_secs(60);

/// An agent that is offered some things, and its session.
struct Play<'a> {
    instance: &'a Instance,
    agent: Value,
    session: String,
    /// The session's folder.
    folder: String,
}

impl<'a> Play<'a> {
    async fn begin(
        kind: RealAgent,
        stage: &Stage,
        model: &Model,
        instance: &'a Instance,
        offers: Value,
    ) -> Self {
        let mut agent = kind.agent_server(stage, model);
        agent["offers"] = offers;
        let mut play = Self { instance, agent, session: String::new(), folder: String::new() };
        let (answer, _) = instance.turn(play.request("Hello."), BOUND).await;
        play.session = answer["session_id"].as_str().unwrap().to_owned();
        play.folder = play.view().await["project"].as_str().unwrap().to_owned();
        play
    }

    fn request(&self, prompt: &str) -> Value {
        let mut request = json!({
            "project_id": "p", "prompt": prompt, "permission": "all",
            "agent_config": { "agent_server": self.agent, "context_servers": {} },
        });
        if !self.session.is_empty() {
            request["session_id"] = json!(self.session);
        }
        request
    }

    async fn view(&self) -> Value {
        let list = self.instance.api("sessions_list", json!({})).await;
        let entries = list["sessions"].as_array().unwrap();
        entries.iter().find(|entry| entry["id"] == self.session.as_str()).unwrap().clone()
    }

    /// Has the model call this tool of the agent's own; `@` in the arguments is the folder.
    async fn call(&self, tool: &str, arguments: Value) -> String {
        let arguments = arguments.to_string().replace('@', &self.folder);
        let prompt = format!("DO: CALL {tool} {arguments}");
        self.instance.turn(self.request(&prompt), BOUND).await.1
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(format!("{}/{name}", self.folder)).unwrap_or_default()
    }

    /// The methods that the agent asked us for.
    async fn asked(&self) -> Vec<String> {
        let ask = json!({ "session": self.session, "tail": 1000 });
        let traffic = self.instance.api("session_traffic", ask).await;
        let messages = traffic["messages"].as_array().unwrap().iter();
        messages
            .filter(|line| line["from_agent"] == true && !line["message"]["id"].is_null())
            .filter_map(|line| line["message"]["method"].as_str().map(str::to_owned))
            .filter(|method| method != "session/request_permission")
            .collect()
    }
}

const ALL: fn() -> Value =
    || json!({ "read_files": true, "write_files": true, "terminals": true, "questions": true });

async fn stage_of(kind: RealAgent, offers: Value, play: impl AsyncFn(&Play<'_>, &Model)) {
    let stage = Stage::shared().await;
    let model = Model::start(&stage).await;
    let mut instance = Instance::start(&stage).await;
    let begun = Play::begin(kind, &stage, &model, &instance, offers).await;
    play(&begun, &model).await;
    drop(begun);
    instance.quit().await;
    stage.empty_but(&[model.pid], Duration::from_millis(100)).await;
    model.stop().await;
    stage.finish().await;
}

#[tokio::test]
async fn claude_code_asks_the_user_with_a_form_and_does_the_rest_itself() {
    stage_of(RealAgent::Claude, ALL(), async |play, model| {
        let question = json!({ "questions": [{
            "question": "Which colour?", "header": "Colour", "multiSelect": false,
            "options": [{ "label": "Red", "description": "warm" },
                        { "label": "Green", "description": "calm" }],
        }] });
        let answering = async {
            let asked = gantry_tests::wait_until("the question", BOUND, async || {
                let view = play.view().await;
                view["questions"].get(0).cloned()
            })
            .await;
            assert_eq!(asked["message"], "Which colour?", "{asked}");
            let answer = json!({ "session": play.session, "request": asked["request"],
                                 "action": "accept", "content": { "question_0": "Green" } });
            play.instance.api("session_answer", answer).await;
        };
        let calling = play.call("AskUserQuestion", question);
        let (said, ()) = futures::future::join(calling, answering).await;
        assert!(said.contains("Green"), "{said}");
        let told = model.requests().iter().any(|request| {
            let body = request["body"].to_string();
            body.contains("Which colour?") && body.contains("Green")
        });
        assert!(told, "the model was not told");

        let content = json!({ "file_path": "@/a.txt", "content": "one\ntwo\n" });
        play.call("Write", content).await;
        assert_eq!(play.file("a.txt"), "one\ntwo\n");
        let command = json!({ "command": "echo from-the-shell", "description": "x" });
        let said = play.call("Bash", command).await;
        assert!(said.contains("from-the-shell"), "{said}");
        assert_eq!(play.asked().await, ["elicitation/create"]);
    })
    .await;
}

#[tokio::test]
async fn codex_asks_us_for_nothing_and_is_not_disturbed_by_what_is_offered() {
    stage_of(RealAgent::Codex, ALL(), async |play, _| {
        let said = play.call("exec_command", json!({ "cmd": "echo from-the-shell" })).await;
        assert!(said.contains("from-the-shell"), "{said}");
        assert_eq!(play.asked().await, Vec::<String>::new());
    })
    .await;
}

/// It would read files of ours too, but does not understand that one is not there yet.
#[tokio::test]
async fn gemini_cli_writes_its_files_through_us_where_that_is_offered() {
    let offers = json!({ "write_files": true, "terminals": true, "questions": true });
    stage_of(RealAgent::Gemini, offers, async |play, _| {
        let content = json!({ "file_path": "@/a.txt", "content": "one\ntwo\n" });
        play.call("write_file", content).await;
        assert_eq!(play.file("a.txt"), "one\ntwo\n");
        let change = json!({ "file_path": "@/a.txt", "instruction": "x",
                             "old_string": "two", "new_string": "three" });
        play.call("replace", change).await;
        assert_eq!(play.file("a.txt"), "one\nthree\n");
        let said =
            play.call("run_shell_command", json!({ "command": "echo from-the-shell" })).await;
        assert!(said.contains("from-the-shell"), "{said}");
        assert_eq!(play.asked().await, ["fs/write_text_file", "fs/write_text_file"]);
    })
    .await;
}

#[tokio::test]
async fn opencode_shows_us_what_it_writes_and_writes_it_itself() {
    stage_of(RealAgent::Opencode, ALL(), async |play, _| {
        play.call("write", json!({ "filePath": "@/a.txt", "content": "one\ntwo\n" })).await;
        assert_eq!(play.file("a.txt"), "one\ntwo\n");
        play.call("read", json!({ "filePath": "@/a.txt" })).await;
        let change = json!({ "filePath": "@/a.txt", "oldString": "two", "newString": "three" });
        play.call("edit", change).await;
        assert_eq!(play.file("a.txt"), "one\nthree\n");
        let command = json!({ "command": "echo from-the-shell", "description": "x" });
        let said = play.call("bash", command).await;
        assert!(said.contains("from-the-shell"), "{said}");
        assert_eq!(play.asked().await, ["fs/write_text_file", "fs/write_text_file"]);
    })
    .await;
}
