//! Who may come in. Checked in this order, before anything else looks at a
//! request: `Host` (against names that were rebound to us), `Origin` (against
//! other pages in the user's browser), token.
//!
//! What needs no token: `/health`, the files of the user interface (they are
//! the same for everybody and hold no secret; a browser cannot send a bearer
//! for `<script src>`, and a cookie would go to every port of this host), and
//! `/mcp/…`, which has tokens of its own.

use crate::{
    answer, pages, reference,
    table::{Access, access},
};
use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header, request::Parts},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use std::{net::IpAddr, sync::Arc};
use subtle::ConstantTimeEq as _;

/// What a request without a good token is told to bring.
pub(crate) const CHALLENGE: &str = "Bearer realm=\"gantry\"";

/// What every request is held against.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Our port.
    pub port: u16,
    /// Whether we listen on more than loopback: then other addresses are
    /// allowed as `Host`, but still no foreign names (those can be rebound).
    pub any_address: bool,
    /// `None`: tokens are switched off.
    pub token: Option<String>,
}

/// Why a request does not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// `Host` is missing, repeated, or not ours.
    Host,
    /// `Origin` is there and not ours.
    Origin,
    /// No token, or a wrong one.
    Token,
}

impl Gate {
    /// Holds a request against the rules.
    pub fn check(&self, request: &Parts) -> Result<(), Refusal> {
        if !self.is_our_host(&request.headers, &request.uri) {
            return Err(Refusal::Host);
        }
        if !self.is_our_origin(&request.headers) {
            return Err(Refusal::Origin);
        }
        // A browser asks with OPTIONS, without any token, whether it may ask.
        if is_preflight(request) {
            return Ok(());
        }
        let access = access(&request.method, request.uri.path());
        let is_ours = matches!(access, Access::Bearer | Access::BearerOrQuery);
        let Some(token) = self.token.as_deref().filter(|_| is_ours) else { return Ok(()) };
        let given = bearer(&request.headers).map(str::to_owned).or_else(|| {
            (access == Access::BearerOrQuery).then(|| query_token(&request.uri)).flatten()
        });
        match given {
            Some(given) if bool::from(given.as_bytes().ct_eq(token.as_bytes())) => Ok(()),
            _ => Err(Refusal::Token),
        }
    }

    fn is_our_host(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        host.to_str().is_ok_and(|host| self.is_ours(host))
            && uri.authority().is_none_or(|authority| self.is_ours(authority.as_str()))
    }

    fn is_our_origin(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => true,
            (Some(origin), None) => origin
                .to_str()
                .ok()
                .and_then(|origin| origin.strip_prefix("http://"))
                .is_some_and(|authority| self.is_ours(authority)),
            _ => false,
        }
    }

    /// Whether `name[:port]` is a loopback name or address with our port.
    fn is_ours(&self, authority: &str) -> bool {
        let (name, port) = match authority.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => {
                // A number that is written in another way is nobody's who speaks HTTP.
                let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
                (name, port.parse().ok().filter(|_| is_number))
            }
            _ => (authority, Some(80)),
        };
        if port != Some(self.port) {
            return false;
        }
        let name = name.to_ascii_lowercase();
        if name == "localhost" {
            return true;
        }
        let address = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(inner) => inner.parse::<std::net::Ipv6Addr>().map(IpAddr::V6).ok(),
            None => name.parse::<std::net::Ipv4Addr>().map(IpAddr::V4).ok(),
        };
        address.is_some_and(|address| address.is_loopback() || self.any_address)
    }
}

fn is_preflight(request: &Parts) -> bool {
    request.method == Method::OPTIONS
        && request.headers.contains_key(header::ORIGIN)
        && request.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn query_token(uri: &Uri) -> Option<String> {
    let value = crate::query::value(uri.query()?, "token")?;
    (!value.is_empty()).then_some(value)
}

/// The gate as the outermost layer of the router.
pub(crate) async fn enter(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    if let Err(refusal) = gate.check(&parts) {
        tracing::debug!(%path, ?refusal, "request refused");
        if refusal == Refusal::Token && path == "/" && parts.method == Method::GET {
            return pages::locked();
        }
        if refusal == Refusal::Token
            && reference::asks_for_a_page(&parts.method, &path, &parts.headers)
        {
            return reference::locked();
        }
        return refuse(&path, refusal);
    }
    // The check has passed, so an origin that is there is our own.
    let origin = parts.headers.get(header::ORIGIN).cloned();
    let mut response = if is_preflight(&parts) {
        preflight()
    } else {
        next.run(Request::from_parts(parts, body)).await
    };
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("mcp-session-id, mcp-protocol-version"),
        );
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
    response
}

fn refuse(path: &str, refusal: Refusal) -> Response {
    match refusal {
        Refusal::Host => answer::refuse(
            path,
            StatusCode::FORBIDDEN,
            "FORBIDDEN",
            "the Host header must be a loopback name or address with this port",
        ),
        Refusal::Origin => answer::refuse(
            path,
            StatusCode::FORBIDDEN,
            "FORBIDDEN",
            "requests from other origins are refused",
        ),
        Refusal::Token => {
            let mut response = answer::refuse(
                path,
                StatusCode::UNAUTHORIZED,
                "UNAUTHORIZED",
                "send `Authorization: Bearer <token>`; the token is in run/token of the data directory",
            );
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
            response
        }
    }
}

fn preflight() -> Response {
    (
        StatusCode::NO_CONTENT,
        [
            (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
            (
                header::ACCESS_CONTROL_ALLOW_HEADERS,
                "authorization, content-type, last-event-id, mcp-session-id, mcp-protocol-version",
            ),
            (header::ACCESS_CONTROL_MAX_AGE, "600"),
        ],
        Body::empty(),
    )
        .into_response()
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
