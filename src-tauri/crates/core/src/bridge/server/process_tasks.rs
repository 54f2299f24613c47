//! The tasks around one process: its launch, its connection, its pings, its end.

use super::super::{
    next::{END_SPAN, Event},
    process::{self, Started},
    ready::UNANSWERED,
    references,
    sign_ins::SIGN_IN_EXIT,
    spec::is_remote,
};
use super::{Input, Live, Server, words::lost};
use gantry_mcp::Phase;
use gantry_supervisor::{Cause, Deadline, Exit};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{OwnedSemaphorePermit, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// A server counts as "starting at the same time as others" at most this long: the bound is for
/// what a start costs the processor at its begin, and one that says nothing must not keep others
/// from starting.
const CROWD: Duration = Duration::from_millis(250);
/// How often it is looked at what a server does while it is starting.
const LOOK: Duration = Duration::from_secs(1);
/// After so long without a word a start is worth a remark.
const QUIET: Duration = Duration::from_secs(3);
/// Characters of a line that are shown.
const NOTE: usize = 200;
/// A ping without an answer for so long is missed.
const PING_LIMIT: Duration = Duration::from_secs(10);
/// After one of the two is over, what the other (the output, the exit) may take to be over too.
const AFTERMATH: Duration = Duration::from_millis(250);
/// What the report of an ending may take on its way.
const REPORT: Duration = Duration::from_millis(50);

/// A launch that is over.
pub(in crate::bridge) struct Launched {
    pub generation: u64,
    /// Or why not, and whether trying again would not help.
    pub result: Result<Started, (String, bool)>,
    /// Its place among those that start at the same time.
    pub place: Option<OwnedSemaphorePermit>,
}

impl Server {
    /// Starts the process.
    pub(super) fn launch(&mut self, generation: u64) {
        self.begun = Some(Instant::now());
        let shared = self.shared.clone();
        let sender = self.sender.clone();
        let after = std::mem::take(&mut self.after);
        let (name, config) = (self.name.clone(), self.config.clone());
        self.launching = CancellationToken::new();
        let called_off = self.launching.clone();
        let work = async move {
            for ending in after {
                // However it ended: it is over.
                let _ = ending.await;
            }
            let starts = shared.starts.clone();
            let place = tokio::select! {
                place = starts.acquire_owned() => place.ok(),
                () = called_off.cancelled() => {
                    let result = Err(("it was stopped before it was started".to_owned(), true));
                    let _ = sender.send(Input::Launched(Launched { generation, result, place: None }));
                    return;
                }
                () = shared.scope.cancelled() => return,
            };
            let parts = &shared.parts;
            let launch = process::launch_of(
                &name,
                &config,
                &parts.gantry,
                &parts.data_dir,
                &references::from_environment,
            );
            let result = match launch {
                Ok(launch) => {
                    if config.cwd.is_none() {
                        // A failure shows at the launch, with the directory's name.
                        let _ =
                            tokio::fs::create_dir_all(process::default_directory(&parts.data_dir))
                                .await;
                    }
                    shared
                        .launcher
                        .launch(launch)
                        .await
                        .map_err(|error| (error.to_string(), process::is_fatal(&error)))
                }
                Err(why) => Err((why, true)),
            };
            let report = Input::Launched(Launched { generation, result, place });
            if let Err(unheard) = sender.send(report)
                && let Input::Launched(Launched { result: Ok(stray), .. }) = unheard.0
            {
                stray.tree.stop(Cause::Unused, Deadline::after(END_SPAN)).await;
            }
        };
        self.shared.scope.spawn(format!("launch of {}", self.name), work);
    }

    /// Ends a process that nobody waits for any more.
    pub(super) fn end_stray(&self, stray: Started) {
        self.shared.scope.spawn(format!("end of {}", self.name), async move {
            stray.tree.stop(Cause::Unused, Deadline::after(END_SPAN)).await;
        });
    }

    /// Runs the connection of a process until it is over, and watches for its exit.
    pub(super) fn carry(
        &self,
        live: &Live,
        started: Started,
        mut place: Option<OwnedSemaphorePermit>,
    ) {
        let generation = live.generation;
        let remote = is_remote(&self.config);
        let sender = self.sender.clone();
        let (tree, over, read_out, stderr) =
            (live.tree.clone(), live.over.clone(), live.read_out.clone(), live.stderr.clone());
        self.traffic.hide_secrets_of(&self.config);
        let (reader, left_reader) = Lent::new(self.traffic.hear(started.stdout));
        let (writer, left_writer) = Lent::new(self.traffic.overhear(started.stdin));
        let mut connection = Box::pin(self.hub.connect(generation, reader, writer));
        let (mut phase, mut fault) = (self.hub.phase(), self.hub.fault());
        let crowd = Instant::now() + CROWD;
        let carry = async move {
            let why = loop {
                let seen = phase.borrow_and_update().clone();
                if let Phase::Ready { generation: of, tools } = seen
                    && of == generation
                {
                    place = None;
                    let _ = sender.send(Input::Tools { generation, tools });
                }
                tokio::select! {
                    disconnected = &mut connection => break disconnected.why,
                    Ok(()) = phase.changed() => {}
                    Ok(()) = fault.changed() => {
                        let known = fault.borrow_and_update().clone();
                        let fault = known.filter(|(of, _)| *of == generation).map(|(_, why)| why);
                        let _ = sender.send(Input::Fault { generation, fault });
                    }
                    () = tokio::time::sleep_until(crowd), if place.is_some() => place = None,
                    () = over.cancelled() => return,
                }
            };
            drop(place);
            let exited = tokio::time::timeout(AFTERMATH, tree.exited());
            let exit = exited.await.ok();
            stderr.settled().await;
            let _ = sender.send(over_by(generation, remote, exit, || lost(&why, exit)));
            // Nobody reads its output now, but it may still write while it ends; a
            // broken pipe would take its last steps from it. And its input is closed by who
            // ends its tree, after a look at the members, not by the hub's letting go.
            let _input = left_writer.await;
            if let Ok(mut reader) = left_reader.await {
                let mut nowhere = tokio::io::sink();
                tokio::select! {
                    _ = tokio::io::copy(&mut reader, &mut nowhere) => {}
                    () = over.cancelled() => {}
                }
            }
        };
        let read_to_the_end = read_out.clone().drop_guard();
        self.shared.scope.spawn(format!("connection of {}", self.name), async move {
            carry.await;
            drop(read_to_the_end);
        });

        let sender = self.sender.clone();
        let (tree, over, stderr) = (live.tree.clone(), live.over.clone(), live.stderr.clone());
        self.shared.scope.spawn(format!("exit of {}", self.name), async move {
            let exit = tokio::select! {
                exit = tree.exited() => exit,
                () = over.cancelled() => return,
            };
            // What it said last is worth more than that it ended.
            let _ = tokio::time::timeout(AFTERMATH, read_out.cancelled()).await;
            stderr.settled().await;
            let _ =
                sender.send(over_by(generation, remote, Some(exit), || process::exit_text(exit)));
        });
    }

    /// Says what a server does as long as it is starting, in its own words where it has any.
    pub(super) fn watch_start(&self, live: &Live) {
        let generation = live.generation;
        let (sender, stderr, over) = (self.sender.clone(), live.stderr.clone(), live.over.clone());
        let fetcher = process::fetcher(&self.config);
        let mut phase = self.hub.phase();
        let begun = Instant::now();
        let watch = async move {
            let mut told = None;
            loop {
                tokio::time::sleep(LOOK).await;
                let last = stderr.lines(1).pop().filter(|line| !line.trim().is_empty());
                let quiet = || {
                    (begun.elapsed() >= QUIET).then(|| match fetcher {
                        Some(program) => format!("`{program}` may be downloading it"),
                        None => UNANSWERED.to_owned(),
                    })
                };
                let note = last.map(|line| line.trim().chars().take(NOTE).collect()).or_else(quiet);
                if let Some(note) = note.filter(|note| told.as_ref() != Some(note)) {
                    told = Some(note.clone());
                    let _ = sender.send(Input::Note { generation, note });
                }
            }
        };
        self.shared.scope.spawn(format!("start of {}", self.name), async move {
            let is_ready = |phase: &Phase| {
                matches!(phase, Phase::Ready { generation: of, .. } if *of == generation)
            };
            tokio::select! {
                () = watch => {}
                _ = phase.wait_for(is_ready) => {}
                () = over.cancelled() => {}
            }
        });
    }

    /// Ends the process of a generation.
    pub(super) fn end(&self, generation: u64, cause: Cause, deadline: Deadline) {
        let Some(live) = self.live.as_ref().filter(|live| live.generation == generation) else {
            return;
        };
        let (tree, stderr, read_out) =
            (live.tree.clone(), live.stderr.clone(), live.read_out.clone());
        let sender = self.sender.clone();
        self.shared.scope.spawn(format!("end of {}", self.name), async move {
            // Whoever gave the deadline wants to hear by then how it ended.
            let ended = tree.stop(cause, shortened(deadline, 2 * REPORT)).await;
            // Both streams end with the process; give their readers time to see it.
            let aftermath = async {
                let _ = tokio::time::timeout(AFTERMATH, read_out.cancelled()).await;
                stderr.settled().await;
            };
            let _ = shortened(deadline, REPORT).bound(aftermath).await;
            let _ = sender.send(Input::Ended { generation, ended });
        });
    }

    /// Asks whether it still answers.
    pub(super) fn ping(&self, generation: u64) {
        let (hub, sender) = (self.hub.clone(), self.sender.clone());
        let Some(over) = self.live.as_ref().map(|live| live.over.clone()) else { return };
        self.shared.scope.spawn(format!("ping of {}", self.name), async move {
            let answered = tokio::select! {
                answer = hub.ping(PING_LIMIT) => answer.is_ok(),
                () = over.cancelled() => return,
            };
            // One that works on a call may have no time for a ping.
            let busy = !answered && hub.in_flight() > 0;
            let _ = sender.send(Input::Report(Event::Pong { generation, answered, busy }));
        });
    }
}

/// The report of an end. What carries a remote server says by its exit that the user is needed.
fn over_by(
    generation: u64,
    remote: bool,
    exit: Option<Exit>,
    why: impl FnOnce() -> String,
) -> Input {
    if remote && exit == Some(Exit::Code(SIGN_IN_EXIT.into())) {
        return Input::SignIn { generation, needed: true, over: true };
    }
    Input::Report(Event::Lost { generation, why: why() })
}

/// A deadline that is earlier by `span`, but not in the past if it was not.
fn shortened(deadline: Deadline, span: Duration) -> Deadline {
    let left = deadline.remaining();
    deadline.or_after(left.saturating_sub(span.min(left / 2)))
}

/// A stream that is handed back when its borrower lets go of it.
struct Lent<T> {
    stream: Option<T>,
    back: Option<oneshot::Sender<T>>,
}

impl<T> Lent<T> {
    fn new(stream: T) -> (Self, oneshot::Receiver<T>) {
        let (back, receiver) = oneshot::channel();
        (Self { stream: Some(stream), back: Some(back) }, receiver)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Lent<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_read(context, buffer),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Lent<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_write(context, buffer),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_flush(context),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_shutdown(context),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        if let (Some(stream), Some(back)) = (self.stream.take(), self.back.take()) {
            // Nobody waits for it once everything is over.
            let _ = back.send(stream);
        }
    }
}
