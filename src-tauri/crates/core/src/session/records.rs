//! A session as it is kept: what it takes to go on with it in another run.
//!
//! Secrets are not kept: a literal value whose name says that it is one is left
//! out, and its name is remembered, so that a session that needs it can say so. Of a
//! session that a back end opened hardly a literal value is kept ([`is_harmless`]): back ends name
//! their secrets as they like, and send everything again with the next request.

use super::{AgentSpec, offered::Chosen};
use crate::{
    bridge::ServerSpec,
    wire::{ClientOffers, Policy},
};
use gantry_store::SessionRow;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The `agent` column.
#[derive(Debug, Serialize, Deserialize)]
struct StoredAgent {
    #[serde(flatten)]
    agent: AgentSpec,
    /// Variables that were not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    withheld: Vec<String>,
}

/// The `options` column.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredOptions {
    /// `null`: the saved servers.
    servers: Option<Vec<StoredServer>>,
    policy: Policy,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    /// Whether a person gave it its title.
    titled: bool,
    #[serde(skip_serializing_if = "Chosen::is_empty")]
    chosen: Chosen,
    #[serde(skip_serializing_if = "Option::is_none")]
    restorable: Option<bool>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    adopted: bool,
    /// What was not kept of the servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    withheld: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredServer {
    name: String,
    config: crate::wire::ServerConfig,
}

/// What of a session outlives a run.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) id: String,
    pub(super) acp_id: Option<String>,
    /// The agent had the conversation before us.
    pub(super) adopted: bool,
    pub(super) project_id: String,
    pub(super) agent: AgentSpec,
    pub(super) title: String,
    pub(super) titled: bool,
    pub(super) servers: Option<Vec<ServerSpec>>,
    pub(super) policy: Policy,
    pub(super) system_prompt: Option<String>,
    pub(super) user_id: Option<String>,
    pub(super) created_at: i64,
    pub(super) last_activity: i64,
    pub(super) closed: Option<String>,
    /// Mode, model and options that the user chose.
    pub(super) chosen: Chosen,
    /// Whether its agent said that it can go on with a session.
    pub(super) restorable: Option<bool>,
    /// Secrets that it once had and that were not kept, for people.
    pub(super) withheld: Vec<String>,
}

impl Kept {
    /// The row to store.
    pub(super) fn to_row(&self) -> SessionRow {
        // What was not kept before is not there now either, until it is sent again.
        let (mut withheld, before): (Vec<String>, Vec<String>) =
            self.withheld.iter().cloned().partition(|what| of_a_server(what));
        let mut agent = StoredAgent { agent: self.agent.clone(), withheld: before };
        let all = self.user_id.is_some();
        withhold(&mut agent.agent.env, all, "", &mut agent.withheld);
        let servers = self.servers.as_ref().map(|servers| {
            servers.iter().map(|server| without_secrets(server, all, &mut withheld)).collect()
        });
        let options = StoredOptions {
            servers,
            policy: self.policy,
            system_prompt: self.system_prompt.clone(),
            user_id: self.user_id.clone(),
            titled: self.titled,
            chosen: self.chosen.clone(),
            restorable: self.restorable,
            adopted: self.adopted,
            withheld,
        };
        SessionRow {
            id: self.id.clone(),
            acp_id: self.acp_id.clone(),
            project_id: self.project_id.clone(),
            agent: json(&agent),
            title: self.title.clone(),
            options: json(&options),
            created_at: self.created_at,
            last_activity: self.last_activity,
            closed: self.closed.clone(),
        }
    }

    /// From a stored row. What cannot be read becomes the default: an odd row must not hide a session.
    pub(super) fn from_row(row: SessionRow) -> Self {
        let agent: StoredAgent = read(&row.agent, &row.id).unwrap_or_else(|| StoredAgent {
            agent: AgentSpec {
                id: "builtin".to_owned(),
                command: String::new(),
                args: Vec::new(),
                env: BTreeMap::new(),
                offers: ClientOffers::default(),
            },
            withheld: Vec::new(),
        });
        let options: StoredOptions = read(&row.options, &row.id).unwrap_or_default();
        let servers = options.servers.map(|servers| {
            servers
                .into_iter()
                .map(|server| ServerSpec { name: server.name, config: server.config })
                .collect()
        });
        let mut withheld = agent.withheld;
        withheld.extend(options.withheld);
        Self {
            id: row.id,
            acp_id: row.acp_id,
            adopted: options.adopted,
            project_id: row.project_id,
            agent: agent.agent,
            title: row.title,
            titled: options.titled,
            chosen: options.chosen,
            restorable: options.restorable,
            servers,
            policy: options.policy,
            system_prompt: options.system_prompt,
            user_id: options.user_id,
            created_at: row.created_at,
            last_activity: row.last_activity,
            closed: row.closed,
            withheld,
        }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| {
        tracing::error!(%error, "a session could not be written as JSON");
        "{}".to_owned()
    })
}

fn read<T: serde::de::DeserializeOwned>(json: &str, session: &str) -> Option<T> {
    serde_json::from_str(json)
        .inspect_err(|error| tracing::warn!(session, %error, "a stored session cannot be read"))
        .ok()
}

