use crate::world::{LIMIT, World, soon};
use gantry_core::wire::{ReadinessState, ServerState};
use gantry_supervisor::Deadline;
use serde_json::json;
use std::{os::unix::fs::PermissionsExt, time::Duration};

/// Case 35: at the first prompt every tool of every server is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ready_at_the_first_prompt_twenty_times() {
    let world = World::new();
    for round in 0..20 {
        let delay = format!("delay=0.{}", round % 4);
        let servers =
            vec![world.spec("one", &[&delay]), world.spec("many", &["tools=149", "noise"])];
        let session = format!("s{round}");
        assert_eq!(
            world.open(&session, Some(servers)).await,
            [("one".into(), ReadinessState::Ready, 2), ("many".into(), ReadinessState::Ready, 149)],
            "round {round}"
        );
        let released = world.bridge.release(&session, soon()).await;
        assert_eq!(released.servers, ["one", "many"]);
        assert_eq!(released.ended.len(), 2);
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_one_does_not_hold_up_the_prompt() {
    let world = World::new();
    let servers = vec![world.spec("fast", &[]), world.spec("late", &["delay=6"])];
    world.bridge.lease("s", Some(servers)).await;
    let ready = world.bridge.ready("s", Deadline::after(Duration::from_secs(2))).await;
    assert_eq!(ready[0].state, ReadinessState::Ready, "{ready:?}");
    assert_eq!(ready[1].state, ReadinessState::Starting, "{ready:?}");
    assert!((2000..5000).contains(&ready[1].ms), "{ready:?}");
    world.until_ready("late").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_command_fails_at_once_and_works_once_it_is_there() {
    let world = World::new();
    let program = world.path("the server");
    let mut spec = world.spec("x", &[]);
    spec.config.command = Some(program.display().to_string());
    let named = {
        let mut named = world.spec("named", &[]);
        named.config.command = Some("gantry-no-such-program".into());
        named
    };
    world.bridge.lease("s", Some(vec![spec, named, world.spec("y", &[])])).await;
    let ready = world.bridge.ready("s", Deadline::after(LIMIT)).await;
    assert_eq!(ready[0].state, ReadinessState::Failed);
    assert!(ready[0].error.as_ref().is_some_and(|why| why.contains("the server")), "{ready:?}");
    let why = ready[1].error.clone().unwrap_or_default();
    assert!(why.contains("gantry-no-such-program") && why.contains("/bin"), "{why}");
    assert_eq!(ready[2].state, ReadinessState::Ready);

    std::fs::write(&program, "#!/bin/sh\nexec python3 \"$@\"\n").expect("writes");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    world.bridge.restart("x", soon()).await.expect("restarts");
    world.until_ready("x").await;
    world.finish().await;
}

/// Its message says to give it more time: with more time it starts, and nobody has to ask for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_one_is_started_again_when_it_is_given_more_time() {
    let world = World::new();
    let spec = |ms: u64| {
        let more = json!({ "persistent": true, "startTimeoutMs": ms });
        world.spec_with("x", &["delay=0.5"], more)
    };
    world.bridge.configure(vec![spec(1)]).await;
    let failed = world.until("x", |view| view.state == ServerState::Failed).await;
    assert!(failed.error.is_some_and(|why| why.contains("startTimeoutMs")));
    world.bridge.configure(vec![spec(20_000)]).await;
    let ready = world.until_ready("x").await;
    // One that runs is not touched by such a change.
    world.bridge.configure(vec![spec(30_000)]).await;
    let still = world.until_ready("x").await;
    assert_eq!((still.pid, still.restarts), (ready.pid, ready.restarts));
    world.finish().await;
}

/// Case 74: the line that says why is there, with the exit code, also after the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_words_of_a_failed_one_are_kept() {
    let world = World::new();
    world.bridge.lease("s", Some(vec![world.spec("x", &["key"])])).await;
    let ready = world.bridge.ready("s", Deadline::after(LIMIT)).await;
    let why = ready[0].error.clone().unwrap_or_default();
    assert!(why.contains("code 3") && why.contains("KEY missing"), "{why}");
    let view = world.until("x", |view| view.state == ServerState::Failed).await;
    assert_eq!(view.pid, None);
    let log = world.bridge.log("x", 1).expect("a log");
    assert_eq!(log, ["KEY missing"]);
    world.finish().await;
}

