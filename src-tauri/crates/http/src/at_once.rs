//! A task that wakes itself goes on at once.

use futures::task::AtomicWaker;
use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// How often it goes on before the others of its thread have their turn.
const MOST: usize = 4;

/// It is not being polled: a wake is for the runtime.
const ASLEEP: u8 = 0;
/// It is being polled.
const AT_WORK: u8 = 1;
/// It was woken while it was being polled.
const WOKEN: u8 = 2;

/// Runs `work`, and polls it again at once when it was woken during a poll. A connection of hyper
/// wakes itself in the middle of every request with a body. The runtime would queue it behind
/// the others and wake a second thread to see to them, which costs a request more than all that
/// is done for it here; to go on costs nothing.
pub(crate) async fn at_once<F: Future>(work: F) -> F::Output {
    let alarm = Arc::new(Alarm { task: AtomicWaker::new(), state: AtomicU8::new(ASLEEP) });
    let waker = Waker::from(alarm.clone());
    let mut work = pin!(work);
    std::future::poll_fn(move |task| alarm.poll(work.as_mut(), &waker, task)).await
}

struct Alarm {
    /// The one of the runtime.
    task: AtomicWaker,
    state: AtomicU8,
}

impl Alarm {
    fn poll<F: Future>(
        &self,
        mut work: Pin<&mut F>,
        waker: &Waker,
        task: &Context<'_>,
    ) -> Poll<F::Output> {
        self.task.register(task.waker());
        for _ in 0..MOST {
            self.state.store(AT_WORK, Ordering::SeqCst);
            if let Poll::Ready(output) = work.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            let rest =
                self.state.compare_exchange(AT_WORK, ASLEEP, Ordering::SeqCst, Ordering::SeqCst);
            if rest.is_ok() {
                return Poll::Pending;
            }
        }
        self.state.store(ASLEEP, Ordering::SeqCst);
        task.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let wake = |state| (state != ASLEEP).then_some(WOKEN);
        if self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, wake).is_err() {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::Cell, time::Duration};
    use tokio::sync::{Semaphore, mpsc};

    /// Counts how often it was polled.
    fn counted<F: Future>(work: F, polls: &Cell<usize>) -> impl Future<Output = F::Output> {
        let mut work = Box::pin(work);
        std::future::poll_fn(move |context| {
            polls.set(polls.get() + 1);
            work.as_mut().poll(context)
        })
    }

    async fn wakes_itself(times: usize) {
        for _ in 0..times {
            let mut again = true;
            std::future::poll_fn(|context| {
                if std::mem::take(&mut again) {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
            .await;
        }
    }

    #[tokio::test]
    async fn who_wakes_itself_goes_on_at_once_but_not_for_ever() {
        for (times, most) in [(0, 1), (1, 1), (MOST - 1, 1), (MOST, 2), (10 * MOST, 11)] {
            let polls = Cell::new(0);
            counted(at_once(wakes_itself(times)), &polls).await;
            assert_eq!(polls.get(), most, "{times}");
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a test owns its tasks itself")]
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_from_elsewhere_is_lost() {
        const MESSAGES: u32 = 200_000;
        let (sender, mut messages) = mpsc::channel(1);
        let turns = Arc::new(Semaphore::new(0));
        let theirs = turns.clone();
        let there = tokio::spawn(at_once(async move {
            for message in 0..MESSAGES {
                sender.send(message).await.expect("it is read");
                theirs.add_permits(1);
            }
        }));
        let here = tokio::spawn(at_once(async move {
            for expected in 0..MESSAGES {
                assert_eq!(messages.recv().await, Some(expected));
                turns.acquire().await.expect("it is open").forget();
            }
        }));
        let both = async { (there.await, here.await) };
        let (there, here) =
            tokio::time::timeout(Duration::from_secs(60), both).await.expect("a wake was lost");
        there.expect("sent");
        here.expect("received");
    }
}
