//! The one kill: snapshot → end of input → TERM → KILL, under one deadline.

use super::{Cause, Ended, How, Shared};
use crate::{Deadline, ProcessId, os};
use gantry_warden::words::Order;
use std::{
    collections::HashSet,
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// The longest that end of input alone is given, unless the caller says less.
const INPUT_LIMIT: Duration = Duration::from_secs(1);
/// What end of input alone is given of a short time.
const SHORT_INPUT: Duration = Duration::from_millis(40);
/// The most that is kept back for KILL.
const KILL_LIMIT: Duration = Duration::from_millis(750);
/// Between two rounds of KILL.
const ROUND_PAUSE: Duration = Duration::from_millis(15);
/// How many rounds may find nobody to kill before the warden is taken for stuck.
const IDLE_ROUNDS: u32 = 5;
/// After a KILL that came at the deadline itself: how long the system takes to make it
/// true. Nothing can be shorter, so a deadline that is over already means this.
const LAST_LOOK: Duration = Duration::from_millis(50);

/// How long a stop may take. A later caller can only make it shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub deadline: Deadline,
    /// The longest that end of input alone is given.
    pub input: Duration,
}

impl Terms {
    /// With the usual time for the end of input.
    pub fn new(deadline: Deadline) -> Self {
        Self { deadline, input: INPUT_LIMIT }
    }

    /// The shorter of both, each for itself.
    fn shorter(self, other: Self) -> Self {
        Self { deadline: self.deadline.min(other.deadline), input: self.input.min(other.input) }
    }
}

/// A stop that is under way, or was.
#[derive(Debug)]
pub(crate) struct Stop {
    terms: watch::Sender<Terms>,
    result: watch::Receiver<Option<Ended>>,
}

/// When what happens: fixed shares of the time from the beginning to the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    term: Instant,
    kill: Instant,
}

