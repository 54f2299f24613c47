//! Writing to a terminal that may be gone: a reader such as `head` closes the
//! pipe when it has enough, which is no failure of ours.

use std::io::Write as _;

/// A line on standard output.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// A line on standard error.
pub fn complain(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
