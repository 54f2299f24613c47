//! The connection comes, becomes ready, goes: what that means for the clients.

use super::{
    Phase,
    state::{Caller, ClientKey, Effects, Link, Speech, State, Upstream},
};
use crate::{
    ToolFilter,
    catalogue::{Known, Page},
    frame::{self, UNAVAILABLE},
    modern::LEVELS,
};
use serde_json::{json, value::RawValue};
use tokio::time::Instant;

impl State {
    /// A connection begins; `false` when a newer one is known already.
    pub fn connected(&mut self, upstream: Upstream, effects: &mut Effects) -> bool {
        let generation = upstream.generation;
        if self.newest.is_some_and(|newest| newest >= generation) {
            return false;
        }
        if let Link::Up(_) = self.link {
            self.drop_link("was replaced by a newer start", true, effects);
        }
        self.newest = Some(generation);
        self.told_level = None;
        self.link = Link::Up(upstream);
        self.set_phase(Phase::Handshake { generation }, effects);
        true
    }

    pub fn disconnected(&mut self, generation: u64, why: &str, effects: &mut Effects) {
        if matches!(&self.link, Link::Up(upstream) if upstream.generation == generation) {
            // Whether it comes back is for its owner to say; until then calls wait.
            self.drop_link(why, true, effects);
        }
    }

    pub fn announce_down(&mut self, why: &str, starting: bool, effects: &mut Effects) {
        self.drop_link(why, starting, effects);
    }

    /// Whether it is up, or on its way.
    pub fn is_expected(&self) -> bool {
        !matches!(self.link, Link::Down { starting: false, .. })
    }

    fn drop_link(&mut self, why: &str, starting: bool, effects: &mut Effects) {
        let link = Link::Down { why: why.to_owned(), starting };
        let lost = matches!(std::mem::replace(&mut self.link, link), Link::Up(up) if { up.stop.cancel(); true });
        self.set_phase(Phase::Down(why.to_owned()), effects);
        if lost {
            let message = format!(
                "the server `{}` ended during the call: {why}. The call was not repeated; whether it took effect is not known",
                self.name
            );
            let data = json!({ "server": self.name, "reason": why });
            for (_, call) in std::mem::take(&mut self.calls) {
                if let Caller::Client { key, id } = call.caller {
                    let line = frame::error(&id, UNAVAILABLE, &message, Some(data.clone()));
                    if let Some(client) = self.clients.get_mut(&key) {
                        client.calls.remove(&id);
                    }
                    self.deliver(key, line.freeze(), Some(id), true, effects);
                }
            }
            self.drop_rounds(why, effects);
            self.retired.clear();
            // The clients' answers to these would reach a process that never asked.
            for (ours, asked) in std::mem::take(&mut self.asked) {
                let params = json!({ "requestId": ours, "reason": why }).to_string();
                let line = frame::notification("notifications/cancelled", Some(&params)).freeze();
                self.deliver(asked.key, line, asked.concerning, false, effects);
            }
            self.change = None;
            self.roots_news = None;
        }
        if !starting {
            for held in std::mem::take(&mut self.held) {
                self.refuse_held(&held, effects);
            }
            self.end_listens(effects);
        }
    }

    /// The server of this connection knows no `initialize`.
    pub fn is_of_today(&mut self, generation: u64) {
        if let Link::Up(upstream) = &mut self.link
            && upstream.generation == generation
        {
            upstream.speech = Speech::Modern;
        }
    }

    /// The handshake is done: the server is usable from here on.
    pub fn ready(
        &mut self,
        generation: u64,
        (initialize, discover): (Box<RawValue>, Option<Box<RawValue>>),
        pages: Option<Vec<Page>>,
        now: Instant,
        effects: &mut Effects,
    ) {
        match &mut self.link {
            Link::Up(upstream) if upstream.generation == generation => upstream.ready = true,
            _ => return,
        }
        let mut known = Known::new(initialize, pages.map(Into::into), &self.filter);
        known.discover = discover;
        self.known = Some(known);
        self.set_phase(Phase::Ready { generation, tools: self.tool_count() }, effects);
        self.replay();
        // Before the held calls: who asked for the list and still waits needs no second reason.
        let lists = [("tools", true), ("prompts", false), ("resources", false)];
        for (list, is_tools) in lists {
            let declared = self.known.as_ref().is_some_and(|known| known.declares(list));
            let line =
                frame::notification(&format!("notifications/{list}/list_changed"), None).freeze();
            let told: Vec<ClientKey> = self
                .clients
                .iter()
                .filter(|(_, client)| {
                    client.initialized
                        && (declared || client.guessed)
                        && (client.listed || !is_tools || client.guessed)
                })
                .map(|(key, _)| *key)
                .collect();
            for key in told {
                self.deliver(key, line.clone(), None, false, effects);
            }
            self.to_subscribers_of(&line, effects);
        }
        for held in std::mem::take(&mut self.held) {
            self.request(held.key, held.message, now, effects);
        }
    }

    /// The tools were fetched again after a `list_changed`.
    pub fn refetched(&mut self, generation: u64, pages: Vec<Page>, effects: &mut Effects) {
        if !matches!(&self.link, Link::Up(upstream) if upstream.generation == generation && upstream.ready)
        {
            return;
        }
        if let Some(known) = &self.known {
            self.known = Some(known.relisted(pages.into(), &self.filter));
            self.set_phase(Phase::Ready { generation, tools: self.tool_count() }, effects);
        }
        if let Some(line) = self.change.take() {
            self.announce(&line, effects);
        }
    }

    /// Another filter, from the next list and call on.
    pub fn set_filter(&mut self, filter: ToolFilter, effects: &mut Effects) {
        if self.filter == filter {
            return;
        }
        self.filter = filter;
        let Some(known) = &self.known else { return };
        self.known = Some(known.refiltered(&self.filter));
        if let Link::Up(Upstream { generation, ready: true, .. }) = self.link {
            self.set_phase(Phase::Ready { generation, tools: self.tool_count() }, effects);
        }
        let line = frame::notification("notifications/tools/list_changed", None).freeze();
        self.announce(&line, effects);
    }

    /// What clients had asked a process that no longer lives: log level, subscriptions.
    fn replay(&mut self) {
        if self.is_modern_only() {
            return self.listen_upstream();
        }
        if let Some(level) = self.lowest_level()
            && self.known.as_ref().is_some_and(|known| known.declares("logging"))
        {
            let params = json!({ "level": LEVELS[level] }).to_string();
            self.told_level = Some(level);
            self.tell("logging/setLevel", &params);
        }
        for uri in self.wanted_resources() {
            self.tell("resources/subscribe", &json!({ "uri": uri }).to_string());
        }
    }
}
