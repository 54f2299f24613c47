//! The Gantry that runs on a data directory, over its HTTP interface.

use crate::{arguments::Place, events::Events, failure::Failure};
use gantry_core::instance::{Instance, InstanceInfo};
use reqwest::StatusCode;
use serde_json::{Value, json};
use std::time::Duration;

/// How long a command may take: a stop has a budget of five seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a question may take that is answered from memory.
pub const QUICK: Duration = Duration::from_secs(5);

/// A running Gantry.
pub struct Remote {
    /// Who it is.
    pub info: InstanceInfo,
    what: &'static str,
    token: String,
    http: reqwest::Client,
}

impl Remote {
    /// Finds it by `run/instance.json`.
    ///
    /// # Errors
    /// Absent, when none runs there.
    pub fn find(what: &'static str, place: &Place) -> Result<Self, Failure> {
        let data = place.data().ok_or_else(|| {
            Failure::new(what, "there is no data directory; name one with --data-dir")
        })?;
        let found = Instance::look(&data).map_err(|error| Failure::new(what, error))?;
        let info = found.ok_or_else(|| {
            Failure::absent(
                what,
                format!(
                    "no Gantry runs on {}; start one with `gantry serve` or open the application",
                    data.root.display()
                ),
            )
        })?;
        // Where each Gantry puts the token that it asks for, whichever file it is from.
        let text = std::fs::read_to_string(data.token_file()).or_else(|error| {
            let named = std::env::var_os("GANTRY_TOKEN_FILE").ok_or(error)?;
            std::fs::read_to_string(named)
        });
        // Without a token only a Gantry that asks for none answers, and says so.
        let token = text.unwrap_or_default().trim().to_owned();
        Self::at(what, info, token)
    }

    /// The one that listens there.
    ///
    /// # Errors
    /// No client can be made.
    pub fn at(what: &'static str, info: InstanceInfo, token: String) -> Result<Self, Failure> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .build()
            .map_err(|error| Failure::new(what, error))?;
        Ok(Self { info, what, token, http })
    }

    /// Runs a command of `/api`.
    ///
    /// # Errors
    /// What the command said; absent, when nobody answers.
    pub async fn call(&self, command: &str, input: Value) -> Result<Value, Failure> {
        self.call_within(PATIENCE, command, input).await
    }

    /// The same with another limit.
    ///
    /// # Errors
    /// See [`Remote::call`].
    pub async fn call_within(
        &self,
        limit: Duration,
        command: &str,
        input: Value,
    ) -> Result<Value, Failure> {
        let url = format!("{}/api/{command}", self.info.url);
        let request = self.http.post(&url).bearer_auth(&self.token).timeout(limit).json(&input);
        let response = request.send().await.map_err(|error| self.silent(error))?;
        self.read(response).await
    }

    /// A stream of events.
    ///
    /// # Errors
    /// See [`Remote::call`].
    pub async fn events(&self, path: &str) -> Result<Events, Failure> {
        let request = self.http.get(format!("{}{path}", self.info.url)).bearer_auth(&self.token);
        let response = request.send().await.map_err(|error| self.silent(error))?;
        if response.status().is_success() {
            return Ok(Events::of(response));
        }
        Err(match self.read(response).await {
            Err(failure) => failure,
            Ok(_) => Failure::new(self.what, "no stream of events was given"),
        })
    }

    fn silent(&self, error: reqwest::Error) -> Failure {
        if error.is_timeout() {
            let pid = self.info.pid;
            let why = format!(
                "Gantry (process {pid}) does not answer; if it was stopped, `kill -CONT {pid}` lets \
                 it go on, and `kill -9 {pid}` ends it: the next start ends what it leaves behind"
            );
            return Failure::new(self.what, why);
        }
        let error = error.without_url();
        let why = format!("{} does not answer: {error}", self.info.url);
        if error.is_connect() {
            Failure::absent(self.what, why)
        } else {
            Failure::new(self.what, why)
        }
    }

    async fn read(&self, response: reqwest::Response) -> Result<Value, Failure> {
        let status = response.status();
        let mut answer: Value = response.json().await.unwrap_or_default();
        if answer["ok"] == json!(true) {
            return Ok(answer["data"].take());
        }
        let told = answer["error"]["message"].as_str().or_else(|| answer["message"].as_str());
        let message = told.unwrap_or("it gave no reason").to_owned();
        Err(match status {
            StatusCode::NOT_FOUND => Failure::absent(self.what, message),
            StatusCode::BAD_REQUEST => Failure::usage(self.what, message),
            StatusCode::UNAUTHORIZED => Failure::new(
                self.what,
                "the token was refused; set GANTRY_TOKEN_FILE to the file that `gantry serve` was given",
            ),
            _ => Failure::new(self.what, message),
        })
    }
}
