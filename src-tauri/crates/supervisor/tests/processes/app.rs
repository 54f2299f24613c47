//! A second Gantry: this test executable, run again as a program that starts trees.
//! The tests kill it, or let it count.

use crate::world::{LIMIT, script, soon, warden};
use gantry_supervisor::{Cause, Child, ProcessId, Scope, Supervisor};
use std::{
    io::{BufRead, BufReader, Lines, Write},
    process::{ChildStdout, Command, Stdio},
};
use tokio::io::AsyncReadExt;

const SCRIPTS: &str = "GANTRY_TEST_SCRIPTS";
const CYCLES: &str = "GANTRY_TEST_CYCLES";

/// Another instance, with one tree for each script.
pub struct App {
    child: std::process::Child,
    /// Kept open: the test framework in there writes to it.
    _output: Lines<BufReader<ChildStdout>>,
    pub id: ProcessId,
    pub wardens: Vec<ProcessId>,
}

impl App {
    /// Starts it and returns once its trees run.
    pub fn start(scripts: &[String], with_wardens: bool) -> Self {
        #[expect(clippy::zombie_processes, reason = "reaped when the app is dropped")]
        let mut child = app()
            .env(SCRIPTS, scripts.join("\u{1}"))
            .env("WARDENS", with_wardens.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the app");
        let id = ProcessId::of(child.id()).expect("the app");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut wardens = Vec::new();
        loop {
            let line = lines.next().expect("the app ended early").expect("reads");
            // The test framework writes on the same line.
            if let Some((_, pid)) = line.split_once("WARDEN ") {
                wardens.push(ProcessId::of(pid.parse().expect("a pid")).expect("a warden"));
            } else if line.contains("READY") {
                return Self { child, _output: lines, id, wardens };
            }
        }
    }

    pub fn signal(&self, name: &str) {
        crate::stop::signal(self.child.id(), name);
    }

    /// Kills it as nothing can be caught.
    pub fn kill(self) {}

    /// Lets it stop its trees and end.
    pub fn quit(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("wait").success());
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }
}

fn app() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("ourselves"));
    command.args(["--ignored", "--exact", "app::instance", "--nocapture"]);
    command
}

/// Starts and stops trees in an instance of its own; returns its descriptors before and after.
pub fn cycle(cycles: usize) -> (usize, usize) {
    let output = app().env(CYCLES, cycles.to_string()).output().expect("the app");
    let text = String::from_utf8_lossy(&output.stdout);
    let number = |name: &str| {
        let (_, rest) = text.split_once(name).unwrap_or_else(|| panic!("no {name} in {text}"));
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a number")
    };
    (number("BEFORE "), number("AFTER "))
}

fn say(text: &str) {
    println!("\n{text}");
    std::io::stdout().flush().expect("flush");
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("descriptors").count()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "is the app of other tests"]
async fn instance() {
    let scope = Scope::root("app");
    let with_wardens = std::env::var("WARDENS").as_deref() != Ok("false");
    let supervisor = Supervisor::new(scope.clone(), with_wardens.then(warden));
    if let Ok(scripts) = std::env::var(SCRIPTS) {
        let mut children: Vec<Child> = Vec::new();
        for text in scripts.split('\u{1}') {
            let child = supervisor.launch(script(text)).await.expect("starts");
            if let Some(warden) = child.tree.warden() {
                say(&format!("WARDEN {}", warden.pid));
            }
            children.push(child);
        }
        say("READY");
        // A plain thread: the runtime's own reader of standard input cannot be left.
        let input = scope.spawn_blocking("input", || std::io::stdin().lines().for_each(drop));
        input.join().await;
        supervisor.stop_all(Cause::Quit, soon(LIMIT / 10)).await;
    } else {
        let cycles: usize =
            std::env::var(CYCLES).expect("run by other tests only").parse().expect("a number");
        one_cycle(&supervisor).await;
        let before = descriptors();
        for _ in 0..cycles {
            one_cycle(&supervisor).await;
        }
        say(&format!("BEFORE {before}"));
        say(&format!("AFTER {}", descriptors()));
    }
    assert_eq!(supervisor.survivors(), []);
    assert_eq!(scope.close(soon(LIMIT)).await, Vec::<String>::new());
}

async fn one_cycle(supervisor: &Supervisor) {
    let mut child = supervisor.launch(script("echo hello >&2; cat")).await.expect("starts");
    child.tree.stop(Cause::Stopped, soon(LIMIT)).await;
    let mut rest = Vec::new();
    child.stdout.read_to_end(&mut rest).await.expect("reads");
}
