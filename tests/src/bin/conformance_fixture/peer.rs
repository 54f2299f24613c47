//! The client at the other end: what it can do, and what it was asked.

use serde_json::{Value, json};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// Where messages to the client go. Over HTTP each request has one of its own.
pub type Outlet = mpsc::UnboundedSender<Value>;

/// A client does not take longer to answer in a test; a call must not hang for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// One client.
#[derive(Default)]
pub struct Peer {
    asked: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    next: AtomicU64,
    /// The `capabilities` of its `initialize`.
    pub abilities: Mutex<Value>,
    /// The resources it subscribed to.
    pub subscriptions: Mutex<BTreeSet<String>>,
}

impl Peer {
    /// An answer of the client.
    pub fn answered(&self, message: Value) {
        let waiting = lock(&self.asked).remove(&message["id"].to_string());
        if let Some(waiting) = waiting {
            let _ = waiting.send(message);
        }
    }

    /// Asks the client.
    ///
    /// # Errors
    /// The client's error, or that it does not answer.
    pub async fn ask(&self, to: &Outlet, method: &str, params: Value) -> Result<Value, String> {
        let id = json!(format!("fixture-{}", self.next.fetch_add(1, Ordering::Relaxed)));
        let (sender, answer) = oneshot::channel();
        lock(&self.asked).insert(id.to_string(), sender);
        let _ = to.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let mut answer = match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            _ => return Err(format!("the client did not answer {method}")),
        };
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(answer["error"]["message"].as_str().unwrap_or("no message").to_owned()),
        }
    }

    /// Whether the client declared a capability.
    pub fn can(&self, ability: &str) -> bool {
        lock(&self.abilities).get(ability).is_some()
    }
}

/// Tells the client something.
pub fn tell(to: &Outlet, method: &str, params: Value) {
    let _ = to.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }));
}

/// A lock that a panic elsewhere does not spoil.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
