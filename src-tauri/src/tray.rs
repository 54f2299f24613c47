//! The tray: Show and Quit.

use crate::windows;
use gantry_core::app::App;
use std::sync::atomic::{AtomicBool, Ordering};
use tauri::{
    AppHandle, Manager as _,
    menu::{Menu, MenuItem, PredefinedMenuItem},
    tray::{MouseButton, MouseButtonState, TrayIconBuilder, TrayIconEvent},
};

/// Whether a hidden window can be brought back.
struct Reachable(AtomicBool);

/// Puts the icon into the tray, where there is one. A desktop without a tray is
/// no failure: closing the window quits there.
pub fn open(tauri: &AppHandle, app: &App) {
    tauri.manage(Reachable(AtomicBool::new(false)));
    if !library_is_there() {
        tracing::warn!("no tray: libayatana-appindicator3 is not installed");
        return;
    }
    if let Err(error) = build(tauri, app) {
        tracing::warn!("no tray: {error}");
        return;
    }
    let tauri = tauri.clone();
    app.scope().spawn("look for a tray host", async move {
        let there = has_host().await;
        tracing::info!(host = there, "tray");
        tauri.state::<Reachable>().0.store(there, Ordering::Relaxed);
    });
}

/// Whether the tray is shown, so that a hidden window can be brought back.
pub fn can_be_reached(tauri: &AppHandle) -> bool {
    tauri.try_state::<Reachable>().is_some_and(|state| state.0.load(Ordering::Relaxed))
}

fn build(tauri: &AppHandle, app: &App) -> tauri::Result<()> {
    let show = MenuItem::with_id(tauri, "show", "Show Gantry", true, None::<&str>)?;
    let quit = MenuItem::with_id(tauri, "quit", "Quit", true, None::<&str>)?;
    let menu = Menu::with_items(tauri, &[&show, &PredefinedMenuItem::separator(tauri)?, &quit])?;
    let app = app.clone();
    let mut tray = TrayIconBuilder::with_id("main")
        .tooltip("Gantry")
        .menu(&menu)
        .show_menu_on_left_click(false)
        .on_menu_event(move |tauri, event| match event.id().as_ref() {
            "show" => windows::show(tauri),
            "quit" => app.shutdown().request("tray"),
            _ => {}
        })
        .on_tray_icon_event(|tray, event| {
            if let TrayIconEvent::Click {
                button: MouseButton::Left,
                button_state: MouseButtonState::Up,
                ..
            } = event
            {
                windows::show(tray.app_handle());
            }
        });
    if let Some(icon) = tauri.default_window_icon() {
        tray = tray.icon(icon.clone());
    }
    tray.build(tauri)?;
    Ok(())
}

/// The library is opened at run time, and its absence would be a panic.
#[cfg(target_os = "linux")]
fn library_is_there() -> bool {
    ["libayatana-appindicator3.so.1", "libappindicator3.so.1"].iter().any(|name| {
        // SAFETY: the library's initialisers are those that the tray runs anyway.
        unsafe { libloading::Library::new(name) }.is_ok()
    })
}

#[cfg(not(target_os = "linux"))]
fn library_is_there() -> bool {
    true
}

/// Whether some panel shows tray icons: building one succeeds without.
#[cfg(target_os = "linux")]
async fn has_host() -> bool {
    let ask = async {
        let bus = zbus::Connection::session().await.ok()?;
        let watcher = zbus::proxy::Builder::<zbus::Proxy<'_>>::new(&bus)
            .destination("org.kde.StatusNotifierWatcher")
            .ok()?
            .path("/StatusNotifierWatcher")
            .ok()?
            .interface("org.kde.StatusNotifierWatcher")
            .ok()?
            .cache_properties(zbus::proxy::CacheProperties::No)
            .build()
            .await
            .ok()?;
        watcher.get_property::<bool>("IsStatusNotifierHostRegistered").await.ok()
    };
    gantry_supervisor::Deadline::after(std::time::Duration::from_secs(1))
        .bound(ask)
        .await
        .ok()
        .flatten()
        .unwrap_or(false)
}

#[cfg(not(target_os = "linux"))]
async fn has_host() -> bool {
    true
}
