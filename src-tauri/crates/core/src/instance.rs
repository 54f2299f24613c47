//! One process owns a data directory at a time.
//!
//! The lock is an advisory lock on `run/lock` that the system gives back when
//! its holder dies, however it dies; so a stale one cannot exist. The file's
//! text names the holder by pid and start time, for whoever is refused.

use crate::data_dir::{DataDir, read_small, unusable, write_private};
use gantry_supervisor::ProcessId;
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    io::{Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
};

/// What `run/instance.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceInfo {
    /// The process.
    pub pid: u32,
    /// When it started (see [`ProcessId::start`]).
    pub started: u64,
    /// Where it listens.
    pub url: String,
    /// Its version.
    pub version: String,
}

/// Why an instance could not be had.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// Another process holds the directory.
    #[error(
        "{directory} is in use by {holder}; quit that one first, or choose another directory with --data-dir"
    )]
    Held {
        /// The data directory.
        directory: String,
        /// Its holder, as far as known.
        holder: String,
    },
    /// The token file can be read by others.
    #[error("the token file {0} can be read by others; run `chmod 600 {0}` and start again")]
    OpenToken(PathBuf),
    /// The token file that was named cannot be used.
    #[error("the token file {path} cannot be used: {why}; name another one with --token-file")]
    TokenFile {
        /// The file.
        path: String,
        /// The reason.
        why: io::Error,
    },
    /// The file system said no; the message has the path and what to do.
    #[error("{0}")]
    File(#[from] io::Error),
    /// No randomness.
    #[error("the system gave no random numbers: {0}")]
    Random(String),
}

/// The ownership of a data directory; given back when dropped.
#[derive(Debug)]
pub struct Instance {
    data: DataDir,
    token: String,
    token_file: PathBuf,
    /// Whether `run/token` is ours to remove.
    own_token: bool,
    lock: fs::File,
}

impl Instance {
    /// Takes the directory (created if missing) and makes the token: a new one
    /// in `run/token`, or that of `token_file`, which is created if missing and copied to
    /// `run/token`, where the commands that look for a running Gantry find it.
    ///
    /// # Errors
    /// See [`InstanceError`].
    pub fn take(data: &DataDir, token_file: Option<&Path>) -> Result<Self, InstanceError> {
        data.create()?;
        let lock = lock(data)?;
        let (token, path) = match token_file {
            Some(path) => {
                // Whoever reads where it lies need not run in our folder.
                let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
                (given_token(&path)?, path)
            }
            None => (random_token()?, data.token_file()),
        };
        // It may be that very file.
        let own_token = token_file.is_none() || !is_same(&path, &data.token_file());
        if own_token {
            let file = data.token_file();
            write_private(&file, &token).map_err(|error| unusable(&file, &error))?;
        }
        Ok(Self { data: data.clone(), token, token_file: path, own_token, lock })
    }

    /// The secret that every request needs.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Where the token lies.
    pub fn token_file(&self) -> &Path {
        &self.token_file
    }

    /// Says where we listen.
    ///
    /// # Errors
    /// What the file system said.
    pub fn announce(&self, url: &str) -> io::Result<()> {
        let me = ProcessId::current();
        let info = InstanceInfo {
            pid: me.pid,
            started: me.start,
            url: url.to_owned(),
            version: crate::VERSION.to_owned(),
        };
        write_private(&self.data.instance_file(), &serde_json::to_string(&info)?)
    }

    /// Whether the directory is still the one that was taken, and nobody has removed or
    /// replaced it: another Gantry could take the new one, and what we write is lost.
    pub fn has_its_directory(&self) -> bool {
        is_the_file(&self.lock, &lock_file(&self.data))
    }

    /// Takes back what was announced, at the end. What is another one's by now stays.
    pub fn withdraw(&self) {
        if !self.has_its_directory() {
            return;
        }
        let _ = fs::remove_file(self.data.instance_file());
        if self.own_token {
            let _ = fs::remove_file(self.data.token_file());
        }
    }

