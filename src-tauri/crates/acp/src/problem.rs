//! What can go wrong between us and an agent.

use agent_client_protocol as sdk;
use serde_json::Value;

/// Why a request to the agent failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PeerError {
    /// The agent answered with an error.
    #[error("{}", describe(message, data.as_ref()))]
    Agent {
        /// JSON-RPC error code.
        code: i32,
        /// The agent's words.
        message: String,
        /// More of them; some agents put the only useful text here.
        data: Option<Value>,
    },
    /// The connection ended before the answer came.
    #[error("the connection to the agent ended")]
    Lost,
    /// The answer is not what the protocol says.
    #[error("the agent's answer to {method} makes no sense: {why}")]
    Nonsense {
        /// The request.
        method: String,
        /// What is wrong with the answer.
        why: String,
    },
}

impl PeerError {
    /// ACP's code for "sign in first".
    pub const AUTH_REQUIRED: i32 = -32000;

    /// Whether the agent wants the user to sign in first.
    pub fn wants_sign_in(&self) -> bool {
        matches!(self, Self::Agent { code: Self::AUTH_REQUIRED, .. })
    }

    /// Code, message and data as a JSON object, for programs.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Agent { code, message, data } => {
                serde_json::json!({ "code": code, "message": message, "data": data })
            }
            other => serde_json::json!({ "message": other.to_string() }),
        }
    }
}

impl From<sdk::Error> for PeerError {
    fn from(error: sdk::Error) -> Self {
        if sdk::is_incoming_transport_closed(&error) || sdk::is_connection_terminated(&error) {
            return Self::Lost;
        }
        Self::Agent { code: error.code.value(), message: error.message, data: error.data }
    }
}

/// Longest text of `data` that is shown to people, in bytes.
const LONGEST_DATA: usize = 2000;

/// The message, with the text of `data` when that says more.
fn describe(message: &str, data: Option<&Value>) -> String {
    let more = match data {
        None | Some(Value::Null) => return message.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(map)) => ["details", "message", "error", "reason"]
            .iter()
            .find_map(|key| map.get(*key)?.as_str().map(str::to_owned))
            .unwrap_or_else(|| Value::Object(map.clone()).to_string()),
        Some(other) => other.to_string(),
    };
    let more = &more[..more.floor_char_boundary(LONGEST_DATA)];
    if more.is_empty() || message.contains(more) {
        message.to_owned()
    } else if message.is_empty() {
        more.to_owned()
    } else {
        format!("{message}: {more}")
    }
}

/// Why a connection ended, when it was not the agent's end of output.
#[derive(Debug, thiserror::Error)]
pub enum Disconnected {
    /// The streams failed.
    #[error("the connection to the agent failed: {0}")]
    Stream(#[from] std::io::Error),
    /// The protocol layer gave up.
    #[error("the connection to the agent failed: {0}")]
    Protocol(String),
    /// Nobody reads the queue any more.
    #[error("the connection to the agent was given up")]
    Abandoned,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_text_in_data_is_shown_when_it_says_more() {
        assert_eq!(describe("Internal error", Some(&json!("no key"))), "Internal error: no key");
        assert_eq!(
            describe("Internal error", Some(&json!({"details": "quota"}))),
            "Internal error: quota"
        );
        assert_eq!(describe("model said no key", Some(&json!("no key"))), "model said no key");
        assert_eq!(describe("plain", None), "plain");
        assert_eq!(describe("odd", Some(&json!({"a": 1}))), r#"odd: {"a":1}"#);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = describe("m", Some(&json!("字".repeat(LONGEST_DATA))));
        assert!(text.len() <= LONGEST_DATA + 3);
    }
}
