import type { AgentConversation, AgentView, JsonValue, ProcessNode, ServerReadiness, ServerView, SessionView, TurnView } from '../../wire';

/** What the made-up host of development starts with. */

export const NOW = Date.now();

export function server(name: string, change: Partial<ServerView> = {}): ServerView {
  return {
    name,
    enabled: true,
    lifetime: 'session',
    state: 'stopped',
    pid: null,
    url: `http://127.0.0.1:40123/mcp/${encodeURIComponent(name)}`,
    tools: null,
    error: null,
    restarts: 0,
    ready_ms: null,
    used_by: [],
    since: NOW - 60_000,
    saved: true,
    config: { command: 'npx', args: ['-y', `@modelcontextprotocol/server-${name}`] },
    ...change,
  };
}

export function session(id: string, change: Partial<SessionView> = {}): SessionView {
  return {
    id,
    acp_session_id: `acp-${id}`,
    project: '/home/ada/work/weather',
    project_id: 'weather',
    agent: 'gantry',
    title: '',
    state: 'idle',
    error: null,
    engine: { pid: 4711, sessions: 1 },
    servers: [],
    turn: null,
    permissions: [],
    commands: COMMANDS,
    created_at: NOW,
    last_activity: NOW,
    ...change,
  };
}

const COMMANDS: JsonValue[] = [
  { name: 'tools', description: 'List the tools that are ready, by server' },
  { name: 'call', description: 'Call a tool and show its result', input: { hint: '<tool> <json>' } },
  { name: 'help', description: 'What this agent can do' },
];

export const AGENTS: AgentView[] = [
  { id: 'gantry', name: 'Gantry agent', command: 'gantry', args: ['agent'], installed: true, path: '/usr/bin/gantry', version: '0.1.0', how_to_install: null, builtin: true },
  { id: 'claude-code', name: 'Claude Code', command: 'claude-code-acp', args: [], installed: true, path: '/usr/local/bin/claude-code-acp', version: '1.4.2', how_to_install: null, builtin: false },
  { id: 'goose', name: 'goose', command: 'goose', args: ['acp'], installed: false, path: null, version: null, how_to_install: 'goose was not found. Install it as its website says, then open this page again.', builtin: false },
];

/** An agent for each way to answer the question for conversations. */
const OF_THE_PAST: [id: string, name: string][] = [['resumes', 'Resumes only'], ['mute', 'Lists nothing'], ['broken', 'Wants a sign-in']];
AGENTS.push(...OF_THE_PAST.map(([id, name]) => ({ id, name, command: id, args: [], installed: true, path: `/usr/bin/${id}`, version: '1.0.0', how_to_install: null, builtin: false })));

const pastOf = (id: string, title: string | null, minutes: number | null): AgentConversation => ({
  id, title, updated_at: minutes === null ? null : new Date(NOW - minutes * 60_000).toISOString(), session: null,
});
export const CONVERSATIONS: AgentConversation[] = [
  pastOf('acp-s2', 'Cache the forecasts on disk', 2),
  pastOf('c-1', 'Why does the station list load twice?', 48),
  pastOf('c-2', '修复时区换算', 60 * 26),
  pastOf('c-3', 'تقرير الطقس الأسبوعي', 60 * 24 * 3),
  pastOf('01998f7e-6c1b-7bd0-9d3a-1b1f5a0c77e2', null, 60 * 24 * 5),
  pastOf('c-4', 'A title that goes on and on because somebody pasted a whole stack trace into the first message of the conversation', 60 * 24 * 20),
  pastOf('c-5', 'Undated', null),
  pastOf('c-6', 'Rewrite the parser without allocations', 60 * 24 * 41),
  pastOf('c-7', 'Try the new client', 60 * 24 * 90),
];

export const SERVERS: ServerView[] = [
  server('everything', { state: 'ready', tools: 13, ready_ms: 412, pid: 5120, used_by: ['s1'] }),
  server('recall', { state: 'ready', tools: 3, ready_ms: 38, pid: 5098, lifetime: 'persistent', used_by: ['s1', 's2'], config: { command: 'gantry', args: ['mcp', '--recall'] } }),
  server('filesystem', { state: 'starting', since: NOW - 2300, pid: 5200, used_by: ['s2'], config: { command: 'npx', args: ['-y', '@modelcontextprotocol/server-filesystem', '/home/ada/my notes'] } }),
  server('Fetch 网页内容抓取', { state: 'degraded', tools: 1, ready_ms: 880, pid: 5301, restarts: 1 }),
  server('chrome-devtools', { enabled: false, lifetime: 'persistent', config: { command: 'npx', args: ['-y', 'chrome-devtools-mcp@latest'] } }),
  server('github', {
    state: 'failed',
    restarts: 3,
    error: 'it exited with code 1; its last words:\nstarting the server\nError: GITHUB_PERSONAL_ACCESS_TOKEN missing\n    at main (server.js:12:9)',
  }),
];

