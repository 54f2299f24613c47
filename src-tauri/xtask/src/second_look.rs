//! A second look at tests that failed: alone, one after the other.
//!
//! Hundreds of tests with processes and time limits share two cores here. One that fails among
//! them and passes alone is a race, of the test or of the product; it is named at the end of
//! the run, to be mended, and does not stop the work of everybody. One that fails twice fails
//! the run, and so do many at once.

use crate::command;
use std::{
    cell::RefCell,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

/// With more failures than these, something is broken.
const MOST: usize = 4;
/// How long the last lines may take after the end: a test may have left somebody who holds
/// the pipe open.
const LAST_LINES: Duration = Duration::from_secs(5);

/// What needed a second look in this run.
pub struct SecondLook {
    raced: RefCell<Vec<String>>,
    /// Whether what the tests print is shown.
    shows: bool,
}

impl SecondLook {
    /// At nothing yet.
    pub fn new() -> Self {
        Self { raced: RefCell::default(), shows: true }
    }

    /// Runs tests of cargo; `again` makes the command that runs just some of them (the last
    /// arguments, after `--`, are their names).
    pub fn at_tests(&self, first: Command, again: impl Fn() -> Command) -> Result<(), String> {
        let (outcome, failed) = watch(first, self.shows)?;
        let Err(why) = outcome else { return Ok(()) };
        if failed.is_empty() || failed.len() > MOST {
            return Err(why);
        }
        println!("\n=== a second look, alone: {}", failed.join(", "));
        let mut second = again();
        second.args(["--exact", "--test-threads=1"]).args(&failed);
        let (outcome, still) = watch(second, self.shows)?;
        match outcome {
            Ok(()) => {
                self.raced.borrow_mut().extend(failed);
                Ok(())
            }
            Err(_) => Err(format!("{why}; failed alone, too: {}", still.join(", "))),
        }
    }

    /// Runs something that has no tests that could be named.
    pub fn at(&self, what: &str, run: impl Fn() -> Result<(), String>) -> Result<(), String> {
        let Err(why) = run() else { return Ok(()) };
        println!("\n=== a second look at {what}: {why}");
        run()?;
        self.raced.borrow_mut().push(what.to_owned());
        Ok(())
    }

    /// Says what raced.
    pub fn tell(&self) {
        for name in self.raced.borrow().iter() {
            println!("RACE: {name} failed among the others and passed alone; it is to be mended");
        }
    }
}

/// Runs it, shows what it says, and gathers the names of the tests that failed.
fn watch(mut command: Command, shows: bool) -> Result<(Result<(), String>, Vec<String>), String> {
    let line = command::line(&command);
    if shows {
        println!("$ {line}");
    }
    command.stdout(Stdio::piped());
    let mut child =
        command.spawn().map_err(|why| format!("`{line}` could not be started: {why}"))?;
    let (sender, names) = mpsc::channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                if shows {
                    // Nobody may be reading us any more; the tests are to end all the same.
                    let _ = writeln!(std::io::stdout(), "{line}");
                }
                if let Some(name) = failed(&line) {
                    let _ = sender.send(name.to_owned());
                }
            }
        });
    }
    let status = child.wait().map_err(|why| format!("`{line}`: {why}"))?;
    let mut failed = Vec::new();
    while let Ok(name) = names.recv_timeout(LAST_LINES) {
        failed.push(name);
    }
    failed.sort();
    failed.dedup();
    let outcome =
        if status.success() { Ok(()) } else { Err(format!("`{line}` ended with {status}")) };
    Ok((outcome, failed))
}

/// The name in a line such as `test queue::one_waits ... FAILED`.
fn failed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]);
        command
    }

    #[test]
    fn what_fails_twice_fails_and_what_raced_is_named() {
        let look = SecondLook { raced: RefCell::default(), shows: false };
        let first = || shell("echo 'test a::b ... FAILED'; echo 'test c ... ok'; exit 101");
        assert!(look.at_tests(first(), || shell("exit 101")).is_err());
        assert!(look.raced.borrow().is_empty());
        let named = || shell(r#"test "$*" = "--exact --test-threads=1 a::b""#);
        look.at_tests(first(), named).unwrap();
        assert_eq!(*look.raced.borrow(), ["a::b"]);
    }

    #[test]
    fn a_failure_without_a_name_or_of_many_is_one() {
        let look = SecondLook { raced: RefCell::default(), shows: false };
        let unreachable = || shell("exit 0");
        assert!(look.at_tests(shell("exit 101"), unreachable).is_err());
        let many = "for n in 1 2 3 4 5; do echo \"test $n ... FAILED\"; done; exit 101";
        assert!(look.at_tests(shell(many), unreachable).is_err());
    }
}
