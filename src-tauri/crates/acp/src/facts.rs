//! What an agent says about itself in `initialize`, read leniently.

use serde_json::Value;

/// What an agent can do. Whatever is not understood counts as "cannot".
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentFacts {
    /// Its own name, if it gave one.
    pub name: Option<String>,
    /// Its version, if it gave one.
    pub version: Option<String>,
    /// `session/load`: goes on with a session and replays its history.
    pub load: bool,
    /// `session/resume`: goes on with a session without a replay.
    pub resume: bool,
    /// `session/close`.
    pub close: bool,
    /// `session/list`.
    pub list: bool,
    /// `session/delete`.
    pub delete: bool,
    /// `logout`.
    pub logout: bool,
    /// MCP servers over streamable HTTP.
    pub http: bool,
    /// MCP servers over SSE.
    pub sse: bool,
    /// Images in prompts.
    pub image: bool,
    /// Sound in prompts.
    pub audio: bool,
    /// Embedded resources in prompts.
    pub embedded: bool,
    /// The ways to sign in (`AuthMethod` of ACP).
    pub auth_methods: Vec<Value>,
    /// The whole answer.
    pub raw: Value,
}

impl AgentFacts {
    /// From the result of `initialize`.
    pub fn read(answer: Value) -> Self {
        let text = |path: &str| answer.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let yes = |path: &str| answer.pointer(path).and_then(Value::as_bool) == Some(true);
        // An object means yes, whatever is in it; some agents write `true`.
        let offered = |path: &str| {
            answer.pointer(path).is_some_and(|value| value.is_object() || *value == true)
        };
        Self {
            name: text("/agentInfo/title").or_else(|| text("/agentInfo/name")),
            version: text("/agentInfo/version"),
            load: yes("/agentCapabilities/loadSession"),
            resume: offered("/agentCapabilities/sessionCapabilities/resume"),
            close: offered("/agentCapabilities/sessionCapabilities/close"),
            list: offered("/agentCapabilities/sessionCapabilities/list"),
            delete: offered("/agentCapabilities/sessionCapabilities/delete"),
            logout: offered("/agentCapabilities/auth/logout"),
            http: yes("/agentCapabilities/mcpCapabilities/http"),
            sse: yes("/agentCapabilities/mcpCapabilities/sse"),
            image: yes("/agentCapabilities/promptCapabilities/image"),
            audio: yes("/agentCapabilities/promptCapabilities/audio"),
            embedded: yes("/agentCapabilities/promptCapabilities/embeddedContext"),
            auth_methods: answer
                .get("authMethods")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
            raw: answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn capabilities_are_read_leniently() {
        let facts = AgentFacts::read(json!({
            "protocolVersion": 1,
            "agentInfo": {"name": "a", "version": "1.2"},
            "agentCapabilities": {
                "loadSession": true,
                "mcpCapabilities": {"http": true, "sse": "perhaps"},
                "sessionCapabilities": {"close": {}, "resume": null, "future": {"x": 1}},
            },
        }));
        assert_eq!(facts.name.as_deref(), Some("a"));
        assert!(facts.load && facts.http && facts.close);
        assert!(!facts.sse && !facts.resume && !facts.image);
        assert_eq!(facts.raw["agentCapabilities"]["sessionCapabilities"]["future"]["x"], 1);
    }

    #[test]
    fn an_agent_that_says_nothing_can_nothing() {
        let facts = AgentFacts::read(json!({"protocolVersion": 1, "authMethods": "none"}));
        assert!(!facts.http && !facts.load && facts.auth_methods.is_empty());
    }
}
