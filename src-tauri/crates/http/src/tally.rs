//! What has happened since the start, counted from the events, for `/metrics`.

use gantry_core::{
    events::Events,
    wire::{Event, Happening, ServerState},
};
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Upper bounds of a turn's duration, seconds.
const TURN_BUCKETS: &[f64] = &[0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0];
/// Upper bounds of the time until a server is ready, seconds.
const READY_BUCKETS: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0];
/// The stop reasons that are told apart; all others are [`OTHER`].
const REASONS: &[&str] =
    &["end_turn", "cancelled", "max_tokens", "max_turn_requests", "refusal", "error", OTHER];
const OTHER: &str = "other";
/// Turns that are begun and of which no end was heard; more are forgotten.
const MOST_OPEN: usize = 10_000;

/// The counts. Clones are the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug)]
struct Counts {
    turns: BTreeMap<&'static str, u64>,
    permissions: BTreeMap<&'static str, u64>,
    restarts: u64,
    turn_seconds: Histogram,
    ready_seconds: Histogram,
    /// When open turns began, milliseconds.
    begun: HashMap<String, i64>,
    /// The last state of each server, by name and whether it is a saved one.
    servers: HashMap<(String, bool), ServerState>,
}

#[derive(Debug)]
struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len()], sum: 0.0, count: 0 }
    }

    fn observe(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
        for (count, bound) in self.counts.iter_mut().zip(self.bounds) {
            *count += u64::from(value <= *bound);
        }
    }

    fn write(&self, out: &mut String, name: &str, help: &str) {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
        for (count, bound) in self.counts.iter().zip(self.bounds) {
            let _ = writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {}", self.count);
        let _ = writeln!(out, "{name}_sum {}\n{name}_count {}", self.sum, self.count);
    }
}

/// A counter with one label.
pub(crate) fn counter<'a>(
    out: &mut String,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (String, &'a u64)>,
) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
    for (labels, value) in samples {
        let _ = writeln!(out, "{name}{labels} {value}");
    }
}

impl Tally {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        let counts = Counts {
            turns: REASONS.iter().map(|reason| (*reason, 0)).collect(),
            permissions: [("answered", 0), ("cancelled", 0)].into(),
            restarts: 0,
            turn_seconds: Histogram::new(TURN_BUCKETS),
            ready_seconds: Histogram::new(READY_BUCKETS),
            begun: HashMap::new(),
            servers: HashMap::new(),
        };
        Self { counts: Arc::new(Mutex::new(counts)) }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what happens from now on. A reader of the events could miss some when there are
    /// very many, and what is counted would be wrong for ever.
    pub fn watch(&self, events: &Events) {
        let tally = self.clone();
        events.observe(move |event| {
            // By far the most, and none of them counts.
            if !matches!(event.what, Happening::Update { .. }) {
                tally.counts().hear(event);
            }
        });
    }

    /// As Prometheus reads it.
    pub fn write(&self, out: &mut String) {
        let counts = self.counts();
        let by = |label: &str, value: &str| format!("{{{label}=\"{value}\"}}");
        let turns = counts.turns.iter().map(|(reason, count)| (by("reason", reason), count));
        counter(out, "gantry_turns_total", "Turns that have ended, by stop reason.", turns);
        counts.turn_seconds.write(out, "gantry_turn_duration_seconds", "From prompt to end.");
        counts.ready_seconds.write(
            out,
            "gantry_server_ready_seconds",
            "From the start of a server to its answer of tools/list.",
        );
        counter(
            out,
            "gantry_server_restarts_total",
            "Unexpected ends of servers that led to a new start.",
            [(String::new(), &counts.restarts)],
        );
        let permissions =
            counts.permissions.iter().map(|(outcome, count)| (by("outcome", outcome), count));
        counter(
            out,
            "gantry_permission_requests_total",
            "Permission requests, by outcome.",
            permissions,
        );
    }
}

