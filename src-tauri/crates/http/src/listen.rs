//! Accepting connections, and letting them go.

use crate::{at_once::at_once, head, mcp, routes};
use axum::Router;
use futures::{
    FutureExt as _,
    future::{BoxFuture, Either},
};
use gantry_core::{
    app::App,
    shutdown::Phase,
    wire::{Event, Happening, SessionState, SessionView},
};
use gantry_supervisor::Scope;
use hyper::{Request, body::Incoming, server::conn::http1, service::Service};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{broadcast, watch},
};

/// How long a connection may stay without a whole request head: longer than
/// the usual clients keep an idle connection (90 s), so that it is they who close.
const HEAD_TIME: Duration = Duration::from_secs(120);
/// Largest request head, bytes.
const HEAD_LIMIT: usize = 64 * 1024;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// How long what was said at the end may take to be written: less than the
/// shutdown waits for its tasks.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// Requests of one connection before all others have had their turn.
const IN_A_ROW: u32 = 8;
/// A pause when no connection can be accepted (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the listener offers besides the interfaces for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// Whether the files of the user interface are served.
    pub ui: bool,
    /// Whether a token is needed.
    pub auth: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self { ui: true, auth: true }
    }
}

/// Where clients on this computer reach a listener: `http://127.0.0.1:PORT`.
pub fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

/// Listens on a name or address and a port (0: any free one). Until [`serve`] connections wait.
///
/// # Errors
/// What the system said: the port is in use, the address is not ours.
pub async fn bind(host: &str, port: u16) -> io::Result<TcpListener> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in tokio::net::lookup_host((host, port)).await? {
        match listen_on(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // On Windows the option means something else: two listeners on one port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Answers requests as tasks of `scope`, until the shutdown begins: then the listener closes,
/// requests in flight are answered, streams end by themselves, and what is
/// still open when processes are killed is dropped.
///
/// # Errors
/// The listener has no address (any more).
pub fn serve(
    app: App,
    listener: TcpListener,
    options: HttpOptions,
    scope: Scope,
) -> io::Result<()> {
    let router = router(&app, listener.local_addr()?, options, &scope, Instant::now());
    accept_in(listener, router, &scope, app.shutdown().phase());
    Ok(())
}

/// The routes of this instance, and the tasks behind them.
pub(crate) fn router(
    app: &App,
    address: SocketAddr,
    options: HttpOptions,
    scope: &Scope,
    started: Instant,
) -> Router {
    let sessions = mcp::Sessions::new();
    let router = routes::router(app, address, options, scope, started, sessions.clone());
    let phase = app.shutdown().phase();
    let (_, events) = app.events().subscribe();
    let of_app = app.clone();
    let is_over =
        move |id: &str| of_app.sessions().view(id).is_none_or(|session| is_closed(&session));
    scope.spawn("ended sessions", forget(events, is_over, sessions.clone(), phase.clone()));
    scope.spawn("agents leave", leave(sessions, phase));
    router
}

/// Accepts connections as a task of `scope`.
pub(crate) fn accept_in(
    listener: TcpListener,
    router: Router,
    scope: &Scope,
    phase: watch::Receiver<Phase>,
) {
    scope.spawn("listener", accept(listener, router, scope.clone(), phase));
}

/// What an agent opened at the bridge ends with its session: one that was killed says no
/// goodbye, and would be waited for a day. News may be old when it is read (a session is called
/// stopped before its first prompt, too), so what counts is how the session is now.
async fn forget(
    mut events: broadcast::Receiver<Arc<Event>>,
    is_over: impl Fn(&str) -> bool,
    sessions: mcp::Sessions,
    mut phase: watch::Receiver<Phase>,
) {
    let end_if_over = |id: &str| {
        let seen = tokio::time::Instant::now();
        if is_over(id) {
            sessions.end_of(id, seen);
        }
    };
    let forget = async {
        loop {
            match events.recv().await.as_deref() {
                Ok(Event { what: Happening::SessionRemoved { id }, .. }) => end_if_over(id),
                Ok(Event { what: Happening::SessionChanged { session }, .. })
                    if is_closed(session) =>
                {
                    end_if_over(&session.id);
                }
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    sessions.owners().iter().for_each(|id| end_if_over(id));
                }
                Err(broadcast::error::RecvError::Closed) => return,
            }
        }
    };
    tokio::select! { () = forget => {}, () = after(&mut phase, Phase::Running) => {} }
}

fn is_closed(session: &SessionView) -> bool {
    matches!(session.state, SessionState::Stopped | SessionState::Failed)
}

/// The agents' half of the end: what they have asked for is answered, nothing
/// new is taken; when processes are asked to end, every connection of theirs ends.
async fn leave(sessions: mcp::Sessions, mut phase: watch::Receiver<Phase>) {
    after(&mut phase, Phase::Running).await;
    sessions.drain();
    after(&mut phase, Phase::Finish).await;
    sessions.close();
}

async fn accept(
    listener: TcpListener,
    router: Router,
    scope: Scope,
    mut phase: watch::Receiver<Phase>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = after(&mut phase, Phase::Running) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                scope.spawn("connection", connection(stream, router.clone(), phase.clone()));
            }
            Err(error) if is_the_clients(&error) => {}
            Err(error) => {
                tracing::warn!("no connection can be accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

pub(crate) fn connection(
    stream: TcpStream,
    router: Router,
    phase: watch::Receiver<Phase>,
) -> impl Future<Output = ()> + Send {
    at_once(converse(stream, router, phase))
}

async fn converse(stream: TcpStream, router: Router, mut phase: watch::Receiver<Phase>) {
    // Without it, an answer in two pieces waits 40 ms for the client's acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("TCP_NODELAY could not be set: {error}");
    }
    let stream = tokio::select! {
        begun = head::begin(stream, HEAD_LIMIT, HEAD_TIME) => match begun {
            Some(begun) => begun,
            None => return,
        },
        () = after(&mut phase, Phase::Running) => return,
    };
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_LIMIT);
    let cut = mcp::Cut::default();
    let routes = TowerToHyperService::new(router);
    let service = OfConnection { routes, cut: cut.clone(), taken: AtomicU32::new(0) };
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return note(ended),
        // With everything that waits for a client that does not read.
        () = cut.ended() => return,
        () = after(&mut phase, Phase::Running) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        ended = connection.as_mut() => return note(ended),
        () = after(&mut phase, Phase::Ask) => {}
    }
    // The streams have ended by now; their last words may still be on the way.
    if let Ok(ended) = tokio::time::timeout(LAST_WORDS, connection).await {
        note(ended);
    }
}

