//! The real window, on a display of its own: `cargo xtask test` starts one,
//! with a window manager and a session bus, and runs these one at a time.

use crate::stubborn;
use gantry_tests::{
    Desktop, Stage, census,
    desktop::{self, BOUND, Display, Driver},
    npm, programs,
    tray::{TrayHost, TrayMenu},
    wait_until,
};
use rustix::process::Signal;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn a_newcomer_calls_a_tool_of_a_slow_server_stops_and_quits_by_the_tray() {
    let stage = Stage::alone().await;
    let window = Driver::start(&stage, |command| {
        command.env("GANTRY_DEFAULT_SERVERS", "recall");
    })
    .await;
    window.see("start-page").await;
    desktop::picture(&stage, "1-start").await;
    // Its own styles hold, a style that markup brings along does not.
    let styles =
        "document.body.insertAdjacentHTML('beforeend', '<p style=\"position: fixed\"></p>');
        const { position } = getComputedStyle(document.body.lastElementChild);
        document.body.lastElementChild.remove();
        return [getComputedStyle(document.body).overflow, position];";
    assert_eq!(window.script(styles).await, json!(["hidden", "static"]));

    // A server by the form, which needs three seconds, and a prompt at once.
    let words = [
        programs::path("slow_start").display().to_string(),
        "3000".into(),
        stage.text("server.jsonl"),
        "node".into(),
        npm::server_everything().display().to_string(),
        "stdio".into(),
    ];
    window.click("add-server").await;
    window.fill("server-name", "everything").await;
    window.fill("server-command", &words.join(" ")).await;
    window.click("server-save").await;
    window.see("server-item[data-server='everything']").await;

    window.fill("project-input", &stage.text("project")).await;
    window.click("start-session").await;
    window.say("/tools").await;
    window.text("turn", BOUND, |text| text.contains("echo") && text.contains("everything")).await;
    window.see("server-state[data-state='ready']").await;

    window.say("/call echo {\"message\":\"hello\"}").await;
    window.see("tool-card[data-status='completed']").await;
    window.text("turn", BOUND, |text| text.contains("Echo: hello")).await;
    desktop::picture(&stage, "2-tool-card").await;
    assert!(!stage.running("node").is_empty());

    window.click("stop-session").await;
    wait_until("the session's processes are gone", BOUND, async || {
        if let Some(yes) = window.all("confirm-yes").await.into_iter().next() {
            let _ = yes.click().await;
        }
        let engines = stage.members_like("gantry agent");
        engines.is_empty().then_some(())
    })
    .await;

    let menu = TrayMenu::of(window.pid).await;
    let labels = menu.labels().await;
    assert!(labels.iter().any(|label| label.starts_with("Show")), "{labels:?}");
    menu.click("Quit").await;
    window.ended_cleanly(&stage).await;
    stage.finish().await;
}

