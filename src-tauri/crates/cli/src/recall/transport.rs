//! MCP messages over lines of standard input and output.

use rmcp::{
    RoleServer,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::{Value, json};
use std::io;
use tokio::sync::{mpsc, watch};

/// The transport of one client.
pub(super) struct Messages {
    input: mpsc::Receiver<io::Result<String>>,
    output: mpsc::Sender<String>,
    ended: watch::Sender<bool>,
}

impl Messages {
    /// The receiver turns true when the input has ended.
    pub(super) fn new(
        input: mpsc::Receiver<io::Result<String>>,
        output: mpsc::Sender<String>,
    ) -> (Self, watch::Receiver<bool>) {
        let (ended, seen) = watch::channel(false);
        (Self { input, output, ended }, seen)
    }

    /// Tells the client that it sent something that cannot be read.
    async fn refuse(&self, line: &str) {
        let parsed = serde_json::from_str::<Value>(line);
        let (id, code, message) = match &parsed {
            // An answer or a notification that is not understood is nobody's problem.
            Ok(value) if value.get("id").is_none() || value.get("method").is_none() => {
                tracing::debug!("a message was not understood");
                return;
            }
            Ok(value) => (value["id"].clone(), -32600, "the request is not a valid MCP message"),
            Err(_) => (Value::Null, -32700, "the line is not JSON"),
        };
        let error =
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        let _ = self.output.send(error.to_string()).await;
    }
}

impl Transport<RoleServer> for Messages {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let output = self.output.clone();
        async move {
            let line = serde_json::to_string(&item).map_err(io::Error::other)?;
            output.send(line).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            match self.input.recv().await {
                Some(Ok(line)) => match serde_json::from_str(&line) {
                    Ok(message) => return Some(message),
                    Err(_) => self.refuse(&line).await,
                },
                Some(Err(error)) => tracing::warn!(%error, "standard input cannot be read"),
                None => {
                    self.ended.send_replace(true);
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.input.close();
        Ok(())
    }
}
