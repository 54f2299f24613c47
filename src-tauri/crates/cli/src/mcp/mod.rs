//! `gantry mcp`: a stdio MCP server in front of others.
//!
//! ```text
//! stdin ─► Front ─► Hub ─► program (gantry-supervisor) or URL (remote)
//! stdout ◄──────── Outlet
//! ```
//!
//! [`front::Straight`] puts the client on the hub of the one server there is;
//! [`aggregate::Aggregate`] makes one server of several. [`shutdown`] is how it ends.

mod aggregate;
pub mod args;
mod auth;
mod carry;
mod config;
mod front;
mod memory;
mod merge;
mod modern;
mod older;
pub(crate) mod remote;
pub mod shutdown;
mod sse;
pub mod stdio;
mod upstream;

#[cfg(test)]
mod tests;

pub use args::McpArgs;

use args::Task;
use config::Server;
use front::Front;
use gantry_core::{
    data_dir::DataDir,
    logging::{LOG_VARIABLE, StandardError},
};
use gantry_mcp::{Hub, Line};
use gantry_supervisor::{Deadline, How, Scope, Supervisor, warden_beside_us};
use shutdown::{AT_REST, BUDGET, Cause, Gate, Shutdown, Step, Steps};
use std::time::Duration;
use stdio::{Input, Output};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;
use upstream::{Fate, INPUT, Upstream};

const PROGRAM: &str = "gantry mcp";
/// How long an end waits for launches that are under way, to know whether any came about: most
/// that cannot come about are known at once.
const LAUNCHING: Duration = Duration::from_millis(50);

/// How long the first message waits for a remote server, which as a rule has introduced itself by
/// then; a program, which takes longer to start, is introduced by a guess at once.
const INTRODUCTION: Duration = Duration::from_millis(500);

/// Serves until the end of input or a signal, and returns the program's exit code: 0; 1 when
/// no server starts or a step of the shutdown failed; 2 for wrong usage.
///
/// It leaves no task behind, but a thread that waits for standard input: end
/// the program by returning from `main`.
pub async fn run(args: McpArgs) -> u8 {
    start_log();
    match args.task() {
        Ok(Task::Recall) => recall(args).await,
        Ok(Task::Carry(server)) => Box::pin(carry::run(*server)).await,
        Ok(Task::SignIn(server)) => auth::flow::run(*server).await,
        Ok(Task::Serve(servers)) => {
            serve(servers, args.config.is_some() || args.config_file.is_some()).await
        }
        Err(why) => {
            complain(&format!("gantry: mcp: {why}"));
            2
        }
    }
}

async fn recall(args: McpArgs) -> u8 {
    match DataDir::choose(args.data_dir.as_deref()) {
        Some(data) => crate::recall::run(data.root).await,
        None => {
            complain("gantry: mcp: there is no data directory; name one with --data-dir");
            3
        }
    }
}

/// The log goes to standard error, and only what matters: the client may show it to its user.
fn start_log() {
    let filter = EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new("warn"));
    // At its finer levels the OAuth client writes down codes.
    let filter = match "rmcp::transport::auth=warn".parse() {
        Ok(quiet) => filter.add_directive(quiet),
        Err(_) => filter,
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| StandardError)
        .with_ansi(false)
        // Else a standard error that is closed would end us with a panic.
        .log_internal_errors(false);
    // Somebody may have started one already.
    let _ = log.try_init();
}

/// A line on standard error; one that is closed or full changes nothing.
fn complain(line: &str) {
    StandardError.say(line);
}

