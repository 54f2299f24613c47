//! The bridge: all servers that we keep running, and their URLs.
//!
//! It reconciles wanted with actual, server by server; knows when a session's
//! servers are ready; and keeps the leases by which a server ends with the last
//! session that used it.
//!
//! ```text
//! Bridge ─► registry (a lock: saved servers, slots, sessions) ─► inbox of each Server
//!                                                                   │ next(): pure
//!   events, views ◄── facts (watch) ◄───────────────────────────────┤
//!   Hub of each slot ◄── connection task ◄── process ◄── effects ───┘
//! ```
//!
//! A *slot* is one server that can run: of a saved server, or of all sessions that named
//! one with exactly the same configuration. It keeps its hub over restarts, so that sessions keep
//! their connection. Which slot a request means is decided by the session's token, so
//! that two sessions can use one name for different servers.
//!
//! A remote server is one like any other, behind a process of ours that carries its URL: that
//! process is the light, the tools form and, when the server has a tool filter, the way of the
//! agents. Without a filter agents get the server's own URL (see decision 0004).

mod facts;
mod handover;
mod leases;
mod next;
mod process;
mod ready;
mod receipts;
mod reconcile;
mod references;
mod registry;
mod server;
mod sign_in;
mod sign_ins;
mod spec;
#[cfg(test)]
mod tests;
mod tokens;
mod traffic;
mod transports;
mod views;

pub use handover::{CONFIG_VARIABLE, HandedServer, TOKEN_VARIABLE};
pub use sign_ins::{SIGN_IN_EXIT, SIGN_IN_LIMIT, SIGN_IN_NOTICE, SIGN_IN_OVER, SIGN_IN_VARIABLE};
pub use spec::{MASK, ServerSpec, unmask};
pub use transports::{SSE, STREAMABLE, TRANSPORT_VARIABLE};

use crate::{
    Error, Result,
    events::Events,
    wire::{ServerView, TrafficMessage},
};
use gantry_mcp::Hub;
use gantry_supervisor::{Ended, Scope, Supervisor};
use process::Launcher;
use registry::Shared;
use serde_json::{Value, json};
use std::{fmt, path::PathBuf, sync::Arc, time::Duration};
use tokens::{Token, key_of};

/// How long a call that the user makes may take when the configuration does not say.
const CALL_LIMIT: Duration = Duration::from_secs(600);

/// What the bridge is made of.
#[derive(Clone, Debug)]
pub struct BridgeParts {
    /// Owner of its tasks.
    pub scope: Scope,
    /// Starts and ends its servers.
    pub supervisor: Supervisor,
    /// Where changes are announced.
    pub events: Events,
    /// The program `gantry`: for built-in servers (`recall`) and for stdio fall-backs.
    pub gantry: PathBuf,
    /// Working directory of servers without one; also `--data-dir` of recall.
    pub data_dir: PathBuf,
}

/// Where a request to `/mcp/{server}` goes.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The server's hub.
    pub hub: Hub,
    /// The session whose token was used; `None` for the instance's own token.
    pub session: Option<String>,
}

/// Why a request to `/mcp/{server}` goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// Nobody's token.
    BadToken,
    /// The token's owner has no such server.
    UnknownServer,
}

/// What the end of a session's leases ended.
#[derive(Clone, Debug, Default)]
pub struct Released {
    /// Names of the servers that nobody uses any more.
    pub servers: Vec<String>,
    /// How their trees ended.
    pub ended: Vec<Ended>,
}

/// A running server for the process view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFacts {
    /// The server's name.
    pub name: String,
    /// The tree's id in the supervisor.
    pub tree: String,
    /// The sessions that hold a lease on it.
    pub sessions: Vec<String>,
}

/// The bridge. Clones are the same bridge.
#[derive(Clone)]
pub struct Bridge {
    shared: Arc<Shared>,
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registry = self.shared.registry();
        f.debug_struct("Bridge")
            .field("servers", &registry.slots.len())
            .field("sessions", &registry.sessions.len())
            .finish()
    }
}

impl Bridge {
    /// A bridge without servers.
    pub fn new(parts: BridgeParts) -> Self {
        let launcher = Arc::new(parts.supervisor.clone());
        Self::with_launcher(parts, launcher)
    }

    fn with_launcher(parts: BridgeParts, launcher: Arc<dyn Launcher>) -> Self {
        Self { shared: Shared::new(parts, launcher) }
    }

    /// Where the listener is (`http://127.0.0.1:PORT`), and the instance's own
    /// token, which may open every saved server (for the tools form and scripts).
    pub fn set_address(&self, base_url: &str, instance_token: &str) {
        let mut registry = self.shared.registry();
        base_url.trim_end_matches('/').clone_into(&mut registry.base_url);
        registry.instance_token =
            (!instance_token.is_empty()).then(|| Token::given(instance_token));
    }

