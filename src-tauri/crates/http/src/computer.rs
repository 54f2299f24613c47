//! `/computer/*`: what back ends already speak.

use crate::{
    answer,
    body::{self, BODY_LIMIT},
    progress::{self, Progress},
    query,
    routes::Site,
    sse,
};
use axum::{
    extract::{Path, Request, State},
    http::HeaderMap,
    http::Uri,
    response::Response,
};
use gantry_core::{
    Error,
    app::{App, ChatTarget},
    wire::ChatRequest,
};
use serde::Serialize;
use serde_json::Value;

/// `POST /computer/chat`.
pub(crate) async fn chat(State(site): State<Site>, request: Request) -> Response {
    let input = match read(request).await {
        Ok((_, input)) => input,
        Err(answer) => return *answer,
    };
    let done = async {
        let request: ChatRequest = body::shaped(input)?;
        let app = site.app.clone();
        site.run("chat", async move { app.chat(request).await }).await
    };
    tell(done.await)
}

/// `POST /computer/agent/status`.
pub(crate) async fn status(State(site): State<Site>, request: Request) -> Response {
    about(site, "status", request, async |app, target| app.agent_status(target).await).await
}

/// `POST /computer/agent/stop`.
pub(crate) async fn stop(State(site): State<Site>, request: Request) -> Response {
    about(site, "stop", request, async |app, target| app.agent_stop(target).await).await
}

/// `POST /computer/agent/session/cancel`.
pub(crate) async fn cancel(State(site): State<Site>, request: Request) -> Response {
    about(site, "cancel", request, async |app, target| app.chat_cancel(target).await).await
}

/// `POST /computer/agent/session/stop`.
pub(crate) async fn session_stop(State(site): State<Site>, request: Request) -> Response {
    about(site, "session stop", request, async |app, target| app.chat_stop(target).await).await
}

/// `GET /computer/progress/{session}`.
pub(crate) async fn progress(
    State(site): State<Site>,
    Path(session): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    if site.app.sessions().view(&session).is_none() {
        return answer::failed_envelope(&Error::not_found(format!(
            "there is no session `{session}`"
        )));
    }
    let reader = site.app.events().read(&session, progress::place(&headers, uri.query()));
    let sessions = site.app.sessions().clone();
    let id = session.clone();
    let acp_id = Box::new(move || sessions.view(&id)?.acp_session_id);
    sse::response(Progress::new(&session, reader, acp_id, site.app.shutdown().phase()))
}

/// A command about a user's project or one of its sessions, named in the body or in the query.
async fn about<T, F>(
    site: Site,
    name: &'static str,
    request: Request,
    work: impl FnOnce(App, ChatTarget) -> F,
) -> Response
where
    T: Serialize + Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let (uri, mut input) = match read(request).await {
        Ok(read) => read,
        Err(answer) => return *answer,
    };
    if let (Value::Object(fields), Some(query)) = (&mut input, uri.query()) {
        for field in ["user_id", "project_id", "session_id"] {
            if let Some(value) = query::value(query, field) {
                fields.entry(field).or_insert(Value::String(value));
            }
        }
    }
    let done = async {
        let target: ChatTarget = body::shaped(input)?;
        site.run(name, work(site.app.clone(), target)).await
    };
    tell(done.await)
}

/// Reads the body as JSON.
async fn read(request: Request) -> Result<(Uri, Value), Box<Response>> {
    let (parts, body) = request.into_parts();
    let bytes = body::read(&parts.headers, body, BODY_LIMIT)
        .await
        .map_err(|problem| Box::new(problem.answer(parts.uri.path())))?;
    let input = body::json(&bytes).map_err(|error| Box::new(answer::failed_envelope(&error)))?;
    Ok((parts.uri, input))
}

fn tell(done: Result<impl Serialize, Error>) -> Response {
    match done {
        Ok(data) => answer::envelope(data),
        Err(error) => answer::failed_envelope(&error),
    }
}
