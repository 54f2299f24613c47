//! MCP messages over lines of standard input and output.

use crate::mcp::{
    shutdown::{Gate, Pass},
    stdio::Input,
};
use bytes::Bytes;
use gantry_mcp::{Full, Line};
use rmcp::{
    RoleServer,
    model::{ClientNotification, JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Takes a line for the client.
pub(super) type Send = Arc<dyn Fn(Bytes) -> Result<(), Full> + core::marker::Send + Sync>;

/// How the shutdown speaks to the transport.
#[derive(Clone)]
pub(super) struct Valve {
    /// Turns true when the input has ended.
    pub(super) ended: watch::Receiver<bool>,
    /// Cancelled: nothing more is dispatched.
    pub(super) closing: CancellationToken,
    /// Cancelled: the connection is over.
    pub(super) stop: CancellationToken,
}

/// The transport of one client. Every request goes through the gate and leaves
/// it when its answer has been handed over.
pub(super) struct Messages {
    input: Input,
    send: Send,
    gate: Gate,
    running: Arc<Mutex<HashMap<RequestId, Pass>>>,
    ended: watch::Sender<bool>,
    closing: CancellationToken,
    stop: CancellationToken,
}

impl Messages {
    pub(super) fn new(input: Input, send: Send, gate: Gate) -> (Self, Valve) {
        let (ended, seen) = watch::channel(false);
        let (closing, stop) = (CancellationToken::new(), CancellationToken::new());
        let valve = Valve { ended: seen, closing: closing.clone(), stop: stop.clone() };
        (Self { input, send, gate, running: Arc::default(), ended, closing, stop }, valve)
    }

    /// What a line means to the connection; `None`: nothing.
    fn take(&self, line: &Line) -> Option<RxJsonRpcMessage<RoleServer>> {
        let line = match line {
            Line::Full(line) => line,
            Line::TooLong { length, .. } => {
                self.refuse(
                    Value::Null,
                    -32600,
                    &format!("a message of {length} bytes is too long"),
                );
                return None;
            }
        };
        let Ok(message) = serde_json::from_slice(line) else {
            self.refuse_line(line);
            return None;
        };
        match &message {
            JsonRpcMessage::Request(request) => {
                // A closed gate lets nothing in; the client's input is over by then.
                let pass = self.gate.enter(&format!("request {}", request.id))?;
                lock(&self.running).insert(request.id.clone(), pass);
            }
            JsonRpcMessage::Notification(notification) => {
                // A cancelled request is not answered.
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    lock(&self.running).remove(id);
                }
            }
            _ => {}
        }
        Some(message)
    }

    /// Tells the client that it sent something that cannot be read.
    fn refuse_line(&self, line: &[u8]) {
        match serde_json::from_slice::<Value>(line) {
            Ok(value) => match (value.get("id"), value.get("method")) {
                (Some(id), Some(_)) => {
                    self.refuse(id.clone(), -32600, "the request is not a valid MCP message");
                }
                // An answer or a notification that is not understood is nobody's problem.
                _ => tracing::debug!("a message was not understood"),
            },
            Err(_) => self.refuse(Value::Null, -32700, "the line is not JSON"),
        }
    }

    fn refuse(&self, id: Value, code: i32, message: &str) {
        let error =
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        // A client that does not read is noticed by whoever writes its answers.
        let _ = (self.send)(error.to_string().into());
    }
}

impl Transport<RoleServer> for Messages {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + core::marker::Send + 'static {
        let (send, running) = (self.send.clone(), self.running.clone());
        async move {
            let answered = match &item {
                JsonRpcMessage::Response(response) => Some(response.id.clone()),
                JsonRpcMessage::Error(error) => error.id.clone(),
                _ => None,
            };
            let line = serde_json::to_vec(&item).map_err(io::Error::other)?;
            let sent = send(line.into()).map_err(|_| io::ErrorKind::BrokenPipe.into());
            if let Some(id) = answered {
                lock(&running).remove(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let line = tokio::select! {
                biased;
                () = self.closing.cancelled() => None,
                line = self.input.next() => line.unwrap_or_else(|error| {
                    tracing::warn!(%error, "standard input cannot be read");
                    None
                }),
            };
            match line {
                Some(line) => {
                    if let Some(message) = self.take(&line) {
                        return Some(message);
                    }
                }
                None => {
                    self.ended.send_replace(true);
                    // Requests that run are answered first; the shutdown says when it is over.
                    self.stop.cancelled().await;
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
