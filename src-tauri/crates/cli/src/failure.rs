//! Failures as the terminal shows them: `gantry: <what>: <why>`, one line.

use crate::terminal::complain;
use gantry_core::{Error, ErrorCode};
use std::{fmt::Display, process::ExitCode};

/// A command that failed.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    what: String,
    why: String,
    code: u8,
}

impl Failure {
    /// It was tried and failed: exit code 1.
    pub fn new(what: impl Into<String>, why: impl Display) -> Self {
        Self { what: what.into(), why: why.to_string(), code: 1 }
    }

    /// It was asked for in a way that makes no sense: exit code 2.
    pub fn usage(what: impl Into<String>, why: impl Display) -> Self {
        Self { code: 2, ..Self::new(what, why) }
    }

    /// What was asked for is not there: exit code 3.
    pub fn absent(what: impl Into<String>, why: impl Display) -> Self {
        Self { code: 3, ..Self::new(what, why) }
    }

    /// A failed command of the core.
    pub fn of(what: impl Into<String>, error: &Error) -> Self {
        match error.code {
            ErrorCode::NotFound => Self::absent(what, error),
            ErrorCode::ValidationError => Self::usage(what, error),
            _ => Self::new(what, error),
        }
    }

    /// Whether it was not there.
    pub fn is_absent(&self) -> bool {
        self.code == 3
    }

    /// Whether what was asked for made no sense.
    pub fn is_invalid(&self) -> bool {
        self.code == 2
    }

    /// What failed and why, without whose program it was.
    pub fn sentence(&self) -> String {
        format!("{}: {}", self.what, self.why)
    }

    /// Says it and gives the exit code.
    pub fn tell(&self) -> ExitCode {
        let line = format!("gantry: {}: {}", self.what, self.why);
        complain(&line.split_whitespace().collect::<Vec<_>>().join(" "));
        ExitCode::from(self.code)
    }
}
