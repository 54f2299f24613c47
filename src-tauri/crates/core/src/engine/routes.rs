//! Which session of ours an ACP session is, and what happens to updates that
//! nobody waits for yet.

use super::Conversation;
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
    early: VecDeque<(String, Value)>,
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
    ) -> Vec<Value> {
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

    /// Who gets this update; keeps it when its session is not known yet.
    pub(super) fn update(
        &mut self,
        session: String,
        update: Value,
    ) -> Option<(Arc<dyn Conversation>, Value)> {
        match self.routes.get(&session) {
            Some(route) if route.replaying && is_history(&update) => None,
            Some(route) => Some((route.conversation.clone(), update)),
            None => {
                if self.early.len() == MOST_EARLY {
                    self.early.pop_front();
                }
                self.early.push_back((session, update));
                None
            }
        }
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
/// Others (commands, modes, usage) tell the present state.
fn is_history(update: &Value) -> bool {
    matches!(
        update.get("sessionUpdate").and_then(Value::as_str),
        Some(
            "user_message_chunk"
                | "agent_message_chunk"
                | "agent_thought_chunk"
                | "tool_call"
                | "tool_call_update"
                | "plan"
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_acp::PermissionAsk;
    use serde_json::json;

    struct Nobody;
    impl Conversation for Nobody {
        fn opened(&self, _answer: &Value) {}
        fn update(&self, _update: Value) {}
        fn permission(&self, _ask: PermissionAsk) {}
        fn withdrawn(&self, _request: &Value) {}
        fn engine_gone(&self, _engine: u64, _why: &str) {}
        fn neighbours_changed(&self) {}
    }

    #[test]
    fn early_updates_reach_their_session_once_it_is_known() {
        let mut routes = Routes::default();
        let commands = json!({"sessionUpdate": "available_commands_update"});
        assert!(routes.update("a".into(), commands.clone()).is_none());
        assert!(routes.update("b".into(), json!({"sessionUpdate": "other"})).is_none());
        assert_eq!(routes.add("a", Arc::new(Nobody), false), [commands]);
        assert_eq!(routes.early.len(), 1);
        assert!(routes.conversation("a").is_some() && routes.conversation("b").is_none());
    }

    #[test]
    fn early_updates_are_bounded() {
        let mut routes = Routes::default();
        for n in 0..MOST_EARLY + 10 {
            routes.update("nobody".into(), json!({ "n": n }));
        }
        assert_eq!(routes.early.len(), MOST_EARLY);
        assert_eq!(routes.early[0].1["n"], 10);
    }

    #[test]
    fn a_replay_is_swallowed_but_the_present_state_is_not() {
        let mut routes = Routes::default();
        let chunk = json!({"sessionUpdate": "agent_message_chunk"});
        let commands = json!({"sessionUpdate": "available_commands_update"});
        assert!(routes.add("a", Arc::new(Nobody), true).is_empty());
        assert!(routes.update("a".into(), chunk.clone()).is_none());
        assert!(routes.update("a".into(), commands).is_some());
        routes.replay_is_over("a");
        assert!(routes.update("a".into(), chunk).is_some());
    }
}
