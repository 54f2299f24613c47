//! `gantry fetch`: one document from the network, for the core, which speaks no HTTP itself.

use crate::{
    failure::Failure,
    mcp::remote::{chain, is_loopback},
};
use reqwest::{Client, Url, redirect};
use std::{io::Write as _, time::Duration};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

/// How long all of it may take.
const LIMIT: Duration = Duration::from_secs(20);
/// How long a host may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest document in bytes.
const LONGEST: usize = 8 << 20;
/// Longest address in bytes.
const LONGEST_ADDRESS: u64 = 8192;
/// How often it may be sent elsewhere.
const MOST_REDIRECTS: usize = 5;

/// Writes the document to standard output. Its address is the first line of standard input:
/// arguments are for everybody to see.
pub async fn run() -> Result<u8, Failure> {
    let mut address = String::new();
    let mut input = BufReader::new(tokio::io::stdin().take(LONGEST_ADDRESS));
    let document = async {
        input.read_line(&mut address).await.map_err(|error| error.to_string())?;
        get(address.trim()).await
    };
    let document = tokio::time::timeout(LIMIT, document)
        .await
        .unwrap_or_else(|_| Err(format!("it was not there after {} s", LIMIT.as_secs())))
        .map_err(|why| Failure::new("fetch", why))?;
    let mut out = std::io::stdout().lock();
    let written = out.write_all(&document).and_then(|()| out.flush());
    written.map_err(|error| Failure::new("fetch", error))?;
    Ok(0)
}

async fn get(address: &str) -> Result<Vec<u8>, String> {
    let url = Url::parse(address)
        .map_err(|_| "this is no address; it looks like https://example.com/agents.json")?;
    let is_local = is_loopback(&url);
    check(&url, is_local)?;
    let follow = redirect::Policy::custom(move |attempt| {
        if attempt.previous().len() > MOST_REDIRECTS {
            return attempt.error("it was sent elsewhere too often");
        }
        match check(attempt.url(), is_local) {
            Ok(()) => attempt.follow(),
            Err(why) => attempt.error(why),
        }
    });
    let mut client = Client::builder().connect_timeout(CONNECT).redirect(follow);
    if is_local {
        // A proxy of the user's network cannot reach this machine.
        client = client.no_proxy();
    }
    let client = client.build().map_err(|error| chain(&error))?;
    let mut response = client.get(url).send().await.map_err(|error| chain(&error))?;
    if !response.status().is_success() {
        return Err(format!("the server answered {}", response.status()));
    }
    let mut document = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| chain(&error))? {
        if document.len() + piece.len() > LONGEST {
            return Err(format!("the document is longer than {} MiB", LONGEST >> 20));
        }
        document.extend_from_slice(&piece);
    }
    Ok(document)
}

/// Only what nobody on the way can change: `https`, or this machine, where the user named it.
fn check(url: &Url, may_be_local: bool) -> Result<(), String> {
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address with a user's name or password is not fetched".to_owned());
    }
    let is_local = is_loopback(url);
    match url.scheme() {
        "https" if !is_local || may_be_local => Ok(()),
        "http" if is_local && may_be_local => Ok(()),
        "http" | "https" if is_local => Err("it leads to this machine".to_owned()),
        _ => Err("only https:// addresses are fetched, or http:// of this machine".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_addresses_are_fetched() {
        let checked = |address: &str, local| check(&Url::parse(address).unwrap(), local);
        for (address, local) in [
            ("https://example.com/a.json", false),
            ("http://127.0.0.1:9/a", true),
            ("http://localhost/a", true),
            ("https://[::1]/a", true),
        ] {
            assert_eq!(checked(address, local), Ok(()), "{address}");
        }
        for (address, local, why) in [
            ("http://example.com/a", false, "only https"),
            ("http://example.com/a", true, "only https"),
            ("ftp://example.com/a", false, "only https"),
            ("file:///etc/passwd", true, "only https"),
            ("https://u:p@example.com/a", false, "password"),
            // A list of the network must not lead to services of this machine.
            ("http://127.0.0.1:9/a", false, "this machine"),
            ("https://localhost/a", false, "this machine"),
        ] {
            assert!(checked(address, local).unwrap_err().contains(why), "{address}");
        }
    }
}
