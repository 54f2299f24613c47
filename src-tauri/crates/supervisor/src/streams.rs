//! A child's three streams.

use crate::os::{OutputPipe, StdinPipe};
use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    sync::watch,
};

/// A child's standard input ([`tokio::io::AsyncWrite`]). The tree holds a second handle, so
/// that a stop can close it while somebody is writing; a write is then refused with
/// [`io::ErrorKind::BrokenPipe`].
#[derive(Debug)]
pub struct Stdin {
    slot: Arc<StdinSlot>,
}

/// The pipe, or nothing once it is closed.
#[derive(Debug)]
pub(crate) struct StdinSlot {
    state: Mutex<StdinState>,
}

#[derive(Debug)]
struct StdinState {
    pipe: Option<StdinPipe>,
    /// Whoever waits for room in the pipe.
    waiting: Option<Waker>,
}

impl StdinSlot {
    pub(crate) fn new(pipe: StdinPipe) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(StdinState { pipe: Some(pipe), waiting: None }) })
    }

    fn lock(&self) -> MutexGuard<'_, StdinState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes it, whoever is writing.
    pub(crate) fn close(&self) {
        let (pipe, waiting) = {
            let mut state = self.lock();
            (state.pipe.take(), state.waiting.take())
        };
        drop(pipe);
        // The pipe's own registration is gone with it and wakes nobody.
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    fn poll<T>(
        &self,
        context: &mut Context<'_>,
        work: impl FnOnce(Pin<&mut StdinPipe>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let mut state = self.lock();
        let Some(pipe) = state.pipe.as_mut() else {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "the program's standard input was closed",
            )));
        };
        let poll = work(Pin::new(pipe), context);
        state.waiting = poll.is_pending().then(|| context.waker().clone());
        poll
    }
}

impl Stdin {
    pub(crate) fn new(slot: Arc<StdinSlot>) -> Self {
        Self { slot }
    }
}

impl Drop for Stdin {
    fn drop(&mut self) {
        self.slot.close();
    }
}

impl AsyncWrite for Stdin {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.slot.poll(context, |pipe, context| pipe.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.slot.poll(context, |pipe, context| pipe.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.slot.close();
        Poll::Ready(Ok(()))
    }
}

/// A child's standard output ([`tokio::io::AsyncRead`]).
pub struct Stdout {
    pipe: OutputPipe,
}

impl std::fmt::Debug for Stdout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stdout").finish_non_exhaustive()
    }
}

impl Stdout {
    pub(crate) fn new(pipe: OutputPipe) -> Self {
        Self { pipe }
    }
}

impl AsyncRead for Stdout {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_read(context, buffer)
    }
}

/// The most lines that a tail keeps.
const TAIL_LINES: usize = 500;
/// The most bytes that a tail keeps.
const TAIL_BYTES: usize = 256 * 1024;
/// What is kept of one line; the rest of it is dropped.
const LINE_BYTES: usize = 8 * 1024;

/// See [`StderrTail::settled`].
const SILENCE: Duration = Duration::from_millis(100);
const SETTLED: Duration = Duration::from_millis(500);

/// The last lines of a child's standard error, bounded (500 lines, 256 KiB, 8 KiB a
/// line). Clones share the tail.
#[derive(Clone, Debug)]
pub struct StderrTail {
    ring: Arc<Mutex<Ring>>,
    seen: watch::Receiver<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<String>,
    bytes: usize,
    seen: u64,
}

impl StderrTail {
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last `count` lines, oldest first, without line ends.
    pub fn lines(&self, count: usize) -> Vec<String> {
        let ring = self.lock();
        ring.lines.iter().skip(ring.lines.len().saturating_sub(count)).cloned().collect()
    }

    /// The number of lines seen so far; grows with each line (to follow the log).
    pub fn seen(&self) -> u64 {
        self.lock().seen
    }

    /// The lines after the first `seen` ones, as far as they are still kept, and the
    /// new value of [`StderrTail::seen`].
    pub fn since(&self, seen: u64) -> (Vec<String>, u64) {
        let ring = self.lock();
        let new = usize::try_from(ring.seen.saturating_sub(seen)).unwrap_or(usize::MAX);
        let lines = ring.lines.iter().skip(ring.lines.len().saturating_sub(new)).cloned().collect();
        (lines, ring.seen)
    }