async fn a_quit_by(gesture: impl AsyncFnOnce(&Desktop)) {
    let stage = Stage::alone().await;
    let mut desktop = Desktop::start(&stage).await;
    stubborn::session(&desktop, &stage, "HANG").await;
    gesture(&desktop).await;
    desktop.ended_cleanly().await;
    stage.finish().await;
}

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn the_x_of_the_window_quits_where_no_tray_can_bring_it_back() {
    a_quit_by(async |desktop: &Desktop| desktop.close_window().await).await;
}

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn the_x_of_the_window_hides_it_in_the_tray_from_where_it_comes_back_and_quits() {
    let _host = TrayHost::start().await;
    let stage = Stage::alone().await;
    let mut desktop = Desktop::start(&stage).await;
    let menu = TrayMenu::of(desktop.pid).await;
    stubborn::session(&desktop, &stage, "HANG").await;
    desktop.hide_in_the_tray().await;
    assert_eq!(stage.running("fake_agent").len(), 1, "the session ended with the window");
    menu.click("Show").await;
    desktop::shown(desktop.pid).await;
    desktop.close_window().await;
    desktop::hidden(desktop.pid).await;
    menu.click("Quit").await;
    desktop.ended_cleanly().await;
    stage.finish().await;
}

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn control_q_quits() {
    a_quit_by(async |desktop: &Desktop| {
        // The page may still be loading: the key is pressed until it is heard.
        for _ in 0..20 {
            desktop.press("ctrl+q").await;
            let heard = wait_until("it is heard", BOUND, async || {
                desktop.log().contains("Shutting down").then_some(())
            });
            if tokio::time::timeout(Duration::from_secs(1), heard).await.is_ok() {
                return;
            }
        }
        panic!("nobody hears Ctrl+Q");
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn signals_quit_the_desktop_program() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        a_quit_by(async |desktop: &Desktop| desktop.signal(signal)).await;
    }
}

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn the_api_quits_the_desktop_program() {
    a_quit_by(async |desktop: &Desktop| {
        desktop.api("quit", json!({})).await;
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn kill_minus_nine_of_the_desktop_program_leaves_nothing_after_two_seconds() {
    let stage = Stage::alone().await;
    let mut desktop = Desktop::start(&stage).await;
    stubborn::session(&desktop, &stage, "HANG").await;
    desktop.signal(Signal::KILL);
    stage.empty_but(&[], Duration::from_secs(2)).await;
    desktop.ended(Duration::from_secs(1)).await;
    stage.finish().await;
}

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn the_next_start_of_the_desktop_program_ends_what_nobody_else_could() {
    let stage = Stage::alone().await;
    let mut desktop = Desktop::start(&stage).await;
    stubborn::session(&desktop, &stage, "HANG").await;
    let wardens = stage.running("gantry-warden");
    assert!(!wardens.is_empty());
    // Held, so that none acts on the app's end before it is killed itself.
    wardens.iter().for_each(|warden| census::signal(warden.pid, Signal::STOP));
    desktop.signal(Signal::KILL);
    wardens.iter().for_each(|warden| census::signal(warden.pid, Signal::KILL));
    desktop.ended(Duration::from_secs(1)).await;
    let mut next = Desktop::start(&stage).await;
    wait_until("all of it is gone", Duration::from_secs(5), async || {
        let left = ["stubborn", "fake_agent", "fake_mcp"].map(|name| stage.running(name).len());
        (left == [0, 0, 0]).then_some(())
    })
    .await;
    let snapshot = next.api("snapshot", json!({})).await;
    assert_eq!(snapshot["last_exit"]["crashed"], true, "{snapshot}");
    next.signal(Signal::TERM);
    next.ended_cleanly().await;
    stage.finish().await;
}

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn a_second_quit_of_the_desktop_program_does_not_wait() {
    let stage = Stage::alone().await;
    let mut desktop = Desktop::start(&stage).await;
    stubborn::session(&desktop, &stage, "HANG").await;
    desktop.signal(Signal::TERM);
    // Later than what counts as the same gesture.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    desktop.signal(Signal::INT);
    let (status, _) = desktop.ended(Duration::from_millis(2500)).await;
    assert_eq!(status.code(), Some(0), "{}", desktop.log());
    stage.finish().await;
}

/// The toolkit ends the program at once then, without any event.
#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn the_death_of_the_display_leaves_nothing_after_two_seconds() {
    let stage = Stage::alone().await;
    let mut display = Display::start(&stage).await;
    let mut desktop = Desktop::start_with(&stage, |command| {
        command.env("DISPLAY", &display.name).env_remove("WAYLAND_DISPLAY");
    })
    .await;
    stubborn::session(&desktop, &stage, "HANG").await;
    display.kill().await;
    stage.empty_but(&[], Duration::from_secs(2)).await;
    desktop.ended(Duration::from_secs(1)).await;
    stage.finish().await;
}

#[tokio::test]
#[ignore = "needs a display; cargo xtask test runs it"]
async fn a_second_start_shows_the_first_window_and_ends_with_zero() {
    let _host = TrayHost::start().await;
    let stage = Stage::alone().await;
    let mut desktop = Desktop::start(&stage).await;
    desktop.hide_in_the_tray().await;
    let status = Desktop::start_again(&stage).await;
    assert_eq!(status.code(), Some(0));
    desktop::shown(desktop.pid).await;
    assert!(census::row(desktop.pid).is_some());
    desktop.signal(Signal::TERM);
    desktop.ended_cleanly().await;
    stage.finish().await;
}
