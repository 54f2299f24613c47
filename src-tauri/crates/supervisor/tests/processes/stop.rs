//! `ProcessTree::stop` and `Supervisor::stop_all` against every kind of program.

use crate::world::{LIMIT, World, assert_reaped, echo, mark, marked, script, soon, until};
use gantry_supervisor::{Cause, Ended, Exit, How, Stdin};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;

const SECOND: Duration = Duration::from_secs(1);

/// Starts, waits for `count` sleepers, stops within `span`, checks the cleanness.
async fn case(world: World, text: &str, count: usize, span: Duration) -> Ended {
    let child = world.start(text, count).await;
    let ended = child.tree.stop(Cause::Stopped, soon(span)).await;
    // The machine that runs the tests may be busy with others.
    assert!(ended.took <= span + SECOND, "{ended:?}");
    assert!(ended.processes >= count, "{ended:?}");
    assert_reaped(&child.tree).await;
    world.finish().await;
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn polite_ends_on_end_of_input() {
    let world = World::new();
    let mut child = world.start("cat; : MARK", 0).await;
    echo(&mut child).await;
    let ended = child.tree.stop(Cause::Stopped, soon(LIMIT)).await;
    assert_eq!((&ended.how, ended.forced), (&How::Exited, 0));
    assert_eq!(child.tree.exit(), Some(Exit::Code(0)));
    assert!(ended.took < SECOND, "{ended:?}");
    assert_reaped(&child.tree).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn polite_without_a_warden() {
    let ended = case(World::without_wardens(), "cat; : MARK", 0, LIMIT).await;
    assert_eq!(ended.how, How::Exited);
}

#[tokio::test(flavor = "multi_thread")]
async fn ignoring_end_of_input_gets_term() {
    let ended = case(World::new(), "sleep MARK; :", 1, 4 * SECOND).await;
    assert_eq!((ended.how, ended.forced), (How::Terminated, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn ignoring_term_gets_kill() {
    let ended = case(World::new(), "trap '' TERM; sleep MARK; :", 1, 2 * SECOND).await;
    assert_eq!((ended.how, ended.forced), (How::Killed, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn ignoring_term_gets_kill_without_a_warden() {
    let world = World::without_wardens();
    let ended = case(world, "trap '' TERM; sleep MARK; :", 1, 2 * SECOND).await;
    assert_eq!((ended.how, ended.forced), (How::Killed, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_in_a_session_of_its_own() {
    let text = "trap '' TERM; setsid sleep MARK & cat";
    for world in [World::new(), World::without_wardens()] {
        let ended = case(world, text, 1, 2 * SECOND).await;
        assert_eq!(ended.how, How::Killed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_double_forked_daemon() {
    for world in [World::new(), World::without_wardens()] {
        let ended = case(world, "(setsid sleep MARK &) ; cat", 1, 4 * SECOND).await;
        assert_eq!((ended.how, ended.forced), (How::Terminated, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_cleared_its_environment() {
    let text = "(env -i setsid sh -c \"trap '' TERM; sleep MARK; :\" &) ; cat";
    let ended = case(World::new(), text, 1, 2 * SECOND).await;
    assert_eq!((ended.how, ended.forced), (How::Killed, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_tree_reacts_to_term() {
    let world = World::new();
    let child = world.start("trap 'exit 7' TERM; sleep MARK & wait", 1).await;
    for id in child.tree.members() {
        signal(id.pid, "STOP");
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", id.pid)).unwrap_or_default();
        assert!(until(LIMIT, || stat().contains(") T ")).await, "{}", stat());
    }
    let ended = child.tree.stop(Cause::Stopped, soon(4 * SECOND)).await;
    assert_eq!((ended.how, ended.forced), (How::Terminated, 0));
    assert_eq!(child.tree.exited().await, Exit::Code(7));
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_warden_does_not_help() {
    let world = World::new();
    let child = world.start("trap '' TERM; sleep MARK; :", 1).await;
    let warden = child.tree.warden().expect("a warden");
    signal(warden.pid, "STOP");
    let ended = child.tree.stop(Cause::Stopped, soon(2 * SECOND)).await;
    assert_eq!(ended.how, How::Killed);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_of_two_hundred() {
    let one = "sh -c \"trap '' TERM; sleep MARK; :\"";
    let text =
        format!("trap '' TERM; i=0; while [ $i -lt 100 ]; do {one} & i=$((i+1)); done; wait");
    for world in [World::new(), World::without_wardens()] {
        let ended = case(world, &text, 100, 3 * SECOND).await;
        assert_eq!(ended.how, How::Killed);
        assert!(ended.forced >= 201, "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_never_stops_forking() {
    let text = "trap '' TERM; while :; do (sleep 0.05; sleep MARK) & sleep 0.01; done";
    let ended = case(World::new(), text, 10, 2 * SECOND).await;
    assert_eq!(ended.how, How::Killed);
}

#[tokio::test(flavor = "multi_thread")]
async fn siblings_that_re_spawn_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("respawn.sh");
    let text = "#!/bin/sh\ntrap '' TERM\npeer=$2\n\
        while :; do kill -0 $peer 2>/dev/null || { sh \"$0\" \"$1\" $$ & peer=$!; }; sleep 0.01; done\n";
    std::fs::write(&file, text).expect("writes");
    for world in [World::new(), World::without_wardens()] {
        let text = format!(
            "sh {0} MARK 999999999 & sh {0} MARK 999999999 & exec sleep MARK",
            file.display()
        );
        let ended = case(world, &text, 1, 2 * SECOND).await;
        assert_eq!(ended.how, How::Killed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_never_reaps() {
    let text = "true & true & true & exec sleep MARK";
    let ended = case(World::new(), text, 1, 4 * SECOND).await;
    assert_eq!(ended.how, How::Terminated);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_died_first() {
    for world in [World::new(), World::without_wardens()] {
        let child = world.start("setsid sleep MARK & exec sleep 0.2", 1).await;
        assert_eq!(child.tree.exited().await, Exit::Code(0));
        // Nobody asks for it: what the program left is ended all the same.
        assert!(until(LIMIT, || world.marked().is_empty()).await);
        let ended = child.tree.stop(Cause::Unused, soon(SECOND)).await;
        assert!(!matches!(ended.how, How::Left(_)), "{ended:?}");
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_program_leaves_gets_kill_after_its_grace() {
    for world in [World::new(), World::without_wardens()] {
        let child = world.start("(trap '' TERM; sleep MARK; :) & exec sleep 0.2", 1).await;
        child.tree.exited().await;
        assert!(until(LIMIT, || world.marked().is_empty()).await);
        assert!(until(LIMIT, || world.supervisor.trees().is_empty()).await);
        world.finish().await;
    }
}

/// Writes until the pipe is full.
async fn stuck(mut stdin: Stdin) -> std::io::ErrorKind {
    loop {
        if let Err(error) = stdin.write_all(&[b'x'; 4096]).await {
            return error.kind();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_writer_is_blocked_on_a_full_pipe() {
    let world = World::new();
    let child = world.start("sleep MARK; :", 1).await;
    let (tree, writer) = (child.tree, world.scope.spawn("writer", stuck(child.stdin)));
    let ended = tree.stop(Cause::Stopped, soon(2 * SECOND)).await;
    assert_eq!(ended.how, How::Terminated);
    assert_eq!(writer.join().await, Some(std::io::ErrorKind::BrokenPipe));
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_stuck_writing_to_a_full_pipe() {
    let world = World::new();
    // Nobody reads its output; its error stream is flooded too.
    let child = world.start("yes MARK >&2 & yes MARK; :", 0).await;
    assert!(until(LIMIT, || child.stderr.seen() > 1000).await);
    let ended = child.tree.stop(Cause::Stopped, soon(2 * SECOND)).await;
    assert!(!matches!(ended.how, How::Left(_)), "{ended:?}");
    let tail = child.stderr.lines(usize::MAX);
    // The last line may have been cut by the end.
    let (last, whole) = tail.split_last().expect("lines");
    assert!(whole.len() < 500 && whole.iter().all(|line| *line == world.mark), "{whole:?}");
    assert!(world.mark.starts_with(last), "{last}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_stops_are_one_and_the_earlier_deadline_holds() {
    let world = World::new();
    let child = world.start("trap '' TERM; sleep MARK; :", 1).await;
    let began = Instant::now();
    let (first, second, third) = tokio::join!(
        child.tree.stop(Cause::Stopped, soon(30 * SECOND)),
        child.tree.stop(Cause::Restart, soon(60 * SECOND)),
        async {
            assert!(until(LIMIT, || child.tree.members().len() == 2).await);
            child.tree.clone().stop(Cause::Quit, soon(SECOND)).await
        },
    );
    assert!(began.elapsed() < 10 * SECOND, "{:?}", began.elapsed());
    assert_eq!((&first, &first), (&second, &third));
    assert_eq!((first.how, first.forced), (How::Killed, 2));
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_in_a_hurry_asks_sooner() {
    let world = World::new();
    let child = world.start("sleep MARK; :", 1).await;
    let input = Duration::from_millis(20);
    let ended = child.tree.stop_soon(Cause::Quit, soon(LIMIT), input).await;
    assert_eq!(ended.how, How::Terminated);
    assert!(ended.took < SECOND, "{ended:?}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_can_run_in_a_task_and_counts_a_program_that_has_just_ended() {
    let world = World::new();
    for _ in 0..10 {
        let mut child = world.start("exec cat", 0).await;
        echo(&mut child).await;
        // Its input is closed before the stop has looked at it.
        let (tree, stdin) = (child.tree, child.stdin);
        let work = async move {
            tokio::join!(tree.stop(Cause::Unused, soon(LIMIT)), async { drop(stdin) }).0
        };
        let ended = world.scope.spawn("stop", work).join().await.expect("an end");
        assert_eq!((ended.how, ended.processes), (How::Exited, 1));
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_is_over_kills_at_once() {
    let world = World::new();
    let child = world.start("trap '' TERM; sleep MARK; :", 1).await;
    let ended = child.tree.stop(Cause::Quit, soon(Duration::ZERO)).await;
    assert!(ended.took < SECOND, "{ended:?}");
    assert!(until(LIMIT, || world.marked().is_empty()).await);
    assert!(until(LIMIT, || world.supervisor.trees().is_empty()).await);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_gives_up_does_not_end_the_stop() {
    let world = World::new();
    let child = world.start("sleep MARK; :", 1).await;
    let stop = child.tree.stop(Cause::Stopped, soon(2 * SECOND));
    tokio::time::timeout(Duration::from_millis(1), stop).await.expect_err("not so fast");
    assert!(until(LIMIT, || world.marked().is_empty()).await);
    assert!(until(LIMIT, || world.supervisor.trees().is_empty()).await);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_last_handle_ends_the_tree() {
    for world in [World::new(), World::without_wardens()] {
        let child = world.start("(trap '' TERM; setsid sleep MARK; :) & sleep MARK; :", 2).await;
        let second = child.tree.clone();
        drop(child);
        assert!(second.members().len() >= 4);
        drop(second);
        assert!(until(LIMIT, || world.marked().is_empty()).await);
        assert!(until(LIMIT, || world.supervisor.trees().is_empty()).await);
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_the_scope_ends_the_trees() {
    for world in [World::new(), World::without_wardens()] {
        let child = world.start("trap '' TERM; sleep MARK; :", 1).await;
        assert_eq!(world.scope.close(soon(LIMIT)).await, Vec::<String>::new());
        world.assert_clean();
        assert_reaped(&child.tree).await;
        let late = world.supervisor.launch(script(":")).await;
        assert!(late.is_err());
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_all_stops_all_at_once() {
    let world = World::new();
    let mut children = Vec::new();
    for _ in 0..4 {
        children.push(world.start("trap '' TERM; sleep MARK; :", children.len() / 2 + 1).await);
        children.push(world.start("cat; : MARK", 0).await);
    }
    let began = Instant::now();
    let ended = world.supervisor.stop_all(Cause::Quit, soon(2 * SECOND)).await;
    assert!(began.elapsed() < 4 * SECOND, "{:?}", began.elapsed());
    assert_eq!(ended.len(), 8);
    assert_eq!(ended.iter().filter(|(_, ended)| ended.how == How::Killed).count(), 4);
    assert_eq!(ended.iter().filter(|(_, ended)| ended.how == How::Exited).count(), 4);
    let late = world.supervisor.launch(script(":")).await.expect_err("closed");
    assert!(late.to_string().contains("shutting down"), "{late}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_launch_escapes_a_stop_of_all() {
    for delay in [0, 1, 3, 10] {
        let world = World::new();
        let mark = mark();
        let launches: Vec<_> = (0..20)
            .map(|_| {
                let supervisor = world.supervisor.clone();
                let launch = script(&format!("trap '' TERM; sleep {mark}; :"));
                world.scope.spawn("launch", async move { supervisor.launch(launch).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(delay)).await;
        world.supervisor.stop_all(Cause::Quit, soon(2 * SECOND)).await;
        assert_eq!(world.supervisor.survivors(), [], "after {delay} ms");
        for launch in launches {
            // Started and stopped, or refused; never running now.
            drop(launch.join().await.expect("an answer"));
        }
        assert_eq!(marked(&mark), []);
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_now_needs_no_runtime() {
    // Without a warden nothing links a daemon with a cleared environment to us.
    let daemon = "(env -i setsid sh -c \"trap '' TERM; sleep MARK; :\" &)";
    for (world, daemon, sleepers) in [(World::new(), daemon, 2), (World::without_wardens(), ":", 1)]
    {
        let _child = world.start(&format!("{daemon}; trap '' TERM; sleep MARK; :"), sleepers).await;
        let supervisor = world.supervisor.clone();
        let left = std::thread::spawn(move || supervisor.kill_now(2 * SECOND)).join();
        assert_eq!(left.expect("no panic"), []);
        assert!(until(LIMIT, || world.supervisor.trees().is_empty()).await);
        world.finish().await;
    }
}

pub fn signal(pid: u32, name: &str) {
    let status =
        std::process::Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    assert!(status.expect("kill").success());
}
