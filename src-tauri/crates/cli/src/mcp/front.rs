//! What faces the client: with one server the client talks to its hub directly.

use super::{
    shutdown::{Gate, Pass},
    stdio::{self, Output},
};
use bytes::Bytes;
use gantry_mcp::{
    Client, Envelope, Full, Hub, Kind, Outlet, ToClient,
    frame::{self, INVALID_REQUEST, PARSE_ERROR, UNAVAILABLE},
};
use serde_json::value::RawValue;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The request that is a subscription.
pub const LISTEN: &str = "subscriptions/listen";

/// Takes the client's messages.
pub trait Front: Send + Sync {
    /// Takes one message.
    fn take(&self, message: Envelope);
}

/// Takes one line: a message, an array of them (revision 2025-03-26), or nonsense.
pub fn take_line(front: &dyn Front, output: &Output, line: Bytes) {
    let refuse = |code, why: &str| {
        // A client that does not read is noticed elsewhere.
        let _ = output.send(frame::error("null", code, why, None).freeze());
    };
    if line.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        let parts: Vec<Box<RawValue>> = match serde_json::from_slice(&line) {
            Ok(parts) => parts,
            Err(error) => return refuse(PARSE_ERROR, &error.to_string()),
        };
        for part in parts {
            match Envelope::parse(Bytes::from(part.get().to_owned())) {
                Ok(message) => front.take(message),
                Err(error) => refuse(INVALID_REQUEST, &error.to_string()),
            }
        }
        return;
    }
    match Envelope::parse(line.clone()) {
        Ok(message) => front.take(message),
        Err(error) => {
            let json = serde_json::from_slice::<serde::de::IgnoredAny>(&line).is_ok();
            refuse(if json { INVALID_REQUEST } else { PARSE_ERROR }, &error.to_string());
        }
    }
}

/// Answers a message over the limit: whoever sent it would otherwise wait for ever. Its id is
/// looked for where it usually stands, at one of the message's ends.
pub fn refuse_too_long(output: &Output, length: u64, ends: [&[u8]; 2]) {
    let id = ends.into_iter().find_map(id_at).unwrap_or_else(|| "null".to_owned());
    let limit = stdio::LONGEST;
    let why = format!("the message of {length} bytes is over the limit of {limit}");
    let _ = output.send(frame::error(&id, INVALID_REQUEST, &why, None).freeze());
}

/// The first `"id"` in a piece of JSON: a number, or a string.
fn id_at(piece: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(piece);
    let (_, rest) = text.split_once("\"id\"")?;
    let rest = rest.trim_start().strip_prefix(':')?;
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<serde_json::Value>();
    let value = match values.next()? {
        Ok(value) => value,
        Err(_) => return None,
    };
    (value.is_number() || value.is_string()).then(|| value.to_string())
}

/// The client's requests that run, by raw id.
pub struct Requests {
    gate: Gate,
    running: Mutex<HashMap<String, Running>>,
}

struct Running {
    /// Its pass at the gate. A subscription has none: it is open as long as its client likes, and
    /// must not hold up our end.
    pass: Option<Pass>,
    /// Its client does not want an answer any more.
    cancelled: bool,
}

impl Requests {
    pub fn new(gate: Gate) -> Self {
        Self { gate, running: Mutex::default() }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a request in.
    ///
    /// # Errors
    /// The error response when its id is in use or the program ends.
    pub fn begin(&self, message: &Envelope) -> Result<(), Bytes> {
        let id = message.id().unwrap_or("null");
        let mut running = self.running();
        if running.contains_key(id) {
            let why = "a request with this id is still running";
            return Err(frame::error(id, INVALID_REQUEST, why, None).freeze());
        }
        let name = format!("{} {id}", message.method());
        let Some(pass) = self.gate.enter(&name) else {
            return Err(frame::error(id, UNAVAILABLE, "shutting down", None).freeze());
        };
        let is_call = message.method() != LISTEN;
        let request = Running { pass: is_call.then_some(pass), cancelled: false };
        running.insert(id.to_owned(), request);
        Ok(())
    }

    /// A request was not taken after all.
    pub fn end(&self, id: &str) {
        self.running().remove(id);
    }

    /// The client has cancelled a request: its end is not told (MCP: no response to it is sent).
    pub fn cancel(&self, id: &str) {
        if let Some(request) = self.running().get_mut(id) {
            request.cancelled = true;
        }
    }

    /// Sends the answer to a request. A client that has it may end its input at once, and must
    /// not be told that the request still ran.
    ///
    /// # Errors
    /// [`Full`] when the client does not read.
    pub fn answer(&self, id: &str, line: Bytes, output: &Output) -> Result<(), Full> {
        let mut is_wanted = !line.is_empty();
        if let Some(request) = self.running().get(id) {
            is_wanted &= !request.cancelled;
            request.pass.iter().for_each(Pass::answered);
        }
        let sent = if is_wanted { output.send(line) } else { Ok(()) };
        self.end(id);
        sent
    }

    /// Whether a request runs.
    pub fn has(&self, id: &str) -> bool {
        self.running().contains_key(id)
    }
}

/// One server, straight through.
pub struct Straight {
    client: Client,
    output: Output,
    requests: Arc<Requests>,
}

struct ToOutput {
    output: Output,
    requests: Arc<Requests>,
}

impl Outlet for ToOutput {
    fn deliver(&self, message: ToClient) -> Result<(), Full> {
        let ToClient { line, concerning, last } = message;
        match concerning.filter(|_| last) {
            Some(id) => self.requests.answer(&id, line, &self.output),
            None => self.output.send(line),
        }
    }
}

impl Straight {
    pub fn new(hub: &Hub, output: Output, gate: Gate) -> Self {
        let requests = Arc::new(Requests::new(gate));
        let outlet = ToOutput { output: output.clone(), requests: requests.clone() };
        Self { client: hub.attach_to("stdio", Arc::new(outlet)), output, requests }
    }
}

impl Front for Straight {
    fn take(&self, message: Envelope) {
        let message_kind = message.kind();
        if message.method() == "notifications/cancelled"
            && let Some(request) = message.param(&["requestId"])
        {
            self.requests.cancel(request);
        }
        let id = message.id().filter(|_| message_kind == Kind::Request).map(str::to_owned);
        let taken = match &id {
            Some(_) => self.requests.begin(&message),
            None => Ok(()),
        };
        let refused = match taken {
            Ok(()) => self.client.send_parsed(message).err().inspect(|_| {
                if let Some(id) = &id {
                    self.requests.end(id);
                }
            }),
            Err(line) => Some(line),
        };
        // Nobody waits for the answer to anything but a request.
        let refused = refused.filter(|_| message_kind != Kind::Notification);
        // A client that does not read is noticed elsewhere.
        let _ = refused.map(|line| self.output.send(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_message_that_is_not_whole_is_found_at_either_end() {
        assert_eq!(
            id_at(br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","par"#),
            Some("7".into())
        );
        assert_eq!(id_at(br#"xxxx"}},"id" : "a\"b"}"#), Some(r#""a\"b""#.into()));
        assert_eq!(id_at(br#"xxxxx"}}}"#), None);
        assert_eq!(id_at(br#"{"id":{"#), None);
    }
}
