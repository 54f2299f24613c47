//! Writing to a terminal that may be gone: a reader such as `head` closes the
//! pipe when it has enough, which is no failure of ours. A disk that is full is.

use std::{
    io::{self, Write as _},
    sync::OnceLock,
};

/// Why something that was said to standard output got lost, the first time.
static LOST: OnceLock<String> = OnceLock::new();

/// A line on standard output.
pub fn say(line: &str) {
    let _ = print(format!("{line}\n").as_bytes());
}

/// Without what would steer the terminal: agents, tools and users choose these texts.
pub fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Bytes on standard output, now.
///
/// # Errors
/// They did not get there; [`lost`] knows it when that is a failure.
pub fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).inspect_err(note)
}

/// Remembers why standard output could not be written.
pub fn note(error: &io::Error) {
    if error.kind() != io::ErrorKind::BrokenPipe {
        let _ = LOST.set(error.to_string());
    }
}

/// Why something that was said to standard output got lost, other than that nobody reads it.
pub fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}

/// A line on standard error.
pub fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// So that one sees where an argument begins and ends.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("{word:?}")
    }
}
