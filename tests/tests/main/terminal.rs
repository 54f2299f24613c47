//! `gantry chat` in front of a person: a real terminal, made by `script`.

use gantry_tests::{Instance, Stage, programs};
use serde_json::{Value, json};
use std::{
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin},
};

const BOUND: Duration = Duration::from_secs(30);

/// A command in a terminal.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Runs `gantry` with these arguments, none of which needs quoting.
    fn start(stage: &Stage, args: &[&str]) -> Self {
        let gantry = programs::path("gantry");
        let words: Vec<String> = args.iter().map(|word| format!("'{word}'")).collect();
        // Replaced by the command, so that a key press is between it and the terminal alone.
        let line = format!("exec '{}' {}", gantry.display(), words.join(" "));
        let mut script = stage.command("script");
        script.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]);
        script.env("GANTRY_DATA_DIR", stage.data_dir()).env("GANTRY_LOGIN_SHELL", "no");
        script.env("SHELL", "/bin/sh").env("TERM", "xterm").env_remove("NO_COLOR");
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = script.spawn().expect("script, of the package bsdutils");
        let keys = child.stdin.take().unwrap();
        let mut output = child.stdout.take().unwrap();
        let screen = Arc::<Mutex<Vec<u8>>>::default();
        let written = Arc::clone(&screen);
        tokio::spawn(async move {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut piece).await {
                written.lock().unwrap().extend_from_slice(&piece[..count]);
            }
        });
        Self { child, keys, screen }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    /// Waits until a text has been shown so many times.
    async fn shows(&self, text: &str, times: usize) {
        let shown = async {
            while self.text().matches(text).count() < times {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let late = tokio::time::timeout(BOUND, shown).await;
        assert!(late.is_ok(), "not {times} times {text:?} in:\n{}", self.text());
    }

    async fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).await.unwrap();
        self.keys.flush().await.unwrap();
    }

    /// Waits for the command's end; gives its exit code and the screen.
    async fn ended(mut self) -> (Option<i32>, String) {
        let status = tokio::time::timeout(BOUND, self.child.wait()).await;
        let status = status.unwrap_or_else(|_| panic!("it goes on:\n{}", self.text())).unwrap();
        (status.code(), self.text())
    }
}

async fn save_agent(instance: &Instance) {
    let config = json!({ "name": "Fake", "command": programs::path("fake_agent") });
    instance.api("agents_save", json!({ "id": "fake", "config": config })).await;
}

async fn sessions(instance: &Instance) -> Vec<Value> {
    instance.api("sessions_list", json!({})).await["sessions"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_permission_is_asked_for_on_the_terminal() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save_agent(&instance).await;

    let chat = ["chat", "--agent", "fake", "PERMISSION"];
    let mut terminal = Terminal::start(&stage, &chat);
    terminal.shows("? Write a file", 1).await;
    for option in ["1) Allow once", "2) Always allow", "3) Reject"] {
        terminal.shows(option, 1).await;
    }
    // What is no answer is asked again, and means nothing.
    terminal.press("9\n").await;
    terminal.shows("3) Reject", 2).await;
    terminal.press("yes please\n").await;
    terminal.shows("3) Reject", 3).await;
    terminal.press("3\n").await;
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("permission: no"), "{screen}");

    let mut terminal = Terminal::start(&stage, &chat);
    terminal.shows("3) Reject", 1).await;
    terminal.press("1\n").await;
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("permission: yes"), "{screen}");

    // The end of the input is a no.
    let mut terminal = Terminal::start(&stage, &chat);
    terminal.shows("3) Reject", 1).await;
    terminal.press("\u{4}").await;
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("permission: no"), "{screen}");

    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_question_that_somebody_else_answers_is_over_on_the_terminal_too() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save_agent(&instance).await;
    let terminal = Terminal::start(&stage, &["chat", "--agent", "fake", "PERMISSION"]);
    terminal.shows("3) Reject", 1).await;
    let session = sessions(&instance).await.remove(0);
    let answer = json!({ "session": session["id"],
        "request": session["permissions"][0]["request"], "option": "yes" });
    instance.api("session_permit", answer).await;
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("permission: yes"), "{screen}");
    instance.quit().await;
    stage.finish().await;
}

/// Before the turn there is nothing that could say that it was cancelled.
#[tokio::test]
async fn ctrl_c_while_servers_start_leaves_no_session_and_no_process() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save_agent(&instance).await;
    let slow = programs::fake_mcp(&["--start-delay", "600000"]);
    let saved = json!({ "name": "slow", "config": slow });
    instance.api("servers_save", saved).await;

    // Through the running one.
    let mut terminal = Terminal::start(&stage, &["chat", "--agent", "fake", "ECHO never"]);
    terminal.shows("starting slow", 1).await;
    terminal.press("\u{3}").await;
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(1), "{screen}");
    assert!(screen.contains("cancelled") && !screen.contains("gantry: "), "{screen}");
    assert!(sessions(&instance).await.is_empty());
    assert!(stage.running("fake_agent").is_empty());
    instance.quit().await;
    stage.empty_but(&[], Duration::from_secs(2)).await;

    // With a core of its own.
    let mut terminal = Terminal::start(&stage, &["chat", "--agent", "fake", "ECHO never"]);
    terminal.shows("starting slow", 1).await;
    terminal.press("\u{3}").await;
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(1), "{screen}");
    assert!(screen.contains("cancelled"), "{screen}");
    stage.empty_but(&[], Duration::from_secs(2)).await;

    let mut instance = Instance::start(&stage).await;
    assert!(sessions(&instance).await.is_empty());
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_question_is_answered_on_the_terminal_value_by_value() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let config = json!({ "name": "Fake", "command": programs::path("fake_agent"),
                         "offers": { "questions": true } });
    instance.api("agents_save", json!({ "id": "fake", "config": config })).await;
    let mut terminal = Terminal::start(&stage, &["chat", "--agent", "fake", "QUESTION"]);
    terminal.shows("? Where shall it go?", 1).await;
    terminal.shows("Name (Of the place)", 1).await;
    // What the agent does not take is asked for once more, from the beginning.
    for (round, name) in ["A", "Ada"].into_iter().enumerate() {
        for (field, value) in [
            ("Name", name),
            ("Mail", ""),
            ("Day", "2026-01-31"),
            ("Size", "7"),
            ("Share", ""),
            ("Public", "n"),
            ("Colour", "1"),
            ("Tags", "1 3"),
            ("Key", ""),
        ] {
            terminal.shows(&format!("  {field}"), round + 1).await;
            terminal.press(&format!("{value}\n")).await;
        }
    }
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("content.name: must have at least 2 characters"), "{screen}");
    assert!(
        screen.contains("accept {") && screen.contains(r#""tags":["one","three"]"#),
        "{screen}"
    );

    let mut terminal = Terminal::start(&stage, &["chat", "--agent", "fake", "QUESTION"]);
    terminal.shows("Name (Of the place)", 1).await;
    terminal.press("/no\n").await;
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("decline null"), "{screen}");
    instance.quit().await;
    stage.finish().await;
}
