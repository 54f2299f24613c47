//! Starting with the desktop session, hidden in the tray: off until the user switches it on.
//! The desktop's own record is the only one; nothing is kept beside it.

use gantry_core::{Error, Result, app::App};
use tauri::AppHandle;

/// The argument of a start without a window.
pub const HIDDEN: &str = "--hidden";

/// Whether the desktop starts Gantry.
///
/// # Errors
/// The desktop's record cannot be read.
pub fn is_on(tauri: &AppHandle) -> Result<bool> {
    host::is_on(tauri).map_err(|why| {
        Error::failed(format!("whether Gantry starts at login could not be found out: {why}"))
    })
}

/// Switches it on or off; whether it is on then.
///
/// # Errors
/// The desktop's record cannot be changed.
pub fn set(tauri: &AppHandle, app: &App, on: bool) -> Result<bool> {
    host::set(tauri, app, on)
        .map_err(|why| Error::failed(format!("the start at login could not be switched: {why}")))?;
    is_on(tauri)
}

#[cfg(target_os = "linux")]
mod host {
    use super::HIDDEN;
    use gantry_core::{app::App, data_dir::DataDir, desktop_entry::DesktopEntry};
    use std::ffi::OsString;
    use tauri::{AppHandle, Manager as _};

    type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

    fn entry(tauri: &AppHandle) -> Outcome<DesktopEntry> {
        Ok(DesktopEntry::below(&tauri.path().config_dir()?))
    }

    pub fn is_on(tauri: &AppHandle) -> Outcome<bool> {
        Ok(entry(tauri)?.is_on()?)
    }

    pub fn set(tauri: &AppHandle, app: &App, on: bool) -> Outcome<()> {
        let entry = entry(tauri)?;
        if !on {
            return Ok(entry.switch_off()?);
        }
        // An AppImage runs from a place that is there only as long as it runs.
        let program = match tauri.env().appimage {
            Some(image) => image.into(),
            None => std::env::current_exe()?,
        };
        let mut arguments: Vec<OsString> = vec![HIDDEN.into()];
        let data = app.data_dir();
        if DataDir::of_platform().as_ref() != Some(data) {
            arguments.extend(["--data-dir".into(), data.root.clone().into()]);
        }
        Ok(entry.switch_on(&program, &arguments)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod host {
    use gantry_core::app::App;
    use tauri::AppHandle;
    use tauri_plugin_autostart::{Error, ManagerExt as _};

    pub fn is_on(tauri: &AppHandle) -> Result<bool, Error> {
        tauri.autolaunch().is_enabled()
    }

    pub fn set(tauri: &AppHandle, _app: &App, on: bool) -> Result<(), Error> {
        if on { tauri.autolaunch().enable() } else { tauri.autolaunch().disable() }
    }
}
