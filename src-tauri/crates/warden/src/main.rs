//! `gantry-warden`: the tiny program around every child.
//!
//! ```text
//! gantry-warden <grace in ms> <program> [argument…]
//! ```
//!
//! Standard input is the control socket ([`gantry_warden::words`]); standard output
//! and error are the program's. It adopts what the program leaves behind, and when
//! the app is gone, or the program has ended, or the app says so, it ends all of it.

#[cfg(target_os = "linux")]
mod control;
#[cfg(target_os = "linux")]
mod guard;
#[cfg(target_os = "linux")]
mod start;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use gantry_warden::{COOKIE_VARIABLE, stamp::Stamp};
    use std::{env, process::ExitCode, time::Duration};

    let mut args = env::args_os().skip(1);
    let grace =
        args.next().and_then(|grace| grace.to_str()?.parse().ok()).map(Duration::from_millis);
    let (Some(grace), Some(program)) = (grace, args.next()) else {
        eprintln!(
            "usage: gantry-warden <grace in ms> <program> [argument…]; started by Gantry only"
        );
        return ExitCode::from(64);
    };
    start::close_inherited();
    let (mut control, input) = match control::Control::from_standard_input() {
        Ok(both) => both,
        Err(error) => {
            eprintln!("gantry-warden: standard input is not Gantry's control socket: {error}");
            return ExitCode::from(64);
        }
    };
    let prepared = start::become_warden().and_then(|children| Ok((children, start::null()?)));
    let (children, null) = match prepared {
        Ok(both) => both,
        Err(error) => return control.refuse(&error),
    };
    // What cannot be stamped is known by its environment alone.
    let cookie = env::var(COOKIE_VARIABLE).ok();
    cookie.as_deref().and_then(Stamp::from_cookie).map(Stamp::wear);
    let child = match start::program(&program, args, input) {
        Ok(child) => child,
        Err(error) => return control.refuse(&error),
    };
    start::let_go_of_the_streams(&null);
    guard::Guard::new(control, children, child, grace, cookie).run()
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("gantry-warden works on Linux only; elsewhere Gantry keeps its children without it");
    std::process::ExitCode::from(64)
}
