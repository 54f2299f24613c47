//! A listener that is open before Gantry is: `/health` says `starting`, and
//! every other request waits until there is somebody to answer it.

use crate::{HttpOptions, gate::Gate, listen};
use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    http::{Method, StatusCode},
    response::{IntoResponse as _, Response},
};
use gantry_core::{app::App, shutdown::Phase};
use gantry_supervisor::{Scope, Task};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, sync::watch};

/// A listener whose Gantry is still starting.
#[derive(Debug)]
pub struct Door {
    address: SocketAddr,
    started: Instant,
    router: watch::Sender<Option<Router>>,
    phase: watch::Sender<Phase>,
    accepting: Task<TcpListener>,
}

/// What the early connections know.
#[derive(Clone)]
struct Early {
    gate: Arc<Gate>,
    started: Instant,
    router: watch::Receiver<Option<Router>>,
}

impl Door {
    /// Listens on a name or address and a port (0: any free one).
    ///
    /// # Errors
    /// What the system said: the port is in use, the address is not ours.
    pub async fn bind(host: &str, port: u16) -> io::Result<Self> {
        let listener = listen::bind(host, port).await?;
        let address = listener.local_addr()?;
        let started = Instant::now();
        let (router, waiting) = watch::channel(None);
        let (phase, phases) = watch::channel(Phase::Running);
        let gate = Arc::new(Gate {
            port: address.port(),
            any_address: !address.ip().is_loopback(),
            // What the early answer tells needs none.
            token: None,
        });
        let early = Early { gate, started, router: waiting.clone() };
        let early = Router::new().fallback(answer).with_state(early);
        // The scope of the application, which would own it, is not there yet.
        let scope = Scope::root("door");
        let owner = scope.clone();
        let accepting =
            scope.spawn("early listener", accept(listener, early, owner, waiting, phases));
        Ok(Self { address, started, router, phase, accepting })
    }

    /// Where clients on this computer reach it: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        listen::url(self.address)
    }

    /// Answers requests from now on, also those that wait, as [`crate::serve`] does.
    ///
    /// # Errors
    /// The listener is gone.
    pub async fn open(self, app: App, options: HttpOptions, scope: Scope) -> io::Result<()> {
        let router = listen::router(&app, self.address, options, &scope, self.started);
        self.router.send_replace(Some(router.clone()));
        let gone = || io::Error::other("the listener is gone");
        let listener = self.accepting.join().await.ok_or_else(gone)?;
        let phases = app.shutdown().phase();
        scope.spawn("early connections", pass_on(phases.clone(), self.phase));
        listen::accept_in(listener, router, &scope, phases);
        Ok(())
    }
}

/// Accepts connections until the door is open; gives the listener back then.
async fn accept(
    listener: TcpListener,
    router: Router,
    scope: Scope,
    mut opened: watch::Receiver<Option<Router>>,
    phase: watch::Receiver<Phase>,
) -> TcpListener {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = opened.wait_for(Option::is_some) => return listener,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = listen::connection(stream, router.clone(), phase.clone());
                scope.spawn("early connection", connection);
            }
            Err(error) => {
                tracing::warn!("no connection can be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// The early connections hear of the shutdown too.
async fn pass_on(mut from: watch::Receiver<Phase>, to: watch::Sender<Phase>) {
    loop {
        let now = *from.borrow_and_update();
        to.send_replace(now);
        if now > Phase::Ask || from.changed().await.is_err() {
            return;
        }
    }
}

async fn answer(State(mut early): State<Early>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    let asks_health = is_read && parts.uri.path() == "/health" && early.gate.check(&parts).is_ok();
    if asks_health && early.router.borrow().is_none() {
        let uptime = u64::try_from(early.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let health = json!({ "status": "starting", "version": gantry_core::VERSION,
            "uptime_ms": uptime });
        return Json(health).into_response();
    }
    let router =
        early.router.wait_for(Option::is_some).await.ok().and_then(|router| router.clone());
    let Some(router) = router else {
        // Gantry could not be started, and this process is about to end.
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let request = Request::from_parts(parts, body);
    match TowerToHyperService::new(router).call(request).await {
        Ok(response) => response.map(Body::new),
        Err(never) => match never {},
    }
}
