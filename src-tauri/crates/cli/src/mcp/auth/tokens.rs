//! The token of one carried session: sent with each request, renewed by one for all, and missed
//! in a way that the user hears of.

use super::{
    Refusal, discover, manager,
    record::{Record, RecordFile, Stamp, Store, speak_as},
};
use crate::mcp::remote::lock;
use bytes::Bytes;
use gantry_core::bridge::{SIGN_IN_LIMIT, SIGN_IN_NOTICE};
use gantry_mcp::frame;
use reqwest::{
    RequestBuilder, Response, StatusCode, Url,
    header::{HeaderValue, WWW_AUTHENTICATE},
};
use rmcp::transport::auth::{AuthError, WWWAuthenticateParams};
use serde_json::json;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{sync::mpsc, time::Instant};

/// How often it is looked whether the user has.
const LOOK: Duration = Duration::from_millis(250);
/// A token is renewed when it has less left than this, and less than half of its time.
const MARGIN: u64 = 30;
/// How often one request may be refused and tried again with another token.
const TRIES: u32 = 4;

/// What to do with a request that needs a sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Its refusal is the answer.
    None,
    /// It waits for the user, without a word: others will have said it.
    Quiet,
    /// It waits for the user, who is told.
    Told,
}

/// The sign-in of one remote server.
pub struct Tokens {
    url: Url,
    file: RecordFile,
    seen: Mutex<(Option<Stamp>, Record)>,
    /// One renews, the others wait for it.
    renewing: tokio::sync::Mutex<()>,
    wanted: AtomicBool,
    waiting: AtomicUsize,
    out: Mutex<Option<mpsc::Sender<Bytes>>>,
}

/// What a server wants.
enum Demand {
    /// Another token, or one at all.
    Token(Option<String>),
    /// One that may do more.
    Scopes(String, Vec<String>),
}

enum Next {
    Again,
    /// The user is needed.
    User,
    /// Nothing can be done about it.
    Stay,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

impl Tokens {
    /// What the file says of the server at `url`.
    pub fn new(url: Url, file: RecordFile) -> Self {
        Self {
            url,
            seen: Mutex::new((file.stamp(), file.read())),
            file,
            renewing: tokio::sync::Mutex::default(),
            wanted: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            out: Mutex::default(),
        }
    }

    /// Whether the user is needed, and no call waits for that, so that the session may as well end.
    pub fn wants_user(&self) -> bool {
        self.is_wanted() && self.waiting.load(Ordering::Acquire) == 0
    }

    /// A session begins: what an earlier one wanted is over.
    pub fn begin(&self) {
        self.wanted.store(false, Ordering::Release);
    }

    /// The token as it is, for a last message.
    pub fn present(&self) -> Option<HeaderValue> {
        self.record().access_token().as_deref().and_then(bearer)
    }

    /// Whether the user is needed, also when calls wait for that.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Where it is said that calls wait for the user.
    pub fn tell(&self, out: mpsc::Sender<Bytes>) {
        *lock(&self.out) = Some(out);
    }

    /// The record as it is now.
    fn record(&self) -> Record {
        let stamp = self.file.stamp();
        let mut seen = lock(&self.seen);
        if seen.0 != stamp {
            *seen = (stamp, self.file.read());
        }
        seen.1.clone()
    }

    /// Sends a request with the token there is. A refusal for want of a (better) token has it
    /// renewed, and else waits for the user as `patience` says; the request is then sent again,
    /// which is safe: it was refused.
    ///
    /// # Errors
    /// As the request itself.
    pub async fn send(
        &self,
        request: RequestBuilder,
        patience: Patience,
    ) -> reqwest::Result<Response> {
        let mut may_wait = patience != Patience::None;
        for _ in 0..TRIES {
            // What is sent here has its body in memory, so that it can be sent again.
            let Some(attempt) = request.try_clone() else { break };
            let token = self.token().await;
            let attempt = match token.as_deref().and_then(bearer) {
                Some(header) => attempt.header("authorization", header),
                None => attempt,
            };
            let response = attempt.send().await?;
            let Some(demand) = self.demand(&response) else {
                if token.is_some() && response.status().is_success() {
                    self.wanted.store(false, Ordering::Release);
                }
                return Ok(response);
            };
            let stays = match self.answer(&demand, token.as_deref()).await {
                Next::Again => false,
                Next::Stay => true,
                Next::User => {
                    self.wanted.store(true, Ordering::Release);
                    !std::mem::take(&mut may_wait) || !self.user_came(patience).await
                }
            };
            if stays {
                return Ok(response);
            }
        }
        request.send().await
    }

    fn demand(&self, response: &Response) -> Option<Demand> {
        let said = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let mut said = said.filter_map(|value| value.to_str().ok());
        let is_bearer =
            |said: &&str| said.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
        match response.status() {
            StatusCode::UNAUTHORIZED => {
                let has_any = response.headers().contains_key(WWW_AUTHENTICATE);
                let challenge = said.find(is_bearer).map(str::to_owned);
                (challenge.is_some() || !has_any).then_some(Demand::Token(challenge))
            }
            StatusCode::FORBIDDEN => said.filter(is_bearer).find_map(|said| {
                let wanted = WWWAuthenticateParams::parse(said, &self.url);
                let scopes = wanted.scope.as_deref().unwrap_or_default();
                let scopes: Vec<String> = scopes.split_whitespace().map(str::to_owned).collect();
                (wanted.is_insufficient_scope() && !scopes.is_empty())
                    .then(|| Demand::Scopes(said.to_owned(), scopes))
            }),
            _ => None,
        }
    }

