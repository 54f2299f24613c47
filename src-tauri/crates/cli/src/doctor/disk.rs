//! The data directory, the disk it lies on, and the database.

use super::Finding;
use gantry_core::data_dir::DataDir;
use gantry_store::{Presence, Reader, StoreError};
use std::{
    fs,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
};

/// With less than this, the next download of a package fills the disk.
const TIGHT: u64 = 500 << 20;
/// With less than this, not even the database can grow.
const FULL: u64 = 20 << 20;

/// Whether it can be written, by us alone, and how much room there is.
pub fn data_directory(data: &DataDir) -> Vec<Finding> {
    let root = data.root.display().to_string();
    let mut findings = Vec::new();
    // One that is not there yet would be made below the nearest that is.
    let folder = nearest(&data.root);
    let in_the_way = data.root.ancestors().find(|part| part.exists()).filter(|part| !part.is_dir());
    findings.push(match try_to_write(&folder) {
        _ if in_the_way.is_some() => Finding::problem(
            "data directory",
            format!("{} is no directory", in_the_way.unwrap_or(&data.root).display()),
            "put that file aside, or choose another data directory with --data-dir",
        ),
        Ok(()) if folder == data.root => Finding::ok("data directory", root),
        Ok(()) => Finding::ok("data directory", format!("{root} (not there yet, can be made)")),
        Err(error) if error.kind() == ErrorKind::StorageFull => Finding::problem(
            "data directory",
            format!("{} cannot be written: {error}", folder.display()),
            "make room on that disk, or choose another data directory with --data-dir",
        ),
        Err(error) => Finding::problem(
            "data directory",
            format!("{} cannot be written: {error}", folder.display()),
            "give yourself the right to write there, or choose another with --data-dir",
        ),
    });
    if let Some(open) = readable_by_others(data) {
        findings.push(Finding::problem(
            "rights",
            format!("{} can be read by others", open.display()),
            format!("run `chmod go= {}`", open.display()),
        ));
    }
    if let Some(free) = free_bytes(&folder) {
        findings.push(room(free, &folder));
    }
    findings
}

fn nearest(path: &Path) -> PathBuf {
    path.ancestors().find(|folder| folder.is_dir()).unwrap_or(path).to_path_buf()
}

/// Writes a file and takes it away again: rights on paper and a disk without room tell
/// themselves apart from the real thing only so.
fn try_to_write(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(format!(".gantry-doctor-{}", std::process::id()));
    let written = fs::File::create(&path)
        .and_then(|mut file| file.write_all(&[0; 64 * 1024]).and_then(|()| file.sync_all()));
    let removed = fs::remove_file(&path);
    written.and(removed)
}

#[cfg(unix)]
fn readable_by_others(data: &DataDir) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    [data.token_file(), data.run.clone(), data.database.clone()]
        .into_iter()
        .find(|path| fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0))
}

#[cfg(not(unix))]
fn readable_by_others(_: &DataDir) -> Option<PathBuf> {
    None
}

#[cfg(unix)]
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}

fn room(free: u64, folder: &Path) -> Finding {
    let found = format!("{} MB free at {}", free >> 20, folder.display());
    match free {
        0..FULL => Finding::problem(
            "disk",
            found,
            "the disk is full: conversations can no longer be kept; make room",
        ),
        FULL..TIGHT => Finding::warning(
            "disk",
            found,
            "make room: servers that are downloaded first may not fit",
        ),
        _ => Finding::ok("disk", found),
    }
}

/// Whether the database fits this program.
pub fn database(data: &DataDir) -> Finding {
    let shown = data.database.display().to_string();
    match Reader::new(&data.database).status() {
        Ok(Presence::Missing) => Finding::ok("database", format!("{shown} (not there yet)")),
        Ok(Presence::Ready(_)) => Finding::ok("database", shown),
        Ok(Presence::Unprepared) => Finding::warning(
            "database",
            format!("{shown} is of an older Gantry"),
            "the next start brings it up to date; copy it first if you want to go back",
        ),
        Err(StoreError::Newer { found, known, .. }) => Finding::problem(
            "database",
            format!("{shown} has schema {found}, and this Gantry knows {known}"),
            "it was written by a newer Gantry; install that one, or choose another --data-dir",
        ),
        // The data directory itself is what is wrong.
        Err(StoreError::File { source, .. }) if source.kind() == ErrorKind::NotADirectory => {
            Finding::ok("database", format!("{shown} (not there yet)"))
        }
        Err(StoreError::File { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
            Finding::problem(
                "database",
                format!("{shown} cannot be read: {source}"),
                "it is another user's: give yourself the right, or choose another --data-dir",
            )
        }
        Err(error) => Finding::problem(
            "database",
            format!("{shown}: {error}"),
            "put it aside (rename it) and start again; your servers and conversations are in it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn room_is_judged_by_what_is_left() {
        let verdict = |free| room(free, Path::new("/x")).verdict;
        assert_eq!(verdict(0), Verdict::Problem);
        assert_eq!(verdict(100 << 20), Verdict::Warning);
        assert_eq!(verdict(10 << 30), Verdict::Ok);
    }

    #[test]
    fn a_directory_that_is_not_there_yet_is_fine_and_is_not_made() {
        let place = tempfile::tempdir().unwrap();
        let data = DataDir::at(place.path().join("a/b"));
        let findings = data_directory(&data);
        assert!(findings.iter().all(|f| f.check != "data directory" || f.verdict == Verdict::Ok));
        assert_eq!(database(&data).verdict, Verdict::Ok);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_where_the_directory_should_be_is_a_problem() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "x").unwrap();
        for root in [file.clone(), file.join("deeper/still")] {
            let data = DataDir::at(root);
            let findings = data_directory(&data);
            let finding = findings.iter().find(|f| f.check == "data directory").unwrap();
            assert_eq!(finding.verdict, Verdict::Problem);
            assert!(finding.found.contains("is no directory"), "{}", finding.found);
            // That is said once.
            assert_eq!(database(&data).verdict, Verdict::Ok);
        }
    }

    #[test]
    fn what_cannot_be_written_is_a_problem() {
        // A file where a folder should be stops even root; so does a full device.
        let error = try_to_write(Path::new("/proc")).unwrap_err();
        assert!(!error.to_string().is_empty());
    }

    #[test]
    fn a_database_that_is_none_is_a_problem() {
        let place = tempfile::tempdir().unwrap();
        let data = DataDir::at(place.path().to_path_buf());
        fs::write(&data.database, "no database at all, but long enough to look like one").unwrap();
        assert_eq!(database(&data).verdict, Verdict::Problem);
    }
}
