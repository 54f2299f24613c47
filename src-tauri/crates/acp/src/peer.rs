//! Our side's handle to an agent.

use crate::{
    Answer, FromAgent, Offers, PeerError,
    facts::AgentFacts,
    from_agent::Then,
    lines::{Noise, WrittenRequests},
};
use agent_client_protocol as sdk;
use sdk::RawJsonRpcId;
use serde_json::{Value, json};
use std::path::Path;
use tokio::sync::{mpsc, oneshot, watch};

/// The protocol layer's connection.
pub(crate) type Link = sdk::v1::ConnectionTo<sdk::Agent>;

/// The version of the protocol that we speak.
const PROTOCOL_VERSION: u16 = 1;

/// Who we are, for `initialize`.
#[derive(Clone, Copy, Debug)]
pub struct ClientInfo<'a> {
    /// Program name.
    pub name: &'a str,
    /// Name for people.
    pub title: &'a str,
    /// Version.
    pub version: &'a str,
}

/// How a session is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening<'a> {
    /// `session/new`.
    New,
    /// `session/resume` of this session: goes on without a replay.
    Resume(&'a str),
    /// `session/load` of this session: replays its history as updates before the answer.
    Load(&'a str),
}

impl Opening<'_> {
    /// The request's method.
    pub fn method(self) -> &'static str {
        match self {
            Self::New => "session/new",
            Self::Resume(_) => "session/resume",
            Self::Load(_) => "session/load",
        }
    }
}

/// Resolves when a request was written to the agent.
#[derive(Debug)]
pub struct Written {
    done: oneshot::Receiver<()>,
    request: SentRequest,
}

/// A request that may be taken back.
#[derive(Clone, Debug)]
pub struct SentRequest {
    link: watch::Receiver<Option<Link>>,
    id: RawJsonRpcId,
}

impl SentRequest {
    /// Its JSON-RPC id, as the agent may name it.
    pub fn id(&self) -> Value {
        serde_json::to_value(&self.id).unwrap_or_default()
    }

    /// Tells the agent that the answer is not wanted any more
    /// (`$/cancel_request`). It may answer all the same.
    pub fn take_back(&self) {
        let Some(link) = self.link.borrow().clone() else { return };
        let message = sdk::UntypedMessage {
            method: "$/cancel_request".to_owned(),
            params: json!({ "requestId": self.id }),
        };
        // The agent may be gone.
        let _ = link.send_notification(message);
    }
}

impl Written {
    /// Waits until it was written.
    ///
    /// # Errors
    /// [`PeerError::Lost`] when the connection ended first.
    pub async fn wait(self) -> Result<(), PeerError> {
        self.done.await.map_err(|_| PeerError::Lost)
    }

    /// The request itself.
    pub fn request(&self) -> SentRequest {
        self.request.clone()
    }
}

/// The agent at the other end. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Peer {
    link: watch::Receiver<Option<Link>>,
    // Weak: the queue ends with the connection, however many peers there are.
    queue: mpsc::WeakSender<FromAgent>,
    offers: Offers,
    written: WrittenRequests,
    noise: Noise,
}

impl Peer {
    pub(crate) fn new(
        link: watch::Receiver<Option<Link>>,
        queue: mpsc::WeakSender<FromAgent>,
        offers: Offers,
        written: WrittenRequests,
        noise: Noise,
    ) -> Self {
        Self { link, queue, offers, written, noise }
    }

    fn link(&self) -> Result<Link, PeerError> {
        self.link.borrow().clone().ok_or(PeerError::Lost)
    }

    /// `initialize`: waits for the connection, agrees on the version, says what we do for
    /// it ([`Offers`]), and learns what the agent can do.
    ///
    /// # Errors
    /// The agent's, or an answer with another version.
    pub async fn initialize(&self, client: ClientInfo<'_>) -> Result<AgentFacts, PeerError> {
        self.link.clone().wait_for(Option::is_some).await.map_err(|_| PeerError::Lost)?;
        let answer = self
            .call(
                "initialize",
                json!({
                    "protocolVersion": PROTOCOL_VERSION,
                    "clientCapabilities": self.offers.capabilities(),
                    "clientInfo": {
                        "name": client.name, "title": client.title, "version": client.version,
                    },
                }),
            )
            .await?;
        Ok(AgentFacts::read(answer))
    }

    /// Sends a request. `then` gets the answer when the queue's reader comes to it
    /// ([`Answer::deliver`]); it is dropped unused when the connection ends first.
    ///
    /// # Errors
    /// [`PeerError::Lost`].
    pub fn request(
        &self,
        method: &str,
        params: Value,
        then: impl FnOnce(Result<Value, PeerError>) + Send + 'static,
    ) -> Result<Written, PeerError> {
        let then: Then = Box::new(then);
        let message = sdk::UntypedMessage { method: method.to_owned(), params };
        let prepared = self.link()?.prepare_request(message);
        let id: RawJsonRpcId = prepared.raw_id().clone();
        let written = self.written.expect(id.clone());
        let queue = self.queue.clone();
        let method = method.to_owned();
        let sent = prepared.on_receiving_result(async move |result| {
            let answer = Answer::new(method, result.map_err(PeerError::from), then);
            if let Some(queue) = queue.upgrade() {
                // A closed queue drops the answer, which tells the asker.
                let _ = queue.send(FromAgent::Answer(answer)).await;
            }
            Ok(())
        });
        if sent.is_err() {
            self.written.forget(&id);
            return Err(PeerError::Lost);
        }
        Ok(Written { done: written, request: SentRequest { link: self.link.clone(), id } })
    }

