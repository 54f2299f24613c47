//! From a server's configuration to a running process, behind a small border
//! so that the bridge can be tested without processes.

use super::{
    handover::CONFIG_VARIABLE,
    references::{self, Lookup},
    sign_ins::{self, SIGN_IN_VARIABLE},
    spec::is_remote,
    transports::{self, TRANSPORT_VARIABLE},
};
use crate::wire::ServerConfig;
use futures::{FutureExt, future::BoxFuture};
use gantry_supervisor::{
    Cause, Deadline, Ended, Exit, Launch, LaunchError, ProcessTree, Role, StderrTail, Supervisor,
};
use serde_json::{Map, json};
use std::{
    fmt::Debug,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite};

/// How long a start may take.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The same where it may begin with a download. One that is cut off begins anew at the
/// next start, so that it would never end on a slow line.
const FETCH_LIMIT: Duration = Duration::from_secs(600);
/// The same for what is only reached.
const REMOTE_LIMIT: Duration = Duration::from_secs(30);
/// Programs that download what they run, some with a certain first argument only.
const FETCHERS: [(&str, Option<&str>); 13] = [
    ("npx", None),
    ("uvx", None),
    ("bunx", None),
    ("pnpx", None),
    ("pipx", Some("run")),
    ("npm", Some("exec")),
    ("pnpm", Some("dlx")),
    ("yarn", Some("dlx")),
    ("bun", Some("x")),
    ("uv", Some("tool")),
    ("deno", Some("run")),
    ("docker", Some("run")),
    ("podman", Some("run")),
];
/// What a server's warden waits between TERM and KILL when it acts on its own.
const GRACE: Duration = Duration::from_secs(1);

/// Starts servers.
pub(super) trait Launcher: Send + Sync + 'static {
    fn launch(&self, launch: Launch) -> BoxFuture<'static, Result<Started, LaunchError>>;
}

/// A started server with its streams.
pub(super) struct Started {
    pub tree: Arc<dyn Tree>,
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub stderr: Arc<dyn Tail>,
}

/// See [`ProcessTree`].
pub(super) trait Tree: Send + Sync + 'static {
    fn id(&self) -> String;
    fn pid(&self) -> u32;
    fn executable(&self) -> PathBuf;
    fn exited(&self) -> BoxFuture<'static, Exit>;
    fn stop(&self, cause: Cause, deadline: Deadline) -> BoxFuture<'static, Ended>;
}

/// See [`StderrTail`].
pub(super) trait Tail: Debug + Send + Sync + 'static {
    fn lines(&self, count: usize) -> Vec<String>;
    fn settled(&self) -> BoxFuture<'_, ()>;
}

impl Launcher for Supervisor {
    fn launch(&self, launch: Launch) -> BoxFuture<'static, Result<Started, LaunchError>> {
        let supervisor = self.clone();
        async move {
            let child = supervisor.launch(launch).await?;
            Ok(Started {
                tree: Arc::new(child.tree),
                stdin: Box::new(child.stdin),
                stdout: Box::new(child.stdout),
                stderr: Arc::new(child.stderr),
            })
        }
        .boxed()
    }
}

impl Tree for ProcessTree {
    fn id(&self) -> String {
        self.id().to_owned()
    }
    fn pid(&self) -> u32 {
        self.program().pid
    }
    fn executable(&self) -> PathBuf {
        self.executable().clone()
    }
    fn exited(&self) -> BoxFuture<'static, Exit> {
        let tree = self.clone();
        async move { tree.exited().await }.boxed()
    }
    fn stop(&self, cause: Cause, deadline: Deadline) -> BoxFuture<'static, Ended> {
        let tree = self.clone();
        async move { tree.stop(cause, deadline).await }.boxed()
    }
}

impl Tail for StderrTail {
    fn lines(&self, count: usize) -> Vec<String> {
        self.lines(count)
    }
    fn settled(&self) -> BoxFuture<'_, ()> {
        self.settled().boxed()
    }
}

/// The directory of servers that name none.
pub(super) fn default_directory(data_dir: &Path) -> PathBuf {
    data_dir.join("workspaces")
}

