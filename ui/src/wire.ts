// Made from the Rust types by `cargo xtask wire`. Do not edit.
/* eslint-disable */

/**
 * A way to start an ACP program.
 */
export type AgentConfig = { 
/**
 * For people.
 */
name: string, 
/**
 * A name looked up in `PATH`, or a path. Empty: the built-in agent.
 */
command: string, 
/**
 * Its arguments.
 */
args: Array<string>, 
/**
 * Added to its environment. In `agents_save` the mask of [`AgentView::env`] stands for
 * the value that is stored already.
 */
env: { [key in string]: string }, 
/**
 * What Gantry does for it.
 */
offers?: ClientOffers, };

/**
 * A conversation that an agent keeps.
 */
export type AgentConversation = { 
/**
 * The agent's own id, for `session_create`.
 */
id: string, 
/**
 * For people.
 */
title: string | null, 
/**
 * When something last happened in it, ISO 8601, as the agent says it.
 */
updated_at: string | null, 
/**
 * The session of Gantry that it is already.
 */
session: string | null, };

/**
 * Answer of `agents_conversations`.
 */
export type AgentConversations = { 
/**
 * Whether the agent lists its conversations and can go on with one.
 */
offered: boolean, 
/**
 * Whether it also tells what was said in one.
 */
replayed: boolean, 
/**
 * In the agent's order, at most 500.
 */
conversations: Array<AgentConversation>, 
/**
 * Whether it has more.
 */
more: boolean, };

/**
 * Input of `agents_remove`, `agents_install` and `agents_uninstall`.
 */
export type AgentId = { 
/**
 * The agent.
 */
id: string, };

/**
 * What Gantry can install of a known agent.
 */
export type AgentInstall = { 
/**
 * `npm` or `pypi`.
 */
registry: string, 
/**
 * The package.
 */
package: string, 
/**
 * The version that is installed.
 */
version: string, 
/**
 * Whether the one that was found is Gantry's own; `agents_uninstall` removes it.
 */
managed: boolean, 
/**
 * Whether it is being installed or removed now.
 */
running: boolean, };

/**
 * An agent that was not taken in.
 */
export type AgentNotTaken = { 
/**
 * Its id, or its place in the list.
 */
id: string, 
/**
 * Why not.
 */
why: string, };

/**
 * One agent as the list shows it.
 */
export type AgentView = { 
/**
 * Unique.
 */
id: string, 
/**
 * For people.
 */
name: string, 
/**
 * The command; the path of our own program for the built-in agent.
 */
command: string, 
/**
 * Its arguments.
 */
args: Array<string>, 
/**
 * What is added to its environment; `•••` stands for a secret.
 */
env?: { [key in string]: string }, 
/**
 * What Gantry does for it.
 */
offers?: ClientOffers, 
/**
 * Whether the command is there.
 */
installed: boolean, 
/**
 * Where it was found.
 */
path: string | null, 
/**
 * Its version, when known.
 */
version: string | null, 
/**
 * What to do to get it.
 */
how_to_install: string | null, 
/**
 * Whether it comes with Gantry.
 */
builtin: boolean, 
/**
 * In a line, what it is and needs; of a known agent.
 */
about?: string, 
/**
 * Where to read more; of a known agent.
 */
homepage?: string, 
/**
 * What `agents_install` does; nothing when Gantry cannot install it.
 */
install?: AgentInstall, };

/**
 * Input of `agents_conversations`.
 */
export type AgentsConversations = { 
/**
 * An existing folder.
 */
project_dir: string, 
/**
 * An agent's id; the default one when absent.
 */
agent?: string, };

/**
 * Input of `agents_import`: one of `text`, `path` and `url`.
 */
export type AgentsImport = { 
/**
 * A document in the format of the public ACP registry.
 */
text?: string, 
/**
 * A file with one.
 */
path?: string, 
/**
 * The address of one: `https`, or `http` of this machine.
 */
url?: string, 
/**
 * Only these of its agents; all when absent.
 */
ids?: Array<string>, 
/**
 * Only look: nothing is taken in.
 */
preview?: boolean, };

/**
 * Answer of `agents_import`.
 */
export type AgentsImported = { 
/**
 * Agents that are in the list now, or would be.
 */
ids: Array<string>, 
/**
 * What they are.
 */
agents?: Array<ImportableAgent>, 
/**
 * Of a preview: the document, so that what was looked at is what is taken in.
 */
text?: string, 
/**
 * Those that are not.
 */
skipped: Array<AgentNotTaken>, };

/**
 * Answer of `agents_list`.
 */
export type AgentsList = { 
/**
 * The built-in one first.
 */
agents: Array<AgentView>, };

/**
 * Input of `agents_log`.
 */
export type AgentsLog = { 
/**
 * The agent.
 */
id: string, 
/**
 * So many of the last lines; 200 when not given.
 */
tail?: number, };

/**
 * Input of `agents_save`.
 */
export type AgentsSave = { 
/**
 * Unique: letters, digits, `.`, `_`, `-`.
 */
id: string, 
/**
 * How it is started.
 */
config: AgentConfig, };

/**
 * A permission request and how it was answered.
 */
export type AnsweredPermission = { 
/**
 * The chosen `optionId`, or `cancelled`.
 */
outcome: string, 
/**
 * Why, when it was not the user who answered.
 */
reason: string | null, 
/**
 * When it was answered.
 */
answered_at: number, 
/**
 * Unique within the session.
 */
request: string, 
/**
 * Its turn.
 */
turn: string | null, 
/**
 * The ACP `toolCall` it is about.
 */
tool_call: JsonValue, 
/**
 * The ACP options in the agent's order: `{"optionId","name","kind"}`.
 */
options: Array<JsonValue>, 
/**
 * When it was asked.
 */
asked_at: number, };

/**
 * A question and what became of it.
 */
export type AnsweredQuestion = { 
/**
 * `accept`, `decline` or `cancel`.
 */
outcome: QuestionAction, 
/**
 * The form's values; `•••` stands for what looks like a secret.
 */
content?: JsonValue, 
/**
 * Why, when it was not the user who answered.
 */
reason: string | null, 
/**
 * When it was answered.
 */
answered_at: number, 
/**
 * Unique within the session.
 */
request: string, 
/**
 * Its turn, if one runs.
 */
turn: string | null, 
/**
 * The tool call that it is about, if any.
 */
tool_call: string | null, 
/**
 * How it is answered.
 */
mode: QuestionMode, 
/**
 * What is asked, for people.
 */
message: string, 
/**
 * Of a form: the agent's JSON schema of an object with plain fields, raw.
 */
schema?: JsonValue, 
/**
 * Of a page: its address, `http` or `https`.
 */
url?: string, 
/**
 * When it was asked.
 */
asked_at: number, };

/**
 * Answer of `session_authenticate`.
 */
export type Authenticated = { 
/**
 * Whether the agent was signed in to; the session opens now.
 */
done: boolean, 
/**
 * Otherwise the command line that signs in when it is run in a terminal.
 */
command?: Array<string>, 
/**
 * Variables to set for it.
 */
env?: Array<string>, };

