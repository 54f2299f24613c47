//! Processes that cannot be looked at: held by the system, not to be dumped, in a sandbox.

use gantry_tests::{Held, Instance, Stage, census, programs, wait_until};
use rustix::process::Signal;
use serde_json::json;
use std::{
    env,
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};

const BOUND: Duration = Duration::from_secs(20);
/// What one process that keeps a look waiting may cost a start.
const WAITED: Duration = Duration::from_secs(3);
/// Nobody: a user without rights, whom every system has.
const NOBODY: u32 = 65534;

/// Nothing but the process itself is looked at.
fn lives(pid: u32, start: u64) -> bool {
    census::row(pid).is_some_and(|row| row.start == start)
}

/// Whether a process may be held: whoever looks at all processes of the machine meanwhile, be it
/// `ps` or a test beside, may have to wait for it. So only where everything is asked for.
fn may_hold() -> bool {
    let may = env::var_os("GANTRY_TEST_FULL").is_some();
    if !may {
        eprintln!("left out: only with GANTRY_TEST_FULL=1, and best alone");
    }
    may
}

/// A foreign process that a file server which does not answer keeps in the middle of an exec.
#[tokio::test]
async fn a_process_that_the_system_holds_holds_up_neither_start_nor_quit() {
    if !may_hold() {
        return;
    }
    let stage = Stage::alone().await;
    let Some(held) = Held::start(&stage) else { return stage.finish().await };
    let mut instance = Instance::start(&stage).await;
    assert!(instance.started_in < WAITED, "the start took {:?}", instance.started_in);
    let mut config = programs::fake_mcp(&["--ignore-eof", "--ignore-term"]);
    config["persistent"] = json!(true);
    let input = json!({ "name": "own", "config": config });
    let saved = tokio::time::timeout(BOUND, instance.api("servers_save", input)).await;
    assert!(saved.is_ok(), "the server is not saved");
    instance.server_in("own", "ready", BOUND).await;
    let began = Instant::now();
    let processes = tokio::time::timeout(BOUND, instance.api("processes", json!({}))).await;
    let processes = processes.unwrap_or_else(|_| panic!("the process view does not answer"));
    assert!(began.elapsed() < WAITED, "the process view took {:?}", began.elapsed());
    assert_eq!(processes["strays"], 0);
    let took = instance.quit().await;
    assert!(took < Duration::from_millis(4700), "{took:?}");
    assert!(held.is_held());
    drop(held);
    stage.finish().await;
}

/// The same one, younger than the wardens: they look for strangers when Gantry is killed.
#[tokio::test]
async fn a_process_that_the_system_holds_holds_up_no_warden() {
    if !may_hold() {
        return;
    }
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    let mut config = programs::fake_mcp(&["--ignore-eof", "--ignore-term", "--spawn", "daemon"]);
    config["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": "own", "config": config })).await;
    instance.server_in("own", "ready", BOUND).await;
    let members = wait_until("its daemon runs", BOUND, async || {
        let members = stage.members();
        (members.len() >= 4).then_some(members)
    })
    .await;
    let Some(held) = Held::start(&stage) else {
        instance.quit().await;
        return stage.finish().await;
    };
    instance.signal(Signal::KILL);
    instance.ended(BOUND).await;
    // The grace of one second, and the kill.
    wait_until("the wardens have ended everything", Duration::from_secs(3), async || {
        members.iter().all(|row| !lives(row.pid, row.start)).then_some(())
    })
    .await;
    assert!(held.is_held());
    drop(held);
    stage.finish().await;
}

/// As `ssh-agent` does it: the system gives the files of such a process to root.
#[tokio::test]
async fn a_daemon_that_may_not_be_dumped_is_found_by_the_next_start() {
    let stage = Stage::alone().await;
    let is_root = rustix::process::getuid().is_root();
    if is_root {
        // Root may look at everything. So somebody else is Gantry.
        let mut command = stage.program("gantry");
        if !command.arg("--version").uid(NOBODY).status().await.is_ok_and(|how| how.success()) {
            eprintln!("left out: the programs are in a folder of root's alone");
            return stage.finish().await;
        }
        for folder in ["", "home", "run", "project"] {
            let all = std::fs::Permissions::from_mode(0o777);
            std::fs::set_permissions(stage.path(folder), all).unwrap();
        }
    }
    let as_somebody = |command: &mut tokio::process::Command| {
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
    };
    let mut instance = Instance::start_with(&stage, as_somebody).await;
    let mark = format!("undumped-{}", std::process::id());
    let script = format!(
        "(setsid /usr/bin/python3 -c 'import ctypes, time; ctypes.CDLL(None).prctl(4, 0); \
         print(1, flush=True); time.sleep(600)' {mark} >{} &); exec {}",
        stage.text("project/undumped"),
        programs::path("fake_mcp").display()
    );
    let config = json!({ "command": "sh", "args": ["-c", script], "persistent": true });
    instance.api("servers_save", json!({ "name": "own", "config": config })).await;
    let program = instance.server_in("own", "ready", BOUND).await["pid"].as_u64().unwrap();
    wait_until("the daemon has hidden", BOUND, async || {
        let said = std::fs::read_to_string(stage.path("project/undumped")).ok()?;
        said.starts_with('1').then_some(())
    })
    .await;
    let is_daemon = |row: &census::Row| {
        row.command.starts_with("/usr/bin/python3 -c import ctypes") && row.command.ends_with(&mark)
    };
    let daemon = census::table().into_iter().find(is_daemon).unwrap();
    let warden = census::row(u32::try_from(program).unwrap()).unwrap().parent;
    census::signal(warden, Signal::STOP);
    instance.signal(Signal::KILL);
    census::signal(warden, Signal::KILL);
    instance.ended(BOUND).await;
    assert!(lives(daemon.pid, daemon.start), "the fake does not do what it is for");

    let mut next = Instance::start_with(&stage, as_somebody).await;
    assert!(!lives(daemon.pid, daemon.start), "the daemon was left");
    next.quit().await;
    stage.finish().await;
}

/// An agent's sandbox has a process table of its own, in which Gantry is not to be seen. One that
/// is started in there takes nobody for an orphan.
#[tokio::test]
async fn a_gantry_in_a_sandbox_of_an_agent_spares_what_runs_beside_it() {
    let stage = Stage::alone().await;
    let mut outer = Instance::start(&stage).await;
    let (ready, mark) = (stage.path("ready.json"), format!("8{}.5", std::process::id()));
    let script = format!(
        "unshare --pid --fork --mount-proc sh -c 'sleep {mark} & sleep {mark} & \
         exec {gantry} serve --data-dir {data} >{ready} 2>{log} </dev/null' & exec {server}",
        gantry = programs::path("gantry").display(),
        data = stage.text("inner"),
        ready = ready.display(),
        log = stage.text("inner.log"),
        server = programs::path("fake_mcp").display(),
    );
    let config = json!({ "command": "sh", "args": ["-c", script], "persistent": true });
    outer.api("servers_save", json!({ "name": "outer", "config": config })).await;
    outer.server_in("outer", "ready", BOUND).await;
    let sleepers = || {
        let mut rows = census::table();
        rows.retain(|row| row.command == format!("sleep {mark}"));
        rows
    };
    wait_until("the inner one is ready", BOUND, async || {
        std::fs::read_to_string(&ready).is_ok_and(|text| text.contains("\"ready\"")).then_some(())
    })
    .await;
    assert_eq!(sleepers().len(), 2, "{:?}", sleepers());
    outer.quit().await;
    assert!(sleepers().is_empty());
    stage.finish().await;
}
