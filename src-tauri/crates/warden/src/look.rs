//! Looking at processes that may not let themselves be looked at.
//!
//! A process's environment, command line and memory sums, on some kernels even its `stat`, lie
//! behind locks that it holds itself while it executes a program or changes its memory. One that
//! a file system without an answer keeps there keeps everybody waiting who looks, as long as it
//! takes (`ps` hangs, too), and it need not be ours. So another thread looks, and whoever does not
//! answer in time is left out until that thread has come back.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// How long the first process may keep a look waiting. A healthy one needs microseconds, but the
/// thread that looks may have to wait for its turn on a busy machine.
const PATIENCE: Duration = Duration::from_millis(250);
/// The same for those after it: where one is held, others are.
const LESS_PATIENCE: Duration = Duration::from_millis(25);
/// What is read lies on the heap.
const STACK: usize = 128 * 1024;

/// Processes that keep a thread of ours waiting now.
static HELD: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// What a thread that looks is at.
#[derive(Debug, Default)]
struct Turn {
    at: Option<u32>,
    given_up: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a process keeps a thread of ours waiting now.
pub fn is_held(pid: u32) -> bool {
    lock(&HELD).contains(&pid)
}

/// What `read` says of each process, without those that do not let it: it never waits for long.
pub fn each<T: Send + 'static>(
    pids: impl IntoIterator<Item = u32>,
    read: impl Fn(u32) -> T + Clone + Send + 'static,
) -> HashMap<u32, T> {
    let mut rest: Vec<u32> = {
        let held = lock(&HELD);
        pids.into_iter().filter(|pid| !held.contains(pid)).collect()
    };
    let mut found = HashMap::with_capacity(rest.len());
    let mut patience = PATIENCE;
    while !rest.is_empty() {
        let turn = Arc::new(Mutex::new(Turn::default()));
        let (sender, answers) = mpsc::channel();
        let (batch, looking) = (rest.clone(), (Arc::clone(&turn), read.clone()));
        let look = move || look_at(&batch, &looking.0, &looking.1, &sender);
        let thread = thread::Builder::new().name("look".into()).stack_size(STACK).spawn(look);
        if thread.is_err() {
            // No thread is to be had, because of somebody's fork bomb for instance, and that has
            // to be ended now.
            found.extend(rest.into_iter().map(|pid| (pid, read(pid))));
            return found;
        }
        let Some(held) = listen(&turn, &answers, patience, &mut found) else { return found };
        rest.retain(|pid| *pid != held && !found.contains_key(pid));
        patience = LESS_PATIENCE;
    }
    found
}

/// The life of a thread that looks.
fn look_at<T>(
    pids: &[u32],
    turn: &Mutex<Turn>,
    read: &impl Fn(u32) -> T,
    sender: &mpsc::Sender<(u32, T)>,
) {
    for pid in pids {
        lock(turn).at = Some(*pid);
        let answer = read(*pid);
        // The answer is given under the lock, so that it is either there or given up.
        let turn = lock(turn);
        if turn.given_up {
            lock(&HELD).remove(pid);
            return;
        }
        if sender.send((*pid, answer)).is_err() {
            return;
        }
    }
}

/// Takes the answers until all are there, or one does not come: that process is returned.
fn listen<T>(
    turn: &Mutex<Turn>,
    answers: &mpsc::Receiver<(u32, T)>,
    patience: Duration,
    found: &mut HashMap<u32, T>,
) -> Option<u32> {
    loop {
        match answers.recv_timeout(patience) {
            Ok((pid, answer)) => drop(found.insert(pid, answer)),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                let mut turn = lock(turn);
                found.extend(answers.try_iter());
                if let Some(pid) = turn.at.filter(|pid| !found.contains_key(pid)) {
                    turn.given_up = true;
                    lock(&HELD).insert(pid);
                    return Some(pid);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, time::Instant};

    /// Numbers that no process has.
    const NOBODY: u32 = 1 << 24;

    #[test]
    fn each_is_asked_once() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let note = Arc::clone(&asked);
        let found = each(NOBODY..NOBODY + 100, move |pid| {
            lock(&note).push(pid);
            pid + 1
        });
        assert_eq!(*lock(&asked), (NOBODY..NOBODY + 100).collect::<Vec<_>>());
        assert!((NOBODY..NOBODY + 100).all(|pid| found.get(&pid) == Some(&(pid + 1))));
        assert_eq!(each([], |pid| pid), HashMap::new());
    }

    #[test]
    fn those_that_do_not_answer_are_left_out_until_they_do() {
        let pids: Vec<u32> = (NOBODY + 200..NOBODY + 220).collect();
        let held = [pids[3], pids[4], pids[19]];
        let gate = Arc::new(Mutex::new(()));
        let closed = lock(&gate);
        let (told, asked) = mpsc::channel();
        let look = {
            let gate = Arc::clone(&gate);
            move |pid| {
                told.send(pid).unwrap();
                if held.contains(&pid) {
                    drop(lock(&gate));
                }
                pid
            }
        };
        let began = Instant::now();
        let found = each(pids.clone(), look.clone());
        assert_eq!(found.len(), 17, "{found:?}");
        assert!(held.iter().all(|pid| !found.contains_key(pid)));
        assert!(began.elapsed() < Duration::from_secs(5));
        asked.try_iter().for_each(drop);
        // Nobody asks them again meanwhile.
        assert_eq!(each(pids.clone(), look.clone()).len(), 17);
        assert!(asked.try_iter().all(|pid| !held.contains(&pid)));
        drop(closed);
        let until = Instant::now() + Duration::from_secs(20);
        while each(pids.clone(), look.clone()).len() < 20 {
            assert!(Instant::now() < until, "they are left out for ever");
            thread::yield_now();
        }
    }
}
