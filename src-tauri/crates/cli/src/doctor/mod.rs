//! `gantry doctor`: what a user's setup needs, and what to do where it lacks.
//! Looks only: it changes nothing, ends nothing, and leaves nothing behind.

mod agents;
mod disk;
mod instance;
mod programs;

use crate::{arguments::Place, failure::Failure, terminal::say};
use clap::Args;
use gantry_core::programs::Programs;
use gantry_supervisor::{Cause, Deadline, Scope, Supervisor};
use serde::Serialize;
use serde_json::json;
use std::time::Duration;

/// For what was started to look at it.
const END: Duration = Duration::from_secs(5);

/// Options of `gantry doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Exit code 1 when something is a problem; a warning is none.")]
pub struct Doctor {
    #[command(flatten)]
    place: Place,
    /// Also look whether `gantry serve --port N` could listen there
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warning,
    Problem,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    /// What was looked at, the same in every version.
    check: String,
    verdict: Verdict,
    /// What was found.
    found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn ok(check: impl Into<String>, found: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Ok, found: found.into(), advice: None }
    }

    fn warning(
        check: impl Into<String>,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { verdict: Verdict::Warning, advice: Some(advice.into()), ..Self::ok(check, found) }
    }

    fn problem(
        check: impl Into<String>,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { verdict: Verdict::Problem, ..Self::warning(check, found, advice) }
    }

    fn line(&self) -> String {
        let word = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Problem => "PROBLEM",
        };
        let mut line = format!("{word:<8} {}: {}", self.check, self.found);
        if let Some(advice) = &self.advice {
            line.push_str(&format!("\n{:9}→ {advice}", ""));
        }
        line
    }
}

/// Looks at everything.
pub async fn run(options: Doctor) -> Result<u8, Failure> {
    let data = options.place.data().ok_or_else(|| {
        Failure::new("doctor", "there is no data directory; name one with --data-dir")
    })?;
    let ours = Programs::beside_this_one();
    let scope = Scope::root("doctor");
    let supervisor = Supervisor::new(scope.child("processes"), ours.warden.clone());

    let mut findings = Vec::new();
    // Each is said when it is known: an agent may take half a minute.
    let mut tell = |finding: Finding| {
        if !options.json {
            say(&finding.line());
        }
        findings.push(finding);
    };
    // Before anything of ours runs that could be taken for a leftover.
    instance::leftovers(&scope).await.into_iter().for_each(&mut tell);
    instance::instance(&data).await.into_iter().for_each(&mut tell);
    if let Some(port) = options.port {
        tell(instance::port(&data, port).await);
    }
    disk::data_directory(&data).into_iter().for_each(&mut tell);
    tell(disk::database(&data));
    programs::login_shell(&supervisor).await.into_iter().for_each(&mut tell);
    programs::tools(&supervisor).await.into_iter().for_each(&mut tell);
    tell(programs::warden(&ours));
    agents::agents(&supervisor, &ours, &data, tell).await;

    let deadline = Deadline::after(END);
    supervisor.stop_all(Cause::Quit, deadline).await;
    scope.close(deadline).await;

    let is_fine = findings.iter().all(|finding| finding.verdict != Verdict::Problem);
    if options.json {
        say(&json!({ "ok": is_fine, "data_dir": data.root, "findings": findings }).to_string());
    }
    Ok(u8::from(!is_fine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_to_do() {
        assert_eq!(
            Finding::problem("node", "not found", "install it").line(),
            "PROBLEM  node: not found\n         → install it"
        );
        assert_eq!(Finding::ok("node", "v22").line(), "ok       node: v22");
    }
}
