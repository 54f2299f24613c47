//! A server behind a URL, as a byte stream like any other: lines in, lines out, over
//! MCP's streamable HTTP. Messages pass as they are.
//!
//! One [`Remote::carry_until`] is one MCP session. What ends it (the host is gone, the session is
//! unknown to it) ends all calls in flight with that reason; whoever runs it
//! begins anew. Nothing is sent twice.

mod client;
mod streams;

pub(crate) use client::is_loopback;

use super::{
    auth::{Patience, Tokens},
    memory::Memory,
    modern::Annotations,
    older,
};
use bytes::Bytes;
use futures::{
    FutureExt, StreamExt,
    future::{AbortHandle, AbortRegistration, Abortable, Aborted},
    stream::FuturesUnordered,
};
use gantry_mcp::{Envelope, Kind, Line, LineReader, frame, modern};
use gantry_supervisor::Deadline;
use reqwest::{
    Client, Method, RequestBuilder, Response, StatusCode, Url,
    header::{HeaderMap, HeaderValue},
};
use serde_json::{json, value::RawValue};
use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::{Notify, mpsc},
    time::{Instant, sleep_until},
};

/// Longest message, bytes.
pub(super) const LONGEST: usize = 64 * 1024 * 1024;
/// How long it may take to accept a message that has no answer.
pub(super) const ACCEPT: Duration = Duration::from_secs(30);
/// The lead of a request before its cancellation.
const AHEAD: Duration = Duration::from_millis(50);
/// How often in a row a stream may break before the host is taken for gone.
const BREAKS: u32 = 4;
/// Before a stream is opened again, doubled with each break, unless the server says how long.
const PAUSE: Duration = Duration::from_millis(250);
/// A subscription that lasted this long did not break at once.
const STEADY: Duration = Duration::from_secs(10);
/// Messages between this and its reader.
pub(super) const QUEUE: usize = 64;
/// Why a session ended whose host wants the user to sign in.
pub(super) const WANTS_SIGN_IN: &str = "needs you to sign in";
/// Requests of a start, and of the light: somebody waits for an answer to them, be it a refusal.
const PROMPT: [&str; 4] = ["initialize", "server/discover", "tools/list", "ping"];
/// Of an error body that is not JSON.
const SHOWN: usize = 200;

/// How a URL is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// One endpoint, `POST` and `GET`.
    Streamable,
    /// The transport before it, of two endpoints.
    Older,
    /// Streamable, unless `initialize` is refused in a way that speaks for the older one.
    #[default]
    Detect,
}

/// A URL that speaks MCP over HTTP.
#[derive(Clone, Debug)]
pub struct Remote {
    pub(super) http: Client,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    transport: Transport,
    memory: Option<Memory>,
    pub(super) tokens: Option<Arc<Tokens>>,
}

/// The end of a session at the host, to be sent when it ends by our own wish.
pub struct Farewell(Option<RequestBuilder>);

impl Farewell {
    /// Tells the host, as far as the deadline allows; whether it heard does not matter.
    pub async fn send(self, deadline: Deadline) {
        if let Some(request) = self.0 {
            let _ = deadline.bound(request.send()).await;
        }
    }
}

/// Why a session is over.
pub(super) type Lost = String;

impl Remote {
    /// # Errors
    /// When the HTTP client cannot be made (no certificates).
    pub fn new(url: Url, headers: HeaderMap, transport: Transport) -> Result<Self, String> {
        let http = client::for_host(&url)?;
        Ok(Self { http, url, headers, transport, memory: None, tokens: None })
    }

    /// Remembers which transport was found out, and begins with what was remembered.
    pub fn remembering(self, memory: Option<Memory>) -> Self {
        let memory = memory.filter(|_| self.transport == Transport::Detect);
        Self { memory, ..self }
    }

    /// Signs in where the host wants it.
    pub fn signing_in(self, tokens: Option<Arc<Tokens>>) -> Self {
        Self { tokens, ..self }
    }