/// Case N8: a changed value restarts its server and no other; the URL stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_environment_restarts_one_server() {
    let world = World::new();
    let saved = |key: &str| {
        vec![
            world.spec_with("a", &["key"], json!({ "persistent": true, "env": { "KEY": key } })),
            world.spec_with("b", &[], json!({ "persistent": true })),
        ]
    };
    world.bridge.configure(saved("1")).await;
    world.open("s", None).await;
    let before = [world.reach("s", "a").await, world.reach("s", "b").await];
    assert_eq!(before[0][1], "1");
    assert_eq!(before[0][3], world.path("data/workspaces").display().to_string());
    world.bridge.configure(saved("2")).await;
    // The call waits for the new process.
    let after = [world.reach("s", "a").await, world.reach("s", "b").await];
    assert_eq!(after[0][1], "2");
    assert_ne!(after[0][0], before[0][0]);
    assert_eq!(after[1][0], before[1][0]);
    assert_eq!(after[1][2], "2", "the other one kept its state");
    let shown = serde_json::to_string(&world.bridge.views()).expect("JSON");
    assert!(!shown.contains("\"KEY\":\"2\""), "{shown}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_one_comes_back_behind_the_same_url() {
    let world = World::new();
    world.open("s", Some(vec![world.spec("x", &["family"])])).await;
    let first = world.reach("s", "x").await;
    let view = world.until_ready("x").await;
    assert_eq!(view.pid.map(|pid| pid.to_string()), Some(first[0].clone()));
    let killed = std::process::Command::new("kill").args(["-9", &first[0]]).status();
    assert!(killed.expect("kill").success());
    world.until("x", |view| view.restarts == 1).await;
    let second = world.reach("s", "x").await;
    assert_ne!(second[0], first[0]);
    let ready = world.until_ready("x").await;
    assert_eq!(ready.pid.map(|pid| pid.to_string()), Some(second[0].clone()));
    // Server, child, session leader, daemon: one generation of each.
    assert_eq!(world.marked().len() - wardens(&world), 4, "{:?}", world.marked());
    world.finish().await;
}

/// Wardens carry the command line of what they start.
fn wardens(world: &World) -> usize {
    let is_warden = |pid: u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|name| name.contains("warden"))
    };
    world.marked().iter().filter(|id| is_warden(id.pid)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_closes_its_output_and_lives_is_restarted() {
    let world = World::new();
    world.bridge.lease("s", Some(vec![world.spec("x", &["deaf"])])).await;
    let view = world.until("x", |view| view.state == ServerState::Failed).await;
    assert!(view.error.as_ref().is_some_and(|why| why.contains("closed its output")), "{view:?}");
    assert_eq!(world.marked(), []);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_one_fails_at_its_limit() {
    let world = World::new();
    let silent = world.spec_with("x", &["silent"], json!({ "startTimeoutMs": 1500 }));
    world.bridge.lease("s", Some(vec![silent])).await;
    let ready = world.bridge.ready("s", Deadline::after(LIMIT)).await;
    assert_eq!(ready[0].state, ReadinessState::Failed);
    assert!(ready[0].error.as_ref().is_some_and(|why| why.contains("1.5 s")), "{ready:?}");
    world.until("x", |view| view.state == ServerState::Failed && view.pid.is_none()).await;
    assert_eq!(world.marked(), []);
    world.finish().await;
}

/// Case N9, the half that is ours: identical requests share, different ones do not meet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identical_requests_share_one_process() {
    let world = World::new();
    let pids = format!("pids={}", world.path("pids").display());
    let opens = (0..100).map(|n| {
        let (world, pids) = (&world, &pids);
        async move {
            let session = format!("s{n}");
            let open = world.open(&session, Some(vec![world.spec("x", &[pids])])).await;
            assert_eq!(open[0].1, ReadinessState::Ready);
        }
    });
    futures::future::join_all(opens).await;
    let own = |key: &str| vec![world.spec_with("x", &[], json!({ "env": { "KEY": key } }))];
    for key in ["1", "2", "3"] {
        world.open(&format!("own{key}"), Some(own(key))).await;
    }
    for key in ["1", "2", "3"] {
        assert_eq!(world.reach(&format!("own{key}"), "x").await[1], key);
    }
    assert_eq!(world.reach("s7", "x").await[1], "-");
    let started = std::fs::read_to_string(world.path("pids")).expect("pids");
    assert_eq!(started.lines().count(), 1);
    world.finish().await;
}
