//! A running `gantry serve`.

use crate::{Stage, api::Api, census};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    ops::Deref,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, Command},
};

/// A running `gantry serve`. Killed when dropped.
pub struct Instance {
    child: Child,
    /// Of the program.
    pub pid: u32,
    api: Api,
    /// From the start of the program to its ready line.
    pub started_in: Duration,
    log: PathBuf,
}

impl Deref for Instance {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl Instance {
    /// Starts it on the stage's data directory.
    ///
    /// # Panics
    /// When it does not print its ready line within 20 s.
    pub async fn start(stage: &Stage) -> Self {
        Self::start_with(stage, |_| {}).await
    }

    /// The same with further arguments or variables.
    ///
    /// # Panics
    /// See [`Instance::start`].
    pub async fn start_with(stage: &Stage, change: impl FnOnce(&mut Command)) -> Self {
        let log = (1..)
            .map(|number| stage.path(format!("serve-{number}.log")))
            .find(|path| !path.exists())
            .unwrap_or_else(|| stage.path("serve.log"));
        let errors = std::fs::File::create(&log).unwrap_or_else(|why| panic!("{why}"));
        let mut command = stage.program("gantry");
        command.arg("serve").arg("--data-dir").arg(stage.data_dir());
        change(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let began = Instant::now();
        let mut child = command.spawn().unwrap_or_else(|why| panic!("gantry serve: {why}"));
        let pid = child.id().unwrap_or_default();
        let output = child.stdout.take().unwrap_or_else(|| panic!("no stdout"));
        let mut output = BufReader::new(output);
        let mut line = String::new();
        let arrived =
            tokio::time::timeout(Duration::from_secs(20), output.read_line(&mut line)).await;
        let started_in = began.elapsed();
        let ready: Value = serde_json::from_str(&line).unwrap_or_default();
        assert!(
            matches!(arrived, Ok(Ok(_))) && ready["ready"] == true,
            "no ready line but {line:?}; the log:\n{}",
            read(&log)
        );
        assert_eq!(ready["pid"], pid, "the ready line names another process: {ready}");
        // The contract says exactly one line; what follows would end up here.
        let rest = stage.path("serve-stdout.log");
        tokio::spawn(async move {
            let mut more = Vec::new();
            let _ = output.read_to_end(&mut more).await;
            if !more.is_empty() {
                let _ = std::fs::write(rest, more);
            }
        });
        let token_file = ready["token_file"].as_str().unwrap_or_default();
        let token = std::fs::read_to_string(token_file)
            .unwrap_or_else(|why| panic!("token file {token_file:?}: {why}"));
        stage.owns(pid);
        stage.keeps_secret(token.trim());
        let api = Api::new(ready["url"].as_str().unwrap_or_default(), &token);
        Self { child, pid, api, started_in, log }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        census::signal(self.pid, signal);
    }

    /// Waits for the end of the program; also says how long it took.
    ///
    /// # Panics
    /// When it has not ended after `bound`.
    pub async fn ended(&mut self, bound: Duration) -> (ExitStatus, Duration) {
        ended(&mut self.child, &self.log, bound).await
    }

    /// Stops it with SIGTERM and checks the clean end: exit 0, at most 5 s, and
    /// the last line of the log.
    ///
    /// # Panics
    /// When it does not end so.
    pub async fn quit(&mut self) -> Duration {
        self.signal(Signal::TERM);
        self.ended_cleanly().await
    }

    /// Waits for the clean end that something has begun.
    ///
    /// # Panics
    /// When it does not come.
    pub async fn ended_cleanly(&mut self) -> Duration {
        ended_cleanly(&mut self.child, &self.log).await
    }

    /// What it wrote to standard error.
    pub fn log(&self) -> String {
        read(&self.log)
    }
}

/// Waits for the end of a program that logs into this file.
///
/// # Panics
/// When it has not ended after `bound`.
pub async fn ended(child: &mut Child, log: &Path, bound: Duration) -> (ExitStatus, Duration) {
    let began = Instant::now();
    match tokio::time::timeout(bound, child.wait()).await {
        Ok(status) => (status.unwrap_or_else(|why| panic!("wait: {why}")), began.elapsed()),
        Err(_) => panic!("still running after {bound:?}; the log:\n{}", read(log)),
    }
}

/// Waits for the clean end of a host: exit 0 after at most 5 s, and the last
/// line of its log.
///
/// # Panics
/// When it does not come.
pub async fn ended_cleanly(child: &mut Child, log: &Path) -> Duration {
    // The bound is the contract's 5 s; the rest is for this process to notice.
    let (status, took) = ended(child, log, Duration::from_millis(5200)).await;
    let log = read(log);
    assert_eq!(status.code(), Some(0), "{status}; the log:\n{log}");
    let last = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    assert!(last.contains("Cleanup complete, exiting"), "the log ends with {last:?}:\n{log}");
    took
}

fn read(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}
