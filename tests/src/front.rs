//! A front before a running Gantry for programs that cannot send a header: it
//! adds the bearer, and speaks of the port behind it where a client names the
//! front's. All else goes both ways as it comes, piece by piece.

use crate::api::http_client;
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    serve::ListenerExt,
};
use std::sync::Arc;
use tokio::{net::TcpListener, task::AbortHandle};

/// A running front; it ends when dropped.
pub struct Front {
    /// Of its root, by the name `localhost`.
    pub url: String,
    task: AbortHandle,
}

struct Behind {
    client: reqwest::Client,
    /// `http://127.0.0.1:PORT`
    url: String,
    authorization: HeaderValue,
    /// The ports of the front and of what is behind it, as `:PORT`.
    ports: (String, String),
}

impl Front {
    /// Before `url` (with the value of `Authorization` that it wants).
    ///
    /// # Panics
    /// When there is no free port, or `url` has none.
    pub async fn start(url: &str, authorization: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.unwrap_or_else(|why| panic!("no port: {why}"));
        let port = listener.local_addr().unwrap_or_else(|why| panic!("no address: {why}")).port();
        let (_, behind) = url.rsplit_once(':').unwrap_or_else(|| panic!("no port in {url}"));
        let behind = Behind {
            client: http_client(),
            url: url.to_owned(),
            authorization: HeaderValue::from_str(authorization)
                .unwrap_or_else(|why| panic!("{authorization}: {why}")),
            ports: (format!(":{port}"), format!(":{behind}")),
        };
        let router = Router::new().fallback(carry).with_state(Arc::new(behind));
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { url: format!("http://localhost:{port}"), task: task.abort_handle() }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(State(behind): State<Arc<Behind>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let mut headers = parts.headers;
    headers.remove(header::CONNECTION);
    headers.insert(header::AUTHORIZATION, behind.authorization.clone());
    for name in [header::HOST, header::ORIGIN] {
        let own = headers.get(&name).and_then(|value| value.to_str().ok());
        let own = own.and_then(|value| value.strip_suffix(&behind.ports.0));
        let own =
            own.and_then(|name| HeaderValue::from_str(&format!("{name}{}", behind.ports.1)).ok());
        if let Some(own) = own {
            headers.insert(name, own);
        }
    }
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let Ok(body) = axum::body::to_bytes(body, 64 << 20).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    headers.remove(header::TRANSFER_ENCODING);
    let sent = behind.client.request(parts.method, format!("{}{path}", behind.url));
    let answer = match sent.headers(headers).body(body).send().await {
        Ok(answer) => answer,
        Err(why) => return (StatusCode::BAD_GATEWAY, format!("{why:?}")).into_response(),
    };
    let (status, mut headers) = (answer.status(), answer.headers().clone());
    headers.remove(header::CONNECTION);
    headers.remove(header::TRANSFER_ENCODING);
    (status, headers, Body::from_stream(answer.bytes_stream())).into_response()
}
