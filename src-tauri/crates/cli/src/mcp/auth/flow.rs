//! One sign-in: finds out where, says at which page, waits for the browser to come back, and
//! writes down the tokens.
//!
//! What the bridge reads on standard output is a line `{"url"}`, then `{"done":true}` or
//! `{"error"}`. It ends with the end of its input, which is how the bridge gives up.
//!
//! The browser comes back to a listener of this sign-in alone, on the loopback address and a port
//! of its own. It listens as long as the sign-in is pending and takes only the `state` of that;
//! what else may come there changes nothing.

use super::{
    discover, manager,
    page::Outcome,
    record::{Client, RecordFile, Store, speak_as},
};
use crate::mcp::{
    complain,
    config::{Kind, Oauth, Server},
    signal,
};
use axum::{
    Router,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{Html, IntoResponse, Response},
    routing::get,
};
use gantry_core::bridge::{SIGN_IN_LIMIT, SIGN_IN_OVER};
use reqwest::Url;
use rmcp::transport::auth::{AuthorizationCallback, AuthorizationManager};
use serde_json::json;
use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::oneshot,
};

/// How long it may take to find out where to sign in.
const FOUND: Duration = Duration::from_secs(45);
/// How long the page that the browser came back for may take to be sent.
const SHOWN: Duration = Duration::from_millis(500);
/// What people see when they are asked whether they want to let us in.
const NAME: &str = "Gantry";

/// Signs in. Returns the exit code.
pub async fn run(server: Server) -> u8 {
    let signal = signal();
    let gone = async {
        let mut sink = [0; 64];
        // What is said there does not matter.
        while tokio::io::stdin().read(&mut sink).await.is_ok_and(|length| length > 0) {}
    };
    let done = tokio::select! {
        done = sign_in(server) => done,
        () = gone => Err("it was given up".to_owned()),
        () = signal => Err("it was given up".to_owned()),
        () = tokio::time::sleep(SIGN_IN_LIMIT + FOUND) => Err(SIGN_IN_OVER.to_owned()),
    };
    match done {
        Ok(()) => {
            say(&json!({ "done": true })).await;
            0
        }
        Err(why) => {
            say(&json!({ "error": why })).await;
            complain(&format!("gantry: mcp: sign-in: {why}"));
            1
        }
    }
}

async fn say(what: &serde_json::Value) {
    let mut output = tokio::io::stdout();
    // Whoever read it may be gone.
    let _ = output.write_all(format!("{what}\n").as_bytes()).await;
    let _ = output.flush().await;
}

async fn sign_in(server: Server) -> Result<(), String> {
    let (url, oauth) = match server.kind {
        Kind::Remote { url, oauth, .. } => (url, oauth),
        Kind::Unusable(why) => return Err(why),
        Kind::Program { .. } => return Err("a program is not signed in to".to_owned()),
    };
    let file = RecordFile::given().ok_or("it has no file to be written to")?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, oauth.redirect_port.unwrap_or(0)))
        .await
        .map_err(|error| match oauth.redirect_port {
            Some(port) => format!("port {port} of `oauth.redirectPort` cannot be used: {error}"),
            None => format!("there is no port to come back to: {error}"),
        })?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    let redirect = format!("http://127.0.0.1:{port}/callback");
    let found = tokio::time::timeout(FOUND, begin(&url, &oauth, &file, &redirect)).await;
    let begun = found.map_err(|_| "its authorization server does not answer".to_owned())??;
    let (tell, told) = oneshot::channel();
    let pending = Pending { state: begun.state.clone(), port, tell: Mutex::new(Some(tell)) };
    let router = Router::new().route("/callback", get(came_back)).with_state(Arc::new(pending));
    let serve = axum::serve(listener, router);
    say(&json!({ "url": begun.url })).await;
    let finish = async {
        let (answer, page) = told.await.map_err(|_| "the browser did not come back".to_owned())?;
        let finished = begun.finish(&file, answer).await;
        let outcome = if finished.is_ok() { Outcome::Done } else { Outcome::Failed };
        // The browser may have been closed.
        let _ = page.send(outcome);
        tokio::time::sleep(SHOWN).await;
        finished
    };
    tokio::select! {
        finished = finish => finished,
        served = async { serve.await } => {
            served.map_err(|error| error.to_string())?;
            Err("the listener for the browser ended".to_owned())
        }
    }
}

/// A sign-in that waits for the browser.
struct Begun {
    manager: AuthorizationManager,
    client: Client,
    state: String,
    url: String,
}

