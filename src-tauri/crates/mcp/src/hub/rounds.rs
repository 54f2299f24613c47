//! Clients that were initialised, in front of a server of revision 2026-07-28: what such a
//! server wants to know, it says in an answer (`input_required`) and is asked again with it.
//! The client is asked as it is used to, and waits for the one answer of its one call.

use super::state::{Answer, Asked, Call, ClientKey, Effects, State};
use crate::{
    Envelope, Kind,
    frame::{self, INTERNAL_ERROR, UNAVAILABLE},
};
use bytes::Bytes;
use serde_json::json;
use tokio::time::Instant;

/// How often a server may ask in one call.
const MOST: u32 = 32;

/// A call that the server may answer with questions.
pub(super) struct Round {
    /// The call as the client made it.
    pub message: Envelope,
    /// How often it was asked again.
    pub again: u32,
}

/// A call that waits for its client's answers.
pub(super) struct Asking {
    pub key: ClientKey,
    /// The client's own request, raw.
    pub id: String,
    round: Round,
    /// Of the server, to be given back: raw.
    state: Option<String>,
    /// The server's names of its questions, with the answers as far as they are there.
    answers: Vec<(String, Option<String>)>,
}

/// Whether a server may answer this method with questions.
pub(super) fn may_ask(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

/// Whether a result is a list of questions.
pub(super) fn asks(message: &Envelope) -> bool {
    let outcome = message.outcome().filter(|_| message.kind() == Kind::Result);
    outcome.and_then(|result| frame::field(result, "resultType")) == Some("\"input_required\"")
}

impl State {
    /// Asks the client what the server wants to know.
    pub fn ask_client(
        &mut self,
        key: ClientKey,
        id: String,
        round: Round,
        questions: &Envelope,
        now: Instant,
        effects: &mut Effects,
    ) {
        let result = questions.outcome().unwrap_or("{}");
        let state = frame::field(result, "requestState").map(str::to_owned);
        let inputs = frame::field(result, "inputRequests").and_then(frame::fields);
        let inputs = inputs.unwrap_or_default();
        if round.again >= MOST {
            let why = format!("the server `{}` asked {MOST} times in one call", self.name);
            return self.fail_round(key, &id, &why, effects);
        }
        let mut asked = Vec::new();
        for (name, question) in &inputs {
            let method = frame::field(question.get(), "method").and_then(frame::string);
            let method = method.unwrap_or_default();
            let ability = super::from_server::ability_of(&method);
            if ability.is_none() || !self.can(key, ability) {
                let why = format!(
                    "the server `{}` needs `{method}` of the client to finish the call, which this client cannot answer",
                    self.name
                );
                return self.fail_round(key, &id, &why, effects);
            }
            let params = frame::field(question.get(), "params").map(str::to_owned);
            asked.push((name.clone().into_owned(), method, params));
        }
        let answers = asked.iter().map(|(name, _, _)| (name.clone(), None)).collect();
        let number = self.fresh_id();
        if let Some(client) = self.clients.get_mut(&key) {
            client.calls.insert(id.clone(), number);
        }
        let asking = Asking { key, id: id.clone(), round, state, answers };
        self.asking.insert(number, asking);
        if asked.is_empty() {
            return self.ask_again(number, now, effects);
        }
        for (name, method, params) in asked {
            let ours = self.fresh_id();
            let line = frame::request(ours, &method, params.as_deref()).freeze();
            let concerning = Some(id.clone());
            let round = Some((number, name));
            let entry = Asked { key, id: String::new(), concerning: concerning.clone(), round };
            self.asked.insert(ours, entry);
            self.deliver(key, line, concerning, false, effects);
        }
    }

    /// The client answered one of the questions.
    pub fn round_answered(
        &mut self,
        number: u64,
        name: &str,
        message: &Envelope,
        now: Instant,
        effects: &mut Effects,
    ) {
        let Some(asking) = self.asking.get_mut(&number) else { return };
        let outcome = message.outcome().unwrap_or("null").to_owned();
        if message.kind() == Kind::Error {
            let (key, id) = (asking.key, asking.id.clone());
            let theirs = frame::field(&outcome, "message").and_then(frame::string);
            let why = format!(
                "the client did not answer what the server `{}` needs to know: {}",
                self.name,
                theirs.unwrap_or(outcome)
            );
            self.drop_round(number);
            return self.fail_round(key, &id, &why, effects);
        }
        for (question, answer) in &mut asking.answers {
            if question == name {
                *answer = Some(outcome.clone());
            }
        }
        if asking.answers.iter().all(|(_, answer)| answer.is_some()) {
            self.ask_again(number, now, effects);
        }
    }

    /// Makes the call again, with the answers.
    fn ask_again(&mut self, number: u64, now: Instant, effects: &mut Effects) {
        let Some(asking) = self.asking.remove(&number) else { return };
        let Asking { key, id, round, state, answers } = asking;
        if let Some(client) = self.clients.get_mut(&key) {
            client.calls.remove(&id);
        }
        let answers: Vec<(&str, &str)> = answers
            .iter()
            .map(|(name, answer)| (name.as_str(), answer.as_deref().unwrap_or("null")))
            .collect();
        let responses = frame::rebuilt(None, &[], &answers);
        let mut set = Vec::new();
        if !answers.is_empty() {
            set.push(("inputResponses", responses.as_str()));
        }
        set.extend(state.as_deref().map(|state| ("requestState", state)));
        let params = round.message.params();
        let all = frame::rebuilt(params, &["inputResponses", "requestState"], &set);
        let line = match params {
            Some(params) => {
                let span = round.message.span(params);
                frame::splice(&round.message.line, &mut [(span, all.as_str())]).freeze()
            }
            None => return self.fail_round(key, &id, "the call has no parameters", effects),
        };
        match Envelope::parse(line) {
            Ok(message) => {
                let again = round.again + 1;
                self.forward(key, &message, false, now, effects);
                // What the client asked is the measure for the next round, too.
                let ours = self.clients.get(&key).and_then(|client| client.calls.get(&id));
                if let Some(Call { answer: Answer::ForInitialized(next), .. }) =
                    ours.and_then(|ours| self.calls.get_mut(ours))
                {
                    **next = Round { message: round.message, again };
                }
            }
            Err(why) => self.fail_round(key, &id, &why.to_string(), effects),
        }
    }

    /// Forgets a call that waits for answers, and its questions.
    pub fn drop_round(&mut self, number: u64) -> Option<Asking> {
        let asking = self.asking.remove(&number)?;
        self.asked.retain(|_, asked| asked.round.as_ref().is_none_or(|(of, _)| *of != number));
        if let Some(client) = self.clients.get_mut(&asking.key) {
            client.calls.remove(&asking.id);
        }
        Some(asking)
    }

    /// The server is gone: calls that wait for answers end.
    pub fn drop_rounds(&mut self, why: &str, effects: &mut Effects) {
        let numbers: Vec<u64> = self.asking.keys().copied().collect();
        for number in numbers {
            if let Some(Asking { key, id, .. }) = self.drop_round(number) {
                let data = json!({ "server": self.name, "reason": why });
                let text = format!("the server `{}` ended during the call: {why}", self.name);
                let line: Bytes = frame::error(&id, UNAVAILABLE, &text, Some(data)).freeze();
                self.deliver(key, line, Some(id), true, effects);
            }
        }
    }

    fn fail_round(&self, key: ClientKey, id: &str, why: &str, effects: &mut Effects) {
        let data = json!({ "server": self.name });
        let line = frame::error(id, INTERNAL_ERROR, why, Some(data)).freeze();
        self.deliver(key, line, Some(id.to_owned()), true, effects);
    }
}
