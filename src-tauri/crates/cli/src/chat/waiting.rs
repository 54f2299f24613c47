//! The line that says what the first prompt waits for.

use crate::{events::Events, remote::Remote};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, Write as _},
};

/// Nothing is said of what is over sooner.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(400);

/// What is known of the servers while they start. Shown on a terminal only: in a file, lines
/// that overwrite each other help nobody.
pub struct Waiting {
    events: Option<Events>,
    starting: BTreeMap<String, Option<String>>,
    begun: tokio::time::Instant,
    shown: usize,
}

impl Waiting {
    /// Looks at the servers of this Gantry.
    pub async fn look(remote: &Remote) -> Self {
        let events = match std::io::stderr().is_terminal() {
            true => remote.events("/events").await.ok(),
            false => None,
        };
        let begun = tokio::time::Instant::now();
        Self { events, starting: BTreeMap::new(), begun, shown: 0 }
    }

    /// Follows what happens, and shows it. Never returns.
    pub async fn follow(&mut self) -> std::convert::Infallible {
        loop {
            let Some(events) = &mut self.events else { return std::future::pending().await };
            let due = self.begun + PATIENCE;
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => self.hear(&serde_json::from_str(&event.data).unwrap_or_default()),
                    None => self.events = None,
                },
                () = tokio::time::sleep_until(due), if self.shown == 0 && !self.starting.is_empty() => {}
            }
            if self.begun.elapsed() >= PATIENCE {
                self.show();
            }
        }
    }

    fn hear(&mut self, event: &Value) {
        let servers = event["servers"].as_array().into_iter().flatten();
        for server in servers.chain(event.get("server")) {
            let name = server["name"].as_str().unwrap_or_default().to_owned();
            if matches!(server["state"].as_str(), Some("starting" | "restarting")) {
                self.starting.insert(name, server["note"].as_str().map(str::to_owned));
            } else {
                self.starting.remove(&name);
            }
        }
    }

    fn show(&mut self) {
        let line = line(&self.starting);
        self.write(&line);
    }

    fn write(&mut self, line: &str) {
        let width = line.chars().count();
        let rest = self.shown.saturating_sub(width);
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "\r{line}{:rest$}\r", "").and_then(|()| err.flush());
        self.shown = width;
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if self.shown > 0 {
            self.write("");
        }
        self.events = None;
    }
}

fn line(starting: &BTreeMap<String, Option<String>>) -> String {
    if starting.is_empty() {
        return String::new();
    }
    let names: Vec<_> = starting
        .iter()
        .map(|(name, note)| match note {
            Some(note) => format!("{name} ({})", crate::terminal::plain(note)),
            None => name.clone(),
        })
        .collect();
    // One line, also in a narrow window.
    format!("starting {}", names.join(", ")).replace('\n', " ").chars().take(78).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_line_names_what_is_starting_and_what_it_does() {
        let mut waiting = Waiting {
            events: None,
            starting: BTreeMap::new(),
            begun: tokio::time::Instant::now(),
            shown: 0,
        };
        waiting.hear(&json!({"servers": [
            {"name": "a", "state": "starting", "note": "downloading"},
            {"name": "b", "state": "ready"}, {"name": "c", "state": "restarting"}]}));
        assert_eq!(line(&waiting.starting), "starting a (downloading), c");
        waiting.hear(&json!({"type": "server_changed", "server": {"name": "a", "state": "ready"}}));
        waiting
            .hear(&json!({"type": "server_changed", "server": {"name": "c", "state": "failed"}}));
        assert_eq!(line(&waiting.starting), "");
    }
}
