//! What an agent asks the user besides permissions (`elicitation/create` of ACP): a form to
//! fill in, or a page to open.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use ts_rs::TS;

/// How a question is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum QuestionMode {
    /// With a form.
    Form,
    /// In a browser: to accept means that the user wants to open the page.
    Url,
}

/// An open question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct QuestionView {
    /// Unique within the session.
    pub request: String,
    /// Its turn, if one runs.
    pub turn: Option<String>,
    /// The tool call that it is about, if any.
    pub tool_call: Option<String>,
    /// How it is answered.
    pub mode: QuestionMode,
    /// What is asked, for people.
    pub message: String,
    /// Of a form: the agent's JSON schema of an object with plain fields, raw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub schema: Option<Value>,
    /// Of a page: its address, `http` or `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub url: Option<String>,
    /// When it was asked.
    pub asked_at: i64,
}

/// What the user does about a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum QuestionAction {
    /// Answers it.
    Accept,
    /// Says no.
    Decline,
    /// Neither: it is left.
    Cancel,
}

impl QuestionAction {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

/// Input of `session_answer`.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct SessionAnswer {
    /// The session.
    pub session: String,
    /// The question.
    pub request: String,
    /// What the user does about it.
    pub action: QuestionAction,
    /// The form's values by the names of its fields; only with `accept`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(as = "Option<Value>", optional)]
    pub content: Option<Map<String, Value>>,
}

/// A question and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct AnsweredQuestion {
    /// What was asked.
    #[serde(flatten)]
    pub asked: QuestionView,
    /// `accept`, `decline` or `cancel`.
    pub outcome: QuestionAction,
    /// The form's values; `•••` stands for what looks like a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(as = "Option<Value>", optional)]
    pub content: Option<Map<String, Value>>,
    /// Why, when it was not the user who answered.
    pub reason: Option<String>,
    /// When it was answered.
    pub answered_at: i64,
}
