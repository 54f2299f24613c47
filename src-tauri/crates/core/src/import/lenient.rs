//! JSON as people paste it: with a byte order mark, comments, commas at the
//! end, without the outer braces, and with Windows paths whose backslashes
//! nobody doubled. What is still wrong is told with line and column.

use serde_json::{Map, Number, Value};
use std::fmt;

/// How deep a text may be nested.
const DEEPEST: usize = 100;

/// Why a text could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// 1 for the first.
    pub line: usize,
    /// 1 for the first; counts characters.
    pub column: usize,
    what: &'static str,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.what)
    }
}

/// Reads it.
///
/// # Errors
/// Where it stops being readable, and why.
pub fn parse(text: &str) -> Result<Value, Problem> {
    let text = unfenced(text.strip_prefix('\u{feff}').unwrap_or(text));
    let mut reader = Reader { text: &text, at: 0, depth: 0 };
    reader.gap()?;
    if reader.rest().is_empty() {
        return Err(reader.problem("there is nothing here"));
    }
    let value = if reader.begins_with_a_field() { reader.fields(None)? } else { reader.value()? };
    reader.gap()?;
    // What a person copies out of a larger file often ends with its comma.
    while reader.eat(',') {
        reader.gap()?;
    }
    if reader.rest().is_empty() {
        Ok(value)
    } else {
        Err(reader.problem("this is more than one JSON value"))
    }
}

/// Without the fence that a text has where it was copied out of Markdown, places kept.
fn unfenced(text: &str) -> std::borrow::Cow<'_, str> {
    let begin = text.trim_start();
    let Some(inside) = begin.strip_prefix("```").and_then(|rest| rest.split_once('\n')) else {
        return text.into();
    };
    // The line of the opening fence stays, empty, so that lines are counted as they were.
    let before = text[..text.len() - begin.len()].matches('\n').count() + 1;
    let inside = inside.1.trim_end();
    let inside = inside.strip_suffix("```").unwrap_or(inside);
    format!("{}{inside}", "\n".repeat(before)).into()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        if is_there {
            self.at += wanted.len_utf8();
        }
        is_there
    }

    fn problem(&self, what: &'static str) -> Problem {
        let before = &self.text[..self.at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Problem { line, column, what }
    }

    /// Over white space and comments.
    fn gap(&mut self) -> Result<(), Problem> {
        loop {
            let rest = self.rest();
            let white = rest.len() - rest.trim_start_matches(|c: char| c.is_whitespace()).len();
            self.at += white;
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                match rest.find("*/") {
                    Some(end) => self.at += end + 2,
                    None => return Err(self.problem("this comment has no end")),
                }
            } else {
                return Ok(());
            }
        }
    }

    /// Whether the outer braces were left out: a string and a colon.
    fn begins_with_a_field(&self) -> bool {
        let mut ahead = Reader { text: self.text, at: self.at, depth: 0 };
        ahead.peek() == Some('"')
            && ahead.string().is_ok()
            && ahead.gap().is_ok()
            && ahead.peek() == Some(':')
    }

    fn value(&mut self) -> Result<Value, Problem> {
        match self.peek() {
            Some('{') => {
                self.at += 1;
                self.fields(Some('}'))
            }
            Some('[') => self.items(),
            Some('"') => self.string().map(Value::String),
            Some('\'') => Err(self.problem("texts are written in double quotes")),
            Some(c) if c == '-' || c.is_ascii_digit() => self.number(),
            Some(c) if c.is_ascii_alphabetic() => self.word(),
            Some(_) => Err(self.problem("a value was expected here")),
            None => Err(self.problem("the text ends too early")),
        }
    }

    fn deeper(&mut self) -> Result<(), Problem> {
        self.depth += 1;
        if self.depth > DEEPEST { Err(self.problem("this is nested too deep")) } else { Ok(()) }
    }

    /// The inside of an object, up to `end`, or to the end of the text.
    fn fields(&mut self, end: Option<char>) -> Result<Value, Problem> {
        self.deeper()?;
        let mut fields = Map::new();
        loop {
            self.gap()?;
            match (self.peek(), end) {
                (None, None) => break,
                (None, Some(_)) => return Err(self.problem("a `}` is missing before the end")),
                (Some(c), Some(end)) if c == end => {
                    self.at += 1;
                    break;
                }
                (Some('"'), _) => {}
                (Some(_), _) => {
                    return Err(self.problem("a name in double quotes was expected here"));
                }
            }
            let name = self.string()?;
            self.gap()?;
            if !self.eat(':') {
                return Err(self.problem("a `:` was expected here"));
            }
            self.gap()?;
            let value = self.value()?;
            fields.insert(name, value);
            self.gap()?;
            let closes = self.peek().is_none_or(|c| Some(c) == end);
            if !self.eat(',') && !closes {
                return Err(self.problem("a `,` or a `}` was expected here"));
            }
        }
        self.depth -= 1;
        Ok(Value::Object(fields))
    }

    fn items(&mut self) -> Result<Value, Problem> {
        self.deeper()?;
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.gap()?;
            if self.eat(']') {
                break;
            }
            items.push(self.value()?);
            self.gap()?;
            if !self.eat(',') && self.peek() != Some(']') {
                return Err(self.problem("a `,` or a `]` was expected here"));
            }
        }
        self.depth -= 1;
        Ok(Value::Array(items))
    }

    fn number(&mut self) -> Result<Value, Problem> {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let number: Number = serde_json::from_str(&rest[..length])
            .map_err(|_| self.problem("this is not a number"))?;
        self.at += length;
        Ok(Value::Number(number))
    }

    fn word(&mut self) -> Result<Value, Problem> {
        for (word, value) in
            [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)]
        {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.problem("texts are written in double quotes"))
    }

    /// A text. Its backslashes count as they stand when it cannot be meant otherwise: when one
    /// begins no escape, or when it begins like a Windows path whose first backslash is single.
    fn string(&mut self) -> Result<String, Problem> {
        let start = self.at;
        self.at += 1;
        let raw_start = self.at;
        let raw = loop {
            match self.peek() {
                None | Some('\n') => {
                    self.at = start;
                    return Err(self.problem("this text has no closing quote"));
                }
                Some('"') => break &self.text[raw_start..self.at],
                Some('\\') => {
                    self.at += 1;
                    if let Some(next) = self.peek().filter(|next| *next != '\n') {
                        self.at += next.len_utf8();
                    }
                }
                Some(c) => self.at += c.len_utf8(),
            }
        };
        let (raw, end) = (raw.to_owned(), self.at + 1);
        let read = if is_bare_windows_path(&raw) { None } else { unescape(&raw) };
        self.at = end;
        Ok(read.unwrap_or(raw))
    }
}

