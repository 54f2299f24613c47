//! The owner of a set of named tasks (rule 3).

use crate::Deadline;
use futures::FutureExt;
use std::{
    any::Any,
    collections::BTreeMap,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::{
    sync::{oneshot, watch},
    task::AbortHandle,
};
use tokio_util::sync::CancellationToken;

/// The owner of a set of tasks. Cloning gives another handle to the same owner.
#[derive(Clone, Debug)]
pub struct Scope {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// `parent/child`.
    name: String,
    token: CancellationToken,
    state: Mutex<State>,
    /// Changes whenever a task ends.
    ended: watch::Sender<u64>,
    /// A child tells its parent's waiters too.
    parent: Option<Arc<Inner>>,
}

#[derive(Debug, Default)]
struct State {
    closing: bool,
    next: u64,
    tasks: BTreeMap<u64, Entry>,
    children: Vec<Weak<Inner>>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    /// Empty for the moment between registration and start.
    abort: Option<AbortHandle>,
}

/// The result of a task that a scope owns. Dropping it does not end the task.
#[derive(Debug)]
pub struct Task<T> {
    result: oneshot::Receiver<T>,
}

impl<T> Task<T> {
    /// The task's result, or `None` when it was aborted or panicked, or never
    /// started because its scope was closing.
    pub async fn join(self) -> Option<T> {
        self.result.await.ok()
    }
}

/// Takes the task off its scope's list however it ends: done, panicked, aborted.
struct Registered {
    inner: Arc<Inner>,
    id: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.inner.lock().tasks.remove(&self.id);
        let mut scope = Some(&self.inner);
        while let Some(inner) = scope {
            inner.ended.send_modify(|count| *count += 1);
            scope = inner.parent.as_ref();
        }
    }
}

impl Inner {
    fn new(name: String, token: CancellationToken, parent: Option<Arc<Inner>>) -> Arc<Self> {
        Arc::new(Self {
            name,
            token,
            state: Mutex::default(),
            ended: watch::Sender::new(0),
            parent,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code of others runs under the lock, so a poisoned state is a whole one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This scope and all scopes below it that still exist.
    fn family(self: &Arc<Self>) -> Vec<Arc<Self>> {
        let mut family = vec![Arc::clone(self)];
        let mut next = 0;
        while let Some(inner) = family.get(next) {
            let children: Vec<_> = inner.lock().children.iter().filter_map(Weak::upgrade).collect();
            family.extend(children);
            next += 1;
        }
        family
    }

    fn names(self: &Arc<Self>) -> Vec<String> {
        let mut names = Vec::new();
        for inner in self.family() {
            let state = inner.lock();
            names.extend(state.tasks.values().map(|task| format!("{}/{}", inner.name, task.name)));
        }
        names
    }

    fn register(self: &Arc<Self>, name: &str) -> Option<Registered> {
        let mut state = self.lock();
        if state.closing {
            return None;
        }
        state.next += 1;
        let id = state.next;
        state.tasks.insert(id, Entry { name: name.to_owned(), abort: None });
        Some(Registered { inner: Arc::clone(self), id })
    }

    fn started(&self, id: u64, abort: AbortHandle) {
        // It may be over already.
        if let Some(entry) = self.lock().tasks.get_mut(&id) {
            entry.abort = Some(abort);
        }
    }

    fn report_panic(&self, task: &str, panic: &(dyn Any + Send)) {
        let message = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        tracing::error!(task = %format_args!("{}/{task}", self.name), "a task panicked: {message}");
    }
}

impl Scope {
    /// A scope without a parent.
    pub fn root(name: impl Into<String>) -> Self {
        Self { inner: Inner::new(name.into(), CancellationToken::new(), None) }
    }

    /// A scope that is cancelled with this one, and closed by [`Scope::close`] of this one.
    pub fn child(&self, name: impl Into<String>) -> Self {
        let name = format!("{}/{}", self.inner.name, name.into());
        let token = self.inner.token.child_token();
        let inner = Inner::new(name, token, Some(Arc::clone(&self.inner)));
        let mut state = self.inner.lock();
        inner.lock().closing = state.closing;
        state.children.retain(|child| child.strong_count() > 0);
        state.children.push(Arc::downgrade(&inner));
        drop(state);
        Self { inner }
    }

    /// Its full name: `parent/child`.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Starts `work` as a task of this scope. After [`Scope::close`] began it is not started.
    /// A panic is logged with the task's name and does not spread.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: impl Into<String>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        let (sender, result) = oneshot::channel();
        self.start(name.into(), work, sender);
        Task { result }
    }

    /// The same, but says whether it was started.
    pub(crate) fn try_spawn<T: Send + 'static>(
        &self,
        name: impl Into<String>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<Task<T>> {
        let (sender, result) = oneshot::channel();
        self.start(name.into(), work, sender).then_some(Task { result })
    }

    fn start<T: Send + 'static>(
        &self,
        name: String,
        work: impl Future<Output = T> + Send + 'static,
        sender: oneshot::Sender<T>,
    ) -> bool {
        let Some(registered) = self.inner.register(&name) else { return false };
        let id = registered.id;
        let task = async move {
            // Moved in, so that an abort drops it too.
            let registered = registered;
            match AssertUnwindSafe(work).catch_unwind().await {
                // Nobody may be waiting.
                Ok(value) => drop(sender.send(value)),
                Err(panic) => registered.inner.report_panic(&name, &*panic),
            }
        };
        #[expect(clippy::disallowed_methods, reason = "rule 3: the one place where tasks start")]
        let handle = tokio::spawn(task);
        self.inner.started(id, handle.abort_handle());
        true
    }

    /// Runs blocking `work` on the runtime's blocking pool, owned like a task. It
    /// cannot be aborted: [`Scope::close`] only names it.
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        name: impl Into<String>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Task<T> {
        let (sender, result) = oneshot::channel();
        let name = name.into();
        let Some(registered) = self.inner.register(&name) else { return Task { result } };
        let id = registered.id;
        let task = move || {
            let registered = registered;
            match std::panic::catch_unwind(AssertUnwindSafe(work)) {
                Ok(value) => drop(sender.send(value)),
                Err(panic) => registered.inner.report_panic(&name, &*panic),
            }
        };
        #[expect(clippy::disallowed_methods, reason = "rule 3: the one place where tasks start")]
        let handle = tokio::task::spawn_blocking(task);
        self.inner.started(id, handle.abort_handle());
        Task { result }
    }

    /// Asks the tasks of this scope and of its children to end.
    pub fn cancel(&self) {
        self.inner.token.cancel();
    }

    /// Whether [`Scope::cancel`] was called here or above.
    pub fn is_cancelled(&self) -> bool {
        self.inner.token.is_cancelled()
    }

    /// Resolves when [`Scope::cancel`] is called here or above.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        self.inner.token.clone().cancelled_owned()
    }

