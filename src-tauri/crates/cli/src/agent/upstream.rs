//! One MCP server of a session: a task that connects, lists the tools, lists
//! them again when they change, and closes.

use agent_client_protocol::v1::schema::{McpServer, McpServerHttp, McpServerStdio};
use futures::future::BoxFuture;
use gantry_supervisor::{
    Cause, Child, Deadline, Launch, ProcessTree, Role, Scope, StderrTail, Supervisor,
};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::{
    ClientHandler, Peer, RoleClient, ServiceExt,
    model::{ClientConfig, Implementation, ProtocolVersion, Tool},
    service::{NotificationContext, RunningService, RunningServiceCancellationToken},
    transport::{
        StreamableHttpClientTransport, async_rw::AsyncRwTransport,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::{Notify, watch};

/// Largest message from a server.
const LONGEST: usize = 64 << 20;
/// How long a remote host may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a server that failed gets to end before it is killed.
const FAILED_END: Duration = Duration::from_secs(2);

/// What a server is at the moment.
#[derive(Clone)]
pub(super) enum State {
    /// It has not answered yet.
    Connecting,
    /// Its tools can be called.
    Ready(Arc<Ready>),
    /// It cannot be used, and why. The next prompt tries again.
    Failed(String),
    /// It was closed.
    Closed,
}

/// A server that can be used.
pub(super) struct Ready {
    pub(super) peer: Peer<RoleClient>,
    pub(super) tools: Vec<Tool>,
}

/// A handle to the task.
#[derive(Clone)]
pub(super) struct Upstream {
    spec: Arc<McpServer>,
    state: Arc<watch::Sender<State>>,
    stop: Arc<watch::Sender<Option<Deadline>>>,
    retry: Arc<Notify>,
}

impl Upstream {
    /// Starts to connect. `cwd` is where a server of our own is started.
    pub(super) fn start(
        spec: McpServer,
        cwd: PathBuf,
        scope: &Scope,
        supervisor: Supervisor,
    ) -> Self {
        let (stop, stopped) = watch::channel(None);
        let upstream = Self {
            spec: Arc::new(spec),
            state: Arc::new(watch::Sender::new(State::Connecting)),
            stop: Arc::new(stop),
            retry: Arc::new(Notify::new()),
        };
        let keeper = Keeper {
            spec: upstream.spec.clone(),
            cwd,
            supervisor,
            state: upstream.state.clone(),
            stop: stopped,
            retry: upstream.retry.clone(),
        };
        scope.spawn(format!("server {}", upstream.name()), keeper.keep());
        upstream
    }

    pub(super) fn spec(&self) -> &McpServer {
        &self.spec
    }

    pub(super) fn name(&self) -> &str {
        match &*self.spec {
            McpServer::Http(server) => &server.name,
            McpServer::Sse(server) => &server.name,
            McpServer::Stdio(server) => &server.name,
            _ => "a server of an unknown kind",
        }
    }

    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Has a failed server try again; others are left alone.
    pub(super) fn try_again(&self) {
        // At once, so that whoever waits from now on waits for the new attempt.
        let failed = self.state.send_if_modified(|state| {
            let failed = matches!(state, State::Failed(_));
            if failed {
                *state = State::Connecting;
            }
            failed
        });
        if failed {
            self.retry.notify_one();
        }
    }

    /// Waits until it is known whether the server can be used, at most until the deadline.
    pub(super) async fn settled(&self, deadline: Deadline) {
        let mut state = self.state.subscribe();
        let _ = deadline.bound(state.wait_for(|s| !matches!(s, State::Connecting))).await;
    }

    /// Closes the connection and ends a server that we started.
    pub(super) async fn close(&self, deadline: Deadline) {
        self.stop.send_replace(Some(deadline));
        let mut state = self.state.subscribe();
        let _ = deadline.bound(state.wait_for(|s| matches!(s, State::Closed))).await;
    }
}

/// Hears of changes in a server's list of tools.
struct Listener {
    changed: Arc<Notify>,
}

impl ClientHandler for Listener {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("gantry-agent", env!("CARGO_PKG_VERSION"));
        // The newest revision that begins with `initialize`.
        ClientConfig::new(Default::default(), us)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// The task's own side.
struct Keeper {
    spec: Arc<McpServer>,
    cwd: PathBuf,
    supervisor: Supervisor,
    state: Arc<watch::Sender<State>>,
    stop: watch::Receiver<Option<Deadline>>,
    retry: Arc<Notify>,
}

impl Keeper {
    async fn keep(mut self) {
        loop {
            self.state.send_replace(State::Connecting);
            let changed = Arc::new(Notify::new());
            let mut link = Link::default();
            let mut stop = self.stop.clone();
            let ended = tokio::select! {
                biased;
                deadline = asked(&mut stop) => Err(deadline),
                why = self.serve(&mut link, &changed) => Ok(why),
            };
            match ended {
                Err(deadline) => {
                    link.close(Cause::Unused, deadline).await;
                    break;
                }
                Ok(why) => {
                    let why = link.explain(why).await;
                    tracing::info!(server = link.name, why, "a server cannot be used");
                    link.close(Cause::Failed, Deadline::after(FAILED_END)).await;
                    self.state.send_replace(State::Failed(why));
                }
            }
            tokio::select! {
                biased;
                _ = asked(&mut stop) => break,
                () = self.retry.notified() => {}
            }
        }
        self.state.send_replace(State::Closed);
    }

    /// Connects and stays connected; returns why that ended. What it opens is
    /// put into `link` at once, so that a stop in between can close it.
    async fn serve(&mut self, link: &mut Link, changed: &Arc<Notify>) -> String {
        let listener = Listener { changed: changed.clone() };
        let spec = self.spec.clone();
        let running = match &*spec {
            McpServer::Http(server) => {
                link.name = server.name.clone();
                link.url = Some(server.url.clone());
                match http_transport(server) {
                    Ok(transport) => listener.serve(transport).await,
                    Err(why) => return why,
                }
            }
            McpServer::Stdio(server) => {
                link.name = server.name.clone();
                let child = match self.supervisor.launch(self.launch(server)).await {
                    Ok(child) => child,
                    Err(error) => return error.to_string(),
                };
                let Child { tree, stdin, stdout, stderr } = child;
                link.child = Some((tree, stderr));
                let transport =
                    AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(LONGEST);
                listener.serve(transport).await
            }
            McpServer::Sse(server) => {
                link.name = server.name.clone();
                return "the built-in agent does not speak the older HTTP+SSE transport; \
                        give it a streamable HTTP address"
                    .into();
            }
            _ => return "its transport is not known to this version of Gantry".into(),
        };
        let running = match running {
            Ok(running) => running,
            Err(error) => return error.to_string(),
        };
        let peer = running.peer().clone();
        let ended = link.keep(running);
        let serve = async {
            loop {
                match list_tools(&peer).await {
                    Ok(tools) => {
                        let ready = Ready { peer: peer.clone(), tools };
                        self.state.send_replace(State::Ready(Arc::new(ready)));
                    }
                    Err(error) => return format!("it could not list its tools: {error}"),
                }
                changed.notified().await;
            }
        };
        tokio::select! {
            why = serve => why,
            why = ended => why,
        }
    }

    fn launch(&self, server: &McpServerStdio) -> Launch {
        Launch {
            name: server.name.clone(),
            role: Role::Server,
            program: server.command.clone().into_os_string(),
            args: server.args.iter().map(Into::into).collect(),
            env: server.env.iter().map(|v| ((&v.name).into(), (&v.value).into())).collect(),
            cwd: self.cwd.is_dir().then(|| self.cwd.clone()),
            grace: FAILED_END,
        }
    }
}

async fn asked(stop: &mut watch::Receiver<Option<Deadline>>) -> Deadline {
    match stop.wait_for(Option::is_some).await {
        Ok(deadline) => deadline.unwrap_or_else(|| Deadline::after(Duration::ZERO)),
        // The session is gone without a word; nobody waits for us.
        Err(_) => Deadline::after(FAILED_END),
    }
}

async fn list_tools(peer: &Peer<RoleClient>) -> Result<Vec<Tool>, rmcp::ServiceError> {
    // A server without tools need not know the method.
    if peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
        return Ok(Vec::new());
    }
    peer.list_all_tools().await
}

/// What is open to one server.
#[derive(Default)]
struct Link {
    name: String,
    url: Option<String>,
    child: Option<(ProcessTree, StderrTail)>,
    running: Option<(RunningServiceCancellationToken, watch::Receiver<bool>)>,
    driver: Option<BoxFuture<'static, ()>>,
}

impl Link {
    /// Takes the connection over. The future resolves, with the reason, when it ends.
    fn keep<'a>(
        &'a mut self,
        running: RunningService<RoleClient, Listener>,
    ) -> impl Future<Output = String> + 'a {
        let (done, seen) = watch::channel(false);
        self.running = Some((running.cancellation_token(), seen));
        let driver = self.driver.insert(Box::pin(async move {
            let _ = running.waiting().await;
            done.send_replace(true);
        }));
        async move {
            driver.await;
            "the connection ended".into()
        }
    }

    /// Closes the connection first (a remote server is told so), then ends the process.
    async fn close(mut self, cause: Cause, deadline: Deadline) {
        if let Some((token, done)) = self.running.take()
            && !*done.borrow()
        {
            token.cancel();
            if let Some(driver) = self.driver.take() {
                let _ = deadline.bound(driver).await;
            }
        }
        if let Some((tree, _)) = self.child.take() {
            tree.stop(cause, deadline).await;
        }
    }

    /// The reason, with the last words of the program and without its address,
    /// which may hold a secret.
    async fn explain(&mut self, mut why: String) -> String {
        if let Some(url) = &self.url {
            why = why.replace(url.as_str(), "its address");
        }
        if let Some((tree, stderr)) = &self.child {
            if let Some(exit) = tree.exit() {
                stderr.settled().await;
                why = format!("{why}; the program ended with {exit}");
            }
            let lines = stderr.lines(5);
            if !lines.is_empty() {
                why = format!("{why}; it last wrote: {}", lines.join(" / "));
            }
        }
        why
    }
}

