//! The small commands as a script sees them: `chat`, `import`, `doctor`, `completions`.

use gantry_tests::{Instance, Stage, census, programs, stage::pretty, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::process::Child;

/// What a command said.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn start(stage: &Stage, args: &[&str]) -> Child {
    let mut command = stage.program("gantry");
    command.args(args).env("GANTRY_DATA_DIR", stage.data_dir()).env("GANTRY_LOGIN_SHELL", "no");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    stage.owns(child.id().unwrap());
    child
}

async fn end(child: Child, bound: Duration) -> Said {
    let output = tokio::time::timeout(bound, child.wait_with_output()).await;
    let output = output.expect("the command ends in time").unwrap();
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

async fn gantry(stage: &Stage, args: &[&str]) -> Said {
    end(start(stage, args), Duration::from_secs(40)).await
}

async fn save_fake_agent(instance: &Instance, env: Value) {
    let config = json!({ "name": "Fake", "command": programs::path("fake_agent"), "env": env });
    instance.api("agents_save", json!({ "id": "fake", "config": config })).await;
}

async fn sessions(instance: &Instance) -> Vec<Value> {
    instance.api("sessions_list", json!({})).await["sessions"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_chat_goes_through_the_running_instance_and_can_be_continued() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save_fake_agent(&instance, json!({})).await;

    let said = gantry(&stage, &["chat", "--agent", "fake", "--allow", "all", "ECHO hello"]).await;
    assert_eq!((said.code, said.out.as_str()), (Some(0), "hello\n"), "{}", said.err);
    let all = sessions(&instance).await;
    assert_eq!(all.len(), 1, "{all:?}");
    let session = all[0]["id"].as_str().unwrap().to_owned();
    assert!(said.err.contains(&format!("session {session}")), "{}", said.err);
    assert_eq!(all[0]["project"], stage.path("project").canonicalize().unwrap().to_str().unwrap());

    let said = gantry(&stage, &["chat", "--session", &session, "--json", "ECHO again"]).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    let events: Vec<Value> =
        said.out.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let names: Vec<_> = events.iter().map(|event| event["subType"].as_str().unwrap()).collect();
    assert_eq!((names[0], *names.last().unwrap()), ("prompt_start", "end_turn"), "{names:?}");
    assert!(said.out.contains("again") && !said.out.contains("hello"), "{}", said.out);
    assert_eq!(sessions(&instance).await.len(), 1);

    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_chat_without_an_instance_has_a_core_of_its_own_and_leaves_nothing() {
    let stage = Stage::shared().await;
    for _ in 0..2 {
        let said = gantry(&stage, &["chat", "hello"]).await;
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.out.trim().len() > 10, "{:?}", said.out);
        stage.empty_but(&[], Duration::from_secs(1)).await;
        assert!(!stage.data_dir().join("run/instance.json").exists());
        assert!(!stage.data_dir().join("run/token").exists());
    }
    // What was said is kept.
    let mut instance = Instance::start(&stage).await;
    assert_eq!(sessions(&instance).await.len(), 2);
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn without_a_terminal_nobody_is_asked_and_nothing_is_allowed() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save_fake_agent(&instance, json!({})).await;
    let said = gantry(&stage, &["chat", "--agent", "fake", "PERMISSION"]).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("refused: "), "{}", said.err);
    assert!(said.out.contains("permission: no"), "{:?}", said.out);
    let said = gantry(&stage, &["chat", "--agent", "fake", "--allow", "all", "PERMISSION"]).await;
    assert!(
        said.out.contains("permission: yes") && !said.err.contains("refused"),
        "{:?}",
        said.out
    );
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn one_interrupt_cancels_the_turn_and_two_stop_the_session() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save_fake_agent(&instance, json!({})).await;
    let state = async |wanted: &str, count: usize| {
        wait_until(&format!("a session is {wanted}"), Duration::from_secs(15), async || {
            let all = sessions(&instance).await;
            (all.len() == count && all.iter().any(|s| s["state"] == wanted)).then_some(())
        })
        .await;
    };

    let child = start(&stage, &["chat", "--agent", "fake", "HANG"]);
    state("working", 1).await;
    census::signal(child.id().unwrap(), Signal::INT);
    let said = end(child, Duration::from_secs(10)).await;
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("cancelled"), "{}", said.err);
    state("idle", 1).await;

    let child = start(&stage, &["chat", "--agent", "fake", "IGNORE_CANCEL 600 100"]);
    state("working", 2).await;
    let pid = child.id().unwrap();
    census::signal(pid, Signal::INT);
    state("cancelling", 2).await;
    census::signal(pid, Signal::INT);
    let said = end(child, Duration::from_secs(15)).await;
    assert_eq!(said.code, Some(1), "{}", said.err);
    state("stopped", 2).await;

    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn an_interrupt_of_a_core_of_its_own_leaves_nothing() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save_fake_agent(&instance, json!({ "FAKE_AGENT_STUBBORN": "1" })).await;
    instance.quit().await;
    for signal in [Signal::INT, Signal::TERM] {
        let child = start(&stage, &["chat", "--agent", "fake", "HANG"]);
        let pid = child.id().unwrap();
        wait_until("the agent runs", Duration::from_secs(15), async || {
            (!stage.running("fake_agent").is_empty()).then_some(())
        })
        .await;
        let began = Instant::now();
        census::signal(pid, signal);
        let said = end(child, Duration::from_secs(15)).await;
        assert_eq!(said.code, Some(1), "{}", said.err);
        assert!(began.elapsed() < Duration::from_secs(12));
        stage.empty_but(&[], Duration::from_secs(1)).await;
    }
    stage.finish().await;
}

