//! What the server says: whose it is, and under which id.

use super::{
    levels::USUAL_LEVEL,
    rounds,
    state::{Answer, Asked, Caller, ClientKey, Effects, Link, OPEN_REQUESTS, State},
};
use crate::{
    Envelope, Kind,
    frame::{self, INTERNAL_ERROR, METHOD_NOT_FOUND},
    modern,
};
use std::ops::Range;
use tokio::time::Instant;

/// A client, and its own request that a message belongs to.
type Addressee = (ClientKey, Option<String>);

/// The client capability that answers a request of the server.
pub(super) fn ability_of(method: &str) -> Option<&'static str> {
    match method {
        "sampling/createMessage" => Some("sampling"),
        "elicitation/create" => Some("elicitation"),
        "roots/list" => Some("roots"),
        _ => None,
    }
}

impl State {
    /// Takes one message of the server.
    pub fn take_from_server(
        &mut self,
        generation: u64,
        message: Envelope,
        now: Instant,
        effects: &mut Effects,
    ) {
        if !matches!(&self.link, Link::Up(upstream) if upstream.generation == generation) {
            return;
        }
        match message.kind() {
            Kind::Result | Kind::Error => self.response(message, now, effects),
            Kind::Request => self.question(&message, effects),
            Kind::Notification => self.news(&message, effects),
        }
    }

    fn response(&mut self, message: Envelope, now: Instant, effects: &mut Effects) {
        let ours = message.id().and_then(frame::number);
        let Some((ours, call)) = ours.and_then(|ours| Some((ours, self.calls.remove(&ours)?)))
        else {
            // Late, twice, or never asked for: nobody waits for it.
            tracing::debug!(server = %self.name, id = message.id(), "a response to no open request");
            return;
        };
        let (key, id) = match call.caller {
            Caller::Client { key, id } => (key, id),
            Caller::Own(waiting) => {
                // The one who waited may have given up.
                let _ = waiting.send(message);
                return;
            }
            Caller::Probe => return self.probed(Some(&message), now, effects),
            Caller::Listen => return self.upstream_ended(ours, &message),
        };
        if let Some(client) = self.clients.get_mut(&key) {
            client.calls.remove(&id);
            if let Some(uri) = call.subscribes.filter(|_| message.kind() == Kind::Error) {
                client.subscriptions.remove(&uri);
            }
        }
        let line = match call.answer {
            Answer::ForInitialized(round) if rounds::asks(&message) => {
                return self.ask_client(key, id, *round, &message, now, effects);
            }
            Answer::ForModern(modern) => self.for_modern(&message, &id, modern),
            Answer::AsItIs | Answer::Logged(_) | Answer::ForInitialized(_) => {
                let Some(span) = message.id_span() else { return };
                frame::replaced(message.line, span, &id)
            }
        };
        if let Some(token) = call.token {
            self.retire(ours, key, token);
        }
        self.deliver(key, line, Some(id), true, effects);
    }

    /// A request of the server to a client.
    fn question(&mut self, message: &Envelope, effects: &mut Effects) {
        let Some((id, span)) = message.id().zip(message.id_span()) else { return };
        if message.method() == "ping" {
            self.write(frame::result(id, "{}"));
            return;
        }
        let ability = ability_of(message.method());
        if self.asked.len() >= OPEN_REQUESTS {
            let why = "too many requests to clients are unanswered";
            self.write(frame::error(id, INTERNAL_ERROR, why, None));
            return;
        }
        let announced = if ability == Some("roots") { self.roots_news.take() } else { None };
        let announced = announced.filter(|key| self.can(*key, ability)).map(|key| (key, None));
        let Some((key, concerning)) = announced.or_else(|| self.who_answers(message, ability))
        else {
            self.roots_wanted |= ability == Some("roots");
            let why = self.note_refusal(message.method(), ability);
            self.write(frame::error(id, METHOD_NOT_FOUND, &why, None));
            return;
        };
        let ours = self.fresh_id();
        let line = frame::splice(&message.line, &mut [(span, &ours.to_string())]).freeze();
        let asked = Asked { key, id: id.to_owned(), concerning: concerning.clone(), round: None };
        self.asked.insert(ours, asked);
        self.deliver(key, line, concerning, false, effects);
    }

    pub(super) fn can(&self, key: ClientKey, ability: Option<&str>) -> bool {
        let client = self.clients.get(&key).filter(|client| client.initialized);
        client
            .is_some_and(|client| ability.is_none_or(|ability| client.abilities.contains(ability)))
    }

    /// The client whose call is running; without one, any that can.
    fn who_answers(&self, message: &Envelope, ability: Option<&str>) -> Option<Addressee> {
        let mut working = self.calls.values().rev().filter(|call| call.work);
        let newest = working.next();
        if newest.is_some() && working.next().is_none() {
            return match &newest?.caller {
                Caller::Client { key, id } if self.can(*key, ability) => {
                    Some((*key, Some(id.clone())))
                }
                // Someone else's question must not pop up at a client that has nothing to do with it.
                _ => None,
            };
        }
        if let Some(owner) = message
            .param(&["_meta", "progressToken"])
            .and_then(frame::number)
            .and_then(|token| self.token_owner(token))
        {
            return self.can(owner.0, ability).then_some((owner.0, owner.1));
        }
        let mut callers = self.calls.values().rev().filter_map(|call| match &call.caller {
            Caller::Client { key, id } => Some((*key, Some(id.clone()))),
            _ => None,
        });
        if newest.is_some() {
            return callers.find(|(key, _)| self.can(*key, ability));
        }
        // Latest first: an earlier one is more likely to have been forgotten by its owner.
        let any = self.clients.keys().rev().find(|key| self.can(**key, ability))?;
        Some((*any, None))
    }

