//! One log level at the server, for all clients: the most talkative one that anybody wants.

use super::state::{Link, State};
use crate::{catalogue::declares, modern::LEVELS};
use serde_json::json;

/// What clients hear of the log when others chose a level and they did not: `info` and up.
pub(super) const USUAL_LEVEL: usize = 1;

impl State {
    /// The severity from which on somebody wants the log; `None` when nobody has said anything.
    pub fn lowest_level(&self) -> Option<usize> {
        let mut clients = self.clients.values().filter(|client| client.initialized);
        let is_chosen = self.clients.values().any(|client| client.level.is_some());
        // Who never chose has the usual level, whatever others choose.
        let usual = clients.any(|client| client.level.is_none()).then_some(USUAL_LEVEL);
        let clients = self.clients.values().filter_map(|client| client.level);
        let clients = clients.chain(usual.filter(|_| is_chosen));
        clients.chain(self.calls.values().filter_map(|call| call.log_level().flatten())).min()
    }

    /// Has the server log what those want who are there now, after one came or went.
    pub fn level_again(&mut self) {
        let ready = matches!(&self.link, Link::Up(upstream) if upstream.ready);
        let Some(told) = self.told_level.filter(|_| ready && !self.is_modern_only()) else {
            return;
        };
        let wanted = self.lowest_level().unwrap_or(USUAL_LEVEL);
        if wanted != told {
            self.told_level = Some(wanted);
            self.tell("logging/setLevel", &json!({ "level": LEVELS[wanted] }).to_string());
        }
    }

    /// Has an older server log what a request of this revision wants to hear.
    pub fn lower_level(&mut self, level: Option<usize>) {
        let Some(level) = level else { return };
        let logs = self
            .known
            .as_ref()
            .is_some_and(|known| declares(&known.catalogue.initialize, "logging"));
        if logs && self.told_level.is_none_or(|told| told > level) {
            self.told_level = Some(level);
            self.tell("logging/setLevel", &json!({ "level": LEVELS[level] }).to_string());
        }
    }
}
