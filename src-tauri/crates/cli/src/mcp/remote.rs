//! A server behind a URL, as a byte stream like any other: lines in, lines out, over
//! MCP's streamable HTTP. Messages pass as they are.
//!
//! One [`Remote::carry_until`] is one MCP session. What ends it (the host is gone) ends all calls
//! in flight with that reason; whoever runs it begins anew. Nothing is sent twice, but for what a
//! host did not take because it does not know the session any more: that is sent in a new one.

mod answers;
mod client;
mod renew;
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
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url, header::HeaderMap};
use std::{
    collections::{BTreeMap, HashMap},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::{Notify, mpsc, watch},
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
/// A host that has said nothing to the first request for so long is asked for the older transport.
const PROBE_AFTER: Duration = Duration::from_secs(1);
/// How long it may take to show that it speaks that one.
const PROBE_LIMIT: Duration = Duration::from_secs(4);
/// Names the session.
const SESSION_ID: &str = "mcp-session-id";
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
    /// `initialize`, to begin again with.
    first: Mutex<Option<Envelope>>,
    /// What the host was asked to keep in mind, by what it is about.
    kept: Mutex<BTreeMap<String, Envelope>>,
    /// One new session at a time.
    renewing: tokio::sync::Mutex<()>,
    /// Changes with each new session.
    renewed: watch::Sender<u64>,
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
            first: Mutex::default(),
            kept: Mutex::default(),
            renewing: tokio::sync::Mutex::default(),
            renewed: watch::Sender::new(0),
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
        let has_session = lock(&self.agreed).contains_key(SESSION_ID);
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
            let session = self.id();
            match tokio::time::timeout(ACCEPT, self.post(&message)).await {
                Ok(Ok(response)) => {
                    if let Some(lost) = self.remote.ends_for_sign_in(response.status()) {
                        return lost;
                    }
                    if let Some(session) = session.filter(|_| Self::is_unknown(&response))
                        && let Err(lost) = self.tell_again(&session, &message).await
                    {
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
