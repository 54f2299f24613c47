//! What the real window's shell does beside the conversation: the question at
//! the first close, the tray's sessions, notifications.

use gantry_tests::{
    Desktop, Stage,
    desktop::{self, BOUND, Driver, hidden, shown},
    programs,
    tray::{NotificationHost, TrayHost, TrayMenu},
    wait_until,
};
use serde_json::json;

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn the_first_close_asks_and_the_answer_is_kept() {
    let _host = TrayHost::start().await;
    let stage = Stage::alone().await;
    let window = Driver::start(&stage, |_| {}).await;
    window.see("start-page").await;
    window.knows_the_tray_host().await;
    desktop::close_window_of(window.pid).await;
    window.see("close-tray").await;
    window.picture(&stage, "close-choice").await;
    window.click("close-tray").await;
    hidden(window.pid).await;
    let settings = window.api.api("settings_get", json!({})).await;
    assert_eq!(settings["on_close"], "tray");

    let menu = TrayMenu::of(window.pid).await;
    menu.click("Show").await;
    shown(window.pid).await;
    desktop::close_window_of(window.pid).await;
    hidden(window.pid).await;
    menu.click("Quit").await;
    window.ended_cleanly(&stage).await;
    stage.finish().await;
}

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn the_tray_lists_the_running_sessions_and_stops_them() {
    let _host = TrayHost::start().await;
    let stage = Stage::alone().await;
    let mut desktop = Desktop::start(&stage).await;
    let menu = TrayMenu::of(desktop.pid).await;
    for prompt in ["ECHO one", "ECHO two"] {
        let request = json!({ "project_id": "p", "prompt": prompt,
            "agent_config": { "agent_server": programs::fake_agent(json!({})) } });
        desktop.chat(request).await;
    }
    wait_until("both are listed", BOUND, async || {
        let labels = menu.labels().await;
        let has = |label: &str| labels.iter().any(|found| found == label);
        (has("ECHO one") && has("ECHO two") && has("Stop all sessions")).then_some(())
    })
    .await;
    menu.click("Stop all sessions").await;
    wait_until("their agents are gone", BOUND, async || {
        stage.running("fake_agent").is_empty().then_some(())
    })
    .await;
    wait_until("none is listed", BOUND, async || {
        (!menu.labels().await.iter().any(|label| label.starts_with("ECHO"))).then_some(())
    })
    .await;
    menu.click("Quit").await;
    desktop.ended_cleanly().await;
    stage.finish().await;
}

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn a_finished_turn_is_told_while_the_window_is_hidden_and_a_click_opens_it() {
    let _host = TrayHost::start().await;
    let notifications = NotificationHost::start().await;
    let stage = Stage::alone().await;
    let mut desktop = Desktop::start(&stage).await;
    desktop.hide_in_the_tray().await;
    let request = json!({ "project_id": "p", "prompt": "ECHO done",
        "agent_config": { "agent_server": programs::fake_agent(json!({})) } });
    desktop.chat(request).await;
    let (id, title, text) =
        wait_until("the notification", BOUND, async || notifications.shown().into_iter().next())
            .await;
    assert_eq!((title.as_str(), text.as_str()), ("ECHO done", "The agent has finished"));
    notifications.click(id).await;
    shown(desktop.pid).await;
    desktop.signal(rustix::process::Signal::TERM);
    desktop.ended_cleanly().await;
    stage.finish().await;
}

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn started_hidden_it_waits_in_the_tray() {
    let _host = TrayHost::start().await;
    let stage = Stage::alone().await;
    let mut desktop = Desktop::start_with(&stage, |command| {
        command.arg("--hidden");
    })
    .await;
    desktop.knows_the_tray_host().await;
    let menu = TrayMenu::of(desktop.pid).await;
    assert_eq!(desktop.window().await, None);
    menu.click("Show").await;
    shown(desktop.pid).await;
    menu.click("Quit").await;
    desktop.ended_cleanly().await;
    stage.finish().await;
}

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn started_hidden_where_no_tray_can_bring_it_the_window_is_shown() {
    let stage = Stage::alone().await;
    let mut desktop = Desktop::start_with(&stage, |command| {
        command.arg("--hidden");
    })
    .await;
    assert_eq!(desktop.window().await, None, "a panel was given no time to come");
    shown_after_all(&desktop).await;
    desktop.signal(rustix::process::Signal::TERM);
    desktop.ended_cleanly().await;
    stage.finish().await;
}

/// The panel is given ten seconds before.
async fn shown_after_all(desktop: &Desktop) {
    wait_until("the window is there", 2 * BOUND, async || desktop.window().await).await;
}

/// A panel that crashes takes the icon with it.
#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn a_window_in_the_tray_comes_back_when_the_tray_is_gone() {
    let host = TrayHost::start().await;
    let stage = Stage::alone().await;
    let mut desktop = Desktop::start(&stage).await;
    desktop.hide_in_the_tray().await;
    drop(host);
    shown_after_all(&desktop).await;
    desktop.signal(rustix::process::Signal::TERM);
    desktop.ended_cleanly().await;
    stage.finish().await;
}

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn the_start_at_a_login_is_off_until_it_is_switched_on() {
    let stage = Stage::alone().await;
    let entry = stage.path("home/.config/autostart/Gantry.desktop");
    let window = Driver::start(&stage, |_| {}).await;
    window.see("start-page").await;
    window.click("nav-settings").await;
    window.see("autostart[aria-checked='false']").await;
    assert!(!entry.exists());
    window.click("autostart").await;
    window.see("autostart[aria-checked='true']").await;
    let text = std::fs::read_to_string(&entry).unwrap_or_else(|why| panic!("{why}"));
    let command = text.lines().find_map(|line| line.strip_prefix("Exec=")).unwrap_or_default();
    let program = programs::path("gantry-desktop");
    let wanted =
        format!("{} --hidden --data-dir {}", program.display(), stage.data_dir().display());
    assert_eq!(command, wanted);
    window.picture(&stage, "settings").await;
    window.click("autostart").await;
    window.see("autostart[aria-checked='false']").await;
    assert!(!entry.exists());
    window.api.api("quit", json!({})).await;
    window.ended_cleanly(&stage).await;
    stage.finish().await;
}
