//! `/mcp/{server}`: the bridge as streamable HTTP (contract, section 2).
//!
//! One request of MCP's transport is one function here: [`post`] carries messages of
//! the client, [`get`] opens the stream for what belongs to no request, [`delete`]
//! ends a session. Revision 2026-07-28 has neither sessions nor streams of their own:
//! [`modern`]. Which of the two a request means, it says itself. What happens to a message is decided by [`gantry_mcp::Hub`].
//!
//! `Host` and `Origin` are checked by the layer around this router; the token, which is one
//! per Gantry session, here. The listener must set `TCP_NODELAY`, else each
//! answer takes 40 ms.

mod modern;
mod post;
mod session;
mod sessions;
mod stream;
#[cfg(test)]
mod tests;
mod unread;

pub use sessions::Sessions;
pub(crate) use unread::Cut;

use axum::{
    Router,
    extract::{FromRequestParts, Path, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing,
};
use gantry_core::bridge::{Bridge, Endpoint, Unresolved};
use gantry_mcp::{frame, headers::PROTOCOL_VERSION, revision};
use session::Session;
use std::sync::Arc;
use unread::Lane;

/// The border to whoever owns the servers.
pub trait Endpoints: Clone + Send + Sync + 'static {
    /// Finds the server `server` (decoded) for the bearer of `token`.
    ///
    /// # Errors
    /// See [`Unresolved`].
    fn resolve(&self, token: &str, server: &str) -> Result<Endpoint, Unresolved>;
}

impl Endpoints for Bridge {
    fn resolve(&self, token: &str, server: &str) -> Result<Endpoint, Unresolved> {
        Self::resolve(self, token, server)
    }
}

/// The routes. The same `sessions` ends them on shutdown.
pub fn router<E: Endpoints>(endpoints: E, sessions: Sessions) -> Router {
    // There is nothing to look at without taking it: without this, GET would answer HEAD.
    let head = async || StatusCode::METHOD_NOT_ALLOWED;
    let methods = routing::post(post::post::<E>).get(get::<E>).delete(delete::<E>).head(head);
    Router::new().route("/mcp/{server}", methods).with_state(Routes { endpoints, sessions })
}

/// What the routes work with.
#[derive(Clone)]
struct Routes<E> {
    endpoints: E,
    sessions: Sessions,
}

/// `Mcp-Session-Id`, which must be lower case here.
const SESSION_ID: &str = "mcp-session-id";

/// A refusal that is not a JSON-RPC message of the server: status and a sentence.
#[derive(Debug)]
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(status, why) = self;
        let body = frame::error("null", frame::UNAVAILABLE, &why, None).freeze();
        let json = HeaderValue::from_static("application/json");
        let mut response = (status, [(header::CONTENT_TYPE, json)], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// A caller who may talk to this server.
struct Admitted {
    server: String,
    endpoint: Endpoint,
    /// The way to the connection of the request.
    lane: Lane,
}

impl<E: Endpoints> FromRequestParts<Routes<E>> for Admitted {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, routes: &Routes<E>) -> Result<Self, Refused> {
        // A DELETE may still be served while streams end; nothing else.
        if routes.sessions.is_closed() && parts.method != Method::DELETE {
            let why = "Gantry is shutting down";
            return Err(Refused(StatusCode::SERVICE_UNAVAILABLE, why.to_owned()));
        }
        let token = bearer(&parts.headers).map(str::to_owned).ok_or_else(|| {
            let why = "this route needs `Authorization: Bearer <token of the session>`";
            Refused(StatusCode::UNAUTHORIZED, why.to_owned())
        })?;
        let path = Path::<String>::from_request_parts(parts, routes).await;
        let Path(server) = path.map_err(|error| {
            Refused(StatusCode::BAD_REQUEST, format!("the server's name cannot be read: {error}"))
        })?;
        let endpoint = routes.endpoints.resolve(&token, &server).map_err(|why| match why {
            Unresolved::BadToken => {
                let why = "the token is not valid (any more); the session that it belonged to may have ended";
                Refused(StatusCode::UNAUTHORIZED, why.to_owned())
            }
            Unresolved::UnknownServer => {
                Refused(StatusCode::NOT_FOUND, format!("this session has no server `{server}`"))
            }
        })?;
        // The listener puts it there.
        let cut = parts.extensions.get::<Cut>().cloned().unwrap_or_default();
        Ok(Self { server, endpoint, lane: routes.sessions.lane(cut) })
    }
}

impl Admitted {
    /// The MCP session that the request names.
    fn session(&self, headers: &HeaderMap, sessions: &Sessions) -> Result<Arc<Session>, Refused> {
        let id = headers.get(SESSION_ID).and_then(|id| id.to_str().ok()).ok_or_else(|| {
            let why = "the `Mcp-Session-Id` header is missing; send `initialize` first";
            Refused(StatusCode::BAD_REQUEST, why.to_owned())
        })?;
        check_revision(headers)?;
        sessions.find(id, &self.server, &self.endpoint).ok_or_else(|| {
            let why = "there is no such MCP session (any more); send `initialize` again";
            Refused(StatusCode::NOT_FOUND, why.to_owned())
        })
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The revision that a request after `initialize` says it speaks.
fn check_revision(headers: &HeaderMap) -> Result<(), Refused> {
    let Some(asked) = headers.get(PROTOCOL_VERSION) else { return Ok(()) };
    if revision::WITH_INITIALIZE.iter().any(|known| asked == known) {
        return Ok(());
    }
    let known = revision::WITH_INITIALIZE.join(", ");
    let why = format!("unsupported protocol version {asked:?}; supported with sessions: {known}");
    Err(Refused(StatusCode::BAD_REQUEST, why))
}

/// Whether `Accept` lets this type through. No header accepts everything.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let mut values = headers.get_all(header::ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return true;
    }
    let family = wanted.split('/').next().unwrap_or_default();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        kind == wanted || kind == "*/*" || kind.strip_suffix("/*") == Some(family)
    })
}

/// Revision 2026-07-28 has nothing but `POST`.
fn refuse_modern(headers: &HeaderMap) -> Result<(), Refused> {
    if modern::names_it(headers) && !headers.contains_key(SESSION_ID) {
        let why = format!("revision {} has no other method than POST", revision::MODERN);
        return Err(Refused(StatusCode::METHOD_NOT_ALLOWED, why));
    }
    Ok(())
}

async fn get<E: Endpoints>(
    State(routes): State<Routes<E>>,
    admitted: Admitted,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    refuse_modern(&headers)?;
    if !accepts(&headers, stream::EVENT_STREAM) {
        let why = "`Accept` must include text/event-stream";
        return Err(Refused(StatusCode::NOT_ACCEPTABLE, why.to_owned()));
    }
    let session = admitted.session(&headers, &routes.sessions)?;
    let messages = session.open_stream(&admitted.lane);
    Ok(stream::events(None, messages, None, None))
}

async fn delete<E: Endpoints>(
    State(routes): State<Routes<E>>,
    admitted: Admitted,
    headers: HeaderMap,
) -> Result<StatusCode, Refused> {
    refuse_modern(&headers)?;
    let session = admitted.session(&headers, &routes.sessions)?;
    routes.sessions.end(session.id());
    Ok(StatusCode::NO_CONTENT)
}