/**
 * Agent and servers of a chat request.
 */
export type ChatAgentConfig = { 
/**
 * The agent; the default one when absent.
 */
agent_server?: ChatAgentServer, 
/**
 * The servers by name, as back ends write them; read leniently.
 */
context_servers?: { [key in string]: JsonValue }, };

/**
 * The agent of a chat request.
 */
export type ChatAgentServer = { 
/**
 * For the log; the name of a known agent counts when `command` is absent.
 */
agent_id?: string, 
/**
 * An agent's name, a program or a path.
 */
command?: string, 
/**
 * Its arguments.
 */
args?: Array<string>, 
/**
 * Added to its environment; `{MODEL_PROVIDER_…}` placeholders are filled in.
 */
env?: { [key in string]: string }, 
/**
 * What Gantry does for it; as it is known or saved when absent (but for questions, which a
 * caller has to be able to answer: `session_answer`), nothing for a program.
 */
offers?: ClientOffers, };

/**
 * Answer of `POST /computer/chat`.
 */
export type ChatAnswer = { 
/**
 * The project.
 */
project_id: string, 
/**
 * The session.
 */
session_id: string, 
/**
 * Always null: errors come in the envelope.
 */
error: string | null, 
/**
 * The caller's own id, or ours.
 */
request_id: string, 
/**
 * Whether the session was opened by this request.
 */
is_new_session: boolean, 
/**
 * What happened with the engine.
 */
engine: EngineOutcome, 
/**
 * What became of the conversation's context.
 */
context: ContextOutcome, 
/**
 * What happened with the servers.
 */
servers: Array<ServerReadiness>, 
/**
 * What the caller should know.
 */
warnings: Array<string>, };

/**
 * Request of `POST /computer/chat`.
 */
export type ChatRequest = { 
/**
 * Required.
 */
user_id?: string, 
/**
 * `default` when absent.
 */
project_id?: string, 
/**
 * Required.
 */
prompt?: string, 
/**
 * Goes on with this session.
 */
session_id?: string, 
/**
 * The caller's own id of the turn.
 */
request_id?: string, 
/**
 * Put before the first prompt of the session.
 */
system_prompt?: string, 
/**
 * The model that the agent is to use.
 */
model_provider?: ModelProvider, 
/**
 * Agent and servers.
 */
agent_config?: ChatAgentConfig, 
/**
 * Who may allow a tool call.
 */
permission?: Policy, 
/**
 * Whether to wait for a running turn instead of failing with `BUSY`.
 */
queue: boolean, 
/**
 * How long to wait for the servers, for all together.
 */
ready_timeout_ms?: number, 
/**
 * After how long without an answer a permission request is refused; 0: never. As set in
 * the settings when absent.
 */
permission_timeout_ms?: number, };

/**
 * What Gantry does for an agent when it asks. The agent is told at its start, and is
 * refused what is not offered.
 */
export type ClientOffers = { 
/**
 * Reads text files of the session's folder (`fs/read_text_file` of ACP).
 */
read_files?: boolean, 
/**
 * Writes text files of the session's folder (`fs/write_text_file`).
 */
write_files?: boolean, 
/**
 * Runs commands and shows their output (`terminal/*`).
 */
terminals?: boolean, 
/**
 * Shows the user its questions: forms and pages (`elicitation/create`).
 */
questions?: boolean, };

/**
 * See [`PromptAccepted::context`].
 */
export type ContextOutcome = "new" | "kept" | "restored" | "lost";

/**
 * Answer of `data`.
 */
export type Data = { 
/**
 * The data directory.
 */
folder: string, 
/**
 * What is in it, each thing once.
 */
parts: Array<DataPart>, };

/**
 * See [`DataPart::kind`].
 */
export type DataKind = "database" | "agents" | "workspaces" | "logs" | "other";

/**
 * One thing in the data directory.
 */
export type DataPart = { 
/**
 * What it is.
 */
kind: DataKind, 
/**
 * Where.
 */
path: string, 
/**
 * How much it takes, in bytes, as far as it could be read.
 */
bytes: number, };

/**
 * A command that was done and has nothing to tell.
 */
export type Done = { 
/**
 * Always true.
 */
ok: boolean, };

/**
 * How a process tree ended, by its worst member.
 */
export type EndHow = "exited" | "terminated" | "killed" | "left";

/**
 * See [`PromptAccepted::engine`].
 */
export type EngineOutcome = "started" | "reused" | "recreated" | "deferred";

/**
 * The engine of a session.
 */
export type EngineView = { 
/**
 * Of the agent program.
 */
pid: number, 
/**
 * How many sessions it has.
 */
sessions: number, };

/**
 * What kind of failure it was. A code exists only because somebody acts on it.
 */
export type ErrorCode = "VALIDATION_ERROR" | "NOT_FOUND" | "BUSY" | "SHUTTING_DOWN" | "INTERRUPTED" | "UPSTREAM_FAILED" | "FAILED";

/**
 * An event with its place in the order of all events of this instance.
 */
export type Event = { 
/**
 * Grows by one with each event.
 */
seq: number, 
/**
 * When it happened.
 */
at: number, } & ({ "type": "server_changed", 
/**
 * As it is now.
 */
server: ServerView, } | { "type": "server_removed", 
/**
 * Its name.
 */
name: string, } | { "type": "session_changed", 
/**
 * As it is now.
 */
session: SessionView, } | { "type": "session_removed", 
/**
 * Its id.
 */
id: string, } | { "type": "turn_started", 
/**
 * Its session.
 */
session: string, 
/**
 * The turn.
 */
turn: string, 
/**
 * 1 for the first of the session.
 */
number: number, 
/**
 * The caller's own id.
 */
request_id: string | null, 
/**
 * ACP content blocks.
 */
prompt: Array<JsonValue>, } | { "type": "update", 
/**
 * Its session.
 */
session: string, 
/**
 * The running turn, if one runs.
 */
turn: string | null, 
/**
 * The ACP update, raw (`{"sessionUpdate":…}`).
 */
update: JsonValue, } | { "type": "terminal_changed", 
/**
 * Its session.
 */
session: string, 
/**
 * The turn that it was started in, if one ran.
 */
turn: string | null, 
/**
 * As it is now.
 */
terminal: TerminalView, } | { "type": "permission_requested", 
/**
 * Its session.
 */
session: string, 
/**
 * The request.
 */
permission: PermissionView, } | { "type": "permission_resolved", 
/**
 * Its session.
 */
session: string, 
/**
 * The request.
 */
request: string, 
/**
 * The chosen `optionId`, or `cancelled`.
 */
outcome: string, 
/**
 * Why, when it was not the user who answered.
 */
reason: string | null, } | { "type": "question_asked", 
/**
 * Its session.
 */
session: string, 
/**
 * The question.
 */
question: QuestionView, } | { "type": "question_answered", 
/**
 * Its session.
 */
session: string, 
/**
 * The question and its answer.
 */
question: AnsweredQuestion, } | { "type": "question_completed", 
/**
 * Its session.
 */
session: string, 
/**
 * The question.
 */
request: string, } | { "type": "turn_ended", 
/**
 * Its session.
 */
session: string, 
/**
 * The turn.
 */
turn: string, 
/**
 * ACP stop reason, or `error`.
 */
reason: string, 
/**
 * For people, when it failed.
 */
description: string | null, } | { "type": "agents_changed", } | { "type": "agent_install", 
/**
 * The agent.
 */
id: string, 
/**
 * What npm, uv or pip says.
 */
line: string, } | { "type": "settings_changed", 
/**
 * As they are now.
 */
settings: Settings, } | { "type": "shutting_down", 
/**
 * The phase: `doors`, `finish`, `ask`, `kill`, `store`, `exit`.
 */
phase: string, });

