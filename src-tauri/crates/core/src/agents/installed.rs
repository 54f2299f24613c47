//! What is installed in Gantry's own directory: the folders, and the files that say which count.

use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// An installation that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Installed {
    /// The program, absolute.
    pub(super) program: PathBuf,
    pub(super) version: String,
}

/// What `<id>.json` says.
#[derive(Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) version: String,
    pub(super) folder: String,
    /// Below the folder.
    pub(super) program: String,
}

/// What is installed for this id and whole.
pub(super) fn installed(home: &Path, id: &str) -> Option<Installed> {
    let manifest = manifest(home, id)?;
    let program = home.join(&manifest.folder).join(&manifest.program);
    program.is_file().then_some(Installed { program, version: manifest.version })
}

/// The installation that counts, whole or not.
pub(super) fn manifest(home: &Path, id: &str) -> Option<Manifest> {
    serde_json::from_slice(&fs::read(home.join(format!("{id}.json"))).ok()?).ok()
}

/// Folders of installations that were cut off or replaced, but not these.
pub(super) fn remove_leftovers(home: &Path, id: &str, spared: &[String]) {
    let counts = manifest(home, id).map(|manifest| manifest.folder);
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        // Ids may be the beginning of other ids: `x` and `x-y`.
        let is_ours = id_of(&name) == Some(id);
        if is_ours && counts.as_ref() != Some(&name) && !spared.contains(&name) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The id in the name of a folder of an installation.
fn id_of(folder: &str) -> Option<&str> {
    let (id, random) = folder.rsplit_once('-')?;
    uuid::Uuid::try_parse(random).is_ok().then_some(id)
}

/// The ids of which there are folders.
pub(super) fn ids(home: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| id_of(&name).map(str::to_owned)).collect()
}

/// Makes an installation the one that counts, in one step.
pub(super) fn save(home: &Path, id: &str, manifest: &Manifest) -> io::Result<()> {
    let temporary = home.join(format!("{id}.json.new"));
    let text = serde_json::to_vec(manifest)?;
    let mut file = fs::File::create(&temporary)?;
    file.write_all(&text).and_then(|()| file.sync_all())?;
    fs::rename(temporary, home.join(format!("{id}.json")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_leftovers_of_the_same_agent_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let random = || uuid::Uuid::new_v4().simple().to_string();
        let folders = ["x-old", "x-counts", "x-new", "x-y-old"].map(|name| {
            let (id, _) = name.rsplit_once('-').unwrap();
            let folder = home.path().join(format!("{id}-{}", random()));
            fs::create_dir(&folder).unwrap();
            folder
        });
        fs::create_dir(home.path().join("x-notes")).unwrap();
        let [old, counts, new, other] = folders;
        let name = counts.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest = Manifest { version: "1".into(), folder: name, program: "p".into() };
        save(home.path(), "x", &manifest).unwrap();
        let spared = [new.file_name().unwrap().to_str().unwrap().to_owned()];
        remove_leftovers(home.path(), "x", &spared);
        assert_eq!(ids(home.path()), BTreeSet::from(["x", "x-y"].map(str::to_owned)));
        assert!(!old.exists());
        assert!(counts.exists() && new.exists() && other.exists());
        assert!(home.path().join("x-notes").exists());
        assert_eq!(installed(home.path(), "x"), None, "its program is not there");
        fs::write(counts.join("p"), "").unwrap();
        assert_eq!(installed(home.path(), "x").unwrap().version, "1");
    }
}