    /// Resolves once more than `seen` lines were seen; `false` when no more will come.
    pub async fn grown(&self, seen: u64) -> bool {
        self.seen.clone().wait_for(|now| *now > seen).await.is_ok()
    }

    /// Waits until the last words of a program that has ended were read: for the end of the
    /// stream, or, where another process still holds it, until nothing came for 100 ms. Half a
    /// second at most.
    pub async fn settled(&self) {
        let settle = async {
            loop {
                let more = self.grown(self.seen());
                match tokio::time::timeout(SILENCE, more).await {
                    Ok(true) => {}
                    Ok(false) | Err(_) => return,
                }
            }
        };
        let _ = tokio::time::timeout(SETTLED, settle).await;
    }
}

impl Ring {
    fn push(&mut self, line: String) {
        self.seen += 1;
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.lines.len() > TAIL_LINES || self.bytes > TAIL_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }
}

/// Cuts bytes into lines of a bounded length.
#[derive(Default)]
struct Cutter {
    line: Vec<u8>,
}

impl Cutter {
    fn feed(&mut self, mut bytes: &[u8], mut take: impl FnMut(String)) {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            self.extend(&bytes[..end]);
            take(self.cut());
            bytes = &bytes[end + 1..];
        }
        self.extend(bytes);
    }

    fn extend(&mut self, bytes: &[u8]) {
        let room = LINE_BYTES.saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }

    fn cut(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        String::from_utf8_lossy(line).into_owned()
    }
}

/// A tail, and the work that fills it: runs until the end of the stream, or until
/// `over` resolves and what was written by then is read.
pub(crate) fn drain(
    mut pipe: OutputPipe,
    over: impl Future<Output = ()> + Send + 'static,
) -> (StderrTail, impl Future<Output = ()> + Send + 'static) {
    let (seen, receiver) = watch::channel(0);
    let tail = StderrTail { ring: Arc::default(), seen: receiver };
    let ring = Arc::clone(&tail.ring);
    let work = async move {
        let mut cutter = Cutter::default();
        let mut buffer = vec![0; 8 * 1024];
        let push = |line| {
            let mut ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
            ring.push(line);
            seen.send_replace(ring.seen);
        };
        tokio::pin!(over);
        loop {
            // Reading comes first: a stream with something in it wins over the end.
            let read = tokio::select! {
                biased;
                read = pipe.read(&mut buffer) => read,
                // Somebody outside the tree may hold the other end for ever.
                () = &mut over => break,
            };
            match read {
                Ok(0) | Err(_) => break,
                Ok(length) => cutter.feed(&buffer[..length], push),
            }
        }
        if !cutter.line.is_empty() {
            push(cutter.cut());
        }
    };
    (tail, work)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]]) -> Vec<String> {
        let mut cutter = Cutter::default();
        let mut lines = Vec::new();
        for chunk in chunks {
            cutter.feed(chunk, |line| lines.push(line));
        }
        lines
    }

    #[test]
    fn lines_are_cut_wherever_the_chunks_end() {
        assert_eq!(cut(&[b"on", b"e\ntwo\r\n", b"\n", b"unfinished"]), ["one", "two", ""]);
        assert_eq!(cut(&[b"\xff\xfe\n"]), ["\u{fffd}\u{fffd}"]);
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let mut cutter = Cutter::default();
        for _ in 0..1000 {
            cutter.feed(&[b'x'; 1024], |_| panic!("no line has ended"));
        }
        assert_eq!(cutter.line.len(), LINE_BYTES);
    }

    #[test]
    fn the_ring_is_bounded_and_counts_on() {
        let mut ring = Ring::default();
        for number in 0..10_000 {
            ring.push(format!("{number}"));
        }
        assert_eq!((ring.lines.len(), ring.seen), (TAIL_LINES, 10_000));
        assert_eq!(ring.lines.back().map(String::as_str), Some("9999"));
        for _ in 0..100 {
            ring.push("x".repeat(LINE_BYTES));
        }
        assert!(ring.bytes <= TAIL_BYTES);
        assert_eq!(ring.bytes, ring.lines.iter().map(String::len).sum::<usize>());
    }
}
