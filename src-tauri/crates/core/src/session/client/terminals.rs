//! `terminal/*`: commands that run for the agent, each in a process tree of its own that
//! belongs to the session and ends with it.
//!
//! A terminal is a pipe, not a device: both output streams of the command come in the order in
//! which they were written, its input is empty.

use super::{super::cell::Cell, super::notes::Note, output::Output};
use crate::{
    events::now,
    wire::{Happening, TerminalExit, TerminalView},
};
use gantry_acp::CallError;
use gantry_supervisor::{
    Cause, Deadline, Ended, Exit, Launch, ProcessTree, Role, Stdout, environment,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{io::AsyncReadExt as _, sync::watch, time::Instant};

/// Terminals of one session that were not released.
const MOST: usize = 64;
/// What is kept of an output when the agent does not say, and at most, in bytes.
const USUAL_LIMIT: usize = 1024 * 1024;
const LARGEST_LIMIT: usize = 16 * 1024 * 1024;
/// What is shown of an output, and how much of it while it runs, in bytes.
const SHOWN: usize = 64 * 1024;
const SHOWN_RUNNING: usize = 16 * 1024;
/// Whoever looks on is told at most this often.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// How long what a command left behind has between TERM and KILL, once it has ended itself.
const GRACE: Duration = Duration::from_millis(500);
/// How long a command that has ended may keep its output open by what it left behind.
const LAST_OUTPUT: Duration = Duration::from_secs(2);
/// How long a kill may take.
const KILL: Duration = Duration::from_secs(3);

/// Parameters of `terminal/create`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Create {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<Variable>,
    #[serde(default)]
    cwd: Option<PathBuf>,
    #[serde(default)]
    output_byte_limit: Option<u64>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    value: String,
}

/// Without the value: it may be a secret.
impl std::fmt::Debug for Variable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// Parameters of the other requests.
#[derive(Debug, Deserialize)]
pub(super) struct Of {
    #[serde(rename = "terminalId")]
    id: String,
}

/// A session's terminals.
pub(in crate::session) struct Terminals {
    table: Mutex<Table>,
    /// Starts that are under way.
    starting: watch::Sender<usize>,
}

#[derive(Default)]
struct Table {
    /// Whether the agent has the session open; nothing starts otherwise.
    open: bool,
    /// Counts closings: a start that was under way then is ended at once.
    closings: u64,
    numbers: u64,
    terminals: BTreeMap<String, Arc<Terminal>>,
}

struct Terminal {
    id: String,
    command: String,
    cwd: String,
    turn: Option<String>,
    started_at: i64,
    /// What the agent wants to be kept, in bytes.
    limit: usize,
    tree: ProcessTree,
    output: Mutex<Output>,
    ended: watch::Sender<Option<Over>>,
}

/// The end of a command.
#[derive(Clone)]
struct Over {
    exit: TerminalExit,
    at: i64,
}

impl Default for Terminals {
    fn default() -> Self {
        Self { table: Mutex::default(), starting: watch::Sender::new(0) }
    }
}

/// Counts a start while it is under way.
struct Starting<'a>(&'a watch::Sender<usize>);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Terminals {
    // A short lock, never held across an await.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The agent has the session open: it may start some.
    pub(in crate::session) fn open(&self) {
        self.table().open = true;
    }

    /// From now on nothing starts.
    pub(in crate::session) fn close(&self) {
        let mut table = self.table();
        table.open = false;
        table.closings += 1;
    }

    /// Closes, and ends them all, those that are being started too.
    pub(in crate::session) async fn stop_all(&self, deadline: Deadline) -> Vec<Ended> {
        self.close();
        let terminals = std::mem::take(&mut self.table().terminals);
        let stops = terminals.into_values().map(async |terminal| {
            let ended = terminal.stop(deadline).await;
            // What it wrote last is stored then.
            let _ = deadline.bound(terminal.over()).await;
            ended
        });
        let mut starting = self.starting.subscribe();
        let none_starts = async {
            drop(deadline.bound(starting.wait_for(|count| *count == 0)).await);
        };
        let stops = futures::future::join_all(stops);
        futures::future::join(stops, none_starts).await.0
    }