    /// The instance that runs on a directory, if one does.
    pub fn running(data: &DataDir) -> Option<InstanceInfo> {
        Self::look(data).ok().flatten()
    }

    /// The same for whoever wants to know why nothing can be known.
    ///
    /// # Errors
    /// The directory is somebody else's.
    pub fn look(data: &DataDir) -> io::Result<Option<InstanceInfo>> {
        let path = data.instance_file();
        let text = match read_small(&path, LONGEST_INFO) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let why = format!(
                    "{}: {error}; it is another user's: ask as that user, or name your own with --data-dir",
                    path.display()
                );
                return Err(io::Error::new(error.kind(), why));
            }
            Err(_) => return Ok(None),
        };
        let info: Option<InstanceInfo> = serde_json::from_str(&text).ok();
        Ok(info.filter(|info| ProcessId { pid: info.pid, start: info.started }.is_alive()))
    }
}

fn lock_file(data: &DataDir) -> PathBuf {
    data.run.join("lock")
}

/// Whether a path still names this open file.
#[cfg(unix)]
fn is_the_file(file: &fs::File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        (_, Err(error)) => error.kind() != io::ErrorKind::NotFound,
        // What cannot be known is not taken for the worst.
        (Err(_), _) => true,
    }
}

/// An open file cannot be removed here.
#[cfg(not(unix))]
fn is_the_file(_: &fs::File, _: &Path) -> bool {
    true
}

fn lock(data: &DataDir) -> Result<fs::File, InstanceError> {
    let path = lock_file(data);
    // Another file would be emptied through a link, and a pipe be waited for.
    if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
        let why = format!("{} is no plain file; remove it and start again", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why).into());
    }
    let file =
        fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = file.map_err(|error| unusable(&path, &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            let text = text.trim();
            return Err(InstanceError::Held {
                directory: data.root.display().to_string(),
                holder: if text.is_empty() { "another Gantry".to_owned() } else { text.to_owned() },
            });
        }
        Err(fs::TryLockError::Error(error)) => return Err(error.into()),
    }
    let me = ProcessId::current();
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "pid {} started {}", me.pid, me.start));
    written.map_err(|error| unusable(&path, &error))?;
    Ok(file)
}

/// 256 random bits in hexadecimal.
///
/// # Errors
/// The system has no randomness.
pub fn random_token() -> Result<String, InstanceError> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| InstanceError::Random(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A token of fewer bytes is warned of.
const SHORT_TOKEN: usize = 16;
/// Longest `instance.json`, bytes.
const LONGEST_INFO: u64 = 64 * 1024;
/// Longest token file, bytes: anything longer is some other file.
const LONGEST_TOKEN: u64 = 4096;

fn given_token(path: &Path) -> Result<String, InstanceError> {
    match read_small(path, LONGEST_TOKEN) {
        Ok(text) if !text.trim().is_empty() => {
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt as _;
                if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
                    return Err(InstanceError::OpenToken(path.to_path_buf()));
                }
            }
            let token = text.trim().to_owned();
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                let what = "it holds something else than letters, digits and signs of ASCII, \
                            which no header can carry";
                let why = io::Error::new(io::ErrorKind::InvalidData, what);
                return Err(InstanceError::TokenFile { path: path.display().to_string(), why });
            }
            if token.len() < SHORT_TOKEN {
                tracing::warn!(path = %path.display(), "the token is short, so it can be guessed");
            }
            Ok(token)
        }
        Ok(_) => new_token(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => new_token(path),
        Err(why) => Err(InstanceError::TokenFile { path: path.display().to_string(), why }),
    }
}

/// Whether both paths name one file.
fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