fn http_transport(
    server: &McpServerHttp,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let mut headers = HashMap::new();
    for header in &server.headers {
        let name = HeaderName::try_from(&header.name)
            .map_err(|_| format!("`{}` is not a valid header name", header.name))?;
        let mut value = HeaderValue::try_from(&header.value)
            .map_err(|_| format!("the value of header `{}` is not valid", header.name))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let mut client = reqwest::Client::builder().connect_timeout(CONNECT).tcp_nodelay(true);
    if is_loopback(&server.url) {
        // A proxy of the user's network cannot reach a server on this machine.
        client = client.no_proxy();
    }
    let client = client.build().map_err(|error| format!("no HTTP client: {error}"))?;
    let config = StreamableHttpClientTransportConfig::with_uri(server.url.as_str())
        .custom_headers(headers)
        .max_sse_event_size(LONGEST)
        .max_json_response_size(LONGEST)
        .reinit_on_expired_session(true);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Whether the address is on this machine.
pub(super) fn is_loopback(url: &str) -> bool {
    reqwest::Url::parse(url).is_ok_and(|url| crate::mcp::remote::is_loopback(&url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_recognised() {
        for url in ["http://127.0.0.1:9/mcp/x", "http://localhost:80/", "http://[::1]:8/x"] {
            assert!(is_loopback(url), "{url}");
        }
        for url in ["https://example.com/127.0.0.1", "http://localhost.example.com/", "nonsense"] {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
