//! What an engine and Gantry said to each other: the last of it, by session,
//! bounded; secrets are masked when it is read.

use crate::{
    traffic::{Line, Masks, Ring},
    wire::TrafficMessage,
};
use gantry_acp::Direction;
use serde_json::Value;
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Sessions whose lines are kept; the one that spoke first goes first.
const MOST_SESSIONS: usize = 64;
/// How far into a line its session is looked for, in bytes.
const HEAD: usize = 512;

/// See the module.
#[derive(Default)]
pub(crate) struct WireLog {
    masks: Masks,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    count: u64,
    /// Lines that name no session: `initialize`, `session/new`, most answers.
    common: Ring,
    sessions: HashMap<String, Ring>,
    order: VecDeque<String>,
}

impl WireLog {
    /// With the values that are masked wherever they appear.
    pub(crate) fn new(secrets: Vec<String>) -> Self {
        Self { masks: Masks::new(secrets).with_pairs(), kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a line. Quick: it is not parsed.
    pub(crate) fn add(&self, direction: Direction, text: &str) {
        let session = session_of(text);
        let mut kept = self.kept();
        kept.count += 1;
        let line = Line::new(kept.count, direction == Direction::FromAgent, text);
        let Some(session) = session else { return kept.common.push(line) };
        if let Some(ring) = kept.sessions.get_mut(session) {
            return ring.push(line);
        }
        if kept.order.len() == MOST_SESSIONS
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.sessions.remove(&oldest);
        }
        kept.order.push_back(session.to_owned());
        kept.sessions.entry(session.to_owned()).or_default().push(line);
    }

    /// A text without the secrets.
    pub(crate) fn masked(&self, text: &str) -> String {
        self.masks.masked(text)
    }

    /// The newest messages of a session, with the answers that belong to it.
    pub(crate) fn read(&self, session: &str, tail: usize) -> Vec<TrafficMessage> {
        let (mut lines, common) = {
            let kept = self.kept();
            let of = |ring: &Ring| ring.lines().cloned().collect::<Vec<_>>();
            (kept.sessions.get(session).map(of).unwrap_or_default(), of(&kept.common))
        };
        let keys: HashSet<(bool, String)> = lines.iter().filter_map(exchange).collect();
        let belongs = |line: &Line| {
            line.text.contains("\"initialize\"")
                || line.text.contains("\"protocolVersion\"")
                || exchange(line).is_some_and(|key| keys.contains(&key))
        };
        lines.extend(common.into_iter().filter(belongs));
        lines.sort_by_key(|line| line.number);
        let newest = lines.len().saturating_sub(tail);
        lines.drain(newest..).map(|line| self.masks.shown(line)).collect()
    }
}

/// The session that a line names near its beginning.
fn session_of(text: &str) -> Option<&str> {
    let head = &text[..text.floor_char_boundary(HEAD)];
    let after = head.find("\"sessionId\"").map(|at| at + "\"sessionId\"".len())?;
    let rest = head[after..].trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    rest.split_once('"').map(|(id, _)| id)
}

/// Which request a line belongs to: whether the agent asked, and its id.
fn exchange(line: &Line) -> Option<(bool, String)> {
    #[derive(serde::Deserialize)]
    struct Head {
        id: Option<Value>,
        method: Option<serde::de::IgnoredAny>,
    }
    let head: Head = serde_json::from_str(&line.text).ok()?;
    let asked_by_agent = line.from_agent == head.method.is_some();
    Some((asked_by_agent, head.id?.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{LONGEST, MOST_BYTES, MOST_LINES};
    use serde_json::json;

    fn log() -> WireLog {
        let log = WireLog::new(vec!["s3cret-key".into(), "on".into()]);
        let (to, from) = (Direction::ToAgent, Direction::FromAgent);
        for (direction, message) in [
            (to, json!({"id": 0, "method": "initialize", "params": {}})),
            (from, json!({"id": 0, "result": {"protocolVersion": 1}})),
            (
                to,
                json!({"id": 1, "method": "session/new", "params": {"mcpServers": [
                {"name": "x", "headers": [{"name": "X-Any", "value": "hidden-1"}]}]}}),
            ),
            (from, json!({"id": 1, "result": {"sessionId": "a"}})),
            (to, json!({"id": 2, "method": "session/new", "params": {}})),
            (from, json!({"id": 2, "result": {"sessionId": "b"}})),
            (to, json!({"id": 3, "method": "session/prompt", "params": {"sessionId": "a"}})),
            (
                from,
                json!({"id": 3, "method": "session/request_permission", "params": {"sessionId": "b"}}),
            ),
            (
                from,
                json!({"method": "session/update", "params": {"sessionId": "a", "update": {
                "rawOutput": "key s3cret-key, Bearer abc.def, Bearer ghi.jkl, on", "apiKey": "hidden-2", "totalTokens": "7"}}}),
            ),
            (from, json!({"id": 3, "result": {"stopReason": "end_turn"}})),
            (to, json!({"id": 3, "result": {"outcome": {}}})),
        ] {
            log.add(direction, &message.to_string());
        }
        log
    }

    #[test]
    fn a_session_has_its_own_exchanges_and_the_common_beginning() {
        let log = log();
        let shown = |session| -> Vec<String> {
            let line =
                |m: TrafficMessage| m.message["method"].as_str().unwrap_or("answer").to_owned();
            log.read(session, 100).into_iter().map(line).collect()
        };
        assert_eq!(
            shown("a"),
            [
                "initialize",
                "answer",
                "session/new",
                "answer",
                "session/prompt",
                "session/update",
                "answer"
            ]
        );
        assert_eq!(
            shown("b"),
            [
                "initialize",
                "answer",
                "session/new",
                "answer",
                "session/request_permission",
                "answer"
            ]
        );
        assert_eq!(log.read("a", 2).len(), 2);
        assert!(log.read("nobody", 5).iter().all(|m| m.message["id"] == 0));
    }

    #[test]
    fn secrets_are_masked_by_name_by_place_and_by_value() {
        let text = format!("{:?}", log().read("a", 100));
        for secret in ["s3cret-key", "hidden-1", "hidden-2", "abc.def", "ghi.jkl"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        assert!(text.contains("totalTokens\": String(\"7\")") && text.contains(", on"));
    }

    #[test]
    fn it_is_bounded_in_lines_bytes_and_sessions() {
        let log = WireLog::default();
        for n in 0..MOST_LINES + 50 {
            let line = json!({"params": {"sessionId": "a", "n": n}}).to_string();
            log.add(Direction::FromAgent, &line);
        }
        let lines = log.read("a", usize::MAX);
        assert_eq!(lines.len(), MOST_LINES);
        assert_eq!(lines[0].message["params"]["n"], 50);
        for _ in 0..40 {
            let long =
                json!({"params": {"sessionId": "b", "text": "語".repeat(40_000)}}).to_string();
            log.add(Direction::FromAgent, &long);
        }
        let lines = log.read("b", usize::MAX);
        assert!(lines.len() <= MOST_BYTES / (LONGEST - 3) + 1, "{}", lines.len());
        assert!(lines[0].message.as_str().unwrap().ends_with('…'));
        let new = json!({"method": "session/new", "params": {"cwd": "x".repeat(LONGEST), "mcpServers": []}});
        log.add(Direction::ToAgent, &new.to_string().replace("cwd", "sessionId"));
        for n in 0..MOST_SESSIONS {
            let line = json!({"params": {"sessionId": format!("s{n}")}}).to_string();
            log.add(Direction::FromAgent, &line);
        }
        assert!(log.read("a", 10).is_empty(), "the oldest session made room");
    }
}
