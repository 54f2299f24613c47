//! What the tray shows of the sessions: a pure picture of them, so that the
//! menu is built anew only when it would look different.

use gantry_core::wire::{SessionState, SessionView};

/// More than this many sessions are not listed.
const MOST: usize = 10;
/// Letters of a title.
const LONGEST: usize = 40;

/// A running session as the tray lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: String,
    /// Shortened; empty when the session has none.
    pub title: String,
}

/// The running sessions, the last active first.
pub fn entries(sessions: &[SessionView]) -> Vec<Entry> {
    let mut running: Vec<_> = sessions.iter().filter(|session| runs(session)).collect();
    running.sort_by_key(|session| std::cmp::Reverse(session.created_at));
    running
        .into_iter()
        .take(MOST)
        .map(|session| Entry { id: session.id.clone(), title: shorten(&session.title) })
        .collect()
}

fn runs(session: &SessionView) -> bool {
    session.state != SessionState::Stopped
        && (session.state != SessionState::Failed || session.engine.is_some())
}

fn shorten(title: &str) -> String {
    let line = title.split_whitespace().collect::<Vec<_>>().join(" ");
    // Menus of some systems take a single underscore or ampersand for a key.
    let line = line.replace('_', "__").replace('&', "&&");
    if line.chars().count() <= LONGEST {
        return line;
    }
    line.chars().take(LONGEST - 1).chain(['…']).collect()
}
