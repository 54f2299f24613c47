//! What the desktop program costs: the time from its start until its window can be used (with a
//! warm disk: the first start is not counted), and the memory of its whole tree at rest, those
//! processes of the web view included. Fails when a figure is over the limit beside it.

#![allow(clippy::disallowed_methods, reason = "it starts what it measures")]

use gantry_tests::{Desktop, Stage, census, desktop::BOUND, figures::Report, wait_until};
use rustix::process::Signal;
use serde_json::json;
use std::{
    fs,
    time::{Duration, Instant},
};

const STARTS: usize = 7;
/// Of the window to be usable, in milliseconds.
const LIMIT: f64 = 1000.0;
/// What comes after a start is over then.
const REST: Duration = Duration::from_secs(15);

#[tokio::main]
async fn main() {
    let stage = Stage::alone().await;
    let mut times = Vec::new();
    for _ in 0..=STARTS {
        let (mut desktop, took) = start(&stage).await;
        times.push(took);
        // The other starts are not a newcomer's.
        desktop.api("settings_set", json!({ "introduced": true })).await;
        desktop.signal(Signal::TERM);
        desktop.ended_cleanly().await;
    }
    let mut warm: Vec<f64> = times[1..].iter().map(|span| span.as_secs_f64() * 1000.0).collect();
    warm.sort_by(f64::total_cmp);

    let (mut desktop, _) = start(&stage).await;
    tokio::time::sleep(REST).await;
    let parts = memory(desktop.pid);
    desktop.signal(Signal::TERM);
    desktop.ended_cleanly().await;
    stage.finish().await;

    let mut report = Report::default();
    let median = warm[warm.len() / 2];
    let range = format!("{:.0} to {:.0} ms, {STARTS} starts", warm[0], warm[warm.len() - 1]);
    report.at_most("from the start to a usable window, median (ms)", range, median, LIMIT);
    let total: f64 = parts.iter().map(|(_, size)| size).sum();
    report.tell("memory of the whole tree at rest (PSS)", format!("{total:.0} MB"));
    for (name, size) in parts {
        report.tell(&format!("… of it {name}"), format!("{size:.0} MB"));
    }
    report.print();
    assert_eq!(report.over(), 0, "a figure is over its limit");
}

/// Starts it and waits until it says that its window can be used.
async fn start(stage: &Stage) -> (Desktop, Duration) {
    let began = Instant::now();
    let desktop = Desktop::start_with(stage, |_| {}).await;
    let took = wait_until("the window can be used", BOUND, async || {
        desktop.log().contains("the window can be used").then(|| began.elapsed())
    })
    .await;
    (desktop, took)
}

/// Each process of a tree with its fair share of the memory, in megabytes.
fn memory(root: u32) -> Vec<(String, f64)> {
    let rows = census::table();
    let mut tree = vec![root];
    let mut at = 0;
    while let Some(parent) = tree.get(at).copied() {
        tree.extend(rows.iter().filter(|row| row.parent == parent).map(|row| row.pid));
        at += 1;
    }
    let share = |pid: &u32| {
        let sums = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = sums.lines().find(|line| line.starts_with("Pss:"))?;
        let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some((name.trim().to_owned(), kilobytes / 1024.0))
    };
    tree.iter().filter_map(share).collect()
}