/**
 * What a session is exported as.
 */
export type ExportFormat = "markdown" | "json";

/**
 * Answer of `session_export`.
 */
export type Exported = { 
/**
 * A name for the file.
 */
name: string, 
/**
 * What is in it.
 */
text: string, };

/**
 * A server that was found; nothing of it is saved yet.
 */
export type FoundServer = { 
/**
 * Its name there.
 */
name: string, 
/**
 * As Gantry would keep it; values of secrets masked.
 */
config: ServerConfig, 
/**
 * The file, and where in it; empty for a text.
 */
source: string, 
/**
 * What a person should know before it is used.
 */
problems: Array<string>, 
/**
 * The saved server that it is already, or whose name it has.
 */
duplicate_of: string | null, 
/**
 * Whether it cannot be saved as it is; `problems` says why.
 */
refused: boolean, };

/**
 * What happened. Nearly all of them are updates, thousands are kept, and each takes the place
 * of the largest: what is larger than an update stands in a box.
 */
export type Happening = { "type": "server_changed", 
/**
 * As it is now.
 */
server: ServerView, } | { "type": "server_removed", 
/**
 * Its name.
 */
name: string, } | { "type": "session_changed", 
/**
 * As it is now.
 */
session: SessionView, } | { "type": "session_removed", 
/**
 * Its id.
 */
id: string, } | { "type": "turn_started", 
/**
 * Its session.
 */
session: string, 
/**
 * The turn.
 */
turn: string, 
/**
 * 1 for the first of the session.
 */
number: number, 
/**
 * The caller's own id.
 */
request_id: string | null, 
/**
 * ACP content blocks.
 */
prompt: Array<JsonValue>, } | { "type": "update", 
/**
 * Its session.
 */
session: string, 
/**
 * The running turn, if one runs.
 */
turn: string | null, 
/**
 * The ACP update, raw (`{"sessionUpdate":…}`).
 */
update: JsonValue, } | { "type": "terminal_changed", 
/**
 * Its session.
 */
session: string, 
/**
 * The turn that it was started in, if one ran.
 */
turn: string | null, 
/**
 * As it is now.
 */
terminal: TerminalView, } | { "type": "permission_requested", 
/**
 * Its session.
 */
session: string, 
/**
 * The request.
 */
permission: PermissionView, } | { "type": "permission_resolved", 
/**
 * Its session.
 */
session: string, 
/**
 * The request.
 */
request: string, 
/**
 * The chosen `optionId`, or `cancelled`.
 */
outcome: string, 
/**
 * Why, when it was not the user who answered.
 */
reason: string | null, } | { "type": "question_asked", 
/**
 * Its session.
 */
session: string, 
/**
 * The question.
 */
question: QuestionView, } | { "type": "question_answered", 
/**
 * Its session.
 */
session: string, 
/**
 * The question and its answer.
 */
question: AnsweredQuestion, } | { "type": "question_completed", 
/**
 * Its session.
 */
session: string, 
/**
 * The question.
 */
request: string, } | { "type": "turn_ended", 
/**
 * Its session.
 */
session: string, 
/**
 * The turn.
 */
turn: string, 
/**
 * ACP stop reason, or `error`.
 */
reason: string, 
/**
 * For people, when it failed.
 */
description: string | null, } | { "type": "agents_changed", } | { "type": "agent_install", 
/**
 * The agent.
 */
id: string, 
/**
 * What npm, uv or pip says.
 */
line: string, } | { "type": "settings_changed", 
/**
 * As they are now.
 */
settings: Settings, } | { "type": "shutting_down", 
/**
 * The phase: `doors`, `finish`, `ask`, `kill`, `store`, `exit`.
 */
phase: string, };

/**
 * Answer of `session_history`.
 */
export type History = { 
/**
 * Oldest first.
 */
turns: Array<TurnView>, 
/**
 * Whether there are older ones.
 */
more: boolean, 
/**
 * The sequence number of events up to which this is true.
 */
seq: number, };

/**
 * An agent of a registry's list.
 */
export type ImportableAgent = { 
/**
 * Unique.
 */
id: string, 
/**
 * For people.
 */
name: string, 
/**
 * In a line, what it is.
 */
about: string, 
/**
 * Where to read more; may be empty.
 */
homepage: string, 
/**
 * What is installed, with its version: `npm: package 1.0.0`; what to do by hand otherwise.
 */
from: string, 
/**
 * The command line that starts it.
 */
command: Array<string>, 
/**
 * What is added to its environment.
 */
env?: { [key in string]: string }, };

/**
 * Whether sessions share one process of a server.
 */
export type Isolation = "shared" | "session";

export type JsonValue = number | string | boolean | Array<JsonValue> | { [key in string]: JsonValue } | null;

/**
 * The language of the interface.
 */
export type Language = "system" | "en" | "zh";

/**
 * How the last run ended, where the user should know: it crashed, was cut short, or
 * had to force something.
 */
export type LastExit = { 
/**
 * In a sentence or two.
 */
summary: string, 
/**
 * It ended without its shutdown: killed, crashed, or the computer went off.
 */
crashed: boolean, 
/**
 * Its shutdown could not do everything: it was cut short, or something was left.
 */
cut_short: boolean, 
/**
 * How each process tree ended in the last shutdown, the worst first.
 */
trees: Array<TreeEnd>, 
/**
 * What this start found of earlier runs.
 */
leftovers: Array<Leftover>, 
/**
 * A text to copy for whoever looks into it; holds no arguments and no secrets.
 */
report: string, };

/**
 * A process of an earlier run that this start found.
 */
export type Leftover = { 
/**
 * Process id.
 */
pid: number, 
/**
 * Its program, where it is known.
 */
program: string, 
/**
 * Whether it was ended; if not, somebody has to end it by hand.
 */
ended: boolean, };

/**
 * How long a server runs.
 */
export type Lifetime = "persistent" | "session";

/**
 * Answer of `servers_log`.
 */
export type LogLines = { 
/**
 * Oldest first.
 */
lines: Array<string>, };

/**
 * A model endpoint. `Debug` does not show the key.
 */
export type ModelProvider = { 
/**
 * For people.
 */
provider?: string, 
/**
 * Secret.
 */
api_key?: string, 
/**
 * The endpoint.
 */
base_url?: string, 
/**
 * The model's name.
 */
model?: string, 
/**
 * `openai` or `anthropic`.
 */
api_protocol?: string, };

