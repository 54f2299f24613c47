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
    loop {
        if let Some(value) = state().await {
            return value;
        }
        assert!(began.elapsed() < bound, "not within {bound:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
