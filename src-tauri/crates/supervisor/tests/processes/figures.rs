//! What a warden costs and how long a stop takes. Printed with `--nocapture`; the bounds
//! are ten times what an idle machine shows.

use crate::world::{LIMIT, World, echo, soon};
use gantry_supervisor::{Cause, How};
use std::time::{Duration, Instant};

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

/// Median times of start (until the first echo) and of stop.
async fn times(world: &World) -> (Duration, Duration) {
    let (mut starts, mut stops) = (Vec::new(), Vec::new());
    for _ in 0..21 {
        let began = Instant::now();
        let mut child = world.start("cat", 0).await;
        echo(&mut child).await;
        starts.push(began.elapsed());
        let ended = child.tree.stop(Cause::Unused, soon(LIMIT)).await;
        assert_eq!(ended.how, How::Exited);
        stops.push(ended.took);
    }
    (median(starts), median(stops))
}

/// `Pss` and private kilobytes of a process.
fn memory(pid: u32) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("a process");
    let sum = |start: &str| -> u64 {
        let lines = text.lines().filter(|line| line.starts_with(start));
        lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
    };
    (sum("Pss:"), sum("Private_"))
}

/// Stop of ten polite trees at once, as in a quit.
async fn quit_of_ten() -> Duration {
    let world = World::new();
    let mut children = Vec::new();
    for _ in 0..10 {
        let mut child = world.start("cat", 0).await;
        echo(&mut child).await;
        children.push(child);
    }
    let began = Instant::now();
    let ended = world.supervisor.stop_all(Cause::Quit, soon(LIMIT)).await;
    let took = began.elapsed();
    assert!(ended.iter().all(|(_, ended)| ended.how == How::Exited));
    world.finish().await;
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warden_is_light_and_a_polite_stop_is_fast() {
    let (with, without) = (World::new(), World::without_wardens());
    let ((start, stop), (bare_start, bare_stop)) = (times(&with).await, times(&without).await);
    let mut child = with.start("cat", 0).await;
    echo(&mut child).await;
    let (pss, private) = memory(child.tree.warden().expect("a warden").pid);
    let began = Instant::now();
    assert!(!child.tree.members().is_empty());
    let look = began.elapsed();
    child.tree.stop(Cause::Unused, soon(LIMIT)).await;
    let quit = quit_of_ten().await;
    println!(
        "start {start:?} (without a warden {bare_start:?}); stop {stop:?} (without {bare_stop:?}); \
         stop of ten polite trees {quit:?}; a look at the members {look:?}; \
         a warden {pss} kB PSS, {private} kB private"
    );
    assert!(start < bare_start + Duration::from_millis(100));
    assert!(stop < Duration::from_secs(1));
    assert!(quit < Duration::from_secs(5));
    assert!(private < 2048, "{private} kB");
    with.finish().await;
    without.finish().await;
}
