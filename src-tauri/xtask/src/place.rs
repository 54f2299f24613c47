//! Where things are: the repository, the target directory, the caches.

use std::path::{Path, PathBuf};

/// The top of the repository.
pub fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.ancestors().nth(2).map_or_else(|| here.clone(), Path::to_path_buf)
}

/// Whether this is a machine that builds for others: each run has a fresh
/// clone, no terminal, and a home directory that may be kept.
pub fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true" || value == "1")
}

/// Cargo's target directory. `CARGO_TARGET_DIR` is honoured; otherwise it is
/// `target` in the repository, and on CI `~/.cache/gantry/target`, so that the
/// next fresh clone finds the dependencies built.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) if !dir.is_empty() => root().join(dir),
        _ if is_ci() => cache().join("gantry/target"),
        _ => root().join("target"),
    }
}

/// Where a built program is.
pub fn program(name: &str) -> PathBuf {
    target().join("debug").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// The installed npm packages of the tests. `tests/src/npm.rs` knows the same place.
pub fn test_npm() -> PathBuf {
    cache().join("gantry-tests/npm")
}

/// The folders of the real agents that the tests start. `tests/src/npm.rs`
/// knows the same place.
pub fn test_agents() -> PathBuf {
    cache().join("gantry-tests/agents")
}

/// The conformance suite. `tests/src/npm.rs` knows the same place.
pub fn test_conformance() -> PathBuf {
    cache().join("gantry-tests/conformance")
}

/// The virtual environment with the tests' Python packages. `tests/src/python.rs`
/// knows the same place.
pub fn test_python() -> PathBuf {
    cache().join("gantry-tests/python")
}

/// What uv has fetched for the tests. `tests/src/python.rs` knows the same place.
pub fn test_uv() -> PathBuf {
    cache().join("gantry-tests/uv")
}

fn cache() -> PathBuf {
    if let Some(dir) = std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        return PathBuf::from(dir);
    }
    let home = std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"));
    home.map_or_else(std::env::temp_dir, PathBuf::from).join(".cache")
}
