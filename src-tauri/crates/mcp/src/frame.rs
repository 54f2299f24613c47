//! JSON-RPC lines: only the envelope is read, the rest passes as it is.

use bytes::Bytes;

/// A message of which only the envelope was parsed; `line` is the whole, without line end.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The message as it came.
    pub line: Bytes,
}

/// A line that is not a message.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Not JSON, or not a JSON-RPC message.
    #[error("not a JSON-RPC message: {0}")]
    NotAMessage(String),
    /// Longer than the limit.
    #[error("a line longer than {0} bytes")]
    TooLong(usize),
}
