//! The table of routes: what each is, and what it asks for. The router, the
//! gate and the reference are made from it, so that a route cannot be added
//! without all three knowing it.

use crate::{api, computer, pages, reference, routes, routes::Site};
use axum::{
    Router,
    http::Method,
    routing::{get, post},
};

/// What a route asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing.
    Open,
    /// `Authorization: Bearer`.
    Bearer,
    /// That, or `?token=`, where a browser cannot send headers.
    BearerOrQuery,
    /// The token of a session's agent, which the route checks itself.
    Own,
}

/// One route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// In lower case.
    pub method: &'static str,
    /// With `{names}` for parts that vary.
    pub path: &'static str,
    /// What it asks for.
    pub access: Access,
    /// What it does, in a sentence.
    pub about: &'static str,
}

macro_rules! routes {
    ($(#[doc = $about:literal] $method:ident $path:literal $access:ident => $handler:path;)+) => {
        /// The routes that this crate's own router serves.
        const OURS: &[Route] = &[$(Route {
            method: stringify!($method),
            path: $path,
            access: Access::$access,
            about: $about,
        }),+];

        /// The router of them, without what is around it.
        pub(crate) fn ours() -> Router<Site> {
            Router::new()$(.route($path, $method($handler)))+
        }
    };
}

routes! {
    /// Whether it is well; needs no token.
    get "/health" Open => routes::health;
    /// What is known now, as Prometheus reads it.
    get "/metrics" Bearer => crate::metrics::text;
    /// A snapshot, then every event of all sessions in order.
    get "/events" BearerOrQuery => routes::events;
    /// All commands with their types.
    get "/api" Bearer => reference::list;
    /// The reference to read.
    get "/api/docs" Bearer => reference::docs;
    /// This document.
    get "/api/openapi.json" Bearer => reference::openapi;
    /// Runs a command.
    post "/api/{command}" Bearer => api::call;
    /// Hands a prompt to an agent; answers when the agent has it.
    post "/computer/chat" Bearer => computer::chat;
    /// The events of one session, from before the first connection on.
    get "/computer/progress/{session}" BearerOrQuery => computer::progress;
    /// Whether the project's agent runs, and whether it works.
    post "/computer/agent/status" Bearer => computer::status;
    /// Stops the project's sessions and with them its agent.
    post "/computer/agent/stop" Bearer => computer::stop;
    /// Cancels the running turn.
    post "/computer/agent/session/cancel" Bearer => computer::cancel;
    /// Stops one session.
    post "/computer/agent/session/stop" Bearer => computer::session_stop;
    /// The user interface, when it is built in.
    get "/" BearerOrQuery => pages::index;
}

/// The bridge, whose router is [`crate::mcp`].
const BRIDGE: &[Route] = &[
    Route {
        method: "post",
        path: "/mcp/{server}",
        access: Access::Own,
        about: "A message of MCP's streamable HTTP transport to a server.",
    },
    Route {
        method: "get",
        path: "/mcp/{server}",
        access: Access::Own,
        about: "What a server says by itself, as a stream.",
    },
    Route {
        method: "delete",
        path: "/mcp/{server}",
        access: Access::Own,
        about: "Ends an MCP session.",
    },
];

/// All routes.
pub(crate) fn all() -> impl Iterator<Item = &'static Route> {
    OURS.iter().chain(BRIDGE)
}

/// What a request asks for: a route that is not there asks for the token too, so that nobody
/// without it learns which there are.
pub(crate) fn access(method: &Method, path: &str) -> Access {
    // Below this the bridge answers every method.
    if path == "/mcp" || path.starts_with("/mcp/") {
        return Access::Own;
    }
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    if is_read && pages::is_file(path) {
        return Access::Open;
    }
    let has_method = |route: &&Route| match route.method {
        "get" => is_read,
        other => method.as_str().eq_ignore_ascii_case(other),
    };
    let route = OURS.iter().filter(has_method).find(|route| matches(route.path, path));
    route.map_or(Access::Bearer, |route| route.access)
}

fn matches(pattern: &str, path: &str) -> bool {
    let (mut wanted, mut found) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return true,
            (Some(part), Some(given)) if part == given => {}
            (Some(part), Some(given)) if part.starts_with('{') && !given.is_empty() => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_asks_for_what_its_line_says() {
        for route in all() {
            let method: Method = route.method.to_ascii_uppercase().parse().unwrap();
            let path = route.path.replace("{command}", "quit").replace(['{', '}'], "");
            assert_eq!(access(&method, &path), route.access, "{method} {path}");
            // The token in the address ends up in histories: a browser's own needs only.
            let may = ["/", "/events", "/computer/progress/{session}"];
            assert_eq!(route.access == Access::BearerOrQuery, may.contains(&route.path), "{path}");
            assert_eq!(route.access == Access::Open, route.path == "/health", "{path}");
        }
    }

    #[test]
    fn what_is_no_route_asks_for_the_token() {
        for path in ["/no", "/health/", "//health", "/events/x", "/computer/progress", "/Health"] {
            assert_eq!(access(&Method::GET, path), Access::Bearer, "{path}");
        }
        for path in ["/health", "/events", "/", "/computer/progress/x"] {
            assert_eq!(access(&Method::POST, path), Access::Bearer, "{path}");
            assert_eq!(access(&Method::HEAD, path), access(&Method::GET, path), "{path}");
        }
    }
}
