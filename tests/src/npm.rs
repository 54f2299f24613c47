//! npm packages that the tests start, installed by `cargo xtask test` outside
//! the repository.

use std::path::PathBuf;

/// The folder with `node_modules`. The xtask knows the same place.
fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("GANTRY_TESTS_NPM") {
        return PathBuf::from(folder);
    }
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"),
    };
    cache.join("gantry-tests/npm")
}

/// The script of `@modelcontextprotocol/server-everything`; `node` runs it, and
/// with the argument `stdio` it speaks MCP on its standard streams.
///
/// # Panics
/// When it is not installed.
pub fn server_everything() -> PathBuf {
    let script =
        folder().join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    assert!(
        script.is_file(),
        "{} is not there; run `cargo xtask test --only packages`",
        script.display()
    );
    script
}