    /// Sends a request, with the token of the sign-in where there is one.
    pub(super) async fn send(
        &self,
        request: RequestBuilder,
        patience: Patience,
    ) -> reqwest::Result<Response> {
        match &self.tokens {
            Some(tokens) => tokens.send(request, patience).await,
            None => request.send().await,
        }
    }

    /// Whether a refusal means that the user has to sign in, and the session may end for that.
    pub(super) fn ends_for_sign_in(&self, status: StatusCode) -> Option<Lost> {
        let wants = self.tokens.as_ref().is_some_and(|tokens| tokens.wants_user());
        let refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        (wants && refused).then(|| WANTS_SIGN_IN.to_owned())
    }

    /// Carries one session: sends the lines of `reader`, writes what comes to `writer`. Returns
    /// why it is over, or `Err` when `stop` resolved, which ends the session at the host too.
    pub async fn carry_until(
        &self,
        mut reader: impl AsyncRead + Unpin,
        mut writer: impl AsyncWrite + Unpin,
        stop: impl Future<Output = Deadline>,
    ) -> Result<Lost, ()> {
        let mut stop = pin!(stop);
        let mut first = None;
        if let Some(tokens) = &self.tokens {
            tokens.begin();
        }
        let remembered = self.memory.as_ref().and_then(Memory::read);
        if self.transport != Transport::Older && remembered != Some(Transport::Older) {
            let session = Session::new(self);
            // Pinned, so that its streams stay open until the host has been told.
            let mut carry = pin!(session.carry(&mut reader, &mut writer));
            tokio::select! {
                lost = &mut carry => match lock(&session.unwanted).take() {
                    Some(line) => first = Some((line, lost)),
                    None => return Ok(lost),
                },
                deadline = &mut stop => {
                    session.farewell().send(deadline).await;
                    return Err(());
                }
            }
        }
        let opened = AtomicBool::new(false);
        let open = || {
            opened.store(true, Ordering::Release);
            if let Some(memory) = &self.memory {
                memory.write(Transport::Older);
            }
        };
        tokio::select! {
            lost = older::carry(self, first, &open, &mut reader, &mut writer) => {
                if let Some(memory) = &self.memory
                    && !opened.load(Ordering::Acquire)
                {
                    // It speaks something else by now, or nothing: found out at the next start.
                    memory.forget();
                }
                Ok(lost)
            }
            // There is no session to end at the host but the stream, which ends here.
            _ = stop => Err(()),
        }
    }

    /// Whether a refused first request speaks for the older transport.
    fn may_be_older(&self, status: StatusCode) -> bool {
        let older =
            [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED];
        self.transport == Transport::Detect && older.contains(&status)
    }
}

/// An error with its causes; without the URL, which may hold a token.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A request that waits for its response.
struct Open {
    abort: AbortHandle,
    since: Instant,
    /// Of revision 2026-07-28, where a closed connection is the cancellation.
    modern: bool,
}

