//! How a stdio server ends: one shutdown for every trigger.
//!
//! ```text
//! end of input ─┐                      ┌─ close: nothing new is dispatched
//! signal       ─┼─► Shutdown::begin ──►├─ drain: the Gate becomes idle
//! by hand      ─┘   (one shared future)└─ rest:  output, upstreams, store last
//! ```
//!
//! A step that fails is logged and the rest still runs. The whole takes at most the
//! budget given; the one deadline is handed to every step.

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use gantry_core::logging::StandardError;
use gantry_supervisor::Deadline;
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// Contract: a stdio server has ended at most this long after its input.
pub const BUDGET: Duration = Duration::from_secs(5);
/// Contract: with nothing in flight it has ended, its servers included, a tenth of a second
/// after its input. So much of that is for the servers.
pub const AT_REST: Duration = Duration::from_millis(80);
/// Of the budget, kept for what comes after the drain.
const AFTER_DRAIN: Duration = Duration::from_millis(700);

/// Counts the requests that run. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    state: Arc<watch::Sender<Running>>,
}

#[derive(Debug, Default)]
struct Running {
    closed: bool,
    /// Whether something ran when the gate was closed.
    was_busy: bool,
    next: u64,
    names: BTreeMap<u64, String>,
    /// Of these, what has its answer and is only on its way out.
    answered: BTreeSet<u64>,
}

/// A request that runs; dropping it, also by a panic, says that it is over.
#[derive(Debug)]
pub struct Pass {
    gate: Gate,
    number: u64,
}

impl Default for Gate {
    fn default() -> Self {
        Self { state: Arc::new(watch::Sender::new(Running::default())) }
    }
}

impl Gate {
    /// Lets a request in under a name for the log; `None` once the gate is closed.
    pub fn enter(&self, name: &str) -> Option<Pass> {
        let mut number = None;
        self.state.send_modify(|running| {
            if !running.closed {
                number = Some(running.next);
                running.names.insert(running.next, name.to_owned());
                running.next += 1;
            }
        });
        Some(Pass { gate: self.clone(), number: number? })
    }

    /// Nothing gets in any more.
    pub fn close(&self) {
        self.state.send_modify(|running| {
            running.was_busy |= !running.closed && running.names.len() > running.answered.len();
            running.closed = true;
        });
    }

    /// Whether something ran without an answer when the gate was closed.
    pub fn was_busy(&self) -> bool {
        self.state.borrow().was_busy
    }

    /// The names of what runs, oldest first.
    pub fn running(&self) -> Vec<String> {
        self.state.borrow().names.values().cloned().collect()
    }

    /// Waits until nothing runs.
    ///
    /// # Errors
    /// The names of what still ran at the deadline.
    pub async fn wait_for_idle(&self, deadline: Deadline) -> Result<(), Vec<String>> {
        let mut state = self.state.subscribe();
        let idle = state.wait_for(|running| running.names.is_empty());
        // The sender cannot go away: this gate holds it.
        match deadline.bound(idle).await {
            Ok(_) => Ok(()),
            Err(_) => Err(self.running()),
        }
    }
}

impl Pass {
    /// The answer is known. It counts as running until the answer is on its way.
    pub fn answered(&self) {
        self.gate.state.send_modify(|running| {
            running.answered.insert(self.number);
        });
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.state.send_modify(|running| {
            running.names.remove(&self.number);
            running.answered.remove(&self.number);
        });
    }
}

/// What ended the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// End of input.
    InputClosed,
    /// Nobody reads standard output any more.
    OutputClosed,
    /// SIGTERM, SIGINT or SIGHUP.
    Signal,
    /// The program itself: it has nothing left to do.
    Done,
}

impl Cause {
    fn words(self) -> &'static str {
        match self {
            Self::InputClosed => "stdin closed",
            Self::OutputClosed => "stdout closed",
            Self::Signal => "signal",
            Self::Done => "done",
        }
    }
}

type Run = Box<dyn FnOnce(Deadline) -> BoxFuture<'static, Result<(), String>> + Send>;

/// Something to be done on the way out.
pub struct Step {
    name: &'static str,
    run: Run,
}

impl Step {
    /// A step with a name for the log.
    pub fn new<F>(name: &'static str, run: impl FnOnce(Deadline) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        Self { name, run: Box::new(move |deadline| run(deadline).boxed()) }
    }
}

/// Says one line to the user; must not fail.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// Lines on standard error. One that is closed or full changes nothing.
pub fn stderr() -> Say {
    Arc::new(|line| StandardError.say(line))
}

/// What the steps are.
pub struct Steps {
    /// Before the drain: closes the transport.
    pub close: Vec<Step>,
    /// After it, in this order; the store last.
    pub rest: Vec<Step>,
}

/// The shutdown of one program. Clones are the same shutdown.
#[derive(Clone)]
pub struct Shutdown {
    inner: Arc<Inner>,
}

