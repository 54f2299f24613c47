//! What back ends ask for: a chat request that carries its own agent and servers
//! (contract, section 2, `/computer/*`).

mod agent;
mod clock;
mod proxy;
mod servers;
mod target;
mod workspace;

pub use clock::iso;
pub use target::{AgentStatus, AgentStopped, ChatCancelled, ChatTarget};

use super::{App, agents::check_name, commands::STOP_BUDGET, words};
use crate::{
    Error, Result,
    bridge::ServerSpec,
    session::{AgentSpec, NewSession, Prompt},
    wire::*,
};
use gantry_store::ProjectRow;
use gantry_supervisor::Deadline;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The project of a request that names none.
const DEFAULT_PROJECT: &str = "default";

impl App {
    /// Hands a prompt to the agent of a session, which is opened first when the request names
    /// none. Returns when the agent has it, not when the turn ends.
    ///
    /// # Errors
    /// Invalid (the message names the field; nothing was created), not found, busy, shutting
    /// down, failed.
    pub async fn chat(&self, request: ChatRequest) -> Result<ChatAnswer> {
        self.still_open()?;
        let user = target::required("user_id", request.user_id.as_deref())?;
        check_name("user_id", user)?;
        let project = request.project_id.as_deref();
        if let Some(project) = project {
            check_name("project_id", project)?;
        }
        let text = request.prompt.as_deref().unwrap_or_default();
        if text.trim().is_empty() {
            return Err(Error::invalid("prompt: it is required and must not be empty"));
        }
        let config = request.agent_config.as_ref();
        let mut warnings = Vec::new();
        let servers = match config.and_then(|config| config.context_servers.as_ref()) {
            Some(named) => Some(self.context_servers(named, &mut warnings).await?),
            None => None,
        };
        let wanted = config.and_then(|config| config.agent_server.as_ref());
        if let Some(wanted) = wanted {
            let (args, env) = (wanted.args.as_deref(), wanted.env.as_ref());
            words::check(
                "agent_config.agent_server",
                wanted.command.as_deref(),
                args.unwrap_or_default(),
                env.unwrap_or(&BTreeMap::new()),
            )?;
        }
        let provider = request.model_provider.as_ref();
        let request_id = match target::given(request.request_id.as_deref()) {
            Some(id) => id.to_owned(),
            None => uuid::Uuid::new_v4().to_string(),
        };
        let mut prompt = Prompt {
            content: vec![json!({ "type": "text", "text": text })],
            queue: request.queue,
            request_id: Some(request_id.clone()),
            ready_timeout: self.ready_timeout(request.ready_timeout_ms),
            permission_timeout: self.permission_timeout(request.permission_timeout_ms),
            servers: None,
            agent: None,
            policy: None,
        };

        let known = match target::given(request.session_id.as_deref()) {
            Some(id) => {
                check_name("session_id", id)?;
                Some(self.session_of(id, user, project)?)
            }
            None => None,
        };
        let is_new_session = known.is_none();
        let session = match known {
            Some(session) => {
                prompt.servers = servers.map(Some);
                // A model alone says nothing about another agent than our own.
                let is_ours = session.agent == super::agents::BUILTIN_AGENT;
                if wanted.is_some() || (provider.is_some() && is_ours) {
                    prompt.agent = Some(self.chat_agent(wanted, provider, &mut warnings).await?);
                }
                prompt.policy = request.permission;
                session
            }
            None => {
                let agent = self.chat_agent(wanted, provider, &mut warnings).await?;
                let project = self.workspace(user, project.unwrap_or(DEFAULT_PROJECT)).await?;
                self.sessions()
                    .create(NewSession {
                        project,
                        agent,
                        servers,
                        title: None,
                        policy: request.permission.unwrap_or_default(),
                        system_prompt: request.system_prompt.filter(|text| !text.is_empty()),
                        user_id: Some(user.to_owned()),
                        acp_id: None,
                        open_now: false,
                    })
                    .await?
            }
        };
        let brings = (prompt.servers.is_some(), prompt.agent.is_some());
        let missing = self.sessions().withheld(&session.id, brings.0, brings.1);
        if !missing.is_empty() {
            warnings.push(format!(
                "these values of the session are secrets, which are not kept on disk, so they are \
                 missing until they are sent again: {}",
                missing.join(", ")
            ));
        }
        let accepted = match self.sessions().prompt(&session.id, prompt).await {
            Ok(accepted) => accepted,
            Err(error) if is_new_session && self.dropped_unused(&session.id).await => {
                return Err(error);
            }
            Err(error) => {
                let told = || json!({ "session_id": session.id });
                let detail = error.detail.clone().unwrap_or_else(told);
                return Err(error.with_detail(detail));
            }
        };
        Ok(ChatAnswer {
            project_id: target::project_of(&session.project_id).to_owned(),
            session_id: session.id,
            error: None,
            request_id,
            is_new_session,
            engine: accepted.engine,
            context: accepted.context,
            servers: accepted.servers,
            warnings,
        })
    }

    /// A session whose first prompt never reached its agent is not left in the list: its caller
    /// did not learn of it, and each new try would leave another. One whose agent wants the user
    /// to sign in stays, because that is done in it.
    async fn dropped_unused(&self, session: &str) -> bool {
        let view = self.sessions().view(session);
        if view.and_then(|view| view.sign_in).is_some_and(|sign_in| sign_in.wanted) {
            return false;
        }
        let page = SessionHistory { session: session.to_owned(), before: None, limit: Some(1) };
        let is_unused =
            self.sessions().history(page).await.is_ok_and(|history| history.turns.is_empty());
        is_unused
            && self.sessions().delete_unused(session, Deadline::after(STOP_BUDGET)).await.is_ok()
    }

