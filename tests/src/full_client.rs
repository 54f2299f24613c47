//! An MCP client that can do everything a client can be asked for: it answers
//! `roots/list`, `sampling/createMessage` and `elicitation/create`, and keeps
//! every message that the server sent by itself. Bare messages over the pipes
//! of a stdio server or over streamable HTTP, so that a server can be held
//! against itself through the bridge, field by field.

use crate::{api::http_client, mcp_client::REVISION, wait_until};
use anyhow::{Context, Result, bail};
use futures::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::{mpsc, oneshot},
};

/// A request that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// An initialised client. Clones are the same client.
#[derive(Clone)]
pub struct FullClient {
    inner: Arc<Inner>,
}

struct Inner {
    way: Way,
    next: AtomicU64,
    /// Requests without a response, over stdio and over streams alike.
    pending: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    heard: Mutex<Vec<Value>>,
    initialized: Mutex<Value>,
}

enum Way {
    Stdio(mpsc::UnboundedSender<Value>),
    Http { client: reqwest::Client, url: String, bearer: String, session: Mutex<Option<String>> },
}

impl FullClient {
    /// Over the pipes of a stdio server.
    ///
    /// # Errors
    /// When it does not answer `initialize` with a result.
    pub async fn stdio(
        mut input: impl AsyncWrite + Send + Unpin + 'static,
        output: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<Self> {
        let (sender, mut lines_out) = mpsc::unbounded_channel::<Value>();
        tokio::spawn(async move {
            while let Some(message) = lines_out.recv().await {
                if input.write_all(format!("{message}\n").as_bytes()).await.is_err() {
                    return;
                }
                let _ = input.flush().await;
            }
        });
        let client = Self::new(Way::Stdio(sender));
        // Weak, or the pipe would never be closed by dropping the client.
        let inner = Arc::downgrade(&client.inner);
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Some(inner) = inner.upgrade() else { return };
                if let Ok(message) = serde_json::from_str(&line) {
                    Self { inner }.take(message).await;
                }
            }
        });
        client.initialize().await
    }

    /// Over streamable HTTP, with the stream for what belongs to no request open.
    ///
    /// # Errors
    /// When it cannot be reached, or does not answer `initialize` with a result.
    pub async fn http(url: &str, bearer: &str) -> Result<Self> {
        let (url, bearer) = (url.to_owned(), bearer.to_owned());
        let way = Way::Http { client: http_client(), url, bearer, session: Mutex::default() };
        let client = Self::new(way).initialize().await?;
        let request = client.http_request(reqwest::Method::GET)?;
        let stream = request.header("accept", "text/event-stream").send().await?;
        let stream = stream.error_for_status().context("the stream of the session")?;
        let inner = Arc::downgrade(&client.inner);
        tokio::spawn(async move {
            let mut stream = crate::Progress::new(stream);
            while let Some(event) = stream.next().await {
                stream.seen.clear();
                let Some(inner) = inner.upgrade() else { return };
                Self { inner }.take(event.data).await;
            }
        });
        Ok(client)
    }

    fn new(way: Way) -> Self {
        let inner = Inner {
            way,
            next: AtomicU64::new(1),
            pending: Mutex::default(),
            heard: Mutex::default(),
            initialized: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    async fn initialize(self) -> Result<Self> {
        let params = json!({
            "protocolVersion": REVISION,
            "capabilities": {
                "roots": { "listChanged": true },
                "sampling": { "context": {}, "tools": {} },
                "elicitation": { "form": {}, "url": {} },
            },
            "clientInfo": { "name": "gantry-tests", "version": "0" },
        });
        let mut answer = self.request("initialize", params).await?;
        let Some(result) = answer.get_mut("result") else { bail!("initialize: {answer}") };
        *lock(&self.inner.initialized) = result.take();
        self.notify("notifications/initialized", json!({})).await?;
        Ok(self)
    }

    /// Whether it speaks HTTP.
    pub fn is_http(&self) -> bool {
        matches!(self.inner.way, Way::Http { .. })
    }

    /// The id of its HTTP session.
    pub fn session(&self) -> Option<String> {
        match &self.inner.way {
            Way::Http { session, .. } => lock(session).clone(),
            Way::Stdio(_) => None,
        }
    }

    /// The result of `initialize`.
    pub fn initialized(&self) -> Value {
        lock(&self.inner.initialized).clone()
    }

    /// Every notification and request of the server so far, in order.
    pub fn heard(&self) -> Vec<Value> {
        lock(&self.inner.heard).clone()
    }

    /// The parameters of what the server sent with this method, in order.
    pub fn heard_of(&self, method: &str) -> Vec<Value> {
        let heard = self.heard();
        heard
            .iter()
            .filter(|message| message["method"] == method)
            .map(|m| m["params"].clone())
            .collect()
    }

    /// Waits until the server has sent so many messages with this method.
    ///
    /// # Panics
    /// When it has not after 20 s.
    pub async fn hears(&self, method: &str, count: usize) {
        let what = format!("the server sends {method}");
        wait_until(&what, Duration::from_secs(20), async || {
            (self.heard_of(method).len() >= count).then_some(())
        })
        .await;
    }

    /// Sends a request and returns the whole answer.
    ///
    /// # Errors
    /// When the transport fails or no answer comes.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value> {
        let (_, answer) = self.begin(method, params).await?;
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        answer.with_context(|| format!("no answer to {method}"))?.context("the server is gone")
    }

    /// Sends a request; its id, and the answer when it comes.
    ///
    /// # Errors
    /// When the transport fails.
    pub async fn begin(
        &self,
        method: &str,
        params: Value,
    ) -> Result<(u64, oneshot::Receiver<Value>)> {
        let id = self.inner.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        lock(&self.inner.pending).insert(id.to_string(), sender);
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.post(message).await?;
        Ok((id, answer))
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// When the transport fails.
    pub async fn notify(&self, method: &str, params: Value) -> Result<()> {
        self.post(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await
    }

    /// Takes a message of the server: an answer finds who waits for it, all else is kept, and
    /// what is a request is answered.
    async fn take(&self, message: Value) {
        if message.get("method").is_none() {
            let waiting = lock(&self.inner.pending).remove(&message["id"].to_string());
            if let Some(waiting) = waiting {
                let _ = waiting.send(message);
            }
            return;
        }
        lock(&self.inner.heard).push(message.clone());
        if let Some(id) = message.get("id") {
            let answer = match reply(&message) {
                Some(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
                None => {
                    let error = json!({ "code": -32601, "message": "Method not found" });
                    json!({ "jsonrpc": "2.0", "id": id, "error": error })
                }
            };
            if let Err(why) = self.post(answer).await {
                eprintln!("an answer to the server was not sent: {why:#}");
            }
        }
    }

    fn http_request(&self, method: reqwest::Method) -> Result<reqwest::RequestBuilder> {
        let Way::Http { client, url, bearer, session } = &self.inner.way else { bail!("no HTTP") };
        let request = client.request(method, url).bearer_auth(bearer);
        let request = request.header("mcp-protocol-version", REVISION);
        Ok(match &*lock(session) {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        })
    }

    /// Boxed, as what is sent may be answered by what asks for an answer, and so on.
    fn post(&self, message: Value) -> BoxFuture<'_, Result<()>> {
        async move {
            let session = match &self.inner.way {
                Way::Stdio(lines) => return Ok(lines.send(message)?),
                Way::Http { session, .. } => session,
            };
            let request = self.http_request(reqwest::Method::POST)?.json(&message);
            let request = request.header("accept", "application/json, text/event-stream");
            if message.get("id").is_none() || message.get("method").is_none() {
                request.send().await?.error_for_status()?;
                return Ok(());
            }
            if message["method"] == "initialize" {
                let response = request.send().await?.error_for_status()?;
                let id = response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok());
                *lock(session) = id.map(str::to_owned);
                self.read(response).await;
                return Ok(());
            }
            // The answer may come after messages that have to be answered first.
            let client = self.clone();
            tokio::spawn(async move {
                match request.send().await {
                    Ok(response) if response.status().is_success() => client.read(response).await,
                    other => eprintln!("{}: {other:?}", message["method"]),
                }
            });
            Ok(())
        }
        .boxed()
    }

    /// The messages of a response: one, or a stream of them.
    async fn read(&self, response: reqwest::Response) {
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        if kind.is_some_and(|kind| kind.starts_with("application/json")) {
            if let Ok(message) = response.json().await {
                self.take(message).await;
            }
            return;
        }
        let mut stream = crate::Progress::new(response);
        while let Some(event) = stream.next().await {
            self.take(event.data).await;
        }
    }
}

/// What this client answers; always the same.
fn reply(message: &Value) -> Option<Value> {
    Some(match message["method"].as_str()? {
        "ping" => json!({}),
        "roots/list" => json!({ "roots": [
            { "uri": "file:///one", "name": "One", "x-own": 1 }, { "uri": "file:///two" } ] }),
        "sampling/createMessage" => json!({
            "role": "assistant", "model": "fixed", "stopReason": "endTurn",
            "content": { "type": "text", "text": "What the model says.\u{2028}" },
        }),
        "elicitation/create" if message["params"]["mode"] == "url" => json!({ "action": "accept" }),
        "elicitation/create" => json!({ "action": "accept", "content": {
            "name": "Ada", "check": true, "email": "ada@example.org", "integer": 7,
            "untitledSingleSelectEnum": "Joey", "interpretation": "snake" } }),
        _ => return None,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
