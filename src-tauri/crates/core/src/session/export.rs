//! A session as a file: Markdown for people, JSON for programs.

use crate::wire::{SessionView, TurnView};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The session and its turns, oldest first.
pub(super) fn json(session: &SessionView, turns: &[TurnView]) -> String {
    let all = json!({ "session": session, "turns": turns });
    serde_json::to_string_pretty(&all).unwrap_or_else(|_| all.to_string())
}

/// The conversation: prompts, answers, and the tools in one line each with what came out.
pub(super) fn markdown(session: &SessionView, turns: &[TurnView]) -> String {
    let title = if session.title.is_empty() { "Session" } else { session.title.as_str() };
    let mut text =
        format!("# {title}\n\n- Agent: {}\n- Project: {}\n", session.agent, session.project);
    for turn in turns {
        let _ = write!(text, "\n## {}. You\n\n", turn.number);
        for block in &turn.prompt {
            let _ = writeln!(text, "{}\n", block_text(block));
        }
        text.push_str("### Agent\n\n");
        for update in &turn.updates {
            add_update(&mut text, update);
        }
        match (turn.stop_reason.as_deref(), turn.description.as_deref()) {
            (None | Some("end_turn"), _) => {}
            (Some(reason), None) => {
                let _ = writeln!(text, "*Ended: {reason}*\n");
            }
            (Some(reason), Some(why)) => {
                let _ = writeln!(text, "*Ended: {reason}: {why}*\n");
            }
        }
    }
    text
}

fn add_update(text: &mut String, update: &Value) {
    match update["sessionUpdate"].as_str() {
        Some("agent_message_chunk") => {
            let _ = writeln!(text, "{}\n", block_text(&update["content"]));
        }
        Some("agent_thought_chunk") => {
            for line in block_text(&update["content"]).lines() {
                let _ = writeln!(text, "> {line}");
            }
            text.push('\n');
        }
        Some("tool_call") => {
            let title = update["title"].as_str().unwrap_or("a tool");
            let _ = writeln!(text, "**Tool: {}**\n", title.replace('*', "\\*"));
            add_tool_output(text, update);
        }
        Some("tool_call_update") => add_tool_output(text, update),
        Some("plan") => {
            for entry in update["entries"].as_array().into_iter().flatten() {
                let done = if entry["status"] == "completed" { "x" } else { " " };
                let _ =
                    writeln!(text, "- [{done}] {}", entry["content"].as_str().unwrap_or_default());
            }
            text.push('\n');
        }
        _ => {}
    }
}

fn add_tool_output(text: &mut String, update: &Value) {
    for content in update["content"].as_array().into_iter().flatten() {
        match content["type"].as_str() {
            Some("content") => fence(text, &block_text(&content["content"])),
            Some("diff") => {
                let _ =
                    writeln!(text, "Changed `{}`:\n", content["path"].as_str().unwrap_or_default());
                fence(text, content["newText"].as_str().unwrap_or_default());
            }
            _ => {}
        }
    }
}

/// A code block that its content cannot end.
fn fence(text: &mut String, content: &str) {
    let longest = content.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let ticks = "`".repeat(longest.max(2) + 1);
    let _ = writeln!(text, "{ticks}\n{}\n{ticks}\n", content.trim_end());
}

/// What a person can read of a content block.
fn block_text(block: &Value) -> String {
    if let Some(text) = block["text"].as_str() {
        return text.to_owned();
    }
    let uri = || block["uri"].as_str().or_else(|| block["resource"]["uri"].as_str());
    match block["type"].as_str() {
        Some("resource_link" | "resource") => {
            let uri = uri().unwrap_or_default();
            format!("[{}]({uri})", block["name"].as_str().unwrap_or(uri))
        }
        Some(kind) => format!("*({kind})*"),
        None => String::new(),
    }
}

/// A name for the file: of the title what every file system takes.
pub(super) fn file_name(title: &str, ending: &str) -> String {
    let plain: String =
        title.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { ' ' }).collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    let name: String = words.join("-").chars().take(60).collect();
    format!("{}.{ending}", if name.is_empty() { "session" } else { &name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_plans_and_links_can_be_read() {
        let mut text = String::new();
        for update in [
            json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "a\nb"}}),
            json!({"sessionUpdate": "tool_call", "title": "Run *it*", "content": [
                {"type": "content", "content": {"type": "text", "text": "```\nx"}}]}),
            json!({"sessionUpdate": "tool_call_update", "content": [
                {"type": "diff", "path": "a.rs", "newText": "fn a() {}"}]}),
            json!({"sessionUpdate": "plan", "entries": [{"content": "one", "status": "completed"}, {"content": "two"}]}),
            json!({"sessionUpdate": "agent_message_chunk", "content":
                {"type": "resource_link", "uri": "file:///a", "name": "a"}}),
            json!({"sessionUpdate": "hologram"}),
        ] {
            add_update(&mut text, &update);
        }
        for part in [
            "> a\n> b\n",
            "**Tool: Run \\*it\\***",
            "````\n```\nx\n````",
            "Changed `a.rs`:",
            "```\nfn a() {}\n```",
            "- [x] one\n- [ ] two",
            "[a](file:///a)",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn a_file_name_has_no_path() {
        assert_eq!(file_name("Fix ../the: build?", "md"), "Fix-the-build.md");
        assert_eq!(file_name("修复 构建", "json"), "修复-构建.json");
        assert_eq!(file_name("/…", "md"), "session.md");
    }
}