impl Counts {
    fn hear(&mut self, event: &Event) {
        match &event.what {
            Happening::TurnStarted { turn, .. } => {
                if self.begun.len() >= MOST_OPEN {
                    self.begun.clear();
                }
                self.begun.insert(turn.clone(), event.at);
            }
            Happening::TurnEnded { turn, reason, .. } => {
                // An agent may say anything; each new word would be one more series for ever.
                let known = REASONS.iter().find(|known| *known == reason);
                *self.turns.entry(known.copied().unwrap_or(OTHER)).or_default() += 1;
                if let Some(begun) = self.begun.remove(turn) {
                    self.turn_seconds.observe(seconds(event.at.saturating_sub(begun)));
                }
            }
            Happening::PermissionResolved { outcome, .. } => {
                let outcome = if outcome == "cancelled" { "cancelled" } else { "answered" };
                *self.permissions.entry(outcome).or_default() += 1;
            }
            Happening::ServerChanged { server } => {
                let id = (server.name.clone(), server.saved);
                let before = self.servers.insert(id, server.state);
                if before == Some(server.state) {
                    return;
                }
                match (server.state, server.ready_ms) {
                    // Back from a missed ping is no start.
                    (ServerState::Ready, Some(ms)) if before != Some(ServerState::Degraded) => {
                        self.ready_seconds.observe(seconds(i64::try_from(ms).unwrap_or(i64::MAX)));
                    }
                    (ServerState::Restarting, _) => self.restarts += 1,
                    _ => {}
                }
            }
            Happening::ServerRemoved { name } => {
                self.servers.retain(|(known, _), _| known != name);
            }
            _ => {}
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "spans are far below 2^52 ms")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_missed_however_much_happens_at_once() {
        let (tally, events) = (Tally::new(), Events::new());
        tally.watch(&events);
        for number in 0..20_000 {
            events.publish(Happening::TurnEnded {
                session: "s".to_owned(),
                turn: number.to_string(),
                reason: "end_turn".to_owned(),
                description: None,
            });
        }
        let mut out = String::new();
        tally.write(&mut out);
        assert!(out.contains("gantry_turns_total{reason=\"end_turn\"} 20000\n"), "{out}");
    }

    #[test]
    fn turns_are_counted_with_their_durations() {
        let tally = Tally::new();
        let turn = |id: &str| (id.to_owned(), "s".to_owned());
        for (number, (id, ms, reason)) in
            [("a", 400, "end_turn"), ("b", 61_000, "error"), ("c", 40, "od\"d")].iter().enumerate()
        {
            let (turn, session) = turn(id);
            let what = Happening::TurnStarted {
                session: session.clone(),
                turn: turn.clone(),
                number: 1,
                request_id: None,
                prompt: vec![],
            };
            tally.counts().hear(&Event { seq: number as u64, at: 1_000, what });
            let what = Happening::TurnEnded {
                session,
                turn,
                reason: (*reason).to_owned(),
                description: None,
            };
            tally.counts().hear(&Event { seq: number as u64, at: 1_000 + ms, what });
        }
        let mut out = String::new();
        tally.write(&mut out);
        for line in [
            "# TYPE gantry_turns_total counter",
            "gantry_turns_total{reason=\"end_turn\"} 1",
            "gantry_turns_total{reason=\"error\"} 1",
            "gantry_turns_total{reason=\"cancelled\"} 0",
            "gantry_turns_total{reason=\"other\"} 1",
            "# TYPE gantry_turn_duration_seconds histogram",
            "gantry_turn_duration_seconds_bucket{le=\"0.1\"} 1",
            "gantry_turn_duration_seconds_bucket{le=\"0.5\"} 2",
            "gantry_turn_duration_seconds_bucket{le=\"60\"} 2",
            "gantry_turn_duration_seconds_bucket{le=\"300\"} 3",
            "gantry_turn_duration_seconds_bucket{le=\"+Inf\"} 3",
            "gantry_turn_duration_seconds_count 3",
        ] {
            assert!(out.lines().any(|found| found == line), "{line} is missing in\n{out}");
        }
    }
}