    /// Those that were started in a turn and still run.
    pub(in crate::session) fn running_in(&self, turn: &str) -> Vec<TerminalView> {
        let table = self.table();
        let running = table.terminals.values().filter(|terminal| {
            terminal.turn.as_deref() == Some(turn) && terminal.ended.borrow().is_none()
        });
        running.map(|terminal| terminal.view(SHOWN, None)).collect()
    }

    fn find(&self, of: &Of) -> Result<Arc<Terminal>, CallError> {
        self.table().terminals.get(&of.id).cloned().ok_or_else(|| {
            CallError::not_found(format!(
                "there is no terminal `{}` in this session; it may have been released",
                of.id
            ))
        })
    }

    /// `terminal/output`.
    pub(super) fn output(&self, of: &Of) -> Result<Value, CallError> {
        let terminal = self.find(of)?;
        let over = terminal.ended.borrow().clone();
        let mut answer = {
            let output = terminal.output();
            let (text, truncated) = output.tail(terminal.limit);
            json!({ "output": text, "truncated": truncated })
        };
        if let Some(over) = over {
            answer["exitStatus"] = status(&over.exit);
        }
        Ok(answer)
    }

    /// `terminal/wait_for_exit`.
    pub(super) async fn wait(&self, of: &Of) -> Result<Value, CallError> {
        let over = self.find(of)?.over().await;
        over.map(|over| status(&over.exit)).ok_or_else(|| CallError::failed("it is gone"))
    }

    /// `terminal/kill`: its output can still be had.
    pub(super) async fn kill(&self, of: &Of) -> Result<Value, CallError> {
        let terminal = self.find(of)?;
        let deadline = Deadline::after(KILL);
        terminal.stop(deadline).await;
        let _ = deadline.bound(terminal.over()).await;
        Ok(json!({}))
    }

    /// `terminal/release`: ends it if it runs, and forgets it.
    pub(super) async fn release(&self, of: &Of) -> Result<Value, CallError> {
        let terminal = self.find(of)?;
        let deadline = Deadline::after(KILL);
        terminal.stop(deadline).await;
        let _ = deadline.bound(terminal.over()).await;
        self.table().terminals.remove(&of.id);
        Ok(json!({}))
    }
}

/// `terminal/create`.
pub(super) async fn create(cell: &Arc<Cell>, ask: Create) -> Result<Value, CallError> {
    let terminals = &cell.client.terminals;
    let (closings, id) = {
        let mut table = terminals.table();
        if !table.open {
            return Err(CallError::failed("the session is being stopped"));
        }
        if table.terminals.len() >= MOST {
            return Err(CallError::failed(format!(
                "{MOST} terminals are open in this session; release some (`terminal/release`)"
            )));
        }
        table.numbers += 1;
        terminals.starting.send_modify(|count| *count += 1);
        (table.closings, format!("terminal-{}", table.numbers))
    };
    let _starting = Starting(&terminals.starting);
    let (agent, turn, folder) = {
        let inner = cell.lock();
        let turn = inner.state.turn_of("tool_call").map(str::to_owned);
        (inner.agent().id.clone(), turn, PathBuf::from(&inner.project_path))
    };
    let cwd = ask.cwd.unwrap_or(folder);
    if !cwd.is_absolute() {
        let why = format!("`cwd` must be absolute, and `{}` is not", cwd.display());
        return Err(CallError::invalid(why));
    }
    let shown = shown_line(&ask.command, &ask.args);
    let (program, args) = command_line(ask.command, ask.args);
    let launched = cell.deps.supervisor.launch(Launch {
        name: agent,
        role: Role::Terminal,
        program,
        args,
        env: ask.env.into_iter().map(|v| (v.name.into(), v.value.into())).collect(),
        cwd: Some(cwd.clone()),
        grace: GRACE,
    });
    let child = launched.await.map_err(|error| CallError::failed(error.to_string()))?;
    // Nobody types: a command that reads gets the end of its input.
    drop(child.stdin);
    let limit = ask.output_byte_limit.map_or(USUAL_LIMIT, |limit| {
        usize::try_from(limit).unwrap_or(LARGEST_LIMIT).min(LARGEST_LIMIT)
    });
    let terminal = Arc::new(Terminal {
        id: id.clone(),
        command: shown,
        cwd: cwd.display().to_string(),
        turn,
        started_at: now(),
        limit,
        tree: child.tree,
        output: Mutex::new(Output::new(limit.max(SHOWN))),
        ended: watch::Sender::new(None),
    });
    let was_closed = {
        let mut table = terminals.table();
        let was_closed = table.closings != closings;
        if !was_closed {
            table.terminals.insert(id.clone(), terminal.clone());
        }
        was_closed
    };
    if was_closed {
        terminal.stop(Deadline::after(KILL)).await;
        return Err(CallError::failed("the session was stopped meanwhile"));
    }
    terminal.tell(cell, terminal.view(SHOWN_RUNNING, None));
    let name = format!("{id} of session {}", cell.id);
    let follow = follow(cell.clone(), terminal, child.stdout);
    cell.deps.scope.spawn(name, follow);
    Ok(json!({ "terminalId": id }))
}

