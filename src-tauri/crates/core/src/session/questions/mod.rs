//! What an agent asks the user besides permissions: `elicitation/create` of ACP. A question
//! waits like a permission request: the session is "waiting for you", its turn's end, a stop
//! and the time limit answer it `cancel`.

mod form;
mod read;

use super::{
    cell::{Cell, Inner},
    notes::Note,
    state::Event,
};
use crate::{Error, Result, bridge::MASK, events::now, wire::*};
use gantry_acp::{CallError, ClientCall};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};
use tokio::time::Instant;

/// Questions that may be open in a session.
const MOST_OPEN: usize = 32;
/// Pages whose end is waited for in a session.
const MOST_PAGES: usize = 64;

/// The questions of a session.
#[derive(Default)]
pub(super) struct Questions {
    open: BTreeMap<u64, OpenQuestion>,
    /// Pages that the user opened: the agent's id, and our request.
    pages: VecDeque<(String, String)>,
}

/// An open question.
pub(super) struct OpenQuestion {
    pub(super) view: QuestionView,
    /// When it is left if nobody has answered.
    pub(super) due: Option<Instant>,
    /// The request of ours that it is about, when it belongs to no session.
    about: Option<Value>,
    /// The agent's id of a page.
    elicitation: Option<String>,
    call: ClientCall,
}

impl Questions {
    pub(super) fn values(&self) -> impl Iterator<Item = &OpenQuestion> {
        self.open.values()
    }

    fn numbers(&self, which: impl Fn(&OpenQuestion) -> bool) -> Vec<u64> {
        self.open.iter().filter(|(_, open)| which(open)).map(|(number, _)| *number).collect()
    }
}

/// What is answered.
struct Reply {
    action: QuestionAction,
    content: Option<Map<String, Value>>,
    reason: Option<String>,
}

impl Reply {
    fn without_user(reason: &str) -> Self {
        Self { action: QuestionAction::Cancel, content: None, reason: Some(reason.to_owned()) }
    }
}

impl Cell {
    /// The agent asks. Does not wait.
    pub(super) fn question(&self, call: ClientCall) {
        let asked = match read::question(&call.params) {
            Ok(asked) => asked,
            Err(why) => return call.answer(Err(CallError::invalid(why))),
        };
        let mut inner = self.lock();
        if inner.questions.open.len() >= MOST_OPEN {
            drop(inner);
            let why = format!("{MOST_OPEN} questions wait in this session; wait for an answer");
            return call.answer(Err(CallError::failed(why)));
        }
        inner.asked += 1;
        let number = inner.asked;
        let lingering = inner.state.lingering.as_ref().map(|lingering| lingering.turn.as_str());
        let view = QuestionView {
            request: format!("question-{number}"),
            turn: lingering.or_else(|| inner.state.running()).map(str::to_owned),
            tool_call: asked.tool_call,
            mode: asked.mode,
            message: asked.message,
            schema: asked.schema,
            url: asked.url,
            asked_at: now(),
        };
        let (request, due) = (
            view.request.clone(),
            inner.permission_timeout.and_then(|span| Instant::now().checked_add(span)),
        );
        // What is asked for a request of ours may come before the session is open.
        let is_late = call.session.is_some() && inner.state.refuses_asks();
        let about = asked.about;
        let open = OpenQuestion { view, due, about, elicitation: asked.elicitation, call };
        if is_late {
            let reply = Reply::without_user("asked after the turn was cancelled");
            return self.conclude(&mut inner, open, reply);
        }
        let question = Box::new(open.view.clone());
        inner.questions.open.insert(number, open);
        let session = self.id.clone();
        self.deps.events.publish(Happening::QuestionAsked { session, question });
        self.apply_or_announce(&mut inner, Event::Asked(request));
        // The actor has another alarm.
        self.wake.notify_one();
    }

    /// The user answers.
    pub(super) fn answer(&self, input: SessionAnswer) -> Result<()> {
        let mut inner = self.lock();
        let found =
            inner.questions.open.iter().find(|(_, open)| open.view.request == input.request);
        let Some((&number, open)) = found else {
            return Err(Error::not_found(format!(
                "there is no open question `{}` in this session; it may have been answered",
                input.request
            )));
        };
        let content = match (input.action, &open.view.schema) {
            (QuestionAction::Accept, Some(schema)) => {
                let content = input.content.unwrap_or_default();
                form::check(schema, &content).map_err(Error::invalid)?;
                Some(content)
            }
            _ => None,
        };
        if let Some(open) = inner.questions.open.remove(&number) {
            inner.kept.last_activity = now();
            let reply = Reply { action: input.action, content, reason: None };
            self.conclude(&mut inner, open, reply);
        }
        self.apply_or_announce(&mut inner, Event::Answered(input.request));
        Ok(())
    }

    /// Answers the agent, tells everybody, and keeps it.
    fn conclude(&self, inner: &mut Inner, open: OpenQuestion, reply: Reply) {
        let Reply { action, content, reason } = reply;
        let mut answer = json!({ "action": action.name() });
        if let Some(content) = &content {
            answer["content"] = Value::Object(content.clone());
        }
        open.call.answer(Ok(answer));
        if let (QuestionAction::Accept, Some(id)) = (action, open.elicitation) {
            if inner.questions.pages.len() == MOST_PAGES {
                inner.questions.pages.pop_front();
            }
            inner.questions.pages.push_back((id, open.view.request.clone()));
        }
        self.tell(inner, open.view, action, content, reason);
    }

