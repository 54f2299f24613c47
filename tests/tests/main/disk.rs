//! A full disk, and databases of other versions.

use gantry_tests::{Instance, Stage, programs, stage::pretty, wait_until};
use serde_json::{Value, json};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const BOUND: Duration = Duration::from_secs(30);

/// A file system of a few megabytes, in memory. Taken away when dropped.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// `None` where nothing may be mounted (a test without the rights of root).
    fn mount(folder: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir_all(&folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs"]).arg(&folder);
        let is_mounted = mount.output().is_ok_and(|output| output.status.success());
        is_mounted.then_some(Self { folder })
    }

    /// Fills it to the last byte.
    fn fill(&self) -> PathBuf {
        let path = self.folder.join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        for size in [1 << 16, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.folder).output();
    }
}

async fn doctor(stage: &Stage, data: &Path) -> Value {
    let mut command = stage.program("gantry");
    command.args(["doctor", "--json", "--data-dir"]).arg(data).env("GANTRY_LOGIN_SHELL", "no");
    let output = tokio::time::timeout(BOUND, command.output()).await.unwrap().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn finding<'a>(report: &'a Value, check: &str) -> &'a Value {
    let found = report["findings"].as_array().unwrap().iter().find(|f| f["check"] == check);
    found.unwrap_or_else(|| panic!("no {check} in {}", pretty(report)))
}

/// What happens on a full disk is told, nothing hangs, and it goes on when there is room again.
#[tokio::test]
async fn a_full_disk_is_told_and_survived() {
    let stage = Stage::shared().await;
    let Some(disk) = SmallDisk::mount(stage.data_dir(), "6m") else {
        eprintln!("nothing may be mounted here: the test needs the rights of root");
        return stage.finish().await;
    };
    let data = stage.data_dir();
    let mut instance = Instance::start(&stage).await;
    let agent = programs::fake_agent(json!({}));
    let request = json!({ "project_id": "p", "prompt": "ECHO before",
        "agent_config": { "agent_server": agent } });
    let (answer, text) = instance.turn(request, BOUND).await;
    assert_eq!(text, "before");

    let filler = disk.fill();
    let report = doctor(&stage, &data).await;
    for check in ["disk", "data directory"] {
        let found = finding(&report, check);
        assert_eq!(found["verdict"], "problem", "{found}");
        assert!(found["advice"].is_string(), "{found}");
    }
    // It answers, one way or the other, and says what is the matter.
    let prompt = |text: &str| {
        let agent = programs::fake_agent(json!({}));
        gantry_tests::api::chat_request(json!({ "project_id": "p", "prompt": text,
            "session_id": answer["session_id"], "agent_config": { "agent_server": agent } }))
    };
    let full = instance.post("/computer/chat", &prompt("ECHO full")).await;
    if !full.status.is_success() {
        assert_eq!(full.status.as_u16(), 500, "{full:?}");
        let message = full.body["message"].as_str().unwrap().to_lowercase();
        assert!(message.contains("full") || message.contains("space"), "{message}");
    }
    let health = instance.send(instance.request(reqwest::Method::GET, "/health")).await;
    assert_eq!(health.body["status"], "ok");

    std::fs::remove_file(filler).unwrap();
    let (_, text) = wait_until("the disk has room again", BOUND, async || {
        let answer = instance.post("/computer/chat", &prompt("ECHO after")).await;
        let request = answer.body["data"]["request_id"].clone();
        let mut progress = match answer.status.is_success() {
            true => instance.progress(answer.body["data"]["session_id"].as_str()?).await,
            false => return None,
        };
        progress.until("the turn begins", BOUND, |e| e.data["data"]["request_id"] == request).await;
        progress.seen.clear();
        progress.end_of_turn(BOUND).await;
        Some(((), progress.text()))
    })
    .await;
    assert_eq!(text, "after");
    instance.quit().await;
    drop(disk);
    stage.finish().await;
}

/// A start on a disk that is full already says so in one line.
#[tokio::test]
async fn a_start_on_a_full_disk_fails_with_the_reason() {
    let stage = Stage::shared().await;
    let Some(disk) = SmallDisk::mount(stage.path("small"), "1m") else {
        eprintln!("nothing may be mounted here: the test needs the rights of root");
        return stage.finish().await;
    };
    disk.fill();
    let mut command = stage.program("gantry");
    command.args(["serve", "--data-dir"]).arg(disk.folder.join("data"));
    command.env("GANTRY_LOGIN_SHELL", "no");
    let output = tokio::time::timeout(BOUND, command.output()).await.unwrap().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(output.stdout.is_empty());
    let told: Vec<&str> = errors.lines().filter(|line| line.starts_with("gantry: ")).collect();
    assert_eq!(told.len(), 1, "{errors}");
    let line = told[0].to_lowercase();
    assert!(line.contains("full") || line.contains("space"), "{line}");
    drop(disk);
    stage.finish().await;
}

/// Case 80, as a person meets it: the doctor says what an old database is, a start brings it up
/// to date with everything in it, and one of a newer Gantry is left as it is.
#[tokio::test]
async fn an_old_database_is_named_and_brought_up_to_date() {
    let stage = Stage::shared().await;
    let data = stage.data_dir();
    std::fs::create_dir_all(&data).unwrap();
    let file = data.join("gantry.db");
    let first = include_str!("../../../src-tauri/crates/store/src/migrations/0001_base.sql");
    let old = rusqlite::Connection::open(&file).unwrap();
    old.execute_batch(first).unwrap();
    old.execute_batch(
        "INSERT INTO projects VALUES ('u/p', '/tmp', 'p', 1, 1);
         INSERT INTO sessions VALUES ('s1', NULL, 'u/p', 'built-in', 'An old one', '{}', 1, 2, NULL);
         INSERT INTO turns VALUES ('t1', 's1', 1, '[{\"type\":\"text\",\"text\":\"marmalade\"}]',
                                   NULL, 1, 2, 'end_turn', NULL);
         INSERT INTO servers VALUES ('kept', '{\"command\":\"x\",\"enabled\":false}', 1);
         PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(old);

    let report = doctor(&stage, &data).await;
    let found = finding(&report, "database");
    assert_eq!(found["verdict"], "warning", "{found}");
    assert!(found["found"].as_str().unwrap().contains("older"), "{found}");

    let mut instance = Instance::start(&stage).await;
    let list = instance.api("sessions_list", json!({})).await;
    assert_eq!(list["sessions"][0]["title"], "An old one", "{list}");
    let history = instance.api("session_history", json!({ "session": "s1" })).await;
    assert_eq!(history["turns"][0]["prompt"][0]["text"], "marmalade", "{history}");
    assert!(instance.server("kept").await.is_some());
    instance.quit().await;
    let report = doctor(&stage, &data).await;
    assert_eq!(finding(&report, "database")["verdict"], "ok");

    let newer = rusqlite::Connection::open(&file).unwrap();
    newer.pragma_update(None, "user_version", 999).unwrap();
    newer.close().unwrap();
    let before = std::fs::read(&file).unwrap();
    let report = doctor(&stage, &data).await;
    let found = finding(&report, "database");
    assert_eq!(found["verdict"], "problem", "{found}");
    assert!(found["advice"].as_str().unwrap().contains("newer"), "{found}");
    let mut command = stage.program("gantry");
    command.args(["serve", "--data-dir"]).arg(&data);
    let output = tokio::time::timeout(BOUND, command.output()).await.unwrap().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("newer"), "{errors}");
    assert_eq!(std::fs::read(&file).unwrap(), before, "it was touched");
    stage.finish().await;
}
