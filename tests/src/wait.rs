//! Waiting on a state, with a bound.

use std::{
    future::Future,
    time::{Duration, Instant},
};

/// Asks `state` again and again (every 10 ms) until it gives a value.
///
/// # Panics
/// When `bound` has passed: the message names `what`.
pub async fn wait_until<T, F>(what: &str, bound: Duration, mut state: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let began = Instant::now();
    let asking = async {
        loop {
            if let Some(value) = state().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    // Also when one question gets no answer at all.
    match tokio::time::timeout(bound, asking).await {
        Ok(value) => value,
        Err(_) => panic!("not within {bound:?} ({:?}): {what}", began.elapsed()),
    }
}
