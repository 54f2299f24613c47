//! What a server's actor shows of it.

use super::process::Tail;
use crate::wire::ServerState;
use std::sync::Arc;

/// A server's state, a little finer than the wire's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Stopped,
    Starting,
    Ready,
    Degraded,
    Restarting,
    Failed,
    /// Being ended because nobody needs it.
    Stopping,
    /// Being ended because it failed; will not be tried again.
    Failing,
}

impl Condition {
    /// As others see it. One that is being ended still runs but cannot be
    /// used: `stopped` is said only when no process is left.
    pub fn wire(self) -> ServerState {
        match self {
            Self::Stopped => ServerState::Stopped,
            Self::Starting => ServerState::Starting,
            Self::Ready => ServerState::Ready,
            Self::Degraded | Self::Stopping | Self::Failing => ServerState::Degraded,
            Self::Restarting => ServerState::Restarting,
            Self::Failed => ServerState::Failed,
        }
    }

    /// Whether waiting brings nothing new.
    pub fn is_decided(self) -> bool {
        !matches!(self, Self::Starting | Self::Restarting)
    }

    /// Whether an agent can be given its bridge URL.
    pub fn has_failed(self) -> bool {
        matches!(self, Self::Failed | Self::Failing)
    }

    /// Whether it is usable.
    pub fn is_ready(self) -> bool {
        matches!(self, Self::Ready | Self::Degraded)
    }

    /// Of several processes of one server, the one with the highest is shown.
    pub fn rank(self) -> u8 {
        match self {
            Self::Ready => 7,
            Self::Degraded => 6,
            Self::Starting => 5,
            Self::Restarting => 4,
            Self::Failed => 3,
            Self::Failing => 2,
            Self::Stopping => 1,
            Self::Stopped => 0,
        }
    }
}

/// What is known of a server now.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub condition: Condition,
    pub error: Option<String>,
    pub pid: Option<u32>,
    /// What it does while it is starting.
    pub note: Option<String>,
    /// Pid, number of tools and note as they were announced last.
    pub shown: (Option<u32>, Option<usize>, Option<String>),
    /// The tree's id in the supervisor.
    pub tree: Option<String>,
    pub restarts: u32,
    pub ready_ms: Option<u64>,
    /// When it came into the state that the wire shows.
    pub since: i64,
    pub tools: Option<usize>,
    pub log: Log,
}

impl Facts {
    pub fn stopped(since: i64) -> Self {
        Self {
            condition: Condition::Stopped,
            error: None,
            pid: None,
            note: None,
            shown: (None, None, None),
            tree: None,
            restarts: 0,
            ready_ms: None,
            since,
            tools: None,
            log: Log::default(),
        }
    }
}

/// The standard error of the present process and of the one before it; kept after their ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    before: Option<Arc<dyn Tail>>,
    last: Option<Arc<dyn Tail>>,
}

impl Log {
    /// A new process writes.
    pub fn begin(&mut self, tail: Arc<dyn Tail>) {
        self.before = self.last.replace(tail);
    }

    /// The last `count` lines, oldest first.
    pub fn lines(&self, count: usize) -> Vec<String> {
        let last = self.last.as_ref().map(|tail| tail.lines(count)).unwrap_or_default();
        let missing = count - last.len().min(count);
        let mut lines = match &self.before {
            Some(before) if missing > 0 => before.lines(missing),
            _ => Vec::new(),
        };
        lines.extend(last);
        lines
    }
}