async fn serve(servers: Vec<Server>, ends_when_all_fail: bool) -> u8 {
    // First of all: a signal that comes early must not kill us half-way.
    let signal = signal();
    let (input, output) = match stdio::input().and_then(|input| Ok((input, stdio::output()?))) {
        Ok(stdio) => stdio,
        Err(error) => {
            complain(&format!("gantry: mcp: standard input and output cannot be served: {error}"));
            return 1;
        }
    };
    let scope = Scope::root("mcp");
    let supervisor = Supervisor::new(scope.child("processes"), warden_beside_us());
    let (wish, stop) = watch::channel(None);
    let (gate, keepers) = (Gate::default(), scope.child("servers"));
    let is_remote = |server: &Server| matches!(server.kind, config::Kind::Remote { .. });
    let introduces_itself = servers.len() == 1 && servers.iter().all(is_remote);
    let mut hubs = Vec::new();
    let mut fates = Vec::new();
    for server in servers {
        let (hub, name) = (upstream::hub(&server), server.name.clone());
        let (fate, seen) = watch::channel(Fate::Starting);
        fates.push((name.clone(), seen));
        hubs.push(hub.clone());
        let (clock, ending) = (hub.clock(), scope.cancelled());
        drop(scope.spawn(format!("clock of {name}"), async move {
            tokio::select! {
                () = clock => {}
                () = ending => {}
            }
        }));
        let (supervisor, stop) = (supervisor.clone(), stop.clone());
        let upstream = Upstream { server, hub, fate, supervisor, stop };
        drop(keepers.spawn(name, upstream.keep()));
    }
    let front = front(&hubs, &output, &gate, &scope);
    let introduced = hubs.first().filter(|_| introduces_itself);
    let shutdown = {
        let (output, scope, supervisor) = (output.clone(), scope.clone(), supervisor.clone());
        let servers = Servers { keepers, supervisor, wish };
        let steps = Steps { close: vec![], rest: rest(output, scope, servers, gate.clone()) };
        Shutdown::new(PROGRAM, gate, shutdown::stderr(), steps)
    };
    let cause = tokio::select! {
        biased;
        cause = read(input, &*front, &output, introduced) => cause,
        () = signal => Cause::Signal,
        () = output.gone() => {
            if output.fell_behind() {
                complain("gantry: mcp: the client does not read its messages; ending");
                shutdown.keep_code(1);
            }
            Cause::OutputClosed
        }
        () = all_failed(&fates), if ends_when_all_fail => Cause::Done,
    };
    // An input that ends while the servers are being launched must not hide that they cannot be.
    let settled = Deadline::after(LAUNCHING).bound(launched(&fates));
    if ends_when_all_fail && cause != Cause::Signal && settled.await.is_ok() {
        let reasons = failures(&fates);
        if reasons.len() == fates.len() {
            complain(&format!("gantry: mcp: no server could be started: {}", reasons.join("; ")));
            shutdown.keep_code(1);
        }
    }
    let code = shutdown.begin(cause, BUDGET).await;
    drop(front);
    code
}

fn front(hubs: &[Hub], output: &Output, gate: &Gate, scope: &Scope) -> Box<dyn Front> {
    match hubs {
        [hub] => Box::new(front::Straight::new(hub, output.clone(), gate.clone())),
        hubs => {
            let scope = scope.child("lists");
            Box::new(aggregate::Aggregate::new(hubs, output.clone(), gate.clone(), scope))
        }
    }
}

/// The servers behind this one, and who keeps them.
struct Servers {
    keepers: Scope,
    supervisor: Supervisor,
    wish: watch::Sender<Option<Deadline>>,
}

impl Servers {
    async fn end(self, wanted: Deadline, limit: Deadline) -> Result<(), String> {
        self.wish.send_replace(Some(wanted));
        let quit = gantry_supervisor::Cause::Quit;
        let stop = async {
            let ended = self.supervisor.stop_all_soon(quit, wanted, INPUT).await;
            if ended.iter().all(|(_, ended)| !matches!(ended.how, How::Left(_))) {
                return ended;
            }
            // Too busy a system to kill them that fast.
            self.supervisor.stop_all_soon(quit, limit, INPUT).await
        };
        let (ended, late) = tokio::join!(stop, self.keepers.close(limit));
        for (tree, ended) in ended {
            if let How::Left(left) = ended.how {
                let (name, count) = (tree.name(), left.len());
                return Err(format!("{count} processes of `{name}` still run: {left:?}"));
            }
        }
        if late.is_empty() { Ok(()) } else { Err(format!("given up: {}", late.join(", "))) }
    }
}

