//! The router around the [`table`](crate::table) of routes, and the smallest of them.

use crate::{
    HttpOptions, answer,
    feed::{Feed, Written},
    gate::{self, Gate},
    mcp, pages, sse, table,
    tally::Tally,
};
use axum::{
    Json, Router,
    extract::{Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use gantry_core::{Error, app::App, shutdown::Phase};
use gantry_supervisor::Scope;
use serde_json::json;
use std::{net::SocketAddr, sync::Arc, time::Instant};

/// What every route has at hand.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub app: App,
    /// Owns the work that goes on when its client has gone.
    pub scope: Scope,
    pub started: Instant,
    pub options: HttpOptions,
    pub tally: Tally,
    pub written: Written,
}

impl Site {
    /// Runs a command to its end, also when the client goes away meanwhile:
    /// a disconnect must neither end a turn nor leave something half done.
    pub async fn run<T: Send + 'static>(
        &self,
        name: &str,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let cancelled = self.scope.cancelled();
        let task = self.scope.spawn(format!("request {name}"), async move {
            tokio::select! {
                done = work => Some(done),
                () = cancelled => None,
            }
        });
        task.join().await.flatten().unwrap_or_else(|| {
            if self.app.shutdown().is_requested() {
                Err(Error::shutting_down())
            } else {
                Err(Error::failed(format!("{name} ended without an answer; the log says why")))
            }
        })
    }

    fn phase(&self) -> Phase {
        *self.app.shutdown().phase().borrow()
    }
}

pub(crate) fn router(
    app: &App,
    address: SocketAddr,
    options: HttpOptions,
    scope: &Scope,
    started: Instant,
    sessions: mcp::Sessions,
) -> Router {
    let gate = Arc::new(Gate {
        port: address.port(),
        any_address: !address.ip().is_loopback(),
        token: options.auth.then(|| app.token().to_owned()),
    });
    let tally = Tally::new();
    tally.watch(app.events());
    let written = Written::default();
    let site = Site { app: app.clone(), scope: scope.clone(), started, options, tally, written };
    table::ours()
        .fallback(other)
        .method_not_allowed_fallback(wrong_method)
        .with_state(site.clone())
        .merge(mcp::router(app.bridge().clone(), sessions))
        .layer(middleware::from_fn_with_state(site, closed_doors))
        .layer(middleware::from_fn_with_state(gate, gate::enter))
}

pub(crate) async fn health(State(site): State<Site>) -> Response {
    let status = if site.phase() == Phase::Running { "ok" } else { "shutting_down" };
    let uptime = u64::try_from(site.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Json(json!({ "status": status, "version": gantry_core::VERSION, "uptime_ms": uptime }))
        .into_response()
}

pub(crate) async fn events(State(site): State<Site>) -> Response {
    match Feed::open(&site.app, site.written.clone()).await {
        Ok(feed) => sse::response(feed),
        Err(error) => answer::failed_api(&error),
    }
}

async fn other(State(site): State<Site>, request: Request) -> Response {
    let path = request.uri().path();
    if site.options.ui
        && let Some(file) = pages::file(path)
    {
        return file;
    }
    answer::refuse(path, StatusCode::NOT_FOUND, "NOT_FOUND", "there is no such route")
}

async fn wrong_method(request: Request) -> Response {
    answer::refuse(
        request.uri().path(),
        StatusCode::METHOD_NOT_ALLOWED,
        "METHOD_NOT_ALLOWED",
        "the route is there, but not for this method",
    )
}

/// Once the shutdown has begun, nothing new is let in; `/mcp` sees to that itself.
async fn closed_doors(State(site): State<Site>, request: Request, next: Next) -> Response {
    let phase = site.phase();
    let path = request.uri().path();
    let may = phase == Phase::Running || path == "/health" || path.starts_with("/mcp/");
    if may { next.run(request).await } else { answer::failed(path, &Error::shutting_down()) }
}