#[tokio::test]
async fn a_chat_that_fails_says_why_in_one_line_and_leaves_no_session() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save_fake_agent(&instance, json!({ "FAKE_AGENT_DIE": "KEY is missing" })).await;
    for (args, code, word) in [
        (&["chat", "--agent", "nobody", "x"][..], 3, "nobody"),
        (&["chat", "--session", "none-of-ours", "x"], 3, "none-of-ours"),
        (&["chat", "  "], 2, "empty"),
        (&["chat", "--project", "/no/such/folder", "x"], 2, "/no/such/folder"),
        (&["chat", "--allow", "everything", "x"], 2, "everything"),
        (&["chat", "--agent", "fake", "x"], 1, "KEY is missing"),
    ] {
        let said = gantry(&stage, args).await;
        assert_eq!(said.code, Some(code), "{args:?}: {}", said.err);
        let told: Vec<_> = said.err.lines().filter(|line| line.starts_with("gantry: ")).collect();
        assert_eq!(told.len(), 1, "{args:?}: {}", said.err);
        assert!(told[0].contains(word) && said.out.is_empty(), "{args:?}: {}", said.err);
    }
    assert!(sessions(&instance).await.is_empty(), "{:?}", sessions(&instance).await);
    instance.quit().await;
    stage.finish().await;
}

