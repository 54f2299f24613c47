//! Where a known agent is, and which version. Starts nothing; reads the file
//! system, so it runs outside the runtime's threads.

use super::{Known, Package, installed};
use gantry_supervisor::environment::find_program;
use serde_json::Value;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Where an agent was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The program.
    pub(crate) path: PathBuf,
    /// As far as it can be known without starting it.
    pub(crate) version: Option<String>,
    /// Whether Gantry installed it.
    pub(crate) managed: bool,
}

/// Gantry's own installation in `home`, else the `PATH` that agents get, else the
/// well-known places.
pub(crate) fn find(known: &Known, home: &Path) -> Option<Found> {
    if let Some(installed) = installed::installed(home, &known.id) {
        let (path, version) = (installed.program, Some(installed.version));
        return Some(Found { path, version, managed: true });
    }
    let in_places = || known.places.iter().find_map(|place| in_place(place, &known.program));
    let path = find_program(&known.program).or_else(in_places)?;
    let version = known.package.as_ref().and_then(|package| version(&path, package));
    Some(Found { path, version, managed: false })
}

fn in_place(place: &str, program: &str) -> Option<PathBuf> {
    let folder = match place.strip_prefix("~/") {
        Some(rest) => dirs::home_dir()?.join(rest),
        None => PathBuf::from(place),
    };
    let mut file = OsString::from(program);
    file.push(std::env::consts::EXE_SUFFIX);
    Some(folder.join(file)).filter(|path| path.is_file())
}

/// What the `package.json` says that the program came with.
fn version(program: &Path, package: &Package) -> Option<String> {
    let file = program.canonicalize().ok()?;
    file.ancestors().skip(1).take(6).find_map(|folder| {
        let text = std::fs::read_to_string(folder.join("package.json")).ok()?;
        let about: Value = serde_json::from_str(&text).ok()?;
        let is_it = about["name"] == package.name.as_str();
        about["version"].as_str().filter(|_| is_it).map(str::to_owned)
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::agents::by_id;
    use std::fs;

    #[test]
    fn a_program_that_npm_linked_says_the_version_of_its_package() {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("lib/node_modules/opencode-ai");
        fs::create_dir_all(package.join("bin")).unwrap();
        fs::create_dir_all(dir.path().join("bin")).unwrap();
        fs::write(package.join("package.json"), r#"{"name":"opencode-ai","version":"1.2.3"}"#)
            .unwrap();
        fs::write(package.join("bin/opencode"), "").unwrap();
        let link = dir.path().join("bin/opencode");
        std::os::unix::fs::symlink(package.join("bin/opencode"), &link).unwrap();
        let known = by_id("opencode").unwrap().package.as_ref().unwrap();
        assert_eq!(version(&link, known).as_deref(), Some("1.2.3"));
        let other = Package { name: "other".into(), ..known.clone() };
        assert_eq!(version(&link, &other), None);
    }

    #[test]
    fn well_known_places_are_looked_at_after_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let mut known = Known::clone(by_id("goose").unwrap());
        known.program = "no-such-agent-anywhere".into();
        known.places = vec![dir.path().display().to_string()];
        assert_eq!(find(&known, dir.path()), None);
        let program = dir.path().join("no-such-agent-anywhere");
        fs::write(&program, "").unwrap();
        let found = Found { path: program, version: None, managed: false };
        assert_eq!(find(&known, dir.path()), Some(found));
    }
}
