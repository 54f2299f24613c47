//! Requests that wait, take too long, or are not wanted any more.

use super::state::{
    Call, Caller, ClientKey, Due, Effects, HELD_BYTES, HELD_CALLS, Held, Link, State, cancelled,
};
use crate::{
    Envelope,
    frame::{self, CANCELLED, UNAVAILABLE},
    modern,
};
use bytes::{Bytes, BytesMut};
use serde_json::json;
use std::collections::VecDeque;
use tokio::time::Instant;

impl State {
    pub fn hold(
        &mut self,
        key: ClientKey,
        message: Envelope,
        until: Instant,
        effects: &mut Effects,
    ) {
        let bytes: usize = self.held.iter().map(|held| held.message.line.len()).sum();
        let held = Held { key, message, until };
        if self.held.len() >= HELD_CALLS || bytes + held.message.line.len() > HELD_BYTES {
            self.refuse_held(&held, effects);
        } else {
            self.held.push_back(held);
        }
    }

    pub fn refuse_held(&self, held: &Held, effects: &mut Effects) {
        let id = held.message.id().unwrap_or("null");
        let why = match &self.link {
            Link::Down { why, .. } => why.as_str(),
            Link::Up(_) => "starting",
        };
        let line = self.unavailable(id, why).freeze();
        self.deliver(held.key, line, Some(id.to_owned()), true, effects);
    }

    pub fn next_due(&self) -> Option<Instant> {
        let calls = self.calls.values().filter_map(|call| Some(call.due.as_ref()?.at));
        self.held.iter().map(|held| held.until).chain(calls).min()
    }

    /// Ends the calls that take too long.
    fn expire_calls(&mut self, now: Instant, effects: &mut Effects) {
        let is_over = |call: &Call| call.due.as_ref().is_some_and(|due| due.at <= now);
        let over: Vec<u64> =
            self.calls.iter().filter(|(_, call)| is_over(call)).map(|(id, _)| *id).collect();
        for ours in over {
            let Some(Call {
                caller: Caller::Client { key, id },
                due: Some(Due { limit, tool, .. }),
                ..
            }) = self.calls.remove(&ours)
            else {
                continue;
            };
            let limit = limit.as_millis();
            let server = &self.name;
            let why = format!(
                "the tool `{tool}` of the server `{server}` gave no result within its limit of {limit} ms (callTimeoutMs); it was cancelled"
            );
            let data = json!({ "server": server, "tool": tool, "reason": "callTimeoutMs" });
            self.push(cancelled(ours, "callTimeoutMs"));
            if let Some(client) = self.clients.get_mut(&key) {
                client.calls.remove(&id);
            }
            let line = frame::error(&id, UNAVAILABLE, &why, Some(data)).freeze();
            self.deliver(key, line, Some(id), true, effects);
        }
    }

    /// Ends the waits that are over.
    pub fn expire(&mut self, now: Instant, effects: &mut Effects) {
        self.expire_calls(now, effects);
        let (over, on): (VecDeque<Held>, VecDeque<Held>) =
            std::mem::take(&mut self.held).into_iter().partition(|held| held.until <= now);
        self.held = on;
        if !over.is_empty() && self.is_undecided() {
            // It does not say whether it knows their revision.
            let (asks, calls): (VecDeque<Held>, VecDeque<Held>) =
                over.into_iter().partition(|held| held.message.method() == "server/discover");
            for held in asks {
                self.discover_without(held.key, &held.message, effects);
            }
            if !calls.is_empty() {
                self.held.extend(calls);
                self.probed(None, now, effects);
            }
            return;
        }
        for held in over {
            if !self.answer_empty_list(held.key, &held.message, effects) {
                self.refuse_held(&held, effects);
            }
        }
    }

    /// Cancels a client's request, wherever it is. `notice` makes the message for the
    /// server out of our id.
    pub fn cancel_with(
        &mut self,
        key: ClientKey,
        request: &str,
        notice: impl FnOnce(u64) -> BytesMut,
        effects: &mut Effects,
    ) {
        if self.unlisten(key, request) {
            return self.deliver_nothing(key, request, effects);
        }
        let flying = self.clients.get_mut(&key).and_then(|client| client.calls.remove(request));
        let waiting = |held: &Held| held.key == key && held.message.id() == Some(request);
        let is_modern;
        if let Some(id) = flying {
            let call = self.calls.remove(&id);
            is_modern = call.is_some_and(|call| call.log_level().is_some());
            if self.drop_round(id).is_none() {
                self.push(notice(id));
            }
        } else if let Some(position) = self.held.iter().position(waiting) {
            let held = self.held.remove(position);
            is_modern = held.is_some_and(|held| modern::version(&held.message).is_some());
        } else {
            return;
        }
        if is_modern {
            return self.deliver_nothing(key, request, effects);
        }
        // Clients ignore this; it lets go of a transport that waits for the response.
        let line = frame::error(request, CANCELLED, "the client cancelled the request", None);
        self.deliver(key, line.freeze(), Some(request.to_owned()), true, effects);
    }

    /// Ends a request without a word: revision 2026-07-28 forbids any message for one that
    /// was cancelled.
    fn deliver_nothing(&self, key: ClientKey, request: &str, effects: &mut Effects) {
        self.deliver(key, Bytes::new(), Some(request.to_owned()), true, effects);
    }
}
