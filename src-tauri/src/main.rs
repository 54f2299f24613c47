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
use std::{ffi::OsString, path::PathBuf, process::ExitCode, sync::LazyLock, time::Instant};

/// When the program began.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

const USAGE: &str = "\
usage: gantry-desktop [--data-dir FOLDER] [--hidden]

  --data-dir FOLDER   where Gantry keeps its data; else $GANTRY_DATA_DIR, else the platform's place
  --hidden            start in the tray, without a window
  --version           say which version this is";

fn main() -> ExitCode {
    LazyLock::force(&STARTED);
    let asked = match Asked::read(std::env::args_os().skip(1)) {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("gantry-desktop: {why}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if asked.help {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    if asked.version {
        println!("gantry-desktop {}", gantry_core::VERSION);
        return ExitCode::SUCCESS;
    }
    match life(&asked) {
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
fn life(asked: &Asked) -> anyhow::Result<u8> {
    windows::prepare_environment();
    // Fails only when a provider is there already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let data = DataDir::choose(asked.data_dir.as_deref())
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

    let code = shell::run(tauri, app, &runtime, asked.hidden);
    drop(entered);
    // Nothing of ours runs any more; what a library left on a thread does not keep us.
    runtime.shutdown_background();
    Ok(code)
}

/// What the command line says.
#[derive(Debug, Default, PartialEq)]
struct Asked {
    data_dir: Option<PathBuf>,
    /// As the desktop starts us at a login.
    hidden: bool,
    help: bool,
    version: bool,
}

impl Asked {
    /// # Errors
    /// What is not understood: a typing error in `--data-dir` must not open the usual folder.
    fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut asked = Self::default();
        let mut arguments = arguments.into_iter();
        let data_dir = |folder: Option<OsString>| {
            let folder = folder.filter(|folder| !folder.is_empty());
            folder.map(PathBuf::from).ok_or("--data-dir needs a folder".to_owned())
        };
        while let Some(argument) = arguments.next() {
            match argument.to_string_lossy().as_ref() {
                "--data-dir" => asked.data_dir = Some(data_dir(arguments.next())?),
                autostart::HIDDEN => asked.hidden = true,
                "--help" | "-h" => asked.help = true,
                "--version" | "-V" => asked.version = true,
                // The Finder of macOS says so which process it starts.
                text if text.starts_with("-psn_") => {}
                text => match text.strip_prefix("--data-dir=") {
                    Some(folder) => asked.data_dir = Some(data_dir(Some(folder.into()))?),
                    None => return Err(format!("`{text}` is not understood")),
                },
            }
        }
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_read_and_the_rest_refused() {
        let read = |line: &str| Asked::read(line.split_whitespace().map(Into::into));
        let in_a = |hidden| Asked { data_dir: Some("/a".into()), hidden, ..Asked::default() };
        assert_eq!(read(""), Ok(Asked::default()));
        assert_eq!(read("--data-dir /a"), Ok(in_a(false)));
        assert_eq!(read("--hidden --data-dir=/a"), Ok(in_a(true)));
        assert!(read("--help").is_ok_and(|asked| asked.help));
        for wrong in ["--datadir /a", "--data-dir", "--data-dir=", "/a", "--bogus"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
