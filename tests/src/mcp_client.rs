//! A small MCP client, written on the bare messages so that it shares nothing
//! with the product: streamable HTTP, or the two pipes of a stdio server.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::oneshot,
};

/// The revision that the client asks for.
pub const REVISION: &str = "2025-11-25";

/// An initialised connection to one MCP server.
pub struct McpClient {
    transport: Transport,
    next: AtomicU64,
    /// The result of `initialize`.
    pub initialized: Value,
    notifications: Arc<Mutex<Vec<Value>>>,
}

enum Transport {
    Http(Http),
    Stdio(Stdio),
}

struct Http {
    client: reqwest::Client,
    url: String,
    headers: Vec<(String, String)>,
    session: Arc<Mutex<Option<String>>>,
}

type Pending = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Value>>>>>;

struct Stdio {
    input: tokio::sync::Mutex<Option<Box<dyn AsyncWrite + Send + Unpin>>>,
    /// `None` once the server's output has ended.
    pending: Pending,
}

impl McpClient {
    /// Connects to a streamable HTTP endpoint and initialises.
    ///
    /// # Errors
    /// When it cannot be reached, or does not answer `initialize` with a result.
    pub async fn http(url: &str, headers: &[(String, String)]) -> Result<Self> {
        Self::http_over(crate::api::http_client(), url, headers).await
    }

    /// The same over a client that is there already.
    ///
    /// # Errors
    /// See [`McpClient::http`].
    pub async fn http_over(
        client: reqwest::Client,
        url: &str,
        headers: &[(String, String)],
    ) -> Result<Self> {
        let (url, headers) = (url.to_owned(), headers.to_vec());
        Self::over(Transport::Http(Http { client, url, headers, session: Arc::default() })).await
    }

    /// Speaks over the pipes of a stdio server, and initialises. Lines that are
    /// not JSON are skipped.
    ///
    /// # Errors
    /// When its output ends, or it does not answer `initialize` with a result.
    pub async fn stdio(
        input: impl AsyncWrite + Send + Unpin + 'static,
        output: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<Self> {
        let pending: Pending = Arc::new(Mutex::new(Some(HashMap::new())));
        let stdio = Stdio {
            input: tokio::sync::Mutex::new(Some(Box::new(input))),
            pending: Arc::clone(&pending),
        };
        let notifications = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&notifications);
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
                if message.get("method").is_some() {
                    lock(&seen).push(message);
                    continue;
                }
                let waiting =
                    message["id"].as_u64().and_then(|id| lock(&pending).as_mut()?.remove(&id));
                if let Some(waiting) = waiting {
                    let _ = waiting.send(message);
                }
            }
            lock(&pending).take();
        });
        let mut client = Self::new(Transport::Stdio(stdio));
        client.notifications = notifications;
        client.initialize().await
    }

    async fn over(transport: Transport) -> Result<Self> {
        Self::new(transport).initialize().await
    }

    fn new(transport: Transport) -> Self {
        Self {
            transport,
            next: AtomicU64::new(1),
            initialized: Value::Null,
            notifications: Arc::default(),
        }
    }

    async fn initialize(mut self) -> Result<Self> {
        self.initialized = self.shake_hands().await?;
        Ok(self)
    }

    async fn shake_hands(&self) -> Result<Value> {
        let params = json!({
            "protocolVersion": REVISION,
            "capabilities": {},
            "clientInfo": { "name": "gantry-tests", "version": "0" },
        });
        if let Transport::Http(http) = &self.transport {
            lock(&http.session).take();
        }
        let (answer, session) = self.send("initialize", params).await?;
        if let Transport::Http(http) = &self.transport {
            *lock(&http.session) = session;
        }
        let result = result(answer).context("initialize")?;
        self.notify("notifications/initialized", json!({})).await?;
        Ok(result)
    }

    /// Sends a request and returns the whole answer, `result` or `error`. When
    /// the server does not know the session (404), it opens a new one and asks
    /// again, as the specification wants it.
    ///
    /// # Errors
    /// When the transport fails or ends.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value> {
        match self.send(method, params.clone()).await {
            Err(why) if why.is::<UnknownSession>() => {
                self.shake_hands().await?;
                Ok(self.send(method, params).await?.0)
            }
            other => Ok(other?.0),
        }
    }

    /// Opens the stream on which the server speaks by itself (HTTP only; over
    /// stdio it always does), and hands each message to `heard`.
    ///
    /// # Errors
    /// When the server does not offer one.
    pub async fn listen(&self, heard: impl Fn(&Value) + Send + 'static) -> Result<()> {
        let Transport::Http(http) = &self.transport else { return Ok(()) };
        let request = http.client.get(&http.url).header("accept", "text/event-stream");
        let response = http.with_headers(request).send().await?.error_for_status()?;
        let mut stream = crate::Progress::new(response);
        tokio::spawn(async move {
            while let Some(event) = stream.next().await {
                heard(&event.data);
                stream.seen.clear();
            }
        });
        Ok(())
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// When the transport fails.
    pub async fn notify(&self, method: &str, params: Value) -> Result<()> {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        match &self.transport {
            Transport::Http(http) => http.post(&message).await.map(drop),
            Transport::Stdio(stdio) => stdio.write(&message).await,
        }
    }

    /// All tools, page by page.
    ///
    /// # Errors
    /// When the server answers with an error.
    pub async fn tools(&self) -> Result<Vec<Value>> {
        let mut tools = Vec::new();
        let mut params = json!({});
        loop {
            let answer = self.request("tools/list", params).await?;
            let mut page = result(answer).context("tools/list")?;
            if let Some(page) = page["tools"].as_array_mut() {
                tools.append(page);
            }
            match page["nextCursor"].as_str() {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => return Ok(tools),
            }
        }
    }

    /// The names of all tools, sorted.
    ///
    /// # Errors
    /// When the server answers with an error.
    pub async fn tool_names(&self) -> Result<Vec<String>> {
        let tools = self.tools().await?;
        let mut names: Vec<String> =
            tools.iter().filter_map(|tool| Some(tool["name"].as_str()?.to_owned())).collect();
        names.sort();
        Ok(names)
    }

    /// Calls a tool and returns the result.
    ///
    /// # Errors
    /// When the server answers with an error.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Value> {
        let params = json!({ "name": tool, "arguments": arguments });
        result(self.request("tools/call", params).await?).with_context(|| format!("tool {tool}"))
    }

    /// Notifications and requests of the server that came so far.
    pub fn notifications(&self) -> Vec<Value> {
        lock(&self.notifications).clone()
    }

    /// The id of the HTTP session.
    pub fn session(&self) -> Option<String> {
        match &self.transport {
            Transport::Http(http) => lock(&http.session).clone(),
            Transport::Stdio(_) => None,
        }
    }

    /// Closes a stdio server's input.
    pub async fn close_input(&self) {
        if let Transport::Stdio(stdio) = &self.transport {
            stdio.input.lock().await.take();
        }
    }

    async fn send(&self, method: &str, params: Value) -> Result<(Value, Option<String>)> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        match &self.transport {
            Transport::Http(http) => http.request(&message, id, &self.notifications).await,
            Transport::Stdio(stdio) => Ok((stdio.request(&message, id).await?, None)),
        }
    }
}

