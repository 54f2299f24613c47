//! The builder: plugins, state, windows, and the event loop.

#[cfg(not(target_os = "linux"))]
use crate::autostart;
#[cfg(target_os = "linux")]
use crate::away;
use crate::{ipc, quit, tray, tray_host, windows};
use anyhow::Context as _;
use gantry_core::{app::App, data_dir::DataDir};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use tauri::{Builder, Manager as _, RunEvent, WindowEvent};

/// Builds the Tauri application. When another one runs on the same data
/// directory, that one shows its window and this process ends with 0 in here.
#[expect(
    clippy::disallowed_methods,
    reason = "Tauri's macro ends the process when its own code panics while it is built"
)]
pub fn build(data: &DataDir) -> anyhow::Result<tauri::App> {
    let single = tauri_plugin_single_instance::Builder::new()
        .callback(|app, _arguments, _folder| windows::show(app))
        .dbus_id(instance_name(data))
        .build();
    let builder = Builder::default()
        .plugin(single)
        .plugin(tauri_plugin_dialog::init())
        .plugin(tauri_plugin_opener::init())
        .plugin(windows::remember_place())
        .invoke_handler(tauri::generate_handler![
            ipc::command,
            ipc::events,
            ipc::pick_folder,
            ipc::open_external,
            ipc::save_file,
            ipc::hide,
            ipc::close_heard,
            ipc::shown,
            ipc::autostart,
            ipc::set_autostart,
            ipc::open_data_folder
        ]);
    #[cfg(not(target_os = "linux"))]
    let builder = builder.plugin(
        tauri_plugin_autostart::Builder::new().app_name("Gantry").arg(autostart::HIDDEN).build(),
    );
    builder.build(tauri::generate_context!()).context("the window system could not be used")
}

/// Starts the loopback listener and with it the persistent servers.
pub async fn open_listener(app: &App) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .context("no port could be opened on 127.0.0.1")?;
    let url = format!("http://{}", listener.local_addr()?);
    gantry_http::serve(
        app.clone(),
        listener,
        gantry_http::HttpOptions { ui: false, auth: true },
        app.scope().child("http"),
    )?;
    app.set_address(&url).await?;
    app.shows_notices();
    tracing::info!(url, "listening");
    Ok(())
}

/// Runs the event loop until the shutdown is over; `hidden`: without a window at first, as long
/// as a tray can bring it. Returns the exit code.
pub fn run(tauri: tauri::App, app: App, runtime: &tokio::runtime::Runtime, hidden: bool) -> u8 {
    tauri.manage(app.clone());
    quit::when_over(&app, tauri.handle().clone());
    let handle = runtime.handle().clone();
    let code = tauri.run_return(move |tauri, event| match event {
        RunEvent::Ready => {
            if let Err(error) = windows::open(tauri, hidden) {
                tracing::error!("the window could not be opened: {error:#}");
                app.shutdown().request("no window");
            }
            tray::open(tauri, &app);
            #[cfg(target_os = "linux")]
            away::watch(tauri, &app);
        }
        RunEvent::WindowEvent { event: WindowEvent::CloseRequested { api, .. }, .. } => {
            api.prevent_close();
            windows::close_asked(tauri, &app, tray_host::can_be_reached(tauri));
        }
        RunEvent::ExitRequested { api, .. } if !quit::is_over(tauri) => {
            api.prevent_exit();
            app.shutdown().request("exit requested");
        }
        // macOS and Windows end the program here without asking first: the last chance to clean up.
        RunEvent::Exit if !quit::is_over(tauri) => {
            app.shutdown().request("end of the desktop session");
            handle.block_on(app.ended());
        }
        _ => {}
    });
    u8::try_from(code).unwrap_or(1)
}

/// One instance a data directory, not one a desktop.
fn instance_name(data: &DataDir) -> String {
    let mut hasher = DefaultHasher::new();
    data.root.canonicalize().unwrap_or_else(|_| data.root.clone()).hash(&mut hasher);
    format!("app.gantry.desktop.d{:016x}", hasher.finish())
}
