//! Whose a process is: pid, start time and cookie together; never one of them alone.

use gantry_tests::{Instance, Stage, census, programs, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::Duration,
};

const BOUND: Duration = Duration::from_secs(20);

/// A process that is none of Gantry's but bears this cookie. Killed when dropped.
struct Bearer(Child);

impl Bearer {
    fn start(cookie: &str) -> Self {
        Self::run(Command::new("sleep").arg("600").env("GANTRY_TREE", cookie))
    }

    fn run(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().unwrap_or_else(|why| panic!("{why}")))
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap_or_else(|why| panic!("{why}")).is_none()
    }
}

impl Drop for Bearer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A record of a dead instance whose number another process has now.
#[tokio::test]
async fn a_recycled_number_is_somebody_else() {
    let stage = Stage::alone().await;
    let me = census::row(std::process::id()).unwrap();
    let other = stage.bystanders()[0];
    let other = census::row(other).unwrap();
    // The number lives, but it is not the one who wrote this.
    let info = json!({ "pid": other.pid, "started": other.start - 1,
                       "url": "http://127.0.0.1:1", "version": "0" });
    std::fs::create_dir_all(stage.data_dir().join("run")).unwrap();
    std::fs::write(stage.data_dir().join("run/instance.json"), info.to_string()).unwrap();
    let mut orphan = Bearer::start(&format!("{}.{}.test-1-1", other.pid, other.start - 1));
    let mut owned = Bearer::start(&format!("{}.{}.test-1-1", me.pid, me.start));
    let odd = ["", "1", "1.2", "x.y.z", "1.2.a b", "+1.2.a", "99999999999.1.a"];
    let mut strangers: Vec<Bearer> = odd.iter().map(|cookie| Bearer::start(cookie)).collect();
    // What counts pids otherwise names an owner that cannot be looked up here.
    let cookie = format!("GANTRY_TREE={}.{}.test-1-2", other.pid, other.start - 1);
    let namespace = Bearer::run(
        Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", "env", &cookie, "sleep", "601"])
            .env_remove("GANTRY_TREE"),
    );
    let elsewhere = wait_until("the sleeper in a namespace runs", BOUND, async || {
        let inside = census::table().into_iter().find(|row| row.parent == namespace.0.id());
        inside.filter(|row| row.command == "sleep 601" && row.cookie.is_some())
    })
    .await;

    let mut instance = Instance::start(&stage).await;
    assert!(!orphan.lives(), "an orphan of a dead owner was left");
    assert!(owned.lives(), "a living owner's process was ended");
    for (stranger, cookie) in strangers.iter_mut().zip(odd) {
        assert!(stranger.lives(), "one that bears {cookie:?} was ended");
    }
    assert_eq!(census::row(elsewhere.pid), Some(elsewhere), "one of another namespace was ended");
    let snapshot = instance.api("snapshot", json!({})).await;
    assert_eq!(snapshot["last_exit"]["crashed"], true, "{snapshot}");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_foreign_process_on_our_port_is_left_alone_and_told_nothing() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    let port: u16 = instance.url.rsplit(':').next().unwrap().parse().unwrap();
    instance.signal(Signal::KILL);
    instance.ended(BOUND).await;
    let foreign =
        wait_until("the port is free", BOUND, async || TcpListener::bind(("127.0.0.1", port)).ok())
            .await;
    foreign.set_nonblocking(true).unwrap();

    let mut status = stage.program("gantry");
    let status = status.args(["status", "--data-dir"]).arg(stage.data_dir()).output().await;
    assert_eq!(status.unwrap().status.code(), Some(3));
    let mut serve = stage.program("gantry");
    serve.args(["serve", "--port", &port.to_string(), "--data-dir"]).arg(stage.data_dir());
    let refused = serve.output().await.unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("choose another --port"), "{text}");
    // Nobody has even connected to it.
    let heard = foreign.accept();
    assert!(heard.is_err_and(|why| why.kind() == std::io::ErrorKind::WouldBlock));
    stage.finish().await;
}

