//! What an engine and Gantry said to each other: the last of it, by session,
//! bounded; secrets are masked when it is read.

use crate::{events::now, wire::TrafficMessage};
use gantry_acp::Direction;
use serde_json::Value;
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Lines that are kept of one session.
const MOST_LINES: usize = 1000;
/// Bytes that are kept of one session.
const MOST_BYTES: usize = 1024 * 1024;
/// Sessions whose lines are kept; the one that spoke first goes first.
const MOST_SESSIONS: usize = 64;
/// What is kept of a long line, in bytes.
const LONGEST: usize = 64 * 1024;
/// How far into a line its session is looked for, in bytes.
const HEAD: usize = 512;
/// What stands for a secret.
const MASK: &str = "•••";

/// See the module.
#[derive(Default)]
pub(crate) struct WireLog {
    /// Values that never leave it.
    secrets: Vec<String>,
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

#[derive(Default)]
struct Ring {
    lines: VecDeque<Line>,
    bytes: usize,
}

#[derive(Clone)]
struct Line {
    number: u64,
    at: i64,
    from_agent: bool,
    text: String,
    is_cut: bool,
}

impl Ring {
    fn push(&mut self, line: Line) {
        self.bytes += line.text.len();
        self.lines.push_back(line);
        while self.lines.len() > MOST_LINES || (self.bytes > MOST_BYTES && self.lines.len() > 1) {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.text.len();
        }
    }
}

impl WireLog {
    /// With the values that are masked wherever they appear.
    pub(crate) fn new(secrets: Vec<String>) -> Self {
        // A short one would mask half of everything.
        let secrets = secrets.into_iter().filter(|secret| secret.len() >= 6).collect();
        Self { secrets, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a line. Quick: it is not parsed.
    pub(crate) fn add(&self, direction: Direction, text: &str) {
        let session = session_of(text);
        let cut = &text[..text.floor_char_boundary(LONGEST)];
        let mut kept = self.kept();
        kept.count += 1;
        let line = Line {
            number: kept.count,
            at: now(),
            from_agent: direction == Direction::FromAgent,
            text: cut.to_owned(),
            is_cut: cut.len() < text.len(),
        };
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

    /// The newest messages of a session, with the answers that belong to it.
    pub(crate) fn read(&self, session: &str, tail: usize) -> Vec<TrafficMessage> {
        let (mut lines, common) = {
            let kept = self.kept();
            let of = |ring: &Ring| ring.lines.iter().cloned().collect::<Vec<_>>();
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
        lines.drain(newest..).map(|line| self.shown(line)).collect()
    }

    fn shown(&self, line: Line) -> TrafficMessage {
        let message = match serde_json::from_str::<Value>(&line.text) {
            Ok(mut message) if !line.is_cut => {
                self.mask(&mut message);
                message
            }
            // What was cut cannot be read: where servers may be named, nothing of it is shown.
            _ if line.text.contains("mcpServers") => {
                Value::String("(too long to be kept)".to_owned())
            }
            _ => Value::String(format!("{}…", self.masked(&line.text))),
        };
        TrafficMessage { at: line.at, from_agent: line.from_agent, message }
    }

    fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), MASK);
            }
        }
        while let Some(at) = text.find("Bearer ").map(|at| at + "Bearer ".len())
            && !text[at..].starts_with(MASK)
        {
            let end = text[at..]
                .find(|c: char| c.is_whitespace() || matches!(c, '"' | ',' | '\\'))
                .map_or(text.len(), |end| at + end);
            text.replace_range(at..end, MASK);
        }
        text
    }

    fn mask(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                let masked = self.masked(text);
                if masked != *text {
                    *text = masked;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask(item)),
            Value::Object(map) => {
                // `env` and `headers` of servers: `{"name","value"}`. The value of
                // any is masked: they are named as their users like.
                let is_pair =
                    map.len() == 2 && map.contains_key("name") && map.contains_key("value");
                for (key, value) in map.iter_mut() {
                    if value.is_string() && (is_pair && key == "value" || is_secret(key)) {
                        *value = Value::String(MASK.to_owned());
                    } else {
                        self.mask(value);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Whether a name says that its value is a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase().replace(['_', '-'], "");
    let words = [
        "APIKEY",
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "AUTHORIZATION",
        "CREDENTIAL",
        "COOKIE",
    ];
    // `totalTokens` and the like are counts.
    words.iter().any(|word| name.contains(word)) && !name.ends_with("TOKENS")
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
                "rawOutput": "key s3cret-key, Bearer abc.def, on", "apiKey": "hidden-2", "totalTokens": "7"}}}),
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
        for secret in ["s3cret-key", "hidden-1", "hidden-2", "abc.def"] {
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
