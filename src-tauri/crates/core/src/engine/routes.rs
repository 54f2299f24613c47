//! Which session of ours an ACP session is, and what happens to updates that
//! nobody waits for yet.

use super::Conversation;
use gantry_acp::{RawUpdate, is_part_of_conversation};
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

    /// Everybody.
    pub(super) fn all(&self) -> Vec<Arc<dyn Conversation>> {
        self.routes.values().map(|route| route.conversation.clone()).collect()
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
    use serde_json::{Value, json};

    struct Nobody;
    impl Conversation for Nobody {
        fn opened(&self, _answer: &Value) {}
        fn updates(&self, _updates: Vec<RawUpdate>) {}
        fn permission(&self, _ask: PermissionAsk) {}
        fn call(self: Arc<Self>, _call: ClientCall) {}
        fn withdrawn(&self, _request: &Value) {}
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
