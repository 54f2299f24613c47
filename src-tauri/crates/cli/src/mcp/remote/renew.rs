//! A host that has forgotten our session (HTTP 404): it gets a new one in the place of the old.
//!
//! What it refused so has surely not taken effect and is sent again; what it still works on is
//! left alone. What the host was asked to keep in mind it is asked again, and as its lists may be
//! others now, our side is told that they changed.

use super::{ACCEPT, Lost, SESSION_ID, Session, chain, client, is_events, lock};
use crate::mcp::{auth::Patience, sse::Events};
use bytes::Bytes;
use gantry_mcp::{Envelope, Kind, frame};
use reqwest::{
    Method, Response, StatusCode,
    header::{HeaderMap, HeaderValue},
};

/// Why a session is over that the host does not know any more.
pub(super) const FORGOTTEN: &str = "has forgotten its session (HTTP 404)";

impl Session<'_> {
    /// The session that requests name now.
    pub(super) fn id(&self) -> Option<HeaderValue> {
        lock(&self.agreed).get(SESSION_ID).cloned()
    }

    /// Whether the answer to a request that named a session says that there is none such.
    pub(super) fn is_unknown(response: &Response) -> bool {
        response.status() == StatusCode::NOT_FOUND
    }

    /// Notes what the host was asked to keep in mind.
    pub(super) fn keep(&self, request: &Envelope) {
        let about = || request.param(&["uri"]).and_then(frame::string);
        match request.method() {
            "logging/setLevel" => {
                lock(&self.kept).insert(String::new(), request.clone());
            }
            "resources/subscribe" => {
                if let Some(uri) = about() {
                    lock(&self.kept).insert(uri, request.clone());
                }
            }
            "resources/unsubscribe" => {
                if let Some(uri) = about() {
                    lock(&self.kept).remove(&uri);
                }
            }
            _ => {}
        }
    }

    /// Begins a new session in the place of `old`, unless that was done already.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn renew(&self, old: &HeaderValue) -> Result<(), Lost> {
        let _one_at_a_time = self.renewing.lock().await;
        if self.id().as_ref() != Some(old) {
            return Ok(());
        }
        let Some(first) = lock(&self.first).clone() else { return Err(FORGOTTEN.to_owned()) };
        let begun = tokio::time::timeout(ACCEPT, self.begin_again(&first)).await;
        let begun = begun.unwrap_or_else(|_| Err("it did not answer in time".to_owned()));
        let answer =
            begun.map_err(|why| format!("{FORGOTTEN}, and a new one could not be begun: {why}"))?;
        tracing::info!("the host had forgotten the session; a new one was begun");
        let kept: Vec<Envelope> = lock(&self.kept).values().cloned().collect();
        for request in kept {
            // What it thinks of it now, nobody waits to hear.
            let _ = tokio::time::timeout(ACCEPT, self.post(&request)).await;
        }
        self.renewed.send_modify(|count| *count += 1);
        let declared = answer.outcome().and_then(|result| frame::field(result, "capabilities"));
        for list in ["tools", "prompts", "resources"] {
            if declared.is_some_and(|declared| frame::field(declared, list).is_some()) {
                let news = format!("notifications/{list}/list_changed");
                self.pass(frame::notification(&news, None).freeze()).await?;
            }
        }
        Ok(())
    }

    /// The answer to `initialize`, and the session that it began.
    async fn begin_again(&self, first: &Envelope) -> Result<Envelope, String> {
        let request = self
            .request_with(Method::POST, HeaderMap::new())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(first.line.clone());
        let sent = self.remote.send(request, Patience::None).await;
        let response = sent.map_err(|error| chain(&error.without_url()))?;
        let (status, session) = (response.status(), response.headers().get(SESSION_ID).cloned());
        if !status.is_success() {
            return Err(format!("it answered `initialize` with HTTP {status}"));
        }
        let id = first.id().unwrap_or("null");
        let line = own_answer(id, response).await?;
        let answer = Envelope::parse(line.clone()).map_err(|why| why.to_string())?;
        if answer.kind() != Kind::Result {
            return Err("it refused `initialize`".to_owned());
        }
        {
            let mut agreed = lock(&self.agreed);
            agreed.clear();
            if let Some(session) = session {
                agreed.insert(SESSION_ID, session);
            }
        }
        self.agree(first, &line);
        let initialized = frame::notification("notifications/initialized", None).freeze();
        let initialized = Envelope::parse(initialized).map_err(|why| why.to_string())?;
        let told = self.post(&initialized).await.map_err(|error| chain(&error))?;
        if Self::is_unknown(&told) {
            return Err("it forgot the new one at once".to_owned());
        }
        Ok(answer)
    }

    /// A message without an answer that the host refused as it does not know the session. What
    /// belongs to a request of the old one means nothing in a new one.
    pub(super) async fn tell_again(
        &self,
        old: &HeaderValue,
        message: &Envelope,
    ) -> Result<(), Lost> {
        self.renew(old).await?;
        let belongs = message.kind() != Kind::Notification
            || ["notifications/cancelled", "notifications/initialized"].contains(&message.method());
        if belongs {
            return Ok(());
        }
        match tokio::time::timeout(ACCEPT, self.post(message)).await {
            Ok(Ok(response)) if Self::is_unknown(&response) => Err(FORGOTTEN.to_owned()),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(format!("cannot be reached: {}", chain(&error))),
            Err(_) => Err("does not accept messages".to_owned()),
        }
    }
}

/// The answer to a request of our own.
async fn own_answer(id: &str, mut response: Response) -> Result<Bytes, String> {
    if !is_events(&response) {
        return client::body(response).await;
    }
    let mut events = Events::default();
    loop {
        while let Some(event) = events.next() {
            let is_it = |message: &Envelope| {
                matches!(message.kind(), Kind::Result | Kind::Error) && message.id() == Some(id)
            };
            if Envelope::parse(event.data.clone()).is_ok_and(|message| is_it(&message)) {
                return Ok(event.data);
            }
        }
        match response.chunk().await {
            Ok(Some(piece)) if events.feed(&piece).is_ok() => {}
            _ => return Err("the connection broke before the answer".to_owned()),
        }
    }
}
