//! The program's own standard input and output.
//!
//! Both have a plain thread: a read that waits for a client that says nothing must
//! not hold the runtime, as one on its blocking pool would, so that the program can
//! end by returning from `main` at any time.

use bytes::{Bytes, BytesMut};
use gantry_mcp::{Full, LineReader, Meter, outlet};
use std::{
    io::{self, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{
    io::AsyncRead,
    sync::{mpsc, oneshot},
};
use tokio_util::{io::StreamReader, sync::CancellationToken};

/// Longest message of the client, bytes.
pub const LONGEST: usize = 64 * 1024 * 1024;
const CHUNK: usize = 64 * 1024;
/// Chunks read ahead of what is dispatched.
const AHEAD: usize = 4;
/// Small messages are written together up to this size.
const BATCH: usize = 64 * 1024;

/// The client's lines.
pub type Input = LineReader<Box<dyn AsyncRead + Send + Unpin>>;

/// Starts to read standard input.
///
/// # Errors
/// When the system gives us no thread.
pub fn input() -> io::Result<Input> {
    read_from(io::stdin())
}

fn read_from(mut source: impl Read + Send + 'static) -> io::Result<Input> {
    let (sender, mut receiver) = mpsc::channel::<io::Result<Bytes>>(AHEAD);
    std::thread::Builder::new().name("gantry-stdin".into()).spawn(move || {
        let mut chunk = vec![0; CHUNK];
        loop {
            let item = match source.read(&mut chunk) {
                Ok(0) => return,
                Ok(count) => Ok(Bytes::copy_from_slice(&chunk[..count])),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let last = item.is_err();
            if sender.blocking_send(item).is_err() || last {
                return;
            }
        }
    })?;
    let chunks = futures::stream::poll_fn(move |context| receiver.poll_recv(context));
    Ok(LineReader::new(Box::new(StreamReader::new(chunks)), LONGEST))
}

enum Item {
    Line(Bytes),
    /// Told when everything before is written.
    Flush(oneshot::Sender<()>),
}

/// Lines for the client. Clones write to the same queue.
#[derive(Clone)]
pub struct Output {
    queue: mpsc::Sender<Item>,
    meter: Meter,
    gone: CancellationToken,
    behind: Arc<AtomicBool>,
}

/// Starts to write standard output.
///
/// # Errors
/// When the system gives us no thread.
pub fn output() -> io::Result<Output> {
    write_to(io::stdout())
}

pub(super) fn write_to(mut target: impl Write + Send + 'static) -> io::Result<Output> {
    let (queue, mut items) = mpsc::channel(outlet::MAILBOX_MESSAGES);
    let gone = CancellationToken::new();
    let told = gone.clone();
    std::thread::Builder::new().name("gantry-stdout".into()).spawn(move || {
        while let Some(item) = items.blocking_recv() {
            if write_batch(&mut target, item, &mut items).is_err() {
                // The client reads no more.
                told.cancel();
                return;
            }
        }
    })?;
    let (meter, behind) = (Meter::new(outlet::MAILBOX_BYTES), Arc::default());
    Ok(Output { queue, meter, gone, behind })
}

fn write_batch(
    target: &mut impl Write,
    first: Item,
    items: &mut mpsc::Receiver<Item>,
) -> io::Result<()> {
    let mut batch = BytesMut::new();
    let mut flushes = Vec::new();
    let mut next = Some(first);
    while let Some(item) = next {
        match item {
            Item::Line(line) if line.len() > BATCH => {
                target.write_all(&batch)?;
                batch.clear();
                target.write_all(&line)?;
                batch.extend_from_slice(b"\n");
            }
            Item::Line(line) => {
                batch.extend_from_slice(&line);
                batch.extend_from_slice(b"\n");
            }
            Item::Flush(done) => flushes.push(done),
        }
        next = if batch.len() < BATCH { items.try_recv().ok() } else { None };
    }
    target.write_all(&batch)?;
    target.flush()?;
    for done in flushes {
        // Nobody may be waiting any more.
        let _ = done.send(());
    }
    Ok(())
}

impl Output {
    /// Queues one message (a line without its end).
    ///
    /// # Errors
    /// [`Full`] when the client does not read; it is then taken for gone.
    pub fn send(&self, line: Bytes) -> Result<(), Full> {
        let queued = self
            .meter
            .admit(one_line(line))
            .and_then(|line| self.queue.try_send(Item::Line(line)).map_err(|_| Full));
        if queued.is_err() {
            self.behind.fetch_or(!self.gone.is_cancelled(), Ordering::AcqRel);
            self.gone.cancel();
        }
        queued
    }

    /// Queues one message as soon as there is room: for a sender that may wait.
    ///
    /// # Errors
    /// [`Full`] when the client reads no more, or is so far behind that too many bytes wait.
    pub async fn put(&self, line: Bytes) -> Result<(), Full> {
        let room = tokio::select! {
            biased;
            () = self.gone() => return Err(Full),
            room = self.queue.reserve() => room.map_err(|_| Full)?,
        };
        room.send(Item::Line(self.meter.admit(one_line(line))?));
        Ok(())
    }

    /// Resolves when the client reads no more.
    pub fn gone(&self) -> impl Future<Output = ()> + Send + 'static {
        self.gone.clone().cancelled_owned()
    }

    /// Whether the client is taken for gone because it does not read, though it could.
    pub fn fell_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }

    /// Waits until everything queued so far is written.
    ///
    /// # Errors
    /// When the client reads no more.
    pub async fn flush(&self) -> Result<(), String> {
        let (done, written) = oneshot::channel();
        let gone = |_| "the client reads no more".to_owned();
        self.queue.send(Item::Flush(done)).await.map_err(|_| gone(()))?;
        written.await.map_err(|_| gone(()))
    }
}

/// A line break inside JSON is white space; on this transport it would end the message.
fn one_line(line: Bytes) -> Bytes {
    if !line.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return line;
    }
    line.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_mcp::Line;
    use std::sync::Mutex;

    #[tokio::test]
    async fn lines_come_in_and_the_end_of_input_ends_them() {
        let mut input = read_from(&b"{\"a\":1}\n\n{\"b\""[..]).expect("a thread");
        let full = |text: &'static str| Some(Line::Full(Bytes::from_static(text.as_bytes())));
        assert_eq!(input.next().await.expect("read"), full("{\"a\":1}"));
        assert_eq!(input.next().await.expect("read"), full("{\"b\""));
        assert_eq!(input.next().await.expect("read"), None);
    }

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_flush_waits_for_every_line_before_it_large_and_small_in_order() {
        let sink = Sink::default();
        let output = write_to(sink.clone()).expect("a thread");
        let large = "x".repeat(3 * BATCH);
        for line in ["one", &large, "{\"a\":\n1}", "four"] {
            output.send(Bytes::copy_from_slice(line.as_bytes())).expect("room");
        }
        output.flush().await.expect("written");
        let written =
            String::from_utf8(sink.0.lock().expect("not poisoned").clone()).expect("UTF-8");
        assert_eq!(written, format!("one\n{large}\n{{\"a\": 1}}\nfour\n"));
    }

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_sender_that_may_wait_loses_nothing_however_slow_the_client_is() {
        struct Slow(Arc<Mutex<usize>>);
        impl Write for Slow {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                std::thread::yield_now();
                *self.0.lock().expect("not poisoned") += bytes.len();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let count = Arc::new(Mutex::new(0));
        let output = write_to(Slow(count.clone())).expect("a thread");
        let many = 3 * outlet::MAILBOX_MESSAGES;
        for _ in 0..many {
            output.put(Bytes::from_static(b"12345")).await.expect("room");
        }
        output.flush().await.expect("written");
        assert_eq!(*count.lock().expect("not poisoned"), 6 * many);
    }

    #[tokio::test]
    async fn a_client_that_is_gone_is_noticed_and_nothing_waits_for_it() {
        let output = write_to(Broken).expect("a thread");
        output.send(Bytes::from_static(b"x")).expect("queued");
        output.gone().await;
        output.flush().await.expect_err("nobody reads");
        output.send(Bytes::from_static(b"x")).expect_err("nobody reads");
        assert!(!output.fell_behind(), "it cannot read any more");
    }
}