    fn tell(
        &self,
        inner: &mut Inner,
        asked: QuestionView,
        outcome: QuestionAction,
        content: Option<Map<String, Value>>,
        reason: Option<String>,
    ) {
        let content = content.map(|content| masked(asked.schema.as_ref(), content));
        let turn = asked.turn.clone();
        let question = AnsweredQuestion { asked, outcome, content, reason, answered_at: now() };
        self.note(inner, turn.as_deref(), &Note::Question(question.clone()));
        let (session, question) = (self.id.clone(), Box::new(question));
        self.deps.events.publish(Happening::QuestionAnswered { session, question });
    }

    /// Answers these `cancel`; the session is told of each.
    fn leave(&self, inner: &mut Inner, numbers: Vec<u64>, why: &str) {
        for number in numbers {
            let Some(open) = inner.questions.open.remove(&number) else { continue };
            let request = open.view.request.clone();
            self.conclude(inner, open, Reply::without_user(why));
            self.apply_or_announce(inner, Event::Answered(request));
        }
    }

    /// All of them end with the turn, the session or the agent; whoever calls announces it.
    pub(super) fn cancel_questions(&self, inner: &mut Inner, why: &str) {
        for open in std::mem::take(&mut inner.questions.open).into_values() {
            self.conclude(inner, open, Reply::without_user(why));
        }
    }

    /// Leaves the questions whose time is over.
    pub(super) fn leave_unanswered(&self, now: Instant) {
        let mut inner = self.lock();
        let overdue = inner.questions.numbers(|open| open.due.is_some_and(|due| due <= now));
        let waited = inner.permission_timeout.unwrap_or_default().as_secs_f32();
        self.leave(&mut inner, overdue, &format!("nobody answered within {waited} s"));
    }

    /// A request of ours that it asked about is over.
    pub(super) fn drop_questions_of(&self, request: &Value) {
        let mut inner = self.lock();
        let numbers = inner.questions.numbers(|open| open.about.as_ref() == Some(request));
        self.leave(&mut inner, numbers, "what it was asked for is over");
    }

    /// The agent took its question back.
    pub(super) fn withdraw_question(&self, request: &Value) {
        let mut inner = self.lock();
        for number in inner.questions.numbers(|open| open.call.request == *request) {
            let Some(open) = inner.questions.open.remove(&number) else { continue };
            open.call.answer(Err(CallError::withdrawn()));
            let request = open.view.request.clone();
            let why = Some("the agent took it back".to_owned());
            self.tell(&mut inner, open.view, QuestionAction::Cancel, None, why);
            self.apply_or_announce(&mut inner, Event::Answered(request));
        }
    }

    /// The agent says that what a page was for is done (`elicitation/complete`).
    pub(super) fn page_done(&self, elicitation: &str) {
        let mut inner = self.lock();
        // The user may have got there another way than by our button.
        let is_it = |open: &OpenQuestion| open.elicitation.as_deref() == Some(elicitation);
        for number in inner.questions.numbers(is_it) {
            let Some(open) = inner.questions.open.remove(&number) else { continue };
            let request = open.view.request.clone();
            let reason = Some("the agent says that it is done".to_owned());
            let reply = Reply { action: QuestionAction::Accept, content: None, reason };
            self.conclude(&mut inner, open, reply);
            self.apply_or_announce(&mut inner, Event::Answered(request));
        }
        let pages = &mut inner.questions.pages;
        let Some(place) = pages.iter().position(|(id, _)| id == elicitation) else { return };
        let Some((_, request)) = pages.remove(place) else { return };
        let session = self.id.clone();
        self.deps.events.publish(Happening::QuestionCompleted { session, request });
    }
}

/// The values as they are told and kept: what looks like a secret reached the agent and nobody else.
fn masked(schema: Option<&Value>, mut content: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in &mut content {
        let field = schema.map(|schema| &schema["properties"][name.as_str()]);
        let says_so = field.is_some_and(|field| {
            field["format"] == "password"
                || field["writeOnly"] == true
                || field["title"].as_str().is_some_and(is_secret_title)
        });
        if (says_so || super::is_secret(name)) && !value.is_boolean() {
            *value = Value::String(MASK.to_owned());
        }
    }
    content
}

fn is_secret_title(title: &str) -> bool {
    let title = title.to_ascii_lowercase();
    ["password", "passphrase", "secret", "api key", "access token", "密码", "密钥"]
        .iter()
        .any(|word| title.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_secret_is_not_told_on() {
        let schema = json!({"properties": {
            "pin": {"type": "string", "format": "password"},
            "word": {"type": "string", "title": "Your password"},
            "remember_token": {"type": "boolean"},
        }});
        let content = json!({
            "api_key": "s3cret-1", "pin": "s3cret-2", "word": "s3cret-3",
            "remember_token": true, "name": "Ada",
        });
        let Value::Object(content) = content else { unreachable!() };
        let shown = Value::Object(masked(Some(&schema), content));
        assert!(!shown.to_string().contains("s3cret"), "{shown}");
        assert_eq!((&shown["name"], &shown["remember_token"]), (&json!("Ada"), &json!(true)));
    }
}
