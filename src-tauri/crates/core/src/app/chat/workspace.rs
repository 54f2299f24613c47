//! The folder of a back end's project: `workspaces/<user>/<project>`.

use crate::{Error, Result};
use std::{
    io,
    path::{Path, PathBuf},
};

/// Creates the folder if it is missing. Both names have been checked to be names; what is left to
/// fear is a symbolic link that somebody put in their place.
///
/// # Errors
/// Failed: a link or a file is in the way, the file system refuses.
pub(super) async fn folder(workspaces: &Path, user: &str, project: &str) -> Result<PathBuf> {
    let failed = |path: &Path, why: &dyn std::fmt::Display| {
        Error::failed(format!("the project's folder {} cannot be used: {why}", path.display()))
    };
    // The data directory itself may well be a link.
    let root =
        tokio::fs::canonicalize(workspaces).await.map_err(|error| failed(workspaces, &error))?;
    let mut path = root;
    for name in [user, project] {
        path.push(name);
        let mut builder = tokio::fs::DirBuilder::new();
        #[cfg(unix)]
        builder.mode(0o700);
        match builder.create(&path).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let what = tokio::fs::symlink_metadata(&path)
                    .await
                    .map_err(|error| failed(&path, &error))?;
                if !what.is_dir() {
                    return Err(failed(&path, &"it is a link or a file; move it away"));
                }
            }
            Err(error) => return Err(failed(&path, &error)),
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_is_created_once_and_used_again() {
        let place = tempfile::tempdir().unwrap();
        let first = folder(place.path(), "u", "p").await.unwrap();
        assert_eq!(first, place.path().canonicalize().unwrap().join("u/p"));
        assert!(first.is_dir());
        assert_eq!(folder(place.path(), "u", "p").await.unwrap(), first);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_link_in_its_place_is_refused_and_nothing_is_created_behind_it() {
        let place = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), place.path().join("u")).unwrap();
        let error = folder(place.path(), "u", "p").await.unwrap_err();
        assert!(error.message.contains("link"), "{}", error.message);
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