async fn begin(
    url: &Url,
    oauth: &Oauth,
    file: &RecordFile,
    redirect: &str,
) -> Result<Begun, String> {
    let record = file.read();
    let mut manager = manager(url).await?;
    let metadata =
        discover(&mut manager, record.challenge.as_deref()).await.map_err(super::Refusal::text)?;
    let mut scopes = oauth.scopes.clone();
    scopes.extend(record.scopes.iter().filter(|scope| !oauth.scopes.contains(scope)).cloned());
    if scopes.is_empty() {
        scopes = manager.select_initial_scopes(&[]).await;
    }
    let names: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let client = match (&oauth.client_id, metadata.registration_endpoint) {
        (Some(id), _) => Client { id: id.clone(), secret: oauth.client_secret.clone() },
        (None, Some(_)) => {
            let registered = manager.register_client(NAME, redirect, &names).await;
            let registered =
                registered.map_err(|error| format!("Gantry was not registered: {error}"))?;
            Client { id: registered.client_id, secret: registered.client_secret }
        }
        (None, None) => {
            return Err(
                "its authorization server takes no registration; register Gantry there by hand, \
                 with the redirect address http://127.0.0.1/callback, and give its id as \
                 `oauth.clientId`"
                    .to_owned(),
            );
        }
    };
    let spoken = speak_as(&mut manager, &client, redirect);
    spoken.map_err(|error| error.to_string())?;
    let page = manager.get_authorization_url(&names).await.map_err(|error| error.to_string())?;
    let state = Url::parse(&page).ok().and_then(|page| parameter(&page, "state"));
    let state = state.ok_or("the page to sign in at is not a usable address")?;
    Ok(Begun { manager, client, state, url: page })
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

impl Begun {
    async fn finish(mut self, file: &RecordFile, answer: Answer) -> Result<(), String> {
        let callback = match answer {
            Answer::Came(callback) => callback,
            Answer::Refused(why) => return Err(why),
        };
        let locked = file.lock().await;
        let locked = locked.map_err(|error| format!("it cannot be written down: {error}"))?;
        self.manager.set_credential_store(Store::beginning(file.clone(), locked, self.client));
        let (code, state, issuer) = (&callback.code, &callback.csrf_token, &callback.issuer);
        let exchanged =
            self.manager.exchange_code_for_token_with_issuer(code, state, issuer.as_deref());
        exchanged.await.map(drop).map_err(|error| crate::mcp::remote::chain(&error))
    }
}

/// What the browser brought back.
enum Answer {
    Came(AuthorizationCallback),
    Refused(String),
}

/// With the way to the page that is shown for it.
type Return = (Answer, oneshot::Sender<Outcome>);

/// What waits for the browser, and where the page that it gets comes from.
struct Pending {
    state: String,
    port: u16,
    tell: Mutex<Option<oneshot::Sender<Return>>>,
}

async fn came_back(
    State(pending): State<Arc<Pending>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let ours = format!("127.0.0.1:{}", pending.port);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    if host != Some(ours.as_str()) {
        return show(StatusCode::FORBIDDEN, Outcome::Foreign);
    }
    let url = format!("http://{ours}/callback?{}", query.unwrap_or_default());
    let Some(answer) = answer(&url, &pending.state) else {
        return show(StatusCode::BAD_REQUEST, Outcome::Foreign);
    };
    let tell = pending.tell.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (page, shown) = oneshot::channel();
    if tell.is_none_or(|tell| tell.send((answer, page)).is_err()) {
        return show(StatusCode::BAD_REQUEST, Outcome::Foreign);
    }
    match shown.await {
        Ok(Outcome::Done) => show(StatusCode::OK, Outcome::Done),
        _ => show(StatusCode::BAD_REQUEST, Outcome::Failed),
    }
}

/// What a return means; `None` when it is not of this sign-in.
fn answer(url: &str, state: &str) -> Option<Answer> {
    let parsed = Url::parse(url).ok()?;
    if parameter(&parsed, "state").as_deref() != Some(state) {
        return None;
    }
    if let Some(error) = parameter(&parsed, "error") {
        // It comes from outside: a word, no more.
        let is_word = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let word: String = error.chars().filter(is_word).take(60).collect();
        return Some(Answer::Refused(match word.as_str() {
            "access_denied" => "it was declined in the browser".to_owned(),
            word => format!("the authorization server answered `{word}`"),
        }));
    }
    AuthorizationCallback::from_redirect_url(url).ok().map(Answer::Came)
}

fn show(status: StatusCode, outcome: Outcome) -> Response {
    let headers = [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
        // The address holds the code.
        (header::CONNECTION, "close"),
    ];
    (status, headers, Html(outcome.html())).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_return_with_the_state_of_this_sign_in_counts() {
        let of = |query: &str| answer(&format!("http://127.0.0.1:1/callback?{query}"), "st");
        assert!(of("code=c&state=other").is_none());
        assert!(of("code=c").is_none());
        assert!(of("error=access_denied&state=other").is_none());
        assert!(of("state=st").is_none());
        let Some(Answer::Came(came)) = of("code=c&state=st&iss=https%3A%2F%2Fh") else { panic!() };
        assert_eq!((came.code.as_str(), came.issuer.as_deref()), ("c", Some("https://h")));
        let Some(Answer::Refused(why)) = of("error=%3Cscript%3E&state=st") else { panic!() };
        assert!(!why.contains('<'), "{why}");
    }
}
