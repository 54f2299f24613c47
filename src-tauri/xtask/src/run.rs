//! `cargo xtask run`: from a fresh clone to an open window.

use crate::{command, npm, packages, place};
use std::process::Command;

/// Installs what is missing, builds, and becomes the application.
pub fn run(args: &[String]) -> Result<(), String> {
    packages::need(packages::BUILD)?;
    npm::need_node()?;
    npm::install_ui()?;
    npm::build_ui()?;
    let build = ["build", "-p", "gantry-desktop", "-p", "gantry-cli", "-p", "gantry-warden"];
    command::run(&mut command::cargo(build))?;
    if cfg!(target_os = "linux")
        && ["DISPLAY", "WAYLAND_DISPLAY"].iter().all(|name| std::env::var_os(name).is_none())
    {
        return Err(format!(
            "there is no display (DISPLAY and WAYLAND_DISPLAY are not set); start this from a \
             desktop, or use Gantry in a browser: {} serve",
            place::program("gantry").display()
        ));
    }
    let mut app = Command::new(place::program("gantry-desktop"));
    app.args(args);
    become_it(app)
}

/// Replaces this process, so that signals and the exit code are the application's.
#[cfg(unix)]
fn become_it(mut app: Command) -> Result<(), String> {
    use std::os::unix::process::CommandExt;
    let why = app.exec();
    Err(format!("{}: {why}", app.get_program().display()))
}

#[cfg(not(unix))]
fn become_it(mut app: Command) -> Result<(), String> {
    command::run(&mut app)
}
