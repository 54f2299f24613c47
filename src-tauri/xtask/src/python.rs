//! The Python packages of the tests: a virtual environment outside the
//! repository, so that it is there for the next clone too.

use crate::{
    command::{output, run},
    place,
};
use std::{fs, path::Path, process::Command};

/// Installs the environment, and fetches the MCP servers that the tests start with uvx, when
/// one of the lists changed since the last time.
pub fn install_for_tests() -> Result<(), String> {
    let from = place::root().join("tests/python");
    let list = from.join("requirements.txt");
    let servers = read(&from.join("servers.txt"))?;
    let wanted = read(&list)? + &servers;
    let folder = place::test_python();
    let stamp = folder.join(".gantry-installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    if output(Command::new("python3").arg("--version")).is_none() {
        return Err("python3 was not found in PATH; install Python 3.10 or newer".into());
    }
    // One that is half there is no base for anything.
    let _ = fs::remove_dir_all(&folder);
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    let bin = folder.join("bin");
    run(Command::new(bin.join("python"))
        .args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"])
        .arg("--requirement")
        .arg(&list))?;
    for server in servers.lines().map(str::trim) {
        if !server.is_empty() && !server.starts_with('#') {
            // Its help is enough to have it and what it needs in the cache.
            let mut fetch = Command::new(bin.join("uvx"));
            fetch.args([server, "--help"]).stdout(std::process::Stdio::null());
            fetch.env("UV_CACHE_DIR", place::test_uv()).env("UV_PYTHON_DOWNLOADS", "never");
            run(&mut fetch)?;
        }
    }
    fs::write(&stamp, wanted).map_err(|why| format!("{}: {why}", stamp.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))
}