fn new_token(path: &Path) -> Result<String, InstanceError> {
    let token = random_token()?;
    match write_private(path, &token) {
        Ok(()) => Ok(token),
        Err(why) => Err(InstanceError::TokenFile { path: path.display().to_string(), why }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_owner_and_the_refused_one_learns_who() {
        let place = tempfile::tempdir().unwrap();
        let data = DataDir::at(place.path().join("data"));
        let first = Instance::take(&data, None).unwrap();
        let refused = Instance::take(&data, None).unwrap_err().to_string();
        assert!(refused.contains(&format!("pid {}", std::process::id())), "{refused}");
        drop(first);
        Instance::take(&data, None).unwrap();
    }

    #[test]
    fn a_lock_that_leads_elsewhere_is_refused_and_what_is_there_is_left() {
        let place = tempfile::tempdir().unwrap();
        let data = DataDir::at(place.path().join("data"));
        data.create().unwrap();
        let other = place.path().join("other");
        fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, lock_file(&data)).unwrap();
        let refused = Instance::take(&data, None).unwrap_err().to_string();
        assert!(refused.contains("no plain file"), "{refused}");
        assert_eq!(fs::read_to_string(other).unwrap(), "precious");
    }

    #[test]
    fn a_token_file_that_others_can_read_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let data = DataDir::at(place.path().join("data"));
        let path = place.path().join("token");
        fs::write(&path, "secret").unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Instance::take(&data, Some(&path)), Err(InstanceError::OpenToken(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(Instance::take(&data, Some(&path)).unwrap().token(), "secret");
    }

    #[test]
    fn a_token_that_was_named_is_found_where_every_token_is() {
        let place = tempfile::tempdir().unwrap();
        let data = DataDir::at(place.path().join("data"));
        let named = place.path().join("mine");
        let first = Instance::take(&data, Some(&named)).unwrap();
        assert_eq!(fs::read_to_string(data.token_file()).unwrap(), first.token());
        assert_eq!(first.token_file(), named);
        first.withdraw();
        assert!(named.exists() && !data.token_file().exists());
        drop(first);
        // Named is the very place: then it is the user's, and stays.
        let file = data.token_file();
        write_private(&file, "0123456789abcdef").unwrap();
        let second = Instance::take(&data, Some(&file)).unwrap();
        second.withdraw();
        assert_eq!(fs::read_to_string(file).unwrap(), "0123456789abcdef");
    }

    #[test]
    fn what_is_no_token_file_is_refused_unread() {
        let place = tempfile::tempdir().unwrap();
        let data = DataDir::at(place.path().join("data"));
        let large = place.path().join("large");
        write_private(&large, &"x".repeat(5000)).unwrap();
        for path in [Path::new("/dev/zero"), place.path(), &large] {
            let refused = Instance::take(&data, Some(path)).unwrap_err().to_string();
            assert!(refused.contains("this is no file of at most"), "{refused}");
        }
        for odd in ["two lines\nof it", "t\u{7}oken-of-mine", "schlüssel-von-mir"] {
            write_private(&large, odd).unwrap();
            let refused = Instance::take(&data, Some(&large)).unwrap_err().to_string();
            assert!(refused.contains("no header can carry"), "{refused}");
        }
    }

    #[test]
    fn a_directory_that_was_removed_is_ours_no_more_nor_is_its_successor() {
        let place = tempfile::tempdir().unwrap();
        let data = DataDir::at(place.path().join("data"));
        let first = Instance::take(&data, None).unwrap();
        assert!(first.has_its_directory());
        fs::remove_dir_all(&data.root).unwrap();
        assert!(!first.has_its_directory());
        let second = Instance::take(&data, None).unwrap();
        second.announce("http://127.0.0.1:1").unwrap();
        assert!(second.has_its_directory() && !first.has_its_directory());
        first.withdraw();
        assert!(data.instance_file().exists() && data.token_file().exists());
    }

    #[test]
    fn each_start_has_a_token_of_its_own() {
        let place = tempfile::tempdir().unwrap();
        let data = DataDir::at(place.path().join("data"));
        let first = Instance::take(&data, None).unwrap().token().to_owned();
        let second = Instance::take(&data, None).unwrap().token().to_owned();
        assert_eq!(first.len(), 64);
        assert_ne!(first, second);
    }
}
