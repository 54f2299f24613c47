//! What a server is: its configuration, what makes two of them the same, and
//! what of it may be shown.

use crate::{
    traffic::mask_address,
    wire::{OauthChoice, ServerConfig},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use sha2::{Digest, Sha256};

/// Shown in place of a value that may be a secret.
pub const MASK: &str = "•••";

/// A server by name with its configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSpec {
    /// Its name.
    pub name: String,
    /// Its configuration.
    pub config: ServerConfig,
}

/// What makes two servers of one name the same, hashed, so that no secret is kept for it. Whether
/// it is enabled and how long it lives are no part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    /// What a running process depends on: a change needs another process.
    process: [u8; 32],
    /// What the bridge does for all who share it: the tool filter, the time limits. A change
    /// touches no process, but two that differ in it cannot share one.
    terms: [u8; 32],
}

impl Identity {
    pub fn of(config: &ServerConfig) -> Self {
        let process = json!([
            config.command,
            config.args,
            config.env,
            config.cwd,
            config.url,
            config.transport,
            config.headers,
            config.auth_token,
            config.oauth,
            config.isolation,
        ]);
        let terms = json!([
            config.allow_tools,
            config.deny_tools,
            config.start_timeout_ms,
            config.call_timeout_ms,
        ]);
        Self { process: digest(&process), terms: digest(&terms) }
    }

    /// Whether one process fits both.
    pub fn has_process_of(&self, other: &Self) -> bool {
        self.process == other.process
    }
}

fn digest(parts: &serde_json::Value) -> [u8; 32] {
    Sha256::digest(parts.to_string()).into()
}

/// A name for a file about a text that may hold a secret: it tells nothing of it.
pub(super) fn hashed_name(text: &str) -> String {
    Sha256::digest(text)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether it lives behind a URL; the process that we run for it carries that URL.
pub(super) fn is_remote(config: &ServerConfig) -> bool {
    config.url.is_some() && config.command.is_none()
}

/// Whether agents could reach it by its own URL, so that what the bridge knows of it is only a
/// light. One that is signed in to goes through the bridge all the same: see
/// [`super::registry::Slot::is_passed_through`].
pub(super) fn is_passed_through(config: &ServerConfig) -> bool {
    let plain = config.allow_tools.is_empty() && config.deny_tools.is_empty();
    plain && is_remote(config) && !matches!(config.oauth, Some(OauthChoice::With(_)))
}

/// Whether a remote server may be signed in to: not when the user gave it an authorization.
pub(super) fn may_sign_in(config: &ServerConfig) -> bool {
    let authorized = config.auth_token.as_ref().is_some_and(|token| !token.is_empty())
        || config.headers.keys().any(|key| key.eq_ignore_ascii_case("authorization"));
    is_remote(config) && !authorized && config.oauth != Some(OauthChoice::Allowed(false))
}

/// The enabled ones; of several with one name the last.
pub(super) fn usable(specs: &[ServerSpec]) -> Vec<ServerSpec> {
    let last = |name: &str| specs.iter().rposition(|spec| spec.name == name);
    let mut usable = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        if spec.config.enabled && last(&spec.name) == Some(index) {
            usable.push(spec.clone());
        }
    }
    usable
}

/// Left as they are in a path segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Put before a name of dots only: as a path segment `..` would be folded
/// away, percent-encoded or not.
const DOTS: char = '~';

/// The bridge URL of a server.
pub(super) fn url_of(base_url: &str, name: &str) -> String {
    let guard = if is_dots(name) { DOTS.to_string() } else { String::new() };
    format!("{base_url}/mcp/{guard}{}", utf8_percent_encode(name, SEGMENT))
}

/// Whether a decoded path segment of a bridge URL means this server.
pub(super) fn is_named(name: &str, segment: &str) -> bool {
    name == segment || (is_dots(name) && segment.strip_prefix(DOTS) == Some(name))
}

fn is_dots(name: &str) -> bool {
    name.bytes().all(|byte| byte == b'.')
}