struct Session<'a> {
    remote: &'a Remote,
    /// `Mcp-Session-Id` and `MCP-Protocol-Version`, once known.
    agreed: Mutex<HeaderMap>,
    established: Notify,
    out: mpsc::Sender<Bytes>,
    received: Mutex<Option<mpsc::Receiver<Bytes>>>,
    /// Requests that wait for their response, to be given up when they are cancelled, and
    /// since when.
    open: Mutex<HashMap<String, Open>>,
    /// The first request, when the host may want it by the older transport.
    unwanted: Mutex<Option<Bytes>>,
    annotations: Annotations,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Session<'a> {
    fn new(remote: &'a Remote) -> Self {
        let (out, received) = mpsc::channel(QUEUE);
        Self {
            remote,
            agreed: Mutex::default(),
            established: Notify::new(),
            out,
            received: Mutex::new(Some(received)),
            open: Mutex::default(),
            unwanted: Mutex::default(),
            annotations: Annotations::default(),
        }
    }

    async fn carry(&self, reader: impl AsyncRead + Unpin, writer: impl AsyncWrite + Unpin) -> Lost {
        let Some(received) = lock(&self.received).take() else { return "used twice".to_owned() };
        if let Some(tokens) = &self.remote.tokens {
            tokens.tell(self.out.clone());
        }
        let (requests, asked) = mpsc::channel(QUEUE);
        tokio::select! {
            lost = self.dispatch(reader, requests) => lost,
            lost = self.drive(asked) => lost,
            lost = self.listen() => lost,
            lost = write(received, writer) => lost,
        }
    }

    fn request(&self, method: Method) -> RequestBuilder {
        let agreed = lock(&self.agreed).clone();
        self.request_with(method, agreed)
    }

    fn request_with(&self, method: Method, own: HeaderMap) -> RequestBuilder {
        let Remote { http, url, headers, .. } = self.remote;
        http.request(method, url.clone()).headers(headers.clone()).headers(own)
    }

    fn farewell(&self) -> Farewell {
        let has_session = lock(&self.agreed).contains_key("mcp-session-id");
        let tokens = self.remote.tokens.as_ref().filter(|_| has_session);
        let token = tokens.and_then(|tokens| tokens.present());
        Farewell(has_session.then(|| {
            let request = self.request(Method::DELETE);
            token.into_iter().fold(request, |request, token| request.header("authorization", token))
        }))
    }

    /// Messages without an answer one after the other; requests go to `drive`, so that
    /// they do not wait for each other.
    async fn dispatch(
        &self,
        reader: impl AsyncRead + Unpin,
        requests: mpsc::Sender<(Envelope, AbortRegistration)>,
    ) -> Lost {
        let mut lines = LineReader::new(reader, LONGEST);
        loop {
            let line = match lines.next().await {
                Ok(Some(Line::Full(line))) => line,
                Ok(Some(Line::TooLong { length, .. })) => {
                    return format!("a message of {length} bytes is over the limit of {LONGEST}");
                }
                Ok(None) | Err(_) => return "its connection was closed".to_owned(),
            };
            let Ok(message) = Envelope::parse(line) else { continue };
            if message.kind() == Kind::Request {
                let (handle, registration) = AbortHandle::new_pair();
                let id = message.id().unwrap_or("null").to_owned();
                let modern = modern::version(&message).is_some();
                let open = Open { abort: handle, since: Instant::now(), modern };
                lock(&self.open).insert(id, open);
                if requests.send((message, registration)).await.is_err() {
                    return "its connection was closed".to_owned();
                }
                continue;
            }
            let cancelled = (message.method() == "notifications/cancelled")
                .then(|| message.param(&["requestId"]).unwrap_or_default());
            let open = cancelled
                .and_then(|id| lock(&self.open).get(id).map(|open| (open.since, open.modern)));
            if let (Some((_, true)), Some(id)) = (open, cancelled) {
                if let Some(open) = lock(&self.open).remove(id) {
                    open.abort.abort();
                }
                continue;
            }
            if let Some((since, _)) = open {
                // It travels on another connection and must not arrive before its request.
                sleep_until(since + AHEAD).await;
            }
            match tokio::time::timeout(ACCEPT, self.post(&message)).await {
                Ok(Ok(response)) => {
                    let wants = self.remote.ends_for_sign_in(response.status());
                    if let Some(lost) = wants.or_else(|| self.lost(&response)) {
                        return lost;
                    }
                }
                Ok(Err(error)) => return format!("cannot be reached: {}", chain(&error)),
                Err(_) => return "does not accept messages".to_owned(),
            }
            if let Some(open) = cancelled.and_then(|id| lock(&self.open).remove(id)) {
                open.abort.abort();
            }
            if message.method() == "notifications/initialized" {
                self.established.notify_one();
            }
        }
    }

    async fn drive(&self, mut asked: mpsc::Receiver<(Envelope, AbortRegistration)>) -> Lost {
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                request = asked.recv() => {
                    let Some((request, registration)) = request else {
                        return "its connection was closed".to_owned();
                    };
                    let id = request.id().unwrap_or("null").to_owned();
                    let work = async move { self.ask(&request).await };
                    running.push(Abortable::new(work, registration).map(move |done| (id, done)).boxed());
                }
                Some((id, done)) = running.next(), if !running.is_empty() => {
                    lock(&self.open).remove(&id);
                    match done {
                        Ok(Ok(())) | Err(Aborted) => {}
                        Ok(Err(lost)) => return lost,
                    }
                }
            }
        }
    }

    async fn post(&self, message: &Envelope) -> reqwest::Result<Response> {
        let request = match modern::version(message) {
            Some(version) => {
                let own = self.annotations.headers_of(message, &version);
                self.request_with(Method::POST, own)
            }
            None => self.request(Method::POST),
        };
        let request = request
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(message.line.clone());
        self.remote.send(request, patience_of(message)).await.map_err(reqwest::Error::without_url)
    }

    /// Whether this answer means that the host does not know our session any more.
    fn lost(&self, response: &Response) -> Option<Lost> {
        let has_session = lock(&self.agreed).contains_key("mcp-session-id");
        (response.status() == StatusCode::NOT_FOUND && has_session)
            .then(|| "has forgotten its session (HTTP 404)".to_owned())
    }

    /// One request and everything that comes on its connection.
    async fn ask(&self, request: &Envelope) -> Result<(), Lost> {
        let id = request.id().unwrap_or("null");
        let is_modern = modern::version(request).is_some();
        if is_modern && request.method() == "subscriptions/listen" {
            return self.keep_listening(request).await;
        }
        let response = match self.post(request).await {
            Ok(response) => response,
            Err(error) if error.is_connect() => {
                return Err(format!("cannot be reached: {}", chain(&error)));
            }
            Err(error) => {
                let why = format!("the connection broke before the answer: {}", chain(&error));
                return self.fail(id, &why).await;
            }
        };
        // A request without a session says nothing of the session.
        if let Some(lost) = self.lost(&response).filter(|_| !is_modern) {
            return Err(lost);
        }
        let first = request.method() == "initialize";
        if first && let Some(session) = response.headers().get("mcp-session-id") {
            lock(&self.agreed).insert("mcp-session-id", session.clone());
        }
        let status = response.status();
        if let Some(lost) = self.remote.ends_for_sign_in(status) {
            return Err(lost);
        }
        if !status.is_success() {
            return self.refused(request, response).await;
        }
        if let Some(memory) = &self.remote.memory {
            memory.write(Transport::Streamable);
        }
        if is_events(&response) {
            return self.answer_on_stream(request, response).await;
        }
        self.answer_in_body(request, response).await
    }

    /// An answer that is the whole body of a success.
    async fn answer_in_body(&self, request: &Envelope, response: Response) -> Result<(), Lost> {
        let (id, status) = (request.id().unwrap_or("null"), response.status());
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or("no content type").to_owned();
        match client::body(response).await {
            Ok(body) if body.iter().all(u8::is_ascii_whitespace) => {
                self.fail(
                    id,
                    &format!("answered a request with HTTP {} and nothing else", status.as_u16()),
                )
                .await
            }
            Ok(body) => {
                self.agree(request, &body);
                if self.pass_all(id, body).await? {
                    return Ok(());
                }
                // A page to log in, or a proxy that says what it thinks.
                let why = format!(
                    "answered with HTTP {} ({kind}) and no answer to the request",
                    status.as_u16()
                );
                self.fail(id, &why).await
            }
            Err(why) => self.fail(id, &why).await,
        }
    }

    /// The revision that the server granted goes with every request from now on.
    fn agree(&self, request: &Envelope, line: &Bytes) {
        if request.method() == "tools/list" {
            self.annotations.learn(line);
        }
        if request.method() != "initialize" {
            return;
        }
        let version = Envelope::parse(line.clone()).ok().and_then(|answer| {
            frame::field(answer.outcome()?, "protocolVersion").and_then(frame::string)
        });
        if let Some(version) = version.and_then(|version| HeaderValue::from_str(&version).ok()) {
            lock(&self.agreed).insert("mcp-protocol-version", version);
        }
    }

    /// An HTTP status that is no success: the server's own error where there is one.
    async fn refused(&self, request: &Envelope, response: Response) -> Result<(), Lost> {
        let id = request.id().unwrap_or("null");
        let status = response.status();
        let body = client::body(response).await.unwrap_or_default();
        let theirs =
            Envelope::parse(body.clone()).ok().filter(|answer| answer.kind() == Kind::Error);
        if let Some(error) = theirs.as_ref().and_then(Envelope::outcome) {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
            return self.pass(line.into()).await;
        }
        let text: String = String::from_utf8_lossy(&body).trim().chars().take(SHOWN).collect();
        let colon = if text.is_empty() { "" } else { ": " };
        if request.method() == "initialize" && self.remote.may_be_older(status) {
            *lock(&self.unwanted) = Some(request.line.clone());
            return Err(format!("answered `initialize` with HTTP {status}{colon}{text}"));
        }
        let hint = status.is_redirection().then_some(
            "; it sends us to another host, where headers with secrets do not go. Give that URL",
        );
        let wants = self.remote.tokens.as_ref().is_some_and(|tokens| tokens.is_wanted());
        let hint =
            hint.or_else(|| wants.then_some("; it needs you to sign in, see the server in Gantry"));
        let why = format!("answered HTTP {status}{colon}{text}{}", hint.unwrap_or_default());
        self.fail(id, &why).await
    }

    async fn fail(&self, id: &str, why: &str) -> Result<(), Lost> {
        let message = format!("{why}. The request was not repeated");
        let data = json!({ "reason": why });
        self.pass(frame::error(id, frame::UNAVAILABLE, &message, Some(data)).freeze()).await
    }

    /// One message, or an array of them. Whether the answer to the request `id` was among them.
    async fn pass_all(&self, id: &str, body: Bytes) -> Result<bool, Lost> {
        let parts: Vec<Bytes> =
            if body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
                let parts: Vec<Box<RawValue>> = serde_json::from_slice(&body).unwrap_or_default();
                parts.iter().map(|part| Bytes::from(part.get().to_owned())).collect()
            } else {
                vec![body]
            };
        let mut is_answered = false;
        for part in parts {
            let Ok(message) = Envelope::parse(part) else { continue };
            let is_answer = matches!(message.kind(), Kind::Result | Kind::Error);
            // An answer to nothing that was asked here would be taken for another one's.
            if is_answer && message.id() != Some(id) {
                continue;
            }
            is_answered |= is_answer;
            self.pass(message.line).await?;
        }
        Ok(is_answered)
    }

    async fn pass(&self, line: Bytes) -> Result<(), Lost> {
        self.out.send(line).await.map_err(|_| "its connection was closed".to_owned())
    }
}

pub(super) async fn write(
    mut received: mpsc::Receiver<Bytes>,
    mut writer: impl AsyncWrite + Unpin,
) -> Lost {
    while let Some(line) = received.recv().await {
        let line = frame::to_line(line.into());
        if writer.write_all(&line).await.is_err() || writer.flush().await.is_err() {
            break;
        }
    }
    "its connection was closed".to_owned()
}

/// Whether a message may wait for the user to sign in.
pub(super) fn patience_of(message: &Envelope) -> Patience {
    let waits = message.kind() == Kind::Request && !PROMPT.contains(&message.method());
    if waits { Patience::Told } else { Patience::None }
}

pub(super) fn is_events(response: &Response) -> bool {
    let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}
