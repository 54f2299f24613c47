//! `cargo xtask bench`: benchmarks live in `tests/benches`, one file each.

use crate::{
    command::{cargo, run as run_command},
    place,
};

/// Prints the names.
pub fn list() -> Result<(), String> {
    let names = names()?;
    if names.is_empty() {
        println!("no benchmarks in tests/benches");
    }
    for name in names {
        println!("{name}");
    }
    Ok(())
}

/// Runs one, with the programs that it measures built for release.
pub fn run(name: &str, args: &[String]) -> Result<(), String> {
    let names = names()?;
    if !names.iter().any(|known| known == name) {
        return Err(format!("no benchmark `{name}`; there are: {}", names.join(", ")));
    }
    let programs = ["-p", "gantry-cli", "-p", "gantry-warden", "-p", "gantry-tests", "--bins"];
    run_command(cargo(["build", "--release"]).args(programs))?;
    run_command(cargo(["bench", "-p", "gantry-tests", "--bench", name]).arg("--").args(args))
}

fn names() -> Result<Vec<String>, String> {
    let dir = place::root().join("tests/benches");
    let Ok(entries) = std::fs::read_dir(&dir) else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.map_err(|why| format!("{}: {why}", dir.display()))?.path();
        if path.extension().is_some_and(|ext| ext == "rs") || path.join("main.rs").is_file() {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}
