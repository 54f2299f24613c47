//! A running `gantry serve`, and HTTP to it.

use crate::{Progress, Stage, census, stage::pretty, wait_until};
use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, Command},
};

/// An HTTP client that goes through no proxy.
///
/// # Panics
/// When none can be made.
pub fn http_client() -> reqwest::Client {
    // Fails when it is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build();
    client.unwrap_or_else(|why| panic!("no HTTP client: {why}"))
}

/// An HTTP answer with its body read as JSON (`null` when it is none).
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The body.
    pub body: Value,
}

impl Answer {
    /// The `data` of a successful answer of `/computer/*` or `/api/*`.
    ///
    /// # Panics
    /// When it is not successful.
    pub fn data(self) -> Value {
        let is_good = self.body["success"] == true || self.body["ok"] == true;
        assert!(
            self.status.is_success() && is_good,
            "expected success, got {} {}",
            self.status,
            pretty(&self.body)
        );
        self.body["data"].clone()
    }
}

/// A running `gantry serve`. Killed when dropped.
pub struct Instance {
    child: Child,
    /// Of the program.
    pub pid: u32,
    /// Where it listens, without a slash at the end.
    pub url: String,
    /// What the API wants.
    pub token: String,
    /// From the start of the program to its ready line.
    pub started_in: Duration,
    log: PathBuf,
    client: reqwest::Client,
}

impl Instance {
    /// Starts it on the stage's data directory.
    ///
    /// # Panics
    /// When it does not print its ready line within 20 s.
    pub async fn start(stage: &Stage) -> Self {
        Self::start_with(stage, |_| {}).await
    }

    /// The same with further arguments or variables.
    ///
    /// # Panics
    /// See [`Instance::start`].
    pub async fn start_with(stage: &Stage, change: impl FnOnce(&mut Command)) -> Self {
        let log = (1..)
            .map(|number| stage.path(format!("serve-{number}.log")))
            .find(|path| !path.exists())
            .unwrap_or_else(|| stage.path("serve.log"));
        let errors = std::fs::File::create(&log).unwrap_or_else(|why| panic!("{why}"));
        let mut command = stage.program("gantry");
        command.arg("serve").arg("--data-dir").arg(stage.data_dir());
        change(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let began = Instant::now();
        let mut child = command.spawn().unwrap_or_else(|why| panic!("gantry serve: {why}"));
        let pid = child.id().unwrap_or_default();
        let output = child.stdout.take().unwrap_or_else(|| panic!("no stdout"));
        let mut output = BufReader::new(output);
        let mut line = String::new();
        let read = tokio::time::timeout(Duration::from_secs(20), output.read_line(&mut line)).await;
        let started_in = began.elapsed();
        let ready: Value = serde_json::from_str(&line).unwrap_or_default();
        assert!(
            matches!(read, Ok(Ok(_))) && ready["ready"] == true,
            "no ready line but {line:?}; the log:\n{}",
            std::fs::read_to_string(&log).unwrap_or_default()
        );
        assert_eq!(ready["pid"], pid, "the ready line names another process: {ready}");
        // The contract says exactly one line; what follows would end up here.
        let rest = stage.path("serve-stdout.log");
        tokio::spawn(async move {
            let mut more = Vec::new();
            let _ = output.read_to_end(&mut more).await;
            if !more.is_empty() {
                let _ = std::fs::write(rest, more);
            }
        });
        let token_file = ready["token_file"].as_str().unwrap_or_default();
        let token = std::fs::read_to_string(token_file)
            .unwrap_or_else(|why| panic!("token file {token_file:?}: {why}"));
        let url = ready["url"].as_str().unwrap_or_default().trim_end_matches('/').to_owned();
        stage.owns(pid);
        let token = token.trim().to_owned();
        Self { child, pid, url, token, started_in, log, client: http_client() }
    }

    /// A request with the token.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.request_without_token(method, path).bearer_auth(&self.token)
    }

