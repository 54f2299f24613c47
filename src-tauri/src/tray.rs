//! The tray: show, new session, the running sessions with stop, stop all, quit.

use crate::{
    sessions_menu::{Entry, entries},
    tray_host, windows,
    words::Words,
};
use gantry_core::{
    app::App,
    events::{EventStream, StreamItem},
    shutdown::Phase,
    wire::{Happening, SessionId},
};
use tauri::{
    AppHandle, Wry,
    menu::{IsMenuItem, Menu, MenuItem, PredefinedMenuItem, Submenu},
    tray::{MouseButton, MouseButtonState, TrayIconBuilder, TrayIconEvent},
};

/// The id of the icon.
const MAIN: &str = "main";

/// Puts the icon into the tray, where there is one. A desktop without a tray is
/// no failure: closing the window quits there.
pub fn open(tauri: &AppHandle, app: &App) {
    if !library_is_there() {
        tracing::warn!("no tray: libayatana-appindicator3 is not installed");
        return tray_host::is_not_there(tauri, app);
    }
    if let Err(error) = build(tauri, app) {
        tracing::warn!("no tray: {error}");
        return tray_host::is_not_there(tauri, app);
    }
    tray_host::watch(tauri, app);
    let (handle, of) = (tauri.clone(), app.clone());
    app.scope().spawn("keep the tray's menu", async move { keep(&handle, &of).await });
    tell_the_end(tauri, app);
}

fn build(tauri: &AppHandle, app: &App) -> tauri::Result<()> {
    let menu = menu(tauri, Words::of(app), &[])?;
    let app = app.clone();
    let mut tray = TrayIconBuilder::with_id(MAIN)
        .tooltip("Gantry")
        .menu(&menu)
        .show_menu_on_left_click(false)
        .on_menu_event(move |tauri, event| chosen(tauri, &app, event.id().as_ref()))
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

/// The menu with these sessions.
fn menu(tauri: &AppHandle, words: Words, sessions: &[Entry]) -> tauri::Result<Menu<Wry>> {
    let item = |id: &str, text: &str| MenuItem::with_id(tauri, id, text, true, None::<&str>);
    let line = || PredefinedMenuItem::separator(tauri);
    let menu = Menu::new(tauri)?;
    menu.append_items(&[&item("show", words.show())?, &item("new", words.new_session())?])?;
    if !sessions.is_empty() {
        menu.append(&line()?)?;
        for Entry { id, title } in sessions {
            let title = if title.is_empty() { words.untitled() } else { title };
            let open = item(&format!("open {id}"), words.open())?;
            let stop = item(&format!("stop {id}"), words.stop())?;
            let below: [&dyn IsMenuItem<Wry>; 2] = [&open, &stop];
            menu.append(&Submenu::with_items(tauri, title, true, &below)?)?;
        }
        menu.append(&item("stop-all", words.stop_all())?)?;
    }
    menu.append_items(&[&line()?, &item("quit", words.quit())?])?;
    Ok(menu)
}

fn chosen(tauri: &AppHandle, app: &App, id: &str) {
    match id.split_once(' ').unwrap_or((id, "")) {
        ("show", _) => windows::show(tauri),
        ("new", _) => windows::open_session(tauri, None),
        ("open", session) => windows::open_session(tauri, Some(session)),
        ("stop", session) => stop(app, vec![session.to_owned()]),
        ("stop-all", _) => {
            let all = entries(&app.sessions().views()).into_iter().map(|entry| entry.id);
            stop(app, all.collect());
        }
        ("quit", _) => app.shutdown().request("tray"),
        _ => {}
    }
}

/// Stops sessions, all at the same time.
fn stop(app: &App, sessions: Vec<String>) {
    for session in sessions {
        let of = app.clone();
        app.scope().spawn("stop a session for the tray", async move {
            if let Err(error) = of.session_stop(SessionId { session: session.clone() }).await {
                tracing::warn!(session, "the tray could not stop it: {error}");
            }
        });
    }
}

/// Builds the menu anew whenever it would look different.
async fn keep(tauri: &AppHandle, app: &App) {
    let Ok((snapshot, mut stream)) = EventStream::open(app).await else { return };
    let mut shown = (Words::of(app), Vec::new());
    let mut wanted = (Words::of(app), entries(&snapshot.sessions));
    loop {
        if wanted != shown {
            put(tauri, menu(tauri, wanted.0, &wanted.1));
            shown = wanted;
        }
        let is_news = match stream.next().await {
            Some(StreamItem::Event(event)) => matches!(
                event.what,
                Happening::SessionChanged { .. }
                    | Happening::SessionRemoved { .. }
                    | Happening::SettingsChanged { .. }
            ),
            Some(StreamItem::Snapshot(_)) => true,
            None => return,
        };
        if app.still_open().is_err() {
            return;
        }
        wanted = if is_news {
            (Words::of(app), entries(&app.sessions().views()))
        } else {
            shown.clone()
        };
    }
}

fn put(tauri: &AppHandle, menu: tauri::Result<Menu<Wry>>) {
    let changed = menu.and_then(|menu| match tauri.tray_by_id(MAIN) {
        Some(tray) => tray.set_menu(Some(menu)),
        None => Ok(()),
    });
    if let Err(error) = changed {
        tracing::warn!("the tray's menu could not be changed: {error}");
    }
}

/// From the first moment of the end on, the tray says what is being stopped.
fn tell_the_end(tauri: &AppHandle, app: &App) {
    let mut phase = app.shutdown().phase();
    let (tauri, of) = (tauri.clone(), app.clone());
    app.scope().spawn("tell the end in the tray", async move {
        if phase.wait_for(|phase| *phase >= Phase::Doors).await.is_err() {
            return;
        }
        let words = Words::of(&of);
        let sessions = entries(&of.sessions().views());
        put(&tauri, closing(&tauri, words, &sessions));
    });
}

fn closing(tauri: &AppHandle, words: Words, sessions: &[Entry]) -> tauri::Result<Menu<Wry>> {
    let note = |text: &str| MenuItem::new(tauri, text, false, None::<&str>);
    let menu = Menu::new(tauri)?;
    menu.append(&note(words.closing())?)?;
    for Entry { title, .. } in sessions {
        let title = if title.is_empty() { words.untitled() } else { title };
        menu.append(&note(&words.stopping(title))?)?;
    }
    // Asked a second time, the end jumps to the kill.
    let now = MenuItem::with_id(tauri, "quit", words.quit_now(), true, None::<&str>)?;
    menu.append_items(&[&PredefinedMenuItem::separator(tauri)?, &now])?;
    Ok(menu)
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
