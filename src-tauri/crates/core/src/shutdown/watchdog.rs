//! The last resort: a plain thread that needs neither runtime nor event loop.

use std::{
    io::Write as _,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError::Disconnected, RecvTimeoutError::Timeout},
    },
    time::{Duration, Instant},
};

/// How long the last kill may take.
const LAST_KILL: Duration = Duration::from_millis(200);
/// How long writing down why may take: the disk may not answer.
const LAST_NOTE: Duration = Duration::from_millis(50);
/// How much longer than its limit the last kill is waited for.
const SLACK: Duration = Duration::from_millis(50);
/// How long the last words may take: nobody may be reading them.
const LAST_WORDS: Duration = Duration::from_millis(50);
/// All of it.
const LAST_DEEDS: Duration = Duration::from_millis(350);

/// What the watchdog is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The user asked a third time: end now.
    ExitNow,
    /// The clean-up is over; what is left is the host's way out of `main`.
    Over,
}

/// What the watchdog does when nobody else ends the process.
pub(super) trait LastResort: Send + Sync + 'static {
    /// Kills what we started, in at most `limit`; says which processes are left.
    fn kill(&self, limit: Duration) -> Vec<u32>;
    /// Writes down why, for the next start; `left` is not known when the kill did not end.
    fn note(&self, why: &str, left: Option<Vec<u32>>);
    /// Ends the process.
    fn exit(&self);
}

/// Starts the thread. If the process still runs after `limit`, or somebody asks for it on the
/// returned channel, it kills what we started and ends the process with code 1.
pub(super) fn start(last: impl LastResort, limit: Duration) -> mpsc::Sender<Word> {
    let (sender, words) = mpsc::channel();
    let last = Arc::new(last);
    let watch = move || {
        if let Some(why) = wait(&words, limit.saturating_sub(LAST_DEEDS)) {
            let deeds = Arc::clone(&last);
            let left = within(LAST_KILL + SLACK, move || deeds.kill(LAST_KILL));
            let count = match &left {
                Some(left) => format!("{} processes left", left.len()),
                None => "what is left is not known".to_owned(),
            };
            let deeds = Arc::clone(&last);
            within(LAST_NOTE, move || deeds.note(why, left));
            let words = format!("gantry: shutdown cut short: {why}; {count}\n");
            within(LAST_WORDS, move || drop(std::io::stderr().write_all(words.as_bytes())));
            last.exit();
        }
    };
    if let Err(error) = std::thread::Builder::new().name("watchdog".into()).spawn(watch) {
        tracing::error!("the shutdown's watchdog could not be started: {error}");
    }
    sender
}

/// Why the process must be ended from here; `None` when it ends by itself.
fn wait(words: &mpsc::Receiver<Word>, limit: Duration) -> Option<&'static str> {
    let until = Instant::now() + limit;
    let mut is_over = false;
    loop {
        match words.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Word::Over) => is_over = true,
            Ok(Word::ExitNow) => return Some("asked a third time"),
            Err(Timeout) if is_over => return Some("the program did not end after its clean-up"),
            Err(Timeout) => return Some("the clean-up took too long"),
            // The host has let go of everything and is on its way out.
            Err(Disconnected) if is_over => return None,
            // The coordinator is gone without an end: nobody else will see to it.
            Err(Disconnected) => return Some("the clean-up was abandoned"),
        }
    }
}

/// Does something that may hang, on a thread of its own, and waits no longer than this.
fn within<T: Send + 'static>(
    limit: Duration,
    deed: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = mpsc::channel();
    let deed = move || drop(done.send(deed()));
    // Without a thread it is left undone: the process ends in any case.
    std::thread::Builder::new().spawn(deed).ok()?;
    result.recv_timeout(limit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells the test instead of ending its process.
    struct Told(mpsc::Sender<String>);

    impl LastResort for Told {
        fn kill(&self, limit: Duration) -> Vec<u32> {
            assert_eq!(limit, LAST_KILL);
            self.0.send("kill".into()).unwrap();
            vec![7, 8]
        }
        fn note(&self, why: &str, left: Option<Vec<u32>>) {
            self.0.send(format!("{why}, {} left", left.unwrap().len())).unwrap();
        }
        fn exit(&self) {
            self.0.send("exit".into()).unwrap();
        }
    }

    /// Everything that it tries to do hangs.
    struct Hung(mpsc::Sender<String>);

    impl LastResort for Hung {
        fn kill(&self, _: Duration) -> Vec<u32> {
            loop {
                std::thread::park();
            }
        }
        fn note(&self, why: &str, left: Option<Vec<u32>>) {
            self.0.send(format!("{why}, {left:?}")).unwrap();
            self.kill(LONG);
        }
        fn exit(&self) {
            self.0.send("exit".into()).unwrap();
        }
    }

    #[test]
    fn a_kill_that_hangs_keeps_nobody_from_leaving() {
        let (sender, deeds) = mpsc::channel();
        let began = Instant::now();
        let _words = start(Hung(sender), SHORT);
        assert_eq!(deeds.recv_timeout(LONG).unwrap(), "the clean-up took too long, None");
        assert_eq!(deeds.recv_timeout(LONG).unwrap(), "exit");
        assert!(began.elapsed() < LONG / 2);
    }

    /// Everything that it does after `words` were said and, unless `keep`, the sender dropped.
    fn deeds(limit: Duration, said: &[Word], keep: bool) -> (Vec<String>, Duration) {
        let (sender, deeds) = mpsc::channel();
        let began = Instant::now();
        let words = start(Told(sender), limit);
        for word in said {
            words.send(*word).unwrap();
        }
        let kept = keep.then_some(words);
        // Ends when the thread has.
        let all = deeds.iter().collect();
        drop(kept);
        (all, began.elapsed())
    }

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(400);

    #[test]
    fn a_clean_end_is_left_alone() {
        assert_eq!(deeds(LONG, &[Word::Over], false).0, [] as [&str; 0]);
    }

    #[test]
    fn a_clean_up_that_hangs_is_cut_short_in_time() {
        let (deeds, took) = deeds(SHORT, &[], true);
        assert_eq!(deeds, ["kill", "the clean-up took too long, 2 left", "exit"]);
        assert!(took >= SHORT - LAST_DEEDS, "{took:?}");
    }

    #[test]
    fn a_third_request_does_not_wait() {
        let (deeds, took) = deeds(LONG, &[Word::ExitNow], true);
        assert_eq!(deeds, ["kill", "asked a third time, 2 left", "exit"]);
        assert!(took < LONG / 2, "{took:?}");
    }

    #[test]
    fn a_clean_up_that_is_dropped_is_made_good() {
        let (deeds, _) = deeds(LONG, &[], false);
        assert_eq!(deeds, ["kill", "the clean-up was abandoned, 2 left", "exit"]);
    }

    #[test]
    fn a_host_that_does_not_leave_after_the_clean_up_is_ended() {
        let (deeds, _) = deeds(SHORT, &[Word::Over], true);
        assert_eq!(deeds[1], "the program did not end after its clean-up, 2 left");
    }
}
