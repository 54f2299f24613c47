//! How a session's servers are handed to its agent (contract, section 2).

use super::{
    Bridge, process, references,
    registry::{Attached, Registry, Session, SlotId},
    spec::{Identity, url_of},
};
use crate::wire::{ServerConfig, Via};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Read by `gantry mcp --url`: what it sends as bearer token.
pub const TOKEN_VARIABLE: &str = "GANTRY_MCP_TOKEN";
/// Read by `gantry mcp --config -`: the configuration.
pub const CONFIG_VARIABLE: &str = "GANTRY_MCP_CONFIG";

/// What a session's agent was given under a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Handed {
    /// The bridge's URL, for this slot.
    Bridge(SlotId),
    /// A program of ours that starts the server again and says why that fails.
    Fallback(SlotId),
    /// A remote server, by its own URL or through a program of ours.
    Remote(Identity),
    /// Nothing: its configuration refers to something that is not there.
    Withheld,
}

impl Bridge {
    /// The `mcpServers` entries of ACP `session/new` for the session, by the rules
    /// of the contract ("How a server is handed to the agent"), with the `via` of each by name.
    /// A server whose configuration refers to a variable or secret that is not set is left out:
    /// nothing literal is ever sent as a credential.
    pub fn handover(&self, session: &str, agent_speaks_http: bool) -> Vec<(String, Via, Value)> {
        let mut registry = self.shared.registry();
        let Some(entry) = registry.sessions.get(session) else { return Vec::new() };
        let given = handed(&registry, entry);
        let entries = Entries {
            registry: &registry,
            session: entry,
            agent_speaks_http,
            gantry: &self.shared.parts.gantry,
            data_dir: &self.shared.parts.data_dir,
        };
        let all = given.iter().zip(&entry.attached);
        let entries =
            all.filter_map(|((name, kind), (_, what))| entries.entry(name, kind, what)).collect();
        if let Some(entry) = registry.sessions.get_mut(session) {
            entry.handed = Some(given);
        }
        entries
    }
}

/// How each server of a session would be handed over now.
pub(super) fn handed(registry: &Registry, session: &Session) -> Vec<(String, Handed)> {
    let kind = |what: &Attached| match what {
        Attached::Slot(id) => match registry.slots.get(id) {
            Some(slot) if slot.condition().has_failed() => {
                if is_complete(&slot.config) {
                    Handed::Fallback(*id)
                } else {
                    Handed::Withheld
                }
            }
            _ => Handed::Bridge(*id),
        },
        Attached::Remote(spec) if is_complete(&spec.config) => {
            Handed::Remote(Identity::of(&spec.config))
        }
        Attached::Remote(_) => Handed::Withheld,
    };
    session.attached.iter().map(|(name, what)| (name.clone(), kind(what))).collect()
}

/// Whether everything that a configuration refers to is there.
fn is_complete(config: &ServerConfig) -> bool {
    references::resolved(config, &references::from_environment).is_ok()
}

/// Makes the entries of one hand-over.
struct Entries<'a> {
    registry: &'a Registry,
    session: &'a Session,
    agent_speaks_http: bool,
    gantry: &'a Path,
    data_dir: &'a Path,
}

impl Entries<'_> {
    fn entry(&self, name: &str, kind: &Handed, what: &Attached) -> Option<(String, Via, Value)> {
        let (via, value) = match (kind, what) {
            (Handed::Withheld, _) => return None,
            (Handed::Bridge(_), _) => self.bridged(name),
            (Handed::Fallback(id), _) => {
                let slot = self.registry.slots.get(id)?;
                (Via::Stdio, self.through_gantry(name, self.startable(&slot.config)?))
            }
            (Handed::Remote(_), Attached::Remote(spec)) => self.remote(name, &spec.config)?,
            (Handed::Remote(_), Attached::Slot(_)) => return None,
        };
        Some((name.to_owned(), via, value))
    }

    fn bridged(&self, name: &str) -> (Via, Value) {
        let url = url_of(&self.registry.base_url, name);
        let token = self.session.token.text();
        if self.agent_speaks_http {
            let headers = json!([{ "name": "Authorization", "value": format!("Bearer {token}") }]);
            let entry = json!({ "type": "http", "name": name, "url": url, "headers": headers });
            (Via::Bridge, entry)
        } else {
            let args = json!(["mcp", "--url", url]);
            (Via::Stdio, self.program(name, &args, TOKEN_VARIABLE, token))
        }
    }

    fn remote(&self, name: &str, config: &ServerConfig) -> Option<(Via, Value)> {
        let full = references::resolved(config, &references::from_environment).ok()?;
        let filtered = !full.allow_tools.is_empty() || !full.deny_tools.is_empty();
        if filtered || !self.agent_speaks_http {
            return Some((Via::Stdio, self.through_gantry(name, full)));
        }
        let kind = if full.transport.as_deref() == Some("sse") { "sse" } else { "http" };
        let mut headers: Vec<Value> = full
            .headers
            .iter()
            .map(|(key, value)| json!({ "name": key, "value": value }))
            .collect();
        let authorized = full.headers.keys().any(|key| key.eq_ignore_ascii_case("authorization"));
        if let Some(token) = full.auth_token.filter(|_| !authorized) {
            let value = format!("Bearer {token}");
            headers.push(json!({ "name": "Authorization", "value": value }));
        }
        let entry = json!({ "type": kind, "name": name, "url": full.url, "headers": headers });
        Some((Via::Remote, entry))
    }

    /// A stdio configuration with everything filled in, as another program of ours can start it.
    fn startable(&self, config: &ServerConfig) -> Option<ServerConfig> {
        let mut full = references::resolved(config, &references::from_environment).ok()?;
        if full.command.as_deref() == Some("gantry") {
            process::complete_own(&mut full.args, self.data_dir);
            full.command = Some(self.gantry.display().to_string());
        }
        if full.cwd.is_none() {
            let directory = process::default_directory(self.data_dir);
            full.cwd = Some(directory.display().to_string());
        }
        Some(full)
    }

    /// `gantry mcp` in front of one server. Its configuration goes by environment: arguments are
    /// there for every user to read.
    fn through_gantry(&self, name: &str, full: ServerConfig) -> Value {
        let mut servers = Map::new();
        servers.insert(name.to_owned(), json!(full));
        let config = json!({ "mcpServers": servers }).to_string();
        self.program(name, &json!(["mcp", "--config", "-"]), CONFIG_VARIABLE, &config)
    }

    fn program(&self, name: &str, args: &Value, variable: &str, value: &str) -> Value {
        json!({
            "name": name,
            "command": self.gantry.display().to_string(),
            "args": args,
            "env": [{ "name": variable, "value": value }],
        })
    }
}
