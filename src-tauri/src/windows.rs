//! The window.

use gantry_core::{app::App, wire::OnClose};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use tauri::{AppHandle, Emitter as _, Manager as _, WebviewUrl, WebviewWindowBuilder};

/// The label of the one window.
const MAIN: &str = "main";

/// How the web view draws.
#[cfg(target_os = "linux")]
const RENDERER: &str = "WEBKIT_DISABLE_DMABUF_RENDERER";

/// What must be set before the window system starts.
pub fn prepare_environment() {
    #[cfg(target_os = "linux")]
    if std::env::var_os(RENDERER).is_none() {
        // Blank windows on some graphics drivers, and 60 MB less memory.
        // SAFETY: nothing else runs yet; this is the first thing that `main` does.
        unsafe { std::env::set_var(RENDERER, "1") };
        // A browser that an agent starts is to have the user's settings.
        gantry_supervisor::environment::keep_from_children(RENDERER);
    }
}

/// The page was asked what closing means and has not shown the question yet.
struct Asking(AtomicBool);

/// Opens the window; hidden when the program was started so.
pub fn open(tauri: &AppHandle, hidden: bool) -> anyhow::Result<()> {
    tauri.manage(Asking(AtomicBool::new(false)));
    let window = WebviewWindowBuilder::new(tauri, MAIN, WebviewUrl::default())
        .title("Gantry")
        .inner_size(1280.0, 800.0)
        .min_inner_size(640.0, 480.0)
        .visible(!hidden)
        // The page takes what is dropped, here as in a browser.
        .disable_drag_drop_handler()
        .build()?;
    #[cfg(target_os = "linux")]
    revive(&window)?;
    #[cfg(not(target_os = "linux"))]
    let _ = window;
    Ok(())
}

/// Remembers size and place of the window over restarts, not whether it was hidden.
pub fn remember_place() -> tauri::plugin::TauriPlugin<tauri::Wry> {
    use tauri_plugin_window_state::{Builder, StateFlags};
    Builder::default()
        .with_state_flags(StateFlags::SIZE | StateFlags::POSITION | StateFlags::MAXIMIZED)
        .build()
}

/// Shows the window, in front.
pub fn show(tauri: &AppHandle) {
    if let Some(window) = tauri.get_webview_window(MAIN) {
        let _ = window.show();
        let _ = window.unminimize();
        let _ = window.set_focus();
    }
}

/// Hides the window; everything goes on.
pub fn hide(tauri: &AppHandle) {
    if let Some(window) = tauri.get_webview_window(MAIN) {
        let _ = window.hide();
    }
}

/// Whether the window is hidden.
pub fn is_hidden(tauri: &AppHandle) -> bool {
    tauri.get_webview_window(MAIN).is_some_and(|window| !window.is_visible().unwrap_or(true))
}

/// Whether the user sees the window.
#[cfg(target_os = "linux")]
pub fn is_in_view(tauri: &AppHandle) -> bool {
    tauri.get_webview_window(MAIN).is_some_and(|window| {
        window.is_visible().unwrap_or(false) && window.is_focused().unwrap_or(false)
    })
}

/// Shows the window with this session; `None`: the start page.
pub fn open_session(tauri: &AppHandle, session: Option<&str>) {
    #[derive(Clone, Serialize)]
    struct Wanted<'a> {
        session: Option<&'a str>,
    }
    show(tauri);
    if let Err(error) = tauri.emit_to(MAIN, "open-session", Wanted { session }) {
        tracing::warn!("the window was not told which session to show: {error}");
    }
}

/// The user asked the window to close.
pub fn close_asked(tauri: &AppHandle, app: &App, tray_is_there: bool) {
    let on_close = app.settings().borrow().on_close;
    match on_close {
        _ if !tray_is_there => app.shutdown().request("window closed"),
        OnClose::Quit => app.shutdown().request("window closed"),
        OnClose::Tray => hide(tauri),
        OnClose::Ask => {
            let asking = tauri.state::<Asking>();
            // A page that does not answer must not keep the window open: hidden, nothing is lost.
            if asking.0.swap(true, Ordering::Relaxed)
                || tauri.emit_to(MAIN, "close-asked", ()).is_err()
            {
                asking.0.store(false, Ordering::Relaxed);
                hide(tauri);
            }
        }
    }
}

/// The page shows the question.
pub fn close_heard(tauri: &AppHandle) {
    tauri.state::<Asking>().0.store(false, Ordering::Relaxed);
}

/// Loads the interface anew when its process died: WebKit would show the last
/// picture for ever. Nothing is lost, the state lives in the core.
#[cfg(target_os = "linux")]
fn revive(window: &tauri::WebviewWindow) -> tauri::Result<()> {
    use webkit2gtk::WebViewExt as _;
    window.with_webview(|webview| {
        webview.inner().connect_web_process_terminated(|view, why| {
            tracing::warn!(?why, "the interface's process ended; loading it anew");
            view.reload();
        });
    })
}
