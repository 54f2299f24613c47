//! The log: to standard error and to `logs/gantry.log`.

use crate::data_dir::DataDir;
use std::{
    fs,
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
};
use tracing_subscriber::{
    EnvFilter, Layer as _, fmt::MakeWriter, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

/// The environment variable that holds a filter in the syntax of `tracing`.
pub const LOG_VARIABLE: &str = "GANTRY_LOG";

/// A log file of this size is put aside at the next start.
const ROTATE_BYTES: u64 = 16 * 1024 * 1024;

/// Starts logging; the second call in a process changes nothing. A log that cannot be written is
/// no reason not to run: it goes to standard error alone then.
pub fn start(data: &DataDir) {
    let to_stderr = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_target(false)
        .log_internal_errors(false)
        .with_writer(|| StandardError)
        .with_filter(filter());
    let to_file = open(data).map(|file| file_layer(file).with_filter(filter()));
    let _ = tracing_subscriber::registry().with(to_stderr).with(to_file).try_init();
}

/// Logs to the file alone: for a command whose standard error is for its user.
pub fn to_file(data: &DataDir) {
    let to_file = open(data).map(|file| file_layer(file).with_filter(filter()));
    let _ = tracing_subscriber::registry().with(to_file).try_init();
}

fn filter() -> EnvFilter {
    EnvFilter::try_from_env(LOG_VARIABLE)
        .unwrap_or_else(|_| EnvFilter::new("info,hyper=warn,rmcp=warn,zbus=warn,tracing=warn"))
}

fn file_layer<S>(file: LogFile) -> impl tracing_subscriber::Layer<S>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    tracing_subscriber::fmt::layer().with_ansi(false).log_internal_errors(false).with_writer(file)
}

fn open(data: &DataDir) -> Option<LogFile> {
    let path = data.logs.join("gantry.log");
    // A pipe would be waited for.
    if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        return None;
    }
    if fs::metadata(&path).is_ok_and(|file| file.len() > ROTATE_BYTES) {
        let _ = fs::rename(&path, data.logs.join("gantry.1.log"));
    }
    let mut options = fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path).ok().map(|file| LogFile(Arc::new(Mutex::new(file))))
}

/// A writer that never fails: standard error may be gone, the disk may be full.
struct Quiet<W>(W);

impl<W: Write> Write for Quiet<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

/// Standard error as far as somebody reads it. What a full pipe does not take at once is left
/// out (the file has it): a log line must never hold up the program, least of all its end.
#[derive(Clone, Copy, Debug)]
pub struct StandardError;

impl StandardError {
    /// Says one line; one that is closed or full changes nothing.
    pub fn say(mut self, line: &str) {
        // In one piece, so that lines of others do not come in between.
        let _ = self.write(format!("{line}\n").as_bytes());
    }
}

/// A pipe that is ready takes this much without waiting.
const PIECE: usize = 4096;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Held from the question to the write, so that nobody fills the pipe in between.
        let mut out = io::stderr().lock();
        for piece in bytes.chunks(PIECE) {
            if !takes_more(&out) || out.write_all(piece).is_err() {
                break;
            }
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
fn takes_more(out: &impl std::os::fd::AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut asked = [PollFd::new(out, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // One that cannot be asked is no pipe.
    poll(&mut asked, Some(&now)).map_or(true, |ready| ready > 0)
}

#[cfg(not(unix))]
fn takes_more<T>(_: &T) -> bool {
    true
}

#[derive(Clone)]
struct LogFile(Arc<Mutex<fs::File>>);

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Quiet(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogFile {
    type Writer = Self;
    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_nobody_reads_is_full_at_some_time_and_says_so() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut pieces = 0;
        while takes_more(&writer) {
            // Would hang here if it took less than it promised.
            writer.write_all(&[b'x'; PIECE]).unwrap();
            pieces += 1;
            assert!(pieces < 10_000);
        }
        assert!(pieces > 0);
        drop(reader);
        assert!(takes_more(&writer), "a reader that is gone holds up nobody");
    }
}