/// Whether a secret that was not kept is one of a server; else it is of the agent.
pub(super) fn of_a_server(withheld: &str) -> bool {
    withheld.contains(": ")
}

fn without_secrets(server: &ServerSpec, all: bool, withheld: &mut Vec<String>) -> StoredServer {
    let mut config = server.config.clone();
    let of = format!("{}: ", server.name);
    withhold(&mut config.env, all, &of, withheld);
    withhold(&mut config.headers, all, &of, withheld);
    if config.auth_token.as_deref().is_some_and(is_literal) {
        config.auth_token = None;
        withheld.push(format!("{of}authToken"));
    }
    StoredServer { name: server.name.clone(), config }
}

fn withhold(
    values: &mut BTreeMap<String, String>,
    all: bool,
    of: &str,
    withheld: &mut Vec<String>,
) {
    values.retain(|name, value| {
        let keep = !is_literal(value) || !(is_secret(name) || all && !is_harmless(value));
        if !keep {
            withheld.push(format!("{of}{name}"));
        }
        keep
    });
}

/// Whether a name says that its value is a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "AUTH", "CREDENTIAL", "COOKIE"]
        .iter()
        .any(|word| name.contains(word))
}

/// A switch, a small number or the path of something that is there: a secret is none of them.
fn is_harmless(value: &str) -> bool {
    let is_switch =
        ["true", "false", "yes", "no", "on", "off"].contains(&&*value.to_ascii_lowercase());
    let is_number = value.len() <= 5 && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_path = || value.starts_with('/') && std::path::Path::new(value).exists();
    is_switch || is_number || is_path()
}

/// Whether a value is the thing itself, not a reference to where it is kept.
fn is_literal(value: &str) -> bool {
    !value.is_empty() && !value.contains("${")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ServerConfig;

    fn kept() -> Kept {
        let config = ServerConfig {
            command: Some("server".into()),
            env: BTreeMap::from([
                ("API_KEY".into(), "s3cret-1".into()),
                ("OTHER_KEY".into(), "${env:OTHER}".into()),
                ("MODE".into(), "fast".into()),
            ]),
            auth_token: Some("s3cret-2".into()),
            ..ServerConfig::default()
        };
        Kept {
            id: "s".into(),
            acp_id: Some("a".into()),
            adopted: true,
            project_id: "p".into(),
            agent: AgentSpec {
                id: "x".into(),
                command: "x".into(),
                args: vec!["--acp".into()],
                env: BTreeMap::from([
                    ("OPENAI_API_KEY".into(), "s3cret-3".into()),
                    ("OPENAI_MODEL".into(), "m".into()),
                ]),
                offers: ClientOffers::ALL,
            },
            title: "T".into(),
            titled: true,
            servers: Some(vec![ServerSpec { name: "one".into(), config }]),
            policy: Policy::Reads,
            system_prompt: Some("be kind".into()),
            user_id: None,
            created_at: 1,
            last_activity: 2,
            closed: None,
            chosen: Chosen::default(),
            restorable: Some(true),
            withheld: Vec::new(),
        }
    }

    #[test]
    fn a_row_brings_everything_back_but_the_secrets() {
        let row = kept().to_row();
        let text = format!("{row:?}");
        assert!(!text.contains("s3cret"), "{text}");
        let back = Kept::from_row(row);
        assert_eq!(back.agent.env.get("OPENAI_MODEL").map(String::as_str), Some("m"));
        assert_eq!((back.policy, back.agent.offers), (Policy::Reads, ClientOffers::ALL));
        assert!(back.titled && back.adopted && back.restorable == Some(true));
        let server = &back.servers.unwrap()[0];
        assert_eq!(server.config.env["OTHER_KEY"], "${env:OTHER}");
        assert_eq!(server.config.env["MODE"], "fast");
        assert_eq!(back.withheld, ["OPENAI_API_KEY", "one: API_KEY", "one: authToken"]);
    }

    #[test]
    fn of_a_back_ends_session_only_harmless_values_are_kept() {
        let mut kept = Kept { user_id: Some("u1".into()), ..kept() };
        for (name, value) in [("HOME", "/"), ("DEBUG", "true"), ("DEPTH", "12")] {
            kept.agent.env.insert(name.into(), value.into());
        }
        // Also when it was read and written meanwhile.
        let back = Kept::from_row(Kept::from_row(kept.to_row()).to_row());
        assert_eq!(back.agent.env.keys().collect::<Vec<_>>(), ["DEBUG", "DEPTH", "HOME"]);
        let env = &back.servers.unwrap()[0].config.env;
        assert_eq!(env.keys().collect::<Vec<_>>(), ["OTHER_KEY"]);
        assert!(back.withheld.contains(&"OPENAI_MODEL".to_owned()));
    }

    #[test]
    fn the_saved_servers_stay_the_saved_servers() {
        let row = Kept { servers: None, ..kept() }.to_row();
        assert!(Kept::from_row(row).servers.is_none());
    }

    #[test]
    fn a_broken_row_is_still_a_session() {
        let row = SessionRow { agent: "{".into(), options: "null".into(), ..kept().to_row() };
        let back = Kept::from_row(row);
        assert_eq!((back.id.as_str(), back.agent.command.as_str()), ("s", ""));
    }
}
