//! Keeps one server connected to its hub: starts it, starts it again, gives up.

use super::{
    config::{Kind, Server},
    remote::Remote,
};
use gantry_mcp::{Hub, HubOptions, Phase};
use gantry_supervisor::{
    Cause, Child, Deadline, Exit, Launch, LaunchError, ProcessTree, Role, StderrTail, Supervisor,
};
use std::{pin::pin, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

/// Failed starts in a row after which a program is given up that never was ready.
const ATTEMPTS: u32 = 5;
/// Failed starts in a row after which calls are no longer held for the next one.
const HOPEFUL: u32 = 3;
/// A connection that lasted this long was a success: the count begins anew.
const STABLE: Duration = Duration::from_secs(30);
/// Before the second start, doubled with each.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// What a program's exit and its last words may be apart.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// How long the rest of a server that failed gets to end before the next start.
const CLEAR: Duration = Duration::from_secs(3);
/// Longest line of a server, bytes.
const LINE_LIMIT: usize = 64 * 1024 * 1024;
/// How long a call waits for a server that is starting.
pub const START_WAIT: Duration = Duration::from_secs(30);
/// Between TERM and KILL, when this program is gone: nothing may be left after two seconds.
const GRACE: Duration = Duration::from_secs(1);
/// At our own end, how long a program has from the end of its input to TERM: the contract has
/// us all gone within a tenth of a second when no call was in flight.
pub const INPUT: Duration = Duration::from_millis(40);
/// Variables that are for this program alone; they hold secrets.
const OURS: [&str; 2] = [super::args::CONFIG_VARIABLE, super::args::TOKEN_VARIABLE];

/// How it is going.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is not running yet.
    Starting,
    /// It runs and was not ready yet.
    Launched,
    /// It was ready at least once.
    Started,
    /// It never was, and it does not look as if it would be.
    Failed(String),
}

/// The wish to end, and by when.
pub type Stop = watch::Receiver<Option<Deadline>>;

/// Resolves when the end is wanted.
pub async fn stopped(mut stop: Stop) -> Deadline {
    // Whoever could wish it being gone is a wish, too.
    let wish = stop.wait_for(Option::is_some).await.ok().and_then(|wish| *wish);
    wish.unwrap_or_else(|| Deadline::after(CLEAR))
}

/// The hub for a server.
pub fn hub(server: &Server) -> Hub {
    Hub::new(HubOptions {
        name: server.name.clone(),
        filter: server.filter.clone(),
        line_limit: LINE_LIMIT,
        start_wait: START_WAIT,
    })
}

/// One server that is kept connected.
pub struct Upstream {
    /// What it is.
    pub server: Server,
    /// Its hub.
    pub hub: Hub,
    /// How it is going.
    pub fate: watch::Sender<Fate>,
    /// Starts it.
    pub supervisor: Supervisor,
    /// When to end.
    pub stop: Stop,
}

enum End {
    /// The end was wanted.
    Stopped,
    /// Trying again would change nothing.
    Hopeless(String),
    /// The connection is over.
    Over(String),
}

impl Upstream {
    /// Runs until the end is wanted or the server is given up.
    pub async fn keep(self) {
        let mut failures = 0_u32;
        for generation in 1.. {
            let mut ready_since = None;
            let end = match &self.server.kind {
                Kind::Program { .. } => self.run_program(generation, &mut ready_since).await,
                Kind::Remote { .. } => {
                    Box::pin(self.run_remote(generation, &mut ready_since)).await
                }
                Kind::Unusable(why) => End::Hopeless(why.clone()),
            };
            let why = match end {
                End::Stopped => return,
                End::Hopeless(why) => return self.give_up(&why),
                End::Over(why) => why,
            };
            if ready_since.is_some_and(|since: Instant| since.elapsed() >= STABLE) {
                failures = 0;
            }
            failures += 1;
            let server = &self.server.name;
            tracing::warn!(server, failures, why, "its connection is over");
            if failures >= ATTEMPTS {
                let never_was_ready = *self.fate.borrow() != Fate::Started;
                if never_was_ready && matches!(self.server.kind, Kind::Program { .. }) {
                    return self.give_up(&format!("{why} ({failures} times)"));
                }
                self.failed(&why);
            }
            self.hub.announce_down(&why, failures < HOPEFUL);
            let pause = (PAUSE * 2_u32.pow((failures - 1).min(10))).min(LONGEST_PAUSE);
            tokio::select! {
                () = sleep(jittered(pause)) => {}
                _ = stopped(self.stop.clone()) => return,
            }
        }
    }

    fn give_up(&self, why: &str) {
        let server = &self.server.name;
        tracing::error!(server, why, "given up");
        self.hub.announce_down(why, false);
        self.failed(why);
    }

    fn failed(&self, why: &str) {
        self.fate.send_if_modified(|fate| {
            let was_never_ready = !matches!(fate, Fate::Started);
            if was_never_ready {
                *fate = Fate::Failed(why.to_owned());
            }
            was_never_ready
        });
    }

    fn launched(&self) {
        self.fate.send_if_modified(|fate| {
            let is_news = *fate == Fate::Starting;
            if is_news {
                *fate = Fate::Launched;
            }
            is_news
        });
    }

