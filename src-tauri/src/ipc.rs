//! The command bridge and the event channel: the same commands and events that
//! the HTTP host offers.

use gantry_core::{
    ErrorCode, api,
    app::App,
    events::{EventStream, StreamItem},
    wire::{Event, Snapshot},
};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use tauri::{AppHandle, State, ipc::Channel};

/// A failed command as the interface sees it.
#[derive(Serialize)]
pub struct Failure {
    code: ErrorCode,
    message: String,
    detail: Option<Value>,
}

impl From<gantry_core::Error> for Failure {
    fn from(error: gantry_core::Error) -> Self {
        Self { code: error.code, message: error.message, detail: error.detail }
    }
}

/// What the event channel carries.
#[derive(Clone, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Message {
    /// First, and again after a reader lagged.
    Snapshot {
        /// It replaces everything that the interface knows.
        snapshot: Box<Snapshot>,
    },
    /// Then every event after it.
    Event {
        /// The event.
        event: Box<Event>,
    },
}

/// Runs a command of the command table.
#[tauri::command]
pub async fn command(app: State<'_, App>, name: String, input: Value) -> Result<Value, Failure> {
    let app = app.inner().clone();
    Ok(api::dispatch(&app, &name, input).await?)
}

/// Sends a snapshot and then every event through the channel, until the window is gone.
#[tauri::command]
pub async fn events(app: State<'_, App>, channel: Channel<Message>) -> Result<(), Failure> {
    let app = app.inner().clone();
    let (snapshot, mut stream) = EventStream::open(&app).await?;
    app.scope().spawn("window events", async move {
        let mut message = Message::Snapshot { snapshot: Box::new(snapshot) };
        // A channel whose window is gone refuses, which ends the task.
        while channel.send(message).is_ok() {
            message = match stream.next().await {
                Some(StreamItem::Event(event)) => {
                    Message::Event { event: Box::new(Arc::unwrap_or_clone(event)) }
                }
                Some(StreamItem::Snapshot(snapshot)) => Message::Snapshot { snapshot },
                None => return,
            };
        }
    });
    Ok(())
}

/// Lets the user pick a folder; `null` when they did not.
#[tauri::command]
pub async fn pick_folder(tauri: AppHandle) -> Option<String> {
    use tauri_plugin_dialog::DialogExt as _;
    let (sender, picked) = tokio::sync::oneshot::channel();
    tauri.dialog().file().pick_folder(move |folder| {
        let _ = sender.send(folder);
    });
    let folder = picked.await.ok().flatten()?;
    Some(folder.into_path().ok()?.display().to_string())
}

/// Opens a web address in the user's browser.
#[tauri::command]
pub async fn open_external(tauri: AppHandle, url: String) -> Result<(), Failure> {
    use tauri_plugin_opener::OpenerExt as _;
    if !(url.starts_with("https://") || url.starts_with("http://")) {
        return Err(gantry_core::Error::invalid("url: only web addresses are opened").into());
    }
    tauri.opener().open_url(url, None::<&str>).map_err(|error| {
        gantry_core::Error::failed(format!("the browser could not be opened: {error}")).into()
    })
}

/// Lets the user pick a place for a file and writes it; the file's name, `null` when they did not.
#[tauri::command]
pub async fn save_file(
    tauri: AppHandle,
    name: String,
    text: String,
) -> Result<Option<String>, Failure> {
    use tauri_plugin_dialog::DialogExt as _;
    let (sender, picked) = tokio::sync::oneshot::channel();
    tauri.dialog().file().set_file_name(&name).save_file(move |file| {
        let _ = sender.send(file);
    });
    let Some(file) = picked.await.ok().flatten().and_then(|file| file.into_path().ok()) else {
        return Ok(None);
    };
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
    tokio::fs::write(&file, text).await.map_err(|error| {
        gantry_core::Error::failed(format!("{} could not be written: {error}", file.display()))
    })?;
    Ok(name)
}

/// Hides the window in the tray.
#[tauri::command]
pub fn hide(tauri: AppHandle) {
    if crate::tray_host::can_be_reached(&tauri) {
        crate::windows::hide(&tauri);
    }
}

/// The page shows the question what closing means.
#[tauri::command]
pub fn close_heard(tauri: AppHandle) {
    crate::windows::close_heard(&tauri);
}

/// Whether the desktop starts Gantry at a login.
#[tauri::command]
pub async fn autostart(tauri: AppHandle) -> Result<bool, Failure> {
    Ok(crate::autostart::is_on(&tauri)?)
}

/// Switches the start at a login on or off; whether it is on then.
#[tauri::command]
pub async fn set_autostart(
    tauri: AppHandle,
    app: State<'_, App>,
    on: bool,
) -> Result<bool, Failure> {
    Ok(crate::autostart::set(&tauri, &app, on)?)
}

/// Shows the data directory in the desktop's file manager.
#[tauri::command]
pub async fn open_data_folder(tauri: AppHandle, app: State<'_, App>) -> Result<(), Failure> {
    use tauri_plugin_opener::OpenerExt as _;
    let folder = app.data_dir().root.display().to_string();
    tauri.opener().open_path(&folder, None::<&str>).map_err(|error| {
        gantry_core::Error::failed(format!("{folder} could not be opened: {error}")).into()
    })
}

/// The page is on the screen, with the state of the core: from now on it can be used.
#[tauri::command]
pub fn shown(app: State<'_, App>) {
    // A page that comes while Gantry ends is of no use any more; the log has its last line.
    if !app.shutdown().is_requested() {
        tracing::info!(ms = crate::STARTED.elapsed().as_millis(), "the window can be used");
    }
}