    /// Sends a request and waits for the answer. Never call it from where the
    /// queue is drained.
    ///
    /// # Errors
    /// The agent's; [`PeerError::Lost`].
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, PeerError> {
        let (sender, receiver) = oneshot::channel();
        self.request(method, params, move |result| {
            // The asker may have given up.
            let _ = sender.send(result);
        })?;
        receiver.await.map_err(|_| PeerError::Lost)?
    }

    /// Opens a session. `then` gets the answer in order: updates of the session that
    /// the agent wrote after its answer are still in the queue.
    ///
    /// # Errors
    /// [`PeerError::Lost`].
    pub fn open_session(
        &self,
        opening: Opening<'_>,
        cwd: &Path,
        servers: &[Value],
        then: impl FnOnce(Result<Value, PeerError>) + Send + 'static,
    ) -> Result<Written, PeerError> {
        let mut params = json!({ "cwd": cwd.to_string_lossy(), "mcpServers": servers });
        if let Opening::Resume(session) | Opening::Load(session) = opening {
            params["sessionId"] = json!(session);
        }
        self.request(opening.method(), params, then)
    }

    /// `session/prompt`. `then` gets the answer after all updates of the turn.
    ///
    /// # Errors
    /// [`PeerError::Lost`].
    pub fn prompt(
        &self,
        session: &str,
        content: &[Value],
        then: impl FnOnce(Result<Value, PeerError>) + Send + 'static,
    ) -> Result<Written, PeerError> {
        self.request("session/prompt", json!({ "sessionId": session, "prompt": content }), then)
    }

    /// `session/cancel`, a notification. Answer the session's open permission
    /// requests first.
    ///
    /// # Errors
    /// [`PeerError::Lost`].
    pub fn cancel(&self, session: &str) -> Result<(), PeerError> {
        let message = sdk::UntypedMessage {
            method: "session/cancel".to_owned(),
            params: json!({ "sessionId": session }),
        };
        self.link()?.send_notification(message).map_err(|_| PeerError::Lost)
    }

    /// `session/close`, where [`AgentFacts::close`] says so.
    ///
    /// # Errors
    /// The agent's; [`PeerError::Lost`].
    pub async fn close_session(&self, session: &str) -> Result<(), PeerError> {
        self.call("session/close", json!({ "sessionId": session })).await.map(drop)
    }

    /// `session/set_mode`.
    ///
    /// # Errors
    /// The agent's; [`PeerError::Lost`].
    pub async fn set_mode(&self, session: &str, mode: &str) -> Result<(), PeerError> {
        self.call("session/set_mode", json!({ "sessionId": session, "modeId": mode }))
            .await
            .map(drop)
    }

    /// `session/set_model`: the older way to choose a model.
    ///
    /// # Errors
    /// The agent's; [`PeerError::Lost`].
    pub async fn set_model(&self, session: &str, model: &str) -> Result<(), PeerError> {
        self.call("session/set_model", json!({ "sessionId": session, "modelId": model }))
            .await
            .map(drop)
    }

    /// `session/set_config_option`; the value is the id of a choice, or a
    /// boolean. The answer has all options as they are then (`configOptions`).
    ///
    /// # Errors
    /// The agent's; [`PeerError::Lost`].
    pub async fn set_option(
        &self,
        session: &str,
        option: &str,
        value: &Value,
    ) -> Result<Value, PeerError> {
        let mut params = json!({ "sessionId": session, "configId": option, "value": value });
        if value.is_boolean() {
            params["type"] = json!("boolean");
        }
        self.call("session/set_config_option", params).await
    }

    /// `authenticate` with one of [`AgentFacts::auth_methods`]. May wait for a
    /// person who signs in in a browser. `sent` gets the request, before its answer.
    ///
    /// # Errors
    /// The agent's; [`PeerError::Lost`].
    pub async fn authenticate(
        &self,
        method: &str,
        sent: impl FnOnce(&SentRequest),
    ) -> Result<(), PeerError> {
        let (sender, receiver) = oneshot::channel();
        let params = json!({ "methodId": method });
        let written = self.request("authenticate", params, move |result| {
            // The asker may have given up.
            let _ = sender.send(result);
        })?;
        sent(&written.request());
        receiver.await.map_err(|_| PeerError::Lost)?.map(drop)
    }

    /// `logout`, where [`AgentFacts::logout`] says so.
    ///
    /// # Errors
    /// The agent's; [`PeerError::Lost`].
    pub async fn log_out(&self) -> Result<(), PeerError> {
        self.call("logout", json!({})).await.map(drop)
    }

    /// `session/list`, where [`AgentFacts::list`] says so: one page of the
    /// agent's own sessions in a folder (`sessions`, `nextCursor`).
    ///
    /// # Errors
    /// The agent's; [`PeerError::Lost`].
    pub async fn list_sessions(
        &self,
        cwd: &Path,
        cursor: Option<&str>,
    ) -> Result<Value, PeerError> {
        let mut params = json!({ "cwd": cwd.to_string_lossy() });
        if let Some(cursor) = cursor {
            params["cursor"] = json!(cursor);
        }
        self.call("session/list", params).await
    }

    /// `session/delete`, where [`AgentFacts::delete`] says so.
    ///
    /// # Errors
    /// The agent's; [`PeerError::Lost`].
    pub async fn delete_session(&self, session: &str) -> Result<(), PeerError> {
        self.call("session/delete", json!({ "sessionId": session })).await.map(drop)
    }

    /// The last lines of the agent's output that were no messages; they may
    /// explain why it does not answer.
    pub fn noise(&self) -> Vec<String> {
        self.noise.last()
    }

    /// Waits until the agent has written so many bytes that belong to no message.
    pub async fn rubbish_reaches(&self, bytes: usize) {
        self.noise.reaches(bytes).await;
    }

    /// Whether the connection stands.
    pub fn is_connected(&self) -> bool {
        self.link.borrow().is_some()
    }
}
