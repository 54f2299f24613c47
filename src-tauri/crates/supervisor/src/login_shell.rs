//! What the user's login shell would give a program: a desktop starts its
//! programs with less, so that nothing installed under a version manager is found.

use crate::{Cause, Deadline, Launch, Role, Supervisor, resolve};
use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    io::IsTerminal as _,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};
use tokio::io::AsyncReadExt as _;

/// `yes` asks the login shell always, `no` never; without it only a Gantry that was not
/// started from a terminal does.
pub const LOGIN_SHELL_VARIABLE: &str = "GANTRY_LOGIN_SHELL";

/// Set while the shell is asked, so that a start-up file can leave out what is slow.
const ASKING_VARIABLE: &str = "GANTRY_RESOLVING_ENVIRONMENT";

/// How long the shell may take, its end included.
const LIMIT: Duration = Duration::from_millis(2500);
/// What is kept of that for ending a shell that does not answer.
const END: Duration = Duration::from_millis(500);
/// The largest environment in bytes.
const SIZE: usize = 4 << 20;

/// What a shell sets for itself, and what it takes from us.
const NOT_TAKEN: &[&str] = &[
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "TERM",
    "COLUMNS",
    "LINES",
    "PS1",
    "PS2",
    "PS4",
    "PROMPT",
    "PROMPT_COMMAND",
    "SHELLOPTS",
    "BASHOPTS",
    "HISTFILE",
    "ENV",
    "BASH_ENV",
    "TMUX",
    "STY",
    "WINDOWID",
    "SSH_AGENT_PID",
];

/// The environment of the user's login shell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginShell {
    /// The shell that was asked.
    pub program: PathBuf,
    /// Its `PATH`.
    pub path: OsString,
    /// What else it has and we do not.
    pub variables: Vec<(OsString, OsString)>,
}

static KNOWN: OnceLock<LoginShell> = OnceLock::new();

/// What the login shell said, if it was asked; see [`ask_login_shell`].
pub fn login_shell() -> Option<&'static LoginShell> {
    KNOWN.get()
}

/// Asks the login shell, unless this program was started from a terminal and so has the
/// shell's environment already; what it says holds for every later
/// [`crate::environment::for_children`]. Takes 2.5 s at most, once for each process. The
/// shell runs in a tree of its own and leaves nothing behind, whatever it starts.
pub async fn ask_login_shell(supervisor: &Supervisor) {
    if KNOWN.get().is_some() || !is_wanted() {
        return;
    }
    let Some(program) = shell() else { return };
    match ask(supervisor, &program, Deadline::after(LIMIT)).await {
        Ok(answer) => {
            let path = answer.path.to_string_lossy();
            tracing::info!(shell = %program.display(), %path, "the login shell's environment is used");
            let _ = KNOWN.set(answer);
        }
        Err(why) => tracing::warn!(
            shell = %program.display(),
            "the login shell was asked for its environment, but {why}; programs are only looked \
             for in Gantry's own PATH (set {LOGIN_SHELL_VARIABLE}=no to never ask)"
        ),
    }
}

/// Asks the login shell whatever started this program, and takes nothing over: for a look at
/// what a Gantry would find that the desktop starts. `None` when it is never to be asked, or
/// there is none. Takes 2.5 s at most.
///
/// # Errors
/// The shell, and why it did not answer.
pub async fn consult_login_shell(
    supervisor: &Supervisor,
) -> Option<Result<LoginShell, (PathBuf, String)>> {
    let is_refused = std::env::var(LOGIN_SHELL_VARIABLE).as_deref() == Ok("no");
    let program = shell().filter(|_| cfg!(unix) && !is_refused)?;
    let answer = ask(supervisor, &program, Deadline::after(LIMIT)).await;
    Some(answer.map_err(|why| (program, why)))
}

fn is_wanted() -> bool {
    match std::env::var(LOGIN_SHELL_VARIABLE).as_deref() {
        Ok("no") => false,
        Ok("yes") => cfg!(unix),
        _ => cfg!(unix) && !from_terminal(),
    }
}

/// Whether a shell with a person in front of it started us. A desktop hands down `SHLVL`
/// from its own start script at times, but no terminal's name.
fn from_terminal() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let names_terminal =
        is_set("SHLVL") && is_set("TERM") && std::env::var_os("TERM") != Some("dumb".into());
    names_terminal
        || std::io::stdin().is_terminal()
        || std::io::stdout().is_terminal()
        || std::io::stderr().is_terminal()
}