/// Reads what the command writes until it has ended.
async fn follow(cell: Arc<Cell>, terminal: Arc<Terminal>, mut stdout: Stdout) {
    let mut buffer = vec![0; 16 * 1024];
    let (mut told, mut untold) = (Instant::now(), false);
    let mut exited = Box::pin(terminal.tree.exited());
    let mut exit = None;
    let mut give_up = Instant::now();
    loop {
        tokio::select! {
            biased;
            read = stdout.read(&mut buffer) => match read {
                Ok(0) | Err(_) => break,
                Ok(length) => {
                    terminal.output().push(&buffer[..length]);
                    untold = true;
                }
            },
            status = &mut exited, if exit.is_none() => {
                exit = Some(status);
                give_up = Instant::now() + LAST_OUTPUT;
            }
            () = tokio::time::sleep_until(told + TELL_EVERY), if untold => {}
            () = tokio::time::sleep_until(give_up), if exit.is_some() => break,
        }
        if untold && told.elapsed() >= TELL_EVERY {
            terminal.tell(&cell, terminal.view(SHOWN_RUNNING, None));
            (told, untold) = (Instant::now(), false);
        }
    }
    let exit = match exit {
        Some(exit) => exit,
        None => exited.await,
    };
    terminal.output().end();
    let over = Over { exit: how(exit), at: now() };
    let view = terminal.view(SHOWN, Some(over.clone()));
    {
        let mut inner = cell.lock();
        cell.note(&mut inner, terminal.turn.as_deref(), &Note::Terminal(view.clone()));
    }
    // Once it has ended it is stored: who does not find it running finds it there.
    terminal.ended.send_replace(Some(over));
    terminal.tell(&cell, view);
}

impl Terminal {
    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn stop(&self, deadline: Deadline) -> Ended {
        // Its input was closed at its start.
        self.tree.stop_soon(Cause::Stopped, deadline, Duration::ZERO).await
    }

    /// Waits for its end.
    async fn over(&self) -> Option<Over> {
        let mut ended = self.ended.subscribe();
        ended.wait_for(Option::is_some).await.ok()?.clone()
    }

    fn view(&self, most: usize, over: Option<Over>) -> TerminalView {
        let output = self.output();
        let (text, truncated) = output.tail(most);
        TerminalView {
            id: self.id.clone(),
            command: self.command.clone(),
            cwd: self.cwd.clone(),
            output: text.to_owned(),
            truncated,
            exit: over.as_ref().map(|over| over.exit.clone()),
            started_at: self.started_at,
            ended_at: over.map(|over| over.at),
        }
    }

