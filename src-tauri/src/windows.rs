//! The window.

use tauri::{AppHandle, Manager as _, WebviewUrl, WebviewWindowBuilder};

/// The label of the one window.
const MAIN: &str = "main";

/// What must be set before the window system starts.
pub fn prepare_environment() {
    #[cfg(target_os = "linux")]
    if std::env::var_os("WEBKIT_DISABLE_DMABUF_RENDERER").is_none() {
        // Blank windows on some graphics drivers, and 60 MB less memory.
        // SAFETY: nothing else runs yet; this is the first thing that `main` does.
        unsafe { std::env::set_var("WEBKIT_DISABLE_DMABUF_RENDERER", "1") };
    }
}

/// Opens the window.
pub fn open(tauri: &AppHandle) -> anyhow::Result<()> {
    let window = WebviewWindowBuilder::new(tauri, MAIN, WebviewUrl::default())
        .title("Gantry")
        .inner_size(1280.0, 800.0)
        .min_inner_size(640.0, 480.0)
        .build()?;
    #[cfg(target_os = "linux")]
    revive(&window)?;
    #[cfg(not(target_os = "linux"))]
    let _ = window;
    Ok(())
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
