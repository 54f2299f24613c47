//! The file of one sign-in. Whoever changes it holds its lock; it is replaced as a whole.

use gantry_core::{bridge::SIGN_IN_VARIABLE, data_dir::write_private_to_last};
use oauth2::TokenResponse;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, CredentialStore, OAuthClientConfig, StoredCredentials,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::PathBuf,
    time::{Duration, SystemTime},
};

/// Between two looks whether the lock is free.
const AGAIN: Duration = Duration::from_millis(10);

/// What is known of one sign-in.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// What the server said when it wanted a sign-in (`WWW-Authenticate`).
    pub challenge: Option<String>,
    /// What it wants besides what was granted; empty when nothing is missing.
    pub scopes: Vec<String>,
    /// As whom we are known to the authorization server.
    pub client: Option<Client>,
    /// Tokens, and for whom they are.
    pub credentials: Option<StoredCredentials>,
}

impl Record {
    /// The token to send, if there is one.
    pub fn access_token(&self) -> Option<String> {
        let tokens = self.credentials.as_ref()?.token_response.as_ref()?;
        Some(tokens.access_token().secret().clone())
    }

    /// Whether nothing is wanted of the user.
    pub fn is_signed_in(&self) -> bool {
        self.access_token().is_some() && self.scopes.is_empty()
    }
}

/// As whom we are known to an authorization server.
#[derive(Clone, Serialize, Deserialize)]
pub struct Client {
    pub id: String,
    pub secret: Option<String>,
}

/// Where a [`Record`] is.
#[derive(Clone, Debug)]
pub struct RecordFile(PathBuf);

/// The lock, until it is dropped.
pub struct Locked {
    _file: File,
}

/// Tells one state of the file from another.
pub type Stamp = (SystemTime, u64);

impl RecordFile {
    /// What the bridge gave us by environment.
    pub fn given() -> Option<Self> {
        let path = std::env::var_os(SIGN_IN_VARIABLE)?;
        (!path.is_empty()).then(|| Self(path.into()))
    }

    /// A file of our choice.
    #[cfg(test)]
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Changes whenever the file does; `None` when there is none.
    pub fn stamp(&self) -> Option<Stamp> {
        let about = std::fs::metadata(&self.0).ok()?;
        Some((about.modified().ok()?, identity(&about)))
    }

    /// What it says; nothing when it is not there or cannot be read.
    pub fn read(&self) -> Record {
        let text = std::fs::read(&self.0).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Waits for the lock, which another process may hold while it renews the token.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub async fn lock(&self) -> io::Result<Locked> {
        let path = self.0.with_extension("lock");
        if let Some(folder) = path.parent() {
            private_folder(folder)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        // Asked again and again: a thread that waits for it could not be told to stop.
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Locked { _file: file }),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(AGAIN).await,
                Err(TryLockError::Error(why)) => return Err(why),
            }
        }
    }

    /// Replaces what it says.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, record: &Record, _: &Locked) -> io::Result<()> {
        // A token that was renewed is worth nothing any more once the next one is known.
        write_private_to_last(&self.0, &serde_json::to_string(record)?)
    }
}

fn private_folder(folder: &std::path::Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

#[cfg(unix)]
fn identity(about: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(about)
}

#[cfg(not(unix))]
fn identity(about: &std::fs::Metadata) -> u64 {
    about.len()
}

/// The file as rmcp's OAuth client knows it, for one who holds the lock.
pub struct Store {
    file: RecordFile,
    locked: Locked,
    /// Begins anew instead of keeping what the file says besides.
    client: Option<Client>,
}

impl Store {
    /// For the renewal of what is there.
    pub fn renewing(file: RecordFile, locked: Locked) -> Self {
        Self { file, locked, client: None }
    }

    /// For a new sign-in as this client.
    pub fn beginning(file: RecordFile, locked: Locked, client: Client) -> Self {
        Self { file, locked, client: Some(client) }
    }

    fn replace(&self, change: impl FnOnce(&mut Record)) -> Result<(), AuthError> {
        let mut record = self.file.read();
        change(&mut record);
        self.file
            .write(&record, &self.locked)
            .map_err(|error| AuthError::CredentialStoreError(error.to_string()))
    }
}

#[async_trait::async_trait]
impl CredentialStore for Store {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.file.read().credentials)
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        if self.client.is_none() && self.file.stamp().is_none() {
            // Signed out meanwhile: what was renewed must not bring it back.
            return Err(AuthError::AuthorizationRequired);
        }
        self.replace(|record| {
            if let Some(client) = &self.client {
                record.client = Some(client.clone());
                record.scopes.clear();
            }
            record.credentials = Some(credentials);
        })
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.replace(|record| record.credentials = None)
    }
}

/// Lets the manager speak as a client.
///
/// # Errors
/// What is wrong with what is known of the authorization server.
pub fn speak_as(
    manager: &mut AuthorizationManager,
    client: &Client,
    redirect: &str,
) -> Result<(), AuthError> {
    let config = OAuthClientConfig::new(client.id.clone(), redirect);
    manager.configure_client(match &client.secret {
        Some(secret) => config.with_client_secret(secret.clone()),
        None => config,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_record_is_for_its_user_alone_and_one_that_was_forgotten_stays_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sign-ins/x.json");
        let file = RecordFile::at(path.clone());
        assert!(file.stamp().is_none() && file.read().challenge.is_none());
        let locked = file.lock().await.expect("the lock");
        let record = Record { challenge: Some("Bearer".into()), ..Record::default() };
        file.write(&record, &locked).expect("written");
        let before = file.stamp();
        file.write(&record, &locked).expect("written");
        assert_ne!(file.stamp(), before, "a change is seen");
        #[cfg(unix)]
        for (path, wanted) in [(path.as_path(), 0o600), (path.parent().expect("a folder"), 0o700)] {
            let about = std::fs::metadata(path).expect("there");
            let mode = std::os::unix::fs::PermissionsExt::mode(&about.permissions());
            assert_eq!(mode & 0o777, wanted, "{}", path.display());
        }
        // Another one waits.
        let other = file.clone();
        let waits = tokio::time::timeout(std::time::Duration::from_millis(100), other.lock());
        assert!(waits.await.is_err(), "two have the lock");
        let store = Store::renewing(file.clone(), locked);
        std::fs::remove_file(&path).expect("signed out");
        let credentials = StoredCredentials::new("c".into(), None, vec![], None);
        let saved = store.save(credentials).await;
        assert!(matches!(saved, Err(AuthError::AuthorizationRequired)), "{saved:?}");
        assert!(file.stamp().is_none(), "it was brought back");
    }
}