    /// Cancels, waits for the tasks of this scope and its children until the
    /// deadline, then aborts the rest and returns their full names
    /// (`parent/child/task`). A task must not close its own scope: it would wait
    /// for itself.
    pub async fn close(&self, deadline: Deadline) -> Vec<String> {
        for inner in self.inner.family() {
            inner.lock().closing = true;
        }
        self.cancel();
        let mut ended = self.inner.ended.subscribe();
        let all_ended =
            async { while !self.inner.names().is_empty() && ended.changed().await.is_ok() {} };
        if deadline.bound(all_ended).await.is_ok() {
            return Vec::new();
        }
        let stuck = self.inner.names();
        for inner in self.inner.family() {
            for task in inner.lock().tasks.values() {
                task.abort.as_ref().inspect(|abort| abort.abort());
            }
        }
        stuck
    }

    /// Full names of the tasks that are running now.
    pub fn tasks(&self) -> Vec<String> {
        self.inner.names()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn soon() -> Deadline {
        Deadline::after(Duration::from_secs(5))
    }

    #[tokio::test]
    async fn close_waits_for_tasks_that_heed_the_cancellation() {
        let scope = Scope::root("app");
        let child = scope.child("bridge");
        let cancelled = child.cancelled();
        let task = child.spawn("listen", async move {
            cancelled.await;
            "ended"
        });
        assert_eq!(scope.tasks(), ["app/bridge/listen"]);
        assert_eq!(scope.close(soon()).await, Vec::<String>::new());
        assert_eq!(task.join().await, Some("ended"));
        assert!(child.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn close_names_and_aborts_the_stuck_ones() {
        let scope = Scope::root("app");
        let stuck = scope.child("bridge").spawn("stuck", std::future::pending::<()>());
        let names = scope.close(Deadline::after(Duration::from_millis(100))).await;
        assert_eq!(names, ["app/bridge/stuck"]);
        assert_eq!(stuck.join().await, None);
        assert_eq!(scope.tasks(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn nothing_starts_after_close_began() {
        let scope = Scope::root("app");
        let early = scope.child("early");
        scope.close(soon()).await;
        assert_eq!(scope.spawn("late", async { 1 }).join().await, None);
        assert_eq!(early.spawn("late", async { 1 }).join().await, None);
        assert_eq!(scope.child("late").spawn("task", async { 1 }).join().await, None);
        assert_eq!(scope.spawn_blocking("late", || 1).join().await, None);
    }

    #[tokio::test]
    async fn a_panic_stays_in_its_task() {
        let scope = Scope::root("app");
        let bad: Task<()> = scope.spawn("bad", async { panic!("on purpose") });
        let worse: Task<()> = scope.spawn_blocking("worse", || panic!("on purpose"));
        assert_eq!(bad.join().await, None);
        assert_eq!(worse.join().await, None);
        assert_eq!(scope.spawn("good", async { 1 }).join().await, Some(1));
        assert_eq!(scope.close(soon()).await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn cancelling_a_child_leaves_its_parent() {
        let scope = Scope::root("app");
        let child = scope.child("one");
        child.cancel();
        child.cancelled().await;
        assert!(!scope.is_cancelled());
    }
}