/// `C:\Users` (also after `--flag=`), with a backslash that nobody doubled.
fn is_bare_windows_path(raw: &str) -> bool {
    let bytes = raw.as_bytes();
    bytes.windows(4).enumerate().any(|(at, four)| {
        four[0].is_ascii_alphabetic()
            && four[1..3] == *b":\\"
            && four[3] != b'\\'
            && (at == 0 || !bytes[at - 1].is_ascii_alphanumeric())
    })
}

/// `None` when a backslash begins no escape.
fn unescape(raw: &str) -> Option<String> {
    // Control characters are allowed here, but not by the standard.
    let mut plain = String::with_capacity(raw.len() + 2);
    plain.push('"');
    for c in raw.chars() {
        match c {
            c if u32::from(c) < 0x20 => plain.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => plain.push(c),
        }
    }
    plain.push('"');
    serde_json::from_str(&plain).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_people_paste_is_read() {
        let wanted = json!({"mcpServers": {"a": {"command": "npx", "args": ["-y", "p"]}}});
        for text in [
            r#"{"mcpServers":{"a":{"command":"npx","args":["-y","p"]}}}"#,
            "\u{feff}{ // the servers\n \"mcpServers\": { \"a\": { \"command\": \"npx\", /* here */\n\
             \"args\": [\"-y\", \"p\",], }, }, }\n// the end",
            r#""mcpServers": {"a":{"command":"npx","args":["-y","p"]}},"#,
            r#"{"mcpServers":{"a":{"command":"npx","args":["-y","p"]}}},"#,
            "\n```json\n{\"mcpServers\":{\"a\":{\"command\":\"npx\",\"args\":[\"-y\",\"p\"]}}}\n```\n",
        ] {
            assert_eq!(parse(text), Ok(wanted.clone()), "{text}");
        }
    }

    #[test]
    fn backslashes_of_windows_paths_are_kept() {
        for (text, wanted) in [
            (r#""C:\\Users\\me""#, r"C:\Users\me"),
            (r#""C:\Users\new\table""#, r"C:\Users\new\table"),
            (r#""C:\new\bin""#, r"C:\new\bin"),
            (r#""--dir=D:\tools""#, r"--dir=D:\tools"),
            (r#""\\server\share""#, r"\\server\share"),
            (r#""a\tb\u00e4\/""#, "a\tbä/"),
            ("\"a\tb\"", "a\tb"),
            (r#""http:\/\/x""#, "http://x"),
        ] {
            assert_eq!(parse(text), Ok(json!(wanted)), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, line, column, word) in [
            ("", 1, 1, "nothing"),
            ("{\n  \"a\": {\n    \"b\" 1\n", 3, 9, "`:`"),
            ("{\"a\": 1", 1, 8, "`}`"),
            ("{\"ä\": [1 2]}", 1, 10, "`]`"),
            ("{\n\"a: 1}", 2, 1, "quote"),
            ("```json\n{\n\"a: 1}\n```", 3, 1, "quote"),
            ("{'a': 1}", 1, 2, "double quotes"),
            ("{\"a\": npx}", 1, 7, "double quotes"),
            ("{\"a\": 1} {}", 1, 10, "more than one"),
            ("/* x", 1, 1, "comment"),
            ("{\"a\": 1.2.3}", 1, 7, "number"),
        ] {
            let problem = parse(text).unwrap_err();
            assert_eq!((problem.line, problem.column), (line, column), "{text}: {problem}");
            assert!(problem.to_string().contains(word), "{text}: {problem}");
        }
        assert!(parse(&"[".repeat(100_000)).unwrap_err().to_string().contains("deep"));
    }
}