#[tokio::test]
async fn a_second_instance_on_the_same_directory_touches_nothing() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let mut config = programs::fake_mcp(&["--spawn", "setsid,daemon"]);
    config["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": "own", "config": config })).await;
    instance.server_in("own", "ready", BOUND).await;
    wait_until("its children run", BOUND, async || {
        (stage.running("stubborn").len() == 2).then_some(())
    })
    .await;
    let before = stage.members();
    let mut second = stage.program("gantry");
    let second = second.args(["serve", "--data-dir"]).arg(stage.data_dir()).output().await;
    let second = second.unwrap();
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(3), "{text}");
    assert!(text.contains(&format!("pid {}", instance.pid)), "{text}");
    assert_eq!(stage.members(), before);
    assert_eq!(instance.server("own").await.unwrap()["state"], "ready");
    instance.quit().await;
    stage.finish().await;
}

/// A Gantry that somebody started from an agent's shell: it lives on when the outer one and
/// its wardens are killed, and so do its own servers, whoever starts next.
#[tokio::test]
async fn a_gantry_inside_an_orphaned_tree_is_spared_with_its_own() {
    let stage = Stage::alone().await;
    let inner_stage = stage.beside();
    let mut outer = Instance::start(&stage).await;
    let (ready, log) = (inner_stage.path("ready.json"), inner_stage.path("inner.log"));
    let mark = format!("6{}.5", std::process::id());
    let script = format!(
        "(setsid {gantry} serve --data-dir {data} >{ready} 2>{log} </dev/null &); \
         sleep {mark} & exec {server}",
        gantry = programs::path("gantry").display(),
        data = inner_stage.data_dir().display(),
        ready = ready.display(),
        log = log.display(),
        server = programs::path("fake_mcp").display(),
    );
    let config = json!({ "command": "sh", "args": ["-c", script], "persistent": true });
    outer.api("servers_save", json!({ "name": "outer", "config": config })).await;
    outer.server_in("outer", "ready", BOUND).await;
    let line: Value = wait_until("the inner one is ready", BOUND, async || {
        serde_json::from_str(&std::fs::read_to_string(&ready).ok()?).ok()
    })
    .await;
    let inner_pid = u32::try_from(line["pid"].as_u64().unwrap()).unwrap();
    inner_stage.owns(inner_pid);
    let token = std::fs::read_to_string(line["token_file"].as_str().unwrap()).unwrap();
    let inner = gantry_tests::Api::new(line["url"].as_str().unwrap(), &token);
    let mut config = programs::fake_mcp(&[]);
    config["persistent"] = json!(true);
    inner.api("servers_save", json!({ "name": "inner", "config": config })).await;
    let pid = inner.server_in("inner", "ready", BOUND).await["pid"].clone();
    // What it is to the outer one: a part of its tree.
    let owner = format!("{}.", outer.pid);
    let inner_row = census::row(inner_pid).unwrap();
    assert!(inner_row.cookie.as_ref().is_some_and(|cookie| cookie.starts_with(&owner)));

    let sleeper = format!("sleep {mark}");
    let orphan = census::table().into_iter().find(|row| row.command == sleeper).unwrap();
    let wardens: Vec<u32> = stage
        .running("gantry-warden")
        .into_iter()
        .filter(|row| row.cookie.as_ref().is_some_and(|cookie| cookie.starts_with(&owner)))
        .map(|row| row.pid)
        .collect();
    assert_eq!(wardens.len(), 1);
    census::signal(wardens[0], Signal::STOP);
    outer.signal(Signal::KILL);
    census::signal(wardens[0], Signal::KILL);
    outer.ended(BOUND).await;

    let mut next = Instance::start(&stage).await;
    // The next one has started the server anew, and with it another sleeper.
    let orphan_now = census::row(orphan.pid).filter(|row| row.start == orphan.start);
    assert_eq!(orphan_now, None, "the orphan beside it was left");
    assert_eq!(census::row(inner_pid).map(|row| row.start), Some(inner_row.start));
    let server = inner.server("inner").await.unwrap();
    assert_eq!((server["state"].clone(), server["pid"].clone()), (json!("ready"), pid));

    inner.api("quit", json!({})).await;
    wait_until("the inner one has ended", BOUND, async || {
        census::row(inner_pid).is_none().then_some(())
    })
    .await;
    next.quit().await;
    inner_stage.finish().await;
    stage.finish().await;
}
