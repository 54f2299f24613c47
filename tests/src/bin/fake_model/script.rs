//! What the last text of the user wants:
//!
//! | line | answer |
//! |---|---|
//! | `DO: CALL tool {…}` | a call of the first tool with that name, or whose name ends with it; once it has answered, `RESULT` and what it said |
//! | `DO: CALLS n tool {…}` | the same call n times at once |
//! | `DO: SAY text` | the text |
//! | `DO: TICK` | a word every 50 ms, without end |
//! | `DO: SILENT` | nothing, without end |
//! | `DO: BIG n` | n KiB of text |
//! | `DO: FAIL status text` | that HTTP error |
//! | anything else | `TOOLS` and the names of the tools |

use crate::conversation::Conversation;
use serde_json::{Value, json};

/// What is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// This text.
    Say(String),
    /// Calls of tools: name and arguments.
    Call(Vec<(String, Value)>),
    /// A word every 50 ms without end.
    Tick,
    /// Nothing without end.
    Silent,
    /// So many KiB.
    Big(usize),
    /// An HTTP error.
    Fail {
        /// The status.
        status: u16,
        /// Its words.
        message: String,
    },
}

/// Most of a tool's result that is repeated, in characters.
const EXCERPT: usize = 300;

/// What to answer.
pub fn decide(conversation: &Conversation) -> Act {
    let line = conversation.user.lines().rev().find_map(|line| line.split_once("DO: "));
    // Some agents ask without tools for a title of the conversation, and quote it.
    let has_tools = !conversation.tools.is_empty();
    let names = || Act::Say(format!("TOOLS {}", conversation.tools.join(" ")));
    let Some((_, line)) = line else { return names() };
    let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    match word {
        "SAY" => Act::Say(rest.to_owned()),
        "CALL" => call(conversation, rest, 1),
        "CALLS" => {
            let (times, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            call(conversation, rest, times.parse().unwrap_or(1))
        }
        "TICK" if has_tools => Act::Tick,
        "SILENT" if has_tools => Act::Silent,
        "BIG" if has_tools => Act::Big(rest.trim().parse().unwrap_or(64)),
        "FAIL" if has_tools => {
            let (status, message) = rest.split_once(' ').unwrap_or((rest, "it fails on request"));
            Act::Fail { status: status.parse().unwrap_or(400), message: message.to_owned() }
        }
        _ => names(),
    }
}

fn call(conversation: &Conversation, rest: &str, times: usize) -> Act {
    if !conversation.results.is_empty() {
        let said: String = conversation.results.join(" | ").chars().take(EXCERPT).collect();
        return Act::Say(format!("RESULT {said}"));
    }
    let (wanted, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
    let arguments = serde_json::from_str(arguments.trim()).unwrap_or_else(|_| json!({}));
    let ends = |tool: &&String| {
        let before = tool.strip_suffix(wanted);
        before
            .is_some_and(|before| before.is_empty() || before.ends_with(['_', ':', '.', '/', '-']))
    };
    let exact = conversation.tools.iter().find(|tool| *tool == wanted);
    match exact.or_else(|| conversation.tools.iter().find(ends)) {
        Some(tool) => Act::Call(vec![(tool.clone(), arguments); times]),
        None => Act::Say(format!("NO TOOL {wanted} AMONG {}", conversation.tools.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(user: &str, results: &[&str]) -> Act {
        decide(&Conversation {
            tools: vec!["shell".into(), "mcp__own__echo".into()],
            user: user.to_owned(),
            results: results.iter().map(|text| (*text).to_owned()).collect(),
        })
    }

    #[test]
    fn the_last_directive_is_followed() {
        assert_eq!(asked("DO: SAY a b\nDO: TICK\n</q>", &[]), Act::Tick);
        assert_eq!(
            asked("x DO: FAIL 429 slow down", &[]),
            Act::Fail { status: 429, message: "slow down".into() }
        );
        assert_eq!(asked("hello", &[]), Act::Say("TOOLS shell mcp__own__echo".into()));
    }

    #[test]
    fn a_call_names_the_tool_as_it_is_offered_and_then_repeats_its_result() {
        let call = ("mcp__own__echo".to_owned(), json!({ "text": "x" }));
        assert_eq!(asked("DO: CALLS 2 echo {\"text\":\"x\"}", &[]), Act::Call(vec![call; 2]));
        assert_eq!(asked("DO: CALL echo {}", &["hi"]), Act::Say("RESULT hi".into()));
        assert_eq!(asked("DO: CALL cho {}", &[]), Act::Say("NO TOOL cho AMONG 2".into()));
    }

    #[test]
    fn without_tools_nothing_hangs() {
        let bare = Conversation { user: "Title for: DO: TICK".into(), ..Conversation::default() };
        assert!(matches!(decide(&bare), Act::Say(_)));
    }
}
