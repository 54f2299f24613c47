//! `/api/{command}`: the same commands as the user interface.

use crate::{
    answer,
    body::{self, BODY_LIMIT},
    routes::Site,
};
use axum::{
    extract::{Path, Request, State},
    response::Response,
};
use gantry_core::{Error, api};

/// `POST /api/{command}`.
pub(crate) async fn call(
    State(site): State<Site>,
    Path(command): Path<String>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = match body::read(&parts.headers, body, BODY_LIMIT).await {
        Ok(bytes) => bytes,
        Err(problem) => return problem.answer(parts.uri.path()),
    };
    let done = async {
        if !api::COMMANDS.iter().any(|known| known.name == command) {
            return Err(Error::not_found(format!(
                "there is no command `{command}`; GET /api lists all commands"
            )));
        }
        let input = body::json(&bytes)?;
        let app = site.app.clone();
        let name = command.clone();
        site.run(&command, async move { api::dispatch(&app, &name, input).await }).await
    };
    match done.await {
        Ok(output) => answer::api(output),
        Err(error) => answer::failed_api(&error),
    }
}
