//! What the real window's shell does beside the conversation: the question at
//! the first close, the tray's sessions, notifications.

use gantry_tests::{
    Desktop, Stage,
    desktop::{self, BOUND, Driver},
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
    wait_until("it knows the tray host", BOUND, async || {
        window.log().contains("host=true").then_some(())
    })
    .await;
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
    wait_until("it knows the tray host", BOUND, async || {
        desktop.log().contains("host=true").then_some(())
    })
    .await;
    desktop.api("settings_set", json!({ "on_close": "tray" })).await;
    desktop.close_window().await;
    hidden(desktop.pid).await;
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

async fn hidden(pid: u32) {
    wait_until("the window is hidden", BOUND, async || {
        desktop::window_of(pid).await.is_none().then_some(())
    })
    .await;
}

async fn shown(pid: u32) {
    wait_until("the window is there", BOUND, async || desktop::window_of(pid).await).await;
}
