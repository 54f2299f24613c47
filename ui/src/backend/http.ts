import type { Event, Snapshot } from '../wire';
import { asBackendError, type Backend, BackendError, type Listener, UNAUTHORIZED, UNREACHABLE } from './backend';
import { sseParser } from './sse';

const TOKEN_KEY = 'gantry.token';
/** Pauses between attempts to connect again, in milliseconds. */
const PAUSES = [250, 500, 1000, 2000, 5000];

/** The token of this tab: from `?token=` once, then from the tab's own storage. */
function takeToken(): string {
  const address = new URL(location.href);
  const token = address.searchParams.get('token');
  if (token !== null) {
    sessionStorage.setItem(TOKEN_KEY, token);
    address.searchParams.delete('token');
    // Out of the address bar, the history and every copy of the address.
    history.replaceState(history.state, '', address);
    return token;
  }
  return sessionStorage.getItem(TOKEN_KEY) ?? '';
}

/** The backend of a browser: the routes of the HTTP listener that served this page. */
export function httpBackend(): Backend {
  let token = takeToken();
  let reconnect: () => void = () => {};

  async function request(path: string, init: RequestInit): Promise<Response> {
    let response: Response;
    try {
      response = await fetch(path, {
        ...init,
        headers: { ...init.headers, ...(token && { authorization: `Bearer ${token}` }) },
        cache: 'no-store',
        credentials: 'omit',
      });
    } catch (cause) {
      if (init.signal?.aborted) throw cause;
      throw new BackendError(UNREACHABLE, 'Gantry cannot be reached.');
    }
    if (response.status === 401) {
      throw new BackendError(UNAUTHORIZED, 'Gantry did not accept the access token.');
    }
    return response;
  }

  /** Delivers what comes until the stream ends, and throws why it did. */
  async function stream(listener: Listener, signal: AbortSignal): Promise<never> {
    const response = await request('/events', { signal, headers: { accept: 'text/event-stream' } });
    if (!response.ok || response.body === null) {
      throw new BackendError(UNREACHABLE, `The event stream answered ${response.status}.`);
    }
    const feed = sseParser(({ event, data }) => {
      if (signal.aborted) return;
      let value: unknown;
      try {
        value = JSON.parse(data);
      } catch {
        return; // Something that we do not know.
      }
      // After a gap the host says `resync` and sends another snapshot.
      if (event === 'snapshot') listener.snapshot(value as Snapshot);
      else if (isEvent(value)) listener.event(value);
    });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        feed(value);
      }
    } finally {
      reader.cancel().catch(() => {});
    }
    throw new BackendError(UNREACHABLE, 'The connection to Gantry ended.');
  }

  return {
    kind: 'browser',

    async call(name, input) {
      const response = await request(`/api/${name}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(input),
        // What was deleted stays so, even when the page goes at that moment.
        keepalive: name === 'session_delete',
      });
      let answer: { ok?: boolean; data?: unknown; error?: unknown };
      try {
        answer = await response.json();
      } catch {
        throw new BackendError('FAILED', `Gantry answered ${response.status} without a reason.`);
      }
      if (answer.ok !== true) throw asBackendError(answer.error ?? `Gantry answered ${response.status}.`);
      return answer.data as never;
    },

    events(listener) {
      const end = new AbortController();
      let failures = 0;
      let timer: ReturnType<typeof setTimeout> | undefined;

      const counting: Listener = {
        ...listener,
        snapshot(snapshot) {
          failures = 0;
          listener.snapshot(snapshot);
        },
      };
      const connect = async (): Promise<void> => {
        clearTimeout(timer);
        try {
          await stream(counting, end.signal);
        } catch (thrown) {
          if (end.signal.aborted) return;
          const error = asBackendError(thrown);
          listener.lost(error);
          if (error.code === UNAUTHORIZED) return; // `setToken` goes on.
          const pause = PAUSES[Math.min(failures, PAUSES.length - 1)];
          failures += 1;
          timer = setTimeout(() => void connect(), pause);
        }
      };
      reconnect = () => void connect();
      void connect();
      return () => {
        clearTimeout(timer);
        end.abort();
      };
    },

    async isThere() {
      try {
        await fetch('health', { cache: 'no-store' });
        return true;
      } catch {
        return false;
      }
    },

    saveFile(name, text) {
      const url = URL.createObjectURL(new Blob([text], { type: 'text/plain;charset=utf-8' }));
      const link = document.createElement('a');
      link.href = url;
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
      return Promise.resolve(name);
    },

    openExternal(url) {
      window.open(url, '_blank', 'noopener,noreferrer');
      return Promise.resolve();
    },

    setToken(next) {
      token = next.trim();
      sessionStorage.setItem(TOKEN_KEY, token);
      reconnect();
    },
  };
}

function isEvent(value: unknown): value is Event {
  return (
    value !== null &&
    typeof value === 'object' &&
    typeof (value as Event).seq === 'number' &&
    typeof (value as Event).type === 'string'
  );
}