/// How a server is started.
///
/// # Errors
/// Why it cannot be, with the field that is wrong.
pub(super) fn launch_of(
    name: &str,
    config: &ServerConfig,
    gantry: &Path,
    data_dir: &Path,
    lookup: Lookup,
) -> Result<Launch, String> {
    let full = references::resolved(config, lookup)?;
    if is_remote(&full) {
        // Of the configuration as it is stored: the name of the file follows from it.
        let sign_in = sign_ins::file_of(data_dir, config);
        return Ok(carrier_of(name, full, sign_in, gantry, data_dir));
    }
    let Some(command) = full.command.filter(|command| !command.is_empty()) else {
        return Err("its configuration has neither `command` nor `url`; give it one".into());
    };
    let mut args = full.args;
    let program = if command == "gantry" {
        complete_own(&mut args, data_dir);
        gantry.as_os_str().to_owned()
    } else {
        command.into()
    };
    Ok(Launch {
        name: name.to_owned(),
        role: Role::Server,
        program,
        args: args.into_iter().map(Into::into).collect(),
        env: full.env.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
        cwd: Some(full.cwd.map_or_else(|| default_directory(data_dir), PathBuf::from)),
        grace: GRACE,
    })
}

/// Our own program in front of a remote server: it carries one MCP session and ends with it, so
/// that a remote server lives and dies for the bridge like any other. URL, headers and token go by
/// environment, as each may be a secret; the filter stays here.
fn carrier_of(
    name: &str,
    full: ServerConfig,
    sign_in: Option<PathBuf>,
    gantry: &Path,
    data_dir: &Path,
) -> Launch {
    let mut env = Vec::new();
    if let (None, Some(url)) = (&full.transport, &full.url) {
        let file = transports::file_of(data_dir, url);
        env.push((TRANSPORT_VARIABLE.into(), file.into_os_string()));
    }
    if let Some(file) = sign_in {
        env.push((SIGN_IN_VARIABLE.into(), file.into_os_string()));
    }
    let bare = ServerConfig { allow_tools: Vec::new(), deny_tools: Vec::new(), ..full };
    env.push((CONFIG_VARIABLE.into(), through_gantry(name, &bare).into()));
    Launch {
        name: name.to_owned(),
        role: Role::Server,
        program: gantry.as_os_str().to_owned(),
        args: ["mcp", "--carry"].map(Into::into).into(),
        env,
        cwd: Some(default_directory(data_dir)),
        grace: GRACE,
    }
}

/// The configuration of one server as `gantry mcp` reads it.
pub(super) fn through_gantry(name: &str, full: &ServerConfig) -> String {
    let mut servers = Map::new();
    servers.insert(name.to_owned(), json!(full));
    json!({ "mcpServers": servers }).to_string()
}

/// How long a start may take when the configuration does not say.
pub(super) fn start_limit(config: &ServerConfig) -> Duration {
    if let Some(ms) = config.start_timeout_ms {
        Duration::from_millis(ms)
    } else if is_remote(config) {
        REMOTE_LIMIT
    } else if fetcher(config).is_some() {
        FETCH_LIMIT
    } else {
        START_LIMIT
    }
}

/// The program that fetches the server from a registry before it starts it, if it is one.
pub(super) fn fetcher(config: &ServerConfig) -> Option<&'static str> {
    let command = config.command.as_deref()?;
    let base = command.rsplit(['/', '\\']).next().unwrap_or(command);
    let base = base.trim_end_matches(".exe").trim_end_matches(".cmd");
    let first = config.args.iter().find(|arg| !arg.starts_with('-')).map(String::as_str);
    FETCHERS
        .iter()
        .find(|(program, word)| *program == base && (word.is_none() || *word == first))
        .map(|(program, _)| *program)
}

/// Tells the built-in server where its data is.
pub(super) fn complete_own(args: &mut Vec<String>, data_dir: &Path) {
    let has = |wanted: &str| args.iter().any(|arg| arg == wanted);
    if has("--recall") && !has("--data-dir") {
        args.extend(["--data-dir".to_owned(), data_dir.display().to_string()]);
    }
}

/// Whether trying again could not help.
pub(super) fn is_fatal(error: &LaunchError) -> bool {
    match error {
        LaunchError::NotFound { .. } | LaunchError::NoDirectory(_) | LaunchError::ShuttingDown => {
            true
        }
        LaunchError::System { source, .. } => matches!(
            source.kind(),
            io::ErrorKind::PermissionDenied
                | io::ErrorKind::NotFound
                | io::ErrorKind::ArgumentListTooLong
                | io::ErrorKind::InvalidInput
        ),
    }
}