/**
 * One that was not saved.
 */
export type NotImported = { 
/**
 * Its name.
 */
name: string, 
/**
 * Why.
 */
why: string, };

/**
 * A command that takes nothing. Unknown fields are ignored.
 */
export type Nothing = Record<symbol, never>;

/**
 * Whether and how a remote server may be signed in to.
 */
export type OauthChoice = boolean | OauthClient;

/**
 * What an authorization server knows of Gantry, when it has to be told beforehand.
 */
export type OauthClient = { 
/**
 * The client id that it gave out; without one Gantry registers itself.
 */
clientId?: string, 
/**
 * The secret that belongs to it: a literal, `${env:NAME}` or `${secret:ID}`.
 */
clientSecret?: string, 
/**
 * What to ask for, when it is not what the server says.
 */
scopes?: Array<string>, 
/**
 * The port of `http://127.0.0.1:PORT/callback`, when it has to be a certain one.
 */
redirectPort?: number, };

/**
 * What closing the window does, where a tray can bring it back. Without one it quits.
 */
export type OnClose = "ask" | "tray" | "quit";

/**
 * One of the agent's config options and its new value.
 */
export type OptionValue = { 
/**
 * The option's `id`.
 */
id: string, 
/**
 * The id of a choice, or a boolean.
 */
value: JsonValue, };

/**
 * An open permission request.
 */
export type PermissionView = { 
/**
 * Unique within the session.
 */
request: string, 
/**
 * Its turn.
 */
turn: string | null, 
/**
 * The ACP `toolCall` it is about.
 */
tool_call: JsonValue, 
/**
 * The ACP options in the agent's order: `{"optionId","name","kind"}`.
 */
options: Array<JsonValue>, 
/**
 * When it was asked.
 */
asked_at: number, };

/**
 * Who may allow a tool call.
 */
export type Policy = "ask" | "reads" | "all";

/**
 * One process and what hangs below it.
 */
export type ProcessNode = { 
/**
 * Process id.
 */
pid: number, 
/**
 * When it started.
 */
started: number, 
/**
 * Short name.
 */
name: string, 
/**
 * What it is to us.
 */
role: ProcessRole, 
/**
 * The server, agent or session it belongs to.
 */
owner: string | null, 
/**
 * Share of one core since the last call, percent.
 */
cpu: number, 
/**
 * Resident memory in bytes; shared pages count in full for each who shares them.
 */
rss: number, 
/**
 * Proportional memory in bytes: shared pages are divided among those who share them.
 * Missing where the system does not tell; show `rss` then, and say which it is.
 */
pss?: number, 
/**
 * Since its start.
 */
uptime_ms: number, 
/**
 * What it started.
 */
children: Array<ProcessNode>, };

/**
 * What a process is to us.
 */
export type ProcessRole = "app" | "server" | "engine" | "terminal" | "child";

/**
 * Answer of `processes`.
 */
export type Processes = { 
/**
 * Gantry first, then what hangs nowhere below it.
 */
roots: Array<ProcessNode>, 
/**
 * Bearers of our cookie that belong to no running tree.
 */
strays: number, };

/**
 * A file or folder of a project.
 */
export type ProjectFile = { 
/**
 * Below the project's folder, with `/` between the names.
 */
path: string, 
/**
 * The same as a `file:` address.
 */
uri: string, 
/**
 * Whether it is a folder.
 */
folder: boolean, };

/**
 * Input of `project_files`.
 */
export type ProjectFiles = { 
/**
 * A session of the project.
 */
session: string, 
/**
 * Letters of the path, in order; all files when empty.
 */
query: string, 
/**
 * At most this many (20 when absent, at most 200).
 */
limit?: number, };

/**
 * Answer of `project_files`.
 */
export type ProjectFilesFound = { 
/**
 * The best match first.
 */
files: Array<ProjectFile>, 
/**
 * Whether the project is too large to have been looked through whole.
 */
cut: boolean, };

/**
 * Answer of `session_prompt`, at acceptance.
 */
export type PromptAccepted = { 
/**
 * The new turn.
 */
turn: string, 
/**
 * What happened with the session's servers.
 */
servers: Array<ServerReadiness>, 
/**
 * What happened with its engine.
 */
engine: EngineOutcome, 
/**
 * What became of the conversation's context.
 */
context: ContextOutcome, };

/**
 * What a prompt may hold besides text and links.
 */
export type PromptCapabilities = { 
/**
 * Blocks of type `image`.
 */
image: boolean, 
/**
 * Blocks of type `audio`.
 */
audio: boolean, 
/**
 * Blocks of type `resource` (a file with its content).
 */
embedded: boolean, };

/**
 * What the user does about a question.
 */
export type QuestionAction = "accept" | "decline" | "cancel";

/**
 * How a question is answered.
 */
export type QuestionMode = "form" | "url";

/**
 * An open question.
 */
export type QuestionView = { 
/**
 * Unique within the session.
 */
request: string, 
/**
 * Its turn, if one runs.
 */
turn: string | null, 
/**
 * The tool call that it is about, if any.
 */
tool_call: string | null, 
/**
 * How it is answered.
 */
mode: QuestionMode, 
/**
 * What is asked, for people.
 */
message: string, 
/**
 * Of a form: the agent's JSON schema of an object with plain fields, raw.
 */
schema?: JsonValue, 
/**
 * Of a page: its address, `http` or `https`.
 */
url?: string, 
/**
 * When it was asked.
 */
asked_at: number, };

/**
 * Input of `session_queue_edit`.
 */
export type QueueEdit = { 
/**
 * The session.
 */
session: string, 
/**
 * The queued prompt's turn.
 */
turn: string, 
/**
 * The new text; blocks that are no text stay.
 */
text: string, };

/**
 * A prompt that waits for the running turn.
 */
export type QueuedPrompt = { 
/**
 * Its turn to be.
 */
turn: string, 
/**
 * Its text.
 */
text: string, 
/**
 * How many blocks it has that are no text.
 */
attachments: number, 
/**
 * When it was asked for.
 */
at: number, };

/**
 * Input of `session_queue_drop` and `session_queue_send`.
 */
export type QueuedTurn = { 
/**
 * The session.
 */
session: string, 
/**
 * The queued prompt's turn.
 */
turn: string, };

/**
 * See [`ServerReadiness::state`].
 */
export type ReadinessState = "ready" | "starting" | "failed" | "passed_through";

/**
 * Input of `search`.
 */
export type Search = { 
/**
 * Words that must all occur; `"a phrase"`, `a OR b` and `-without` work.
 */
query: string, 
/**
 * Only in this project: its id, path or name.
 */
project?: string, 
/**
 * At most this many hits (30 when absent, at most 100).
 */
limit?: number, };

/**
 * Something that was said, and where.
 */
