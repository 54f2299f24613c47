//! Which project or session a back end speaks of, and what it is told about it.

use super::{super::agents::check_name, DEFAULT_PROJECT, clock::iso};
use crate::{Error, Result, wire::*};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// A user's project, or one session of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, TS)]
#[serde(default)]
#[ts(optional_fields)]
pub struct ChatTarget {
    /// Required.
    pub user_id: Option<String>,
    /// `default` when absent.
    pub project_id: Option<String>,
    /// One session of it.
    pub session_id: Option<String>,
}

/// Answer of `POST /computer/agent/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, TS)]
pub struct AgentStatus {
    /// As asked.
    pub user_id: String,
    /// As asked.
    pub project_id: String,
    /// Whether an engine runs for the project.
    pub is_alive: bool,
    /// The session that was active last; one that runs before one that does not.
    pub session_id: Option<String>,
    /// `Busy` or `Idle` while an engine runs.
    pub status: Option<&'static str>,
    /// ISO 8601.
    pub last_activity: Option<String>,
    /// ISO 8601.
    pub created_at: Option<String>,
}

/// Answer of `POST /computer/agent/stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, TS)]
pub struct AgentStopped {
    /// Always true; what does not run stays so.
    pub success: bool,
    /// For people.
    pub message: String,
    /// As asked.
    pub user_id: String,
    /// As asked.
    pub project_id: String,
}

/// Answer of `POST /computer/agent/session/cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, TS)]
pub struct ChatCancelled {
    /// Always true; a session without a turn stays so.
    pub success: bool,
    /// The session; null when none of the project was working.
    pub session_id: Option<String>,
}

impl ChatTarget {
    /// User and project, checked.
    pub(super) fn project(&self) -> Result<(&str, &str)> {
        let user = required("user_id", self.user_id.as_deref())?;
        check_name("user_id", user)?;
        // An empty one is no name: it is a mistake rather than a wish for the default.
        let project = self.project_id.as_deref().unwrap_or(DEFAULT_PROJECT);
        check_name("project_id", project)?;
        if let Some(session) = given(self.session_id.as_deref()) {
            check_name("session_id", session)?;
        }
        Ok((user, project))
    }
}

/// A value that is there: back ends send empty strings for what they do not have.
pub(super) fn given(value: Option<&str>) -> Option<&str> {
    value.filter(|value| !value.is_empty())
}

/// A value that must be there.
pub(super) fn required<'a>(field: &str, value: Option<&'a str>) -> Result<&'a str> {
    given(value)
        .ok_or_else(|| Error::invalid(format!("{field}: it is required and must not be empty")))
}

/// The id of a user's project.
pub(super) fn project_key(user: &str, project: &str) -> String {
    format!("{user}/{project}")
}

/// User and project of a back end's project id; `None` for a folder that a
/// person chose, whose id is its path.
fn parts(project_key: &str) -> Option<(&str, &str)> {
    let (user, project) = project_key.split_once('/')?;
    (check_name("", user).is_ok() && check_name("", project).is_ok()).then_some((user, project))
}

/// The project as its back end knows it.
pub(super) fn project_of(project_key: &str) -> &str {
    parts(project_key).map_or(project_key, |(_, project)| project)
}

/// Whether a user may go on with a session of this project. One that a person
/// opened in a folder belongs to no back end's user: whoever holds the token may.
pub(super) fn is_of(project_key: &str, user: &str, project: Option<&str>) -> bool {
    parts(project_key)
        .is_none_or(|(owner, name)| owner == user && project.is_none_or(|project| project == name))
}

/// Whether a turn runs in it or is about to.
pub(super) fn is_busy(session: &SessionView) -> bool {
    use SessionState::{Cancelling, Starting, WaitingForYou, Working};
    matches!(session.state, Starting | Working | WaitingForYou | Cancelling)
}

/// What is said about a project with these sessions.
pub(super) fn status(user: &str, project: &str, sessions: &[SessionView]) -> AgentStatus {
    let runs = |session: &&SessionView| session.engine.is_some();
    let is_alive = sessions.iter().any(|session| runs(&session));
    let last = sessions.iter().max_by_key(|session| (runs(session), session.last_activity));
    let is_busy = sessions.iter().any(is_busy);
    AgentStatus {
        user_id: user.to_owned(),
        project_id: project.to_owned(),
        is_alive,
        session_id: last.map(|session| session.id.clone()),
        status: is_alive.then_some(if is_busy { "Busy" } else { "Idle" }),
        last_activity: last.map(|session| iso(session.last_activity)),
        created_at: last.map(|session| iso(session.created_at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str, state: SessionState, runs: bool, last_activity: i64) -> SessionView {
        SessionView {
            id: id.into(),
            acp_session_id: None,
            project: "/w/u/p".into(),
            project_id: "u/p".into(),
            agent: "built-in".into(),
            title: String::new(),
            state,
            error: None,
            engine: runs.then_some(EngineView { pid: 1, sessions: 1 }),
            servers: vec![],
            turn: None,
            permissions: vec![],
            questions: vec![],
            commands: vec![],
            settings: Some(SessionSettings::default()),
            queue: vec![],
            quiet_since: None,
            capabilities: None,
            restorable: None,
            context: None,
            sign_in: None,
            created_at: 0,
            last_activity,
        }
    }

    #[test]
    fn a_project_is_alive_while_an_engine_runs_and_busy_while_a_turn_does() {
        let none = status("u", "p", &[]);
        assert!(!none.is_alive && none.session_id.is_none() && none.status.is_none());
        let stopped = status("u", "p", &[session("a", SessionState::Stopped, false, 5)]);
        assert!(!stopped.is_alive && stopped.status.is_none());
        assert_eq!(stopped.session_id.as_deref(), Some("a"));
        let sessions = [
            session("a", SessionState::Stopped, false, 9),
            session("b", SessionState::Idle, true, 5),
        ];
        let idle = status("u", "p", &sessions);
        assert_eq!(
            (idle.is_alive, idle.status, idle.session_id.as_deref()),
            (true, Some("Idle"), Some("b"))
        );
        assert_eq!(idle.last_activity.as_deref(), Some("1970-01-01T00:00:00.005Z"));
        let busy = status("u", "p", &[session("c", SessionState::WaitingForYou, true, 1)]);
        assert_eq!(busy.status, Some("Busy"));
    }

    #[test]
    fn a_user_goes_on_with_own_sessions_only() {
        assert!(is_of("u/p", "u", None) && is_of("u/p", "u", Some("p")));
        assert!(!is_of("u/p", "v", None) && !is_of("u/p", "u", Some("q")));
        assert!(is_of("/home/me/project", "anyone", None));
        assert_eq!(project_of("u/p"), "p");
        assert_eq!(project_of("/home/me"), "/home/me");
    }

    #[test]
    fn what_is_missing_or_no_name_is_reported_by_its_field() {
        let target = |user: Option<&str>, project: Option<&str>| ChatTarget {
            user_id: user.map(str::to_owned),
            project_id: project.map(str::to_owned),
            session_id: None,
        };
        assert_eq!(target(Some("u"), None).project().unwrap(), ("u", "default"));
        for (target, field) in [
            (target(None, None), "user_id"),
            (target(Some(""), None), "user_id"),
            (target(Some("../u"), None), "user_id"),
            (target(Some("u"), Some("")), "project_id"),
            (target(Some("u"), Some("../../etc")), "project_id"),
        ] {
            let message = target.project().unwrap_err().message;
            assert!(message.starts_with(&format!("{field}: ")), "{message}");
        }
    }
}
