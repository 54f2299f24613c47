//! Conversations that the agent keeps and we do not know: they are listed (`session/list`), and
//! one can be gone on with here. What the agent replays of it becomes our history.

use super::{Sessions, cell::Cell};
use crate::{
    Error, Result,
    engine::{Conversation, Engine, EngineKey},
    events::now,
    session::{AgentSpec, lines::Lines},
    wire::{AgentConversation, AgentConversations},
};
use gantry_acp::{ClientCall, PeerError, PermissionAsk, RawUpdate};
use gantry_store::TurnRow;
use gantry_supervisor::Deadline;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How long an agent may take to list them, all pages together.
const LIST: Duration = Duration::from_secs(20);
/// How long an engine that was started only to ask may take to end.
const LEAVE: Duration = Duration::from_secs(5);
/// Most conversations that are listed.
const MOST: usize = 500;
/// The longest replay that is kept, bytes.
const LONGEST_REPLAY: usize = 64 << 20;

/// What an agent replays while a session is opened in it.
#[derive(Default)]
pub(super) struct Replay {
    updates: Vec<RawUpdate>,
    bytes: usize,
}

impl Replay {
    /// Takes what belongs to the conversation out of `updates`.
    pub(super) fn take(&mut self, updates: Vec<RawUpdate>) -> Vec<RawUpdate> {
        let (replayed, others): (Vec<_>, Vec<_>) = updates
            .into_iter()
            .partition(|update| gantry_acp::is_part_of_conversation(&update.shape().kind));
        for update in replayed {
            self.bytes += update.get().len();
            if self.bytes > LONGEST_REPLAY {
                tracing::warn!("a replayed conversation is longer than is kept");
                break;
            }
            self.updates.push(update);
        }
        others
    }
}

/// A turn of a replayed conversation.
#[derive(Debug, Default)]
struct OldTurn {
    prompt: Vec<Value>,
    updates: Vec<RawUpdate>,
}

/// A turn begins where the user speaks after the agent, or speaks a second time. Pure.
fn turns_of(updates: Vec<RawUpdate>) -> Vec<OldTurn> {
    let mut turns: Vec<OldTurn> = Vec::new();
    let mut said: Option<Value> = None;
    for update in updates {
        if update.shape().kind != "user_message_chunk" {
            said = None;
            if turns.is_empty() {
                turns.push(OldTurn::default());
            }
            if let Some(turn) = turns.last_mut() {
                turn.updates.push(update);
            }
            continue;
        }
        let mut value = update.value();
        let message = value.get("messageId").cloned().unwrap_or_default();
        let content = value.get_mut("content").map(Value::take).unwrap_or_default();
        match (turns.last_mut(), &said) {
            (Some(turn), Some(before)) if *before == message => join(&mut turn.prompt, content),
            _ => turns.push(OldTurn { prompt: vec![content], updates: Vec::new() }),
        }
        said = Some(message);
    }
    turns
}

/// A chunk of text goes on where the last one ended.
fn join(prompt: &mut Vec<Value>, content: Value) {
    let is_text = |block: &Value| block["type"] == "text" && block["text"].is_string();
    match prompt.last_mut() {
        Some(last) if is_text(last) && is_text(&content) => {
            let both = [&*last, &content].map(|block| block["text"].as_str().unwrap_or_default());
            last["text"] = json!(both.concat());
        }
        _ => prompt.push(content),
    }
}

