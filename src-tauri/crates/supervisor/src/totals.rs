//! What stops have come to since this program started, for whoever watches it.

use crate::{Ended, How};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static STOPS: AtomicU64 = AtomicU64::new(0);
static PROCESSES: AtomicU64 = AtomicU64::new(0);
static FORCED: AtomicU64 = AtomicU64::new(0);
static LEFT: AtomicU64 = AtomicU64::new(0);

/// Sums over all stops of this program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Stops that are over.
    pub stops: u64,
    /// Processes that ended in them.
    pub processes: u64,
    /// Of those, how many needed KILL.
    pub forced: u64,
    /// Processes that were still running when their stop gave up.
    pub left: u64,
}

/// The sums now.
pub fn totals() -> Totals {
    Totals {
        stops: STOPS.load(Relaxed),
        processes: PROCESSES.load(Relaxed),
        forced: FORCED.load(Relaxed),
        left: LEFT.load(Relaxed),
    }
}

pub(crate) fn count(ended: &Ended) {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    STOPS.fetch_add(1, Relaxed);
    PROCESSES.fetch_add(number(ended.processes), Relaxed);
    FORCED.fetch_add(number(ended.forced), Relaxed);
    if let How::Left(left) = &ended.how {
        LEFT.fetch_add(number(left.len()), Relaxed);
    }
}