export type SearchHit = { 
/**
 * The session.
 */
session: string, 
/**
 * Its title.
 */
title: string, 
/**
 * Path of its project.
 */
project: string, 
/**
 * Number of the turn.
 */
turn: number, 
/**
 * `user` or `agent`.
 */
role: string, 
/**
 * When it was said.
 */
at: number, 
/**
 * Text around the first match; matches are between `«` and `»`.
 */
snippet: string, };

/**
 * Answer of `search`.
 */
export type SearchHits = { 
/**
 * The best first.
 */
hits: Array<SearchHit>, };

/**
 * A stored server configuration (contract, section 4). Fields that we do not
 * know are kept in `other` and written back.
 */
export type ServerConfig = { 
/**
 * The program of a stdio server: a name looked up in `PATH`, or a path.
 */
command?: string, 
/**
 * Its arguments, passed byte for byte.
 */
args?: Array<string>, 
/**
 * Added to its environment: a literal, `${env:NAME}` or `${secret:ID}`.
 */
env?: { [key in string]: string }, 
/**
 * Working directory; the data directory's `workspaces` when absent.
 */
cwd?: string, 
/**
 * The address of a remote server (instead of `command`).
 */
url?: string, 
/**
 * `streamable-http` or `sse`, for a remote server.
 */
transport?: string, 
/**
 * Sent to a remote server with every request.
 */
headers?: { [key in string]: string }, 
/**
 * Shorthand for an `Authorization: Bearer` header.
 */
authToken?: string, 
/**
 * How to sign in to a remote server that wants it; `false`: never. Most need nothing here.
 */
oauth?: OauthChoice, 
/**
 * Whether it is used at all.
 */
enabled?: boolean, 
/**
 * Whether it runs as long as Gantry does, not only while a session uses it.
 */
persistent?: boolean, 
/**
 * When not empty, only these tools are seen and can be called.
 */
allowTools?: Array<string>, 
/**
 * These tools are never seen and cannot be called; `allowTools` wins.
 */
denyTools?: Array<string>, 
/**
 * Whether sessions share one process.
 */
isolation?: Isolation, 
/**
 * How long its start may take, until it has answered `tools/list`.
 */
startTimeoutMs?: number, 
/**
 * How long one call may take.
 */
callTimeoutMs?: number, };

/**
 * Input of commands about one server.
 */
export type ServerName = { 
/**
 * The server's name.
 */
name: string, };

/**
 * What a session was told about one of its servers.
 */
export type ServerReadiness = { 
/**
 * The server's name.
 */
name: string, 
/**
 * Its state when the prompt left.
 */
state: ReadinessState, 
/**
 * How it was handed to the agent.
 */
via: Via, 
/**
 * Number of tools.
 */
tools: number, 
/**
 * How long the session waited for it.
 */
ms: number, 
/**
 * Why it is not ready.
 */
error: string | null, 
/**
 * The receipt: how many tools the agent was listed last, as the bridge saw it. Absent as
 * long as the agent has not asked, and when it does not reach the server by the bridge.
 */
fetched?: number, };

/**
 * How it stands with signing in to a remote server.
 */
export type ServerSignIn = { 
/**
 * What is to be done about it.
 */
state: ServerSignInState, 
/**
 * Until when the user can finish the one that was begun.
 */
until?: number, 
/**
 * Why the last attempt came to nothing.
 */
error?: string, };

/**
 * What is to be done about a sign-in.
 */
export type ServerSignInState = "needed" | "waiting" | "signed_in";

/**
 * A server's state as others see it.
 */
export type ServerState = "stopped" | "starting" | "ready" | "degraded" | "restarting" | "failed";

/**
 * One server as the list shows it.
 */
export type ServerView = { 
/**
 * Its name.
 */
name: string, 
/**
 * Whether it is used.
 */
enabled: boolean, 
/**
 * How long it runs.
 */
lifetime: Lifetime, 
/**
 * What it is doing.
 */
state: ServerState, 
/**
 * Of the server program, not of its warden.
 */
pid: number | null, 
/**
 * Where agents reach it (bridge URL, or its own for a remote one).
 */
url: string, 
/**
 * Number of tools that a session sees now.
 */
tools: number | null, 
/**
 * Why it failed, with the last lines of its standard error.
 */
error: string | null, 
/**
 * Unexpected ends since it was last started by hand or configured.
 */
restarts: number, 
/**
 * From its start to the answer of `tools/list`.
 */
ready_ms: number | null, 
/**
 * What it does while it is starting: what it said last, or that a package may be
 * downloading.
 */
note?: string, 
/**
 * How it stands with signing in to it; absent where there is nothing to sign in to.
 */
sign_in?: ServerSignIn, 
/**
 * Ids of the sessions that hold a lease on it.
 */
used_by: Array<string>, 
/**
 * When it came into this state.
 */
since: number, 
/**
 * Whether it is a saved one (false: it came with a session's request).
 */
saved: boolean, 
/**
 * Its configuration, values of secrets masked.
 */
config: ServerConfig, };

/**
 * Input of `servers_call`.
 */
export type ServersCall = { 
/**
 * The server's name.
 */
name: string, 
/**
 * The tool's name.
 */
tool: string, 
/**
 * Its arguments.
 */
arguments: JsonValue, };

/**
 * Input of `servers_enable`.
 */
export type ServersEnable = { 
/**
 * The server's name.
 */
name: string, 
/**
 * Whether it is to be used; it is when absent.
 */
enabled?: boolean, };

/**
 * Answer of `servers_import`.
 */
export type ServersFound = { 
/**
 * In the order of the source.
 */
found: Array<FoundServer>, };

/**
 * Where servers are looked for: exactly one of the three.
 */
export type ServersImport = { 
/**
 * A configuration as text: JSON as other applications write it, read leniently.
 */
text?: string, 
/**
 * An application: `claude-desktop`, `claude-code` or `cursor`.
 */
app?: string, 
/**
 * A file, absolute.
 */
path?: string, };

/**
 * Input of `servers_import_apply`.
 */
export type ServersImportApply = { 
/**
 * Which of the servers found.
 */
names?: Array<string>, 
/**
 * Whether a saved server of the same name is replaced; else it is left as it is.
 */
replace?: boolean, 
/**
 * A configuration as text: JSON as other applications write it, read leniently.
 */
text?: string, 
/**
 * An application: `claude-desktop`, `claude-code` or `cursor`.
 */
app?: string, 
/**
 * A file, absolute.
 */
path?: string, };

/**
 * Answer of `servers_import_apply`.
 */
export type ServersImported = { 
/**
 * Saved, disabled.
 */
saved: Array<ServerView>, 
/**
 * Not saved.
 */
skipped: Array<NotImported>, };

/**
 * Answer of `servers_list`.
 */
export type ServersList = { 
/**
 * Saved servers first, in their order.
 */
servers: Array<ServerView>, };

/**
 * Input of `servers_log`.
 */
export type ServersLog = { 
/**
 * The server's name.
 */
name: string, 
/**
 * At most this many lines from the end (200 when absent).
 */
tail?: number, };

/**
 * Input of `servers_save`.
 */
