//! A permission request or another question of the agent on the terminal.

use super::form::Form;
use crate::terminal::plain;
use serde_json::Value;
use std::{
    collections::VecDeque,
    io::{IsTerminal as _, Write as _},
};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};

/// A request that waits.
struct Open {
    request: String,
    ask: Ask,
}

/// What is asked.
enum Ask {
    /// One of the agent's options.
    Permission { title: String, options: Vec<Value> },
    /// Values, one after the other.
    Question(Form),
}

/// What was decided about a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// This option of it.
    Option(String),
    /// No option says no, so the turn is cancelled.
    Cancel,
    /// This answer to a question: `accept` with its values, or `decline`.
    Answer(&'static str, Option<Value>),
}

/// Who answers, and what waits.
pub struct Desk {
    lines: Option<Lines<BufReader<Stdin>>>,
    waiting: VecDeque<Open>,
}

impl Desk {
    /// With a person in front of it, where standard input and standard error are a terminal.
    pub fn new() -> Self {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let lines = is_terminal.then(|| BufReader::new(tokio::io::stdin()).lines());
        Self { lines, waiting: VecDeque::new() }
    }

    /// Whether somebody can be asked.
    pub fn has_somebody(&self) -> bool {
        self.lines.is_some()
    }

    /// Puts a permission request before the person.
    pub fn put(&mut self, request: &Value) {
        let title = request["toolCall"]["title"].as_str().unwrap_or("a tool").to_owned();
        let options = request["options"].as_array().cloned().unwrap_or_default();
        self.add(request, Ask::Permission { title, options });
    }

    /// Puts a question before the person. `problem`: why the last answer to it was not taken.
    pub fn put_question(&mut self, question: &Value, problem: Option<&str>) {
        if let Some(problem) = problem {
            let _ = writeln!(std::io::stderr().lock(), "  {}", plain(problem));
        }
        self.add(question, Ask::Question(Form::new(question)));
    }

    fn add(&mut self, request: &Value, ask: Ask) {
        let request = request["request"].as_str().unwrap_or_default().to_owned();
        self.waiting.push_back(Open { request, ask });
        if self.waiting.len() == 1 {
            self.show();
        }
    }

    /// Takes a request away that somebody else has answered.
    pub fn take_away(&mut self, request: &str) {
        let is_shown = self.waiting.front().is_some_and(|open| open.request == request);
        self.waiting.retain(|open| open.request != request);
        if is_shown {
            self.show();
        }
    }

    fn show(&self) {
        let Some(open) = self.waiting.front() else { return };
        let text = match &open.ask {
            Ask::Permission { title, options } => {
                let mut text = format!("? {}\n", plain(title));
                for (number, option) in options.iter().enumerate() {
                    let name = option["name"].as_str().or_else(|| option["optionId"].as_str());
                    text.push_str(&format!("  {}) {}\n", number + 1, plain(name.unwrap_or("?"))));
                }
                text
            }
            Ask::Question(form) => form.text(),
        };
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "{text}  > ").and_then(|()| err.flush());
    }

    /// The person's next decision; never, while nothing waits or nobody is there.
    pub async fn decided(&mut self) -> (String, Decision) {
        loop {
            let (Some(lines), false) = (&mut self.lines, self.waiting.is_empty()) else {
                return std::future::pending().await;
            };
            let line = lines.next_line().await.ok().flatten();
            // The end of the input is a no.
            let Some(line) = line else {
                self.lines = None;
                if let Some(open) = self.waiting.pop_front() {
                    let decision = match &open.ask {
                        Ask::Permission { options, .. } => refusal(options),
                        Ask::Question(_) => Decision::Answer("decline", None),
                    };
                    return (open.request, decision);
                }
                continue;
            };
            let Some(open) = self.waiting.front_mut() else { continue };
            let decision = match &mut open.ask {
                Ask::Permission { options, .. } => chosen(options, &line).map(Decision::Option),
                Ask::Question(form) => {
                    form.take(&line).map(|(action, content)| Decision::Answer(action, content))
                }
            };
            let Some(decision) = decision else {
                self.show();
                continue;
            };
            let request = open.request.clone();
            self.waiting.pop_front();
            self.show();
            return (request, decision);
        }
    }
}

/// The option with the number that was written.
fn chosen(options: &[Value], line: &str) -> Option<String> {
    let at = line.trim().parse::<usize>().ok()?.checked_sub(1)?;
    options.get(at)?["optionId"].as_str().map(str::to_owned)
}

/// The option that says no; once rather than for ever.
pub fn refusal(options: &[Value]) -> Decision {
    let of_kind = |kind: &str| options.iter().find(|option| option["kind"] == kind);
    of_kind("reject_once")
        .or_else(|| of_kind("reject_always"))
        .and_then(|option| option["optionId"].as_str())
        .map_or(Decision::Cancel, |id| Decision::Option(id.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_is_the_option_that_was_offered_for_it() {
        let option = |id: &str, kind: &str| json!({"optionId": id, "kind": kind});
        let all =
            [option("a", "allow_once"), option("n", "reject_always"), option("r", "reject_once")];
        assert_eq!(refusal(&all), Decision::Option("r".into()));
        assert_eq!(refusal(&all[..2]), Decision::Option("n".into()));
        assert_eq!(refusal(&all[..1]), Decision::Cancel);
    }
}
