//! What the user typed, understood. Pure.

use serde_json::{Map, Value};

/// A prompt.
#[derive(Debug, PartialEq)]
pub(super) enum Command<'a> {
    /// `/tools`
    Tools,
    /// `/help`
    Help,
    /// `/call <tool> <json>`
    Call(Call<'a>),
    /// Another word after a slash.
    Unknown(&'a str),
    /// Anything else.
    Talk(&'a str),
}

/// What stands after `/call`.
#[derive(Debug, PartialEq)]
pub(super) struct Call<'a> {
    /// The tool as it was written: `tool` or `server/tool`.
    pub(super) tool: &'a str,
    /// The text of the arguments; empty when there are none.
    pub(super) arguments: &'a str,
}

impl<'a> Command<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        let text = text.trim();
        let Some(after) = text.strip_prefix('/') else { return Self::Talk(text) };
        let (name, rest) = after.split_once(char::is_whitespace).unwrap_or((after, ""));
        match name {
            "tools" => Self::Tools,
            "help" => Self::Help,
            "call" => Self::Call(Call::parse(rest.trim())),
            // A path or a comment is not a command.
            _ if name.is_empty() || name.contains('/') => Self::Talk(text),
            _ => Self::Unknown(name),
        }
    }
}

impl<'a> Call<'a> {
    /// Server names may hold spaces, so the name goes up to the arguments, which
    /// begin with `{` (or `[`, to be told what is wrong with it).
    fn parse(rest: &'a str) -> Self {
        let end = rest.find(['{', '[']).unwrap_or(rest.len());
        let (tool, arguments) = rest.split_at(end);
        Self { tool: tool.trim(), arguments: arguments.trim() }
    }

    /// The same words, with the name ending at the first space: what is meant when
    /// no tool has the longer name.
    pub(super) fn at_first_space(&self) -> Option<(&'a str, &'a str)> {
        self.tool.split_once(char::is_whitespace)
    }
}

/// The arguments as an object; the error says where and what is wrong.
pub(super) fn arguments(text: &str) -> Result<Map<String, Value>, String> {
    if text.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(other) => Err(format!(
            "The arguments must be a JSON object such as `{{\"message\": \"hello\"}}`, not {}.",
            match other {
                Value::Array(_) => "an array",
                Value::String(_) => "a string",
                Value::Number(_) => "a number",
                _ => "a plain value",
            }
        )),
        Err(error) => Err(explain(text, &error)),
    }
}

fn explain(text: &str, error: &serde_json::Error) -> String {
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    // serde counts bytes; people count characters.
    let before = line.get(..line.floor_char_boundary(error.column().saturating_sub(1)));
    let column = before.unwrap_or_default().chars().count();
    let what = error.to_string();
    let what = what.split(" at line ").next().unwrap_or_default();
    // A long line is shown around the place only.
    let from = column.saturating_sub(60);
    let shown: String = line.chars().skip(from).take(100).collect();
    format!(
        "The arguments are not valid JSON: {what}, at line {}, character {}.\n\n```\n{shown}\n{}^\n```\n",
        error.line(),
        column + 1,
        " ".repeat(column - from),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> Call<'_> {
        match Command::parse(text) {
            Command::Call(call) => call,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn commands_are_told_from_talk() {
        assert_eq!(Command::parse(" /tools \n"), Command::Tools);
        assert_eq!(Command::parse("/help me"), Command::Help);
        assert_eq!(Command::parse("/toolsx"), Command::Unknown("toolsx"));
        assert_eq!(Command::parse("hello /tools"), Command::Talk("hello /tools"));
        assert_eq!(Command::parse("/etc/passwd is a file"), Command::Talk("/etc/passwd is a file"));
        assert_eq!(Command::parse(""), Command::Talk(""));
    }

    #[test]
    fn a_call_has_a_name_and_arguments() {
        let parts = |text| {
            let call = call(text);
            (call.tool, call.arguments)
        };
        assert_eq!(parts(r#"/call echo {"message":"a {b}"}"#), ("echo", r#"{"message":"a {b}"}"#));
        assert_eq!(parts("/call my server/echo\n{}"), ("my server/echo", "{}"));
        assert_eq!(parts("/call echo"), ("echo", ""));
        assert_eq!(parts("/call echo{}"), ("echo", "{}"));
        assert_eq!(parts("/call"), ("", ""));
        assert_eq!(call("/call echo \"x\"").at_first_space(), Some(("echo", "\"x\"")));
    }

    #[test]
    fn broken_arguments_are_explained_with_their_place() {
        assert_eq!(arguments("").unwrap(), Map::new());
        assert_eq!(arguments(r#"{"a":1}"#).unwrap()["a"], 1);
        assert!(arguments("[1]").unwrap_err().contains("not an array"));
        assert!(arguments("\"x\"").unwrap_err().contains("not a string"));
        let problem = arguments("{\"数据\": 1,\n \"b\" 2}").unwrap_err();
        assert!(problem.contains("expected `:`, at line 2, character 6."), "{problem}");
        assert!(problem.contains("\n \"b\" 2}\n     ^\n"), "{problem}");
        let problem = arguments(r#"{"数": x}"#).unwrap_err();
        assert!(problem.contains("line 1, character 7."), "{problem}");
        let problem = arguments(r#"{"message":"hello""#).unwrap_err();
        assert!(problem.contains("EOF while parsing an object"), "{problem}");
        let long = format!("{{\"a\": \"{}\" x}}", "y".repeat(5000));
        assert!(arguments(&long).unwrap_err().len() < 400);
    }
}
