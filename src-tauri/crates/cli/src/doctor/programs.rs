//! The programs that servers and agents are started with, and where they are looked for.

use super::Finding;
use gantry_core::programs::Programs;
use gantry_supervisor::{
    Cause, Deadline, Launch, Role, Supervisor,
    environment::{self, find_program},
};
use std::{collections::BTreeSet, ffi::OsString, path::PathBuf, time::Duration};
use tokio::io::AsyncReadExt as _;

/// How long a program may take to say its version.
const SAYS_VERSION: Duration = Duration::from_secs(10);
/// For its end.
const END: Duration = Duration::from_secs(2);

/// Name, what it is for, what brings it.
const TOOLS: &[(&str, &str, &str)] = &[
    ("node", "most servers and several agents", "install Node.js 20 or newer (https://nodejs.org)"),
    (
        "npx",
        "servers that are npm packages",
        "install Node.js, which brings it (https://nodejs.org)",
    ),
    ("uv", "servers that are Python packages", "install uv (https://docs.astral.sh/uv)"),
    (
        "uvx",
        "servers that are Python packages",
        "install uv, which brings it (https://docs.astral.sh/uv)",
    ),
];

/// node, npx, uv and uvx.
pub async fn tools(supervisor: &Supervisor) -> Vec<Finding> {
    let looks = TOOLS.iter().map(|(name, purpose, advice)| tool(supervisor, name, purpose, advice));
    futures::future::join_all(looks).await
}

async fn tool(supervisor: &Supervisor, name: &str, purpose: &str, advice: &str) -> Finding {
    let Some(path) = find_program(name) else {
        return Finding::warning(
            name,
            format!("not found; {purpose} need it"),
            format!("{advice}, or leave it if you use none of those"),
        );
    };
    let shown = path.display().to_string();
    match version(supervisor, name, path).await {
        Ok(version) => Finding::ok(name, format!("{version} ({shown})")),
        Err(why) => Finding::problem(
            name,
            format!("{shown} does not work: {why}"),
            format!("run `{name} --version` in a terminal; {advice}"),
        ),
    }
}

async fn version(supervisor: &Supervisor, name: &str, path: PathBuf) -> Result<String, String> {
    let child = supervisor
        .launch(Launch {
            name: name.to_owned(),
            role: Role::Own,
            program: path.into(),
            args: vec!["--version".into()],
            env: Vec::new(),
            cwd: None,
            grace: Duration::from_secs(1),
        })
        .await
        .map_err(|error| error.to_string())?;
    let mut output = child.stdout.take(4096);
    let mut text = Vec::new();
    let read = Deadline::after(SAYS_VERSION).bound(output.read_to_end(&mut text)).await;
    let errors = child.stderr.lines(1);
    child.tree.stop(Cause::Quit, Deadline::after(END)).await;
    let text = String::from_utf8_lossy(&text);
    match (read, text.lines().find(|line| !line.trim().is_empty())) {
        (_, Some(line)) => Ok(line.trim().to_owned()),
        (Err(_), None) => Err("it said nothing within ten seconds".to_owned()),
        (Ok(_), None) => Err(errors.first().cloned().unwrap_or_else(|| "it said nothing".into())),
    }
}

/// Where programs are looked for, and whether a login shell would look elsewhere.
pub async fn login_shell(supervisor: &Supervisor) -> Vec<Finding> {
    let own = std::env::var_os("PATH").unwrap_or_default();
    environment::ask_login_shell(supervisor).await;
    let adopted = environment::login_shell();
    let consulted = match adopted {
        Some(shell) => Some(Ok(shell.clone())),
        // From a terminal: what would a Gantry find that the desktop starts?
        None => environment::consult_login_shell(supervisor).await,
    };
    let shell = match consulted {
        Some(Ok(shell)) => shell,
        None => return vec![Finding::ok("PATH", own.to_string_lossy())],
        Some(Err((program, why))) => {
            return vec![Finding::warning(
                "PATH",
                format!("the login shell ({}) was asked for its own, but {why}", program.display()),
                "a Gantry that the desktop starts finds only what is in the desktop's PATH; look \
                 what its start-up files wait for",
            )];
        }
    };
    let entries = |path: &OsString| -> BTreeSet<PathBuf> {
        std::env::split_paths(path).filter(|entry| !entry.as_os_str().is_empty()).collect()
    };
    let (ours, theirs) = (entries(&own), entries(&shell.path));
    let added: Vec<_> = theirs.difference(&ours).map(|entry| entry.display().to_string()).collect();
    let lost: Vec<_> = ours.difference(&theirs).map(|entry| entry.display().to_string()).collect();
    if added.is_empty() && lost.is_empty() {
        return vec![Finding::ok("PATH", format!("as in {}", shell.program.display()))];
    }
    let mut found = format!("differs from that of the login shell ({})", shell.program.display());
    if !added.is_empty() {
        found.push_str(&format!("; there only: {}", added.join(", ")));
    }
    if !lost.is_empty() {
        found.push_str(&format!("; here only: {}", lost.join(", ")));
    }
    let advice = match adopted {
        Some(_) => "Gantry searches both, the login shell's first",
        None => {
            "a Gantry that the desktop starts searches the login shell's, one from here does not"
        }
    };
    let advice = format!("{advice}; set PATH in the shell's start-up file to have one");
    vec![Finding::warning("PATH", found, advice)]
}

/// The program that keeps daemons from surviving a crash.
pub fn warden(ours: &Programs) -> Finding {
    match (&ours.warden, cfg!(target_os = "linux")) {
        (Some(path), _) => Finding::ok("gantry-warden", path.display().to_string()),
        (None, false) => Finding::ok("gantry-warden", "not used on this system"),
        (None, true) => Finding::problem(
            "gantry-warden",
            format!("not beside {}", ours.gantry.display()),
            "install Gantry again: without it daemons may survive a crash",
        ),
    }
}
