//! A run of steps: each is timed, one that fails does not hide the others, and
//! a table at the end says how it went.

use std::time::{Duration, Instant};

enum End {
    Passed,
    Failed(String),
    Skipped(&'static str),
}

struct Step {
    name: &'static str,
    end: End,
    took: Duration,
}

/// The steps so far.
pub struct Steps {
    only: Option<String>,
    began: Instant,
    steps: Vec<Step>,
}

impl Steps {
    /// All steps, or those of one part.
    pub fn new(only: Option<&str>) -> Self {
        Self { only: only.map(str::to_owned), began: Instant::now(), steps: Vec::new() }
    }

    /// Runs `work` unless another part was asked for, or a step that it needs
    /// was run and failed.
    pub fn step(
        &mut self,
        part: &str,
        name: &'static str,
        needs: &[&'static str],
        work: impl FnOnce() -> Result<(), String>,
    ) {
        if self.only.as_deref().is_some_and(|only| only != part) {
            return;
        }
        let missing = needs.iter().find(|need| {
            self.steps.iter().any(|step| step.name == **need && !matches!(step.end, End::Passed))
        });
        if let Some(missing) = missing {
            self.steps.push(Step { name, end: End::Skipped(missing), took: Duration::ZERO });
            return;
        }
        println!("\n=== {name}");
        let began = Instant::now();
        let end = match work() {
            Ok(()) => End::Passed,
            Err(why) => End::Failed(why),
        };
        let took = began.elapsed();
        match &end {
            End::Failed(why) => println!("=== {name}: FAILED after {:.1} s: {why}", seconds(took)),
            _ => println!("=== {name}: {:.1} s", seconds(took)),
        }
        self.steps.push(Step { name, end, took });
    }

    /// Prints the table; an error when a step failed or none was run.
    pub fn finish(self) -> Result<(), String> {
        println!("\n{:<34} {:>8}", "step", "seconds");
        for step in &self.steps {
            let end = match &step.end {
                End::Passed => String::new(),
                End::Failed(why) => format!("FAILED: {why}"),
                End::Skipped(need) => format!("SKIPPED: needs `{need}`"),
            };
            println!("{:<34} {:>8.1}  {end}", step.name, seconds(step.took));
        }
        println!("{:<34} {:>8.1}", "all", seconds(self.began.elapsed()));
        let bad: Vec<&str> = self
            .steps
            .iter()
            .filter(|step| !matches!(step.end, End::Passed))
            .map(|step| step.name)
            .collect();
        if self.steps.is_empty() {
            return Err("no such part; see `cargo xtask help`".into());
        }
        if bad.is_empty() { Ok(()) } else { Err(format!("not passed: {}", bad.join(", "))) }
    }
}

fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}
