//! `fs/read_text_file` and `fs/write_text_file`: text files of the session's folder. Waits
//! for the disk, so it runs outside the runtime's threads.
//!
//! Links are followed first and the place where they lead is judged: it must lie in the
//! folder. Then the file is opened without following any, so that nobody can put one there
//! in between (Linux).

use gantry_acp::CallError;
use serde::Deserialize;
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
};

/// The most that is read at once, in bytes.
const MOST: u64 = 10 * 1024 * 1024;

/// Parameters of `fs/read_text_file`.
#[derive(Debug, Deserialize)]
pub(super) struct Read {
    path: PathBuf,
    /// The first line, 1 for the first of the file.
    line: Option<u64>,
    /// So many lines.
    limit: Option<u64>,
}

/// Parameters of `fs/write_text_file`.
#[derive(Debug, Deserialize)]
pub(super) struct Write {
    path: PathBuf,
    content: String,
}

/// The file's text, or those lines of it with their ends.
pub(super) fn read(folder: &Path, ask: &Read) -> Result<String, CallError> {
    let place = Place::find(folder, &ask.path)?;
    let file = place.open(false).map_err(|error| refused("read", &ask.path, &error))?;
    let size = file.metadata().map_err(|error| refused("read", &ask.path, &error))?.len();
    let failed = |error: io::Error| refused("read", &ask.path, &error);
    let mut bytes = Vec::new();
    if ask.line.is_none() && ask.limit.is_none() {
        if size > MOST {
            return Err(too_long(&ask.path));
        }
        file.take(MOST + 1).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        let mut reader = BufReader::with_capacity(64 * 1024, file);
        for _ in 1..ask.line.unwrap_or(1) {
            if !skip_line(&mut reader).map_err(failed)? {
                break;
            }
        }
        let mut left = ask.limit.unwrap_or(u64::MAX);
        while left > 0 && bytes.len() as u64 <= MOST {
            let room = MOST + 1 - bytes.len() as u64;
            let length =
                reader.by_ref().take(room).read_until(b'\n', &mut bytes).map_err(failed)?;
            if length == 0 {
                break;
            }
            left -= 1;
        }
    }
    if bytes.len() as u64 > MOST {
        return Err(too_long(&ask.path));
    }
    String::from_utf8(bytes).map_err(|_| {
        CallError::failed(format!("{} is not a text file in UTF-8", ask.path.display()))
    })
}

/// Writes the file in the place of what was there; makes the folders on the way to it.
pub(super) fn write(folder: &Path, ask: &Write) -> Result<(), CallError> {
    let place = Place::find(folder, &ask.path)?;
    let written = (|| {
        if let Some(parent) = place.real.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = place.open(true)?;
        file.set_len(0)?;
        file.write_all(ask.content.as_bytes())
    })();
    written.map_err(|error| refused("written", &ask.path, &error))
}

/// Reads to the end of the line; false at the end of the file.
fn skip_line(reader: &mut impl io::BufRead) -> io::Result<bool> {
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            return Ok(false);
        }
        let end = chunk.iter().position(|&byte| byte == b'\n');
        let used = end.map_or(chunk.len(), |end| end + 1);
        reader.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

fn too_long(path: &Path) -> CallError {
    CallError::failed(format!(
        "{} has more than {} MiB; read parts of it with `line` and `limit`",
        path.display(),
        MOST >> 20
    ))
}

fn refused(done: &str, path: &Path, error: &io::Error) -> CallError {
    let path = path.display();
    match error.kind() {
        // Agents look for these words to tell a new file from trouble.
        io::ErrorKind::NotFound => {
            CallError::not_found(format!("Resource not found: {path} does not exist (ENOENT)"))
        }
        _ => CallError::failed(format!("{path} could not be {done}: {error}")),
    }
}

/// Where a file really is, in the session's folder.
#[derive(Debug)]
struct Place {
    /// The folder, without links.
    folder: PathBuf,
    /// The file, without links.
    real: PathBuf,
}

