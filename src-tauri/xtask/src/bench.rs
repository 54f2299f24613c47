//! `cargo xtask bench`: benchmarks live in `tests/benches`, one file each; that of the
//! interface is `tests/ui/bench.mjs`.

use crate::{
    command::{cargo, run as run_command},
    npm, place,
    test::on_a_display,
};
use std::process::Command;

/// The benchmark that runs in a browser.
const UI: &str = "ui";

/// The one that opens the real window.
const WINDOW: &str = "window";

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
    if name == UI {
        return run_ui();
    }
    let mut programs = vec!["-p", "gantry-cli", "-p", "gantry-warden", "-p", "gantry-tests"];
    if name == WINDOW {
        npm::need_node()?;
        npm::install_ui()?;
        npm::build_ui()?;
        programs.extend(["-p", "gantry-desktop"]);
    }
    run_command(cargo(["build", "--release", "--bins"]).args(programs))?;
    let mut bench = cargo(["bench", "-p", "gantry-tests", "--bench", name]);
    bench.arg("--").args(args);
    run_command(&mut if name == WINDOW { on_a_display(&bench) } else { bench })
}

/// The interface in headless Chromium, against the program for release, which holds it.
fn run_ui() -> Result<(), String> {
    npm::need_node()?;
    npm::install_ui()?;
    npm::build_ui()?;
    npm::install_for_tests()?;
    run_command(cargo(["build", "--release"]).args(["-p", "gantry-cli", "-p", "gantry-warden"]))?;
    let mut node = Command::new("node");
    node.arg("tests/ui/bench.mjs")
        .current_dir(place::root())
        .env("GANTRY_PROGRAMS", place::target().join("release"))
        .env("GANTRY_TESTS_NPM", place::test_npm());
    run_command(&mut node)
}

fn names() -> Result<Vec<String>, String> {
    let dir = place::root().join("tests/benches");
    let Ok(entries) = std::fs::read_dir(&dir) else { return Ok(vec![UI.to_owned()]) };
    let mut names = vec![UI.to_owned()];
    for entry in entries {
        let path = entry.map_err(|why| format!("{}: {why}", dir.display()))?.path();
        if path.extension().is_some_and(|ext| ext == "rs") || path.join("main.rs").is_file() {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}