/// The routes, told which connection a request comes on.
struct OfConnection {
    routes: TowerToHyperService<Router>,
    cut: mcp::Cut,
    /// Requests so far.
    taken: AtomicU32,
}

type Answering = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

impl Service<Request<Incoming>> for OfConnection {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = Either<Answering, BoxFuture<'static, <Answering as Future>::Output>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.cut.clone());
        let answering = self.routes.call(request);
        // A client that writes its requests ahead of the answers would never let go of the thread.
        if self.taken.fetch_add(1, Ordering::Relaxed) % IN_A_ROW == IN_A_ROW - 1 {
            let later = tokio::task::yield_now().then(|()| answering);
            return Either::Right(later.boxed());
        }
        Either::Left(answering)
    }
}

fn note(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!("a connection ended early: {error}");
    }
}

/// Resolves when the shutdown is past this phase.
pub(crate) async fn after(phase: &mut watch::Receiver<Phase>, passed: Phase) {
    // No sender means that there is nobody left to wait for.
    let _ = phase.wait_for(|now| *now > passed).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_core::bridge::Endpoint;
    use gantry_mcp::{Hub, HubOptions, ToolFilter};
    use std::sync::atomic::AtomicBool;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// With two such connections, both threads of a small machine were theirs: a tool that
    /// answers within a millisecond took eighteen seconds.
    #[tokio::test]
    async fn requests_that_are_written_ahead_leave_others_their_turns() {
        const REQUESTS: usize = 500;
        let served = Arc::new(AtomicU32::new(0));
        let count = served.clone();
        let serve = move || {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::ready("x")
        };
        let router = Router::new().route("/", axum::routing::get(serve));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let mut client = TcpStream::connect(address).await.expect("connected");
        client
            .write_all("GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(REQUESTS).as_bytes())
            .await
            .expect("it fits");
        let (stream, _) = listener.accept().await.expect("accepted");
        let (_running, phase) = watch::channel(Phase::Running);
        let mut most = 0;
        let others = async {
            let mut before = 0;
            while before < 500 {
                tokio::task::yield_now().await;
                let now = served.load(Ordering::Relaxed);
                (most, before) = (most.max(now - before), now);
            }
        };
        let reading = async {
            let mut answers = vec![0; 1 << 16];
            while client.read(&mut answers).await.expect("read") > 0 {}
        };
        tokio::select! {
            () = connection(stream, router, phase) => panic!("it ended"),
            () = reading => panic!("it was closed"),
            ended = tokio::time::timeout(Duration::from_secs(20), others) => ended.expect("served"),
        }
        assert!(most <= 2 * IN_A_ROW, "{most} in a row");
    }

    /// A session is called stopped before its first prompt. On a busy machine that was read when
    /// its agent had long connected, and the agent's first prompt had no tools.
    #[tokio::test(start_paused = true)]
    async fn old_news_of_an_end_do_not_end_what_an_agent_has_open() {
        let sessions = mcp::Sessions::new();
        let hub = Hub::new(HubOptions {
            name: "x".to_owned(),
            filter: ToolFilter::default(),
            line_limit: 1024,
            start_wait: Duration::from_secs(1),
        });
        let endpoint = Endpoint { hub, session: Some("s".to_owned()) };
        let (news, events) = broadcast::channel(4);
        let tell = || {
            let what = Happening::SessionRemoved { id: "s".to_owned() };
            news.send(Arc::new(Event { seq: 0, at: 0, what })).expect("it is read");
        };
        let (_running, phase) = watch::channel(Phase::Running);
        let over = AtomicBool::new(false);
        let is_over = |_: &str| over.load(Ordering::Relaxed);
        let test = async {
            let pause = || tokio::time::sleep(Duration::from_millis(1));
            sessions.begin_one("x", &endpoint);
            tell();
            pause().await;
            assert_eq!(sessions.count(), 1);
            over.store(true, Ordering::Relaxed);
            tell();
            pause().await;
            assert_eq!(sessions.count(), 0);
            // More news than are kept: what was missed is looked up.
            sessions.begin_one("x", &endpoint);
            (0..9).for_each(|_| tell());
            pause().await;
            assert_eq!(sessions.count(), 0);
        };
        tokio::select! {
            () = forget(events, is_over, sessions.clone(), phase) => panic!("it ended"),
            () = test => {}
        }
    }
}
