//! Running other programs, with what is run in view.

use crate::place;
use std::{ffi::OsStr, path::Path, process::Command};

/// `cargo` in the repository, with the target directory of [`place::target`].
pub fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command =
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsStr::new("cargo").into()));
    command.args(args).current_dir(place::root()).env("CARGO_TARGET_DIR", place::target());
    if place::is_ci() {
        // A fresh clone has nothing to be incremental to; without it the build
        // is faster and the kept target directory smaller.
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// `npm` in a folder, silent about everything but the work.
pub fn npm(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
    command.args(args).current_dir(dir).env("npm_config_fund", "false");
    command.env("npm_config_audit", "false").env("npm_config_update_notifier", "false");
    command
}

/// Runs it, shows its command line first, and fails when it fails.
pub fn run(command: &mut Command) -> Result<(), String> {
    let line = line(command);
    println!("$ {line}");
    let status = command.status().map_err(|why| format!("`{line}` could not be started: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` ended with {status}")) }
}

/// Runs it silently and returns its standard output when it succeeds.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command.stderr(std::process::Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Its command line, to be shown.
pub fn line(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
