//! The app is killed, the warden is killed.

use crate::{
    app::{self, App},
    world::{Bystander, LIMIT, World, mark, marked, until},
};
use gantry_supervisor::{Exit, ProcessId};
use std::time::{Duration, Instant};

/// Every kind of child that survives something simpler.
pub fn stubborn(mark: &str) -> Vec<String> {
    [
        "cat; : MARK",
        "trap '' TERM; sleep MARK; :",
        "setsid sleep MARK & cat",
        "(setsid sleep MARK &); sleep MARK; :",
        "trap '' TERM; (setsid sh -c \"trap '' TERM; sleep MARK; :\" &); sleep MARK; :",
    ]
    .map(|text| text.replace("MARK", mark))
    .to_vec()
}

/// A daemon that cleared its environment, four processes in all.
pub fn unmarked(mark: &str) -> String {
    format!("(env -i setsid sh -c \"trap '' TERM; sleep {mark}; :\" &); sleep {mark}; :")
}

/// How many processes those are.
pub const STUBBORN: usize = 1 + 2 + 2 + 3 + 4;

fn ours(mark: &str, app: &App) -> Vec<ProcessId> {
    let mut found = marked(mark);
    found.retain(|id| *id != app.id);
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn the_app_is_killed() {
    let mark = mark();
    let mut scripts = stubborn(&mark);
    scripts.push(unmarked(&mark));
    let app = App::start(&scripts, true);
    assert!(until(LIMIT, || ours(&mark, &app).len() >= STUBBORN + 4).await);
    let bystander = Bystander::start(&format!("{mark}1"));
    let wardens = app.wardens.clone();
    let killed = Instant::now();
    app.kill();
    let only_bystander = || marked(&mark).len() == 1 && !wardens.iter().any(|id| id.is_alive());
    assert!(until(LIMIT, only_bystander).await, "{:?}", marked(&mark));
    assert!(killed.elapsed() < Duration::from_secs(2), "{:?}", killed.elapsed());
    drop(bystander);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_warden_is_killed() {
    let world = World::new();
    for text in stubborn(&world.mark) {
        let child = world.start(&text, text.matches("sleep").count()).await;
        // Seen once, as the supervisor's own look does it within moments.
        child.tree.members();
        crate::stop::signal(child.tree.warden().expect("a warden").pid, "KILL");
        assert_eq!(child.tree.exited().await, Exit::Unknown);
        assert!(until(LIMIT, || world.supervisor.trees().is_empty()).await);
        assert_eq!(world.marked(), [], "{text}");
    }
    world.finish().await;
}

/// Nobody has seen it start, its parents are dead, its environment is empty: only its stamp
/// says whose it is.
#[tokio::test(flavor = "multi_thread")]
async fn the_warden_of_a_daemon_without_environment_is_killed_before_anybody_looked() {
    let world = World::new();
    for _ in 0..5 {
        let child = world.start(&unmarked("MARK"), 2).await;
        crate::stop::signal(child.tree.warden().expect("a warden").pid, "KILL");
        assert!(until(LIMIT, || world.supervisor.trees().is_empty()).await);
        world.assert_clean();
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn descriptors_return_to_their_number() {
    let (before, after) = app::cycle(50);
    assert_eq!(before, after);
}
