//! Opening the file: rights, journal, schema; and the way in for readers that
//! must leave nothing behind.

use crate::{StoreError, migrations};
use rusqlite::{Connection, OpenFlags};
use std::{
    ffi::OsString,
    fs::OpenOptions,
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// How long a writer waits for another one before it fails. Writers hold the
/// lock for milliseconds; only a suspended program holds it longer.
const BUSY: Duration = Duration::from_secs(10);

/// Creates (mode 0600), opens and migrates the database.
pub(crate) fn read_write(path: &Path) -> Result<Connection, StoreError> {
    let path = create(path).map_err(|source| file_error(path, source))?;
    refuse_newer(&path)?;
    let connect = || {
        let mut connection = Connection::open_with_flags(
            &path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // With WAL, NORMAL can lose the last transactions in a power cut but
        // never the integrity of the file.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "journal_size_limit", 16 * 1024 * 1024)?;
        connection.set_prepared_statement_cache_capacity(64);
        migrations::apply(&mut connection)?;
        Ok(connection)
    };
    connect().map_err(|source| unusable(&path, source))
}

/// Makes sure that the file exists and that only its owner may read it. The
/// journal's files get the rights of the database from SQLite.
fn create(path: &Path) -> io::Result<PathBuf> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        let file = options.mode(0o600).open(path)?;
        // An older file may be open to others, or the umask may have been odd.
        if file.metadata()?.permissions().mode() & 0o777 != 0o600 {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
    }
    #[cfg(not(unix))]
    options.open(path)?;
    // SQLite puts the journal beside the real file; so do our own looks at it.
    path.canonicalize()
}

fn refuse_newer(path: &Path) -> Result<(), StoreError> {
    let found =
        read(path, |_| Ok(()), migrations::version).map_err(|source| unusable(path, source))?;
    if found > migrations::KNOWN {
        return Err(StoreError::Newer {
            path: path.display().to_string(),
            found,
            known: migrations::KNOWN,
        });
    }
    Ok(())
}

/// Reads from the database without changing anything on the disk.
///
/// A read-only connection to a database in WAL mode creates the journal's files
/// when they are missing and cannot remove them afterwards. So a database that
/// nobody has open (no journal beside it) is read as immutable, and read again in the
/// ordinary way when the file turns out to have been touched meanwhile.
///
/// `opened` hears of each connection before it is used.
pub(crate) fn read<T>(
    path: &Path,
    opened: impl Fn(&mut Connection) -> rusqlite::Result<()>,
    query: impl Fn(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let before = at_rest(path);
    if before.is_some() {
        let result = connect_read_only(path, true).and_then(|mut connection| {
            opened(&mut connection)?;
            query(&connection)
        });
        if at_rest(path) == before {
            return result;
        }
    }
    let mut connection = connect_read_only(path, false)?;
    opened(&mut connection)?;
    query(&connection)
}

/// Size and time of the database when it has no journal beside it.
fn at_rest(path: &Path) -> Option<(u64, SystemTime)> {
    let mut journal = OsString::from(path);
    journal.push("-wal");
    if Path::new(&journal).exists() {
        return None;
    }
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.len(), meta.modified().ok()?))
}

fn connect_read_only(path: &Path, immutable: bool) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = if immutable {
        Connection::open_with_flags(
            as_uri(path, "immutable=1"),
            flags | OpenFlags::SQLITE_OPEN_URI,
        )?
    } else {
        Connection::open_with_flags(path, flags)?
    };
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// A `file:` URI in which nothing of the path has a meaning of its own.
fn as_uri(path: &Path, parameters: &str) -> OsString {
    use std::fmt::Write as _;
    let bytes = path.as_os_str().as_encoded_bytes();
    let mut uri = String::from("file:");
    if cfg!(windows) {
        uri.push('/');
    }
    for &byte in bytes {
        match byte {
            b'\\' if cfg!(windows) => uri.push('/'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b':' => {
                uri.push(char::from(byte));
            }
            _ => {
                let _ = write!(uri, "%{byte:02x}");
            }
        }
    }
    uri.push('?');
    uri.push_str(parameters);
    uri.into()
}

fn unusable(path: &Path, source: rusqlite::Error) -> StoreError {
    StoreError::Unusable { path: path.display().to_string(), source }
}

pub(crate) fn file_error(path: &Path, source: io::Error) -> StoreError {
    StoreError::File { path: path.display().to_string(), source }
}
