//! How a session's servers are handed to its agent (contract, section 2).

use super::{
    Bridge, process, references,
    registry::{Registry, Session, SlotId},
    sign_ins::Standing,
    spec::{Identity, is_remote, url_of},
    transports,
};
use crate::wire::{ServerConfig, Via};
use serde_json::{Value, json};
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
    /// A remote server's own URL.
    Remote(SlotId, Identity),
    /// Nothing: its configuration refers to something that is not there.
    Withheld,
}

/// A server as its agent is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct HandedServer {
    /// Its name.
    pub name: String,
    /// How the agent reaches it.
    pub via: Via,
    /// The entry of `mcpServers`.
    pub entry: Value,
    /// Whether it leads to the bridge, which follows every change of the configuration.
    bridged: bool,
    /// Of the configuration that it was made from.
    identity: Identity,
}

impl HandedServer {
    /// Whether an agent that knows this one does as well as with `now`: they differ in nothing,
    /// or only in how the server feels.
    pub fn does_as_well_as(&self, now: &Self) -> bool {
        self.name == now.name && (self.bridged || self.identity == now.identity)
    }
}

impl Bridge {
    /// The `mcpServers` entries of ACP `session/new` for the session, by the rules
    /// of the contract ("How a server is handed to the agent").
    /// A server whose configuration refers to a variable or secret that is not set is left out:
    /// nothing literal is ever sent as a credential.
    pub fn handover(&self, session: &str, agent_speaks_http: bool) -> Vec<HandedServer> {
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
        let entries = given.iter().filter_map(|(name, kind)| entries.entry(name, kind)).collect();
        if let Some(entry) = registry.sessions.get_mut(session) {
            entry.handed = Some(given);
        }
        entries
    }
}

/// How each server of a session would be handed over now.
pub(super) fn handed(registry: &Registry, session: &Session) -> Vec<(String, Handed)> {
    let kind = |id: SlotId| {
        let Some(slot) = registry.slots.get(&id) else { return Handed::Bridge(id) };
        // It becomes ready as soon as its user has signed in.
        let failed = slot.condition().has_failed() && slot.standing != Standing::Needed;
        let passed_through = slot.is_passed_through();
        match (failed, passed_through) {
            (false, false) => Handed::Bridge(id),
            _ if !is_complete(&slot.config) => Handed::Withheld,
            (_, true) => Handed::Remote(id, slot.identity),
            (true, false) => Handed::Fallback(id),
        }
    };
    session.attached.iter().map(|(name, id)| (name.clone(), kind(*id))).collect()
}

/// Whether everything that a configuration refers to is there.
pub(super) fn is_complete(config: &ServerConfig) -> bool {
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
    fn entry(&self, name: &str, kind: &Handed) -> Option<HandedServer> {
        let (Handed::Bridge(id) | Handed::Fallback(id) | Handed::Remote(id, _)) = kind else {
            return None;
        };
        let slot = self.registry.slots.get(id)?;
        let bridged = match kind {
            Handed::Bridge(_) => true,
            Handed::Remote(..) => !self.agent_speaks_http && !slot.condition().has_failed(),
            Handed::Fallback(_) | Handed::Withheld => false,
        };
        let (via, entry) = match kind {
            _ if bridged => self.bridged(name),
            Handed::Remote(..) if self.agent_speaks_http => {
                (Via::Remote, passed_through(name, &slot.config, self.data_dir)?)
            }
            _ => self.fallback(name, &slot.config)?,
        };
        Some(HandedServer { name: name.to_owned(), via, entry, bridged, identity: slot.identity })
    }

    /// `gantry mcp` in front of one server. Its configuration goes by environment: arguments are
    /// there for every user to read.
    fn fallback(&self, name: &str, config: &ServerConfig) -> Option<(Via, Value)> {
        let full = self.startable(config)?;
        let config = process::through_gantry(name, &full);
        let args = json!(["mcp", "--config", "-"]);
        Some((Via::Stdio, self.program(name, &args, CONFIG_VARIABLE, &config)))
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

    /// A configuration with everything filled in, as another program of ours can use it.
    fn startable(&self, config: &ServerConfig) -> Option<ServerConfig> {
        let mut full = references::resolved(config, &references::from_environment).ok()?;
        if full.command.as_deref() == Some("gantry") {
            process::complete_own(&mut full.args, self.data_dir);
            full.command = Some(self.gantry.display().to_string());
        }
        if full.cwd.is_none() && !is_remote(&full) {
            let directory = process::default_directory(self.data_dir);
            full.cwd = Some(directory.display().to_string());
        }
        Some(full)
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

/// The entry for a remote server that the agent reaches itself.
fn passed_through(name: &str, config: &ServerConfig, data_dir: &Path) -> Option<Value> {
    let full = references::resolved(config, &references::from_environment).ok()?;
    // Where the configuration says nothing, what was found out of it does.
    let found = || transports::remembered(data_dir, full.url.as_deref()?);
    let is_older = full.transport.as_deref().or_else(found) == Some(transports::SSE);
    let kind = if is_older { "sse" } else { "http" };
    let mut headers: Vec<Value> =
        full.headers.iter().map(|(key, value)| json!({ "name": key, "value": value })).collect();
    let authorized = full.headers.keys().any(|key| key.eq_ignore_ascii_case("authorization"));
    if let Some(token) = full.auth_token.filter(|_| !authorized) {
        let value = format!("Bearer {token}");
        headers.push(json!({ "name": "Authorization", "value": value }));
    }
    Some(json!({ "type": kind, "name": name, "url": full.url, "headers": headers }))
}
