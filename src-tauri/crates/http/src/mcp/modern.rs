//! Requests of revision 2026-07-28: each on a connection of its own, without a session.
//!
//! A request is a client of the hub for as long as its connection lasts: when that closes, the
//! client is gone and with it what it had running, which is how this revision cancels.

use super::{
    Admitted, Endpoints, Routes, SESSION_ID,
    post::{SILENT_START, json, refusal},
    sessions::Visit,
    stream::{self, Held},
    unread::Mail,
};
use axum::{
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use gantry_mcp::{
    Client, Envelope, Kind, ToClient,
    frame::{
        self, HEADER_MISMATCH, INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CAPABILITY,
        UNSUPPORTED_VERSION,
    },
    headers, modern, revision,
};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Whether a message is to be taken as one of this revision: it names one in its `_meta`, or
/// its headers do. `initialize` without a word of it is what it always was.
pub(super) fn is_one(message: &Envelope, headers: &HeaderMap) -> bool {
    if modern::version(message).is_some() {
        return true;
    }
    let says_so = names_it(headers)
        || (headers.contains_key(headers::METHOD) && !headers.contains_key(SESSION_ID));
    says_so && message.method() != "initialize"
}

/// Whether the headers name this revision.
pub(super) fn names_it(headers: &HeaderMap) -> bool {
    headers.get(headers::PROTOCOL_VERSION).is_some_and(|version| version == revision::MODERN)
}

/// Serves one message.
pub(super) async fn serve<E: Endpoints>(
    routes: &Routes<E>,
    admitted: &Admitted,
    headers: &HeaderMap,
    message: Envelope,
) -> Response {
    let id = message.id().unwrap_or("null").to_owned();
    let refuse = |code, why: &str, data| {
        let line = frame::error(&id, code, why, data).freeze();
        json(StatusCode::BAD_REQUEST, line)
    };
    match message.kind() {
        Kind::Request => {}
        // Nothing that a client says without asking means anything here.
        Kind::Notification => return StatusCode::ACCEPTED.into_response(),
        Kind::Result | Kind::Error => {
            let why = "a client of this revision is asked nothing, so it answers nothing";
            return refuse(INVALID_REQUEST, why, None);
        }
    }
    if let Err(why) = check_headers(headers, &message, admitted) {
        return refuse(HEADER_MISMATCH, &format!("Header mismatch: {why}"), None);
    }
    if let Err(wrong) = modern::Context::read(&message) {
        return refuse(wrong.code, &wrong.message, wrong.data);
    }
    let endpoint = &admitted.endpoint;
    let is_listen = message.method() == "subscriptions/listen";
    let visit = routes.sessions.enter(endpoint.session.clone(), is_listen);
    let label = endpoint.session.as_deref().unwrap_or("mcp");
    let (mailbox, answers) = gantry_mcp::mailbox();
    let mail = Arc::new(Mail { mailbox, lane: admitted.lane.clone() });
    let client = endpoint.hub.attach_to(label, mail);
    if let Err(line) = client.send_parsed(message) {
        return refusal(line);
    }
    answer(client, visit, answers, is_listen.then_some(id)).await
}

/// What comes for a request; `listen` is the id of one that stays open.
async fn answer(
    client: Client,
    visit: Visit,
    mut answers: mpsc::Receiver<ToClient>,
    listen: Option<String>,
) -> Response {
    let ended = || {
        let why = "Gantry is shutting down, or the session that the token belonged to has ended";
        let line = frame::error("null", frame::UNAVAILABLE, why, None).freeze();
        json(StatusCode::SERVICE_UNAVAILABLE, line)
    };
    let first = tokio::select! {
        biased;
        first = tokio::time::timeout(SILENT_START, answers.recv()) => first,
        () = visit.ended() => return ended(),
    };
    match first {
        Ok(Some(first)) if first.last => json(status(&first), first.line),
        Ok(None) => ended(),
        other => {
            let farewell = listen.map(|id| {
                let line = frame::result(&id, &gantry_mcp::hub::last_word(&id)).freeze();
                ToClient { line, concerning: Some(id), last: true }
            });
            let held = Held { visit, farewell, _client: client };
            stream::events(other.ok().flatten(), answers, Some(1), Some(held))
        }
    }
}

/// An answer that says that the request could not be served says so in its status, too.
fn status(answer: &ToClient) -> StatusCode {
    // A result can be large, and is none of these.
    const SHORT: usize = 64 * 1024;
    if answer.line.len() > SHORT {
        return StatusCode::OK;
    }
    let Ok(answer) = Envelope::parse(answer.line.clone()) else { return StatusCode::OK };
    if answer.kind() != Kind::Error {
        return StatusCode::OK;
    }
    let code = answer.outcome().and_then(|error| frame::field(error, "code"));
    match code.and_then(|code| code.parse::<i64>().ok()) {
        Some(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// Whether the headers say what the body says.
///
/// # Errors
/// Which does not.
fn check_headers(
    headers: &HeaderMap,
    message: &Envelope,
    admitted: &Admitted,
) -> Result<(), String> {
    let version = modern::version(message);
    let header = text(headers, headers::PROTOCOL_VERSION)?;
    let Some(header) = header else {
        return Err("the header MCP-Protocol-Version is missing".to_owned());
    };
    if version.as_deref().is_some_and(|version| version != header) {
        return Err(format!(
            "MCP-Protocol-Version says `{header}`, the body `{}`",
            version.unwrap_or_default()
        ));
    }
    agrees("Mcp-Method", text(headers, headers::METHOD)?, Some(message.method()))?;
    if let Some(name) = headers::name_of(message) {
        let header = match text(headers, headers::NAME)? {
            Some(header) => Some(headers::decode(header).map_err(|_| unreadable("Mcp-Name"))?),
            None => None,
        };
        agrees("Mcp-Name", header.as_deref(), name.as_deref())?;
    }
    if message.method() == "tools/call" {
        check_parameters(headers, message, admitted)?;
    }
    Ok(())
}

/// The parameters of a tool that are repeated in headers.
fn check_parameters(
    headers: &HeaderMap,
    message: &Envelope,
    admitted: &Admitted,
) -> Result<(), String> {
    let tool = message.param(&["name"]).and_then(frame::string).unwrap_or_default();
    let Some(mirrored) = admitted.endpoint.hub.mirrored(&tool) else { return Ok(()) };
    let arguments = message.param(&["arguments"]).unwrap_or("{}");
    for parameter in mirrored.iter() {
        let name = format!("{}{}", headers::PARAMETER, parameter.name);
        if !parameter.agrees(arguments, text(headers, &name)?) {
            return Err(format!(
                "{name} is missing, cannot be read, or does not say what the argument says"
            ));
        }
    }
    Ok(())
}

fn agrees(name: &str, header: Option<&str>, body: Option<&str>) -> Result<(), String> {
    match (header, body) {
        (header, body) if header == body => Ok(()),
        (None, _) => Err(format!("the header {name} is missing")),
        (Some(header), Some(body)) => Err(format!("{name} says `{header}`, the body `{body}`")),
        (Some(header), None) => Err(format!("{name} says `{header}`, the body nothing")),
    }
}

/// A header, without the white space around it. One that is there twice must say the same.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, String> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.any(|other| other != first) {
        return Err(format!("the header {name} is there twice and says two things"));
    }
    let text = first.to_str().map_err(|_| unreadable(name))?;
    Ok(Some(text.trim_matches([' ', '\t'])))
}

fn unreadable(name: &str) -> String {
    format!("the header {name} holds characters that it cannot hold")
}