export type ServersSave = { 
/**
 * The server's name; an existing one is replaced.
 */
name: string, 
/**
 * Its configuration.
 */
config: ServerConfig, };

/**
 * Answer of `servers_tools`.
 */
export type ServersTools = { 
/**
 * As MCP lists them.
 */
tools: Array<JsonValue>, };

/**
 * Input of `servers_traffic`.
 */
export type ServersTraffic = { 
/**
 * The server's name.
 */
name: string, 
/**
 * At most this many messages, the newest (200 when absent).
 */
tail?: number, };

/**
 * Input of `session_answer`.
 */
export type SessionAnswer = { 
/**
 * The session.
 */
session: string, 
/**
 * The question.
 */
request: string, 
/**
 * What the user does about it.
 */
action: QuestionAction, 
/**
 * The form's values by the names of its fields; only with `accept`.
 */
content?: JsonValue, };

/**
 * Input of `session_authenticate`.
 */
export type SessionAuthenticate = { 
/**
 * The session.
 */
session: string, 
/**
 * The `id` of one of the methods.
 */
method: string, };

/**
 * Input of `session_create`.
 */
export type SessionCreate = { 
/**
 * An existing folder.
 */
project_dir: string, 
/**
 * An agent's id; the default one when absent.
 */
agent?: string, 
/**
 * Its servers; the saved and enabled ones when absent.
 */
servers?: { [key in string]: ServerConfig }, 
/**
 * For people; made from the first prompt when absent.
 */
title?: string, 
/**
 * Who may allow a tool call.
 */
permission?: Policy, 
/**
 * A conversation that the agent keeps itself, as `agents_conversations` lists it, to go on
 * with; a new one when absent.
 */
acp_session_id?: string, };

/**
 * Answer of `session_create`.
 */
export type SessionCreated = { 
/**
 * The new session.
 */
session: SessionView, };

/**
 * Input of `session_export`.
 */
export type SessionExport = { 
/**
 * The session.
 */
session: string, 
/**
 * Markdown when absent.
 */
format?: ExportFormat, };

/**
 * Input of `session_history`.
 */
export type SessionHistory = { 
/**
 * The session.
 */
session: string, 
/**
 * Turns with a lower number only.
 */
before?: number, 
/**
 * At most this many turns (20 when absent, at most 200).
 */
limit?: number, };

/**
 * Input of commands about one session.
 */
export type SessionId = { 
/**
 * The session.
 */
session: string, };

/**
 * Input of `session_permit`.
 */
export type SessionPermit = { 
/**
 * The session.
 */
session: string, 
/**
 * The request.
 */
request: string, 
/**
 * An offered `optionId`.
 */
option: string, };

/**
 * Input of `session_prompt`.
 */
export type SessionPrompt = { 
/**
 * The session.
 */
session: string, 
/**
 * ACP content blocks.
 */
content: Array<JsonValue>, 
/**
 * Whether to wait for a running turn instead of failing with `BUSY`.
 */
queue?: boolean, 
/**
 * The caller's own id of the turn.
 */
request_id?: string, 
/**
 * Who may allow a tool call from now on; as before when absent.
 */
permission?: Policy, 
/**
 * How long to wait for the servers, for all together.
 */
ready_timeout_ms?: number, 
/**
 * After how long without an answer a permission request is refused; 0: never. As set in
 * the settings when absent.
 */
permission_timeout_ms?: number, };

/**
 * Input of `session_rename`.
 */
export type SessionRename = { 
/**
 * The session.
 */
session: string, 
/**
 * The new title.
 */
title: string, };

/**
 * Input of `session_set`: one or more of the three.
 */
export type SessionSet = { 
/**
 * The session.
 */
session: string, 
/**
 * The id of a mode.
 */
mode?: string, 
/**
 * The id of a model.
 */
model?: string, 
/**
 * Another option.
 */
option?: OptionValue, };

/**
 * What the agent lets the user choose in a session, as it says it. Where it
 * offers a thing in two ways, `session_set` takes the newer one (`options`).
 */
export type SessionSettings = { 
/**
 * ACP's `SessionModeState`: `{"currentModeId","availableModes":[{"id","name","description"}]}`.
 */
modes?: JsonValue, 
/**
 * The older list of models: `{"currentModelId","availableModels":[{"modelId","name"}]}`.
 */
models?: JsonValue, 
/**
 * ACP's `SessionConfigOption`s: `{"id","name","category","type","currentValue","options"}`;
 * the categories `mode`, `model` and `thought_level` are known.
 */
options?: Array<JsonValue>, };

/**
 * What a session is doing.
 */
export type SessionState = "starting" | "idle" | "working" | "waiting_for_you" | "cancelling" | "stopped" | "failed";

/**
 * Input of `session_stop`.
 */
export type SessionStop = { 
/**
 * The session.
 */
session: string, 
/**
 * Kill at once instead of asking first.
 */
force?: boolean, };

/**
 * Answer of `session_stop`.
 */
export type SessionStopped = { 
/**
 * Always true; a session that is stopped already stays so.
 */
success: boolean, 
/**
 * The session.
 */
session_id: string, 
/**
 * Whether it was the engine's last session.
 */
engine_stopped: boolean, 
/**
 * Servers that only this session used.
 */
servers_stopped: Array<string>, 
/**
 * Processes that ended with it.
 */
processes_ended: number, 
/**
 * Of those, how many had to be killed.
 */
forced: number, };

/**
 * Input of `session_traffic`.
 */
export type SessionTraffic = { 
/**
 * The session.
 */
session: string, 
/**
 * At most this many messages, the newest (200 when absent).
 */
tail?: number, };

/**
 * One session as the list shows it.
 */
export type SessionView = { 
/**
 * Ours.
 */
id: string, 
/**
 * The agent's own id, while it is open there.
 */
acp_session_id: string | null, 
/**
 * The project's folder.
 */
project: string, 
/**
 * The project's id.
 */
project_id: string, 
/**
 * The agent's id.
 */
agent: string, 
/**
 * For people.
 */
title: string, 
/**
 * What it is doing.
 */
state: SessionState, 
/**
 * Why it is `failed` or `stopped`.
 */
error: string | null, 
/**
 * Its engine, while it has one.
 */
engine: EngineView | null, 
/**
 * Its servers, as the last prompt found them.
 */
servers: Array<ServerReadiness>, 
/**
 * The running turn.
 */
turn: string | null, 
/**
 * Permission requests that wait for an answer.
 */
permissions: Array<PermissionView>, 
/**
 * Other questions of the agent that wait for the user; see `session_answer`.
 */
questions?: Array<QuestionView>, 
/**
 * The agent's slash commands (`AvailableCommand` of ACP).
 */
commands: Array<JsonValue>, 
/**
 * Mode, model and other options, as the agent offers them. Lists of models are long: in
 * events it is absent while it stays as it was told last.
 */
settings?: SessionSettings, 
/**
 * Prompts that wait for the running turn, the next one first.
 */
queue?: Array<QueuedPrompt>, 
/**
 * Since when the agent has said nothing although it works; absent until that is long.
 */
quiet_since?: number, 
/**
 * What prompts may hold besides text and links; absent until the agent has run.
 */
capabilities?: PromptCapabilities, 
/**
 * Whether its agent can go on with the conversation after a stop; absent
 * while that is not known. False on a stopped session: the next prompt begins anew.
 */
restorable?: boolean, 
/**
 * What became of the conversation when it was opened in the agent.
 */
context?: ContextOutcome, 
/**
 * How the user signs in to its agent, where that is offered.
 */
sign_in?: SignIn, 
/**
 * When it was created.
 */
created_at: number, 
/**
 * When something last happened.
 */
last_activity: number, };

