//! What is said of a server, for people.

use super::super::process::{Tail, exit_text};

/// Lines of standard error that are put after the reason of a failure.
const LAST_LINES: usize = 10;

/// What is said of tools that are not known as they are now.
pub(super) fn outdated(why: &str) -> String {
    format!(
        "its tools changed, but it {why}; until it lists them in a usable way, the ones from before \
         are shown and can be called"
    )
}

/// What is put after the reason of a failure.
pub(super) fn last_words(stderr: &dyn Tail) -> String {
    let lines = stderr.lines(LAST_LINES);
    if lines.is_empty() {
        String::new()
    } else {
        format!("; its last words:\n{}", lines.join("\n"))
    }
}

/// The text for a connection that ended, with the exit of the program where it is known.
pub(super) fn lost(why: &str, exit: Option<gantry_supervisor::Exit>) -> String {
    match exit {
        // That the output ended says nothing that the exit does not.
        Some(exit) if why.contains("closed its output") => exit_text(exit),
        Some(exit) => format!("{}; before, it {why}", exit_text(exit)),
        None => format!("it {why}"),
    }
}
