//! The bridge: all servers that we keep running, and their URLs.
//!
//! It reconciles wanted with actual, server by server; knows when a session's
//! servers are ready; and keeps the leases by which a server ends with the last
//! session that used it.

use crate::{Error, Result, events::Events, wire::*};
use gantry_mcp::Hub;
use gantry_supervisor::{Deadline, Ended, Scope, Supervisor};
use serde_json::Value;
use std::path::PathBuf;

/// A server by name with its configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSpec {
    /// Its name.
    pub name: String,
    /// Its configuration.
    pub config: ServerConfig,
}

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

/// The bridge. Clones are the same bridge.
#[derive(Clone, Debug)]
pub struct Bridge {}

impl Bridge {
    /// A bridge without servers.
    pub fn new(parts: BridgeParts) -> Self {
        unimplemented!()
    }

    /// Where the listener is (`http://127.0.0.1:PORT`), and the instance's own
    /// token, which may open every saved server (for the tools form and scripts).
    pub fn set_address(&self, base_url: &str, instance_token: &str) {
        unimplemented!()
    }

    /// Makes these the saved servers: starts the persistent and enabled ones, replaces changed
    /// ones (sessions keep their URLs), stops removed and disabled ones, touches no other.
    /// Returns when the pass is done (not when the servers are ready). A pass
    /// asked for during a pass runs once more after it.
    pub async fn configure(&self, saved: Vec<ServerSpec>) {
        unimplemented!()
    }

    /// The saved and enabled servers: those of a session that names none.
    pub fn saved(&self) -> Vec<ServerSpec> {
        unimplemented!()
    }

    /// Starts a saved server that nobody uses, so that a person sees it become
    /// ready; it ends a minute later, or with the first lease that comes and goes.
    pub async fn try_out(&self, name: &str) {
        unimplemented!()
    }

    /// Makes these the servers of a session (`None`: the saved ones, following
    /// their changes) and starts what does not run. Leases it held on others are dropped.
    /// True when the set of names or the kind of hand-over changed since the last call.
    pub async fn lease(&self, session: &str, servers: Option<Vec<ServerSpec>>) -> bool {
        unimplemented!()
    }

    /// Waits until each server of the session has answered `tools/list` or
    /// failed, at most until the deadline. Says what happened with each.
    pub async fn ready(&self, session: &str, deadline: Deadline) -> Vec<ServerReadiness> {
        unimplemented!()
    }

    /// The `mcpServers` entries of ACP `session/new` for the session, by the rules
    /// of the contract ("How a server is handed to the agent"), with the `via` of each by name.
    pub fn handover(&self, session: &str, agent_speaks_http: bool) -> Vec<(String, Via, Value)> {
        unimplemented!()
    }

    /// Drops all leases of a session; ends the servers that nobody else uses, except persistent ones.
    pub async fn release(&self, session: &str, deadline: Deadline) -> Released {
        unimplemented!()
    }

    /// Ends everything; nothing starts any more.
    pub async fn stop_all(&self, deadline: Deadline) -> Vec<Ended> {
        unimplemented!()
    }

    /// Whose servers a token opens. Compares in constant time.
    ///
    /// # Errors
    /// See [`Unresolved`].
    pub fn resolve(&self, token: &str, server: &str) -> std::result::Result<Endpoint, Unresolved> {
        unimplemented!()
    }

    /// All servers as the list shows them, saved ones first.
    pub fn views(&self) -> Vec<ServerView> {
        unimplemented!()
    }

    /// One saved server as the list shows it.
    pub fn view(&self, name: &str) -> Option<ServerView> {
        unimplemented!()
    }

    /// Stops and starts a server; returns when the new one was launched.
    ///
    /// # Errors
    /// Not found.
    pub async fn restart(&self, name: &str, deadline: Deadline) -> Result<ServerView> {
        unimplemented!()
    }

    /// The tools of a server as MCP lists them, the filter applied.
    ///
    /// # Errors
    /// Not found, or nothing is known of it yet.
    pub async fn tools(&self, name: &str) -> Result<Vec<Value>> {
        unimplemented!()
    }

    /// Calls a tool for the user (starting the server if it does not run).
    ///
    /// # Errors
    /// Not found; failed with the MCP error as detail.
    pub async fn call(&self, name: &str, tool: &str, arguments: Value) -> Result<Value> {
        unimplemented!()
    }

    /// The last lines of a server's standard error.
    ///
    /// # Errors
    /// Not found.
    pub fn log(&self, name: &str, tail: usize) -> Result<Vec<String>> {
        unimplemented!()
    }
}
