//! Numbers that really come again: in a PID namespace of its own the next one can be chosen.

use crate::{
    app::App,
    world::{LIMIT, World, mark, marked, soon, until},
};
use gantry_supervisor::{Cause, Exit, ProcessId, sweep};
use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};
use tokio::io::AsyncReadExt;

const INSIDE: &str = "GANTRY_TEST_NAMESPACE";
/// Threads take numbers, too: the wanted one may be gone when it is our turn.
const TRIES: usize = 200;

/// Runs the tests below in a namespace. Where the system makes none for us, the crafted
/// records of other tests (`census.rs`, and `ownership.rs` of the end-to-end tests) must do.
#[test]
fn a_recycled_number_is_never_signalled() {
    let ways: [&[&str]; 2] = [&[], &["--user", "--map-root-user"]];
    let way = ways.into_iter().find(|way| {
        let mut trial = unshare(way);
        trial.args(["sh", "-c", "echo 1 > /proc/sys/kernel/ns_last_pid"]).stderr(Stdio::null());
        trial.status().is_ok_and(|status| status.success())
    });
    let Some(way) = way else {
        println!("not run: this system lets us make no PID namespace");
        return;
    };
    let ourselves = std::env::current_exe().expect("ourselves");
    // The first process of a namespace has to reap the orphans: a shell does.
    let mut command = unshare(way);
    command.args(["sh", "-c", "\"$@\"; exit $?", "sh"]).arg(ourselves);
    command.args(["--ignored", "--nocapture", "--test-threads=1", "recycled::inside"]);
    let output = command.env(INSIDE, "1").output().expect("unshare");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("3 passed"), "{text}\n{errors}");
}

fn unshare(way: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(way).args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.stdin(Stdio::null());
    command
}

/// A process of nobody that has this number, and leads a session and a group of it.
struct Foreign(Child);

impl Foreign {
    fn with(pid: u32) -> Self {
        for _ in 0..TRIES {
            std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string())
                .expect("the next number can be chosen");
            let mut command = Command::new("setsid");
            command.args(["sleep", "600"]).stdin(Stdio::null()).env_remove("GANTRY_TREE");
            let mut child = command.spawn().expect("setsid");
            if child.id() == pid {
                return Self(child);
            }
            child.kill().and_then(|()| child.wait()).expect("ends");
        }
        panic!("nobody gets the number {pid} again");
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().expect("ours").is_none()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// A tree of which one member, the leader of a session, says its number first.
const TEXT: &str = "setsid sh -c 'echo $$; exec sleep MARK' & \
                    (setsid sh -c \"trap '' TERM; sleep MARK; :\" &); sleep MARK; :";

/// Ends that member, and puts a foreign process into its place.
async fn replace(child: &mut gantry_supervisor::Child) -> Foreign {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        line.push(child.stdout.read_u8().await.expect("reads"));
    }
    let pid: u32 = String::from_utf8_lossy(&line).trim().parse().expect("a number");
    let member = ProcessId::of(pid).expect("runs");
    // It has been seen: what was seen is what a stop ends.
    assert!(child.tree.members().contains(&member));
    crate::stop::signal(pid, "KILL");
    assert!(until(LIMIT, || ProcessId::of(pid).is_none()).await, "{pid} is not reaped");
    let foreign = Foreign::with(pid);
    assert!(ProcessId::of(pid).is_some_and(|now| now != member));
    foreign
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs in a namespace of another test"]
async fn inside_a_stop_spares_who_has_a_members_number_now() {
    if !is_inside() {
        return;
    }
    let world = World::new();
    let mut child = world.start(TEXT, 3).await;
    let mut foreign = replace(&mut child).await;
    let members = child.tree.members();
    assert!(!members.iter().any(|member| member.pid == foreign.0.id()), "{members:?}");
    child.tree.stop(Cause::Stopped, soon(Duration::from_secs(3))).await;
    assert!(foreign.lives(), "a foreign process was ended by a stop");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs in a namespace of another test"]
async fn inside_the_end_of_a_warden_spares_who_has_a_members_number_now() {
    if !is_inside() {
        return;
    }
    let world = World::new();
    let mut child = world.start(TEXT, 3).await;
    let mut foreign = replace(&mut child).await;
    let warden = child.tree.warden().expect("a warden");
    crate::stop::signal(warden.pid, "KILL");
    assert_eq!(child.tree.exited().await, Exit::Unknown);
    // Whoever comes next gets the warden's number.
    assert!(until(LIMIT, || ProcessId::of(warden.pid).is_none()).await);
    let mut successor = Foreign::with(warden.pid);
    assert!(until(LIMIT, || world.supervisor.trees().is_empty()).await);
    child.tree.stop(Cause::Stopped, soon(Duration::from_secs(1))).await;
    world.supervisor.kill_now(Duration::from_millis(100));
    assert!(foreign.lives() && successor.lives(), "a foreign process was ended");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs in a namespace of another test"]
async fn inside_a_sweep_knows_a_dead_owner_whose_number_another_has() {
    if !is_inside() {
        return;
    }
    let mark = mark();
    let app = App::start(&crate::crash::stubborn(&mark), false);
    let owner = app.id;
    assert!(until(LIMIT, || marked(&mark).len() >= crate::crash::STUBBORN).await);
    app.kill();
    assert!(until(LIMIT, || ProcessId::of(owner.pid).is_none()).await);
    let mut foreign = Foreign::with(owner.pid);
    assert!(!marked(&mark).is_empty());
    let report = sweep(soon(Duration::from_secs(2))).await;
    assert_eq!((marked(&mark), report.left.len()), (Vec::new(), 0));
    assert!(!report.ended.is_empty() && foreign.lives(), "{report:?}");
}
