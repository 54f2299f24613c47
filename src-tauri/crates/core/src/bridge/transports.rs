//! Which HTTP transport a remote server speaks whose configuration does not say: found out by
//! the program that carries it, remembered in a file of its own between starts.

use super::spec::hashed_name;
use std::path::{Path, PathBuf};

/// Read by `gantry mcp --carry`: the file in which it remembers the transport that it found out.
pub const TRANSPORT_VARIABLE: &str = "GANTRY_MCP_TRANSPORT_FILE";
/// The transport with two endpoints, as a configuration and the file name it.
pub const SSE: &str = "sse";
/// The transport with one.
pub const STREAMABLE: &str = "streamable-http";

/// The file for a URL. Its name tells nothing of the URL, which may hold a secret.
pub(super) fn file_of(data_dir: &Path, url: &str) -> PathBuf {
    data_dir.join("transports").join(hashed_name(url))
}

/// The transport of a URL, when it was found out before.
pub(super) fn remembered(data_dir: &Path, url: &str) -> Option<&'static str> {
    let found = std::fs::read_to_string(file_of(data_dir, url)).ok()?;
    [SSE, STREAMABLE].into_iter().find(|known| found.trim() == *known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_out_is_found_again_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let url = "https://h/mcp?key=k3y";
        assert_eq!(remembered(dir.path(), url), None);
        let file = file_of(dir.path(), url);
        assert!(!file.display().to_string().contains("k3y"));
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        for (text, wanted) in
            [("sse\n", Some(SSE)), ("streamable-http", Some(STREAMABLE)), ("x", None)]
        {
            std::fs::write(&file, text).expect("written");
            assert_eq!(remembered(dir.path(), url), wanted);
        }
        assert_ne!(file, file_of(dir.path(), "https://h/mcp"));
    }
}
