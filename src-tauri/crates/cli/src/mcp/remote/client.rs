//! The HTTP client for one host.

use super::{LONGEST, chain};
use bytes::Bytes;
use reqwest::{Client, Response, Url, redirect::Policy};
use std::time::Duration;

/// How long the host may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How often in a row a host may send us elsewhere on itself.
const REDIRECTS: usize = 5;

/// A client that talks to this host alone: headers, URL and messages may hold secrets.
///
/// # Errors
/// When it cannot be made (no certificates).
pub(super) fn for_host(url: &Url) -> Result<Client, String> {
    // Another part of the program may have chosen one already; either will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let own = url.origin();
    let redirects = Policy::custom(move |attempt| {
        if attempt.previous().len() <= REDIRECTS && attempt.url().origin() == own {
            attempt.follow()
        } else {
            attempt.stop()
        }
    });
    let mut http = Client::builder().connect_timeout(CONNECT).tcp_nodelay(true);
    http = http.referer(false).redirect(redirects);
    if is_loopback(url) {
        // A proxy would look for the address on its own machine.
        http = http.no_proxy();
    }
    http.build().map_err(|error| format!("no HTTP client: {}", chain(&error)))
}

/// Whether it is on this machine, by its name alone.
pub fn is_loopback(url: &Url) -> bool {
    match url.host_str().map(|host| host.trim_matches(['[', ']'])) {
        Some("localhost") => true,
        Some(host) => host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback()),
        None => false,
    }
}

/// The whole body of a response.
///
/// # Errors
/// When it is over the limit, or breaks off.
pub(super) async fn body(mut response: Response) -> Result<Bytes, String> {
    let mut body = bytes::BytesMut::new();
    loop {
        match response.chunk().await {
            Ok(Some(piece)) if body.len() + piece.len() > LONGEST => {
                return Err(format!("sent a message over the limit of {LONGEST} bytes"));
            }
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            Ok(None) => return Ok(body.freeze()),
            Err(error) => {
                let error = error.without_url();
                return Err(format!("the connection broke before the answer: {}", chain(&error)));
            }
        }
    }
}
