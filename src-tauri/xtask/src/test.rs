//! `cargo xtask test`: everything that must hold, in the order in which the
//! steps need each other.

use crate::{
    command::{cargo, npm, run},
    npm, packages, place, python,
    second_look::SecondLook,
    steps::Steps,
    wire,
};
use std::{fs, path::Path, process::Command};

/// How many tests of one program run at the same time.
const THREADS: &str = "RUST_TEST_THREADS";

/// More than the kept target directory may hold on CI, in bytes.
const TARGET_BOUND: u64 = 12 << 30;

/// Runs all parts, or one.
pub fn test(only: Option<&str>, filter: &[String]) -> Result<(), String> {
    let ui = place::root().join("ui");
    let mut steps = Steps::new(only);
    let look = SecondLook::new();

    steps.step("packages", "system packages", &[], || {
        let all: Vec<&str> = packages::BUILD.iter().chain(packages::TEST).copied().collect();
        packages::need(&all)
    });
    steps.step("packages", "npm packages of the tests", &[], || {
        npm::need_node()?;
        npm::install_for_tests()
    });
    steps.step("packages", "real agents", &["npm packages of the tests"], npm::install_agents);
    let needs = &["npm packages of the tests"];
    steps.step("packages", "conformance suite", needs, npm::install_conformance);
    let needs = &["system packages"];
    steps.step("packages", "Python packages of the tests", needs, python::install_for_tests);

    steps.step("ui", "UI packages", &[], npm::install_ui);
    steps.step("ui", "UI check", &["UI packages"], || run(&mut npm(&ui, &["run", "check"])));
    steps.step("ui", "UI unit tests", &["UI packages"], || run(&mut npm(&ui, &["test"])));
    steps.step("ui", "UI build", &["UI packages"], npm::build_ui);

    steps.step("lint", "formatting", &[], || run(&mut cargo(["fmt", "--all", "--check"])));
    steps.step("build", "build", &["system packages", "UI build"], || {
        if place::is_ci() {
            drop_stale_artefacts()?;
        }
        // One build for all that is run below: the tests start programs of
        // other packages, and the same features make the same artefacts.
        run(&mut cargo(["build", "--workspace", "--all-targets", "--locked"]))
    });
    steps.step("lint", "wire types", &["build"], wire::check);
    steps.step("lint", "clippy", &["system packages", "UI build"], || {
        run(cargo(["clippy", "--workspace", "--all-targets", "--locked"])
            .args(["--", "-D", "warnings"]))
    });

    steps.step(
        "rust",
        "Rust tests",
        &[
            "build",
            "npm packages of the tests",
            "real agents",
            "conformance suite",
            "Python packages of the tests",
        ],
        || {
            let tests = || {
                let mut tests = cargo_test("20m");
                tests.args(["--workspace", "--locked", "--no-fail-fast", "--"]);
                // Most of them wait for programs: two processors were idle nine tenths of the time.
                if std::env::var_os(THREADS).is_none() {
                    tests.env(THREADS, "4");
                }
                tests
            };
            let mut all = tests();
            all.args(filter);
            look.at_tests(all, tests)
        },
    );
    steps.step("flows", "UI flows in Chromium", &["build", "npm packages of the tests"], || {
        look.at("the UI flows", flows)
    });
    steps.step("window", "real window", &["build", "system packages"], || {
        look.at("the real window", || window(filter))
    });
    let outcome = steps.finish();
    look.tell();
    outcome
}

/// `cargo test`, on CI with a limit: there nobody would see that it hangs, and
/// what it printed so far says where.
fn cargo_test(limit: &str) -> Command {
    let test = cargo(["test"]);
    bounded(limit, test)
}

fn bounded(limit: &str, command: Command) -> Command {
    if !(place::is_ci() && cfg!(target_os = "linux")) {
        return command;
    }
    let mut outer = Command::new("timeout");
    outer.args(["--kill-after=10", limit]).arg(command.get_program()).args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        outer.current_dir(dir);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

fn flows() -> Result<(), String> {
    let folder = place::root().join("tests/ui");
    let entries = fs::read_dir(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(".test.mjs"));
    files.sort();
    let mut node = Command::new("node");
    // Two files at a time: each test has a stage of its own, and mostly waits.
    node.args(["--test", "--test-concurrency=2", "--test-reporter=spec"])
        .args(files)
        .current_dir(place::root())
        .env("GANTRY_PROGRAMS", place::target().join("debug"))
        .env("GANTRY_TESTS_NPM", place::test_npm());
    run(&mut bounded("10m", node))
}

/// The tests that need a display: the ones that a plain `cargo test` ignores.
/// One bus and one display for all, so one at a time.
fn window(filter: &[String]) -> Result<(), String> {
    let mut inner = cargo(["test", "--workspace", "--locked", "--test", "main", "--"]);
    inner.args(["--ignored", "--test-threads=1"]).args(filter);
    let test = on_a_display(&inner);
    run(&mut bounded("15m", test))
}

/// The same command with a display, a window manager and a session bus of its own.
pub fn on_a_display(inner: &Command) -> Command {
    let mut outer = Command::new("xvfb-run");
    outer
        .args(["-a", "-s", "-screen 0 1280x800x24", "dbus-run-session", "--"])
        .args(["sh", "-c", "openbox & wm=$!; \"$@\"; code=$?; kill $wm; exit $code", "sh"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir(place::root())
        .env("CARGO_TARGET_DIR", place::target())
        .env("NO_AT_BRIDGE", "1");
    for (name, value) in inner.get_envs() {
        if let Some(value) = value {
            outer.env(name, value);
        }
    }
    outer
}

/// What a former clone's own packages left in the kept target directory: they
/// can never be used again, only the dependencies can. When it is too large all
/// the same (old versions of dependencies), everything goes.
fn drop_stale_artefacts() -> Result<(), String> {
    run(&mut cargo(["clean", "--quiet", "--workspace"]))?;
    let size = size(&place::target());
    if size > TARGET_BOUND {
        println!("{} holds {} MiB: emptied", place::target().display(), size >> 20);
        fs::remove_dir_all(place::target())
            .map_err(|why| format!("{}: {why}", place::target().display()))?;
    }
    Ok(())
}

fn size(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => size(&entry.path()),
        Ok(data) => data.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
