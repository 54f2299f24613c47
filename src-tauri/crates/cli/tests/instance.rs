//! `gantry serve` and the small commands around it, as a script sees them.

#![cfg(unix)]
#![allow(missing_docs, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "a test starts the program itself")]

use serde_json::Value;
use std::{
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{Child, ChildStdout, Command},
};

const BOUND: Duration = Duration::from_secs(20);

fn gantry(arguments: &[&str], data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gantry"));
    command.args(arguments).arg("--data-dir").arg(data);
    command.env("GANTRY_DEFAULT_SERVERS", "none").env_remove("GANTRY_TOKEN_FILE");
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn run(arguments: &[&str], data: &Path) -> Output {
    let output = gantry(arguments, data).output();
    tokio::time::timeout(BOUND, output).await.expect("an end in time").unwrap()
}

/// The exit code and the one line on standard error.
async fn refused(arguments: &[&str], data: &Path) -> (i32, String) {
    let output = run(arguments, data).await;
    let text = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("gantry: ")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(output.stdout.is_empty(), "{:?}", output.stdout);
    (output.status.code().unwrap(), lines[0].to_owned())
}

struct Serving {
    child: Child,
    ready: Value,
    out: BufReader<ChildStdout>,
}

impl Serving {
    async fn start(data: &Path, more: &[&str]) -> Self {
        let arguments: Vec<_> = ["serve"].iter().chain(more).copied().collect();
        let mut command = gantry(&arguments, data);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        tokio::time::timeout(BOUND, out.read_line(&mut line))
            .await
            .expect("ready in time")
            .unwrap();
        Self { child, ready: serde_json::from_str(&line).unwrap(), out }
    }

    /// The exit code, what else was on standard output, and the log.
    async fn end(mut self) -> (i32, String, String) {
        let mut log = String::new();
        let mut rest = String::new();
        let mut errors = self.child.stderr.take().unwrap();
        let all = async {
            let (status, _, _) = tokio::join!(
                self.child.wait(),
                errors.read_to_string(&mut log),
                self.out.read_to_string(&mut rest)
            );
            status.unwrap().code().unwrap()
        };
        let code = tokio::time::timeout(BOUND, all).await.expect("an end in time");
        (code, rest, log)
    }

    async fn end_cleanly(self) {
        let (code, rest, log) = self.end().await;
        assert_eq!((code, rest.as_str()), (0, ""), "{log}");
        assert!(log.lines().last().unwrap().contains("Cleanup complete, exiting"), "{log}");
    }
}

#[tokio::test]
async fn serve_says_that_it_is_ready_in_one_line_and_quit_ends_it() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let serving = Serving::start(&data, &[]).await;
    assert_eq!(serving.ready["ready"], true);
    assert_eq!(serving.ready["pid"], serving.child.id().unwrap());
    assert!(serving.ready["url"].as_str().unwrap().starts_with("http://127.0.0.1:"));
    let token_file = Path::new(serving.ready["token_file"].as_str().unwrap()).to_owned();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&token_file), mode(&data.join("run"))), (0o600, 0o700));
    assert_eq!(std::fs::read_to_string(&token_file).unwrap().trim().len(), 64);

    let (code, line) = refused(&["serve"], &data).await;
    assert_eq!(code, 3);
    assert!(line.contains(&format!("pid {}", serving.child.id().unwrap())), "{line}");

    let status = run(&["status", "--json", "--tree"], &data).await;
    assert!(status.status.success());
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["instance"]["url"], serving.ready["url"]);
    assert_eq!(status["servers"], serde_json::json!([]));
    assert_eq!(status["processes"]["roots"][0]["role"], "app");
    let status = run(&["status"], &data).await;
    assert!(String::from_utf8(status.stdout).unwrap().contains("Sessions: none"));

    let (code, line) = refused(&["stop", "ghost"], &data).await;
    assert_eq!(code, 3);
    assert!(line.starts_with("gantry: stop: ") && line.contains("ghost"), "{line}");
    assert!(run(&["stop", "--all"], &data).await.status.success());

    assert!(run(&["quit"], &data).await.status.success());
    serving.end_cleanly().await;
    assert!(!data.join("run/instance.json").exists() && !token_file.exists());
}

#[tokio::test]
async fn without_an_instance_the_small_commands_say_so() {
    let place = tempfile::tempdir().unwrap();
    for arguments in [&["status"][..], &["stop", "x"], &["stop", "--all"], &["quit"]] {
        let (code, line) = refused(arguments, place.path()).await;
        assert_eq!(code, 3, "{line}");
        assert!(line.starts_with(&format!("gantry: {}: ", arguments[0])), "{line}");
        assert!(line.contains("gantry serve"), "it says what to do: {line}");
    }
}

#[tokio::test]
async fn wrong_usage_is_one_line_and_exit_code_2() {
    let place = tempfile::tempdir().unwrap();
    for (arguments, word) in [
        (&["serve", "--no-auth", "--host", "0.0.0.0"][..], "--no-auth"),
        (&["serve", "--no-auth", "--host", "::"], "--no-auth"),
        (&["serve", "--port", "70000"], "--port"),
        (&["serve", "--nonsense"], "--nonsense"),
        (&["stop"], "SESSION"),
        (&["stop", "x", "--all"], "--all"),
        (&["nonsense"], "nonsense"),
    ] {
        let (code, line) = refused(arguments, place.path()).await;
        assert_eq!(code, 2, "{line}");
        assert!(line.contains(word), "{line}");
    }
    assert!(!place.path().join("gantry.db").exists(), "nothing was begun");
}

#[tokio::test]
async fn every_signal_ends_it_cleanly() {
    for signal in ["-TERM", "-INT", "-HUP"] {
        let place = tempfile::tempdir().unwrap();
        let serving = Serving::start(place.path(), &[]).await;
        let pid = serving.child.id().unwrap().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().await.unwrap();
        assert!(sent.success());
        serving.end_cleanly().await;
    }
}

#[tokio::test]
async fn a_port_that_is_taken_ends_it_and_gives_the_directory_back() {
    let place = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, line) = refused(&["serve", "--port", &port], place.path()).await;
    assert_eq!(code, 1);
    assert!(line.contains(&port) && line.contains("--port"), "{line}");
    drop(taken);
    let serving = Serving::start(place.path(), &["--port", &port, "--no-auth"]).await;
    assert_eq!(serving.ready["url"], format!("http://127.0.0.1:{port}"));
    assert!(run(&["quit"], place.path()).await.status.success());
    serving.end_cleanly().await;
}

#[tokio::test]
async fn a_token_file_of_ones_own_is_used_and_stays() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("token");
    std::fs::write(&file, "my-own-token\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (data, path) = (place.path().join("data"), file.to_str().unwrap());
    let (code, line) = refused(&["serve", "--token-file", path], &data).await;
    assert_eq!(code, 1);
    assert!(line.contains("chmod 600"), "{line}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let serving = Serving::start(&data, &["--token-file", path]).await;
    assert_eq!(serving.ready["token_file"], path);
    // It is copied to where the commands look for it, and the copy ends with the instance.
    assert!(run(&["status"], &data).await.status.success());
    assert!(run(&["quit"], &data).await.status.success());
    serving.end_cleanly().await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "my-own-token\n");
    assert!(!data.join("run/token").exists());
}
