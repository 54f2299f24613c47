//! Real agents from npm against the scripted model endpoint ([`crate::Model`]).
//! They are installed by `cargo xtask test` outside the repository, each in a
//! folder of its own; the versions stand in `tests/npm/agents`.

use crate::{Model, Stage, npm};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// An agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealAgent {
    /// Google's, over the Gemini protocol.
    Gemini,
    /// OpenAI's by the adapter of the editor Zed, over the responses protocol.
    Codex,
    /// Anthropic's by the adapter of the ACP project, over the messages protocol.
    Claude,
    /// The open one, over chat completions.
    Opencode,
}

impl RealAgent {
    /// The folder of its package.
    fn folder(self) -> &'static str {
        match self {
            Self::Gemini => "gemini",
            Self::Codex => "codex",
            Self::Claude => "claude",
            Self::Opencode => "opencode",
        }
    }

    /// The program, as npm linked it.
    fn program(self) -> PathBuf {
        npm::agent(
            self.folder(),
            match self {
                Self::Gemini => ".bin/gemini",
                Self::Codex => ".bin/codex-acp",
                Self::Claude => ".bin/claude-agent-acp",
                // The package that `opencode-ai` picks for this platform.
                Self::Opencode => "opencode-linux-x64/bin/opencode",
            },
        )
    }

    /// An `agent_server` that talks to `model`; writes what the agent reads from
    /// the stage's home.
    ///
    /// # Panics
    /// When the agent is not installed or a file cannot be written.
    pub fn agent_server(self, stage: &Stage, model: &Model) -> Value {
        let home = stage.path("home");
        let url = &model.url;
        let (args, env) = match self {
            Self::Gemini => {
                let settings = json!({
                    "security": { "auth": { "selectedType": "gemini-api-key" } },
                    "general": { "disableAutoUpdate": true, "disableUpdateNag": true },
                    "privacy": { "usageStatisticsEnabled": false },
                    "telemetry": { "enabled": false },
                });
                write(&home.join(".gemini/settings.json"), &settings.to_string());
                let env = json!({
                    "GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": url,
                    "GEMINI_CLI_TRUST_WORKSPACE": "true",
                });
                (json!(["--acp", "-m", "gemini-2.5-pro"]), env)
            }
            Self::Codex => {
                let config = format!(
                    r#"model = "fake-model"
model_provider = "fake"
approval_policy = "untrusted"
sandbox_mode = "read-only"
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
wire_api = "responses"
requires_openai_auth = false
env_key = "OPENAI_API_KEY"
"#
                );
                write(&home.join(".codex/config.toml"), &config);
                let env = json!({ "CODEX_HOME": home.join(".codex"), "OPENAI_API_KEY": "x" });
                (json!([]), env)
            }
            Self::Claude => {
                let env = json!({
                    "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "x",
                    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                    // Adapter and agent read it differently; empty means the same to both.
                    "IS_SANDBOX": "",
                });
                (json!([]), env)
            }
            Self::Opencode => {
                let config = json!({
                    "model": "fake/fake-model",
                    "small_model": "fake/fake-model",
                    "permission": { "*": "ask" },
                    "provider": { "fake": {
                        "npm": "@ai-sdk/openai-compatible", "name": "fake",
                        "options": { "baseURL": format!("{url}/v1"), "apiKey": "x" },
                        "models": { "fake-model": { "name": "fake" } },
                    } },
                });
                write(&home.join(".config/opencode/opencode.json"), &config.to_string());
                let env = json!({
                    "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1",
                });
                (json!(["acp"]), env)
            }
        };
        json!({ "agent_id": self.folder(), "command": self.program(), "args": args, "env": env })
    }
}

fn write(file: &Path, text: &str) {
    let written = file
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(file, text));
    written.unwrap_or_else(|why| panic!("{}: {why}", file.display()));
}
