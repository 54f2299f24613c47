//! From what was asked for to the file that is run: the clear errors of a start.

use crate::LaunchError;
use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

/// The directory to run in, made absolute.
pub(crate) fn directory(asked: Option<&Path>) -> Result<PathBuf, LaunchError> {
    let Some(asked) = asked else {
        // Ours may have been deleted under us.
        return std::env::current_dir().map_err(|_| LaunchError::NoDirectory(PathBuf::from(".")));
    };
    let absolute = std::path::absolute(asked).unwrap_or_else(|_| asked.to_owned());
    if absolute.is_dir() { Ok(absolute) } else { Err(LaunchError::NoDirectory(absolute)) }
}

/// The last value of a variable.
pub(crate) fn value<'a>(env: &'a [(OsString, OsString)], wanted: &str) -> Option<&'a OsStr> {
    let is_wanted = |name: &OsStr| {
        if cfg!(windows) { name.eq_ignore_ascii_case(wanted) } else { name == wanted }
    };
    env.iter().rev().find(|(name, _)| is_wanted(name)).map(|(_, value)| value.as_os_str())
}

/// The executable: a path as it is (relative to the child's directory), a name
/// through the child's `PATH`.
pub(crate) fn program(
    asked: &OsStr,
    env: &[(OsString, OsString)],
    cwd: &Path,
) -> Result<PathBuf, LaunchError> {
    let path = value(env, "PATH").unwrap_or_default();
    if let Ok(found) = which::which_in(asked, Some(path), cwd) {
        return Ok(found);
    }
    let name = asked.to_string_lossy().into_owned();
    if Path::new(asked).components().count() > 1 {
        let full = cwd.join(asked);
        if full.is_dir() {
            let source = io::Error::new(io::ErrorKind::IsADirectory, "it is a folder, no program");
            return Err(LaunchError::System { program: name, source });
        }
        if full.is_file() {
            let why = "the file is not executable; make it so with chmod +x";
            let source = io::Error::new(io::ErrorKind::PermissionDenied, why);
            return Err(LaunchError::System { program: name, source });
        }
        let searched = full.parent().unwrap_or(cwd).display().to_string();
        return Err(LaunchError::NotFound { program: name, searched });
    }
    let searched = match path.is_empty() {
        true => "an empty PATH".to_owned(),
        false => path.to_string_lossy().into_owned(),
    };
    Err(LaunchError::NotFound { program: name, searched })
}

/// What the system said, made clearer where its words mislead.
pub(crate) fn refusal(program: &Path, errno: i32, text: String) -> LaunchError {
    let source = match errno {
        0 => io::Error::other(text),
        errno => io::Error::from_raw_os_error(errno),
    };
    let source = if source.kind() == io::ErrorKind::NotFound && program.is_file() {
        let why = "the file is there, but the interpreter that its first line (`#!`) or its \
                   format names is not; install that";
        io::Error::new(io::ErrorKind::NotFound, why)
    } else {
        source
    };
    LaunchError::System { program: program.display().to_string(), source }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn path(value: &str) -> Vec<(OsString, OsString)> {
        vec![("PATH".into(), "/nowhere".into()), ("PATH".into(), value.into())]
    }

    #[test]
    fn a_name_is_looked_up_in_the_childs_own_path() {
        let found = program("sh".as_ref(), &path("/usr/bin:/bin"), Path::new("/")).expect("sh");
        assert!(found.ends_with("sh") && found.is_absolute());
        let error = program("sh".as_ref(), &path("/no:/where"), Path::new("/")).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("`sh`") && message.contains("/no:/where"), "{message}");
    }

    #[test]
    fn a_relative_path_is_the_childs_directorys() {
        let found = program("./sh".as_ref(), &[], Path::new("/bin")).expect("./sh");
        assert_eq!(found.file_name(), Some("sh".as_ref()));
        let error = program("./no-such".as_ref(), &[], Path::new("/bin")).unwrap_err();
        assert!(error.to_string().contains("/bin"), "{error}");
    }

    #[test]
    fn a_file_that_is_not_executable_is_not_called_missing() {
        let error = program("./passwd".as_ref(), &[], Path::new("/etc")).unwrap_err();
        assert!(error.to_string().contains("chmod +x"), "{error}");
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = directory(Some(Path::new("/no/such/folder"))).unwrap_err();
        assert!(error.to_string().contains("/no/such/folder"), "{error}");
        assert_eq!(directory(Some(Path::new("/"))).expect("root"), Path::new("/"));
    }
}
