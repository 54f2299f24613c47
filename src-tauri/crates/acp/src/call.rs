//! What the agent asks us to do for it.

use agent_client_protocol as sdk;
use serde_json::{Value, json};

/// The method of a question to the user.
pub const ELICIT: &str = "elicitation/create";

/// A request of the agent that [`crate::Offers`] covers: `fs/*`, `terminal/*`,
/// `elicitation/create`. Answer it once; dropping it answers with an
/// error, a question `cancel`.
#[derive(Debug)]
pub struct ClientCall {
    /// Its method.
    pub method: String,
    /// The agent's id of the session, where the request names one.
    pub session: Option<String>,
    /// Its parameters, raw.
    pub params: Value,
    /// The JSON-RPC id of the request.
    pub request: Value,
    pub(crate) responder: Option<sdk::Responder<Value>>,
}

/// Why a [`ClientCall`] was refused. The message says what to do about it: models read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    code: i32,
    message: String,
}

impl CallError {
    /// The request makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { code: -32602, message: message.into() }
    }

    /// What it names is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { code: -32002, message: message.into() }
    }

    /// It could not be done.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { code: -32603, message: message.into() }
    }

    /// The agent itself took the request back.
    pub fn withdrawn() -> Self {
        Self { code: -32800, message: "the request was taken back".to_owned() }
    }

    /// For people and models.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl ClientCall {
    /// Answers it.
    pub fn answer(mut self, answer: Result<Value, CallError>) {
        self.respond(answer);
    }

    fn respond(&mut self, answer: Result<Value, CallError>) {
        let Some(responder) = self.responder.take() else { return };
        let sent = match answer {
            Ok(answer) => responder.respond(answer),
            Err(CallError { code, message }) => {
                responder.respond_with_error(sdk::Error::new(code, message))
            }
        };
        // The agent may be gone; then nobody waits for the answer.
        if let Err(error) = sent {
            tracing::debug!(error = %error.message, method = self.method, "an answer was not sent");
        }
    }
}

impl Drop for ClientCall {
    fn drop(&mut self) {
        if self.method == ELICIT {
            // Fail closed, in the protocol's own words.
            return self.respond(Ok(json!({ "action": "cancel" })));
        }
        self.respond(Err(CallError::failed("the session is over")));
    }
}