struct Inner {
    program: &'static str,
    gate: Gate,
    say: Say,
    steps: Mutex<Option<Steps>>,
    code: AtomicU8,
    running: OnceLock<Shared<BoxFuture<'static, u8>>>,
}

impl Shutdown {
    /// `program` begins the lines in the log (`gantry mcp`).
    pub fn new(program: &'static str, gate: Gate, say: Say, steps: Steps) -> Self {
        let (steps, code) = (Mutex::new(Some(steps)), AtomicU8::new(0));
        let running = OnceLock::new();
        Self { inner: Arc::new(Inner { program, gate, say, steps, code, running }) }
    }

    /// An exit code other than 0 that was decided before; the first one is kept.
    pub fn keep_code(&self, code: u8) {
        let _ = self.inner.code.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Ends the program in at most `budget`; returns the exit code. However often and for
    /// whatever it is called, there is one shutdown, the one that the first call described.
    pub fn begin(&self, cause: Cause, budget: Duration) -> impl Future<Output = u8> + use<> {
        let begin = || {
            let steps = self.inner.steps.lock().unwrap_or_else(PoisonError::into_inner).take();
            let (shutdown, deadline) = (self.clone(), Deadline::after(budget));
            async move { shutdown.run(cause, steps, deadline).await }.boxed().shared()
        };
        self.inner.running.get_or_init(begin).clone()
    }

    async fn run(self, cause: Cause, steps: Option<Steps>, deadline: Deadline) -> u8 {
        let inner = &self.inner;
        if cause != Cause::Done {
            inner.say(&format!("Shutting down ({})...", cause.words()));
        }
        inner.gate.close();
        let Steps { close, rest } = steps.unwrap_or(Steps { close: vec![], rest: vec![] });
        for step in close {
            inner.take(step, deadline).await;
        }
        let reserve = AFTER_DRAIN.min(deadline.remaining() / 2);
        let drain = Deadline::at(deadline.instant() - reserve);
        if let Err(left) = inner.gate.wait_for_idle(drain).await {
            inner.failed("drain", &format!("given up: {}", left.join(", ")));
        }
        for step in rest {
            inner.take(step, deadline).await;
        }
        inner.code.load(Ordering::Acquire)
    }
}

impl Inner {
    async fn take(&self, step: Step, deadline: Deadline) {
        let Step { name, run } = step;
        let work = async move { run(deadline).await };
        let result = match deadline.bound(AssertUnwindSafe(work).catch_unwind()).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err("it panicked".to_owned()),
            Err(_) => Err("it did not end in time".to_owned()),
        };
        if let Err(why) = result {
            self.failed(name, &why);
        }
    }

    fn failed(&self, step: &str, why: &str) {
        let _ = self.code.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
        self.say(&format!("{}: {step} failed during shutdown ({why}); continuing", self.program));
    }