    /// Tells whoever looks on.
    fn tell(&self, cell: &Cell, terminal: TerminalView) {
        let (session, turn) = (cell.id.clone(), self.turn.clone());
        let terminal = Box::new(terminal);
        cell.deps.events.publish(Happening::TerminalChanged { session, turn, terminal });
    }
}

/// What is run. Agents give a program with arguments, or a whole line for a shell. A shell
/// joins both output streams into one, so that their order is kept.
fn command_line(command: String, args: Vec<String>) -> (OsString, Vec<OsString>) {
    if cfg!(windows) {
        return (command.into(), args.into_iter().map(OsString::from).collect());
    }
    if args.is_empty() && is_line(&command) {
        let shell = if environment::find_program("bash").is_some() { "bash" } else { "sh" };
        return (shell.into(), vec!["-c".into(), format!("exec 2>&1\n{command}").into()]);
    }
    let join = ["-c", "exec \"$0\" \"$@\" 2>&1"].map(OsString::from);
    let words = std::iter::once(command).chain(args).map(OsString::from);
    ("sh".into(), join.into_iter().chain(words).collect())
}

/// Whether a command is a line for a shell and no program's name.
fn is_line(command: &str) -> bool {
    let for_shell = |c: char| c.is_whitespace() || "|&;<>()$`\\\"'*?[]#~=%{}!".contains(c);
    command.contains(for_shell) && !PathBuf::from(command).is_file()
}

/// For people.
fn shown_line(command: &str, args: &[String]) -> String {
    let quoted = |arg: &String| {
        let plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
        if !arg.is_empty() && arg.chars().all(plain) {
            arg.clone()
        } else {
            format!("'{}'", arg.replace('\'', "'\\''"))
        }
    };
    std::iter::once(command.to_owned()).chain(args.iter().map(quoted)).collect::<Vec<_>>().join(" ")
}

/// `exitStatus` of ACP.
fn status(exit: &TerminalExit) -> Value {
    json!({ "exitCode": exit.code, "signal": exit.signal })
}

fn how(exit: Exit) -> TerminalExit {
    match exit {
        Exit::Code(code) => TerminalExit { code: Some(code), signal: None },
        Exit::Signal(number) => TerminalExit { code: None, signal: Some(signal_name(number)) },
        Exit::Unknown => TerminalExit::default(),
    }
}

/// The names are the same on all Unix systems for these numbers.
fn signal_name(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return format!("signal {number}"),
    };
    name.to_owned()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_to_a_shell_and_a_program_with_arguments_does_not() {
        let of = |command: &str, args: &[&str]| {
            let args = args.iter().map(|&arg| arg.to_owned()).collect();
            let (program, args) = command_line(command.to_owned(), args);
            let args: Vec<_> = args.into_iter().map(|a| a.into_string().unwrap()).collect();
            (program.into_string().unwrap(), args)
        };
        let (program, args) = of("ls -l | wc", &[]);
        assert!(["bash", "sh"].contains(&program.as_str()), "{program}");
        assert_eq!(args, ["-c", "exec 2>&1\nls -l | wc"]);
        let (_, args) = of("echo", &["$HOME", "a b"]);
        assert_eq!(args[2..], ["echo", "$HOME", "a b"]);
        assert_eq!(of("make", &[]).1[2..], ["make"]);
        assert_eq!(of("/opt/my tools/x", &["1"]).1[2..], ["/opt/my tools/x", "1"]);
        assert!(is_line("FOO=1 make") && is_line("a\nb") && !is_line("./run.sh"));
    }

    #[test]
    fn what_is_shown_can_be_pasted_into_a_shell() {
        let args = ["-m", "it's", "", "a b", "x=1"].map(str::to_owned);
        assert_eq!(shown_line("git", &args), "git -m 'it'\\''s' '' 'a b' x=1");
    }
}