    fn token_owner(&self, token: u64) -> Option<(ClientKey, Option<String>, String)> {
        if let Some(call) = self.calls.get(&token)
            && let (Caller::Client { key, id }, Some(token)) = (&call.caller, &call.token)
        {
            return Some((*key, Some(id.clone()), token.clone()));
        }
        let retired = self.retired.iter().rev().find(|(ours, _, _)| *ours == token)?;
        Some((retired.1, None, retired.2.clone()))
    }

    fn news(&mut self, message: &Envelope, effects: &mut Effects) {
        match message.method() {
            "notifications/progress" => self.progress(message, effects),
            "notifications/message" => self.log_message(message, effects),
            "notifications/cancelled" => self.withdrawn(message, effects),
            "notifications/resources/updated" => self.updated(message, effects),
            // Of our own subscription; what came before it is known from the start.
            "notifications/subscriptions/acknowledged" => {}
            "notifications/tools/list_changed" => {
                self.change = Some(message.line.clone());
                if let Link::Up(upstream) = &self.link {
                    upstream.refetch.notify_one();
                }
            }
            _ => self.announce(&message.line, effects),
        }
    }

    fn progress(&mut self, message: &Envelope, effects: &mut Effects) {
        let Some(raw) = message.param(&["progressToken"]) else { return };
        let Some((key, concerning, token)) =
            frame::number(raw).and_then(|token| self.token_owner(token))
        else {
            return;
        };
        let line = frame::splice(&message.line, &mut [(message.span(raw), &token)]).freeze();
        self.deliver(key, line, concerning, false, effects);
    }

    /// One call runs: the message is about it. Else everybody gets what they asked for.
    fn log_message(&mut self, message: &Envelope, effects: &mut Effects) {
        let severity =
            message.param(&["level"]).and_then(modern::level).unwrap_or(modern::LEVELS.len());
        let somebody_chose = self.told_level.is_some();
        let wants = |key: &ClientKey| {
            let Some(client) = self.clients.get(key).filter(|client| client.initialized) else {
                return false;
            };
            // Who never chose must not be flooded because somebody else did.
            let default = if somebody_chose { USUAL_LEVEL } else { 0 };
            severity >= client.level.unwrap_or(default)
        };
        let mut working = self.calls.values().filter(|call| call.work);
        if let (Some(only), None) = (working.next(), working.next()) {
            if let Caller::Client { key, id } = &only.caller
                && match only.log_level() {
                    // A call of revision 2026-07-28 says itself what it wants to hear.
                    Some(level) => level.is_some_and(|level| severity >= level),
                    None => wants(key),
                }
            {
                self.deliver(*key, message.line.clone(), Some(id.clone()), false, effects);
            }
            return;
        }
        for key in self.clients.keys().filter(|key| wants(key)) {
            self.deliver(*key, message.line.clone(), None, false, effects);
        }
    }

    /// The server takes back something it asked.
    fn withdrawn(&mut self, message: &Envelope, effects: &mut Effects) {
        let Some(raw) = message.param(&["requestId"]) else { return };
        let is_it = |asked: &Asked| asked.round.is_none() && asked.id == raw;
        let found = self.asked.iter().find(|(_, asked)| is_it(asked)).map(|(ours, _)| *ours);
        let Some((ours, asked)) = found.and_then(|ours| Some((ours, self.asked.remove(&ours)?)))
        else {
            return;
        };
        let edit: (Range<usize>, &str) = (message.span(raw), &ours.to_string());
        let line = frame::splice(&message.line, &mut [edit]).freeze();
        self.deliver(asked.key, line, asked.concerning, false, effects);
    }

    fn updated(&mut self, message: &Envelope, effects: &mut Effects) {
        let uri = message.param(&["uri"]).and_then(frame::string).unwrap_or_default();
        let subscribed = |exact: bool| -> Vec<ClientKey> {
            let fits = |wanted: &String| {
                if exact { *wanted == uri } else { uri.starts_with(wanted.as_str()) }
            };
            let clients = self.clients.iter();
            clients
                .filter(|(_, client)| client.subscriptions.iter().any(fits))
                .map(|(key, _)| *key)
                .collect()
        };
        let mut to = subscribed(true);
        let mut heard =
            self.to_listeners(message, |filter| filter.resources.contains(&uri), effects);
        if to.is_empty() && heard == 0 {
            // It may name a part of what was subscribed.
            to = subscribed(false);
            let part = |wanted: &String| uri.starts_with(wanted.as_str());
            heard = self.to_listeners(message, |filter| filter.resources.iter().any(part), effects);
        }
        let line = Self::untagged(message);
        if to.is_empty() && heard == 0 && self.wanted_resources().is_empty() {
            self.broadcast(&line, effects);
        }
        for key in to {
            self.deliver(key, line.clone(), None, false, effects);
        }
    }
}