/// Case 60, and 57 for the applications that are read so far.
#[tokio::test]
async fn servers_of_other_applications_are_shown_and_saved_disabled() {
    let stage = Stage::shared().await;
    let planted = "planted-4711";
    let file = stage.path("pasted.json");
    std::fs::write(
        &file,
        format!(
            "\u{feff}{{ // servers\n  \"servers\": {{\n    \"fetch\": {{ \"command\": \"uvx\", \
             \"args\": [\"mcp-server-fetch\",], \"env\": {{ \"API_KEY\": \"{planted}\" }} }},\n    \
             \"win\": {{ \"command\": \"C:\\Tools\\new.exe\" }},\n    \"broken\": {{ \"note\": 1 }},\n  }}\n}}\n"
        ),
    )
    .unwrap();
    let cursor = stage.path("home/.cursor/mcp.json");
    std::fs::create_dir_all(cursor.parent().unwrap()).unwrap();
    std::fs::write(&cursor, r#"{"mcpServers":{"docs":{"url":"https://docs.example/mcp"}}}"#)
        .unwrap();

    // Without an instance, and nothing is saved.
    let path = file.to_str().unwrap();
    let said = gantry(&stage, &["import", path]).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    for word in ["fetch", "uvx mcp-server-fetch", "C:\\\\Tools\\\\new.exe", "refused", "API_KEY"] {
        assert!(said.out.contains(word), "{word} is missing in {}", said.out);
    }
    assert!(!said.out.contains(planted), "{}", said.out);

    let mut instance = Instance::start(&stage).await;
    let names = async || {
        let list = instance.api("servers_list", json!({})).await;
        let names = list["servers"].as_array().unwrap().iter();
        names
            .map(|s| format!("{}:{}", s["name"].as_str().unwrap(), s["enabled"]))
            .collect::<Vec<_>>()
    };
    assert!(names().await.is_empty());
    let said = gantry(&stage, &["import", "--from", path, "--apply", "--json"]).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(answer["found"].as_array().unwrap().len(), 3, "{}", pretty(&answer));
    assert!(!said.out.contains(planted), "{}", said.out);
    assert_eq!(names().await, ["fetch:false", "win:false"]);

    // From everything that is installed: what is there already is left alone, a file without
    // servers is fine, and one that is broken hides nothing.
    std::fs::write(stage.path("home/.claude.json"), r#"{"numStartups":3}"#).unwrap();
    let none = gantry(&stage, &["import", "--from", "claude-code"]).await;
    assert_eq!(none.code, Some(0), "{}", none.err);
    std::fs::write(stage.path("home/.claude.json"), "{").unwrap();
    let said = gantry(&stage, &["import", "--apply"]).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains(".claude.json") && said.err.contains("left out"), "{}", said.err);
    assert_eq!(names().await, ["fetch:false", "win:false", "docs:false"]);
    let said = gantry(&stage, &["import", "--from", "cursor", "--apply", "--only", "docs"]).await;
    assert!(said.out.contains("there already as `docs`"), "{}", said.out);
    assert!(said.out.contains("left out docs"), "{}", said.out);

    for (args, code, word) in [
        (&["import", "--from", "claude-desktop"][..], 3, "claude_desktop_config.json"),
        (&["import", "/no/such.json"], 3, "not there"),
        (&["import", path, "--apply", "--only", "nobody"], 3, "nobody"),
    ] {
        let said = gantry(&stage, args).await;
        assert_eq!(said.code, Some(code), "{args:?}: {}", said.err);
        assert!(said.err.contains(word), "{args:?}: {}", said.err);
    }
    std::fs::write(&file, "{\n  \"mcpServers\": {\n    \"a\": { \"command\" \"x\" }\n").unwrap();
    let said = gantry(&stage, &["import", path]).await;
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("line 3, column 22"), "{}", said.err);

    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn the_doctor_names_what_is_wrong_and_what_to_do() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save_fake_agent(&instance, json!({ "FAKE_AGENT_DIE": "KEY is missing" })).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();

    let said = gantry(&stage, &["doctor", "--json", "--port", &port]).await;
    assert_eq!(said.code, Some(1), "{}", said.err);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(report["ok"], false);
    let finding = |check: &str| {
        let all = report["findings"].as_array().unwrap();
        all.iter().find(|f| f["check"] == check).unwrap_or_else(|| panic!("{}", pretty(&report)))
    };
    for (check, verdict) in [
        ("agent built-in", "ok"),
        ("agent fake", "problem"),
        ("data directory", "ok"),
        ("database", "ok"),
        ("disk", "ok"),
        ("gantry-warden", "ok"),
        ("instance", "ok"),
        (&format!("port {port}"), "problem"),
    ] {
        let found = finding(check);
        assert_eq!(found["verdict"], verdict, "{found}");
        assert_eq!(found["advice"].is_string(), verdict != "ok", "{found}");
    }
    assert!(finding("agent fake")["found"].as_str().unwrap().contains("KEY is missing"));
    assert!(finding("instance")["found"].as_str().unwrap().contains(&instance.pid.to_string()));
    for check in ["node", "npx", "uv", "uvx", "PATH", "leftovers"] {
        finding(check);
    }
    // The running one is none the worse for it.
    instance.api("agents_remove", json!({ "id": "fake" })).await;
    let own = instance.url.rsplit(':').next().unwrap().to_owned();
    let said = gantry(&stage, &["doctor", "--port", &own]).await;
    assert!(said.out.contains("the running Gantry listens there"), "{}", said.out);
    instance.quit().await;

    let said = gantry(&stage, &["doctor", "--data-dir", "/proc/none/gantry"]).await;
    assert_eq!(said.code, Some(1), "{}", said.out);
    assert!(said.out.contains("PROBLEM  data directory"), "{}", said.out);
    stage.finish().await;
}

