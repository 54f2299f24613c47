//! Gantry's desktop program: the shell around the core, and the only code that
//! knows Tauri.

#![cfg_attr(all(windows, not(debug_assertions)), windows_subsystem = "windows")]

mod autostart;
mod away;
mod ipc;
mod quit;
mod sessions_menu;
mod shell;
mod tray;
mod tray_host;
mod windows;
mod words;

use anyhow::Context as _;
use gantry_core::{
    app::{App, AppOptions, StartError},
    data_dir::DataDir,
    instance::InstanceError,
    logging,
    programs::Programs,
};
use std::{process::ExitCode, sync::LazyLock, time::Instant};

/// When the program began.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

fn main() -> ExitCode {
    LazyLock::force(&STARTED);
    match life() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("gantry: the desktop program could not run: {error:#}");
            let held = error.downcast_ref::<StartError>().is_some_and(|error| {
                matches!(error, StartError::Instance(InstanceError::Held { .. }))
            });
            ExitCode::from(if held { 3 } else { 1 })
        }
    }
}

/// From start to end. Returns the exit code.
fn life() -> anyhow::Result<u8> {
    windows::prepare_environment();
    // Fails only when a provider is there already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let data = DataDir::choose(asked_data_dir().as_deref())
        .context("there is no data directory; set GANTRY_DATA_DIR")?;
    data.create()?;
    logging::start(&data);

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    tauri::async_runtime::set(runtime.handle().clone());
    // Tasks are also started from this thread, which is the window system's.
    let entered = runtime.enter();

    // A second instance hands over to the first one in here, and is gone.
    let tauri = shell::build(&data)?;

    let app = runtime.block_on(App::start(AppOptions {
        data,
        token_file: std::env::var_os("GANTRY_TOKEN_FILE").map(Into::into),
        programs: Programs::beside_this_one(),
    }))?;
    let opened = quit::on_signals(&app).and_then(|()| runtime.block_on(shell::open_listener(&app)));
    if let Err(error) = opened {
        app.shutdown().request("the start failed");
        runtime.block_on(app.ended());
        return Err(error);
    }

    let code = shell::run(tauri, app, &runtime, asked_hidden());
    drop(entered);
    // Nothing of ours runs any more; what a library left on a thread does not keep us.
    runtime.shutdown_background();
    Ok(code)
}

/// `--hidden`: as the desktop starts us at a login.
fn asked_hidden() -> bool {
    std::env::args_os().skip(1).any(|argument| argument == autostart::HIDDEN)
}

/// `--data-dir D` or `--data-dir=D`.
fn asked_data_dir() -> Option<std::path::PathBuf> {
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--data-dir" {
            return arguments.next().map(Into::into);
        }
        if let Some(value) = argument.to_str().and_then(|text| text.strip_prefix("--data-dir=")) {
            return Some(value.into());
        }
    }
    None
}