export const RECEIPT: ServerReadiness[] = [
  { name: 'everything', state: 'ready', via: 'bridge', tools: 13, ms: 412, error: null },
  { name: 'recall', state: 'ready', via: 'bridge', tools: 3, ms: 38, error: null },
  { name: 'github', state: 'failed', via: 'stdio', tools: 0, ms: 2100, error: 'GITHUB_PERSONAL_ACCESS_TOKEN missing' },
];

export const SESSIONS: SessionView[] = [
  session('s1', { title: 'Parse the station feed', servers: RECEIPT, created_at: NOW - 3_600_000, last_activity: NOW - 40_000 }),
  session('s2', {
    title: 'Cache the forecasts on disk',
    agent: 'claude-code',
    state: 'waiting_for_you',
    turn: 's2-1',
    engine: { pid: 4802, sessions: 2 },
    created_at: NOW - 7_200_000,
    last_activity: NOW - 120_000,
    permissions: [
      {
        request: 'p1',
        turn: 's2-1',
        asked_at: NOW - 100_000,
        tool_call: { toolCallId: 't9', title: 'cargo add rusqlite --features bundled', kind: 'execute', rawInput: { command: 'cargo add rusqlite --features bundled' } },
        options: [
          { optionId: 'once', name: 'Allow once', kind: 'allow_once' },
          { optionId: 'always', name: 'Always allow cargo', kind: 'allow_always' },
          { optionId: 'no', name: 'Reject', kind: 'reject_once' },
        ],
      },
    ],
  }),
  session('s3', { title: 'Release notes 0.4', project: '/home/ada/work/gantry-site', project_id: 'site', state: 'stopped', engine: null, created_at: NOW - 90_000_000, last_activity: NOW - 86_000_000 }),
  session('s4', { title: 'Why does the build need so long?', project: '/home/ada/work/gantry-site', project_id: 'site', state: 'failed', engine: null, error: 'The agent ended with exit code 127 before it answered initialize: node: not found. Install Node, or start Gantry from a terminal where node is found.', created_at: NOW - 91_000_000, last_activity: NOW - 90_000_000 }),
];

export const ANSWER = `The feed has **three** kinds of records. Only \`observation\` carries a value that we need, so the parser can skip the others early:

\`\`\`rust
pub fn parse(line: &str) -> Result<Option<Observation>, ParseError> {
    let record: Record = serde_json::from_str(line)?;
    match record.kind {
        Kind::Observation => Ok(Some(record.try_into()?)),
        _ => Ok(None), // headers and heartbeats
    }
}
\`\`\`

| field | type | note |
|---|---|--:|
| \`station\` | string | five letters |
| \`at\` | time | UTC |
| \`t\` | number | °C, one decimal |

1. Read line by line, so that memory does not grow.
2. Count what is skipped, and say so [in the log](https://docs.rs/tracing).
3. Test it on the recorded hour in \`fixtures/\`.

> A station that is silent for ten minutes is not an error.
`;

