//! What of a turn is shown, and where.

use crate::terminal::plain;
use serde_json::Value;
use std::io::{IsTerminal as _, Write as _};

/// Standard output for the text, standard error for the rest.
pub struct Screen {
    /// Every event as it is, instead of both.
    json: bool,
    out_is_terminal: bool,
    both_are_terminals: bool,
    styled: bool,
    in_text: bool,
    in_thought: bool,
    /// Nobody reads standard output any more.
    pub is_closed: bool,
}

impl Screen {
    /// For this run.
    pub fn new(json: bool) -> Self {
        let (out, err) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        Self {
            json,
            out_is_terminal: out,
            both_are_terminals: out && err,
            styled: err && may_style(|name| std::env::var(name).ok()),
            in_text: false,
            in_thought: false,
            is_closed: false,
        }
    }

    /// Whether events are printed as they are.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// An event of the session's stream.
    pub fn event(&mut self, line: &str, event: &Value) {
        if self.json {
            if event["messageType"] != "heartbeat" {
                self.print(&format!("{line}\n"));
            }
            return;
        }
        let data = &event["data"];
        match event["subType"].as_str().unwrap_or_default() {
            "agent_message_chunk" => match data["content"]["text"].as_str() {
                Some(text) => self.text(text),
                None => self.note(&format!("[{}]", kind(&data["content"]))),
            },
            "agent_thought_chunk" => {
                if let Some(text) = data["content"]["text"].as_str() {
                    self.thought(text);
                }
            }
            "tool_call" => {
                if let Some(line) = tool(data, true) {
                    self.note(&line);
                }
            }
            "tool_call_update" => {
                if let Some(line) = tool(data, false) {
                    self.note(&line);
                }
            }
            "plan" => {
                for entry in data["entries"].as_array().into_iter().flatten() {
                    let state = match entry["status"].as_str() {
                        Some("completed") => "x",
                        Some("in_progress") => ">",
                        _ => " ",
                    };
                    let what = entry["content"].as_str().unwrap_or_default();
                    self.note(&format!("[{state}] {what}"));
                }
            }
            "resync" => self.note("[some events were missed]"),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        self.end_thought();
        if !text.is_empty() {
            self.in_text = !text.ends_with('\n');
            // A file or a program gets it as it is.
            if self.out_is_terminal { self.print(&plain(text)) } else { self.print(text) }
        }
    }

    fn thought(&mut self, text: &str) {
        if !self.in_thought {
            self.break_text();
            self.in_thought = true;
        }
        let shown = plain(text);
        let shown = if self.styled { format!("\x1b[2m{shown}\x1b[0m") } else { shown };
        let _ = write!(std::io::stderr().lock(), "{shown}");
    }

    /// A line on standard error.
    pub fn note(&mut self, line: &str) {
        self.end_thought();
        self.break_text();
        let shown = plain(line);
        let shown = if self.styled { format!("\x1b[2m{shown}\x1b[0m") } else { shown };
        let _ = writeln!(std::io::stderr().lock(), "{shown}");
    }

    /// The end: the text's last line is closed.
    pub fn end(&mut self) {
        self.end_thought();
        if self.in_text && !self.json {
            self.in_text = false;
            self.print("\n");
        }
    }

    fn end_thought(&mut self) {
        if self.in_thought {
            self.in_thought = false;
            let _ = writeln!(std::io::stderr().lock());
        }
    }

    /// On a terminal that shows both, text and notes do not share a line.
    fn break_text(&mut self) {
        if self.in_text && self.both_are_terminals {
            self.in_text = false;
            self.print("\n");
        }
    }

    fn print(&mut self, text: &str) {
        self.is_closed |= crate::terminal::print(text.as_bytes()).is_err();
    }
}

/// Whether colours are welcome: `NO_COLOR`, and terminals that know none.
fn may_style(variable: impl Fn(&str) -> Option<String>) -> bool {
    variable("NO_COLOR").is_none_or(|value| value.is_empty())
        && variable("TERM").is_none_or(|term| term != "dumb")
}

fn kind(content: &Value) -> String {
    content["type"].as_str().unwrap_or("something that is no text").to_owned()
}

/// A tool call's line: at its begin, and when it is over.
fn tool(call: &Value, is_new: bool) -> Option<String> {
    let title = call["title"].as_str().or_else(|| call["toolCallId"].as_str()).unwrap_or("a tool");
    let title = first_line(title);
    match call["status"].as_str() {
        Some("completed") => Some(format!("✓ {title}")),
        Some("failed") => {
            let why = call["content"][0]["content"]["text"].as_str().map(first_line);
            let why = why.filter(|why| !why.is_empty());
            Some(why.map_or_else(|| format!("✗ {title}"), |why| format!("✗ {title}: {why}")))
        }
        _ if is_new => Some(format!("● {title}")),
        _ => None,
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tools_are_told_at_their_begin_and_at_their_end() {
        let call =
            |status: &str| json!({"toolCallId": "c", "title": "read a\nb", "status": status});
        assert_eq!(tool(&call("pending"), true).as_deref(), Some("● read a"));
        assert_eq!(tool(&call("in_progress"), false), None);
        assert_eq!(tool(&call("completed"), false).as_deref(), Some("✓ read a"));
        assert_eq!(tool(&call("failed"), false).as_deref(), Some("✗ read a"));
        let mut failed = call("failed");
        failed["content"] = json!([{"type": "content", "content": {"type": "text", "text": "no"}}]);
        assert_eq!(tool(&failed, false).as_deref(), Some("✗ read a: no"));
    }

    #[test]
    fn no_colour_is_used_where_none_is_wanted() {
        let with = |name: &'static str, value: &'static str| {
            may_style(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert!(!with("NO_COLOR", "1"));
        assert!(with("NO_COLOR", ""));
        assert!(!with("TERM", "dumb"));
        assert!(with("TERM", "xterm"));
    }

    #[test]
    fn nobody_else_steers_the_terminal() {
        assert_eq!(plain("a\x1b[2Jb\r\u{9b}c\n"), "a[2Jbc\n");
    }
}