/// Stores what was replayed as turns that ended long ago.
pub(super) async fn keep(cell: &Arc<Cell>, replay: Replay) -> Result<()> {
    for turn in turns_of(replay.updates) {
        let at = now();
        let row = {
            let mut inner = cell.lock();
            let counters = inner.counters.get_or_insert_default();
            counters.turn += 1;
            let number = counters.turn;
            if inner.kept.title.is_empty() {
                inner.kept.title = super::turn::title_of(&turn.prompt);
            }
            TurnRow {
                id: uuid::Uuid::now_v7().to_string(),
                session_id: cell.id.clone(),
                number,
                prompt: Value::Array(turn.prompt).to_string(),
                request_id: None,
                started_at: at,
                ended_at: Some(at),
                stop_reason: Some("end_turn".to_owned()),
                description: None,
            }
        };
        let id = row.id.clone();
        cell.deps.store.save_turn(row).await?;
        let mut lines = Lines::default();
        for update in &turn.updates {
            lines.push(Some(&id), update, update.shape().into_chunk());
        }
        cell.append_all(&mut cell.lock(), lines.finish(), at);
    }
    Ok(())
}

/// A member of an engine that only asks.
struct Asker;

impl Conversation for Asker {
    fn opened(&self, _: &Value) {}
    fn updates(&self, _: Vec<RawUpdate>) {}
    fn permission(&self, ask: PermissionAsk) {
        ask.cancel();
    }
    fn call(self: Arc<Self>, _: ClientCall) {}
    fn question_completed(&self, _: &str) {}
    fn request_answered(&self, _: &Value) {}
    fn withdrawn(&self, _: &Value) {}
    fn neighbours_changed(&self) {}
    fn engine_gone(&self, _: u64, _: &str) {}
}

impl Sessions {
    /// The conversations in a folder that the agent keeps itself. Starts the agent if it does not
    /// run there, and ends it again.
    ///
    /// # Errors
    /// The agent does not start, or refuses; shutting down.
    pub async fn of_agent(&self, project: PathBuf, agent: AgentSpec) -> Result<AgentConversations> {
        self.refuse_when_closing()?;
        let asker = uuid::Uuid::now_v7().to_string();
        let rules = *self.inner.deps.rules.borrow();
        let session = rules.one_per_session.then(|| asker.clone());
        let key = EngineKey { project, agent, session };
        let sessions = self.clone();
        // Whoever asked may go away; the engine has to be left all the same.
        let work = async move {
            let engines = &sessions.inner.deps.engines;
            let engine = engines.attach(&key, &asker, Arc::new(Asker))?.engine;
            let listed = async {
                engine.ready().await?;
                let listed = Deadline::after(LIST).bound(list(&engine, &key.project)).await;
                listed.unwrap_or_else(|_| {
                    Err(Error::upstream(format!(
                        "agent `{}` did not list its conversations within {} s",
                        key.agent.id,
                        LIST.as_secs()
                    )))
                })
            };
            let listed = listed.await;
            if engines.detach(&engine, &asker) {
                engines.stop_unused(&engine, Deadline::after(LEAVE)).await;
            }
            let mut listed = listed?;
            for found in &mut listed.conversations {
                found.session = sessions.known_as(&key.agent.id, &found.id);
            }
            Ok(listed)
        };
        let listed = self.inner.deps.scope.spawn("conversations of an agent", work);
        listed.join().await.ok_or_else(Error::shutting_down)?
    }

    /// Which session of ours a conversation of an agent is.
    pub(super) fn known_as(&self, agent: &str, acp_id: &str) -> Option<String> {
        let cells = self.cells();
        let mut known = cells.values().filter(|cell| {
            let inner = cell.lock();
            inner.kept.agent.id == agent && inner.kept.acp_id.as_deref() == Some(acp_id)
        });
        known.next().map(|cell| cell.id.clone())
    }
}

