import { asBackendError, type Backend, type BackendError, UNAUTHORIZED } from '../backend';
import type { AgentView, Commands, Event, JsonValue, PromptAccepted, SessionCreate } from '../wire';
import { apply, applyNewest, applyOlder, applyOpening, applySnapshot } from './apply';
import { perFrame } from './frames';
import { EMPTY, type State } from './model';

/** How we stand with the host. */
export type Connection = 'connecting' | 'live' | 'lost' | 'unauthorized';

/** A prompt that is on its way: shown at once, until its turn appears. */
export interface Outgoing {
  requestId: string;
  content: JsonValue[];
  at: number;
  /** Known when the host has accepted it. */
  turn: string | null;
  error: string | null;
}

/** Something to tell at the edge of the window. */
export interface Toast {
  id: number;
  tone: 'bad' | 'good';
  text: string;
}

const PAGE = 20;

/** The state on the screen, and the ways to change it: views talk to this and to nothing else. */
export class Gantry {
  state: State = $state.raw(EMPTY);
  connection: Connection = $state('connecting');
  /** The session on the screen; null: the start page. */
  current: string | null = $state(null);
  agents: readonly AgentView[] = $state.raw([]);
  outbox: Record<string, Outgoing> = $state.raw({});
  /** What the host said to the last prompt of each session: it may come before the event of its turn. */
  accepted: Readonly<Record<string, PromptAccepted>> = $state.raw({});
  /** What is being written, by session. */
  drafts: Record<string, string> = $state({});
  toasts: readonly Toast[] = $state.raw([]);

  private toastCount = 0;
  private isFirstSnapshot = true;
  private stopEvents: () => void = () => {};

  constructor(readonly backend: Backend) {}

  readonly session = $derived(this.state.sessions.find(({ id }) => id === this.current) ?? null);
  readonly transcript = $derived(this.current === null ? undefined : this.state.transcripts[this.current]);

  start(): void {
    const events = perFrame<Event>((batch) => this.take(batch));
    this.stopEvents = this.backend.events({
      snapshot: (snapshot) => {
        events.now();
        this.state = applySnapshot(this.state, snapshot);
        this.connection = 'live';
        this.chooseSession();
        if (this.current !== null) void this.load(this.current);
        void this.loadAgents();
      },
      event: (event) => events.add(event),
      lost: (why) => {
        events.now();
        this.connection = why.code === UNAUTHORIZED ? 'unauthorized' : 'lost';
      },
    });
  }

  stop(): void {
    this.stopEvents();
  }

  private take(batch: Event[]): void {
    const revision = this.state.agentsRevision;
    this.state = batch.reduce(apply, this.state);
    if (this.state.agentsRevision !== revision) void this.loadAgents();
    if (this.current !== null && !this.session) this.current = null;
  }

  /** On the first snapshot the last active session is opened; later the choice stays the user's. */
  private chooseSession(): void {
    const { sessions } = this.state;
    if (this.current !== null && !sessions.some(({ id }) => id === this.current)) this.current = null;
    if (!this.isFirstSnapshot) return;
    this.isFirstSnapshot = false;
    const live = sessions.filter(({ state }) => state !== 'stopped' && state !== 'failed');
    const last = (live.length > 0 ? live : sessions).toSorted((a, b) => b.last_activity - a.last_activity)[0];
    this.current = last?.id ?? null;
  }

  open(session: string | null): void {
    this.current = session;
    if (session !== null && !this.state.transcripts[session]) void this.load(session);
  }

  private async load(session: string): Promise<void> {
    this.state = applyOpening(this.state, session);
    const page = await this.try('session_history', { session, limit: PAGE });
    if (page) this.state = applyNewest(this.state, session, page);
  }

  async loadOlder(session: string): Promise<void> {
    const before = this.state.transcripts[session]?.turns[0]?.number;
    if (before === undefined) return;
    const page = await this.try('session_history', { session, before, limit: PAGE });
    if (page) this.state = applyOlder(this.state, session, page);
  }

  private async loadAgents(): Promise<void> {
    const answer = await this.try('agents_list', {});
    if (answer) this.agents = answer.agents;
  }

  /** Opens a session. Errors are the caller's to show: they belong beside the form. */
  async create(input: SessionCreate): Promise<void> {
    const { session } = await this.backend.call('session_create', input);
    if (!this.state.sessions.some(({ id }) => id === session.id)) {
      // Its event may still be on the way.
      this.state = { ...this.state, sessions: [...this.state.sessions, session] };
    }
    this.open(session.id);
  }

  async prompt(session: string, text: string): Promise<void> {
    const outgoing: Outgoing = {
      requestId: crypto.randomUUID(),
      content: [{ type: 'text', text }],
      at: Date.now(),
      turn: null,
      error: null,
    };
    this.outbox = { ...this.outbox, [session]: outgoing };
    const settle = (change: Partial<Outgoing>): void => {
      if (this.outbox[session]?.requestId !== outgoing.requestId) return;
      this.outbox = { ...this.outbox, [session]: { ...outgoing, ...change } };
    };
    try {
      const accepted = await this.backend.call('session_prompt', {
        session,
        content: outgoing.content,
        request_id: outgoing.requestId,
      });
      settle({ turn: accepted.turn });
      this.accepted = { ...this.accepted, [session]: accepted };
    } catch (thrown) {
      settle({ error: asBackendError(thrown).message });
    }
  }

  /** The prompt of a session that no turn shows yet. */
  outgoing(session: string): Outgoing | null {
    const outgoing = this.outbox[session];
    if (!outgoing) return null;
    const turns = this.state.transcripts[session]?.turns ?? [];
    const isShown = turns.some((turn) => turn.id === outgoing.turn || turn.requestId === outgoing.requestId);
    return isShown ? null : outgoing;
  }

  /** Takes a failed prompt back into the composer. */
  takeBack(session: string): void {
    const outgoing = this.outbox[session];
    if (!outgoing) return;
    const block = outgoing.content[0] as { text?: string } | undefined;
    this.drafts[session] = block?.text ?? '';
    const { [session]: _, ...rest } = this.outbox;
    this.outbox = rest;
  }

  /** Calls a command; a failure is shown as a toast and gives `null`. */
  async try<K extends keyof Commands>(name: K, input: Commands[K]['input']): Promise<Commands[K]['output'] | null> {
    try {
      return await this.backend.call(name, input);
    } catch (thrown) {
      this.fail(asBackendError(thrown));
      return null;
    }
  }

  /** Hands an address of a text to the system. */
  async openLink(url: string): Promise<void> {
    if (!/^(https?|mailto):/i.test(url)) return;
    try {
      await this.backend.openExternal(url);
    } catch (thrown) {
      this.fail(asBackendError(thrown));
    }
  }

  dismissNotice(): void {
    this.state = { ...this.state, notice: null };
  }

  fail(error: BackendError): void {
    // The window shows those two by itself.
    if (error.code === UNAUTHORIZED || error.code === 'SHUTTING_DOWN') return;
    this.toast('bad', error.message);
  }

  toast(tone: Toast['tone'], text: string): void {
    if (this.toasts.some((known) => known.text === text)) return;
    const toast = { id: ++this.toastCount, tone, text };
    this.toasts = [...this.toasts.slice(-3), toast];
    if (tone === 'good') setTimeout(() => this.dismiss(toast.id), 6000);
  }

  dismiss(id: number): void {
    this.toasts = this.toasts.filter((toast) => toast.id !== id);
  }
}
