import { clearMocks, mockIPC } from '@tauri-apps/api/mocks';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Event, Snapshot } from '../wire';
import { BackendError, type Listener } from './backend';
import { httpBackend } from './http';
import { type Message, sseParser } from './sse';
import { tauriBackend } from './tauri';

const SNAPSHOT: Snapshot = { seq: 3, servers: [], sessions: [], version: '1', notice: null };
const EVENT: Event = { seq: 4, at: 1, type: 'agents_changed' };

/** A listener that writes down what it hears. */
function witness(): Listener & { heard: string[] } {
  const heard: string[] = [];
  return {
    heard,
    snapshot: ({ seq }) => heard.push(`snapshot ${seq}`),
    event: ({ seq }) => heard.push(`event ${seq}`),
    lost: ({ code }) => heard.push(`lost ${code}`),
  };
}

describe('the parser of server-sent events', () => {
  function parse(...pieces: string[]): Message[] {
    const found: Message[] = [];
    const feed = sseParser((message) => found.push(message));
    pieces.forEach(feed);
    return found;
  }

  it('reads names, ids and data of several lines, and skips comments', () => {
    expect(parse(': ping\n\nid: 7\nevent: snapshot\ndata: {"a":\ndata: 1}\n\ndata:x\n\n')).toEqual([
      { event: 'snapshot', id: '7', data: '{"a":\n1}' },
      { event: 'message', id: '7', data: 'x' },
    ]);
  });

  it('does not care where the pieces are cut, nor how lines end', () => {
    const text = 'id: 1\r\ndata: a\r\n\r\nid: 2\rdata: b\r\rid: 3\ndata: ü\n\n';
    const whole = parse(text);
    expect(whole.map(({ data }) => data)).toEqual(['a', 'b', 'ü']);
    for (let cut = 1; cut < text.length; cut++) expect(parse(text.slice(0, cut), text.slice(cut))).toEqual(whole);
    expect(parse(...text)).toEqual(whole);
  });
});

