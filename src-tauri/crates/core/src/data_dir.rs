//! The data directory: where everything that Gantry keeps lies.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The environment variable that names the data directory.
pub const DATA_DIR_VARIABLE: &str = "GANTRY_DATA_DIR";

/// The data directory and its parts (contract, section 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDir {
    /// The directory itself, absolute.
    pub root: PathBuf,
    /// `gantry.db`.
    pub database: PathBuf,
    /// Log files.
    pub logs: PathBuf,
    /// Folders of back ends' projects.
    pub workspaces: PathBuf,
    /// What only lives as long as the instance; mode 0700.
    pub run: PathBuf,
}

impl DataDir {
    /// The directory that was asked for, else `$GANTRY_DATA_DIR`, else the
    /// platform's data directory + `gantry`. `None` when the platform has none
    /// (no home directory).
    pub fn choose(asked: Option<&Path>) -> Option<Self> {
        let root = match asked {
            Some(path) => path.to_path_buf(),
            None => match std::env::var_os(DATA_DIR_VARIABLE).filter(|value| !value.is_empty()) {
                Some(value) => value.into(),
                None => return Self::of_platform(),
            },
        };
        Some(Self::at(std::path::absolute(&root).unwrap_or(root)))
    }

    /// The directory of those who ask for none.
    pub fn of_platform() -> Option<Self> {
        let root = dirs::data_dir()?.join("gantry");
        Some(Self::at(std::path::absolute(&root).unwrap_or(root)))
    }

    /// The directory at this path.
    pub fn at(root: PathBuf) -> Self {
        Self {
            database: root.join("gantry.db"),
            logs: root.join("logs"),
            workspaces: root.join("workspaces"),
            run: root.join("run"),
            root,
        }
    }

    /// Creates what is missing. A directory that is there, or a symbolic link to one, is left as
    /// it is, apart from the rights of `run/`.
    ///
    /// # Errors
    /// What the file system said, with the path and what to do.
    pub fn create(&self) -> io::Result<()> {
        for path in [&self.root, &self.logs, &self.workspaces, &self.run] {
            fs::create_dir_all(path).map_err(|error| unusable(path, &error))?;
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            for path in [&self.run, &self.logs] {
                fs::set_permissions(path, fs::Permissions::from_mode(0o700))
                    .map_err(|error| unusable(path, &error))?;
            }
        }
        Ok(())
    }

    /// `run/instance.json`: who runs on this directory and where it listens.
    pub fn instance_file(&self) -> PathBuf {
        self.run.join("instance.json")
    }

    /// `run/token`: the instance's token.
    pub fn token_file(&self) -> PathBuf {
        self.run.join("token")
    }
}

/// Why a part of the data directory cannot be used, and what to do about it.
pub(crate) fn unusable(path: &Path, error: &io::Error) -> io::Error {
    let is_in_the_way =
        matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory);
    let why = match path.ancestors().find(|part| part.exists()) {
        Some(part) if is_in_the_way && !part.is_dir() => {
            format!("{} is no directory", part.display())
        }
        _ if error.to_string().contains(&*path.to_string_lossy()) => error.to_string(),
        _ => format!("{}: {error}", path.display()),
    };
    let advice = "choose another data directory with --data-dir";
    io::Error::new(
        error.kind(),
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("{why}; give yourself the right to write there, or {advice}")
            }
            io::ErrorKind::StorageFull => format!("{why}; make room on that disk, or {advice}"),
            _ => format!("{why}; {advice}"),
        },
    )
}

/// Writes a file that only its owner can read, whole or not at all.
///
/// # Errors
/// What the file system said, with the path.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    replace(path, text, |_| Ok(()))
}

/// The same for what must outlive the power: waits for the disk.
///
/// # Errors
/// As [`write_private`].
pub fn write_private_to_last(path: &Path, text: &str) -> io::Result<()> {
    replace(path, text, fs::File::sync_all)
}

fn replace(
    path: &Path,
    text: &str,
    settle: impl FnOnce(&fs::File) -> io::Result<()>,
) -> io::Result<()> {
    use std::io::Write as _;
    let whole =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let draft = path.with_extension(format!("{}.new", std::process::id()));
    // What a crash left may have been made by somebody else, with other rights.
    let _ = fs::remove_file(&draft);
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let mut file = options.open(&draft).map_err(whole)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| settle(&file))
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // On a full disk nobody needs half of it as well.
        let _ = fs::remove_file(&draft);
    }
    written.map_err(whole)
}

/// The text of a small file. What has its name and is no file, or a large one, is not read: a
/// pipe would be waited for without an end.
///
/// # Errors
/// What the file system said, or that it is no file of at most `longest` bytes.
pub fn read_small(path: &Path, longest: u64) -> io::Result<String> {
    let kind = fs::metadata(path)?;
    if !kind.is_file() || kind.len() > longest {
        let why = format!("this is no file of at most {longest} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_behind_a_link_is_used_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let real = place.path().join("real");
        fs::create_dir(&real).unwrap();
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let data = DataDir::choose(Some(&link)).unwrap();
        data.create().unwrap();
        data.create().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(real.join("run").is_dir());
    }

    #[test]
    fn a_private_file_that_cannot_be_written_leaves_no_draft() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("folder");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("inside"), "").unwrap();
        write_private(&folder, "text").unwrap_err();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_private_file_is_readable_by_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("token");
        fs::write(&path, "old").unwrap();
        write_private(&path, "new").unwrap();
        assert_eq!(read_small(&path, 3).unwrap(), "new");
        assert!(read_small(&path, 2).is_err() && read_small(Path::new("/dev/zero"), 9).is_err());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
