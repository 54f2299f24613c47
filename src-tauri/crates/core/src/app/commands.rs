//! One method a command (see [`crate::api`]).

use super::{App, conversations::folder_of, words};
use crate::{
    Error, Result,
    bridge::{SSE, STREAMABLE, unmask},
    session::{NewSession, Prompt},
    wire::*,
};
use gantry_store::ProjectRow;
use gantry_supervisor::Deadline;
use serde_json::Value;
use std::time::Duration;

/// The budget of a stop that a person asked for.
pub const STOP_BUDGET: Duration = Duration::from_secs(5);
/// The same when it is to be forced: a moment for the turn's end, and the kill.
const FORCE_BUDGET: Duration = Duration::from_millis(1500);
/// Lines of a server's log when the caller does not say.
const LOG_TAIL: usize = 200;

impl App {
    /// The state at one instant.
    ///
    /// # Errors
    /// None.
    pub async fn snapshot(&self, _: Nothing) -> Result<Snapshot> {
        // The number first: what changes meanwhile is told again, never missed.
        let seq = self.events().seq();
        Ok(Snapshot {
            seq,
            servers: self.bridge().views(),
            sessions: self.sessions().views(),
            version: crate::VERSION.into(),
            notice: self.inner.last_exit.as_ref().map(|last| last.summary.clone()),
            last_exit: self.inner.last_exit.clone(),
        })
    }

    /// All servers.
    ///
    /// # Errors
    /// None.
    pub async fn servers_list(&self, _: Nothing) -> Result<ServersList> {
        Ok(ServersList { servers: self.bridge().views() })
    }

    /// Adds a server or replaces its configuration.
    ///
    /// # Errors
    /// Invalid; the store refuses.
    pub async fn servers_save(&self, input: ServersSave) -> Result<ServerView> {
        self.still_open()?;
        check_server(&input.name, &input.config)?;
        let _order = self.inner.saving.lock().await;
        let old = self.saved_servers().await?.into_iter().find(|spec| spec.name == input.name);
        let config = match &old {
            Some(old) => unmask(input.config, &old.config),
            None => input.config,
        };
        self.store_server(&input.name, &config).await?;
        if config.enabled {
            self.bridge().try_out(&input.name).await;
        }
        self.server_view(&input.name)
    }

    /// Removes a saved server.
    ///
    /// # Errors
    /// Not found.
    pub async fn servers_remove(&self, input: ServerName) -> Result<Done> {
        self.still_open()?;
        let _order = self.inner.saving.lock().await;
        if !self.store().remove_server(&input.name).await? {
            return Err(no_server(&input.name));
        }
        self.bridge().configure(self.saved_servers().await?).await;
        Ok(Done::OK)
    }

    /// Stops and starts a server.
    ///
    /// # Errors
    /// Not found.
    pub async fn servers_restart(&self, input: ServerName) -> Result<ServerView> {
        self.still_open()?;
        self.bridge().restart(&input.name, Deadline::after(STOP_BUDGET)).await
    }

    /// Begins a sign-in to a remote server.
    ///
    /// # Errors
    /// Not found; invalid when there is nothing to sign in to; failed with what the server lacks.
    pub async fn servers_sign_in(&self, input: ServerName) -> Result<SignInBegun> {
        self.still_open()?;
        self.bridge().sign_in(&input.name).await
    }

    /// Gives up a sign-in that was begun; none is none.
    ///
    /// # Errors
    /// Not found.
    pub async fn servers_sign_in_cancel(&self, input: ServerName) -> Result<Done> {
        self.bridge().cancel_sign_in(&input.name)?;
        Ok(Done::OK)
    }

    /// Forgets a sign-in, and starts the server anew without it.
    ///
    /// # Errors
    /// Not found; failed when it cannot be forgotten.
    pub async fn servers_sign_out(&self, input: ServerName) -> Result<Done> {
        self.still_open()?;
        self.bridge().sign_out(&input.name, Deadline::after(STOP_BUDGET)).await?;
        Ok(Done::OK)
    }

