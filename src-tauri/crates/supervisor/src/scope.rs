//! The owner of a set of named tasks (rule 3).

use crate::Deadline;
use std::future::Future;

/// The owner of a set of tasks. Cloning gives another handle to the same owner.
#[derive(Clone, Debug)]
pub struct Scope {}

/// The result of a task that a scope owns. Dropping it does not end the task.
#[derive(Debug)]
pub struct Task<T> {
    result: tokio::sync::oneshot::Receiver<T>,
}

impl<T> Task<T> {
    /// The task's result, or `None` when it was aborted or panicked.
    pub async fn join(self) -> Option<T> {
        self.result.await.ok()
    }
}

impl Scope {
    /// A scope without a parent.
    pub fn root(name: impl Into<String>) -> Self {
        unimplemented!()
    }

    /// A scope that is cancelled with this one, and closed by [`Scope::close`] of this one.
    pub fn child(&self, name: impl Into<String>) -> Self {
        unimplemented!()
    }

    /// Starts `work` as a task of this scope. After [`Scope::close`] began it is not started.
    /// A panic is logged with the task's name and does not spread.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: impl Into<String>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        unimplemented!()
    }

    /// Runs blocking `work` on the runtime's blocking pool, owned like a task.
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        name: impl Into<String>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Task<T> {
        unimplemented!()
    }

    /// Asks the tasks of this scope and of its children to end.
    pub fn cancel(&self) {
        unimplemented!()
    }

    /// Whether [`Scope::cancel`] was called here or above.
    pub fn is_cancelled(&self) -> bool {
        unimplemented!()
    }

    /// Resolves when [`Scope::cancel`] is called here or above.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }

    /// Cancels, waits for the tasks of this scope and its children until the
    /// deadline, then aborts the rest and returns their full names
    /// (`parent/child/task`).
    pub async fn close(&self, deadline: Deadline) -> Vec<String> {
        unimplemented!()
    }

    /// Full names of the tasks that are running now.
    pub fn tasks(&self) -> Vec<String> {
        unimplemented!()
    }
}