/// A configuration as it may be shown: values of environment and headers that
/// are not mere references are masked.
pub(super) fn masked(config: &ServerConfig) -> ServerConfig {
    let mut shown = config.clone();
    shown.env.values_mut().for_each(mask);
    shown.headers.values_mut().for_each(mask);
    shown.auth_token.as_mut().into_iter().for_each(mask);
    shown.client_secret_mut().into_iter().for_each(mask);
    shown.url.as_mut().into_iter().for_each(mask_address);
    shown
}

fn mask(value: &mut String) {
    if !value.is_empty() && !is_reference(value) {
        MASK.clone_into(value);
    }
}

/// `${env:NAME}` or `${secret:ID}`, alone or after `Bearer `.
pub(super) fn is_reference(value: &str) -> bool {
    let bare = value.strip_prefix("Bearer ").unwrap_or(value);
    (bare.starts_with("${env:") || bare.starts_with("${secret:"))
        && bare.find('}') == Some(bare.len() - 1)
}

/// Puts the stored values back where `new` still holds the mask that a view
/// showed; a masked value of which nothing is stored is left out.
pub fn unmask(mut new: ServerConfig, old: &ServerConfig) -> ServerConfig {
    for (values, stored) in [(&mut new.env, &old.env), (&mut new.headers, &old.headers)] {
        values.retain(|key, value| {
            if value == MASK {
                match stored.get(key) {
                    Some(known) => value.clone_from(known),
                    None => return false,
                }
            }
            true
        });
    }
    if new.url.is_some() && new.url == masked(old).url {
        new.url.clone_from(&old.url);
    }
    if new.auth_token.as_deref() == Some(MASK) {
        new.auth_token.clone_from(&old.auth_token);
    }
    if new.client_secret().is_some_and(|secret| secret == MASK)
        && let Some(OauthChoice::With(client)) = &mut new.oauth
    {
        client.client_secret = old.client_secret().cloned();
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> ServerConfig {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn identity_follows_what_a_process_depends_on() {
        let base = config(r#"{"command":"x","args":["a"],"env":{"K":"1"}}"#);
        for (other, same) in [
            (r#"{"command":"x","args":["a"],"env":{"K":"1"},"persistent":true}"#, true),
            (r#"{"command":"x","args":["a"],"env":{"K":"1"},"enabled":false}"#, true),
            (r#"{"command":"x","args":["a"],"env":{"K":"1"},"unknown":1}"#, true),
            (r#"{"command":"x","args":["a"],"env":{"K":"2"}}"#, false),
            (r#"{"command":"x","args":["a"]}"#, false),
            (r#"{"command":"x","args":["a"],"env":{"K":"1"},"cwd":"/"}"#, false),
            (r#"{"command":"x","args":["a"],"env":{"K":"1"},"headers":{"A":"b"}}"#, false),
            (r#"{"command":"x","args":["a"],"env":{"K":"1"},"denyTools":["t"]}"#, false),
            (r#"{"command":"x","args":["a"],"env":{"K":"1"},"isolation":"session"}"#, false),
            (r#"{"command":"x","args":["a"],"env":{"K":"1"},"startTimeoutMs":5}"#, false),
        ] {
            assert_eq!(Identity::of(&base) == Identity::of(&config(other)), same, "{other}");
        }
    }

    #[test]
    fn a_process_does_not_depend_on_the_terms() {
        let base = Identity::of(&config(r#"{"command":"x"}"#));
        for (other, fits) in [
            (r#"{"command":"x","denyTools":["t"]}"#, true),
            (r#"{"command":"x","allowTools":["t"],"callTimeoutMs":5,"startTimeoutMs":7}"#, true),
            (r#"{"command":"x","args":["y"]}"#, false),
            (r#"{"command":"x","isolation":"session"}"#, false),
        ] {
            assert_eq!(base.has_process_of(&Identity::of(&config(other))), fits, "{other}");
        }
    }

    #[test]
    fn a_remote_one_is_passed_through_unless_it_has_a_filter() {
        for (text, remote, passed) in [
            (r#"{"url":"http://h"}"#, true, true),
            (r#"{"url":"http://h","denyTools":["t"]}"#, true, false),
            (r#"{"url":"http://h","allowTools":["t"]}"#, true, false),
            (r#"{"url":"http://h","command":"x"}"#, false, false),
            (r#"{"url":"http://h","oauth":{"clientId":"c"}}"#, true, false),
            (r#"{"url":"http://h","oauth":false}"#, true, true),
        ] {
            let config = config(text);
            assert_eq!((is_remote(&config), is_passed_through(&config)), (remote, passed));
        }
    }

    #[test]
    fn an_authorization_of_the_users_own_wins() {
        for (text, may) in [
            (r#"{"url":"http://h"}"#, true),
            (r#"{"url":"http://h","oauth":true}"#, true),
            (r#"{"url":"http://h","oauth":false}"#, false),
            (r#"{"url":"http://h","authToken":"t"}"#, false),
            (r#"{"url":"http://h","headers":{"authorization":"Basic x"}}"#, false),
            (r#"{"url":"http://h","headers":{"X-Key":"k"}}"#, true),
            (r#"{"command":"x"}"#, false),
        ] {
            assert_eq!(may_sign_in(&config(text)), may, "{text}");
        }
    }

    #[test]
    fn the_secret_of_a_client_is_masked_and_comes_back() {
        let old = config(r#"{"url":"http://h","oauth":{"clientId":"c","clientSecret":"s3cret"}}"#);
        let shown = masked(&old);
        assert!(!serde_json::to_string(&shown).unwrap().contains("s3cret"));
        assert_eq!(unmask(shown, &old), old);
    }

    #[test]
    fn names_become_one_path_segment() {
        let base = "http://127.0.0.1:1";
        assert_eq!(url_of(base, "a/b"), "http://127.0.0.1:1/mcp/a%2Fb");
        assert_eq!(url_of(base, ".."), "http://127.0.0.1:1/mcp/~..");
        assert!(is_named("..", "~..") && is_named("..", "..") && !is_named("x", "~x"));
        assert_eq!(url_of(base, "100%"), "http://127.0.0.1:1/mcp/100%25");
        assert_eq!(url_of(base, "Fetch 网"), "http://127.0.0.1:1/mcp/Fetch%20%E7%BD%91");
    }

    #[test]
    fn literals_are_masked_and_come_back() {
        let old = config(
            r#"{"command":"x","env":{"A":"s3cret","B":"${env:B}","C":"x${env:B}","D":""},
                "headers":{"Authorization":"Bearer ${secret:t}","X":"s3cret"},"authToken":"s3cret"}"#,
        );
        let shown = masked(&old);
        assert!(!serde_json::to_string(&shown).unwrap().contains("s3cret"));
        assert_eq!(shown.env["B"], "${env:B}");
        assert_eq!(shown.env["C"], MASK);
        assert_eq!(shown.env["D"], "");
        assert_eq!(shown.headers["Authorization"], "Bearer ${secret:t}");
        assert_eq!(unmask(shown.clone(), &old), old);

        let mut edited = shown;
        edited.env.insert("A".into(), "new".into());
        edited.env.insert("E".into(), MASK.into());
        let saved = unmask(edited, &old);
        assert_eq!(saved.env["A"], "new");
        assert_eq!(saved.env["C"], "x${env:B}");
        assert!(!saved.env.contains_key("E"));
    }

    #[test]
    fn of_one_name_the_last_counts() {
        let spec = |name: &str, config: &str| ServerSpec {
            name: name.into(),
            config: serde_json::from_str(config).unwrap(),
        };
        let specs = [
            spec("a", r#"{"command":"1"}"#),
            spec("b", r#"{"command":"2","enabled":false}"#),
            spec("a", r#"{"command":"3"}"#),
        ];
        let usable = usable(&specs);
        assert_eq!(usable.len(), 1);
        assert_eq!(usable[0].config.command.as_deref(), Some("3"));
    }
}
