//! The command table: what the user interface, `/api/{command}` and scripts
//! can ask for. Declared once; router, Tauri command, TypeScript and the
//! reference are made from it (rule 7). A command without its method on
//! [`App`](crate::app::App) does not compile.

mod typescript;

pub use typescript::{computer_types, typescript};

use crate::{Error, Result, app::App, wire::*};
use serde_json::Value;

/// A command as the reference shows it.
#[derive(Clone, Copy, Debug)]
pub struct CommandInfo {
    /// Its name in `/api/{command}`.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// TypeScript name of its input.
    pub input: fn(&ts_rs::Config) -> String,
    /// TypeScript name of its output.
    pub output: fn(&ts_rs::Config) -> String,
}

macro_rules! commands {
    ($($(#[doc = $about:literal])+ $name:ident($input:ty) -> $output:ty;)+) => {
        /// All commands, in the order of the reference.
        pub const COMMANDS: &[CommandInfo] = &[$(CommandInfo {
            name: stringify!($name),
            about: concat!($($about, "\n"),+),
            input: <$input as ts_rs::TS>::name,
            output: <$output as ts_rs::TS>::name,
        }),+];

        /// Runs a command by its name. `input` may be `null` for an empty one.
        ///
        /// # Errors
        /// Not found for an unknown name; invalid for an input of another
        /// shape; else what the command says.
        pub async fn dispatch(app: &App, name: &str, input: Value) -> Result<Value> {
            match name {
                $(stringify!($name) => {
                    let input: $input = read(stringify!($name), input)?;
                    let output: $output = Box::pin(app.$name(input)).await?;
                    serde_json::to_value(output).map_err(|error| Error::failed(format!(
                        "the answer of {} could not be written: {error}", stringify!($name)
                    )))
                })+
                _ => Err(Error::not_found(format!(
                    "there is no command `{name}`; GET /api lists all commands"
                ))),
            }
        }

        fn visit(visitor: &mut impl ts_rs::TypeVisitor) {
            $(visitor.visit::<$input>(); visitor.visit::<$output>();)+
        }
    };
}

commands! {
    /// The state at one instant: servers, sessions, version.
    snapshot(Nothing) -> Snapshot;
    /// All MCP servers and what they are doing.
    servers_list(Nothing) -> ServersList;
    /// Adds a server or replaces its configuration; one that is not used yet is tried out.
    servers_save(ServersSave) -> ServerView;
    /// Removes a saved server and stops it.
    servers_remove(ServerName) -> Done;
    /// Stops and starts a server.
    servers_restart(ServerName) -> ServerView;
    /// Begins a sign-in to a remote server: the page to open in a browser. It is finished there;
    /// the server's `sign_in` says how it went.
    servers_sign_in(ServerName) -> SignInBegun;
    /// Gives up a sign-in that was begun.
    servers_sign_in_cancel(ServerName) -> Done;
    /// Forgets a sign-in, and starts the server anew without it.
    servers_sign_out(ServerName) -> Done;
    /// Switches a server on or off.
    servers_enable(ServersEnable) -> ServerView;
    /// The tools of a server, as MCP lists them.
    servers_tools(ServerName) -> ServersTools;
    /// Calls a tool of a server and returns the MCP result.
    servers_call(ServersCall) -> Value;
    /// The last lines of a server's standard error.
    servers_log(ServersLog) -> LogLines;
    /// What the bridge and a server said to each other, secrets masked.
    servers_traffic(ServersTraffic) -> Traffic;
    /// MCP servers that another application, a file or a text names; nothing is saved.
    servers_import(ServersImport) -> ServersFound;
    /// Saves servers that were found, disabled.
    servers_import_apply(ServersImportApply) -> ServersImported;
    /// The agents that can be used, the built-in one first.
    agents_list(Nothing) -> AgentsList;
    /// Adds an agent or replaces it.
    agents_save(AgentsSave) -> AgentView;
    /// Removes a saved agent.
    agents_remove(AgentId) -> Done;
    /// Installs a known agent into Gantry's own directory; answers when it is there.
    agents_install(AgentId) -> AgentView;
    /// Removes what Gantry installed of a known agent.
    agents_uninstall(AgentId) -> AgentView;
    /// What the last installation of a known agent said.
    agents_log(AgentsLog) -> LogLines;
    /// Takes in a list of agents in the format of the public ACP registry; installs nothing.
    agents_import(AgentsImport) -> AgentsImported;
    /// The conversations in a folder that an agent keeps itself; one can be gone on with by
    /// `session_create`. Starts the agent when it does not run there, and ends it again.
    agents_conversations(AgentsConversations) -> AgentConversations;
    /// All sessions, the last active first.
    sessions_list(Nothing) -> SessionsList;
    /// Opens a session in a folder.
    session_create(SessionCreate) -> SessionCreated;
    /// Hands a prompt to a session's agent; answers at acceptance, not at the end of the turn.
    session_prompt(SessionPrompt) -> PromptAccepted;
    /// Cancels the running turn of a session.
    session_cancel(SessionId) -> Done;
    /// Stops a session, and its engine when it was the last one there.
    session_stop(SessionStop) -> SessionStopped;
    /// A page of a session's turns with everything in them.
    session_history(SessionHistory) -> History;
    /// Answers a permission request with one of the options that were offered.
    session_permit(SessionPermit) -> Done;
    /// Answers a question of the agent: a form's values, or that its page is opened; or declines.
    session_answer(SessionAnswer) -> Done;
    /// Chooses the agent's mode, model or another option, as its `settings` offer them.
    session_set(SessionSet) -> SessionView;
    /// Opens a stopped session ahead of its next prompt; answers before it is open.
    session_resume(SessionId) -> SessionView;
    /// Gives a prompt that waits another text.
    session_queue_edit(QueueEdit) -> SessionView;
    /// Takes a prompt that waits out of the queue.
    session_queue_drop(QueuedTurn) -> SessionView;
    /// Cancels the running turn and sends this prompt next.
    session_queue_send(QueuedTurn) -> SessionView;
    /// Signs in to a session's agent and opens the session, or says which command does.
    session_authenticate(SessionAuthenticate) -> Authenticated;
    /// Tells a session's agent to forget the sign-in.
    session_logout(SessionId) -> Done;
    /// What Gantry and the agent said to each other in a session, secrets masked.
    session_traffic(SessionTraffic) -> Traffic;
    /// A session as Markdown or JSON.
    session_export(SessionExport) -> Exported;
    /// Gives a session another title.
    session_rename(SessionRename) -> SessionView;
    /// Stops a session and forgets it.
    session_delete(SessionId) -> Done;
    /// Searches what was said in all sessions.
    search(Search) -> SearchHits;
    /// Files of a session's project whose path holds these letters in order.
    project_files(ProjectFiles) -> ProjectFilesFound;
    /// What Gantry keeps on this computer: where, what and how much.
    data(Nothing) -> Data;
    /// The process tree: Gantry, its servers, its engines and what they started.
    processes(Nothing) -> Processes;
    /// What the user chose about the program: language, theme, closing.
    settings_get(Nothing) -> Settings;
    /// Changes some of it.
    settings_set(SettingsChange) -> Settings;
    /// Ends Gantry: answers, then shuts down.
    quit(Nothing) -> Done;
}

/// Reads a command's input; `null` counts as `{}`.
fn read<T: serde::de::DeserializeOwned>(command: &str, input: Value) -> Result<T> {
    let input = if input.is_null() { Value::Object(Default::default()) } else { input };
    serde_json::from_value(input)
        .map_err(|error| Error::invalid(format!("the input of {command} is not right: {error}")))
}
