//! The agent's side of ACP: what each request does. Handlers run in the loop that
//! delivers messages, so nothing here waits; what takes time is a task.

use super::{
    console,
    models::OPTION,
    session::{self, Sessions},
    speaker::Speaker,
    unique,
};
use agent_client_protocol::{
    Agent, Client, ConnectTo, Error,
    schema::ProtocolVersion,
    v1::{
        ConnectionTo, Responder,
        schema::{
            AgentCapabilities, AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate,
            CancelNotification, CloseSessionRequest, CloseSessionResponse, ContentBlock,
            Implementation, InitializeRequest, InitializeResponse, ListSessionsRequest,
            ListSessionsResponse, LoadSessionRequest, LoadSessionResponse, McpCapabilities,
            McpServer, NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse,
            ResumeSessionRequest, ResumeSessionResponse, SessionCapabilities,
            SessionCloseCapabilities, SessionConfigOption, SessionId, SessionInfo,
            SessionListCapabilities, SessionResumeCapabilities, SessionUpdate,
            SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
            UnstructuredCommandInput,
        },
    },
};
use gantry_supervisor::Deadline;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// How long closing one session may take.
const CLOSE: Duration = Duration::from_secs(3);

/// Serves the client on `transport` until the end of its input.
///
/// # Errors
/// When the transport fails.
pub(super) async fn serve(
    sessions: Sessions,
    transport: impl ConnectTo<Agent> + 'static,
) -> Result<(), Error> {
    let [new, load, resume, list, close, prompt, cancel, choose] =
        std::array::from_fn(|_| sessions.clone());
    Agent
        .v1()
        .name("gantry-agent")
        .on_receive_request(
            async move |_request: InitializeRequest, responder, _client| {
                responder.respond(initialize())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, client| {
                let id = SessionId::from(unique("session"));
                let speaker = open(&new, &client, id.clone(), request.cwd, request.mcp_servers);
                offer_models(&new, speaker, move |options| {
                    responder.respond(NewSessionResponse::new(id).config_options(options))
                });
                Ok(())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest, responder, client| {
                if let Some(problem) = obstacle(&load, &request.session_id) {
                    return responder.respond_with_error(problem);
                }
                let is_known = load.get(&request.session_id).is_some();
                let speaker =
                    open(&load, &client, request.session_id, request.cwd, request.mcp_servers);
                if !is_known && speaker.session.messages().is_empty() {
                    speaker.session.forgot();
                }
                for update in speaker.session.history() {
                    speaker.send(update);
                }
                offer_models(&load, speaker, move |options| {
                    responder.respond(LoadSessionResponse::new().config_options(options))
                });
                Ok(())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ResumeSessionRequest, responder, client| {
                if let Some(problem) = obstacle(&resume, &request.session_id) {
                    return responder.respond_with_error(problem);
                }
                let is_known = resume.get(&request.session_id).is_some();
                let speaker =
                    open(&resume, &client, request.session_id, request.cwd, request.mcp_servers);
                if !is_known && speaker.session.messages().is_empty() {
                    speaker.session.forgot();
                }
                offer_models(&resume, speaker, move |options| {
                    responder.respond(ResumeSessionResponse::new().config_options(options))
                });
                Ok(())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ListSessionsRequest, responder, _client| {
                let wanted = |cwd: &PathBuf| request.cwd.as_ref().is_none_or(|c| c == cwd);
                let all = list.all().into_iter().filter(|session| wanted(&session.cwd));
                let infos = all.map(|session| {
                    SessionInfo::new(session.id.clone(), session.cwd.clone()).title(session.title())
                });
                responder.respond(ListSessionsResponse::new(infos.collect()))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: CloseSessionRequest, responder, _client| {
                let sessions = close.clone();
                close.scope().spawn("close a session", async move {
                    // Closing what is not open leaves what the caller wanted.
                    sessions.close(&request.session_id, Deadline::after(CLOSE)).await;
                    let _ = responder.respond(CloseSessionResponse::new());
                });
                Ok(())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetSessionConfigOptionRequest, responder, _client| {
                let Some(session) = choose.get(&request.session_id) else {
                    return responder.respond_with_error(invalid("there is no such session"));
                };
                let value = request.value.as_value_id().filter(|_| &*request.config_id.0 == OPTION);
                match value.and_then(|value| session.choose(&value.0)) {
                    Some(menu) => {
                        responder.respond(SetSessionConfigOptionResponse::new(menu.options()))
                    }
                    None => responder.respond_with_error(invalid(
                        "there is no such option or value; the options came with the session",
                    )),
                }
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, client| {
                begin_turn(&prompt, request, responder, client)
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |notification: CancelNotification, _client| {
                if let Some(session) = cancel.get(&notification.session_id) {
                    session.cancel();
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_to(transport)
        .await
}

fn initialize() -> InitializeResponse {
    let session = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new());
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .mcp_capabilities(McpCapabilities::new().http(true))
        .session_capabilities(session);
    let us = Implementation::new("gantry-agent", env!("CARGO_PKG_VERSION"))
        .title("Gantry's built-in agent".to_owned());
    InitializeResponse::new(ProtocolVersion::V1).agent_capabilities(capabilities).agent_info(us)
}

/// Opens a session, or gives an open one its new servers.
fn open(
    sessions: &Sessions,
    client: &ConnectionTo<Client>,
    id: SessionId,
    cwd: PathBuf,
    servers: Vec<McpServer>,
) -> Speaker {
    let (session, unwanted) = sessions.open_with(id, cwd, servers);
    if !unwanted.is_empty() {
        sessions.scope().spawn("close servers that are wanted no more", async move {
            session::close_upstreams(&unwanted, Deadline::after(CLOSE)).await;
        });
    }
    Speaker { client: client.clone(), session }
}

/// Answers an opening with the models to choose from, as soon as they are known, and then
/// tells the slash commands.
fn offer_models(
    sessions: &Sessions,
    speaker: Speaker,
    answer: impl FnOnce(Option<Vec<SessionConfigOption>>) -> Result<(), Error> + Send + 'static,
) {
    let models = sessions.models().clone();
    sessions.scope().spawn("offer models", async move {
        let menu = speaker.session.offer(models.menu().await);
        let options = Some(menu.options()).filter(|options| !options.is_empty());
        // A client that is gone is noticed by the connection.
        if answer(options).is_ok() {
            announce(&speaker);
        }
    });
}

/// Why a session cannot be taken up again. One that is not known (any more) can, as long
/// as there is no model: a tool console has no context that could be missed. With a model it can
/// when it was kept.
fn obstacle(sessions: &Sessions, id: &SessionId) -> Option<Error> {
    match sessions.get(id) {
        Some(session) if session.is_busy() => Some(invalid(
            "a turn is running in this session; wait for its end, or cancel it, and try again",
        )),
        None if sessions.models().is_set() && !sessions.keeps(id) => Some(
            Error::new(-32002, "this agent does not know the session (any more); open a new one")
                .data(serde_json::json!({"sessionId": id})),
        ),
        _ => None,
    }
}

/// Tells the client the slash commands. After the answer: before it, the client
/// does not know the session.
fn announce(speaker: &Speaker) {
    let hint = UnstructuredCommandInput::new("<tool> {\"argument\": \"value\"}");
    let commands = vec![
        AvailableCommand::new("tools", "List the tools of this session, server by server"),
        AvailableCommand::new("call", "Call a tool and show its result")
            .input(AvailableCommandInput::Unstructured(hint)),
        AvailableCommand::new("help", "Say what can be done here"),
    ];
    speaker.send(SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands)));
}

fn begin_turn(
    sessions: &Sessions,
    request: PromptRequest,
    responder: Responder<PromptResponse>,
    client: ConnectionTo<Client>,
) -> Result<(), Error> {
    let Some(session) = sessions.get(&request.session_id) else {
        return responder.respond_with_error(invalid("there is no such session"));
    };
    let text = text_of(&request.prompt);
    let Some(turn) = session.begin_turn(&text) else {
        return responder.respond_with_error(invalid("a turn is already running in this session"));
    };
    let speaker = Speaker { client, session: Arc::clone(&session) };
    let models = sessions.models().clone();
    sessions.scope().spawn(format!("turn of {}", session.id), async move {
        let cancelled = responder.cancellation();
        let work = console::turn(&models, &speaker, &request.prompt, &text, &turn);
        tokio::pin!(work);
        let reason = tokio::select! {
            reason = &mut work => reason,
            () = cancelled.cancelled() => {
                turn.cancel();
                work.await
            }
        };
        session.end_turn();
        let _ = responder.respond(PromptResponse::new(reason));
    });
    Ok(())
}

/// The words of a prompt.
fn text_of(prompt: &[ContentBlock]) -> String {
    let texts: Vec<&str> = prompt
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n")
}

fn invalid(why: &str) -> Error {
    Error::new(-32602, why)
}
