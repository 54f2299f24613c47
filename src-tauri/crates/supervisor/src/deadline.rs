//! The instant by which a stop is over, handed down and never restarted (rule 6).

use std::time::Duration;
use tokio::time::Instant;

/// An instant by which something is over. It is passed down by value; nobody
/// below may restart it, only shorten it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

/// The deadline passed before the work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the deadline passed")]
pub struct Missed;

impl Deadline {
    /// `span` from now.
    pub fn after(span: Duration) -> Self {
        Self(Instant::now() + span)
    }

    /// At this instant.
    pub fn at(instant: Instant) -> Self {
        Self(instant)
    }

    /// The instant itself.
    pub fn instant(self) -> Instant {
        self.0
    }

    /// What is left; zero once it is over.
    pub fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Whether it has passed.
    pub fn is_over(self) -> bool {
        self.remaining().is_zero()
    }

    /// The earlier one of this deadline and `span` from now.
    pub fn or_after(self, span: Duration) -> Self {
        self.min(Self::after(span))
    }

    /// Runs `work` until it is done or the deadline passes.
    ///
    /// # Errors
    /// [`Missed`] when the deadline came first; `work` is dropped.
    pub async fn bound<F: Future>(self, work: F) -> Result<F::Output, Missed> {
        tokio::time::timeout_at(self.0, work).await.map_err(|_| Missed)
    }
}