impl Plan {
    /// The first quarter is for the end of input (of a short time the first half: many need
    /// no more), the last fifth for KILL.
    fn new(began: Instant, terms: Terms) -> Self {
        let total = terms.deadline.instant().saturating_duration_since(began);
        let input = (total / 4).max((total / 2).min(SHORT_INPUT));
        Self {
            term: began + input.min(terms.input),
            kill: began + total - (total / 5).min(KILL_LIMIT),
        }
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, Option<Stop>> {
    shared.stop.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Joins the stop that is under way, shortening it, or begins one.
pub(super) async fn stop(shared: &Arc<Shared>, cause: Cause, terms: Terms) -> Ended {
    // Known only now: it may end while the stop is on its way.
    let ran = shared.exit.borrow().is_none();
    let mut result = begin(shared, cause, terms, ran);
    let ended = result.wait_for(Option::is_some).await.map(|ended| ended.clone());
    match ended {
        Ok(Some(ended)) => ended,
        // The scope takes no tasks any more, or gave up on this one: it is done here.
        _ => {
            let (_sender, terms) = watch::channel(terms);
            run(Arc::clone(shared), cause, terms, ran).await
        }
    }
}

/// Begins a stop, or shortens the one that is under way, without waiting for it.
fn begin(
    shared: &Arc<Shared>,
    cause: Cause,
    terms: Terms,
    ran: bool,
) -> watch::Receiver<Option<Ended>> {
    let mut stop = lock(shared);
    if let Some(stop) = &*stop {
        stop.terms.send_if_modified(|known| {
            let before = std::mem::replace(known, known.shorter(terms));
            *known != before
        });
        // One that gave up, or was given up on, is tried again.
        let is_open = match &*stop.result.borrow() {
            Some(ended) => !matches!(ended.how, How::Left(_)),
            None => stop.result.has_changed().is_ok(),
        };
        if is_open {
            return stop.result.clone();
        }
    }
    let (sender, result) = watch::channel(None);
    let (terms, receiver) = watch::channel(terms);
    *stop = Some(Stop { terms, result: result.clone() });
    drop(stop);
    let work = run(Arc::clone(shared), cause, receiver, ran);
    shared.scope.spawn(format!("stop {}", shared.cookie.tree), async move {
        sender.send_replace(Some(work.await));
    });
    result
}

async fn run(shared: Arc<Shared>, cause: Cause, terms: watch::Receiver<Terms>, ran: bool) -> Ended {
    let began = Instant::now();
    shared.hold.store(true, Relaxed);
    let members = shared.census(shared.warden.is_none()).await;
    let mut before: HashSet<ProcessId> = members.iter().map(ProcessId::from).collect();
    // It may have ended by itself since, its input closed by somebody else.
    before.extend(ran.then(|| shared.program()));
    let mut stopping = Stopping {
        over: shared.over.subscribe(),
        shared: Arc::clone(&shared),
        terms,
        began,
        forced: HashSet::new(),
        asked: false,
    };
    let left = stopping.end().await;
    // What the warden did on its own counts too.
    let killed = stopping.forced.len().max(shared.killed.load(Relaxed));
    let how = if !left.is_empty() {
        How::Left(left.clone())
    } else if killed > 0 {
        How::Killed
    } else if stopping.asked || shared.asked.load(Relaxed) > 0 {
        How::Terminated
    } else {
        How::Exited
    };
    let processes = before.iter().filter(|id| !left.contains(id)).count();
    let ended = Ended { how, processes, forced: killed.min(processes), took: began.elapsed() };
    crate::totals::count(&ended);
    tracing::info!(
        tree = shared.cookie.tree,
        ?cause,
        how = ?ended.how,
        processes = ended.processes,
        forced = ended.forced,
        took_ms = ended.took.as_millis(),
        "stopped"
    );
    ended
}

/// One stop on its way.
struct Stopping {
    shared: Arc<Shared>,
    over: watch::Receiver<bool>,
    terms: watch::Receiver<Terms>,
    began: Instant,
    forced: HashSet<ProcessId>,
    asked: bool,
}

impl Stopping {
    /// Returns what is left.
    async fn end(&mut self) -> Vec<ProcessId> {
        self.shared.stdin.close();
        if self.over_by(|plan, _| plan.term).await {
            return Vec::new();
        }
        self.ask().await;
        if self.over_by(|plan, _| plan.kill).await {
            return Vec::new();
        }
        self.kill().await
    }

    /// Waits until the tree is over, or the given point of the plan; a deadline that
    /// is shortened meanwhile moves it.
    async fn over_by(&mut self, point: impl Fn(Plan, Deadline) -> Instant) -> bool {
        loop {
            let terms = *self.terms.borrow_and_update();
            let until = point(Plan::new(self.began, terms), terms.deadline);
            let shortened = async {
                if self.terms.changed().await.is_err() {
                    // Nobody can shorten it any more.
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                over = self.over.wait_for(|over| *over) => return over.is_ok(),
                () = sleep_until(until) => return false,
                () = shortened => {}
            }
        }
    }

    /// TERM to every member: by the warden, and without one by ourselves. What is left when
    /// the warden has ended is its keeper's, who was held until now.
    async fn ask(&mut self) {
        self.shared.hold.store(false, Relaxed);
        if let Some(warden) = self.shared.warden {
            // Somebody may have stopped it.
            os::resume(warden.pid, warden.start);
            // Our KILL comes before this time is over; if we should be gone by then, its does.
            let deadline = self.terms.borrow().deadline;
            self.shared.order(Order::Term(deadline.remaining()));
        } else {
            let ask = |shared: &Shared| os::ask(&shared.find(true));
            self.asked |= self.look("ask", ask).await > 0;
        }
    }

    /// KILL, by the warden and by ourselves, until none is left or the deadline.
    async fn kill(&mut self) -> Vec<ProcessId> {
        self.shared.order(Order::Kill);
        self.shared.close_job();
        if self.shared.warden.is_some() && self.over_by(Self::wardens_turn).await {
            return Vec::new();
        }
        let mut idle = 0;
        loop {
            let kill = |shared: &Shared| os::round(|| shared.find(true));
            let killed = self.look("kill", kill).await;
            self.forced.extend(killed.iter().map(ProcessId::from));
            idle = if killed.is_empty() { idle + 1 } else { 0 };
            if idle > IDLE_ROUNDS {
                self.kill_warden();
            }
            let next = Instant::now() + ROUND_PAUSE;
            if self.over_by(|_, deadline| next.min(deadline.instant())).await {
                return Vec::new();
            }
            if self.terms.borrow().deadline.is_over() {
                break;
            }
        }
        let last_look = Instant::now() + LAST_LOOK;
        if self.over_by(|_, _| last_look).await {
            return Vec::new();
        }
        let left = self.shared.census(true).await;
        left.iter().map(ProcessId::from).collect()
    }

    /// Does what reads files, off the runtime's threads, and not longer than the deadline:
    /// to look at a process that the system holds may take for ever.
    async fn look<T: Default + Send + 'static>(
        &self,
        what: &str,
        work: impl Fn(&Shared) -> T + Clone + Send + 'static,
    ) -> T {
        let until = self.terms.borrow().deadline.instant() + LAST_LOOK;
        let look = self.shared.blocking(what, work);
        tokio::time::timeout_at(until, look).await.unwrap_or_default()
    }

    /// The warden is the one that knows when nothing is left; two that freeze and kill the
    /// same processes at once only slow each other down. It gets the first half.
    fn wardens_turn(plan: Plan, deadline: Deadline) -> Instant {
        plan.kill + deadline.instant().saturating_duration_since(plan.kill) / 2
    }

    /// A warden that guards nothing any more and does not end either.
    fn kill_warden(&self) {
        if let Some(warden) = self.shared.warden {
            os::round(|| {
                os::stat(warden.pid).filter(|stat| stat.start == warden.start).into_iter().collect()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn phases_are_in_order_within_the_deadline(total in 0_u64..600_000) {
            let began = Instant::now();
            let terms = Terms::new(Deadline::at(began + Duration::from_millis(total)));
            let plan = Plan::new(began, terms);
            prop_assert!(began <= plan.term);
            prop_assert!(plan.term <= plan.kill);
            prop_assert!(plan.kill <= terms.deadline.instant());
            // A shorter deadline never makes a phase later.
            let half = Deadline::at(began + Duration::from_millis(total / 2));
            let shorter = Plan::new(began, Terms::new(half));
            prop_assert!(shorter.term <= plan.term && shorter.kill <= plan.kill);
        }
    }

    #[test]
    fn a_server_that_needs_two_seconds_for_term_gets_them_in_a_quit() {
        let began = Instant::now();
        let plan = Plan::new(began, Terms::new(Deadline::at(began + Duration::from_millis(3900))));
        assert!(plan.kill - plan.term >= Duration::from_millis(2100));
    }
}