    /// Notes that the server is ready; `None` when it was not in time.
    async fn ready(&self, generation: u64) -> Option<Instant> {
        let mut phase = self.hub.phase();
        let ready = phase.wait_for(
            |phase| matches!(phase, Phase::Ready { generation: now, .. } if *now == generation),
        );
        timeout(self.server.start_limit, ready).await.ok()?.ok()?;
        self.fate.send_replace(Fate::Started);
        Some(Instant::now())
    }

    fn too_late(&self) -> String {
        let limit = self.server.start_limit.as_secs_f32();
        format!("did not list its tools within {limit} s")
    }

    async fn run_remote(&self, generation: u64, ready_since: &mut Option<Instant>) -> End {
        let Kind::Remote { url, headers, transport, .. } = &self.server.kind else {
            return End::Stopped;
        };
        let remote = match Remote::new(url.clone(), headers.clone(), *transport) {
            Ok(remote) => remote,
            Err(why) => return End::Hopeless(why),
        };
        self.launched();
        let (near, far) = tokio::io::duplex(256 * 1024);
        let ((reader, writer), (from_hub, to_hub)) =
            (tokio::io::split(near), tokio::io::split(far));
        let mut connection = pin!(self.hub.connect(generation, reader, writer));
        let mut carry = pin!(remote.carry_until(from_hub, to_hub, stopped(self.stop.clone())));
        let mut ready = pin!(self.ready(generation));
        let mut is_ready = false;
        loop {
            tokio::select! {
                biased;
                carried = &mut carry => match carried {
                    // Said first, so that calls in flight hear this and not "closed its output".
                    Ok(lost) => {
                        self.hub.announce_down(&lost, true);
                        return End::Over(lost);
                    }
                    Err(()) => return End::Stopped,
                },
                over = &mut connection => return End::Over(over.why),
                since = &mut ready, if !is_ready => {
                    if since.is_none() {
                        return End::Over(self.too_late());
                    }
                    (is_ready, *ready_since) = (true, since);
                }
            }
        }
    }

    async fn run_program(&self, generation: u64, ready_since: &mut Option<Instant>) -> End {
        let Some(launch) = self.launch() else { return End::Stopped };
        let launched = tokio::select! {
            launched = self.supervisor.launch(launch) => launched,
            _ = stopped(self.stop.clone()) => return End::Stopped,
        };
        let Child { tree, stdin, stdout, stderr } = match launched {
            Ok(child) => {
                self.launched();
                child
            }
            Err(LaunchError::ShuttingDown) => return End::Stopped,
            Err(error @ LaunchError::System { .. }) => return End::Over(error.to_string()),
            Err(error) => return End::Hopeless(error.to_string()),
        };
        let over = {
            let mut connection = pin!(self.hub.connect(generation, stdout, stdin));
            let mut ready = pin!(self.ready(generation));
            let mut exited = pin!(tree.exited());
            let mut last_words = None;
            let mut is_ready = false;
            loop {
                let patience = async {
                    match last_words {
                        Some(until) => sleep_until(until).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    over = &mut connection => break Ok(over.why),
                    since = &mut ready, if !is_ready => {
                        if since.is_none() {
                            break Ok(self.too_late());
                        }
                        (is_ready, *ready_since) = (true, since);
                    }
                    _ = &mut exited, if last_words.is_none() => {
                        last_words = Some(Instant::now() + LAST_WORDS);
                    }
                    () = patience => break Ok("ended".to_owned()),
                    deadline = stopped(self.stop.clone()) => break Err(deadline),
                }
            }
        };
        match over {
            Err(deadline) => {
                tree.stop_soon(Cause::Quit, deadline, INPUT).await;
                End::Stopped
            }
            Ok(why) => {
                let why = reason(&why, &tree, &stderr).await;
                // Two of one server must not run at the same time: it may hold a lock.
                tree.stop(Cause::Failed, Deadline::after(CLEAR)).await;
                End::Over(why)
            }
        }
    }

    fn launch(&self) -> Option<Launch> {
        let Kind::Program { command, args, env, cwd } = &self.server.kind else { return None };
        let hidden = OURS.iter().map(|name| (name.into(), "".into()));
        let own = env.iter().map(|(name, value)| (name.into(), value.into()));
        Some(Launch {
            name: self.server.name.clone(),
            role: Role::Server,
            program: command.into(),
            args: args.iter().map(Into::into).collect(),
            env: hidden.chain(own).collect(),
            cwd: cwd.clone(),
            grace: GRACE,
        })
    }
}

/// Why a connection ended, with the exit code and the last lines on standard error.
async fn reason(why: &str, tree: &ProcessTree, stderr: &StderrTail) -> String {
    let exit = timeout(LAST_WORDS, tree.exited()).await;
    let mut reason = match exit {
        Ok(Exit::Code(code)) => format!("exited with code {code}"),
        Ok(Exit::Signal(signal)) => format!("was ended by signal {signal}"),
        Ok(Exit::Unknown) | Err(_) => why.to_owned(),
    };
    if exit.is_ok() && why.contains("initialize") {
        reason = format!("{why}, then {reason}");
    }
    if exit.is_ok() {
        stderr.settled().await;
    }
    let said = stderr.lines(3);
    if !said.is_empty() {
        reason = format!("{reason}; it said: {}", said.join(" | "));
    }
    reason
}

/// Within a quarter around it, so that many do not start at the same moment.
fn jittered(pause: Duration) -> Duration {
    let random = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos());
    pause.mul_f64(0.75 + f64::from(random % 1000) / 2000.0)
}
