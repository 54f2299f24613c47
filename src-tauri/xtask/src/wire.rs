//! `ui/src/wire.ts`: written from the Rust types, committed, and checked.

use crate::{
    command::{cargo, output, run},
    place,
};
use std::{fs, path::PathBuf, process::Command};

fn path() -> PathBuf {
    place::root().join("ui/src/wire.ts")
}

/// Writes it anew.
pub fn write() -> Result<(), String> {
    let text = output(&mut cargo(["run", "-q", "-p", "gantry-core", "--example", "wire"]))
        .ok_or("the wire types could not be generated; `cargo build -p gantry-core` says why")?;
    fs::write(path(), text).map_err(|why| format!("{}: {why}", path().display()))
}

/// Fails when it is not what the types say.
pub fn check() -> Result<(), String> {
    let program = place::program("examples/wire");
    if !program.exists() {
        // This part alone was asked for.
        run(&mut cargo(["build", "-q", "-p", "gantry-core", "--example", "wire", "--locked"]))?;
    }
    let expected = output(&mut Command::new(&program))
        .ok_or_else(|| format!("{} failed", program.display()))?;
    let found = fs::read_to_string(path()).map_err(|why| format!("{}: {why}", path().display()))?;
    if found == expected {
        return Ok(());
    }
    let line = found.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count() + 1;
    Err(format!(
        "ui/src/wire.ts is not what the Rust types say (first difference in line {line}); run \
         `cargo xtask wire` and commit the file"
    ))
}