/// What is queued for the client is written.
pub(crate) fn written(output: Output) -> Step {
    Step::new("output", move |limit| async move {
        // A client that has gone needs no more answers; one that does not read must not take
        // the time of the steps to come.
        match Deadline::after(limit.remaining() / 2).bound(output.flush()).await {
            Ok(_) => Ok(()),
            Err(_) => Err("the client does not read".to_owned()),
        }
    })
}

/// What is done after the calls in flight have had their time.
fn rest(output: Output, scope: Scope, servers: Servers, gate: Gate) -> Vec<Step> {
    let upstreams = Step::new("upstreams", move |limit| async move {
        // Without a call that could have changed something, nothing is worth a longer wait.
        let wanted = if gate.was_busy() { limit } else { limit.min(Deadline::after(AT_REST)) };
        servers.end(wanted, limit).await
    });
    let tasks = Step::new("tasks", move |deadline| async move {
        let late = scope.close(deadline).await;
        if late.is_empty() { Ok(()) } else { Err(format!("given up: {}", late.join(", "))) }
    });
    vec![written(output), upstreams, tasks]
}

async fn read(
    mut input: Input,
    front: &dyn Front,
    output: &Output,
    introduced: Option<&Hub>,
) -> Cause {
    let mut first = true;
    loop {
        match input.next().await {
            Ok(Some(Line::Full(line))) => {
                if std::mem::take(&mut first)
                    && let Some(hub) = introduced
                {
                    // What it says of itself is better than a guess, and soon there as a rule.
                    let _ = tokio::time::timeout(INTRODUCTION, hub.settled()).await;
                }
                front::take_line(front, output, line);
            }
            Ok(Some(Line::TooLong { length, head, tail })) => {
                complain(&format!(
                    "gantry: mcp: a message of {length} bytes was too long and skipped"
                ));
                front::refuse_too_long(output, length, [&head, &tail]);
            }
            Ok(None) => return Cause::InputClosed,
            Err(error) => {
                complain(&format!("gantry: mcp: standard input broke: {error}"));
                return Cause::InputClosed;
            }
        }
    }
}

/// What is known of each server: its name and how it is going.
type Fates = [(String, watch::Receiver<Fate>)];

/// Resolves when every server is given up and none ever was ready.
async fn all_failed(fates: &Fates) {
    for (_, fate) in fates {
        let mut fate = fate.clone();
        let decided = fate.wait_for(|fate| matches!(fate, Fate::Failed(_) | Fate::Started)).await;
        if !decided.is_ok_and(|fate| matches!(*fate, Fate::Failed(_))) {
            // One works, or we are ending anyway.
            return std::future::pending().await;
        }
    }
}

/// Resolves when every server runs, or is known not to.
async fn launched(fates: &Fates) {
    for (_, fate) in fates {
        // One that is dropped will never say.
        let _ = fate.clone().wait_for(|fate| *fate != Fate::Starting).await;
    }
}

/// Which servers were given up, and why.
fn failures(fates: &Fates) -> Vec<String> {
    let failed = fates.iter().filter_map(|(name, fate)| match &*fate.borrow() {
        Fate::Failed(why) => Some(format!("{name}: {why}")),
        _ => None,
    });
    failed.collect()
}

/// Resolves with the first SIGTERM, SIGINT or SIGHUP from this call on.
#[cfg(unix)]
fn signal() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let streams: Vec<_> = kinds.into_iter().map(signal).collect();
    async move {
        let mut waits = Vec::new();
        for stream in streams {
            match stream {
                Ok(mut stream) => waits.push(Box::pin(async move {
                    stream.recv().await;
                })),
                Err(error) => tracing::warn!(%error, "a signal cannot be watched"),
            }
        }
        if waits.is_empty() {
            std::future::pending::<()>().await;
        }
        futures::future::select_all(waits).await;
    }
}

/// Resolves with the first Ctrl+C.
#[cfg(not(unix))]
async fn signal() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