/// The server answered 404: it does not know the session any more.
#[derive(Debug)]
struct UnknownSession;

impl std::fmt::Display for UnknownSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the server does not know the session any more")
    }
}

impl std::error::Error for UnknownSession {}

impl Http {
    fn with_headers(&self, mut request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        request = request.header("mcp-protocol-version", REVISION);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        match &*lock(&self.session) {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    }

    async fn post(&self, message: &Value) -> Result<reqwest::Response> {
        let request = self.client.post(&self.url).json(message);
        let request = request.header("accept", "application/json, text/event-stream");
        let response = self.with_headers(request).send().await?;
        let status = response.status();
        if status == reqwest::StatusCode::NOT_FOUND && lock(&self.session).is_some() {
            return Err(UnknownSession.into());
        }
        if !status.is_success() {
            bail!("{} answered {status}: {}", self.url, response.text().await.unwrap_or_default());
        }
        Ok(response)
    }

    async fn request(
        &self,
        message: &Value,
        id: u64,
        notifications: &Mutex<Vec<Value>>,
    ) -> Result<(Value, Option<String>)> {
        let mut response = self.post(message).await?;
        let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        let session = header("mcp-session-id");
        if header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
            return Ok((response.json().await?, session));
        }
        let mut text = String::new();
        while let Some(chunk) = response.chunk().await? {
            text.push_str(&String::from_utf8_lossy(&chunk).replace("\r\n", "\n"));
            while let Some((event, rest)) = text.split_once("\n\n") {
                let data: Vec<&str> = event
                    .lines()
                    .filter_map(|line| line.strip_prefix("data:"))
                    .map(|data| data.strip_prefix(' ').unwrap_or(data))
                    .collect();
                let message = serde_json::from_str::<Value>(&data.join("\n"));
                text = rest.to_owned();
                match message {
                    Ok(answer) if answer.get("method").is_none() && answer["id"] == id => {
                        return Ok((answer, session));
                    }
                    Ok(other) => lock(notifications).push(other),
                    Err(_) => {}
                }
            }
        }
        bail!("{} ended its answer to {} without a response", self.url, message["method"])
    }
}

impl Stdio {
    async fn write(&self, message: &Value) -> Result<()> {
        let mut input = self.input.lock().await;
        let input = input.as_mut().ok_or_else(|| anyhow!("the input is closed"))?;
        input.write_all(format!("{message}\n").as_bytes()).await?;
        Ok(input.flush().await?)
    }

    async fn request(&self, message: &Value, id: u64) -> Result<Value> {
        let (sender, answer) = oneshot::channel();
        lock(&self.pending)
            .as_mut()
            .ok_or_else(|| anyhow!("the server's output has ended"))?
            .insert(id, sender);
        self.write(message).await?;
        answer.await.map_err(|_| anyhow!("the server's output ended before it answered"))
    }
}

/// The result of an answer, or its error as an error.
///
/// # Errors
/// When the answer is an error.
pub fn result(mut answer: Value) -> Result<Value> {
    match answer.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => bail!("{}", answer["error"]),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