describe('the backend of a browser', () => {
  const requests: { url: string; init: RequestInit }[] = [];
  let answer: (url: string) => Response | Promise<Response>;

  beforeEach(() => {
    sessionStorage.clear();
    history.replaceState(null, '', '/?token=secret&x=1');
    requests.length = 0;
    vi.stubGlobal('fetch', async (url: string, init: RequestInit) => {
      requests.push({ url, init });
      return answer(url);
    });
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  function sse(...messages: string[]): Response {
    return new Response(messages.join(''), { headers: { 'content-type': 'text/event-stream' } });
  }

  it('takes the token out of the address and sends it in a header', async () => {
    answer = () => Response.json({ ok: true, data: { agents: [] } });
    const backend = httpBackend();
    expect(location.search).toBe('?x=1');
    expect(await backend.call('agents_list', {})).toEqual({ agents: [] });
    expect(requests[0]?.url).toBe('/api/agents_list');
    expect(requests[0]?.init.method).toBe('POST');
    expect(new Headers(requests[0]?.init.headers).get('authorization')).toBe('Bearer secret');
    // The next page of this tab has it too.
    await httpBackend().call('agents_list', {});
    expect(new Headers(requests[1]?.init.headers).get('authorization')).toBe('Bearer secret');
  });

  it('throws what the host says', async () => {
    answer = () => Response.json({ ok: false, error: { code: 'BUSY', message: 'a turn runs', detail: { turn: 't' } } }, { status: 409 });
    await expect(httpBackend().call('agents_list', {})).rejects.toMatchObject({ code: 'BUSY', message: 'a turn runs', detail: { turn: 't' } });
    answer = () => new Response('', { status: 502 });
    await expect(httpBackend().call('agents_list', {})).rejects.toBeInstanceOf(BackendError);
    answer = () => new Response('', { status: 401 });
    await expect(httpBackend().call('agents_list', {})).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
    answer = () => Promise.reject(new TypeError('network'));
    await expect(httpBackend().call('agents_list', {})).rejects.toMatchObject({ code: 'UNREACHABLE' });
  });

  it('delivers snapshots and events, and connects again when the stream ends', async () => {
    vi.useFakeTimers();
    const streams = [
      sse(`event: snapshot\ndata: ${JSON.stringify(SNAPSHOT)}\n\n`, `id: 4\ndata: ${JSON.stringify(EVENT)}\n\n`, 'event: news\ndata: {"a":1}\n\n'),
      sse('event: resync\ndata: {"seq":9}\n\n', `event: snapshot\ndata: ${JSON.stringify({ ...SNAPSHOT, seq: 9 })}\n\n`, ': ping\n\n'),
    ];
    answer = () => streams.shift() ?? new Promise<Response>(() => {});
    const listener = witness();
    const end = httpBackend().events(listener);
    await vi.waitFor(() => expect(requests).toHaveLength(3));
    end();
    expect(listener.heard).toEqual(['snapshot 3', 'event 4', 'lost UNREACHABLE', 'snapshot 9', 'lost UNREACHABLE']);
    expect(requests.every(({ url }) => url === '/events')).toBe(true);
    expect(requests[2]?.init.signal?.aborted).toBe(true);
  });

  it('waits for another token when this one is refused', async () => {
    answer = () => new Response('', { status: 401 });
    const backend = httpBackend();
    const listener = witness();
    backend.events(listener);
    await vi.waitFor(() => expect(listener.heard).toEqual(['lost UNAUTHORIZED']));
    expect(requests).toHaveLength(1);
    answer = () => new Promise<Response>(() => {});
    backend.setToken?.(' other ');
    await vi.waitFor(() => expect(requests).toHaveLength(2));
    expect(new Headers(requests[1]?.init.headers).get('authorization')).toBe('Bearer other');
  });
});

describe('the backend of the window', () => {
  afterEach(() => clearMocks());

  it('calls the four commands of the shell', async () => {
    const calls: [string, unknown][] = [];
    mockIPC((command, args) => {
      calls.push([command, args]);
      if (command === 'command') return { agents: [] };
      if (command === 'pick_folder') return '/home/u';
      return null;
    });
    const backend = tauriBackend();
    expect(await backend.call('agents_list', {})).toEqual({ agents: [] });
    expect(await backend.pickFolder?.()).toBe('/home/u');
    await backend.openExternal('https://a.example');
    expect(calls).toEqual([
      ['command', { name: 'agents_list', input: {} }],
      ['pick_folder', {}],
      ['open_external', { url: 'https://a.example' }],
    ]);
  });

  it('throws what the shell throws', async () => {
    mockIPC(() => {
      throw { code: 'NOT_FOUND', message: 'no such session', detail: null };
    });
    await expect(tauriBackend().call('session_stop', { session: 'x' })).rejects.toMatchObject({ name: 'BackendError', code: 'NOT_FOUND', message: 'no such session' });
  });

  it('opens a new channel on resync and does not hear the old one any more', () => {
    const channels: { onmessage(delivery: unknown): void }[] = [];
    mockIPC((_, args) => {
      channels.push((args as { channel: (typeof channels)[number] }).channel);
    });
    const listener = witness();
    const end = tauriBackend().events(listener);
    channels[0]?.onmessage({ kind: 'snapshot', snapshot: SNAPSHOT });
    channels[0]?.onmessage({ kind: 'event', event: EVENT });
    channels[0]?.onmessage({ kind: 'resync' });
    channels[0]?.onmessage({ kind: 'event', event: EVENT });
    channels[1]?.onmessage({ kind: 'snapshot', snapshot: { ...SNAPSHOT, seq: 8 } });
    end();
    channels[1]?.onmessage({ kind: 'event', event: EVENT });
    expect(listener.heard).toEqual(['snapshot 3', 'event 4', 'snapshot 8']);
  });
});