export const TURNS: Record<string, TurnView[]> = {
  s1: [
    {
      id: 's1-1',
      number: 1,
      prompt: [{ type: 'text', text: 'Have a look at the feed and tell me how to parse it.' }],
      started_at: NOW - 3_500_000,
      ended_at: NOW - 3_480_000,
      stop_reason: 'end_turn',
      description: null,
      updates: [
        { sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text: 'The fixtures folder should hold a recorded hour. I will read the first lines, then look for the kinds of records.' } },
        { sessionUpdate: 'plan', entries: [
          { content: 'Read a recorded hour', status: 'completed', priority: 'high' },
          { content: 'Find the kinds of records', status: 'completed', priority: 'high' },
          { content: 'Propose a parser', status: 'in_progress', priority: 'medium' },
          { content: 'Write a test', status: 'pending', priority: 'low' },
        ] },
        { sessionUpdate: 'tool_call', toolCallId: 't1', title: 'fixtures/hour.jsonl', kind: 'read', status: 'completed', locations: [{ path: '/home/ada/work/weather/fixtures/hour.jsonl' }], rawInput: { path: 'fixtures/hour.jsonl', limit: 3 }, content: [{ type: 'content', content: { type: 'text', text: '{"kind":"header","version":2}\n{"kind":"observation","station":"EDDFA","at":"2026-11-30T12:00:00Z","t":4.5}\n{"kind":"heartbeat"}' } }] },
        { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: ANSWER } },
      ],
    },
    {
      id: 's1-2',
      number: 2,
      prompt: [{ type: 'text', text: 'Good. Put it into src/feed.rs, please.' }],
      started_at: NOW - 60_000,
      ended_at: NOW - 40_000,
      stop_reason: 'end_turn',
      description: null,
      updates: [
        { sessionUpdate: 'tool_call', toolCallId: 't2', title: 'Edit src/feed.rs', kind: 'edit', status: 'completed', rawInput: null, content: [{ type: 'diff', path: '/home/ada/work/weather/src/feed.rs', oldText: 'use crate::record::Record;\n\npub fn parse(line: &str) -> Record {\n    todo()\n}\n', newText: 'use crate::record::{Kind, Record};\n\npub fn parse(line: &str) -> Result<Option<Observation>, ParseError> {\n    let record: Record = serde_json::from_str(line)?;\n    Ok(None)\n}\n' }] },
        { sessionUpdate: 'tool_call', toolCallId: 't3', title: 'cargo test feed', kind: 'execute', status: 'failed', rawInput: { command: 'cargo test feed' }, content: [{ type: 'content', content: { type: 'text', text: '\u001b[31merror[E0433]\u001b[0m: failed to resolve: use of undeclared type `Observation`\n --> src/feed.rs:3:43' } }] },
        { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'The type is missing from the imports. I add it and run the tests again.' } },
        { sessionUpdate: 'tool_call', toolCallId: 't4', title: 'cargo test feed', kind: 'execute', status: 'completed', rawInput: { command: 'cargo test feed' }, content: [{ type: 'content', content: { type: 'text', text: 'running 4 tests\ntest feed::skips_headers ... ok\ntest feed::skips_heartbeats ... ok\ntest feed::reads_an_observation ... ok\ntest feed::names_the_broken_line ... ok' } }] },
        { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'All four tests pass.' } },
      ],
    },
  ],
  s2: [
    {
      id: 's2-1',
      number: 1,
      prompt: [{ type: 'text', text: 'Forecasts should survive a restart. Keep them in SQLite.' }],
      started_at: NOW - 130_000,
      ended_at: null,
      stop_reason: null,
      description: null,
      updates: [
        { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'I need the SQLite bindings first.' } },
        { sessionUpdate: 'tool_call', toolCallId: 't9', title: 'cargo add rusqlite --features bundled', kind: 'execute', status: 'pending', rawInput: { command: 'cargo add rusqlite --features bundled' } },
      ],
    },
  ],
  s4: [
    {
      id: 's4-1',
      number: 1,
      prompt: [{ type: 'text', text: 'Why does the build need so long?' }],
      started_at: NOW - 90_100_000,
      ended_at: NOW - 90_000_000,
      stop_reason: 'error',
      description: 'the agent ended with exit code 127: node: not found',
      updates: [],
    },
  ],
};

const process = (pid: number, name: string, role: ProcessNode['role'], owner: string | null, children: ProcessNode[] = []): ProcessNode => ({
  pid, name, role, owner, children, started: NOW - pid * 700, cpu: (pid % 37) / 4, rss: pid * 21_000, pss: pid * 9_000, uptime_ms: pid * 700,
});
export const PROCESSES: ProcessNode[] = [
  process(4000, 'gantry', 'app', null, [
    process(4710, 'gantry-warden', 'child', null, [process(4711, 'claude-code-acp', 'engine', 'claude', [process(4712, 'node', 'child', null)])]),
    process(5119, 'gantry-warden', 'child', null, [process(5120, 'node', 'server', 'everything')]),
    process(5097, 'gantry-warden', 'child', null, [process(5098, 'gantry', 'server', 'recall')]),
  ]),
];