/// How a program ended, for people.
pub(super) fn exit_text(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("it exited with code {code}"),
        Exit::Signal(signal) => format!("it was ended by signal {signal}"),
        Exit::Unknown => "it ended (how is not known)".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(text: &str) -> Result<Launch, String> {
        let config: ServerConfig = serde_json::from_str(text).unwrap();
        launch_of("x", &config, Path::new("/opt/gantry"), Path::new("/data"), &|name| {
            (name == "SET").then(|| "value".into())
        })
    }

    #[test]
    fn the_built_in_server_is_our_own_program() {
        let recall = launch(r#"{"command":"gantry","args":["mcp","--recall"]}"#).unwrap();
        assert_eq!(recall.program, "/opt/gantry");
        assert_eq!(recall.args, ["mcp", "--recall", "--data-dir", "/data"]);
        assert_eq!(recall.cwd.as_deref(), Some(Path::new("/data/workspaces")));
        let other = launch(r#"{"command":"/usr/bin/gantry","args":["mcp","--recall"]}"#).unwrap();
        assert_eq!(other.program, "/usr/bin/gantry");
        assert_eq!(other.args, ["mcp", "--recall"]);
    }

    #[test]
    fn arguments_and_environment_arrive_as_they_are() {
        let launch = launch(
            r#"{"command":"x","args":["a b","\"&%\n网",""],"env":{"K":"${env:SET}"},"cwd":"/w"}"#,
        )
        .unwrap();
        assert_eq!(launch.args, ["a b", "\"&%\n网", ""]);
        assert_eq!(launch.env, [("K".into(), "value".into())]);
        assert_eq!(launch.cwd.as_deref(), Some(Path::new("/w")));
    }

    #[test]
    fn a_remote_one_is_carried_by_our_own_program() {
        let launch = launch(
            r#"{"url":"https://h/mcp?key=k3y","headers":{"X":"${env:SET}"},"denyTools":["t"]}"#,
        )
        .unwrap();
        assert_eq!(launch.program, "/opt/gantry");
        assert_eq!(launch.args, ["mcp", "--carry"]);
        let (name, file) = &launch.env[0];
        assert_eq!(name, TRANSPORT_VARIABLE);
        assert!(!file.to_str().unwrap().contains("k3y"));
        let (name, file) = &launch.env[1];
        assert_eq!(name, SIGN_IN_VARIABLE);
        assert!(!file.to_str().unwrap().contains("k3y"));
        let (name, value) = &launch.env[2];
        assert_eq!(name, CONFIG_VARIABLE);
        let config: serde_json::Value = serde_json::from_str(value.to_str().unwrap()).unwrap();
        let inner = &config["mcpServers"]["x"];
        assert_eq!(inner["url"], "https://h/mcp?key=k3y");
        assert_eq!(inner["headers"]["X"], "value");
        assert_eq!(inner["denyTools"], json!([]));
    }

    #[test]
    fn a_start_that_may_download_gets_more_time() {
        let limit = |text: &str| start_limit(&serde_json::from_str(text).unwrap());
        for (text, wanted) in [
            (r#"{"command":"npx","args":["-y","p"]}"#, FETCH_LIMIT),
            (r#"{"command":"C:\\n\\npx.cmd"}"#, FETCH_LIMIT),
            (r#"{"command":"/usr/bin/uv","args":["--offline","tool","run","p"]}"#, FETCH_LIMIT),
            (r#"{"command":"uv","args":["pip"]}"#, START_LIMIT),
            (r#"{"command":"docker","args":["run","-i","x"]}"#, FETCH_LIMIT),
            (r#"{"command":"node","args":["npx"]}"#, START_LIMIT),
            (r#"{"command":"npx","startTimeoutMs":5}"#, Duration::from_millis(5)),
            (r#"{"url":"https://h"}"#, REMOTE_LIMIT),
        ] {
            assert_eq!(limit(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_started_says_why() {
        assert!(launch("{}").unwrap_err().contains("`command`"));
        assert!(
            launch(r#"{"command":"x","env":{"K":"${env:UNSET}"}}"#).unwrap_err().contains("UNSET")
        );
    }
}
