//! HTTP to a running Gantry, whichever host it is.

use crate::{McpClient, Progress, programs, stage::pretty, wait_until};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

/// An HTTP client that goes through no proxy.
///
/// # Panics
/// When none can be made.
pub fn http_client() -> reqwest::Client {
    // Fails when it is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Few idle connections, so that a burst does not keep descriptors of the instance open.
    let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(2).build();
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

/// Where a running Gantry listens, and what it wants.
pub struct Api {
    /// Without a slash at the end.
    pub url: String,
    /// The access token.
    pub token: String,
    client: reqwest::Client,
}

impl Api {
    /// For a listener and its token.
    pub fn new(url: &str, token: &str) -> Self {
        let (url, token) = (url.trim_end_matches('/').to_owned(), token.trim().to_owned());
        Self { url, token, client: http_client() }
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
        for secret in programs::PLANTED.into_iter().chain([self.token.as_str()]) {
            assert!(secret.is_empty() || !text.contains(secret), "a secret was answered: {text}");
        }
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

    /// An MCP client of a saved server's bridge URL.
    ///
    /// # Panics
    /// When it cannot be initialised.
    pub async fn mcp(&self, url: &str) -> McpClient {
        let headers = [("authorization".to_owned(), format!("Bearer {}", self.token))];
        let client = McpClient::http_over(self.client.clone(), url, &headers).await;
        client.unwrap_or_else(|why| panic!("{url}: {why:#}"))
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
}

/// The request with what every chat needs.
pub fn chat_request(mut request: Value) -> Value {
    if let Some(request) = request.as_object_mut() {
        request.entry("user_id").or_insert_with(|| json!("tester"));
        request.entry("permission").or_insert_with(|| json!("all"));
    }
    request
}
