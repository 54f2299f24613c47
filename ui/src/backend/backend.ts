import type { Commands, Event, Snapshot } from '../wire';

/** What a failed command says. `code` is one of the wire's `ErrorCode`, or one of ours below. */
export class BackendError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly detail: unknown = null,
  ) {
    super(message);
    this.name = 'BackendError';
  }
}

/** The host did not accept our token (or we have none). */
export const UNAUTHORIZED = 'UNAUTHORIZED';
/** The host could not be reached. */
export const UNREACHABLE = 'UNREACHABLE';

/** Who listens to the stream of events. */
export interface Listener {
  /** The state at one instant. Comes first, and again after every gap. */
  snapshot(snapshot: Snapshot): void;
  /** What changed after it, in order. */
  event(event: Event): void;
  /** The stream broke; the backend tries again by itself unless `why` says it cannot. */
  lost(why: BackendError): void;
}

/** The host behind the user interface: the desktop window or the HTTP listener. */
export interface Backend {
  readonly kind: 'window' | 'browser' | 'mock';
  call<K extends keyof Commands>(
    name: K,
    input: Commands[K]['input'],
  ): Promise<Commands[K]['output']>;
  /** Starts the stream; the answer ends it. */
  events(listener: Listener): () => void;
  /** A dialog for a folder. `undefined`: there is none here, ask for the path as text. */
  pickFolder?: () => Promise<string | null>;
  /** Opens an http(s) or mailto address outside. */
  openExternal(url: string): Promise<void>;
  /** Saves a text as a file that the user chooses; the file's name, `null` when they did not. */
  saveFile?: (name: string, text: string) => Promise<string | null>;
  /** Calls when the window was asked to close and the user has to choose what that means; the answer ends it. */
  onCloseAsked?: (asked: () => void) => () => void;
  /** Calls when the shell wants a session shown (`null`: the start page); the answer ends it. */
  onOpenAsked?: (open: (session: string | null) => void) => () => void;
  /** Whether the desktop starts Gantry at a login. */
  autostart?: () => Promise<boolean>;
  /** Switches that on or off; whether it is on then. */
  setAutostart?: (on: boolean) => Promise<boolean>;
  /** Shows the data directory in the desktop's file manager. */
  openDataFolder?: () => Promise<void>;
  /** Tells that the state is on the screen. */
  shown?: () => void;
  /** Hides the window in the tray. */
  hide?: () => Promise<void>;
  /** Whether the host still answers at all. */
  isThere?: () => Promise<boolean>;
  /** Takes another access token, where tokens are used. */
  setToken?: (token: string) => void;
}

/** Any thrown value as an error that can be shown. */
export function asBackendError(thrown: unknown): BackendError {
  if (thrown instanceof BackendError) return thrown;
  if (typeof thrown === 'string') return new BackendError('FAILED', thrown);
  if (thrown !== null && typeof thrown === 'object') {
    const { code, message, detail } = thrown as Record<string, unknown>;
    if (typeof message === 'string') {
      return new BackendError(typeof code === 'string' ? code : 'FAILED', message, detail ?? null);
    }
  }
  return new BackendError('FAILED', String(thrown));
}