/// The user's shell: `$SHELL`, else that of the user database.
fn shell() -> Option<PathBuf> {
    let named = std::env::var_os("SHELL").map(PathBuf::from).or_else(shell_in_database);
    let fallback = PathBuf::from("/bin/sh");
    [named, Some(fallback)].into_iter().flatten().find(|path| path.is_absolute() && path.is_file())
}

#[cfg(unix)]
fn shell_in_database() -> Option<PathBuf> {
    let me = rustix::process::getuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (*fields.get(2)? == me).then_some(())?;
        fields.get(6).filter(|shell| !shell.is_empty()).map(PathBuf::from)
    })
}

#[cfg(not(unix))]
fn shell_in_database() -> Option<PathBuf> {
    None
}

/// Runs the shell as its user does, and reads what it says between two marks: start-up
/// files may write what they like before and after.
async fn ask(
    supervisor: &Supervisor,
    program: &Path,
    deadline: Deadline,
) -> Result<LoginShell, String> {
    // In two parts: a shell that exports `_` has the last word of a command in the environment.
    let (head, tail) = ("gantry", format!("-{}-environment", std::process::id()));
    let mark = format!("{head}{tail}");
    let question = format!(
        "{}printf '%s%s' {head} '{tail}'; /usr/bin/env -0; printf '%s%s' {head} '{tail}'",
        before_question(program)
    );
    let launch = Launch {
        name: "login shell".into(),
        role: Role::Own,
        program: program.as_os_str().to_owned(),
        args: arguments(program).iter().map(Into::into).chain([question.into()]).collect(),
        env: vec![(ASKING_VARIABLE.into(), "1".into()), ("TERM".into(), "dumb".into())],
        cwd: std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir()),
        grace: Duration::ZERO,
    };
    let mut child = supervisor.launch(launch).await.map_err(|why| why.to_string())?;
    // Nobody answers what a start-up file asks.
    drop(child.stdin);
    let until = deadline.instant().checked_sub(END).unwrap_or(deadline.instant());
    let answer = read_answer(&mut child.stdout, mark.as_bytes());
    let answer = Deadline::at(until).bound(answer).await;
    let stopping = child.tree.stop_soon(Cause::Unused, deadline, Duration::ZERO);
    stopping.await;
    match answer {
        Ok(Some(text)) => {
            let ours: HashSet<OsString> = std::env::vars_os().map(|(name, _)| name).collect();
            understood(program, &text, &ours).ok_or_else(|| "it has no PATH".to_owned())
        }
        Err(_) => Err(format!("it did not answer within {LIMIT:?}")),
        Ok(None) => match child.stderr.lines(1).pop() {
            Some(line) => Err(format!("it ended without an answer: {line}")),
            None => Err("it ended without an answer".to_owned()),
        },
    }
}

/// What stands between two marks. What a start-up file writes before is not kept, however much
/// it is; what it left running may hold the output open, so nothing after is waited for.
async fn read_answer(
    mut reading: impl tokio::io::AsyncRead + Unpin,
    mark: &[u8],
) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 16 * 1024];
    let (mut kept, mut is_begun) = (Vec::new(), false);
    // No mark begins before this place.
    let mut searched = 0;
    while kept.len() < SIZE {
        let count = reading.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        kept.extend_from_slice(&buffer[..count]);
        while let Some(at) = find(&kept[searched..], mark).map(|at| searched + at) {
            if is_begun {
                kept.truncate(at);
                return Some(kept);
            }
            kept.drain(..at + mark.len());
            (is_begun, searched) = (true, 0);
        }
        searched = kept.len().saturating_sub(mark.len() - 1);
        if !is_begun {
            kept.drain(..searched);
            searched = 0;
        }
    }
    None
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// A login shell that reads what an interactive one does, where the shell knows both.
fn arguments(program: &Path) -> &'static [&'static str] {
    match program.file_name().and_then(OsStr::to_str) {
        // Theirs takes `-l` alone only.
        Some("csh" | "tcsh") => &["-ic"],
        _ => &["-i", "-l", "-c"],
    }
}

/// What a login shell would read and an interactive one does not, where it cannot be both.
fn before_question(program: &Path) -> &'static str {
    match program.file_name().and_then(OsStr::to_str) {
        Some("csh" | "tcsh") => "if ( -r ~/.login ) source ~/.login; ",
        _ => "",
    }
}

