//! The user interface's files, embedded from `ui/dist` (read from there in a
//! development build).

use crate::routes::Site;
use axum::{
    body::Body,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use rust_embed::Embed;
use std::borrow::Cow;

#[derive(Embed)]
#[folder = "../../../ui/dist"]
struct Files;

/// What a page of ours may do: load from and talk to this origin, nothing else.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; \
    img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; object-src 'none'; \
    base-uri 'none'; form-action 'none'; frame-src 'none'; frame-ancestors 'none'";

const NOT_BUILT: &str = "<!doctype html><meta charset=\"utf-8\"><title>Gantry</title>\
    <p>This program was built without its user interface. Build it with \
    <code>npm --prefix ui ci &amp;&amp; npm --prefix ui run build</code>, then build the program \
    again. The interfaces for programs work all the same.";

const LOCKED: &str = "<!doctype html><meta charset=\"utf-8\"><title>Gantry</title>\
    <p>Open this page as <code>/?token=…</code>; the token is in <code>run/token</code> of the \
    data directory.";

/// Whether a path can only be one of the files (which need no token).
pub(crate) fn is_file(path: &str) -> bool {
    path.starts_with("/assets/")
        || path
            .strip_prefix('/')
            .is_some_and(|name| !name.contains('/') && kind(name) != Kind::Unknown)
}

/// `GET /`.
pub(crate) async fn index(State(site): State<Site>) -> Response {
    let page = if site.options.ui { Files::get("index.html") } else { None };
    let (status, page) = match page {
        Some(page) => (StatusCode::OK, page.data),
        None => (StatusCode::NOT_FOUND, Cow::Borrowed(NOT_BUILT.as_bytes())),
    };
    // Its URL may bear the token: it is not kept anywhere, and not passed on.
    let mut response = respond(page, "text/html; charset=utf-8", "no-store");
    *response.status_mut() = status;
    response
}

/// `GET /` without a token: the same page, which holds no secret, but as a
/// refusal. Its script has the token from an earlier load of this tab, or asks for it.
pub(crate) fn locked() -> Response {
    let page = Files::get("index.html").map_or(Cow::Borrowed(LOCKED.as_bytes()), |page| page.data);
    let mut response = respond(page, "text/html; charset=utf-8", "no-store");
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(crate::gate::CHALLENGE));
    response
}

/// A file by its path; `None` when it is not there.
pub(crate) fn file(path: &str) -> Option<Response> {
    if !is_file(path) || path.contains("..") || path.contains('\\') {
        return None;
    }
    let file = Files::get(path.strip_prefix('/')?)?;
    // Names under /assets hold a hash of their content.
    let keep = if path.starts_with("/assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    Some(respond(file.data, kind(path).mime(), keep))
}

fn respond(data: Cow<'static, [u8]>, mime: &'static str, keep: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, mime),
        (header::CACHE_CONTROL, keep),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    let mut response = Body::from(data.into_owned()).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Script,
    Style,
    Image(&'static str),
    Font,
    Map,
    Wasm,
    Text,
    Unknown,
}

impl Kind {
    fn mime(self) -> &'static str {
        match self {
            Self::Script => "text/javascript; charset=utf-8",
            Self::Style => "text/css; charset=utf-8",
            Self::Image(mime) => mime,
            Self::Font => "font/woff2",
            Self::Map => "application/json",
            Self::Wasm => "application/wasm",
            Self::Text => "text/plain; charset=utf-8",
            Self::Unknown => "application/octet-stream",
        }
    }
}

/// By the end of the name. Pages (`.html`) are not among them: the one there is needs the token.
fn kind(path: &str) -> Kind {
    match path.rsplit_once('.').map_or("", |(_, end)| end) {
        "js" | "mjs" => Kind::Script,
        "css" => Kind::Style,
        "svg" => Kind::Image("image/svg+xml"),
        "png" => Kind::Image("image/png"),
        "ico" => Kind::Image("image/x-icon"),
        "jpg" | "jpeg" => Kind::Image("image/jpeg"),
        "webp" => Kind::Image("image/webp"),
        "woff2" => Kind::Font,
        "map" => Kind::Map,
        "wasm" => Kind::Wasm,
        "txt" => Kind::Text,
        _ => Kind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_interfaces_files_are_open() {
        for path in ["/assets/index-abc.js", "/assets/x", "/favicon.svg", "/robots.txt"] {
            assert!(is_file(path), "{path}");
        }
        for path in [
            "/",
            "/index.html",
            "/api",
            "/api/a.js",
            "/metrics",
            "/events",
            "/computer/x.svg",
            "/run/token",
        ] {
            assert!(!is_file(path), "{path}");
        }
    }

    #[test]
    fn nothing_outside_the_folder_is_served() {
        for path in [
            "/assets/../../package.json",
            "/assets/../index.html",
            "/assets/..%2findex.html",
            "/assets//etc/passwd",
            "/../Cargo.toml",
            "/assets\\..\\index.html",
            "//etc/hostname.txt",
        ] {
            assert!(file(path).is_none(), "{path}");
        }
    }
}
