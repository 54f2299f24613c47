//! What two programs said to each other through us: the last of it, bounded, with secrets masked
//! when it is read. Shared by engines (ACP) and servers (MCP).

use crate::{bridge::MASK, events::now, wire::TrafficMessage};
use serde_json::Value;
use std::collections::VecDeque;

/// Lines that a ring keeps.
pub(crate) const MOST_LINES: usize = 1000;
/// Bytes that a ring keeps.
pub(crate) const MOST_BYTES: usize = 1024 * 1024;
/// What is kept of a long line, in bytes.
pub(crate) const LONGEST: usize = 64 * 1024;
/// A shorter secret would mask half of everything; in bytes.
const SHORTEST_SECRET: usize = 6;

/// A message as it went over the wire.
#[derive(Clone)]
pub(crate) struct Line {
    /// Its place among all lines of the log.
    pub(crate) number: u64,
    at: i64,
    pub(crate) from_agent: bool,
    /// Its beginning when it is cut.
    pub(crate) text: String,
    is_cut: bool,
}

impl Line {
    /// A line that passes now.
    pub(crate) fn new(number: u64, from_agent: bool, text: &str) -> Self {
        let cut = &text[..text.floor_char_boundary(LONGEST)];
        let is_cut = cut.len() < text.len();
        Self { number, at: now(), from_agent, text: cut.to_owned(), is_cut }
    }
}

/// The newest lines.
#[derive(Default)]
pub(crate) struct Ring {
    lines: VecDeque<Line>,
    bytes: usize,
}

impl Ring {
    /// Takes a line; the oldest ones make room.
    pub(crate) fn push(&mut self, line: Line) {
        self.bytes += line.text.len();
        self.lines.push_back(line);
        while self.lines.len() > MOST_LINES || (self.bytes > MOST_BYTES && self.lines.len() > 1) {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.text.len();
        }
    }

    /// Oldest first.
    pub(crate) fn lines(&self) -> impl DoubleEndedIterator<Item = &Line> + ExactSizeIterator {
        self.lines.iter()
    }
}

/// What never leaves a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Masks {
    values: Vec<String>,
    /// `env` and `headers` of servers are told to agents as `{"name","value"}`.
    pairs: bool,
}

impl Masks {
    /// Masks these values wherever they appear.
    pub(crate) fn new(secrets: Vec<String>) -> Self {
        let mut masks = Self::default();
        masks.learn(secrets);
        masks
    }

    /// Masks the value of every `{"name","value"}` too: they are named as their users like.
    pub(crate) fn with_pairs(self) -> Self {
        Self { pairs: true, ..self }
    }

    /// Masks these values too.
    pub(crate) fn learn(&mut self, secrets: Vec<String>) {
        for secret in secrets {
            if secret.len() >= SHORTEST_SECRET && !self.values.contains(&secret) {
                self.values.push(secret);
            }
        }
        // One that holds another is masked as a whole.
        self.values.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// A line as others may see it.
    pub(crate) fn shown(&self, line: Line) -> TrafficMessage {
        let message = match serde_json::from_str::<Value>(&line.text) {
            Ok(mut message) if !line.is_cut => {
                self.mask(&mut message);
                message
            }
            // What was cut cannot be read: where servers may be named, nothing of it is shown.
            _ if line.text.contains("mcpServers") => {
                Value::String("(too long to be kept)".to_owned())
            }
            _ => {
                let end = if line.is_cut { "…" } else { "" };
                Value::String(format!("{}{end}", self.masked(&line.text)))
            }
        };
        TrafficMessage { at: line.at, from_agent: line.from_agent, message }
    }

    /// A text as others may see it.
    pub(crate) fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.values {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), MASK);
            }
        }
        mask_queries(&mut text);
        let mut from = 0;
        while let Some(at) = text[from..].find("Bearer ").map(|at| from + at + "Bearer ".len()) {
            let end = text[at..]
                .find(|c: char| c.is_whitespace() || matches!(c, '"' | ',' | '\\'))
                .map_or(text.len(), |end| at + end);
            text.replace_range(at..end, MASK);
            from = at + MASK.len();
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
                let is_pair = self.pairs
                    && map.len() == 2
                    && map.contains_key("name")
                    && map.contains_key("value");
                for (key, value) in map.iter_mut() {
                    if value.is_string() && (is_pair && key == "value" || is_secret_field(key)) {
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

/// Masks what is secret in an address: values whose names say so (`?api_key=…`), a password.
pub(crate) fn mask_address(url: &mut String) {
    mask_queries(url);
    let Some(from) = url.find("://").map(|at| at + 3) else { return };
    let end = url[from..].find(['/', '?', '#']).map_or(url.len(), |end| from + end);
    let Some(at) = url[from..end].rfind('@').map(|at| from + at) else { return };
    if let Some(colon) = url[from..at].find(':').map(|colon| from + colon + 1) {
        url.replace_range(colon..at, MASK);
    }
}

/// Masks values of addresses whose names say that they are secrets: `?api_key=…`.
fn mask_queries(text: &mut String) {
    let mut from = 0;
    while let Some(at) = text[from..].find(['?', '&']).map(|at| from + at + 1) {
        from = at;
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let end = text[at..].find(|c| !is_of_name(c)).map_or(text.len(), |end| at + end);
        if !text[end..].starts_with('=') || !is_secret_field(&text[at..end]) {
            continue;
        }
        let value = end + 1;
        let ends = |c: char| c.is_whitespace() || matches!(c, '&' | '"' | '\'' | '#' | '<' | '>');
        let end = text[value..].find(ends).map_or(text.len(), |end| value + end);
        text.replace_range(value..end, MASK);
        from = value;
    }
}

/// Whether the name of a field of a message says that its value is a secret. Narrower than what
/// [`crate::session::is_secret`] says of variables: `key` and `author` are words of every day here.
fn is_secret_field(name: &str) -> bool {
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
    // `totalTokens` and the like are counts, and a progress token is a number of its own.
    let is_none = name.ends_with("TOKENS") || name == "PROGRESSTOKEN";
    !is_none && words.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_addresses_are_masked() {
        let masked = |text: &str| Masks::default().masked(text);
        let shown =
            masked("see https://h/mcp?api_key=abc123&x=1&access_token=t#top and ?totalTokens=5");
        assert_eq!(
            shown,
            "see https://h/mcp?api_key=•••&x=1&access_token=•••#top and ?totalTokens=5"
        );
        for same in ["?", "a & b?", "what? token=x", "?token", "语?语=1&"] {
            assert_eq!(masked(same), same);
        }
        assert_eq!(masked("?token=语"), "?token=•••");
        for (url, shown) in [
            ("https://me:pa@ss@h:1/x@y?a=1", "https://me:•••@h:1/x@y?a=1"),
            ("https://h/?api_key=1", "https://h/?api_key=•••"),
            ("https://me@h", "https://me@h"),
            ("nothing", "nothing"),
        ] {
            let mut masked = url.to_owned();
            mask_address(&mut masked);
            assert_eq!(masked, shown);
        }
    }
}