/**
 * Answer of `sessions_list`.
 */
export type SessionsList = { 
/**
 * The last active first.
 */
sessions: Array<SessionView>, };

/**
 * What the user chose. What is missing or unreadable in the store counts as not chosen.
 */
export type Settings = { 
/**
 * The language of the interface.
 */
language: Language, 
/**
 * Light or dark.
 */
theme: Theme, 
/**
 * What closing the window does.
 */
on_close: OnClose, 
/**
 * Whether the user has been through the first steps, or skipped them.
 */
introduced: boolean, 
/**
 * After how many minutes without a turn an agent's engine ends (it starts again with
 * the next prompt); 0: never.
 */
engine_idle_minutes?: number, 
/**
 * Whether each session has an engine of its own: harder isolation, more memory.
 */
one_engine_per_session?: boolean, 
/**
 * How many agents are started anew, without a session, when their last session was stopped,
 * so that the next one begins at once; at most 8. They end after `engine_idle_minutes` (after
 * 30 when that is 0). 0: none.
 */
warm_engines?: number, 
/**
 * How long a prompt waits for its servers, for all together, unless the request says
 * otherwise; milliseconds.
 */
ready_timeout_ms?: number, 
/**
 * After how many milliseconds without an answer a permission request is refused, unless
 * the request says otherwise; 0: never.
 */
permission_timeout_ms?: number, 
/**
 * What the interface offers first when it asks what a new session's agent may do.
 */
permission?: Policy, };

/**
 * Input of `settings_set`: what is absent stays as it is.
 */
export type SettingsChange = { 
/**
 * The language of the interface.
 */
language?: Language, 
/**
 * Light or dark.
 */
theme?: Theme, 
/**
 * What closing the window does.
 */
on_close?: OnClose, 
/**
 * Whether the user has been through the first steps.
 */
introduced?: boolean, 
/**
 * Minutes until an engine without a turn ends; 0: never.
 */
engine_idle_minutes?: number, 
/**
 * Whether each session has an engine of its own.
 */
one_engine_per_session?: boolean, 
/**
 * How many agents are kept ready without a session, at most 8; 0: none.
 */
warm_engines?: number, 
/**
 * Milliseconds that a prompt waits for its servers.
 */
ready_timeout_ms?: number, 
/**
 * Milliseconds until a permission request without an answer is refused; 0: never.
 */
permission_timeout_ms?: number, 
/**
 * What the interface offers first when it asks what a new session's agent may do.
 */
permission?: Policy, };

/**
 * How the user signs in to the agent.
 */
export type SignIn = { 
/**
 * Whether the agent refused to go on without it.
 */
wanted: boolean, 
/**
 * ACP's `AuthMethod`s: `{"id","name","description"}`; one with `"type":"terminal"`
 * is a command that the user runs in a terminal.
 */
methods: Array<JsonValue>, 
/**
 * Whether the agent can be told to forget the sign-in.
 */
log_out: boolean, };

/**
 * Answer of `servers_sign_in`.
 */
export type SignInBegun = { 
/**
 * The page at which the user signs in.
 */
url: string, 
/**
 * Until when.
 */
until: number, };

/**
 * The state at one instant; the events after `seq` change it.
 */
export type Snapshot = { 
/**
 * Up to which event this is true.
 */
seq: number, 
/**
 * All servers.
 */
servers: Array<ServerView>, 
/**
 * All sessions.
 */
sessions: Array<SessionView>, 
/**
 * Gantry's version.
 */
version: string, 
/**
 * Something that the user should know about the last run, if anything.
 */
notice: string | null, 
/**
 * The same with a report to copy.
 */
last_exit?: LastExit, };

/**
 * How a command ended.
 */
export type TerminalExit = { 
/**
 * Its exit code; absent when a signal ended it.
 */
code?: number, 
/**
 * The signal that ended it, such as `SIGKILL`.
 */
signal?: string, };

/**
 * A command that Gantry runs for an agent (`terminal/create` of ACP). A tool call shows it by
 * a content block `{"type":"terminal","terminalId"}`.
 */
export type TerminalView = { 
/**
 * The `terminalId`; unique within the session.
 */
id: string, 
/**
 * The command line, for people.
 */
command: string, 
/**
 * Where it runs.
 */
cwd: string, 
/**
 * The end of what it wrote, both streams, with escape sequences: at most 64 KiB
 * (16 KiB in events while it runs).
 */
output: string, 
/**
 * Whether there was more.
 */
truncated: boolean, 
/**
 * How it ended; absent while it runs.
 */
exit?: TerminalExit, 
/**
 * When it started.
 */
started_at: number, 
/**
 * When it ended.
 */
ended_at?: number, };

/**
 * Light or dark.
 */
export type Theme = "system" | "light" | "dark";

/**
 * When a tool call ran.
 */
export type ToolTimes = { 
/**
 * When the agent first spoke of it.
 */
started_at: number, 
/**
 * When it was completed or failed.
 */
ended_at: number | null, };

/**
 * Answer of `session_traffic` and `servers_traffic`.
 */
export type Traffic = { 
/**
 * Oldest first. What is older than the log keeps is gone.
 */
messages: Array<TrafficMessage>, };

/**
 * A message between Gantry and an agent, or a server.
 */
export type TrafficMessage = { 
/**
 * When.
 */
at: number, 
/**
 * Whether it came from the agent; for a server: from its users' side, the bridge.
 */
from_agent: boolean, 
/**
 * The JSON-RPC message with its secrets masked; the beginning of it, as a
 * string, when it was too long to be kept.
 */
message: JsonValue, };

/**
 * How one process tree ended.
 */
export type TreeEnd = { 
/**
 * The tree's name.
 */
name: string, 
/**
 * `server`, `engine`, `terminal` or `own`.
 */
role: string, 
/**
 * Its end.
 */
how: EndHow, 
/**
 * Members that ended with it.
 */
processes: number, 
/**
 * Of those, how many needed KILL.
 */
forced: number, 
/**
 * Milliseconds it took.
 */
ms: number, };

/**
 * What a turn began with, as the history keeps it.
 */
export type TurnOpening = { 
/**
 * Its servers, with what the agent fetched of them.
 */
servers: Array<ServerReadiness>, 
/**
 * What happened with the engine.
 */
engine: EngineOutcome, 
/**
 * What became of the conversation's context.
 */
context: ContextOutcome, };

/**
 * One turn with everything in it.
 */
