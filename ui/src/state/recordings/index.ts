import type { Event, JsonValue, ServerView, SessionView, Snapshot } from '../../wire';

/** Sequences as the core sends them, for tests of the reducer. */

type Fresh = Event extends infer E ? (E extends Event ? Omit<E, 'seq' | 'at'> : never) : never;

/** Events numbered from `first`, ten milliseconds apart. */
export function recording(first: number, ...events: Fresh[]): Event[] {
  return events.map((event, index) => ({ seq: first + index, at: 1_000 + (first + index) * 10, ...event }) as Event);
}

export function aSession(change: Partial<SessionView> = {}): SessionView {
  return {
    id: 's',
    acp_session_id: 'acp-1',
    project: '/home/u/p',
    project_id: 'p',
    agent: 'gantry',
    title: 'A session',
    state: 'idle',
    error: null,
    engine: { pid: 100, sessions: 1 },
    servers: [],
    turn: null,
    permissions: [],
    commands: [],
    created_at: 1,
    last_activity: 1,
    ...change,
  };
}

export function aServer(change: Partial<ServerView> = {}): ServerView {
  return {
    name: 'everything',
    enabled: true,
    lifetime: 'session',
    state: 'stopped',
    pid: null,
    url: 'http://127.0.0.1:1/mcp/everything',
    tools: null,
    error: null,
    restarts: 0,
    ready_ms: null,
    used_by: [],
    since: 1,
    saved: true,
    config: { command: 'npx' },
    ...change,
  };
}

export function aSnapshot(change: Partial<Snapshot> = {}): Snapshot {
  return { seq: 0, servers: [], sessions: [aSession()], version: '0.1.0', notice: null, ...change };
}

export function started(turn: string, number: number, text = 'hello'): Fresh {
  return { type: 'turn_started', session: 's', turn, number, request_id: null, prompt: [{ type: 'text', text }] };
}

export function update(turn: string | null, update: JsonValue): Fresh {
  return { type: 'update', session: 's', turn, update };
}

export function chunk(turn: string | null, text: string, sessionUpdate = 'agent_message_chunk'): Fresh {
  return update(turn, { sessionUpdate, content: { type: 'text', text } });
}

export function ended(turn: string, reason: string, description: string | null = null): Fresh {
  return { type: 'turn_ended', session: 's', turn, reason, description };
}

export const PERMISSION = {
  request: 'r1',
  turn: 't1',
  asked_at: 5,
  tool_call: { toolCallId: 'call-1', title: 'rm -r build', kind: 'execute' },
  options: [
    { optionId: 'yes', name: 'Allow', kind: 'allow_once' },
    { optionId: 'no', name: 'Reject', kind: 'reject_once' },
  ],
};
