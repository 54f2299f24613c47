use crate::world::{World, soon};
use gantry_core::wire::{ReadinessState, ServerState};
use gantry_supervisor::Deadline;
use serde_json::json;
use std::time::{Duration, Instant};

/// Situation B: a session's servers end with everything they started; a persistent one keeps its PID.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_leaves_nothing_but_what_is_persistent() {
    let mut world = World::new();
    world
        .bridge
        .configure(vec![world.spec_with("kept", &["family"], json!({ "persistent": true }))])
        .await;
    let mut servers = world.bridge.saved();
    servers.extend([
        world.spec("family", &["family"]),
        world.spec("stubborn", &["family", "stubborn"]),
        world.spec("shared", &[]),
    ]);
    world.open("a", Some(servers)).await;
    world.open("b", Some(vec![world.spec("shared", &[])])).await;
    let kept = world.until_ready("kept").await.pid;
    let shared = world.until_ready("shared").await.pid;

    let begun = Instant::now();
    let released = world.bridge.release("a", Deadline::after(Duration::from_secs(3))).await;
    assert!(begun.elapsed() < Duration::from_millis(4500), "{:?}", begun.elapsed());
    assert_eq!(released.servers, ["family", "stubborn"]);
    assert_eq!(released.ended.len(), 2, "{:?}", released.ended);
    assert!(released.ended.iter().any(|ended| ended.forced > 0), "{:?}", released.ended);
    assert!(released.ended.iter().all(|ended| ended.processes >= 4), "{:?}", released.ended);

    assert_eq!(world.until_ready("shared").await.pid, shared);
    assert_eq!(world.bridge.release("b", soon()).await.servers, ["shared"]);
    let view = world.until_ready("kept").await;
    assert_eq!((view.pid, view.restarts), (kept, 0));
    assert_eq!(world.bridge.running().len(), 1);
    world.bridge.configure(vec![]).await;
    world.assert_clean();
    world.finish().await;
}

/// Case 18: the old one is gone before the new one starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_never_has_two_at_once() {
    let world = World::new();
    let (lock, pids) = (
        format!("lock={}", world.path("lock").display()),
        format!("pids={}", world.path("pids").display()),
    );
    let saved = |key: &str| {
        let more = json!({ "persistent": true, "env": { "KEY": key } });
        vec![world.spec_with("x", &[&lock, &pids, "bye=0.4"], more)]
    };
    world.bridge.configure(saved("0")).await;
    world.until_ready("x").await;
    for round in 1..=3 {
        let view = world.bridge.restart("x", soon()).await.expect("restarts");
        assert!(view.pid.is_some(), "{view:?}");
        let view = world.until_ready("x").await;
        assert_eq!(view.restarts, 0, "round {round}: {view:?}");
        world.bridge.configure(saved(&round.to_string())).await;
        let view = world.until_ready("x").await;
        assert_eq!(view.restarts, 0, "round {round}: {view:?}");
    }
    let started = std::fs::read_to_string(world.path("pids")).expect("pids");
    assert_eq!(started.lines().count(), 7);
    world.finish().await;
}

/// Case N2: a crash, then a stop 0 to 1,300 ms later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_after_a_crash_is_final() {
    let world = World::new();
    for late in (0..=1300).step_by(100) {
        world.open("s", Some(vec![world.spec("x", &[])])).await;
        let pid = world.until_ready("x").await.pid.expect("a pid").to_string();
        let killed = std::process::Command::new("kill").args(["-9", &pid]).status();
        assert!(killed.expect("kill").success());
        tokio::time::sleep(Duration::from_millis(late)).await;
        world.bridge.release("s", soon()).await;
        assert_eq!(world.marked(), [], "{late} ms after a crash");
        assert_eq!(world.bridge.views(), [], "{late} ms after a crash");
    }
    world.finish().await;
}

/// Case N1, many times: overlapping starts and stops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_starts_and_stops_leave_nothing() {
    let mut world = World::new();
    {
        let world = &world;
        let sessions = (0..6_u64).map(|n| async move {
            for round in 0..8_u64 {
                let session = format!("s{n}");
                let words: &[&str] = if round % 2 == 0 { &["family"] } else { &[] };
                world.bridge.lease(&session, Some(vec![world.spec("x", words)])).await;
                if (n + round) % 3 == 0 {
                    world.bridge.ready(&session, soon()).await;
                } else {
                    tokio::time::sleep(Duration::from_millis((n * 37 + round * 53) % 120)).await;
                }
                world.bridge.release(&session, soon()).await;
            }
        });
        futures::future::join_all(sessions).await;
    }
    assert_eq!(world.bridge.views(), []);
    world.assert_clean();
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_comes_in_time_for_servers_in_every_state() {
    let mut world = World::new();
    let persistent = json!({ "persistent": true });
    world
        .bridge
        .configure(vec![
            world.spec_with("ready", &["family", "stubborn"], persistent.clone()),
            world.spec_with("late", &["delay=20", "family"], persistent.clone()),
            world.spec_with("failing", &["key"], persistent.clone()),
        ])
        .await;
    world.until_ready("ready").await;
    world.until("late", |view| view.pid.is_some()).await;
    // In the midst of being launched.
    world
        .bridge
        .lease("s", Some((0..8).map(|n| world.spec(&format!("n{n}"), &[])).collect()))
        .await;
    let begun = Instant::now();
    let ended = world.bridge.stop_all(Deadline::after(Duration::from_secs(4))).await;
    assert!(begun.elapsed() < Duration::from_millis(4500), "{:?}", begun.elapsed());
    assert!(ended.iter().any(|ended| ended.forced > 0), "{ended:?}");
    world.assert_clean();
    for view in world.bridge.views() {
        assert_eq!((view.state, view.pid), (ServerState::Stopped, None), "{}", view.name);
    }
    assert!(!world.bridge.lease("t", Some(vec![world.spec("y", &[])])).await);
    world.assert_clean();
    world.finish().await;
}

/// Case 24: a server that needs its time on TERM gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_needs_time_to_end_gets_it() {
    let world = World::new();
    let open = world.open("s", Some(vec![world.spec("x", &["bye=1.5"])])).await;
    assert_eq!(open[0].1, ReadinessState::Ready);
    let released = world.bridge.release("s", soon()).await;
    assert_eq!(released.ended.len(), 1);
    assert_eq!(released.ended[0].forced, 0, "{:?}", released.ended);
    assert!(released.ended[0].took >= Duration::from_millis(1400), "{:?}", released.ended);
    world.finish().await;
}
