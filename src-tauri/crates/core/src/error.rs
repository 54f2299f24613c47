//! Errors as callers see them: a code for programs, a message for people.

use serde::Serialize;
use serde_json::Value;

/// What kind of failure it was. A code exists only because somebody acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ts_rs::TS)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The input is wrong; the message names the field.
    ValidationError,
    /// The session, server, agent or command is not there.
    NotFound,
    /// A turn is running and the caller did not ask to queue.
    Busy,
    /// Gantry is ending.
    ShuttingDown,
    /// Something that it was about was stopped or cancelled while it went on; it may be tried
    /// again.
    Interrupted,
    /// An agent, a server or another program or endpoint that was asked failed, was not found or
    /// did not answer; the message says which and why. Gantry itself is well.
    UpstreamFailed,
    /// Gantry itself could not do it (its disk, its database); the message says what.
    Failed,
}

/// A failed command.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// For programs.
    pub code: ErrorCode,
    /// For people: what happened, why, what to do.
    pub message: String,
    /// More for programs (an MCP error object, an exit status).
    pub detail: Option<Value>,
}

/// The result of a command.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), detail: None }
    }
    /// The input is wrong; the message names the field.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ValidationError, message)
    }
    /// It is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NotFound, message)
    }
    /// A turn is running.
    pub fn busy(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Busy, message)
    }
    /// Gantry is ending.
    pub fn shutting_down() -> Self {
        Self::new(
            ErrorCode::ShuttingDown,
            "Gantry is shutting down; start it again and repeat the request",
        )
    }
    /// Somebody else stopped or cancelled what it was about.
    pub fn interrupted(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Interrupted, message)
    }
    /// Another program or endpoint failed.
    pub fn upstream(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::UpstreamFailed, message)
    }
    /// Gantry itself could not do it.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Failed, message)
    }
    /// With more for programs.
    pub fn with_detail(mut self, detail: Value) -> Self {
        self.detail = Some(detail);
        self
    }
}

impl From<gantry_store::StoreError> for Error {
    fn from(error: gantry_store::StoreError) -> Self {
        Self::failed(error.to_string())
    }
}
