//! The official MCP conformance suite, installed by `cargo xtask test` outside
//! the repository (`tests/npm/conformance` has the versions). It needs Node 22,
//! which is installed beside it.

use crate::{Stage, npm};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdin},
};

/// The verdicts of one run: for each scenario its checks in order, each with its status.
pub type Verdicts = BTreeMap<String, Vec<Check>>;

/// The suite bounds each scenario by itself; this is for a suite that hangs.
const BOUND: Duration = Duration::from_secs(180);

/// One check of a scenario.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its id; `CheckName` of the suite.
    pub id: String,
    /// `SUCCESS`, `FAILURE`, `WARNING`, `SKIPPED` or `INFO`.
    pub status: String,
    /// What the suite says about it.
    pub message: String,
}

impl Check {
    /// Whether something is wrong.
    pub fn is_a_complaint(&self) -> bool {
        ["FAILURE", "WARNING"].contains(&self.status.as_str())
    }
}

/// A release of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// The stable one: revisions up to 2025-11-25.
    Stable,
    /// The one that knows revision 2026-07-28 too.
    Next,
}

impl Suite {
    /// The names of its scenarios against a server.
    ///
    /// # Panics
    /// When the suite is not installed or says nothing.
    pub fn scenarios(self) -> Vec<String> {
        let output = self.command().arg("list").output();
        let output = output.unwrap_or_else(|why| panic!("{self:?}: {why}"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = text.lines().skip_while(|line| !line.starts_with("Server scenarios")).skip(1);
        let names: Vec<String> = lines
            .map_while(|line| line.trim_start().strip_prefix("- "))
            .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
            .collect();
        assert!(!names.is_empty(), "{self:?} lists no scenarios: {text}");
        names
    }

    /// Runs its scenarios against the server at `url`, and reads what it wrote into `folder`.
    ///
    /// # Panics
    /// When it cannot be run, or writes no results.
    pub async fn run(self, url: &str, options: &[&str], folder: &Path) -> Verdicts {
        let mut command = tokio::process::Command::from(self.command());
        command.arg("server").args(["--url", url]).args(options).arg("-o").arg(folder);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(BOUND, command.output()).await;
        let output = output.unwrap_or_else(|_| panic!("{self:?} still runs after {BOUND:?}"));
        let output = output.unwrap_or_else(|why| panic!("{self:?}: {why}"));
        let verdicts = read(folder);
        assert!(
            !verdicts.is_empty(),
            "{self:?} wrote no results: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        verdicts
    }

    /// Runs a scenario against the client that this command line is, and reads its checks.
    ///
    /// # Panics
    /// When it cannot be run, or writes no results.
    pub async fn run_client(
        self,
        scenario: &str,
        revision: &str,
        client: &str,
        folder: &Path,
    ) -> Vec<Check> {
        let mut command = tokio::process::Command::from(self.command());
        command.args(["client", "--command", client, "--scenario", scenario]);
        command.args(["--spec-version", revision]).arg("-o").arg(folder);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(BOUND, command.output()).await;
        let output = output.unwrap_or_else(|_| panic!("{scenario} still runs after {BOUND:?}"));
        let output = output.unwrap_or_else(|why| panic!("{scenario}: {why}"));
        let checks = read_all(folder);
        assert!(
            !checks.is_empty(),
            "{scenario} wrote no results: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        checks
    }

    fn command(self) -> Command {
        let package = match self {
            Self::Stable => "conformance",
            Self::Next => "conformance-next",
        };
        let mut command = Command::new(npm::node_22());
        command.arg(npm::conformance(&format!("{package}/dist/index.js")));
        command
    }
}

/// The fixture as an HTTP server by itself; it ends with its input.
pub struct Direct {
    child: Child,
    input: ChildStdin,
    /// Of its endpoint.
    pub url: String,
}

impl Direct {
    /// Starts it, with arguments after `--http`.
    ///
    /// # Panics
    /// When it does not say within 20 s where it is.
    pub async fn start(stage: &Stage, args: &[&str]) -> Self {
        let mut command = stage.program("conformance_fixture");
        command.arg("--http").args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|why| panic!("the fixture: {why}"));
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            panic!("no pipes");
        };
        let mut lines = BufReader::new(output).lines();
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await;
        let line = line.ok().and_then(Result::ok).flatten().unwrap_or_default();
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        let url = said["url"].as_str().unwrap_or_else(|| panic!("no URL but {line:?}")).to_owned();
        Self { child, input, url }
    }

    /// Ends it.
    ///
    /// # Panics
    /// When it does not end well.
    pub async fn end(mut self) {
        drop(self.input);
        let ended = tokio::time::timeout(Duration::from_secs(10), self.child.wait()).await;
        assert!(matches!(&ended, Ok(Ok(status)) if status.success()), "{ended:?}");
    }
}

/// Every check in the files `checks.json` below a folder.
fn read_all(folder: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            checks.extend(read_all(&entry.path()));
        } else if entry.file_name() == "checks.json" {
            checks.extend(checks_in(&entry.path()).unwrap_or_default());
        }
    }
    checks
}

