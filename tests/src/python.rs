//! Python programs that the tests start, installed by `cargo xtask test` outside
//! the repository.

use std::path::PathBuf;

fn cache() -> PathBuf {
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"),
    };
    cache.join("gantry-tests")
}

/// A program of the tests' virtual environment. The xtask knows the same place.
///
/// # Panics
/// When it is not installed.
pub fn program(name: &str) -> PathBuf {
    let path = cache().join("python/bin").join(name);
    assert!(
        path.is_file(),
        "{} is not there; run `cargo xtask test --only packages`",
        path.display()
    );
    path
}

/// The folder in which uv keeps what was fetched, so that a test needs no network.
pub fn uv_cache() -> PathBuf {
    cache().join("uv")
}

/// The pinned packages of MCP servers, `name==version`.
pub fn servers() -> impl Iterator<Item = &'static str> {
    let lines = include_str!("../python/servers.txt").lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}
