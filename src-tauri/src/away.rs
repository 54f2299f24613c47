//! Desktop notifications for a user who looks elsewhere: a turn is finished,
//! or an agent asks for permission. A click opens the session.

#![cfg(target_os = "linux")]

use crate::{windows, words::Words};
use futures::StreamExt as _;
use gantry_core::{
    app::App,
    events::{EventStream, StreamItem},
    wire::Happening,
};
use std::collections::HashMap;
use tauri::AppHandle;
use zbus::{Connection, MatchRule, MessageStream, zvariant::Value};

const SERVICE: &str = "org.freedesktop.Notifications";
const PATH: &str = "/org/freedesktop/Notifications";
/// Remembered notifications, for their clicks.
const MOST: usize = 50;

/// Watches the events and tells of them. A desktop without notifications is no failure.
pub fn watch(tauri: &AppHandle, app: &App) {
    let (tauri, of) = (tauri.clone(), app.clone());
    app.scope().spawn("desktop notifications", async move {
        if let Err(error) = tell(&tauri, &of).await {
            tracing::info!("no desktop notifications: {error}");
        }
    });
}

async fn tell(tauri: &AppHandle, app: &App) -> zbus::Result<()> {
    let bus = Connection::session().await?;
    // Whoever asks all programs on the bus gets an answer from this connection too.
    let _answers = bus.object_server();
    let rule = MatchRule::builder()
        .msg_type(zbus::message::Type::Signal)
        .interface(SERVICE)?
        .member("ActionInvoked")?
        .build();
    let mut clicks = MessageStream::for_match_rule(rule, &bus, None).await?;
    let Ok((_, mut stream)) = EventStream::open(app).await else { return Ok(()) };
    let mut shown: Vec<(u32, String)> = Vec::new();
    loop {
        tokio::select! {
            item = stream.next() => match item {
                Some(StreamItem::Event(event)) => {
                    let Some((session, words)) = news(app, &event.what) else { continue };
                    if !windows::is_in_view(tauri) && let Some(id) = notify(&bus, app, &session, words).await {
                        shown.retain(|(known, _)| *known != id);
                        shown.push((id, session));
                        let surplus = shown.len().saturating_sub(MOST);
                        shown.drain(..surplus);
                    }
                }
                Some(StreamItem::Snapshot(_)) => {}
                None => return Ok(()),
            },
            click = clicks.next() => {
                let Some(Ok(click)) = click else { return Ok(()) };
                let Ok((id, _)) = click.body().deserialize::<(u32, String)>() else { continue };
                // Other programs' clicks come here too.
                if let Some((_, session)) = shown.iter().find(|(known, _)| *known == id) {
                    windows::open_session(tauri, Some(session));
                }
            }
        }
    }
}

/// The session that an event is news about, and what to say.
fn news(app: &App, what: &Happening) -> Option<(String, &'static str)> {
    let words = Words::of(app);
    match what {
        Happening::TurnEnded { session, reason, .. } if reason != "cancelled" => {
            let text = if reason == "error" { words.failed() } else { words.finished() };
            Some((session.clone(), text))
        }
        Happening::PermissionRequested { session, .. }
        | Happening::QuestionAsked { session, .. } => Some((session.clone(), words.asks())),
        _ => None,
    }
}

/// Shows one; its number, when the desktop took it.
async fn notify(bus: &Connection, app: &App, session: &str, text: &str) -> Option<u32> {
    let words = Words::of(app);
    let title = app.sessions().views().into_iter().find(|view| view.id == session)?.title;
    let title = if title.is_empty() { words.untitled().to_owned() } else { title };
    let actions = vec!["default", words.show_it()];
    let hints = HashMap::from([("desktop-entry", Value::from("Gantry"))]);
    // Some desktops read the body as markup; ours holds none.
    let call = ("Gantry", 0_u32, "gantry-desktop", title, text, actions, hints, -1_i32);
    let answer = bus.call_method(Some(SERVICE), PATH, Some(SERVICE), "Notify", &call).await;
    match answer.and_then(|answer| answer.body().deserialize()) {
        Ok(id) => Some(id),
        Err(error) => {
            tracing::debug!("a notification was not shown: {error}");
            None
        }
    }
}