export type TurnView = { 
/**
 * Unique.
 */
id: string, 
/**
 * 1 for the first of the session.
 */
number: number, 
/**
 * The prompt: ACP content blocks.
 */
prompt: Array<JsonValue>, 
/**
 * When the prompt was accepted.
 */
started_at: number, 
/**
 * When it ended.
 */
ended_at: number | null, 
/**
 * ACP stop reason, or `error`.
 */
stop_reason: string | null, 
/**
 * For people, when it failed.
 */
description: string | null, 
/**
 * ACP updates in order (text chunks of one message merged).
 */
updates: Array<JsonValue>, 
/**
 * What it began with: servers, engine, context.
 */
opening?: TurnOpening, 
/**
 * Permission requests that were answered in it, by whom and how.
 */
permissions?: Array<AnsweredPermission>, 
/**
 * Other questions of the agent that were answered in it.
 */
questions?: Array<AnsweredQuestion>, 
/**
 * When its tool calls ran, by `toolCallId`.
 */
tools?: { [key in string]: ToolTimes }, 
/**
 * Commands that ran for the agent, in the order of their starts.
 */
terminals?: Array<TerminalView>, 
/**
 * What the agent's answer says about tokens, raw.
 */
usage?: JsonValue, };

/**
 * See [`ServerReadiness::via`].
 */
export type Via = "bridge" | "stdio" | "remote";

/** Every command: its input and its output. */
export interface Commands {
  /** The state at one instant: servers, sessions, version. */
  snapshot: { input: Nothing; output: Snapshot };
  /** All MCP servers and what they are doing. */
  servers_list: { input: Nothing; output: ServersList };
  /** Adds a server or replaces its configuration; one that is not used yet is tried out. */
  servers_save: { input: ServersSave; output: ServerView };
  /** Removes a saved server and stops it. */
  servers_remove: { input: ServerName; output: Done };
  /** Stops and starts a server. */
  servers_restart: { input: ServerName; output: ServerView };
  /** Begins a sign-in to a remote server: the page to open in a browser. It is finished there;
 the server's `sign_in` says how it went. */
  servers_sign_in: { input: ServerName; output: SignInBegun };
  /** Gives up a sign-in that was begun. */
  servers_sign_in_cancel: { input: ServerName; output: Done };
  /** Forgets a sign-in, and starts the server anew without it. */
  servers_sign_out: { input: ServerName; output: Done };
  /** Switches a server on or off. */
  servers_enable: { input: ServersEnable; output: ServerView };
  /** The tools of a server, as MCP lists them. */
  servers_tools: { input: ServerName; output: ServersTools };
  /** Calls a tool of a server and returns the MCP result. */
  servers_call: { input: ServersCall; output: JsonValue };
  /** The last lines of a server's standard error. */
  servers_log: { input: ServersLog; output: LogLines };
  /** What the bridge and a server said to each other, secrets masked. */
  servers_traffic: { input: ServersTraffic; output: Traffic };
  /** MCP servers that another application, a file or a text names; nothing is saved. */
  servers_import: { input: ServersImport; output: ServersFound };
  /** Saves servers that were found, disabled. */
  servers_import_apply: { input: ServersImportApply; output: ServersImported };
  /** The agents that can be used, the built-in one first. */
  agents_list: { input: Nothing; output: AgentsList };
  /** Adds an agent or replaces it. */
  agents_save: { input: AgentsSave; output: AgentView };
  /** Removes a saved agent. */
  agents_remove: { input: AgentId; output: Done };
  /** Installs a known agent into Gantry's own directory; answers when it is there. */
  agents_install: { input: AgentId; output: AgentView };
  /** Removes what Gantry installed of a known agent. */
  agents_uninstall: { input: AgentId; output: AgentView };
  /** What the last installation of a known agent said. */
  agents_log: { input: AgentsLog; output: LogLines };
  /** Takes in a list of agents in the format of the public ACP registry; installs nothing. */
  agents_import: { input: AgentsImport; output: AgentsImported };
  /** The conversations in a folder that an agent keeps itself; one can be gone on with by
 `session_create`. Starts the agent when it does not run there, and ends it again. */
  agents_conversations: { input: AgentsConversations; output: AgentConversations };
  /** All sessions, the last active first. */
  sessions_list: { input: Nothing; output: SessionsList };
  /** Opens a session in a folder. */
  session_create: { input: SessionCreate; output: SessionCreated };
  /** Hands a prompt to a session's agent; answers at acceptance, not at the end of the turn. */
  session_prompt: { input: SessionPrompt; output: PromptAccepted };
  /** Cancels the running turn of a session. */
  session_cancel: { input: SessionId; output: Done };
  /** Stops a session, and its engine when it was the last one there. */
  session_stop: { input: SessionStop; output: SessionStopped };
  /** A page of a session's turns with everything in them. */
  session_history: { input: SessionHistory; output: History };
  /** Answers a permission request with one of the options that were offered. */
  session_permit: { input: SessionPermit; output: Done };
  /** Answers a question of the agent: a form's values, or that its page is opened; or declines. */
  session_answer: { input: SessionAnswer; output: Done };
  /** Chooses the agent's mode, model or another option, as its `settings` offer them. */
  session_set: { input: SessionSet; output: SessionView };
  /** Opens a stopped session ahead of its next prompt; answers before it is open. */
  session_resume: { input: SessionId; output: SessionView };
  /** Gives a prompt that waits another text. */
  session_queue_edit: { input: QueueEdit; output: SessionView };
  /** Takes a prompt that waits out of the queue. */
  session_queue_drop: { input: QueuedTurn; output: SessionView };
  /** Cancels the running turn and sends this prompt next. */
  session_queue_send: { input: QueuedTurn; output: SessionView };
  /** Signs in to a session's agent and opens the session, or says which command does. */
  session_authenticate: { input: SessionAuthenticate; output: Authenticated };
  /** Tells a session's agent to forget the sign-in. */
  session_logout: { input: SessionId; output: Done };
  /** What Gantry and the agent said to each other in a session, secrets masked. */
  session_traffic: { input: SessionTraffic; output: Traffic };
  /** A session as Markdown or JSON. */
  session_export: { input: SessionExport; output: Exported };
  /** Gives a session another title. */
  session_rename: { input: SessionRename; output: SessionView };
  /** Stops a session and forgets it. */
  session_delete: { input: SessionId; output: Done };
  /** Searches what was said in all sessions. */
  search: { input: Search; output: SearchHits };
  /** Files of a session's project whose path holds these letters in order. */
  project_files: { input: ProjectFiles; output: ProjectFilesFound };
  /** What Gantry keeps on this computer: where, what and how much. */
  data: { input: Nothing; output: Data };
  /** The process tree: Gantry, its servers, its engines and what they started. */
  processes: { input: Nothing; output: Processes };
  /** What the user chose about the program: language, theme, closing. */
  settings_get: { input: Nothing; output: Settings };
  /** Changes some of it. */
  settings_set: { input: SettingsChange; output: Settings };
  /** Ends Gantry: answers, then shuts down. */
  quit: { input: Nothing; output: Done };
}