impl Place {
    /// Follows the links of what exists of the path.
    fn find(folder: &Path, path: &Path) -> Result<Self, CallError> {
        if !path.is_absolute() {
            return Err(CallError::invalid(format!(
                "`path` must be absolute, and `{}` is not",
                path.display()
            )));
        }
        let folder = folder.canonicalize().map_err(|error| {
            CallError::failed(format!("the session's folder {}: {error}", folder.display()))
        })?;
        let outside = |why: &str| {
            CallError::invalid(format!(
                "{} {why} the session's folder {}; only files in it can be read or written",
                path.display(),
                folder.display()
            ))
        };
        let mut exists = path;
        let mut rest: Vec<OsString> = Vec::new();
        let real = loop {
            match exists.symlink_metadata() {
                Ok(_) => match exists.canonicalize() {
                    Ok(real) => break real,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        return Err(outside("is a link that leads nowhere, or out of"));
                    }
                    Err(error) => return Err(refused("found", path, &error)),
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // `..` after something that does not exist has no name.
                    let (Some(name), Some(parent)) = (exists.file_name(), exists.parent()) else {
                        return Err(refused("found", path, &error));
                    };
                    rest.push(name.to_owned());
                    exists = parent;
                }
                Err(error) => return Err(refused("found", path, &error)),
            }
        };
        let real = rest.iter().rev().fold(real, |real, name| real.join(name));
        if real == folder || !real.starts_with(&folder) {
            return Err(outside("is not in"));
        }
        Ok(Self { folder, real })
    }

    /// Opens the file, which must be a plain one; for writing it is made when it is not there.
    fn open(&self, write: bool) -> io::Result<File> {
        let file = self.open_beneath(write)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is a folder or a device, and no text file"));
        }
        Ok(file)
    }

    #[cfg(target_os = "linux")]
    fn open_beneath(&self, write: bool) -> io::Result<File> {
        use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
        let Ok(below) = self.real.strip_prefix(&self.folder) else {
            return Err(io::Error::other("it is not in the session's folder"));
        };
        let folder = File::open(&self.folder)?;
        let how = if write { OFlags::WRONLY | OFlags::CREATE } else { OFlags::RDONLY };
        // A pipe without a reader or writer must not hold us.
        let flags = how | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let mode = if write { Mode::from_raw_mode(0o666) } else { Mode::empty() };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match openat2(&folder, below, flags, mode, resolve) {
            Ok(file) => Ok(file.into()),
            // An older system, or one that forbids the call.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => self.open_plainly(write),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn open_beneath(&self, write: bool) -> io::Result<File> {
        self.open_plainly(write)
    }

    fn open_plainly(&self, write: bool) -> io::Result<File> {
        if !write {
            return File::open(&self.real);
        }
        File::options().write(true).create(true).truncate(false).open(&self.real)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct World {
        _dir: tempfile::TempDir,
        folder: PathBuf,
        outside: PathBuf,
    }

    fn world() -> World {
        let dir = tempfile::tempdir().unwrap();
        let (folder, outside) = (dir.path().join("project"), dir.path().join("outside"));
        fs::create_dir_all(folder.join("sub")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(folder.join("a.txt"), "one\ntwo\r\nthree\nfour").unwrap();
        fs::write(outside.join("secret"), "s").unwrap();
        World { _dir: dir, folder, outside }
    }

    impl World {
        fn read(
            &self,
            path: impl AsRef<Path>,
            line: Option<u64>,
            limit: Option<u64>,
        ) -> Result<String, CallError> {
            read(&self.folder, &Read { path: self.folder.join(path), line, limit })
        }

        fn write(&self, path: impl AsRef<Path>, content: &str) -> Result<(), CallError> {
            let ask = Write { path: self.folder.join(path), content: content.to_owned() };
            write(&self.folder, &ask)
        }
    }

    #[test]
    fn a_file_is_read_whole_or_by_lines_with_their_ends() {
        let world = world();
        let read = |line, limit| world.read("a.txt", line, limit).unwrap();
        assert_eq!(read(None, None), "one\ntwo\r\nthree\nfour");
        assert_eq!(read(Some(2), Some(2)), "two\r\nthree\n");
        assert_eq!(read(None, Some(1)), "one\n");
        assert_eq!(read(Some(4), None), "four");
        assert_eq!(read(Some(0), Some(1)), "one\n", "some count from 0");
        assert_eq!((read(Some(99), None), read(None, Some(0))), (String::new(), String::new()));
    }

    #[test]
    fn what_is_written_is_read_again_also_in_new_folders_and_shorter_than_before() {
        let world = world();
        for text in ["a long text\n", "short", ""] {
            world.write("new/deep/ü.txt", text).unwrap();
            assert_eq!(world.read("new/deep/ü.txt", None, None).unwrap(), text);
        }
        world.write("sub/../b.txt", "b").unwrap();
        assert_eq!(fs::read_to_string(world.folder.join("b.txt")).unwrap(), "b");
    }

    #[test]
    fn nothing_outside_the_folder_is_touched_whatever_the_way() {
        let world = world();
        symlink(&world.outside, world.folder.join("out")).unwrap();
        symlink(world.outside.join("secret"), world.folder.join("link")).unwrap();
        symlink(world.outside.join("new"), world.folder.join("nowhere")).unwrap();
        for path in ["../outside/secret", "out/secret", "link", "sub/../../outside/secret"] {
            let error = world.read(path, None, None).unwrap_err();
            assert!(error.message().contains("the session's folder"), "{path}: {error:?}");
            assert!(world.write(path, "x").is_err(), "{path}");
        }
        for path in ["out/new", "nowhere", "../outside/new", "out/deep/new"] {
            assert!(world.write(path, "x").is_err(), "{path}");
        }
        assert_eq!(fs::read_to_string(world.outside.join("secret")).unwrap(), "s");
        assert_eq!(fs::read_dir(&world.outside).unwrap().count(), 1);
        let relative = read(&world.folder, &Read { path: "a.txt".into(), line: None, limit: None });
        assert!(relative.unwrap_err().message().contains("absolute"));
    }

    #[test]
    fn links_inside_the_folder_are_followed() {
        let world = world();
        symlink(world.folder.join("a.txt"), world.folder.join("sub/link")).unwrap();
        symlink("../sub", world.folder.join("sub/again")).unwrap();
        assert_eq!(world.read("sub/link", None, Some(1)).unwrap(), "one\n");
        world.write("sub/again/c.txt", "c").unwrap();
        assert_eq!(fs::read_to_string(world.folder.join("sub/c.txt")).unwrap(), "c");
        // The folder itself may be reached by a link.
        let by_link = world.folder.parent().unwrap().join("by-link");
        symlink(&world.folder, &by_link).unwrap();
        let ask = Read { path: by_link.join("a.txt"), line: None, limit: Some(1) };
        assert_eq!(read(&by_link, &ask).unwrap(), "one\n");
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let world = world();
        let missing = world.read("missing/x", None, None).unwrap_err();
        assert!(missing.message().contains("ENOENT"), "{missing:?}");
        fs::write(world.folder.join("binary"), b"\xff\xfe").unwrap();
        fs::write(world.folder.join("large"), vec![b'x'; (MOST + 1) as usize]).unwrap();
        let pipe = world.folder.join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        for (path, why) in
            [("binary", "UTF-8"), ("large", "`limit`"), ("sub", "folder"), ("pipe", "device")]
        {
            let error = world.read(path, None, None).unwrap_err();
            assert!(error.message().contains(why), "{path}: {error:?}");
        }
        assert!(world.read("large", Some(1), Some(1)).is_err(), "one line of it is too long");
        for path in ["sub", "pipe", "a.txt/b"] {
            assert!(world.write(path, "x").is_err(), "{path}");
        }
        assert!(world.read("", None, None).unwrap_err().message().contains("is not in"));
    }
}