    /// Whose servers a token opens; `server` is the name itself, no longer percent-encoded.
    /// Compares in constant time.
    ///
    /// # Errors
    /// See [`Unresolved`].
    pub fn resolve(&self, token: &str, server: &str) -> std::result::Result<Endpoint, Unresolved> {
        let registry = self.shared.registry();
        if registry.instance_token.as_ref().is_some_and(|own| own.is(token)) {
            let named = |spec: &&ServerSpec| spec::is_named(&spec.name, server);
            let spec = registry.saved.iter().find(named).ok_or(Unresolved::UnknownServer)?;
            let slot = registry
                .slot_of(&spec.name)
                .filter(|slot| slot.place.follows_saved() && slot.config.enabled);
            let slot = slot.ok_or(Unresolved::UnknownServer)?;
            return Ok(Endpoint { hub: slot.handle.hub.clone(), session: None });
        }
        let (id, session) = registry
            .sessions
            .iter()
            // The key is not secret: it only says whose secret to compare with.
            .find(|(_, session)| session.token.key() == key_of(token))
            .filter(|(_, session)| session.token.is(token))
            .ok_or(Unresolved::BadToken)?;
        let attached = session.attached.iter().find(|(name, _)| spec::is_named(name, server));
        let slot = attached.and_then(|(_, slot)| registry.slots.get(slot));
        let slot = slot.ok_or(Unresolved::UnknownServer)?;
        Ok(Endpoint { hub: slot.handle.hub.clone(), session: Some(id.clone()) })
    }

    /// All servers as the list shows them, saved ones first.
    pub fn views(&self) -> Vec<ServerView> {
        views::all(&self.shared.registry())
    }

    /// One saved server as the list shows it.
    pub fn view(&self, name: &str) -> Option<ServerView> {
        let registry = self.shared.registry();
        registry.saved_spec(name).map(|spec| views::saved(&registry, spec))
    }

    /// The servers that have a process now, for the process view.
    pub fn running(&self) -> Vec<ServerFacts> {
        let registry = self.shared.registry();
        let running = registry.slots.values().filter_map(|slot| {
            let tree = slot.handle.facts.borrow().tree.clone()?;
            let sessions = slot.holders.iter().cloned().collect();
            Some(ServerFacts { name: slot.name.clone(), tree, sessions })
        });
        running.collect()
    }

    /// The tools of a server as MCP lists them, the filter applied.
    ///
    /// # Errors
    /// Not found, or nothing is known of it yet.
    pub async fn tools(&self, name: &str) -> Result<Vec<Value>> {
        let hub = {
            let registry = self.shared.registry();
            let slot = registry.slot_of(name).ok_or_else(|| leases::missing(name))?;
            slot.handle.hub.clone()
        };
        let catalogue = hub.catalogue().ok_or_else(|| {
            Error::not_found(format!(
                "the tools of `{name}` are not known yet, because it has not been ready; \
                 restart it, or look at its log"
            ))
        })?;
        Ok(catalogue
            .tools
            .iter()
            .map(|tool| serde_json::from_str(tool.get()).unwrap_or(Value::Null))
            .collect())
    }

    /// Calls a tool for the user (starting the server if it does not run; then it ends a
    /// minute after the last call).
    ///
    /// # Errors
    /// Not found; invalid or failed with the MCP error as detail.
    pub async fn call(&self, name: &str, tool: &str, arguments: Value) -> Result<Value> {
        let (visit, heard, limit) = self.shared.visit(name)?;
        let _ = heard.await;
        let mut facts = visit.handle.facts.clone();
        ready::settled(&mut facts)
            .await
            .map_err(|why| Error::upstream(format!("the server `{name}` cannot be used: {why}")))?;
        let arguments = if arguments.is_null() { json!({}) } else { arguments };
        visit.handle.hub.call_tool(tool, arguments, limit).await.map_err(|error| {
            let message = error.get("message").and_then(Value::as_str).unwrap_or("no message");
            let message = format!("`{tool}` of `{name}` failed: {message}");
            // No such tool, or arguments that it does not take.
            let is_the_callers = error.get("code").and_then(Value::as_i64) == Some(-32602);
            let told =
                if is_the_callers { Error::invalid(message) } else { Error::upstream(message) };
            told.with_detail(error)
        })
    }

    /// The last lines of a server's standard error; also after its end.
    ///
    /// # Errors
    /// Not found.
    pub fn log(&self, name: &str, tail: usize) -> Result<Vec<String>> {
        let registry = self.shared.registry();
        let slot = registry.slot_of(name).ok_or_else(|| leases::missing(name))?;
        let facts = slot.handle.facts.borrow();
        let lines = facts.log.lines(tail);
        Ok(lines.iter().map(|line| slot.handle.traffic.masked(line)).collect())
    }

    /// What was said last between the bridge and a server; also after its end.
    ///
    /// # Errors
    /// Not found.
    pub fn traffic(&self, name: &str, tail: usize) -> Result<Vec<TrafficMessage>> {
        let registry = self.shared.registry();
        let slot = registry.slot_of(name).ok_or_else(|| leases::missing(name))?;
        let traffic = slot.handle.traffic.clone();
        drop(registry);
        Ok(traffic.read(tail))
    }
}