fn checks_in(file: &Path) -> Option<Vec<Check>> {
    let checks: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
    let text = |check: &Value, field: &str| check[field].as_str().unwrap_or_default().to_owned();
    let checks = checks.iter().map(|check| Check {
        id: text(check, "id"),
        status: text(check, "status"),
        message: text(check, "errorMessage"),
    });
    Some(checks.collect())
}

/// Results lie in `server-<scenario>-<time>/checks.json`.
fn read(folder: &Path) -> Verdicts {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let results = entries.filter_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = name.strip_prefix("server-")?;
        // The names are in small letters, so this is the one of the time: `-2026-11-30T…`.
        let at = name.rfind('T')?.checked_sub("-2026-11-30".len())?;
        let checks = checks_in(&entry.path().join("checks.json"))?;
        Some((name[..at].to_owned(), checks))
    });
    results.collect()
}

/// The scenarios in which a check is not the same in both, or not as it should be in the first.
pub fn doubtful(direct: &Verdicts, through: &Verdicts) -> Vec<String> {
    let names: BTreeSet<&String> = direct.keys().chain(through.keys()).collect();
    let is_doubtful = |name: &&String| {
        let bad = direct.get(*name).into_iter().flatten().any(Check::is_a_complaint);
        bad || statuses(direct, name) != statuses(through, name)
    };
    names.into_iter().filter(is_doubtful).cloned().collect()
}

fn statuses(verdicts: &Verdicts, scenario: &str) -> Vec<(String, String)> {
    let checks = verdicts.get(scenario).into_iter().flatten();
    checks.map(|check| (check.id.clone(), check.status.clone())).collect()
}

/// Every check that is not the same in both, as lines to read; empty when all are.
pub fn differences(direct: &Verdicts, through: &Verdicts) -> String {
    let mut text = String::new();
    let names: BTreeSet<&String> = direct.keys().chain(through.keys()).collect();
    for name in names {
        if statuses(direct, name) != statuses(through, name) {
            let _ = writeln!(text, "{name}:");
            for (which, verdicts) in [("directly", direct), ("through the bridge", through)] {
                let _ = writeln!(text, "  {which}:");
                for check in verdicts.get(name).into_iter().flatten() {
                    let _ = writeln!(text, "    {} {} {}", check.status, check.id, check.message);
                }
            }
        }
    }
    text
}

/// Every check that is a failure or a warning, as lines to read.
pub fn complaints(verdicts: &Verdicts) -> String {
    let mut text = String::new();
    for (name, checks) in verdicts {
        for check in checks.iter().filter(|check| check.is_a_complaint()) {
            let _ = writeln!(text, "{name}: {} {}: {}", check.status, check.id, check.message);
        }
    }
    text
}
