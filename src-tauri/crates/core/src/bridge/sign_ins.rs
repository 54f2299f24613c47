//! What is kept of sign-ins to remote servers: a file for each configuration, readable by this
//! user alone, which the program that carries the server reads, renews and writes. It is no part of
//! the database, which is served to agents (recall) and exported (decision 0011).

use super::spec::{hashed_name, may_sign_in};
use crate::wire::{OauthChoice, ServerConfig};
use serde_json::{Value, json};
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// Read by `gantry mcp --carry` and `gantry mcp --sign-in`: the file of the sign-in.
pub const SIGN_IN_VARIABLE: &str = "GANTRY_MCP_SIGN_IN_FILE";
/// With this code `gantry mcp --carry` ends when the server wants the user to sign in first.
pub const SIGN_IN_EXIT: u8 = 77;
/// Sent by `gantry mcp --carry` when a call waits for a sign-in (`params.needed`), and when
/// none does any more.
pub const SIGN_IN_NOTICE: &str = "notifications/gantry/sign_in";

/// How long a person may take in the browser.
pub const SIGN_IN_LIMIT: Duration = Duration::from_secs(600);
/// What is said when it was longer.
pub const SIGN_IN_OVER: &str = "nobody finished it within ten minutes; try again";

/// How it stands with a server's sign-in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has none, as far as is known.
    #[default]
    None,
    Needed,
    SignedIn,
}

/// The file of a configuration's sign-in; `None` where there is nothing to sign in to. Servers of
/// the same address and client settings share it.
pub(super) fn file_of(data_dir: &Path, config: &ServerConfig) -> Option<PathBuf> {
    if !may_sign_in(config) {
        return None;
    }
    let client = match &config.oauth {
        Some(OauthChoice::With(client)) => Some(client),
        _ => None,
    };
    let what = json!([config.url, client]).to_string();
    Some(data_dir.join("sign-ins").join(hashed_name(&what) + ".json"))
}

/// What a file says.
pub(super) fn standing(file: Option<&Path>) -> Standing {
    let Some(text) = file.and_then(|file| std::fs::read_to_string(file).ok()) else {
        return Standing::None;
    };
    let record: Value = serde_json::from_str(&text).unwrap_or_default();
    let lacks = record.get("scopes").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    if record.get("credentials").is_some_and(Value::is_object) && !lacks {
        Standing::SignedIn
    } else {
        Standing::Needed
    }
}

/// Forgets a sign-in.
///
/// # Errors
/// When the file stays.
pub(super) fn forget(file: &Path) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Option<PathBuf> {
        file_of(Path::new("/d"), &serde_json::from_str(text).expect("a configuration"))
    }

    #[test]
    fn a_sign_in_belongs_to_address_and_client_and_its_name_tells_nothing() {
        let plain = file(r#"{"url":"https://h/mcp?key=k3y"}"#);
        assert!(plain.as_ref().is_some_and(|file| !file.display().to_string().contains("k3y")));
        assert_eq!(plain, file(r#"{"url":"https://h/mcp?key=k3y","denyTools":["t"]}"#));
        assert_ne!(plain, file(r#"{"url":"https://h/mcp"}"#));
        assert_ne!(plain, file(r#"{"url":"https://h/mcp?key=k3y","oauth":{"clientId":"c"}}"#));
        assert_eq!(file(r#"{"url":"https://h","authToken":"t"}"#), None);
        assert_eq!(file(r#"{"command":"x"}"#), None);
    }

    #[test]
    fn a_file_says_how_it_stands() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.json");
        assert_eq!(standing(Some(&file)), Standing::None);
        for (text, wanted) in [
            (r#"{"credentials":{}}"#, Standing::SignedIn),
            (r#"{"credentials":{},"scopes":["w"]}"#, Standing::Needed),
            (r#"{"credentials":null,"challenge":"Bearer"}"#, Standing::Needed),
            ("broken", Standing::Needed),
        ] {
            std::fs::write(&file, text).expect("written");
            assert_eq!(standing(Some(&file)), wanted, "{text}");
        }
        forget(&file).expect("forgotten");
        forget(&file).expect("nothing to forget");
        assert_eq!(standing(Some(&file)), Standing::None);
    }
}
