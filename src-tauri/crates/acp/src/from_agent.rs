//! What comes from the agent, in the order in which it wrote it.

use crate::{ClientCall, Offers, PeerError, RawUpdate, call::ELICIT, lines::Fence};
use agent_client_protocol as sdk;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// One thing that the agent sent.
#[derive(Debug)]
pub enum FromAgent {
    /// `session/update`.
    Update {
        /// The agent's id of the session.
        session: String,
        /// The raw `update` object, whatever its kind.
        update: RawUpdate,
    },
    /// `session/request_permission`.
    Permission(PermissionAsk),
    /// Another request that is offered.
    Call(ClientCall),
    /// The answer to one of our requests.
    Answer(Answer),
    /// The agent does not want an answer to one of its requests any more
    /// (`$/cancel_request`).
    Withdrawn {
        /// The request's id; see [`PermissionAsk::request`] and [`ClientCall::request`].
        request: Value,
    },
    /// Another notification.
    Notification {
        /// Its method.
        method: String,
        /// Its parameters.
        params: Value,
    },
}

/// The agent asks whether it may call a tool. Answer it once; dropping it
/// answers `cancelled`.
#[derive(Debug)]
pub struct PermissionAsk {
    /// The agent's id of the session.
    pub session: String,
    /// The raw `toolCall`.
    pub tool_call: Value,
    /// The raw options, in the agent's order.
    pub options: Vec<Value>,
    /// The JSON-RPC id of the request.
    pub request: Value,
    responder: Option<sdk::Responder<Value>>,
}

impl PermissionAsk {
    /// Answers with an offered option. Whether it was offered is the caller's to check.
    pub fn select(mut self, option_id: &str) {
        self.respond(json!({ "outcome": { "outcome": "selected", "optionId": option_id } }));
    }

    /// Answers that the turn was cancelled.
    pub fn cancel(mut self) {
        self.respond(cancelled());
    }

    /// Answers that the agent itself took the request back.
    pub fn withdraw(mut self) {
        if let Some(responder) = self.responder.take() {
            // Nobody waits for the answer.
            let _ = responder.respond_with_error(sdk::Error::request_cancelled());
        }
    }

    fn respond(&mut self, answer: Value) {
        if let Some(responder) = self.responder.take() {
            // The agent may be gone; then nobody waits for the answer.
            if let Err(error) = responder.respond(answer) {
                tracing::debug!(error = %error.message, "a permission answer was not sent");
            }
        }
    }
}

impl Drop for PermissionAsk {
    fn drop(&mut self) {
        self.respond(cancelled());
    }
}

fn cancelled() -> Value {
    json!({ "outcome": { "outcome": "cancelled" } })
}

/// What is to happen with an answer.
pub(crate) type Then = Box<dyn FnOnce(Result<Value, PeerError>) + Send>;

/// The answer to one of our requests. Whoever drains the queue calls
/// [`Answer::deliver`]; so what the asker does with it happens before the next
/// message of the agent is looked at.
pub struct Answer {
    method: String,
    result: Result<Value, PeerError>,
    then: Then,
}

impl Answer {
    pub(crate) fn new(method: String, result: Result<Value, PeerError>, then: Then) -> Self {
        Self { method, result, then }
    }

    /// The request's method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Hands the answer to whoever asked.
    pub fn deliver(self) {
        (self.then)(self.result);
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer")
            .field("method", &self.method)
            .field("ok", &self.result.is_ok())
            .finish_non_exhaustive()
    }
}

/// Puts what the agent sends into the queue.
pub(crate) struct Router {
    queue: mpsc::Sender<FromAgent>,
    offers: Offers,
    fence: Fence,
}

impl Router {
    pub(crate) fn new(queue: mpsc::Sender<FromAgent>, offers: Offers, fence: Fence) -> Self {
        Self { queue, offers, fence }
    }

    async fn push(&self, item: FromAgent) -> Result<(), sdk::Error> {
        // A full queue holds the dispatch loop; the reader holds too (see `lines::read`).
        self.queue
            .send(item)
            .await
            .map_err(|_| sdk::Error::internal_error().data("nobody reads the queue any more"))
    }

    async fn request(
        &self,
        message: sdk::UntypedMessage,
        responder: sdk::Responder<Value>,
    ) -> Result<(), sdk::Error> {
        let (method, mut params) = message.into_parts();
        if self.offers.covers(&method) {
            let session = params.get("sessionId").and_then(Value::as_str).map(str::to_owned);
            let request = serde_json::to_value(responder.raw_id()).unwrap_or_default();
            let responder = Some(responder);
            let call = ClientCall { method, session, params, request, responder };
            return self.push(FromAgent::Call(call)).await;
        }
        if method == ELICIT {
            // Not advertised; an agent that asks all the same must not wait for ever.
            tracing::info!("the agent's question (elicitation) was answered `cancel`");
            return responder.respond(json!({ "action": "cancel" }));
        }
        if method != "session/request_permission" {
            // Not advertised, or unknown.
            return responder.respond_with_error(sdk::Error::method_not_found().data(method));
        }
        let Some(session) = take_text(&mut params, "sessionId") else {
            return responder
                .respond_with_error(sdk::Error::invalid_params().data("`sessionId` is missing"));
        };
        let options = match params.get_mut("options").map(Value::take) {
            Some(Value::Array(options)) => options,
            _ => Vec::new(),
        };
        let tool_call = params.get_mut("toolCall").map(Value::take).unwrap_or_default();
        let request = serde_json::to_value(responder.raw_id()).unwrap_or_default();
        let ask =
            PermissionAsk { session, tool_call, options, request, responder: Some(responder) };
        self.push(FromAgent::Permission(ask)).await
    }

    async fn notification(&self, message: sdk::UntypedMessage) -> Result<(), sdk::Error> {
        let (method, mut params) = message.into_parts();
        if method == Fence::METHOD {
            self.fence.passed();
            return Ok(());
        }
        // The reader takes the short way with most updates.
        if method == "session/update" {
            let session = take_text(&mut params, "sessionId");
            let update = params.get_mut("update").map(Value::take);
            let (Some(session), Some(update)) = (session, update) else {
                tracing::warn!("skipped an update without `sessionId` or `update`");
                return Ok(());
            };
            let update = RawUpdate::from(update);
            return self.push(FromAgent::Update { session, update }).await;
        }
        if method == "$/cancel_request" {
            let request = params.get_mut("requestId").map(Value::take).unwrap_or_default();
            return self.push(FromAgent::Withdrawn { request }).await;
        }
        self.push(FromAgent::Notification { method, params }).await
    }
}

fn take_text(params: &mut Value, key: &str) -> Option<String> {
    match params.get_mut(key)?.take() {
        Value::String(text) => Some(text),
        _ => None,
    }
}

impl sdk::HandleDispatchFrom<sdk::Agent> for Router {
    async fn handle_dispatch_from(
        &mut self,
        message: sdk::Dispatch,
        _connection: sdk::ConnectionTo<sdk::Agent>,
    ) -> Result<sdk::Handled<sdk::Dispatch>, sdk::Error> {
        match message {
            sdk::Dispatch::Request(request, responder) => {
                self.request(request, responder).await?;
            }
            sdk::Dispatch::Notification(notification) => self.notification(notification).await?,
            // To whoever asked: `Peer::request` puts it into the queue.
            response => return Ok(sdk::Handled::No { message: response, retry: false }),
        }
        Ok(sdk::Handled::Yes)
    }

    fn describe_chain(&self) -> impl std::fmt::Debug {
        "gantry"
    }
}