    /// A request without the token.
    pub fn request_without_token(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    /// Sends it and reads the answer.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap_or_else(|why| panic!("no answer: {why:?}"));
        let status = response.status();
        let text = response.text().await.unwrap_or_default();
        Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::Null) }
    }

    /// `POST` with a JSON body.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// A command of `/api`, expected to succeed.
    pub async fn api(&self, command: &str, input: Value) -> Value {
        self.post(&format!("/api/{command}"), &input).await.data()
    }

    /// `POST /computer/chat`, expected to succeed; `user_id` and `permission`
    /// (`all`) are filled in when the request does not have them.
    pub async fn chat(&self, request: Value) -> Value {
        self.post("/computer/chat", &chat_request(request)).await.data()
    }

    /// The events of a session, from before the first connection on.
    ///
    /// # Panics
    /// When there is no such stream.
    pub async fn progress(&self, session: &str) -> Progress {
        let path = format!("/computer/progress/{session}");
        let response = self.request(Method::GET, &path).send().await;
        let response = response.unwrap_or_else(|why| panic!("{path}: {why}"));
        assert!(response.status().is_success(), "{path}: {}", response.status());
        Progress::new(response)
    }

    /// Chats, and reads the turn to its end: the answer, and the agent's text.
    pub async fn turn(&self, request: Value, bound: Duration) -> (Value, String) {
        let answer = self.chat(request).await;
        let session = answer["session_id"].as_str().unwrap_or_default();
        let mut progress = self.progress(session).await;
        let request_id = answer["request_id"].clone();
        let begin = progress.until("the start of the turn", bound, |event| {
            event.data["messageType"] == "sessionPromptStart"
                && event.data["data"]["request_id"] == request_id
        });
        begin.await;
        progress.seen.clear();
        progress.end_of_turn(bound).await;
        let text = progress.text();
        (answer, text)
    }

    /// One server of `servers_list`.
    pub async fn server(&self, name: &str) -> Option<Value> {
        let list = self.api("servers_list", json!({})).await;
        list["servers"].as_array()?.iter().find(|server| server["name"] == name).cloned()
    }

    /// Waits until a server is in a state.
    ///
    /// # Panics
    /// When it is not after `bound`.
    pub async fn server_in(&self, name: &str, state: &str, bound: Duration) -> Value {
        wait_until(&format!("server {name} is {state}"), bound, async || {
            self.server(name).await.filter(|server| server["state"] == state)
        })
        .await
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        census::signal(self.pid, signal);
    }

    /// Waits for the end of the program; also says how long it took.
    ///
    /// # Panics
    /// When it has not ended after `bound`.
    pub async fn ended(&mut self, bound: Duration) -> (ExitStatus, Duration) {
        let began = Instant::now();
        match tokio::time::timeout(bound, self.child.wait()).await {
            Ok(status) => (status.unwrap_or_else(|why| panic!("wait: {why}")), began.elapsed()),
            Err(_) => panic!("still running after {bound:?}; the log:\n{}", self.log()),
        }
    }

    /// Stops it with SIGTERM and checks the clean end: exit 0, at most 5 s, and
    /// the last line of the log.
    ///
    /// # Panics
    /// When it does not end so.
    pub async fn quit(&mut self) -> Duration {
        self.signal(Signal::TERM);
        self.ended_cleanly().await
    }

    /// Waits for the clean end that something has begun.
    ///
    /// # Panics
    /// When it does not come.
    pub async fn ended_cleanly(&mut self) -> Duration {
        // The bound is the contract's 5 s; the rest is for this process to notice.
        let (status, took) = self.ended(Duration::from_millis(5200)).await;
        let log = self.log();
        assert_eq!(status.code(), Some(0), "{status}; the log:\n{log}");
        let last = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        assert!(last.contains("Cleanup complete, exiting"), "the log ends with {last:?}:\n{log}");
        took
    }

    /// What it wrote to standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// The request with what every chat needs.
pub fn chat_request(mut request: Value) -> Value {
    if let Some(request) = request.as_object_mut() {
        request.entry("user_id").or_insert_with(|| json!("tester"));
        request.entry("permission").or_insert_with(|| json!("all"));
    }
    request
}
