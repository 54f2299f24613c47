//! One upstream server, many clients.
//!
//! A hub outlives the connections (generations) of its server: clients attach
//! once and keep their handle over restarts. Request ids and progress tokens
//! of clients are mapped so that they never meet. `initialize` and `tools/list`
//! are answered from the [`Catalogue`].

use crate::{Catalogue, ToolFilter};
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, watch},
};

/// What a hub is made with.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// The server's name, for messages.
    pub name: String,
    /// Which tools pass.
    pub filter: ToolFilter,
    /// Longest line accepted from the server, bytes (64 MiB is usual).
    pub line_limit: usize,
    /// How long a call waits for a server that is starting before it gets an error that names the state.
    pub start_wait: Duration,
}

/// What the hub knows of its upstream connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No connection. The text says why, for callers (`stopped`, `restarting after exit code 1`).
    Down(String),
    /// Connected, handshake not done.
    Handshake {
        /// Of the connection.
        generation: u64,
    },
    /// Every page of `tools/list` has been answered.
    Ready {
        /// Of the connection.
        generation: u64,
        /// Tools that pass the filter.
        tools: usize,
    },
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disconnected {
    /// Of the connection.
    pub generation: u64,
    /// For people: `closed its output`, `answered initialize with an error: …`.
    pub why: String,
}

/// A message for a client.
#[derive(Clone, Debug)]
pub struct ToClient {
    /// One JSON-RPC message, no line end, ids as the client knows them.
    pub line: Bytes,
    /// The client's own request (its `id` as raw JSON) that this belongs to: its
    /// response, or progress, logging and requests sent on its behalf. `None`
    /// goes to the general stream.
    pub concerning: Option<String>,
    /// Whether this is the response that ends `concerning`.
    pub last: bool,
}

/// One upstream server, many clients. Clones are the same hub.
#[derive(Clone, Debug)]
pub struct Hub {}

impl Hub {
    /// A hub without a connection.
    pub fn new(options: HubOptions) -> Self {
        unimplemented!()
    }

    /// Takes the streams of a server that was just started. The returned
    /// future does the handshake (`initialize`, `notifications/initialized`,
    /// every page of `tools/list`), then carries messages until the stream ends
    /// or a newer generation connects. Its owner runs it as a task. Calls in
    /// flight at the end get an error that says why; they are never repeated.
    pub fn connect<R, W>(
        &self,
        generation: u64,
        reader: R,
        writer: W,
    ) -> impl Future<Output = Disconnected> + Send + 'static
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        async move { unimplemented!() }
    }

    /// Says that there is no connection, and why; `starting` makes calls wait up to
    /// `start_wait` instead of failing at once.
    pub fn announce_down(&self, why: &str, starting: bool) {
        unimplemented!()
    }

    /// The phase, now and on every change.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        unimplemented!()
    }

    /// What is known of the server; kept over restarts until a new handshake replaces it.
    pub fn catalogue(&self) -> Option<Arc<Catalogue>> {
        unimplemented!()
    }

    /// A new client. `label` names it in the log. Its receiver is bounded; a client that does not
    /// read is detached.
    pub fn attach(&self, label: &str) -> (Client, mpsc::Receiver<ToClient>) {
        unimplemented!()
    }

    /// Asks the server for a `ping`.
    ///
    /// # Errors
    /// The reason, when no answer came within `limit`.
    pub async fn ping(&self, limit: Duration) -> Result<Duration, String> {
        unimplemented!()
    }

    /// Calls a tool on our own behalf and returns the MCP result, or the JSON-RPC error object as `Err`.
    ///
    /// # Errors
    /// The JSON-RPC error of the server or of the hub.
    pub async fn call_tool(
        &self,
        tool: &str,
        arguments: serde_json::Value,
        limit: Duration,
    ) -> Result<serde_json::Value, serde_json::Value> {
        unimplemented!()
    }
}

/// A client's way to the server. Dropping it detaches: its calls in flight are
/// cancelled upstream (`notifications/cancelled`).
#[derive(Debug)]
pub struct Client {}

impl Client {
    /// Sends one JSON-RPC message (request, notification or response) of the client.
    ///
    /// # Errors
    /// A JSON-RPC error response line for the client when the message is not valid or the hub is full.
    pub fn send(&self, line: Bytes) -> Result<(), Bytes> {
        unimplemented!()
    }

    /// Cancels the client's own request as if it had sent `notifications/cancelled`.
    pub fn cancel(&self, request: &str, reason: &str) {
        unimplemented!()
    }

    /// Whether `tools/list` was answered to this client: the receipt.
    pub fn has_tools(&self) -> watch::Receiver<bool> {
        unimplemented!()
    }
}
