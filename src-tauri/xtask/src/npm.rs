//! The packages of the UI and of the tests, and the UI's build.

use crate::{
    command::{npm, output, run},
    place,
};
use std::{fs, path::Path, process::Command};

/// The oldest Node that the UI's build tool runs on: 20.19, or 22.12 and later.
fn is_new_enough(version: &str) -> bool {
    let mut parts = version.trim().trim_start_matches('v').split('.').map(|part| part.parse());
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else { return false };
    let version: (u32, u32) = (major, minor);
    ((20, 19)..(21, 0)).contains(&version) || version >= (22, 12)
}

/// Fails with what to do when Node is missing or too old.
pub fn need_node() -> Result<(), String> {
    let found = output(Command::new("node").arg("--version"));
    match found {
        Some(version) if is_new_enough(&version) => Ok(()),
        Some(version) => Err(format!(
            "Node {} is too old for the UI's build; install Node 20.19 or later of 20, or 22.12 \
             or later (https://nodejs.org)",
            version.trim()
        )),
        None => Err("Node was not found in PATH; install Node 22 (https://nodejs.org)".into()),
    }
}

/// Installs the UI's packages when the lock file changed since the last time.
pub fn install_ui() -> Result<(), String> {
    install(&place::root().join("ui"))
}

/// Builds the UI when a source changed since the last time.
pub fn build_ui() -> Result<(), String> {
    let ui = place::root().join("ui");
    // Not in `dist`: all that is there becomes part of the programs.
    let stamp = ui.join("node_modules/.gantry-built");
    let sources = format!("{:016x}", fingerprint(&ui)?);
    let is_built = ui.join("dist/index.html").is_file();
    if is_built && fs::read_to_string(&stamp).is_ok_and(|built| built == sources) {
        return Ok(());
    }
    run(&mut npm(&ui, &["run", "build"]))?;
    fs::write(&stamp, sources).map_err(|why| format!("{}: {why}", stamp.display()))
}

/// Installs the tests' packages.
pub fn install_for_tests() -> Result<(), String> {
    install_from(&place::root().join("tests/npm"), &place::test_npm())
}

/// Installs the real agents of the tests, each into a folder of its own.
pub fn install_agents() -> Result<(), String> {
    let from = place::root().join("tests/npm/agents");
    let entries = fs::read_dir(&from).map_err(|why| format!("{}: {why}", from.display()))?;
    for entry in entries.flatten() {
        install_from(&entry.path(), &place::test_agents().join(entry.file_name()))?;
    }
    Ok(())
}

/// Installs the conformance suite, and the Node that it needs.
pub fn install_conformance() -> Result<(), String> {
    install_from(&place::root().join("tests/npm/conformance"), &place::test_conformance())
}

/// Installs a package list outside the repository, so that it is there for the
/// next clone too.
fn install_from(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|why| format!("{}: {why}", to.display()))?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(from.join(name), to.join(name))
            .map_err(|why| format!("{} to {}: {why}", from.join(name).display(), to.display()))?;
    }
    install(to)
}

fn install(dir: &Path) -> Result<(), String> {
    let stamp = dir.join("node_modules/.gantry-installed");
    let lock = fs::read_to_string(dir.join("package-lock.json"))
        .map_err(|why| format!("{}: {why}", dir.join("package-lock.json").display()))?;
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    run(&mut npm(dir, &["ci"]))?;
    fs::write(&stamp, lock).map_err(|why| format!("{}: {why}", stamp.display()))
}

/// A number that changes when a file below `dir` does (FNV-1a over names and
/// contents; the results of builds are left out).
fn fingerprint(dir: &Path) -> Result<u64, String> {
    fn add(hash: &mut u64, bytes: &[u8]) {
        for byte in bytes {
            *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    fn walk(dir: &Path, hash: &mut u64) -> std::io::Result<()> {
        let mut entries = fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            if ["node_modules", "dist"].iter().any(|skipped| name == *skipped) {
                continue;
            }
            add(hash, name.as_encoded_bytes());
            if entry.file_type()?.is_dir() {
                walk(&entry.path(), hash)?;
            } else {
                add(hash, &fs::read(entry.path())?);
            }
        }
        Ok(())
    }
    let mut hash = 0xcbf2_9ce4_8422_2325;
    walk(dir, &mut hash).map_err(|why| format!("{}: {why}", dir.display()))?;
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::is_new_enough;

    #[test]
    fn node_versions_that_the_build_tool_refuses_are_refused_here_with_advice() {
        for (version, expected) in [
            ("v20.20.2\n", true),
            ("v20.18.9", false),
            ("v18.20.4", false),
            ("v21.7.0", false),
            ("v22.11.0", false),
            ("v22.12.0", true),
            ("v24.0.0", true),
            ("nonsense", false),
        ] {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }
}