/// `None` when there is no `PATH` in it.
fn understood(program: &Path, text: &[u8], ours: &HashSet<OsString>) -> Option<LoginShell> {
    let pairs: Vec<(OsString, OsString)> = text
        .split(|byte| *byte == 0)
        .filter_map(|entry| {
            let at = entry.iter().position(|byte| *byte == b'=')?;
            Some((os_string(&entry[..at])?, os_string(&entry[at + 1..])?))
        })
        .collect();
    let path = resolve::value(&pairs, "PATH")?.to_owned();
    // An agent for keys that a start-up file started has ended with the shell.
    let own_agent = pairs.iter().any(|(name, _)| name == "SSH_AGENT_PID" && !ours.contains(name));
    let is_taken = |name: &OsStr| {
        let text = name.to_string_lossy();
        name != "PATH"
            && !ours.contains(name)
            && !NOT_TAKEN.contains(&&*text)
            && !text.starts_with("GANTRY_")
            // A function that the shell exports.
            && !text.contains(['%', '('])
            && (!own_agent || name != "SSH_AUTH_SOCK")
    };
    let variables = pairs.into_iter().filter(|(name, _)| is_taken(name)).collect();
    Some(LoginShell { program: program.to_owned(), path, variables })
}

#[cfg(unix)]
fn os_string(bytes: &[u8]) -> Option<OsString> {
    Some(std::os::unix::ffi::OsStringExt::from_vec(bytes.to_vec()))
}

#[cfg(not(unix))]
fn os_string(bytes: &[u8]) -> Option<OsString> {
    String::from_utf8(bytes.to_vec()).ok().map(Into::into)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn names(shell: &LoginShell) -> Vec<&str> {
        shell.variables.iter().filter_map(|(name, _)| name.to_str()).collect()
    }

    async fn answer(text: &[u8]) -> Option<Vec<u8>> {
        read_answer(text, b"MARK").await
    }

    #[tokio::test]
    async fn the_answer_stands_between_two_marks() {
        assert_eq!(answer(b"Welcome!\nMARKA=1\0MARKbye").await.as_deref(), Some(&b"A=1\0"[..]));
        assert_eq!(answer(b"MARKMARK").await.as_deref(), Some(&b""[..]));
        assert_eq!(answer(b"MARKA=1\0MAR").await, None);
        assert_eq!(answer(b"").await, None);
    }

    #[tokio::test]
    async fn marks_that_come_in_pieces_are_found() {
        use tokio::io::AsyncWriteExt as _;
        let text = b"noise MAMARKA=1\0B=MARMARKrest";
        for size in 1..text.len() {
            let (mut ours, theirs) = tokio::io::duplex(size);
            let write = async move { drop(ours.write_all(text).await) };
            let (answer, ()) = tokio::join!(read_answer(theirs, b"MARK"), write);
            assert_eq!(answer.as_deref(), Some(&b"A=1\0B=MAR"[..]), "{size}");
        }
    }

    #[tokio::test]
    async fn noise_before_the_answer_costs_neither_time_nor_the_answer() {
        let began = std::time::Instant::now();
        let mut text = vec![b'M'; 30 << 20];
        text.extend_from_slice(b"MARKA=1\0MARK");
        assert_eq!(answer(&text).await.as_deref(), Some(&b"A=1\0"[..]));
        // An answer has an end.
        let mut text = b"MARK".to_vec();
        text.resize(SIZE * 2, b'M');
        assert_eq!(answer(&text).await, None);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn only_what_we_lack_is_taken_and_nothing_of_the_shells_own() {
        let text = b"PATH=/home/u/.nvm/bin:/usr/bin\0KEY=a=b\nc\0HOME=/home/u\0SHLVL=2\0_=/x\0\
            BASH_FUNC_nvm%%=() { :; }\0SSH_AGENT_PID=1\0SSH_AUTH_SOCK=/tmp/a\0GANTRY_TREE=1.2.x\0";
        let ours = HashSet::from(["HOME".into(), "PATH".into()]);
        let shell = understood(Path::new("/bin/bash"), text, &ours).expect("a PATH");
        assert_eq!(shell.path, "/home/u/.nvm/bin:/usr/bin");
        assert_eq!(names(&shell), ["KEY"]);
        assert_eq!(shell.variables[0].1, "a=b\nc");
    }

    #[test]
    fn an_agent_for_keys_that_runs_anyway_is_taken() {
        let text = b"PATH=/bin\0SSH_AUTH_SOCK=/run/user/1/ssh\0";
        let shell = understood(Path::new("/bin/sh"), text, &HashSet::new()).expect("a PATH");
        assert_eq!(names(&shell), ["SSH_AUTH_SOCK"]);
    }

    #[test]
    fn an_answer_without_a_path_is_none() {
        assert_eq!(understood(Path::new("/bin/sh"), b"A=1\0", &HashSet::new()), None);
    }

    #[test]
    fn this_user_has_a_shell() {
        assert!(shell().is_some_and(|shell| shell.is_absolute()));
    }
}