    /// Switches a server on or off.
    ///
    /// # Errors
    /// Not found.
    pub async fn servers_enable(&self, input: ServersEnable) -> Result<ServerView> {
        self.still_open()?;
        let _order = self.inner.saving.lock().await;
        let mut spec = self
            .saved_servers()
            .await?
            .into_iter()
            .find(|spec| spec.name == input.name)
            .ok_or_else(|| no_server(&input.name))?;
        spec.config.enabled = input.enabled;
        self.store_server(&input.name, &spec.config).await?;
        self.server_view(&input.name)
    }

    /// The tools of a server.
    ///
    /// # Errors
    /// Not found, or nothing is known of it yet.
    pub async fn servers_tools(&self, input: ServerName) -> Result<ServersTools> {
        Ok(ServersTools { tools: self.bridge().tools(&input.name).await? })
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// Not found; failed with the MCP error as detail.
    pub async fn servers_call(&self, input: ServersCall) -> Result<Value> {
        self.still_open()?;
        if !(input.arguments.is_null() || input.arguments.is_object()) {
            return Err(Error::invalid("arguments: must be an object"));
        }
        self.bridge().call(&input.name, &input.tool, input.arguments).await
    }

    /// The last lines of a server's standard error.
    ///
    /// # Errors
    /// Not found.
    pub async fn servers_log(&self, input: ServersLog) -> Result<LogLines> {
        let lines = self.bridge().log(&input.name, input.tail.unwrap_or(LOG_TAIL))?;
        Ok(LogLines { lines })
    }

    /// What the bridge and a server said to each other.
    ///
    /// # Errors
    /// Not found.
    pub async fn servers_traffic(&self, input: ServersTraffic) -> Result<Traffic> {
        let messages = self.bridge().traffic(&input.name, input.tail.unwrap_or(LOG_TAIL))?;
        Ok(Traffic { messages })
    }

    /// All sessions.
    ///
    /// # Errors
    /// None.
    pub async fn sessions_list(&self, _: Nothing) -> Result<SessionsList> {
        Ok(SessionsList { sessions: self.sessions().views() })
    }

    /// Opens a session in a folder.
    ///
    /// # Errors
    /// Invalid folder, unknown agent, shutting down.
    pub async fn session_create(&self, input: SessionCreate) -> Result<SessionCreated> {
        self.still_open()?;
        let project = self.project_in(&input.project_dir).await?;
        let agent = self.agent(input.agent.as_deref()).await?;
        let servers = match input.servers {
            None => None,
            Some(servers) => {
                let mut specs = Vec::new();
                for (name, config) in servers {
                    check_server(&name, &config)?;
                    specs.push(crate::bridge::ServerSpec { name, config });
                }
                Some(specs)
            }
        };
        let session = self
            .sessions()
            .create(NewSession {
                project,
                agent,
                servers,
                title: input.title,
                policy: input.permission,
                system_prompt: None,
                user_id: None,
                acp_id: input.acp_session_id.filter(|id| !id.is_empty()),
                open_now: true,
            })
            .await?;
        Ok(SessionCreated { session })
    }

    /// Hands a prompt to the agent.
    ///
    /// # Errors
    /// Not found, busy, invalid, shutting down, failed.
    pub async fn session_prompt(&self, input: SessionPrompt) -> Result<PromptAccepted> {
        self.still_open()?;
        if input.content.is_empty() {
            return Err(Error::invalid(
                "content: the prompt is empty; send at least one content block",
            ));
        }
        let prompt = Prompt {
            content: input.content,
            queue: input.queue,
            request_id: input.request_id,
            ready_timeout: self.ready_timeout(input.ready_timeout_ms),
            permission_timeout: self.permission_timeout(input.permission_timeout_ms),
            servers: None,
            agent: self.agent_of(&input.session).await,
            policy: input.permission,
        };
        self.sessions().prompt(&input.session, prompt).await
    }

    /// Cancels the running turn.
    ///
    /// # Errors
    /// Not found.
    pub async fn session_cancel(&self, input: SessionId) -> Result<Done> {
        self.sessions().cancel(&input.session).await?;
        Ok(Done::OK)
    }

    /// Stops a session.
    ///
    /// # Errors
    /// Not found.
    pub async fn session_stop(&self, input: impl Into<SessionStop>) -> Result<SessionStopped> {
        let input = input.into();
        let budget = if input.force { FORCE_BUDGET } else { STOP_BUDGET };
        let deadline = Deadline::after(budget);
        if input.force {
            self.sessions().stop(&input.session, deadline).await
        } else {
            self.sessions().stop_warm(&input.session, deadline).await
        }
    }

    /// A page of turns.
    ///
    /// # Errors
    /// Not found.
    pub async fn session_history(&self, input: SessionHistory) -> Result<History> {
        self.sessions().history(input).await
    }

    /// Answers a question of the agent.
    ///
    /// # Errors
    /// Not found; a value that the question does not allow.
    pub async fn session_answer(&self, input: SessionAnswer) -> Result<Done> {
        self.sessions().answer(input)?;
        Ok(Done::OK)
    }

    /// Answers a permission request.
    ///
    /// # Errors
    /// Not found; an option that was not offered.
    pub async fn session_permit(&self, input: SessionPermit) -> Result<Done> {
        self.sessions().permit(&input.session, &input.request, &input.option).await?;
        Ok(Done::OK)
    }

    /// Chooses mode, model or an option.
    ///
    /// # Errors
    /// Not found; not offered; the agent's.
    pub async fn session_set(&self, input: SessionSet) -> Result<SessionView> {
        self.still_open()?;
        self.sessions().set(input).await
    }

    /// Opens a stopped session.
    ///
    /// # Errors
    /// Not found; shutting down.
    pub async fn session_resume(&self, input: SessionId) -> Result<SessionView> {
        self.still_open()?;
        self.update_agent_of(&input.session).await;
        self.sessions().resume(&input.session).await
    }

    /// Gives a queued prompt another text.
    ///
    /// # Errors
    /// Not found; empty.
    pub async fn session_queue_edit(&self, input: QueueEdit) -> Result<SessionView> {
        self.sessions().edit_queued(&input).await
    }

    /// Takes a prompt out of the queue.
    ///
    /// # Errors
    /// Not found.
    pub async fn session_queue_drop(&self, input: QueuedTurn) -> Result<SessionView> {
        self.sessions().drop_queued(&input).await
    }

    /// Sends a queued prompt next.
    ///
    /// # Errors
    /// Not found.
    pub async fn session_queue_send(&self, input: QueuedTurn) -> Result<SessionView> {
        self.still_open()?;
        self.sessions().send_queued(&input)
    }

    /// Signs in to a session's agent.
    ///
    /// # Errors
    /// Not found; not offered; the agent's.
    pub async fn session_authenticate(&self, input: SessionAuthenticate) -> Result<Authenticated> {
        self.still_open()?;
        self.update_agent_of(&input.session).await;
        self.sessions().authenticate(input).await
    }

    /// Signs out of a session's agent.
    ///
    /// # Errors
    /// Not found; not offered; the agent's.
    pub async fn session_logout(&self, input: SessionId) -> Result<Done> {
        self.still_open()?;
        self.sessions().log_out(&input.session).await?;
        Ok(Done::OK)
    }

    /// What Gantry and the agent said to each other.
    ///
    /// # Errors
    /// Not found.
    pub async fn session_traffic(&self, input: SessionTraffic) -> Result<Traffic> {
        self.sessions().traffic(&input)
    }

    /// A session as a file.
    ///
    /// # Errors
    /// Not found.
    pub async fn session_export(&self, input: SessionExport) -> Result<Exported> {
        self.sessions().export(&input).await
    }

    /// Gives a session another title.
    ///
    /// # Errors
    /// Not found; empty.
    pub async fn session_rename(&self, input: SessionRename) -> Result<SessionView> {
        self.sessions().rename(&input.session, &input.title).await
    }

    /// Stops a session and forgets it.
    ///
    /// # Errors
    /// Not found.
    pub async fn session_delete(&self, input: SessionId) -> Result<Done> {
        self.sessions().delete(&input.session, Deadline::after(STOP_BUDGET)).await?;
        Ok(Done::OK)
    }

    /// Ends Gantry.
    ///
    /// # Errors
    /// None.
    pub async fn quit(&self, _: Nothing) -> Result<Done> {
        self.shutdown().request("quit command");
        Ok(Done::OK)
    }

    async fn project_in(&self, folder: &str) -> Result<ProjectRow> {
        let path = folder_of(folder)?;
        let text = path.to_string_lossy().into_owned();
        let name = path
            .file_name()
            .map_or_else(|| text.clone(), |name| name.to_string_lossy().into_owned());
        Ok(self
            .store()
            .ensure_project(ProjectRow {
                id: text.clone(),
                path: text,
                name,
                created_at: crate::events::now(),
            })
            .await?)
    }

    pub(super) async fn store_server(&self, name: &str, config: &ServerConfig) -> Result<()> {
        let text = serde_json::to_string(config)
            .map_err(|error| Error::failed(format!("the server could not be stored: {error}")))?;
        self.store().save_server(name, &text).await?;
        self.bridge().configure(self.saved_servers().await?).await;
        Ok(())
    }

    pub(super) fn server_view(&self, name: &str) -> Result<ServerView> {
        self.bridge().view(name).ok_or_else(|| no_server(name))
    }
}

fn no_server(name: &str) -> Error {
    Error::not_found(format!("there is no server `{name}`; see the list of servers"))
}

/// Longest name of a saved server, characters.
const LONGEST_NAME: usize = 200;

/// Whether a configuration can be started at all.
pub(super) fn check_server(name: &str, config: &ServerConfig) -> Result<()> {
    let command = config.command.as_deref().map(str::trim).unwrap_or_default();
    let url = config.url.as_deref().map(str::trim).unwrap_or_default();
    if name.trim().is_empty() {
        return Err(Error::invalid("name: give the server a name"));
    }
    if name.contains(char::is_control) {
        return Err(Error::invalid("name: a server's name must not hold control characters"));
    }
    if name.chars().count() > LONGEST_NAME {
        return Err(Error::invalid(format!(
            "name: a server's name may have {LONGEST_NAME} characters; it is part of its address"
        )));
    }
    words::check("config", config.command.as_deref(), &config.args, &config.env)?;
    words::check_headers("config", &config.headers)?;
    match (command.is_empty(), url.is_empty()) {
        (true, true) => Err(Error::invalid(format!(
            "config: `{name}` needs a `command` (a program on this computer) or a `url` (a remote server)"
        ))),
        (false, false) => Err(Error::invalid(format!(
            "config: `{name}` has both `command` and `url`; keep one of them"
        ))),
        (true, false) if !(url.starts_with("http://") || url.starts_with("https://")) => {
            Err(Error::invalid(format!(
                "config.url: `{name}` needs an address that begins with http:// or https://"
            )))
        }
        (true, false) => check_transport("config", config.transport.as_deref()),
        _ => Ok(()),
    }
}

/// Whether a remote server's transport is one that there is.
pub(super) fn check_transport(field: &str, transport: Option<&str>) -> Result<()> {
    match transport {
        None | Some("" | STREAMABLE | "http" | SSE) => Ok(()),
        Some(other) => Err(Error::invalid(format!(
            "{field}.transport: `{other}` is neither `{STREAMABLE}` nor `{SSE}`; leave it out to have it found out"
        ))),
    }
}
