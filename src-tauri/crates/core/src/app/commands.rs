//! One method a command (see [`crate::api`]).

use super::App;
use crate::{Result, wire::*};
use serde_json::Value;

macro_rules! stub { ($($name:ident($i:ty)->$o:ty;)+) => { impl App { $(
    /// x
    pub async fn $name(&self, _input: $i) -> Result<$o> { unimplemented!() }
)+ } } }
stub! {
    snapshot(Nothing) -> Snapshot;
    servers_list(Nothing) -> ServersList;
    servers_save(ServersSave) -> ServerView;
    servers_remove(ServerName) -> Done;
    servers_restart(ServerName) -> ServerView;
    servers_enable(ServersEnable) -> ServerView;
    servers_tools(ServerName) -> ServersTools;
    servers_call(ServersCall) -> Value;
    servers_log(ServersLog) -> LogLines;
    agents_list(Nothing) -> AgentsList;
    agents_save(AgentsSave) -> AgentView;
    agents_remove(AgentId) -> Done;
    sessions_list(Nothing) -> SessionsList;
    session_create(SessionCreate) -> SessionCreated;
    session_prompt(SessionPrompt) -> PromptAccepted;
    session_cancel(SessionId) -> Done;
    session_stop(SessionId) -> SessionStopped;
    session_history(SessionHistory) -> History;
    session_permit(SessionPermit) -> Done;
    session_rename(SessionRename) -> SessionView;
    session_delete(SessionId) -> Done;
    processes(Nothing) -> Processes;
    quit(Nothing) -> Done;
}