    /// The token to send, renewed when it is about to expire.
    async fn token(&self) -> Option<String> {
        let record = self.record();
        let token = record.access_token()?;
        if !is_expiring(&record) {
            return Some(token);
        }
        // One that cannot be renewed may still be good.
        match self.renew(&token).await {
            Ok(()) => self.record().access_token(),
            Err(_) => Some(token),
        }
    }

    async fn answer(&self, demand: &Demand, used: Option<&str>) -> Next {
        if self.record().access_token().as_deref() != used {
            // Somebody got another one meanwhile.
            return Next::Again;
        }
        match demand {
            Demand::Token(challenge) => {
                if let Some(used) = used {
                    match self.renew(used).await {
                        Ok(()) => return Next::Again,
                        Err(Refusal::Passing(why)) => {
                            tracing::warn!(why, "the sign-in could not be renewed now");
                            return Next::Stay;
                        }
                        Err(Refusal::Final(why)) => {
                            tracing::warn!(why, "the sign-in cannot be renewed");
                        }
                    }
                } else if challenge.is_none() && !self.can_sign_in().await {
                    return Next::Stay;
                }
                self.note(|record| {
                    record.challenge.clone_from(challenge);
                    if record.access_token().as_deref() == used {
                        record.credentials = None;
                    }
                })
                .await
            }
            Demand::Scopes(challenge, scopes) => {
                let granted = self.record().credentials.map(|it| it.granted_scopes);
                let mut wanted = granted.unwrap_or_default();
                if scopes.iter().all(|scope| wanted.contains(scope)) {
                    // It has been granted what it asks for; to be asked again would change nothing.
                    return Next::Stay;
                }
                let missing = scopes.iter().filter(|scope| !wanted.contains(scope));
                let missing: Vec<String> = missing.cloned().collect();
                wanted.extend(missing);
                self.note(|record| {
                    record.challenge = Some(challenge.clone());
                    record.scopes.clone_from(&wanted);
                })
                .await
            }
        }
    }

    /// Whether there is a place to sign in to: a 401 without a word may also mean a missing key.
    async fn can_sign_in(&self) -> bool {
        match manager(&self.url).await {
            Ok(mut manager) => discover(&mut manager, None).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Writes down what the user is needed for.
    async fn note(&self, change: impl FnOnce(&mut Record)) -> Next {
        let noted = async {
            let locked = self.file.lock().await?;
            let mut record = self.file.read();
            change(&mut record);
            self.file.write(&record, &locked)
        };
        if let Err(error) = noted.await {
            tracing::warn!(%error, "what a sign-in needs cannot be written down");
        }
        Next::User
    }

    /// Gets another token in place of `stale`, unless somebody has.
    async fn renew(&self, stale: &str) -> Result<(), Refusal> {
        let _one = self.renewing.lock().await;
        let io = |error: std::io::Error| Refusal::Passing(error.to_string());
        // Another process may have a session with the same server.
        let locked = self.file.lock().await.map_err(io)?;
        let record = self.file.read();
        if record.access_token().is_some_and(|token| token != stale) {
            return Ok(());
        }
        let Some((client, credentials)) = record.client.zip(record.credentials) else {
            return Err(AuthError::AuthorizationRequired.into());
        };
        let mut manager = manager(&self.url).await.map_err(Refusal::Final)?;
        let metadata = discover(&mut manager, record.challenge.as_deref()).await?;
        if metadata.issuer != credentials.issuer {
            return Err(Refusal::Final("it names another authorization server now".into()));
        }
        speak_as(&mut manager, &client, "http://127.0.0.1/callback")?;
        manager.set_credential_store(Store::renewing(self.file.clone(), locked));
        manager.refresh_token().await?;
        Ok(())
    }

    /// Waits until the user has signed in, or has had the time to.
    async fn user_came(&self, patience: Patience) -> bool {
        let _waiting = (patience == Patience::Told).then(|| Waiting::new(self));
        let until = Instant::now() + SIGN_IN_LIMIT;
        while Instant::now() < until {
            tokio::time::sleep(LOOK).await;
            let record = self.record();
            if record.is_signed_in() {
                return true;
            }
        }
        false
    }

    fn say(&self, needed: bool) {
        let params = json!({ "needed": needed }).to_string();
        let line = frame::notification(SIGN_IN_NOTICE, Some(&params)).freeze();
        if let Some(out) = &*lock(&self.out) {
            // A bridge that does not read will not hear of it later either.
            let _ = out.try_send(line);
        }
    }
}

/// A call that waits for the user.
struct Waiting<'a>(&'a Tokens);

impl<'a> Waiting<'a> {
    fn new(tokens: &'a Tokens) -> Self {
        if tokens.waiting.fetch_add(1, Ordering::AcqRel) == 0 {
            tokens.say(true);
        }
        Self(tokens)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let is_last = self.0.waiting.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && self.0.record().is_signed_in() {
            self.0.say(false);
        }
    }
}

fn is_expiring(record: &Record) -> bool {
    use oauth2::TokenResponse;
    let Some(credentials) = &record.credentials else { return false };
    let lasts = credentials.token_response.as_ref().and_then(TokenResponse::expires_in);
    let Some((lasts, since)) = lasts.zip(credentials.token_received_at) else { return false };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let left = lasts.as_secs().saturating_sub(now.saturating_sub(since));
    left < MARGIN.min(lasts.as_secs() / 2).max(1)
}

fn bearer(token: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    header.set_sensitive(true);
    Some(header)
}