    /// Whether an engine runs for a user's project, and whether it works.
    ///
    /// # Errors
    /// Invalid.
    pub async fn agent_status(&self, target: ChatTarget) -> Result<AgentStatus> {
        let (user, project) = target.project()?;
        let mut sessions = self.sessions_in(user, project);
        if let Some(id) = target::given(target.session_id.as_deref()) {
            sessions.retain(|session| session.id == id);
        }
        Ok(target::status(user, project, &sessions))
    }

    /// Stops all sessions of a user's project, and with the last one its engine.
    ///
    /// # Errors
    /// Invalid; a session could not be stopped.
    pub async fn agent_stop(&self, target: ChatTarget) -> Result<AgentStopped> {
        let (user, project) = target.project()?;
        let deadline = Deadline::after(STOP_BUDGET);
        let all = self.sessions_in(user, project);
        let running: Vec<_> =
            all.iter().filter(|session| session.state != SessionState::Stopped).collect();
        let stops = running.iter().map(|session| self.sessions().stop(&session.id, deadline));
        let mut stopped = 0;
        for result in futures::future::join_all(stops).await {
            match result {
                Ok(_) => stopped += 1,
                // It was deleted meanwhile: it is not running either.
                Err(error) if error.code == crate::ErrorCode::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.sessions().end_warm_beside(&all, deadline).await;
        Ok(AgentStopped {
            success: true,
            message: match stopped {
                0 => "nothing was running".into(),
                1 => "1 session was stopped".into(),
                n => format!("{n} sessions were stopped"),
            },
            user_id: user.to_owned(),
            project_id: project.to_owned(),
        })
    }

    /// Cancels the running turn of the session, or of every session of the user's project.
    ///
    /// # Errors
    /// Invalid; not found when a session is named that is not there.
    pub async fn chat_cancel(&self, target: ChatTarget) -> Result<ChatCancelled> {
        let (user, project) = target.project()?;
        let asked = target::given(target.session_id.as_deref());
        let sessions = match asked {
            Some(id) => vec![self.session_of(id, user, target.project_id.as_deref())?],
            None => {
                let mut working = self.sessions_in(user, project);
                working.retain(target::is_busy);
                working
            }
        };
        for session in &sessions {
            match self.sessions().cancel(&session.id).await {
                // It was deleted meanwhile: nothing of it works either.
                Err(error) if asked.is_none() && error.code == crate::ErrorCode::NotFound => {}
                done => done?,
            }
        }
        let session_id = sessions.into_iter().next().map(|session| session.id);
        Ok(ChatCancelled { success: true, session_id })
    }

    /// Stops one session.
    ///
    /// # Errors
    /// Invalid; not found.
    pub async fn chat_stop(&self, target: ChatTarget) -> Result<SessionStopped> {
        let (user, _) = target.project()?;
        let id = target::required("session_id", target.session_id.as_deref())?;
        let session = self.session_of(id, user, target.project_id.as_deref())?;
        self.sessions().stop_warm(&session.id, Deadline::after(STOP_BUDGET)).await
    }

    /// The sessions of a user's project.
    fn sessions_in(&self, user: &str, project: &str) -> Vec<SessionView> {
        let id = target::project_key(user, project);
        let mut sessions = self.sessions().views();
        sessions.retain(|session| session.project_id == id);
        sessions
    }

    /// A session that this user may go on with.
    fn session_of(&self, id: &str, user: &str, project: Option<&str>) -> Result<SessionView> {
        self.sessions()
            .view(id)
            .filter(|session| target::is_of(&session.project_id, user, project))
            .ok_or_else(|| {
                Error::not_found(format!(
                    "session_id: there is no session `{id}` of this user and project"
                ))
            })
    }

    async fn workspace(&self, user: &str, project: &str) -> Result<ProjectRow> {
        let path = workspace::folder(&self.data_dir().workspaces, user, project).await?;
        let path = path.to_string_lossy().into_owned();
        let row = ProjectRow {
            id: target::project_key(user, project),
            path: path.clone(),
            name: project.to_owned(),
            created_at: crate::events::now(),
        };
        // The data directory may have moved since the project was stored.
        Ok(ProjectRow { path, ..self.store().ensure_project(row).await? })
    }

    async fn chat_agent(
        &self,
        wanted: Option<&ChatAgentServer>,
        provider: Option<&ModelProvider>,
        warnings: &mut Vec<String>,
    ) -> Result<AgentSpec> {
        let name = wanted.and_then(|wanted| {
            target::given(wanted.command.as_deref()).or(target::given(wanted.agent_id.as_deref()))
        });
        let known = match self.agent(name).await {
            Ok(spec) => Some(spec),
            Err(error) if error.code == crate::ErrorCode::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(agent::resolve(wanted, provider, known, warnings))
    }

    async fn context_servers(
        &self,
        named: &BTreeMap<String, Value>,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<ServerSpec>> {
        let urls = self.bridge().views().into_iter().filter(|view| view.saved);
        let known = servers::Known {
            saved: self.saved_servers().await?,
            urls: urls.map(|view| (view.url, view.name)).collect(),
            has_program: &|name| gantry_supervisor::environment::find_program(name).is_some(),
        };
        servers::read(named, &known, warnings)
    }
}