async fn list(engine: &Engine, project: &Path) -> Result<AgentConversations> {
    let facts = engine.facts().cloned().unwrap_or_default();
    let mut listed = AgentConversations {
        offered: facts.list && (facts.load || facts.resume),
        replayed: facts.load,
        conversations: Vec::new(),
        more: false,
    };
    if !listed.offered {
        return Ok(listed);
    }
    let agent = &engine.key().agent.id;
    let refused = |error: PeerError| {
        let hint =
            if error.wants_sign_in() { "; open a session with it and sign in there" } else { "" };
        Error::upstream(format!("agent `{agent}` could not list its conversations: {error}{hint}"))
    };
    let mut cursor: Option<String> = None;
    loop {
        let peer = engine.peer().map_err(refused)?;
        let page = peer.list_sessions(project, cursor.as_deref()).await.map_err(refused)?;
        let found = page.get("sessions").and_then(Value::as_array).into_iter().flatten();
        listed.conversations.extend(found.filter_map(|one| conversation(one, project)));
        let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        listed.more = next.is_some() && next != cursor;
        if !listed.more || listed.conversations.len() >= MOST {
            listed.conversations.truncate(MOST);
            return Ok(listed);
        }
        cursor = next;
    }
}

/// One of them as the agent shows it (`SessionInfo` of ACP); none of another folder.
fn conversation(info: &Value, project: &Path) -> Option<AgentConversation> {
    let text = |key: &str| info.get(key).and_then(Value::as_str).map(str::to_owned);
    let elsewhere = text("cwd").is_some_and(|cwd| Path::new(&cwd) != project);
    if elsewhere {
        return None;
    }
    Some(AgentConversation {
        id: text("sessionId").filter(|id| !id.is_empty())?,
        title: text("title").map(|title| super::title_from(&title)).filter(|t| !t.is_empty()),
        updated_at: text("updatedAt"),
        session: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(kind: &str, message: Option<&str>, text: &str) -> RawUpdate {
        let content = json!({ "type": "text", "text": text });
        json!({ "sessionUpdate": kind, "messageId": message, "content": content }).into()
    }

    #[test]
    fn a_replay_becomes_turns_where_the_user_speaks() {
        let answer = |text| chunk("agent_message_chunk", None, text);
        let turns = turns_of(vec![
            answer("hello"),
            chunk("user_message_chunk", None, "one"),
            chunk("user_message_chunk", None, " and more"),
            answer("first"),
            answer("second"),
            chunk("user_message_chunk", Some("a"), "two"),
            chunk("user_message_chunk", Some("b"), "three"),
        ]);
        let shown: Vec<(String, usize)> = turns
            .iter()
            .map(|turn| {
                let texts = turn.prompt.iter().map(|block| block["text"].as_str().unwrap());
                (texts.collect::<Vec<_>>().join("|"), turn.updates.len())
            })
            .collect();
        let expected = [("", 1), ("one and more", 2), ("two", 0), ("three", 0)];
        assert_eq!(shown, expected.map(|(prompt, updates)| (prompt.to_owned(), updates)));
        assert!(turns_of(Vec::new()).is_empty());
    }

    #[test]
    fn only_the_conversation_is_taken_out_of_what_the_agent_says() {
        let mut replay = Replay::default();
        let commands: RawUpdate = json!({ "sessionUpdate": "available_commands_update" }).into();
        let others = replay.take(vec![chunk("user_message_chunk", None, "one"), commands.clone()]);
        assert_eq!((others.len(), others[0].get()), (1, commands.get()));
        assert_eq!(replay.updates.len(), 1);
    }

    #[test]
    fn what_an_agent_lists_is_read_leniently() {
        let here = Path::new("/work");
        let read = |info: Value| conversation(&info, here);
        let full = json!({"sessionId": "a", "cwd": "/work", "title": "T\nmore", "updatedAt": "2026-01-01T00:00:00Z"});
        let full = read(full).unwrap();
        assert_eq!((full.id.as_str(), full.title.as_deref()), ("a", Some("T")));
        assert!(full.updated_at.is_some());
        assert_eq!(read(json!({"sessionId": "a"})).unwrap().title, None);
        for odd in [json!(null), json!({"sessionId": ""}), json!({"sessionId": "a", "cwd": "/x"})] {
            assert!(read(odd.clone()).is_none(), "{odd}");
        }
    }
}
