//! Every gesture that ends the program meets here, and ends in the core's one
//! [`Shutdown`](gantry_core::shutdown::Shutdown).

use crate::windows;
use gantry_core::{app::App, shutdown::Phase};
use std::sync::atomic::{AtomicBool, Ordering};
use tauri::{AppHandle, Manager as _};

/// Set once the shutdown is over: from then on Tauri may end the event loop.
struct Over(AtomicBool);

/// Whether the shutdown is over.
pub fn is_over(tauri: &AppHandle) -> bool {
    tauri.try_state::<Over>().is_some_and(|over| over.0.load(Ordering::SeqCst))
}

/// Hides the window when the end begins and ends the event loop when it is over.
pub fn when_over(app: &App, tauri: AppHandle) {
    tauri.manage(Over(AtomicBool::new(false)));
    let hide = tauri.clone();
    let mut phase = app.shutdown().phase();
    app.scope().spawn("hide the window at the end", async move {
        if phase.wait_for(|phase| *phase >= Phase::Doors).await.is_ok() {
            windows::hide(&hide);
        }
    });
    let app = app.clone();
    // Not a task of the app's scope: that one is closed by what this waits for.
    tauri::async_runtime::spawn(async move {
        let report = app.ended().await;
        tauri.state::<Over>().0.store(true, Ordering::SeqCst);
        tauri.exit(i32::from(report.code));
    });
}

/// SIGTERM, SIGINT and SIGHUP (on Windows Ctrl+C) ask for the end.
pub fn on_signals(app: &App) -> anyhow::Result<()> {
    gantry_core::shutdown::on_signals(app.scope(), app.shutdown())?;
    Ok(())
}
