//! Which session of ours an ACP session is, and what happens to updates that
//! nobody waits for yet.

use super::Conversation;
use gantry_acp::{RawUpdate, is_part_of_conversation};
use serde_json::Value;
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// Updates that came before their session was known: some agents send the list of
/// their commands before they answer `session/new`.
const MOST_EARLY: usize = 256;

#[derive(Default)]
pub(super) struct Routes {
    routes: HashMap<String, Route>,
    early: VecDeque<(String, RawUpdate)>,
    /// Requests of ours that wait for their answers, by their JSON-RPC ids.
    requests: Vec<(Value, Arc<dyn Conversation>)>,
}

struct Route {
    conversation: Arc<dyn Conversation>,
    /// `session/load` replays the history, which we have already.
    replaying: bool,
}

impl Routes {
    /// From now on the session's messages go to `conversation`. Returns what came before.
    #[must_use = "early updates are to be handed on"]
    pub(super) fn add(
        &mut self,
        session: &str,
        conversation: Arc<dyn Conversation>,
        replaying: bool,
    ) -> Vec<RawUpdate> {
        let (early, kept): (VecDeque<_>, VecDeque<_>) =
            self.early.drain(..).partition(|(of, _)| of == session);
        self.early = kept;
        self.routes.insert(session.to_owned(), Route { conversation, replaying });
        early
            .into_iter()
            .map(|(_, update)| update)
            .filter(|update| !(replaying && is_history(update)))
            .collect()
    }

    pub(super) fn remove(&mut self, session: &str) {
        self.routes.remove(session);
    }

    pub(super) fn replay_is_over(&mut self, session: &str) {
        if let Some(route) = self.routes.get_mut(session) {
            route.replaying = false;
        }
    }

    /// Who gets these updates of a session; keeps them when it is not known yet.
    pub(super) fn updates(
        &mut self,
        session: &str,
        mut updates: Vec<RawUpdate>,
    ) -> Option<(Arc<dyn Conversation>, Vec<RawUpdate>)> {
        let Some(route) = self.routes.get(session) else {
            for update in updates {
                if self.early.len() == MOST_EARLY {
                    self.early.pop_front();
                }
                self.early.push_back((session.to_owned(), update));
            }
            return None;
        };
        if route.replaying {
            updates.retain(|update| !is_history(update));
        }
        (!updates.is_empty()).then(|| (route.conversation.clone(), updates))
    }

    /// Everybody; one that is being opened again may be there twice.
    pub(super) fn all(&self) -> Vec<Arc<dyn Conversation>> {
        let opening = self.requests.iter().map(|(_, conversation)| conversation);
        self.routes.values().map(|route| &route.conversation).chain(opening).cloned().collect()
    }

    pub(super) fn add_request(&mut self, id: Value, conversation: Arc<dyn Conversation>) {
        self.requests.push((id, conversation));
    }

    pub(super) fn drop_request(&mut self, id: &Value) {
        self.requests.retain(|(known, _)| known != id);
    }

    /// Who is asked about a request of ours: whoever sent it. A prompt's belongs to its
    /// session, which is not told; where there is but one, it is that.
    pub(super) fn of_request(&self, id: &Value) -> Option<Arc<dyn Conversation>> {
        let known = self.requests.iter().find(|(known, _)| known == id);
        let mut routes = self.routes.values();
        known.map(|(_, conversation)| conversation.clone()).or_else(|| {
            let only = routes.next()?;
            routes.next().is_none().then(|| only.conversation.clone())
        })
    }

    /// Who is asked.
    pub(super) fn conversation(&self, session: &str) -> Option<Arc<dyn Conversation>> {
        Some(self.routes.get(session)?.conversation.clone())
    }
}

/// Whether an update is a part of the conversation that we have stored already.
fn is_history(update: &RawUpdate) -> bool {
    is_part_of_conversation(&update.shape().kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_acp::{ClientCall, PermissionAsk};
    use serde_json::json;

    struct Nobody;
    impl Conversation for Nobody {
        fn opened(&self, _answer: &Value) {}
        fn updates(&self, _updates: Vec<RawUpdate>) {}
        fn permission(&self, _ask: PermissionAsk) {}
        fn call(self: Arc<Self>, _call: ClientCall) {}
        fn withdrawn(&self, _request: &Value) {}
        fn question_completed(&self, _elicitation: &str) {}
        fn request_answered(&self, _request: &Value) {}
        fn engine_gone(&self, _engine: u64, _why: &str) {}
        fn neighbours_changed(&self) {}
    }

    fn update(kind: &str) -> RawUpdate {
        json!({ "sessionUpdate": kind }).into()
    }

    #[test]
    fn early_updates_reach_their_session_once_it_is_known() {
        let mut routes = Routes::default();
        let commands = update("available_commands_update");
        assert!(routes.updates("a", vec![commands.clone()]).is_none());
        assert!(routes.updates("b", vec![update("other")]).is_none());
        let early = routes.add("a", Arc::new(Nobody), false);
        assert_eq!((early.len(), early[0].get()), (1, commands.get()));
        assert_eq!(routes.early.len(), 1);
        assert!(routes.conversation("a").is_some() && routes.conversation("b").is_none());
    }

    #[test]
    fn whoever_sent_a_request_is_asked_about_it_and_otherwise_the_only_session() {
        let mut routes = Routes::default();
        assert!(routes.of_request(&json!(1)).is_none());
        routes.add_request(json!(1), Arc::new(Nobody));
        assert!(routes.of_request(&json!(1)).is_some() && routes.of_request(&json!(2)).is_none());
        routes.drop_request(&json!(1));
        let _ = routes.add("a", Arc::new(Nobody), false);
        assert!(routes.of_request(&json!(1)).is_some());
        let _ = routes.add("b", Arc::new(Nobody), false);
        assert!(routes.of_request(&json!(1)).is_none());
    }

    #[test]
    fn early_updates_are_bounded() {
        let mut routes = Routes::default();
        for n in 0..MOST_EARLY + 10 {
            routes.updates("nobody", vec![json!({ "n": n }).into()]);
        }
        assert_eq!(routes.early.len(), MOST_EARLY);
        assert_eq!(routes.early[0].1.value()["n"], 10);
    }

    #[test]
    fn a_replay_is_swallowed_but_the_present_state_is_not() {
        let mut routes = Routes::default();
        let chunk = update("agent_message_chunk");
        let commands = update("available_commands_update");
        assert!(routes.add("a", Arc::new(Nobody), true).is_empty());
        assert!(routes.updates("a", vec![chunk.clone()]).is_none());
        let (_, passed) = routes.updates("a", vec![chunk.clone(), commands]).unwrap();
        assert_eq!((passed.len(), &*passed[0].shape().kind), (1, "available_commands_update"));
        routes.replay_is_over("a");
        assert!(routes.updates("a", vec![chunk]).is_some());
    }
}
