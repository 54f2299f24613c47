//! A running `fake_model`: the scripted model endpoint.

use crate::{Stage, record, wait_until};
use serde_json::Value;
use std::{path::PathBuf, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdin},
};

/// A scripted model endpoint. Ends when dropped, before the stage's end at the latest
/// by [`Model::stop`].
pub struct Model {
    child: Child,
    input: Option<ChildStdin>,
    /// Without a slash at the end.
    pub url: String,
    /// Of the program.
    pub pid: u32,
    record: PathBuf,
}

impl Model {
    /// Starts it on the stage.
    ///
    /// # Panics
    /// When it does not say where it listens within 20 s.
    pub async fn start(stage: &Stage) -> Self {
        let record = stage.path("model.jsonl");
        let mut command = stage.program("fake_model");
        command.arg(&record).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|why| panic!("fake_model: {why}"));
        let output = child.stdout.take().unwrap_or_else(|| panic!("no stdout"));
        let mut line = String::new();
        let mut output = BufReader::new(output);
        let arrived =
            tokio::time::timeout(Duration::from_secs(20), output.read_line(&mut line)).await;
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        let url = said["url"].as_str().unwrap_or_else(|| panic!("no URL: {arrived:?} {line:?}"));
        let (input, pid) = (child.stdin.take(), child.id().unwrap_or_default());
        Self { url: url.to_owned(), input, pid, child, record }
    }

    /// The model requests so far, with their whole bodies.
    pub fn requests(&self) -> Vec<Value> {
        record::events(&self.record, "request")
    }

    /// Waits until so many answers were given up by their reader.
    ///
    /// # Panics
    /// When they were not after `bound`.
    pub async fn abandoned(&self, number: usize, bound: Duration) {
        wait_until("the agent gave the model's answer up", bound, async || {
            (record::events(&self.record, "abandoned").len() >= number).then_some(())
        })
        .await;
    }

    /// How many answers were given up so far.
    pub fn abandoned_so_far(&self) -> usize {
        record::events(&self.record, "abandoned").len()
    }

    /// Ends it.
    ///
    /// # Panics
    /// When it has not ended after 5 s.
    pub async fn stop(mut self) {
        self.input.take();
        let ended = tokio::time::timeout(Duration::from_secs(5), self.child.wait()).await;
        assert!(matches!(ended, Ok(Ok(_))), "fake_model does not end: {ended:?}");
    }
}
