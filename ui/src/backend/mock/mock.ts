import type { Commands, Event, JsonValue, ServerView, SessionView, Settings, TurnView } from '../../wire';
import { type Backend, BackendError, type Listener } from '../backend';
import { AGENTS, ANSWER, CONVERSATIONS, NOW, PROCESSES, RECEIPT, SERVERS, SESSIONS, server, session, TURNS } from './scene';

/** An event before it has its number and its time. */
type Fresh = Event extends infer E ? (E extends Event ? Omit<E, 'seq' | 'at'> : never) : never;
type Calls = { [K in keyof Commands]: (input: Commands[K]['input']) => Promise<Commands[K]['output']> | Commands[K]['output'] };

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/**
 * A made-up host for work on the user interface: `npm run dev`, then
 * `?mock` (a busy day) or `?mock=first` (the first run).
 */
export function mockBackend(): Backend {
  const scene = new URL(location.href).searchParams.get('mock');
  const isFirst = scene === 'first';
  let seq = 0;
  let listener: Listener | null = null;
  const servers = new Map<string, ServerView>((isFirst ? [SERVERS[1] as ServerView] : SERVERS).map((view) => [view.name, view]));
  const sessions = new Map<string, SessionView>((isFirst ? [] : SESSIONS).map((view) => [view.id, view]));
  const turns = new Map<string, TurnView[]>(Object.entries(isFirst ? {} : TURNS));
  const cancelled = new Set<string>();
  let settings: Settings = { language: 'system', theme: 'system', on_close: 'ask', introduced: !isFirst, ready_timeout_ms: 30_000, permission_timeout_ms: 0, engine_idle_minutes: 30 };
  let waiting: ((option: string) => void) | null = null;

  function publish(what: Fresh): void {
    listener?.event({ seq: ++seq, at: Date.now(), ...what } as Event);
  }
  function changeServer(name: string, change: Partial<ServerView>): ServerView {
    const next = { ...(servers.get(name) ?? server(name)), ...change };
    servers.set(name, next);
    publish({ type: 'server_changed', server: next });
    return next;
  }
  function changeSession(id: string, change: Partial<SessionView>): SessionView {
    const known = sessions.get(id);
    if (!known) throw new BackendError('NOT_FOUND', `There is no session ${id}.`);
    const next = { ...known, ...change, last_activity: Date.now() };
    sessions.set(id, next);
    publish({ type: 'session_changed', session: next });
    return next;
  }
  async function startServer(name: string): Promise<void> {
    changeServer(name, { state: 'starting', since: Date.now(), error: null, pid: 6000 + servers.size });
    await pause(3200);
    changeServer(name, { state: 'ready', tools: 13, ready_ms: 3187, since: Date.now() });
  }

  async function runTurn(id: string, turn: string, text: string): Promise<void> {
    const record = turns.get(id)?.at(-1);
    const update = (value: JsonValue): void => {
      record?.updates.push(value);
      publish({ type: 'update', session: id, turn, update: value });
    };
    const isOver = (): boolean => cancelled.has(turn);
    await pause(400);
    changeSession(id, { state: 'working' });
    update({ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text: 'Let me see what is there.' } });
    const call = { toolCallId: `${turn}-call`, title: text.startsWith('/call') ? 'echo' : 'ls -la', kind: text.startsWith('/call') ? 'other' : 'execute' };
    update({ sessionUpdate: 'tool_call', ...call, status: 'pending', rawInput: { message: 'hello' } });
    if (!text.startsWith('/')) {
      const permission = {
        request: `${turn}-ask`, turn, asked_at: Date.now(), tool_call: call,
        options: [
          { optionId: 'once', name: 'Allow once', kind: 'allow_once' },
          { optionId: 'always', name: 'Allow always', kind: 'allow_always' },
          { optionId: 'no', name: 'Reject', kind: 'reject_once' },
        ],
      };
      changeSession(id, { state: 'waiting_for_you', permissions: [permission] });
      publish({ type: 'permission_requested', session: id, permission });
      const outcome = await new Promise<string>((answer) => (waiting = answer));
      changeSession(id, { state: isOver() ? 'cancelling' : 'working', permissions: [] });
      publish({ type: 'permission_resolved', session: id, request: permission.request, outcome, reason: null });
    }
    update({ sessionUpdate: 'tool_call_update', toolCallId: call.toolCallId, status: 'in_progress' });
    await pause(700);
    update({ sessionUpdate: 'tool_call_update', toolCallId: call.toolCallId, status: 'completed', content: [{ type: 'content', content: { type: 'text', text: 'Echo: hello' } }] });
    for (const word of ANSWER.match(/\S+\s*/g) ?? []) {
      if (isOver()) break;
      update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: word } });
      await pause(15);
    }
    if (isOver()) await pause(Number(new URL(location.href).searchParams.get('slow') ?? 600));
    const reason = isOver() ? 'cancelled' : 'end_turn';
    if (record) Object.assign(record, { ended_at: Date.now(), stop_reason: reason });
    changeSession(id, { state: 'idle', turn: null });
    publish({ type: 'turn_ended', session: id, turn, reason, description: null });
  }

  const calls: Calls = {
    snapshot: () => ({ seq, servers: [...servers.values()], sessions: [...sessions.values()], version: '0.1.0', notice: null }),
    servers_list: () => ({ servers: [...servers.values()] }),
    servers_save: ({ name, config }) => {
      if (config.command === 'missing') throw new BackendError('VALIDATION_ERROR', 'The program “missing” was not found. Searched: /usr/local/bin, /usr/bin, /bin. Install it, or give its full path.');
      const view = changeServer(name, { config, lifetime: config.persistent ? 'persistent' : 'session' });
      void startServer(name);
      return view;
    },
    servers_remove: ({ name }) => {
      servers.delete(name);
      publish({ type: 'server_removed', name });
      return { ok: true };
    },
    servers_restart: ({ name }) => {
      void startServer(name);
      return servers.get(name) ?? server(name);
    },
    servers_sign_in: ({ name }) => {
      const url = `https://${encodeURIComponent(name)}.example/authorize`;
      return { url, until: Date.now() + 600_000 };
    },
    servers_sign_in_cancel: () => ({ ok: true }),
    servers_sign_out: () => ({ ok: true }),
    servers_enable: ({ name, enabled }) => {
      const view = changeServer(name, enabled ? { enabled } : { enabled, state: 'stopped', pid: null, tools: null });
      if (enabled) void startServer(name);
      return view;
    },
    servers_tools: () => ({
      tools: [
        { name: 'echo', description: 'Echoes back the input string', annotations: { readOnlyHint: true }, inputSchema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] } },
        { name: 'get-sum', description: 'Returns the sum of two numbers', inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } } },
        { name: 'delete-all', description: 'Removes every note', annotations: { destructiveHint: true }, inputSchema: { type: 'object' } },
      ] as JsonValue[],
    }),
    servers_call: () => ({ content: [{ type: 'text', text: 'Echo: hello' }] }),
    servers_log: () => ({ lines: ['Starting default (STDIO) server...', '\u001b[33mwarn\u001b[0m: no configuration found, using defaults', 'listening'] }),
    agents_list: () => ({ agents: AGENTS }),
    agents_save: () => AGENTS[1] as never,
    agents_remove: () => ({ ok: true }),
    agents_install: () => AGENTS[2] as never,
    agents_uninstall: () => AGENTS[2] as never,
    agents_conversations: async ({ project_dir, agent }) => {
      if (!project_dir.startsWith('/')) throw new BackendError('VALIDATION_ERROR', `project_dir: \`${project_dir}\` is not an absolute path`);
      await pause(1200);
      if (agent === 'broken') throw new BackendError('UPSTREAM_ERROR', 'agent `broken` could not list its conversations: Authentication required; open a session with it and sign in there');
      if (agent === 'mute') return { offered: false, replayed: false, conversations: [], more: false };
      if (agent === 'gantry') return { offered: true, replayed: true, conversations: [], more: false };
      const known = new Map([...sessions.values()].map((view) => [view.acp_session_id, view.id]));
      const conversations = CONVERSATIONS.map((one) => ({ ...one, session: known.get(one.id) ?? null }));
      return { offered: true, replayed: agent !== 'resumes', conversations, more: agent === 'resumes' };
    },
    agents_log: () => ({ lines: ['added 12 packages in 3s'] }),
    sessions_list: () => ({ sessions: [...sessions.values()] }),
    session_create: ({ project_dir, agent, acp_session_id, title }) => {
      if (!project_dir.startsWith('/')) throw new BackendError('VALIDATION_ERROR', `project_dir: “${project_dir}” is not an existing folder. Give the full path of one.`);
      const id = `s${sessions.size + 10}`;
      const view = session(id, { project: project_dir, agent: agent ?? 'gantry', state: 'idle', engine: null, created_at: Date.now(), last_activity: Date.now() });
      sessions.set(id, view);
      turns.set(id, []);
      publish({ type: 'session_changed', session: view });
      if (acp_session_id === undefined) return { session: view };
      const adopted = changeSession(id, { state: 'starting', title: title ?? '', acp_session_id });
      void pause(2000).then(() => {
        if (agent !== 'resumes') turns.set(id, structuredClone(TURNS['s1'] ?? []));
        changeSession(id, { state: 'idle', context: 'restored', engine: { pid: 4900, sessions: 1 } });
      });
      return { session: adopted };
    },
    session_prompt: async ({ session: id, content, request_id }) => {
      const text = String((content[0] as { text?: string } | undefined)?.text ?? '');
      changeSession(id, { state: 'starting' });
      await pause(900);
      const list = turns.get(id) ?? [];
      const turn = `${id}-${list.length + 1}`;
      list.push({ id: turn, number: list.length + 1, prompt: content, started_at: Date.now(), ended_at: null, stop_reason: null, description: null, updates: [] });
      turns.set(id, list);
      publish({ type: 'turn_started', session: id, turn, number: list.length, request_id: request_id ?? null, prompt: content });
      changeSession(id, { turn, title: sessions.get(id)?.title || text.slice(0, 60), servers: RECEIPT, engine: { pid: 4711, sessions: 1 } });
      void runTurn(id, turn, text);
      return { turn, servers: RECEIPT, engine: 'started', context: 'new' };
    },
    session_cancel: ({ session: id }) => {
      const turn = sessions.get(id)?.turn;
      if (turn) cancelled.add(turn);
      changeSession(id, { state: 'cancelling' });
      waiting?.('cancelled');
      return { ok: true };
    },
    session_stop: ({ session: id }) => {
      changeSession(id, { state: 'stopped', engine: null, turn: null, permissions: [] });
      return { success: true, session_id: id, engine_stopped: true, servers_stopped: [], processes_ended: 3, forced: 0 };
    },
    session_history: async ({ session: id }) => {
      await pause(120);
      return { turns: structuredClone(turns.get(id) ?? []), more: false, seq };
    },
    session_permit: ({ session: id, request, option }) => {
      if (waiting) waiting(option);
      else {
        changeSession(id, { state: 'working', permissions: [] });
        publish({ type: 'permission_resolved', session: id, request, outcome: option, reason: null });
      }
      return { ok: true };
    },
    session_answer: () => ({ ok: true }),
    servers_import: () => ({ found: [] }),
    servers_import_apply: () => ({ saved: [], skipped: [] }),
    agents_import: ({ preview }) => ({
      ids: ['example-agent'],
      ...(preview ? { text: '{}', agents: [{ id: 'example-agent', name: 'Example agent', about: 'Shows what a list may say', homepage: '', from: 'npm: example-agent 1.2.3', command: ['example-agent', '--acp'], env: { EXAMPLE_TELEMETRY: 'off', EXAMPLE_REGION: 'eu' } }] } : {}),
      skipped: [],
    }),
    session_set: ({ session: id }) => changeSession(id, {}),
    session_resume: ({ session: id }) => changeSession(id, { state: 'idle' }),
    session_queue_edit: ({ session: id }) => changeSession(id, {}),
    session_queue_drop: ({ session: id }) => changeSession(id, {}),
    session_queue_send: ({ session: id }) => changeSession(id, {}),
    session_authenticate: () => ({ done: true }),
    session_logout: () => ({ ok: true }),
    session_traffic: () => ({ messages: [] }),
    servers_traffic: () => ({ messages: [] }),
    data: () => ({
      folder: '/home/ada/.local/share/gantry',
      parts: [
        { kind: 'database', path: '/home/ada/.local/share/gantry/gantry.db', bytes: 4_812_800 },
        { kind: 'agents', path: '/home/ada/.local/share/gantry/agents', bytes: 212_400_000 },
        { kind: 'workspaces', path: '/home/ada/.local/share/gantry/workspaces', bytes: 0 },
        { kind: 'logs', path: '/home/ada/.local/share/gantry/logs', bytes: 81_000 },
        { kind: 'other', path: '/home/ada/.local/share/gantry', bytes: 412 },
      ],
    }),
    session_export: ({ session: id }) => ({ name: 'session.md', text: `# ${sessions.get(id)?.title ?? ''}\n` }),
    session_rename: ({ session: id, title }) => changeSession(id, { title }),
    session_delete: ({ session: id }) => {
      sessions.delete(id);
      publish({ type: 'session_removed', id });
      return { ok: true };
    },
    search: () => ({ hits: [{ session: 's1', title: 'Parse the station feed', project: '/home/ada/work/weather', turn: 1, role: 'agent', at: NOW - 3_480_000, snippet: 'The «feed» has three kinds of records' }] }),
    project_files: ({ query }) => ({ cut: false, files: ['src/feed.rs', 'src/main.rs', 'fixtures/hour.jsonl'].filter((path) => path.includes(query)).map((path) => ({ path, uri: `file:///home/ada/work/weather/${path}`, folder: false })) }),
    processes: () => ({ roots: PROCESSES, strays: 0 }),
    settings_get: () => settings,
    settings_set: (change) => (settings = { ...settings, ...change }),
    quit: () => {
      publish({ type: 'shutting_down', phase: 'doors' });
      setTimeout(() => listener?.lost(new BackendError('UNREACHABLE', 'gone')), 1500);
      return { ok: true };
    },
  };

  return {
    kind: 'mock',
    async call(name, input) {
      await pause(30);
      return (await calls[name](input)) as never;
    },
    events(next) {
      listener = next;
      const timer = setTimeout(async () => next.snapshot(await calls.snapshot({})), 60);
      return () => clearTimeout(timer);
    },
    pickFolder: async () => '/home/ada/work/weather',
    openExternal: async (url) => console.info('open', url, NOW),
  };
}
