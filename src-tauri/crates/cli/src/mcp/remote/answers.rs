//! One request, and what comes of it.

use super::{
    Lost, PROBE_AFTER, PROBE_LIMIT, SESSION_ID, SHOWN, Session, Transport, chain, client,
    is_events, lock, older,
};
use bytes::Bytes;
use gantry_mcp::{Envelope, Kind, frame, modern};
use reqwest::{Response, header::HeaderValue};
use serde_json::{json, value::RawValue};
use std::pin::pin;

impl Session<'_> {
    /// One request and everything that comes on its connection.
    pub(super) async fn ask(&self, request: &Envelope) -> Result<(), Lost> {
        let id = request.id().unwrap_or("null");
        let is_modern = modern::version(request).is_some();
        if is_modern && request.method() == "subscriptions/listen" {
            return self.keep_listening(request).await;
        }
        let response = match self.taken(request, is_modern).await? {
            Ok(response) => response,
            Err(error) if error.is_connect() => {
                return Err(format!("cannot be reached: {}", chain(&error)));
            }
            Err(error) => {
                let why = format!("the connection broke before the answer: {}", chain(&error));
                return self.fail(id, &why).await;
            }
        };
        let first = request.method() == "initialize";
        if first {
            *lock(&self.first) = Some(request.clone());
            if let Some(session) = response.headers().get(SESSION_ID) {
                lock(&self.agreed).insert(SESSION_ID, session.clone());
            }
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

    /// Sends a request until the host knows its session: one that has forgotten it (404) has not
    /// taken the request, so that it may be sent again, once, in a new one.
    async fn taken(
        &self,
        request: &Envelope,
        is_modern: bool,
    ) -> Result<reqwest::Result<Response>, Lost> {
        let mut again = false;
        loop {
            // A request without a session says nothing of the session.
            let session = self.id().filter(|_| !is_modern);
            let response = match self.first_or_other(request).await? {
                Ok(response) => response,
                Err(error) => return Ok(Err(error)),
            };
            let Some(session) = session.filter(|_| Self::is_unknown(&response)) else {
                self.keep(request);
                return Ok(Ok(response));
            };
            if again {
                return Err(super::renew::FORGOTTEN.to_owned());
            }
            self.renew(&session).await?;
            again = true;
        }
    }

    /// Sends a request. Where the transport is to be found out, a host that says nothing to the
    /// first one is asked meanwhile whether it speaks the older one.
    async fn first_or_other(&self, request: &Envelope) -> Result<reqwest::Result<Response>, Lost> {
        let is_open = request.method() == "initialize"
            && self.remote.transport == Transport::Detect
            && self.remote.memory.as_ref().and_then(super::Memory::read).is_none();
        if !is_open {
            return Ok(self.post(request).await);
        }
        let mut posted = pin!(self.post(request));
        let older = async {
            tokio::time::sleep(PROBE_AFTER).await;
            older::is_there(self.remote, PROBE_LIMIT).await
        };
        let is_older = tokio::select! {
            biased;
            response = &mut posted => return Ok(response),
            is_older = older => is_older,
        };
        if is_older {
            *lock(&self.unwanted) = Some(request.line.clone());
            return Err("did not answer `initialize`".to_owned());
        }
        Ok(posted.await)
    }

    /// An answer that is the whole body of a success.
    pub(super) async fn answer_in_body(
        &self,
        request: &Envelope,
        response: Response,
    ) -> Result<(), Lost> {
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
    pub(super) fn agree(&self, request: &Envelope, line: &Bytes) {
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
    pub(super) async fn refused(&self, request: &Envelope, response: Response) -> Result<(), Lost> {
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

    pub(super) async fn fail(&self, id: &str, why: &str) -> Result<(), Lost> {
        let message = format!("{why}. The request was not repeated");
        let data = json!({ "reason": why });
        self.pass(frame::error(id, frame::UNAVAILABLE, &message, Some(data)).freeze()).await
    }

    /// One message, or an array of them. Whether the answer to the request `id` was among them.
    pub(super) async fn pass_all(&self, id: &str, body: Bytes) -> Result<bool, Lost> {
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

    pub(super) async fn pass(&self, line: Bytes) -> Result<(), Lost> {
        self.out.send(line).await.map_err(|_| "its connection was closed".to_owned())
    }
}
