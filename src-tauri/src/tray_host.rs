//! Whether something shows the tray's icon, so that a hidden window can be brought back.

use crate::windows;
use gantry_core::{app::App, shutdown::Phase};
use std::sync::atomic::{AtomicBool, Ordering};
use tauri::{AppHandle, Manager as _};

/// Whether a hidden window can be brought back.
struct Reachable(AtomicBool);

/// Whether the tray is shown, so that a hidden window can be brought back.
pub fn can_be_reached(tauri: &AppHandle) -> bool {
    tauri.try_state::<Reachable>().is_some_and(|state| state.0.load(Ordering::Relaxed))
}

/// A desktop without a tray, for good.
pub fn is_not_there(tauri: &AppHandle, app: &App) {
    tauri.manage(Reachable(AtomicBool::new(false)));
    show_what_is_out_of_reach(tauri, app);
}

/// Follows whether there is a host, from now on.
pub fn watch(tauri: &AppHandle, app: &App) {
    tauri.manage(Reachable(AtomicBool::new(false)));
    let (tauri, of) = (tauri.clone(), app.clone());
    app.scope().spawn("watch the tray's host", async move {
        tokio::select! {
            () = host::follow(&tauri, &of) => {}
            () = of.scope().cancelled() => {}
        }
    });
}

/// Keeps what was found out, and logs it when it is news; `told`: what was logged last.
fn learned(tauri: &AppHandle, is_there: bool, told: &mut Option<bool>) {
    tauri.state::<Reachable>().0.store(is_there, Ordering::Relaxed);
    if told.replace(is_there) != Some(is_there) {
        tracing::info!(host = is_there, "tray");
    }
}

/// An application that nobody can reach helps nobody: its window is shown.
fn show_what_is_out_of_reach(tauri: &AppHandle, app: &App) {
    let is_ending = *app.shutdown().phase().borrow() >= Phase::Doors;
    if !is_ending && !can_be_reached(tauri) && windows::is_hidden(tauri) {
        tracing::info!("no tray shows the icon, so the window is shown");
        windows::show(tauri);
    }
}

#[cfg(target_os = "linux")]
mod host {
    use super::{learned, show_what_is_out_of_reach};
    use futures::StreamExt as _;
    use gantry_core::app::App;
    use gantry_supervisor::Deadline;
    use std::time::Duration;
    use tauri::AppHandle;
    use zbus::{Connection, MatchRule, MessageStream, Proxy, proxy::CacheProperties};

    const WATCHER: &str = "org.kde.StatusNotifierWatcher";
    /// A question to the bus takes no longer.
    const LIMIT: Duration = Duration::from_secs(1);
    /// What a panel may take to come (at a login it starts beside us) or to come back before a
    /// hidden window is shown.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// Never ends as long as there is a bus.
    pub async fn follow(tauri: &AppHandle, app: &App) {
        let mut told = None;
        if let Err(error) = try_to_follow(tauri, app, &mut told).await {
            tracing::info!("no session bus tells of a tray: {error}");
            learned(tauri, false, &mut told);
            show_what_is_out_of_reach(tauri, app);
        }
    }

    async fn try_to_follow(
        tauri: &AppHandle,
        app: &App,
        told: &mut Option<bool>,
    ) -> zbus::Result<()> {
        let bus = Connection::session().await?;
        let watcher = zbus::proxy::Builder::<Proxy<'_>>::new(&bus)
            .destination(WATCHER)?
            .path("/StatusNotifierWatcher")?
            .interface(WATCHER)?
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        let signals =
            MatchRule::builder().msg_type(zbus::message::Type::Signal).interface(WATCHER)?.build();
        let mut signals = MessageStream::for_match_rule(signals, &bus, None).await?;
        let mut owners = watcher.receive_owner_changed().await?;
        loop {
            let asked = Deadline::after(LIMIT)
                .bound(watcher.get_property::<bool>("IsStatusNotifierHostRegistered"))
                .await;
            let is_there = matches!(asked, Ok(Ok(true)));
            learned(tauri, is_there, told);
            let mut news = std::pin::pin!(async {
                tokio::select! {
                    owner = owners.next() => owner.is_some(),
                    signal = signals.next() => signal.is_some(),
                }
            });
            if !is_there {
                tokio::select! {
                    biased;
                    goes_on = &mut news => if goes_on { continue } else { return gone() },
                    () = tokio::time::sleep(PATIENCE) => show_what_is_out_of_reach(tauri, app),
                }
            }
            if !news.await {
                return gone();
            }
        }
    }

    fn gone() -> zbus::Result<()> {
        Err(zbus::Error::Failure("the bus is gone".into()))
    }
}

#[cfg(not(target_os = "linux"))]
mod host {
    use gantry_core::app::App;
    use tauri::AppHandle;

    pub async fn follow(tauri: &AppHandle, _app: &App) {
        super::learned(tauri, true, &mut None);
    }
}
