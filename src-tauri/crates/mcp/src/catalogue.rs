//! What a server has told about itself.

use serde_json::value::RawValue;

/// What was learned from a server in its handshake, kept raw.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// The `result` of `initialize`.
    pub initialize: Box<RawValue>,
    /// Every tool of every page of `tools/list`, as the server wrote it, the filter applied.
    pub tools: Vec<Box<RawValue>>,
}
