//! What Gantry keeps on this computer.

use super::App;
use crate::{Error, Result, data_dir::DataDir, wire::*};
use std::{fs, path::Path};

impl App {
    /// What is in the data directory.
    ///
    /// # Errors
    /// None but the end of Gantry.
    pub async fn data(&self, _: Nothing) -> Result<Data> {
        let dir = self.data_dir().clone();
        let measured = self.scope().spawn_blocking("size of the data", move || measure(&dir));
        measured.join().await.ok_or_else(Error::shutting_down)
    }
}

fn measure(dir: &DataDir) -> Data {
    // SQLite's own files lie beside the database.
    let beside = |end: &str| {
        let mut path = dir.database.clone().into_os_string();
        path.push(end);
        path.into()
    };
    let database: [std::path::PathBuf; 3] = [dir.database.clone(), beside("-wal"), beside("-shm")];
    let agents = dir.root.join("agents");
    let known = [&agents, &dir.workspaces, &dir.logs];
    let mut other = 0;
    for entry in fs::read_dir(&dir.root).into_iter().flatten().flatten() {
        let path = entry.path();
        if !known.contains(&&path) && !database.contains(&path) {
            other += size_of(&path);
        }
    }
    let part =
        |kind, path: &Path, bytes| DataPart { kind, path: path.display().to_string(), bytes };
    let folder = |kind, path: &Path| part(kind, path, size_of(path));
    Data {
        folder: dir.root.display().to_string(),
        parts: vec![
            part(
                DataKind::Database,
                &dir.database,
                database.iter().map(|file| size_of(file)).sum(),
            ),
            folder(DataKind::Agents, &agents),
            folder(DataKind::Workspaces, &dir.workspaces),
            folder(DataKind::Logs, &dir.logs),
            part(DataKind::Other, &dir.root, other),
        ],
    }
}

/// Bytes of a file, or of all files of a folder. What is behind a link is not ours, and what
/// cannot be read counts nothing.
fn size_of(path: &Path) -> u64 {
    let mut total = 0;
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        let Ok(facts) = fs::symlink_metadata(&path) else { continue };
        if facts.is_dir() {
            let below = fs::read_dir(&path).into_iter().flatten().flatten();
            left.extend(below.map(|entry| entry.path()));
        } else if facts.is_file() {
            total += facts.len();
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_counted_once_and_nothing_outside() {
        let place = tempfile::tempdir().unwrap();
        let dir = DataDir::at(place.path().join("data"));
        dir.create().unwrap();
        let write = |path: &str, bytes: usize| {
            let path = dir.root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![0; bytes]).unwrap();
        };
        write("gantry.db", 100);
        write("gantry.db-wal", 20);
        write("agents/a/b/c", 3000);
        write("logs/x", 7);
        write("transports/t", 1);
        write("run/token", 4);
        let outside = place.path().join("outside");
        fs::write(&outside, vec![0; 9999]).unwrap();
        std::os::unix::fs::symlink(&outside, dir.workspaces.join("link")).unwrap();
        let data = measure(&dir);
        let sizes: Vec<_> = data.parts.iter().map(|part| (part.kind, part.bytes)).collect();
        assert_eq!(
            sizes,
            [
                (DataKind::Database, 120),
                (DataKind::Agents, 3000),
                (DataKind::Workspaces, 0),
                (DataKind::Logs, 7),
                (DataKind::Other, 5),
            ]
        );
        assert_eq!(data.folder, dir.root.display().to_string());
    }
}
