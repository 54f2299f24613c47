//! Signing in to a remote server (OAuth 2.1 as the MCP authorization specification has it, by
//! rmcp's client).
//!
//! ```text
//! gantry mcp --sign-in ─► browser, authorization server ─► record (a file) ◄─► Tokens ─► requests
//! ```
//!
//! [`flow`] is the sign-in itself, [`record`] what is kept of it, [`Tokens`] what a carried session
//! does with it: send the token, renew it, and say when the user is needed.

pub mod flow;
mod page;
pub mod record;
mod tokens;

pub use record::RecordFile;
pub use tokens::{Patience, Tokens};

use reqwest::Url;
use rmcp::transport::auth::{AuthError, AuthorizationManager, AuthorizationMetadata};

/// What finds out about a server's authorization, by its address without what may be secret in it.
///
/// # Errors
/// What is wrong with the address, or with TLS here.
async fn manager(url: &Url) -> Result<AuthorizationManager, String> {
    if !is_safe(url) {
        return Err(
            "a sign-in needs an https address: over http anybody on the way could take it".into()
        );
    }
    // Another part of the program may have chosen one already; either will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut base = url.clone();
    base.set_query(None);
    base.set_fragment(None);
    AuthorizationManager::new(base).await.map_err(|error| error.to_string())
}

/// Finds the authorization server and what it can do.
///
/// # Errors
/// That there is none, or why it cannot be trusted.
async fn discover(
    manager: &mut AuthorizationManager,
    challenge: Option<&str>,
) -> Result<AuthorizationMetadata, Refusal> {
    let found = manager.resolve_metadata_from_challenge(challenge).await?;
    if !found.source.is_discovered() {
        return Err(Refusal::Final(
            "it does not say where to sign in; if it wants a key, give it as a header".into(),
        ));
    }
    let metadata = found.metadata;
    let methods = metadata.code_challenge_methods_supported.as_deref().unwrap_or_default();
    if !methods.iter().any(|method| method == "S256") {
        return Err(Refusal::Final(
            "its authorization server does not know PKCE (S256), without which a sign-in could \
             be taken over by others"
                .into(),
        ));
    }
    let ends = [Some(&metadata.authorization_endpoint), Some(&metadata.token_endpoint)];
    for end in ends.into_iter().chain([metadata.registration_endpoint.as_ref()]).flatten() {
        if !Url::parse(end).is_ok_and(|end| is_safe(&end)) {
            return Err(Refusal::Final(
                "its authorization server names an address that is not https".into(),
            ));
        }
    }
    manager.set_metadata(metadata.clone());
    Ok(metadata)
}

/// Why an authorization came to nothing.
#[derive(Debug)]
enum Refusal {
    /// It may be different in a moment.
    Passing(String),
    /// It needs somebody to do something.
    Final(String),
}

impl From<AuthError> for Refusal {
    fn from(error: AuthError) -> Self {
        let text = super::remote::chain(&error);
        match error {
            // It was answered, with a no: our registration may have run out.
            AuthError::TokenRefreshFailed(why) if why.starts_with("Server returned error") => {
                Self::Final(text)
            }
            AuthError::DiscoveryRequestFailed { .. }
            | AuthError::HttpError(_)
            | AuthError::TokenRefreshFailed(_)
            | AuthError::CredentialStoreError(_) => Self::Passing(text),
            _ => Self::Final(text),
        }
    }
}

impl Refusal {
    fn text(self) -> String {
        match self {
            Self::Passing(text) | Self::Final(text) => text,
        }
    }
}

/// Whether nobody on the way can read what is sent there.
fn is_safe(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && super::remote::is_loopback(url))
}