    fn say(&self, line: &str) {
        // Whatever is wrong with the log must not stop the clean-up.
        let _ = std::panic::catch_unwind(AssertUnwindSafe(|| (self.say)(line)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<String>>>);

    impl Log {
        fn add(&self, line: impl Into<String>) {
            self.0.lock().expect("not poisoned").push(line.into());
        }
        fn lines(&self) -> Vec<String> {
            self.0.lock().expect("not poisoned").clone()
        }
        fn say(&self) -> Say {
            let log = self.clone();
            Arc::new(move |line| log.add(line))
        }
        fn step(&self, name: &'static str, result: Result<(), String>) -> Step {
            let log = self.clone();
            Step::new(name, move |_| async move {
                log.add(name);
                result
            })
        }
        fn steps(&self) -> Steps {
            let rest = ["output", "upstreams", "store"].map(|name| self.step(name, Ok(())));
            Steps { close: vec![self.step("transport", Ok(()))], rest: rest.into() }
        }
    }

    const ORDER: [&str; 5] =
        ["Shutting down (stdin closed)...", "transport", "output", "upstreams", "store"];

    #[tokio::test]
    async fn what_has_its_answer_does_not_count_as_busy_but_is_waited_for() {
        let gate = Gate::default();
        let pass = gate.enter("call 1").expect("open");
        pass.answered();
        gate.close();
        assert!(!gate.was_busy());
        assert_eq!(gate.running(), ["call 1"]);
        drop(pass);
        gate.wait_for_idle(Deadline::after(BUDGET)).await.expect("idle");

        let gate = Gate::default();
        let _passes = [gate.enter("call 2"), gate.enter("call 3").inspect(Pass::answered)];
        gate.close();
        assert!(gate.was_busy());
    }

    #[tokio::test(start_paused = true)]
    async fn the_steps_run_once_in_order_however_many_triggers() {
        let log = Log::default();
        let gate = Gate::default();
        let shutdown = Shutdown::new("gantry mcp", gate.clone(), log.say(), log.steps());
        let begun = Instant::now();
        let codes = futures::future::join_all([
            shutdown.begin(Cause::InputClosed, BUDGET),
            shutdown.begin(Cause::Signal, BUDGET),
            shutdown.begin(Cause::InputClosed, Duration::ZERO),
        ]);
        assert_eq!(codes.await, [0, 0, 0]);
        assert_eq!(shutdown.begin(Cause::Signal, BUDGET).await, 0);
        assert_eq!(log.lines(), ORDER);
        assert_eq!(begun.elapsed(), Duration::ZERO, "nothing in flight: nothing to wait for");
        assert!(gate.enter("late").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_waits_for_what_runs_and_a_signal_has_its_own_word() {
        let log = Log::default();
        let gate = Gate::default();
        let shutdown = Shutdown::new("gantry mcp", gate.clone(), log.say(), log.steps());
        let pass = gate.enter("1").expect("open");
        let finish = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            log.add("answered");
            drop(pass);
        };
        let (code, ()) = tokio::join!(shutdown.begin(Cause::Signal, BUDGET), finish);
        assert_eq!(code, 0);
        assert_eq!(
            log.lines(),
            ["Shutting down (signal)...", "transport", "answered", "output", "upstreams", "store"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_that_takes_too_long_is_given_up_by_name_within_the_budget() {
        let log = Log::default();
        let gate = Gate::default();
        let shutdown = Shutdown::new("gantry mcp", gate.clone(), log.say(), log.steps());
        let (_one, _two) = (gate.enter("tools/call 1"), gate.enter("tools/call \"b\""));
        let begun = Instant::now();
        assert_eq!(shutdown.begin(Cause::InputClosed, BUDGET).await, 1);
        assert!(begun.elapsed() <= BUDGET && begun.elapsed() > Duration::from_secs(4));
        let lines = log.lines();
        assert_eq!(
            lines[2],
            "gantry mcp: drain failed during shutdown (given up: tools/call 1, tools/call \"b\"); continuing"
        );
        assert_eq!(lines[3..], ["output", "upstreams", "store"]);
    }

    #[tokio::test(start_paused = true)]
    async fn each_step_may_fail_panic_or_hang_and_the_rest_still_runs() {
        for bad in 0..4 {
            for how in ["fails", "panics", "hangs"] {
                let log = Log::default();
                let mut steps = log.steps();
                let broken = Step::new("broken", move |_| async move {
                    match how {
                        "fails" => Err("no".to_owned()),
                        "panics" => panic!("as the test wants it"),
                        _ => std::future::pending().await,
                    }
                });
                if bad == 0 {
                    steps.close[0] = broken;
                } else {
                    steps.rest[bad - 1] = broken;
                }
                let shutdown = Shutdown::new("gantry mcp", Gate::default(), log.say(), steps);
                let begun = Instant::now();
                assert_eq!(shutdown.begin(Cause::InputClosed, BUDGET).await, 1, "{bad} {how}");
                assert!(begun.elapsed() <= BUDGET + Duration::from_millis(10), "{bad} {how}");
                let (said, ran): (Vec<_>, Vec<_>) =
                    log.lines().into_iter().skip(1).partition(|line| line.contains("failed"));
                // Steps behind one that used the whole budget are tried with what is left.
                let why = match how {
                    "fails" => "no",
                    "panics" => "it panicked",
                    _ => "it did not end in time",
                };
                let line = format!("gantry mcp: broken failed during shutdown ({why}); continuing");
                assert_eq!(said, [line], "{bad} {how}");
                let expected: Vec<_> = ORDER[1..]
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| *i != bad)
                    .map(|(_, n)| *n)
                    .collect();
                assert_eq!(ran, expected, "{bad} {how}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_code_is_kept_and_a_broken_log_changes_nothing() {
        let log = Log::default();
        let mut steps = log.steps();
        steps.rest[0] = log.step("output", Err("no".to_owned()));
        let say: Say = Arc::new(|_| panic!("stderr is gone"));
        let shutdown = Shutdown::new("gantry mcp", Gate::default(), say, steps);
        shutdown.keep_code(3);
        shutdown.keep_code(2);
        assert_eq!(shutdown.begin(Cause::InputClosed, BUDGET).await, 3);
        assert_eq!(log.lines(), ORDER[1..]);
    }

    #[tokio::test]
    async fn a_request_that_panics_leaves_the_gate() {
        let gate = Gate::default();
        let pass = gate.enter("x");
        let panics = std::panic::catch_unwind(AssertUnwindSafe(move || {
            let _pass = pass;
            panic!("as the test wants it");
        }));
        assert!(panics.is_err());
        assert_eq!(gate.running(), [""; 0]);
        assert_eq!(gate.wait_for_idle(Deadline::after(Duration::ZERO)).await, Ok(()));
    }
}
