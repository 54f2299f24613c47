//! Standard input and output as streams of lines.
//!
//! Both are read and written by threads of their own: a read that waits for a
//! client that says nothing must not hold the end of the program, as one on the
//! runtime's blocking pool would.

use futures::{Sink, SinkExt, Stream};
use std::io::{self, BufRead, Read, Write};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::PollSender;

/// Longest message that is accepted, in bytes.
const LONGEST: u64 = 64 << 20;
/// Messages that may wait between a thread and the runtime.
const WAITING: usize = 64;

/// The program's own standard streams, a message a line.
pub(super) struct Stdio {
    /// Lines without their ends, empty ones left out. Ends with the input.
    pub(super) input: mpsc::Receiver<io::Result<String>>,
    /// Lines without their ends. Fails when nobody can be told any more.
    pub(super) output: mpsc::Sender<String>,
    /// Resolves after the last `output` is dropped: true when everything that was put
    /// into it is written, false when the client stopped reading before.
    pub(super) written: oneshot::Receiver<bool>,
}

/// Starts the threads.
///
/// # Errors
/// When the system gives us no thread.
pub(super) fn stdio() -> io::Result<Stdio> {
    let (said, input) = mpsc::channel(WAITING);
    std::thread::Builder::new().name("gantry-stdin".into()).spawn(move || {
        read_lines(io::stdin().lock(), |line| said.blocking_send(line).is_ok());
    })?;
    let (output, mut queue) = mpsc::channel::<String>(WAITING);
    let (done, written) = oneshot::channel();
    std::thread::Builder::new().name("gantry-stdout".into()).spawn(move || {
        let mut stdout = io::stdout().lock();
        let mut all = true;
        while let Some(mut line) = queue.blocking_recv() {
            line.push('\n');
            if stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).is_err() {
                // The queue closes, and whoever writes is told.
                all = false;
                break;
            }
        }
        let _ = done.send(all);
    })?;
    Ok(Stdio { input, output, written })
}

/// A queue of lines as a sink.
pub(super) fn sink(
    output: mpsc::Sender<String>,
) -> impl Sink<String, Error = io::Error> + Send + 'static {
    PollSender::new(output).sink_map_err(|_| io::ErrorKind::BrokenPipe.into())
}

/// A queue of lines as a stream.
pub(super) fn stream<T: Send + 'static>(
    mut input: mpsc::Receiver<T>,
) -> impl Stream<Item = T> + Send + 'static {
    futures::stream::poll_fn(move |context| input.poll_recv(context))
}

/// A line on standard error. One that is closed must not break anything.
pub(super) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Reads until the end or until `put` wants no more.
fn read_lines(mut input: impl BufRead, mut put: impl FnMut(io::Result<String>) -> bool) {
    loop {
        let mut line = Vec::new();
        let item = match (&mut input).take(LONGEST + 1).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) if line.len() as u64 > LONGEST => {
                Err(io::Error::other(format!("a message is longer than {} MiB", LONGEST >> 20)))
            }
            Ok(_) => Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let last = item.is_err();
        if matches!(&item, Ok(line) if line.is_empty()) {
            continue;
        }
        if !put(item) || last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_without_their_ends_and_the_last_may_be_cut() {
        let mut lines = Vec::new();
        read_lines(&b"{\"a\":1}\r\n\n{\"b\":\xff}\nhalf"[..], |line| {
            lines.push(line.unwrap());
            true
        });
        assert_eq!(lines, ["{\"a\":1}", "{\"b\":\u{fffd}}", "half"]);
    }

    #[test]
    fn reading_stops_when_nobody_listens() {
        let mut count = 0;
        read_lines(&b"1\n2\n3\n"[..], |_| {
            count += 1;
            count < 2
        });
        assert_eq!(count, 2);
    }
}