#[tokio::test]
async fn the_doctor_finds_missing_programs_and_another_path_in_the_login_shell() {
    let stage = Stage::shared().await;
    let empty = stage.path("empty");
    let other = stage.path("home/bin");
    for folder in [&empty, &other] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let profile = format!("export PATH={}:{}\n", other.display(), empty.display());
    std::fs::write(stage.path("home/.bash_profile"), profile).unwrap();
    let mut command = stage.program("gantry");
    command.args(["doctor", "--json"]).env("GANTRY_DATA_DIR", stage.data_dir());
    command.env("PATH", &empty).env("SHELL", "/bin/bash").env("GANTRY_LOGIN_SHELL", "yes");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    stage.owns(child.id().unwrap());
    let said = end(child, Duration::from_secs(40)).await;
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    for (check, word) in [("node", "not found"), ("uv", "not found"), ("PATH", "home/bin")] {
        let all = report["findings"].as_array().unwrap();
        let found = all.iter().find(|f| f["check"] == check).unwrap();
        assert_eq!(found["verdict"], "warning", "{found}");
        assert!(found["found"].as_str().unwrap().contains(word), "{found}");
        assert!(found["advice"].is_string());
    }
    // Nothing was made for looking.
    assert!(!stage.data_dir().exists());
    stage.finish().await;
}

#[tokio::test]
async fn every_small_command_speaks_json() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    save_fake_agent(&instance, json!({})).await;
    gantry(&stage, &["chat", "--agent", "fake", "ECHO hello"]).await;
    let read = |said: &Said| -> Value {
        assert_eq!(
            (said.code, said.out.lines().count()),
            (Some(0), 1),
            "{} {}",
            said.out,
            said.err
        );
        serde_json::from_str(&said.out).unwrap()
    };
    let status = read(&gantry(&stage, &["status", "--json", "--tree"]).await);
    assert_eq!(status["sessions"][0]["state"], "idle", "{status}");
    let stopped = read(&gantry(&stage, &["stop", "--all", "--json"]).await);
    assert_eq!(stopped["stopped"][0]["session_id"], status["sessions"][0]["id"], "{stopped}");
    let none = read(&gantry(&stage, &["stop", "--all", "--json"]).await);
    assert_eq!(none["stopped"], json!([]));
    let quit = read(&gantry(&stage, &["quit", "--json"]).await);
    assert_eq!((&quit["ok"], &quit["pid"]), (&json!(true), &json!(instance.pid)));
    instance.ended_cleanly().await;
    stage.finish().await;
}

#[tokio::test]
async fn shells_complete_every_command_and_the_manual_names_them() {
    let stage = Stage::shared().await;
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let said = gantry(&stage, &["completions", shell]).await;
        assert_eq!(said.code, Some(0), "{}", said.err);
        for word in ["serve", "chat", "import", "doctor", "completions"] {
            assert!(said.out.contains(word), "{shell}: {word}");
        }
    }
    let said = gantry(&stage, &["man"]).await;
    assert!(said.out.contains(".TH gantry") || said.out.contains(".TH GANTRY"), "{}", said.out);
    let folder = stage.path("man");
    let said = gantry(&stage, &["man", folder.to_str().unwrap()]).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(std::fs::read_to_string(folder.join("gantry-chat.1")).unwrap().contains("allow"));
    let said = gantry(&stage, &["--help"]).await;
    assert!(!said.out.contains('\x1b') && said.out.contains("completions"), "{}", said.out);
    stage.finish().await;
}

#[tokio::test]
async fn a_gantry_that_was_stopped_is_not_waited_for_and_it_is_said_what_to_do() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    instance.signal(Signal::STOP);
    wait_until("the process is stopped", Duration::from_secs(5), async || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", instance.pid)).unwrap();
        stat.contains(") T ").then_some(())
    })
    .await;
    let (status, quit) = futures::join!(gantry(&stage, &["status"]), gantry(&stage, &["quit"]));
    instance.signal(Signal::CONT);
    for said in [status, quit] {
        assert_eq!(said.code, Some(1), "{}", said.err);
        let advice = format!("kill -CONT {}", instance.pid);
        assert!(said.err.contains(&advice), "{}", said.err);
    }
    instance.ended_cleanly().await;
    stage.finish().await;
}
