//! A remote MCP server that wants a sign-in, and the authorization server that it trusts, each at
//! a port of its own; with all the ways in which either may be wrong.

use axum::{
    Router,
    body::Bytes,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::net::TcpListener;

/// What is wrong with them.
#[derive(Clone, Default)]
pub struct Faults {
    /// Only `tools/call` wants a token.
    pub guards_calls_only: bool,
    /// A 401 says nothing of where to sign in.
    pub is_silent: bool,
    /// The metadata of the authorization server is of another issuer.
    pub is_another_issuer: bool,
    /// The metadata of the server is that of another server.
    pub is_another_resource: bool,
    /// The authorization server does not say that it knows PKCE.
    pub lacks_pkce: bool,
    /// The authorization server takes no registration.
    pub lacks_registration: bool,
    /// The page for the user is not https.
    pub has_plain_page: bool,
    /// The browser comes back with another issuer.
    pub returns_other_issuer: bool,
    /// The browser comes back without an issuer, though one was promised.
    pub returns_no_issuer: bool,
    /// The user says no.
    pub declines: bool,
    /// A refresh token is refused.
    pub refuses_refresh: bool,
    /// The authorization server is there no more when a token is to be renewed.
    pub breaks_refresh: bool,
}

/// What they have done.
#[derive(Clone, Default)]
pub struct Seen {
    /// Clients that registered.
    pub registrations: Vec<Value>,
    /// Parameters of each token request.
    pub tokens: Vec<HashMap<String, String>>,
    /// Tokens that were given out, access and refresh.
    pub secrets: Vec<String>,
    /// Calls that were carried out.
    pub calls: usize,
    /// Requests with a token that came to the authorization server, where none belongs.
    pub strays: usize,
}

#[derive(Default)]
struct Known {
    faults: Faults,
    seen: Seen,
    /// Of the code: challenge, redirect, scopes.
    codes: HashMap<String, (String, String, String)>,
    /// Scopes of each access token that is good.
    access: HashMap<String, String>,
    /// Scopes of the refresh token that is good.
    refresh: HashMap<String, String>,
    serial: usize,
    lifetime: u64,
}

/// Both servers, while this is there.
pub struct Authority {
    known: Arc<Both>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

struct Both {
    known: Mutex<Known>,
    resource: String,
    issuer: String,
}

impl Both {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Shared = State<Arc<Both>>;

impl Authority {
    /// Starts both.
    ///
    /// # Panics
    /// When there are no ports.
    pub async fn start(faults: Faults) -> Self {
        let (resource, resource_at) = listen().await;
        let (issuer, issuer_at) = listen().await;
        let known = Mutex::new(Known { faults, lifetime: 3600, ..Known::default() });
        let known = Arc::new(Both { known, resource: resource_at, issuer: issuer_at });
        let of_resource = Router::new()
            .route("/mcp", post(message))
            .route("/.well-known/oauth-protected-resource/mcp", get(about_resource))
            .with_state(known.clone());
        let of_issuer = Router::new()
            .route("/.well-known/oauth-authorization-server", get(about_issuer))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(known.clone());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        tokio::spawn(async move {
            let both = futures::future::join(
                axum::serve(resource, of_resource).into_future(),
                axum::serve(issuer, of_issuer).into_future(),
            );
            tokio::select! {
                _ = both => {}
                _ = stopped => {}
            }
        });
        Self { known, stop: Some(stop) }
    }

    /// The MCP server's address.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.known.resource)
    }

    /// Where an honest page for the user is.
    pub fn issuer(&self) -> &str {
        &self.known.issuer
    }

    /// What was done until now.
    pub fn seen(&self) -> Seen {
        self.known.lock().seen.clone()
    }

    /// Changes what is wrong.
    pub fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.known.lock().faults);
    }

    /// How long a token is good that is given out from now on, seconds.
    pub fn set_lifetime(&self, seconds: u64) {
        self.known.lock().lifetime = seconds;
    }

    /// No access token is good any more.
    pub fn expire(&self) {
        self.known.lock().access.clear();
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
    }
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap_or_else(|why| panic!("{why}"));
    let address = listener.local_addr().unwrap_or_else(|why| panic!("{why}"));
    (listener, format!("http://{address}"))
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn good(body: &Value) -> Response {
    json_response(StatusCode::OK, body)
}

async fn about_resource(State(both): Shared) -> Response {
    let elsewhere = both.lock().faults.is_another_resource;
    let resource = if elsewhere { "https://elsewhere.example" } else { both.resource.as_str() };
    good(&json!({
        "resource": format!("{resource}/mcp"),
        "authorization_servers": [both.issuer],
        "scopes_supported": ["read"],
    }))
}

async fn about_issuer(State(both): Shared) -> Response {
    let faults = both.lock().faults.clone();
    let at = both.issuer.as_str();
    let other = "https://elsewhere.example";
    let page = if faults.has_plain_page { "http://elsewhere.example" } else { at };
    let mut about = json!({
        "issuer": if faults.is_another_issuer { other } else { at },
        "authorization_endpoint": format!("{page}/authorize"),
        "token_endpoint": format!("{at}/token"),
        "response_types_supported": ["code"],
        "authorization_response_iss_parameter_supported": true,
        "scopes_supported": ["read", "write", "offline_access"],
    });
    if !faults.lacks_pkce {
        about["code_challenge_methods_supported"] = json!(["plain", "S256"]);
    }
    if !faults.lacks_registration {
        about["registration_endpoint"] = json!(format!("{at}/register"));
    }
    good(&about)
}

async fn register(State(both): Shared, headers: HeaderMap, body: Bytes) -> Response {
    let wanted: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut known = both.lock();
    known.seen.strays += usize::from(headers.contains_key(header::AUTHORIZATION));
    known.seen.registrations.push(wanted.clone());
    let id = format!("client-{}", known.seen.registrations.len());
    let redirects = &wanted["redirect_uris"];
    json_response(StatusCode::CREATED, &json!({ "client_id": id, "redirect_uris": redirects }))
}

fn parameters(query: &str) -> HashMap<String, String> {
    let url = Url::parse(&format!("http://h/?{query}"));
    url.map(|url| url.query_pairs().into_owned().collect()).unwrap_or_default()
}

async fn authorize(State(both): Shared, RawQuery(query): RawQuery) -> Response {
    let asked = parameters(&query.unwrap_or_default());
    let of = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let is_right = of("response_type") == "code"
        && of("code_challenge_method") == "S256"
        && of("resource") == format!("{}/mcp", both.resource)
        && !of("state").is_empty();
    let Some(mut back) = Url::parse(&of("redirect_uri")).ok().filter(|_| is_right) else {
        return json_response(StatusCode::BAD_REQUEST, &json!({ "asked": asked }));
    };
    let mut known = both.lock();
    let faults = known.faults.clone();
    if faults.declines {
        back.query_pairs_mut().append_pair("error", "access_denied");
    } else {
        known.serial += 1;
        let code = format!("code-{}-{}", known.serial, of("state"));
        known.seen.secrets.push(code.clone());
        back.query_pairs_mut().append_pair("code", &code);
        known.codes.insert(code, (of("code_challenge"), of("redirect_uri"), of("scope")));
    }
    back.query_pairs_mut().append_pair("state", &of("state"));
    if faults.returns_other_issuer {
        back.query_pairs_mut().append_pair("iss", "https://elsewhere.example");
    } else if !faults.returns_no_issuer {
        back.query_pairs_mut().append_pair("iss", &both.issuer);
    }
    (StatusCode::FOUND, [(header::LOCATION, back.to_string())]).into_response()
}

async fn token(State(both): Shared, body: Bytes) -> Response {
    let asked = parameters(&String::from_utf8_lossy(&body));
    let of = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let mut known = both.lock();
    known.seen.tokens.push(asked.clone());
    let refuse = || json_response(StatusCode::BAD_REQUEST, &json!({ "error": "invalid_grant" }));
    if of("resource") != format!("{}/mcp", both.resource) {
        return refuse();
    }
    let scopes = if of("grant_type") == "refresh_token" {
        if known.faults.breaks_refresh {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        // Each refresh token is good once.
        match known.refresh.remove(&of("refresh_token")) {
            Some(scopes) if !known.faults.refuses_refresh => scopes,
            _ => return refuse(),
        }
    } else {
        let Some((challenge, redirect, scopes)) = known.codes.remove(&of("code")) else {
            return refuse();
        };
        let verifier = URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier")));
        if verifier != challenge || redirect != of("redirect_uri") {
            return refuse();
        }
        scopes
    };
    known.serial += 1;
    let (access, refresh) =
        (format!("access-{}-s3cret", known.serial), format!("refresh-{}-s3cret", known.serial));
    known.access.insert(access.clone(), scopes.clone());
    known.refresh.insert(refresh.clone(), scopes.clone());
    known.seen.secrets.extend([access.clone(), refresh.clone()]);
    good(&json!({
        "access_token": access, "token_type": "Bearer", "expires_in": known.lifetime,
        "refresh_token": refresh, "scope": scopes,
    }))
}

async fn message(State(both): Shared, headers: HeaderMap, body: Bytes) -> Response {
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut known = both.lock();
    let is_call = asked["method"] == "tools/call";
    let tool = asked["params"]["name"].as_str().unwrap_or_default();
    let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    let scopes = known.access.get(token).cloned();
    let has = |scope: &str| scopes.as_ref().is_some_and(|all| all.split(' ').any(|it| it == scope));
    let about = format!(
        "Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"",
        both.resource
    );
    if (is_call || !known.faults.guards_calls_only) && scopes.is_none() {
        let silent = known.faults.is_silent;
        let about = format!("{about}, scope=\"read\"");
        let response = StatusCode::UNAUTHORIZED;
        if silent {
            return response.into_response();
        }
        return (response, [(header::WWW_AUTHENTICATE, about)]).into_response();
    }
    if is_call && tool == "write" && !has("write") {
        let about = format!("{about}, error=\"insufficient_scope\", scope=\"write\"");
        return (StatusCode::FORBIDDEN, [(header::WWW_AUTHENTICATE, about)]).into_response();
    }
    let schema = json!({ "type": "object" });
    let result = match asked["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "guarded", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [
            { "name": "echo", "inputSchema": schema }, { "name": "write", "inputSchema": schema },
        ] }),
        "tools/call" => {
            known.seen.calls += 1;
            json!({ "content": [{ "type": "text", "text": format!("did {tool}") }] })
        }
        "ping" => json!({}),
        _ if asked["id"].is_null() => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({ "code": -32601, "message": "Method not found" });
            return good(&json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error }));
        }
    };
    good(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }))
}
