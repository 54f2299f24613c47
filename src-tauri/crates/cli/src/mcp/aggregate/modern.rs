//! Requests of revision 2026-07-28 to several servers as one.
//!
//! What belongs to one server goes there as it is: its hub knows both eras. What belongs to all is
//! made here: the answer to `server/discover`, the lists, and the subscriptions, which the members
//! know nothing of; they are listened to the older way.

use super::{Aggregate, CAPABILITIES, Inner, info};
use crate::mcp::{front::LISTEN, merge::List};
use gantry_mcp::{
    Envelope, Full,
    frame::{self, INVALID_PARAMS, METHOD_NOT_FOUND},
    hub::{ListenFilter, acknowledged, tagged},
    modern::{self, Context, REMOVED},
    revision,
};
use serde_json::json;
use std::sync::Arc;

/// Subscriptions that are open at a time.
const MOST: usize = 1024;

/// Whether a request says that it is of this revision.
pub(super) fn is_modern(message: &Envelope) -> bool {
    modern::version(message).is_some()
}

fn complete(result: &str) -> String {
    modern::complete(result, true, Some(&info().to_string()))
}

impl Aggregate {
    pub(super) fn modern_request(&self, message: Envelope) {
        let inner = &self.inner;
        let id = message.id().unwrap_or("null");
        if let Err(wrong) = Context::read(&message) {
            let line = frame::error(id, wrong.code, &wrong.message, wrong.data);
            return inner.reply(id, line);
        }
        if !inner.state().watched {
            // So that the lists are made anew when they change. A client of this revision is
            // never asked anything.
            inner.watch("{}");
        }
        match message.method() {
            method if REMOVED.contains(&method) => {
                let why =
                    format!("Method not found: revision {} has no {method}", revision::MODERN);
                inner.refuse(id, METHOD_NOT_FOUND, &why);
            }
            "server/discover" => {
                let spoken = revision::SPOKEN;
                let result =
                    format!(r#"{{"supportedVersions":{spoken},"capabilities":{CAPABILITIES}}}"#);
                inner.reply(id, frame::result(id, &complete(&result)));
            }
            LISTEN => inner.listen(id, &message),
            method => match List::of_list_method(method) {
                Some(list) => self.in_background(message, move |inner, message| async move {
                    let table = inner.table(list).await;
                    let id = message.id().unwrap_or("null");
                    inner.reply(id, frame::result(id, &complete(&table.result)));
                }),
                None => self.route(message),
            },
        }
    }
}

impl Inner {
    /// Opens a subscription.
    fn listen(self: &Arc<Self>, id: &str, message: &Envelope) {
        let Some(filter) = message.param(&["notifications"]).and_then(ListenFilter::read) else {
            let why = "`notifications`, which says what is wanted, is not an object";
            return self.refuse(id, INVALID_PARAMS, why);
        };
        let new: Vec<String> = {
            let mut state = self.state();
            if state.listens.len() >= MOST {
                drop(state);
                let why = format!("{MOST} subscriptions are open already");
                return self.refuse(id, frame::UNAVAILABLE, &why);
            }
            let is_new = |uri: &&String| !state.is_needed(uri);
            let new = filter.resources.iter().filter(is_new).cloned().collect();
            state.listens.insert(id.to_owned(), filter.clone());
            new
        };
        // A client that does not read is noticed elsewhere.
        let _ = self.output.send(acknowledged(id, &filter));
        self.tell_owners(new, "resources/subscribe");
    }

    /// Ends a subscription by its client's wish; `false` when there is none.
    pub(super) fn unlisten(self: &Arc<Self>, id: &str) -> bool {
        let over: Vec<String> = {
            let mut state = self.state();
            let Some(filter) = state.listens.remove(id) else { return false };
            filter.resources.into_iter().filter(|uri| !state.is_needed(uri)).collect()
        };
        self.requests.end(id);
        self.tell_owners(over, "resources/unsubscribe");
        true
    }

    /// Tells the members that have these resources, each of its own.
    fn tell_owners(self: &Arc<Self>, uris: Vec<String>, method: &'static str) {
        if uris.is_empty() {
            return;
        }
        let inner = self.clone();
        let work = async move {
            let (resources, templates) =
                (inner.table(List::Resources).await, inner.table(List::Templates).await);
            for uri in uris {
                let found = resources.find(&uri).map(|(index, _)| index);
                let found = found.or_else(|| templates.by_prefix(&uri));
                if let Some(index) = found.or_else(|| resources.only_member()) {
                    // One that it does not have never changes either.
                    drop(inner.ask(index, method, &json!({ "uri": uri }).to_string()));
                }
            }
        };
        // Dropping the handle does not end the task.
        drop(self.scope.spawn(method, work));
    }

    /// Hands a member's notification to the subscriptions that want it.
    pub(super) fn to_listeners(&self, message: &Envelope) -> Result<(), Full> {
        let uri = (message.method() == "notifications/resources/updated")
            .then(|| message.param(&["uri"]).and_then(frame::string).unwrap_or_default());
        let ids: Vec<String> = {
            let state = self.state();
            let wants = |filter: &ListenFilter| match &uri {
                // It may name a part of what was subscribed.
                Some(uri) => filter.resources.iter().any(|wanted| uri.starts_with(wanted.as_str())),
                None => filter.wants(message.method()),
            };
            let fits = state.listens.iter().filter(|(_, filter)| wants(filter));
            fits.map(|(id, _)| id.clone()).collect()
        };
        for id in ids {
            self.output.send(tagged(message, Some(&id)))?;
        }
        Ok(())
    }

    /// Notes what the client subscribes to the older way.
    pub(super) fn note_subscription(&self, method: &str, uri: &str) {
        if method == "resources/subscribe" {
            self.state().subscribed.insert(uri.to_owned());
        } else if method == "resources/unsubscribe" {
            self.state().subscribed.remove(uri);
        }
    }
}

impl super::State {
    fn is_needed(&self, uri: &str) -> bool {
        self.subscribed.contains(uri)
            || self.listens.values().any(|filter| filter.resources.contains(uri))
    }
}
