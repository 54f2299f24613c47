//! What sessions have to do with their agents: which agent it is now, and the conversations that
//! an agent keeps itself.

use super::App;
use crate::{Error, Result, session::AgentSpec, wire::*};
use std::path::{Path, PathBuf};

impl App {
    /// Conversations that an agent keeps.
    ///
    /// # Errors
    /// Invalid folder, unknown agent, an agent that does not start or refuses, shutting down.
    pub async fn agents_conversations(
        &self,
        input: AgentsConversations,
    ) -> Result<AgentConversations> {
        self.still_open()?;
        let project = folder_of(&input.project_dir)?;
        let agent = self.agent(input.agent.as_deref()).await?;
        self.sessions().of_agent(project, agent).await
    }

    /// How the agent of a session that people opened is started now: it may have been configured
    /// otherwise, installed anew, or its secrets not be kept with the session.
    pub(super) async fn agent_of(&self, session: &str) -> Option<AgentSpec> {
        let id = self.sessions().followed_agent(session)?;
        // One that is not there any more is started as it was; that says what is missing.
        self.agent(Some(&id)).await.ok()
    }

    pub(super) async fn update_agent_of(&self, session: &str) {
        if let Some(agent) = self.agent_of(session).await {
            self.sessions().follow_agent(session, &agent);
        }
    }
}

/// The folder of a project, without symbolic links.
pub(super) fn folder_of(folder: &str) -> Result<PathBuf> {
    let path = Path::new(folder);
    if !path.is_absolute() {
        return Err(Error::invalid(format!("project_dir: `{folder}` is not an absolute path")));
    }
    // Blocking for microseconds; a network folder that hangs would hang its agent too.
    let path = path.canonicalize().map_err(|error| {
        Error::invalid(format!(
            "project_dir: {folder} cannot be used ({error}); choose an existing folder"
        ))
    })?;
    if !path.is_dir() {
        return Err(Error::invalid(format!("project_dir: {folder} is not a folder")));
    }
    Ok(path)
}
