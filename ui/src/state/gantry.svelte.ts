import { asBackendError, type Backend, type BackendError, UNAUTHORIZED } from '../backend';
import { language } from '../strings/language.svelte';
import { t } from '../strings';
import type { AgentConversation, AgentView, Commands, Event, JsonValue, PromptAccepted, QueuedPrompt, SessionCreate, SessionView, SettingsChange } from '../wire';
import { apply, applyNewest, applyOlder, applyOpening, applySnapshot, restoredUnseen } from './apply';
import { attach, MOST_ALL, weight } from '../parts/attachments';
import { Drafts } from './drafts.svelte';
import { perFrame } from './frames';
import { EMPTY, type State } from './model';
import { theme } from './theme.svelte';
import { isBusy } from './turns';

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
  /** Takes back what the text tells. */
  undo?: () => void;
}

/** What the middle of the window shows. `session`: the current one, or the start page. */
export type Page = 'session' | 'processes' | 'settings' | 'inbox';

/** Turns of one page of a history. */
const PAGE = 20;
/** How long a deletion can be taken back (milliseconds). */
const UNDO = 6000;

/** The state on the screen, and the ways to change it: views talk to this and to nothing else. */
export class Gantry {
  state: State = $state.raw(EMPTY);
  connection: Connection = $state('connecting');
  /** The session on the screen; null: the start page. */
  current: string | null = $state(null);
  page: Page = $state('session');
  /** A turn that is to be shown, until the conversation has done so. */
  wanted: { session: string; turn: number } | null = $state.raw(null);
  /** Whether the host was asked what the user chose: what the first screen is depends on it. */
  isSettled = $state(false);
  agents: readonly AgentView[] = $state.raw([]);
  outbox: Record<string, Outgoing> = $state.raw({});
  /** What the host said to the last prompt of each session: it may come before the event of its turn. */
  accepted: Readonly<Record<string, PromptAccepted>> = $state.raw({});
  /** What is being written, by session. */
  readonly drafts = new Drafts();
  toasts: readonly Toast[] = $state.raw([]);
  /** What was put into queues here, by turn, to be given back whole. */
  private readonly queued = new Map<string, JsonValue[]>();
  /** When the agent of a session was last heard (milliseconds since the epoch); not watched. */
  readonly heard: Record<string, number> = {};
  /** Sessions that are being deleted, as long as that can be taken back. */
  private deleting: Readonly<Record<string, ReturnType<typeof setTimeout>>> = $state.raw({});
  /** Sessions that were begun here with a conversation which their agent keeps. */
  adopted: ReadonlySet<string> = $state.raw(new Set());

  /** How often the newest page of a session was asked for: an answer that was overtaken counts for nothing. */
  private readonly pagesAsked = new Map<string, number>();

  /** How often the agents were asked for, and which of the answers is shown. */
  private agentsAsked = 0;
  private agentsOf = 0;
  private toastCount = 0;
  private isFirstSnapshot = true;
  private stopEvents: () => void = () => {};
  private readonly onLeave = (): void => void this.settleDeletions();

  constructor(readonly backend: Backend) {}

  readonly session = $derived(this.state.sessions.find(({ id }) => id === this.current) ?? null);
  readonly transcript = $derived(this.current === null ? undefined : this.state.transcripts[this.current]);

  /** The sessions to show: without those that are being deleted. */
  readonly sessions = $derived(this.state.sessions.filter(({ id }) => !(id in this.deleting)));
  /** The open permission requests and questions of all sessions, the oldest first. */
  readonly waiting = $derived(
    this.sessions
      .flatMap((session) => [
        ...session.permissions.map((permission) => ({ session, at: permission.asked_at, request: permission.request, permission, question: null })),
        ...(session.questions ?? []).map((question) => ({ session, at: question.asked_at, request: question.request, permission: null, question })),
      ])
      .toSorted((a, b) => a.at - b.at),
  );

  start(): void {
    addEventListener('pagehide', this.onLeave);
    const events = perFrame<Event>((batch) => this.take(batch));
    this.stopEvents = this.backend.events({
      snapshot: (snapshot) => {
        events.now();
        this.state = applySnapshot(this.state, snapshot);
        this.connection = 'live';
        this.chooseSession();
        this.drafts.keep((session) => snapshot.sessions.some(({ id }) => id === session));
        if (this.current !== null) void this.load(this.current);
        void this.loadAgents();
        void this.loadSettings();
      },
      event: (event) => events.add(event),
      lost: (why) => {
        events.now();
        this.connection = why.code === UNAUTHORIZED ? 'unauthorized' : 'lost';
      },
    });
  }

  stop(): void {
    removeEventListener('pagehide', this.onLeave);
    this.stopEvents();
  }

  private take(batch: Event[]): void {
    const revision = this.state.agentsRevision;
    const before = this.state.sessions;
    this.state = batch.reduce(apply, this.state);
    for (const session of restoredUnseen(before, this.state)) void this.load(session);
    if (this.state.agentsRevision !== revision) void this.loadAgents();
    for (const event of batch) {
      if (event.type === 'update' || event.type === 'turn_started') this.heard[event.session] = Date.now();
      else if (event.type === 'turn_ended') this.queued.delete(event.turn);
      else if (event.type === 'settings_changed') this.show();
    }
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
    // Whoever opens what is being deleted wants it back.
    if (session !== null && session in this.deleting) {
      clearTimeout(this.deleting[session]);
      this.spare(session);
    }
    this.current = session;
    this.page = 'session';
    if (session !== null && !this.state.transcripts[session]) void this.load(session);
  }

  /** Opens a session at one of its turns. */
  openAt(session: string, turn: number): void {
    this.wanted = { session, turn };
    this.open(session);
  }

  private async load(session: string): Promise<void> {
    const asked = (this.pagesAsked.get(session) ?? 0) + 1;
    this.pagesAsked.set(session, asked);
    this.state = applyOpening(this.state, session);
    const page = await this.try('session_history', { session, limit: PAGE });
    if (page && this.pagesAsked.get(session) === asked) this.state = applyNewest(this.state, session, page);
  }

  async loadOlder(session: string): Promise<void> {
    const before = this.state.transcripts[session]?.turns[0]?.number;
    if (before === undefined) return;
    const page = await this.try('session_history', { session, before, limit: PAGE });
    if (page) this.state = applyOlder(this.state, session, page);
  }

  private async loadSettings(): Promise<void> {
    const settings = await this.try('settings_get', {});
    this.isSettled = true;
    if (!settings) return;
    this.state = { ...this.state, settings };
    this.show();
  }

  /** Brings what the user chose onto the screen. */
  private show(): void {
    const { settings } = this.state;
    if (!settings) return;
    language.set(settings.language);
    theme.set(settings.theme);
  }

  /** Changes what the user chose; at once here, then in the host. */
  async choose(change: SettingsChange): Promise<void> {
    const { settings } = this.state;
    if (settings) this.state = { ...this.state, settings: { ...settings, ...change } };
    this.show();
    const kept = await this.try('settings_set', change);
    if (kept) this.state = { ...this.state, settings: kept };
    else if (settings) this.state = { ...this.state, settings };
    this.show();
  }

  private async loadAgents(): Promise<void> {
    const asked = ++this.agentsAsked;
    const answer = await this.try('agents_list', {});
    // An answer that was overtaken by a later one is of yesterday.
    if (answer && asked > this.agentsOf) {
      this.agentsOf = asked;
      this.agents = answer.agents;
    }
  }

  /** Opens a session. Errors are the caller's to show: they belong beside the form. */
  async create(input: SessionCreate): Promise<void> {
    const { session } = await this.backend.call('session_create', input);
    if (!this.state.sessions.some(({ id }) => id === session.id)) {
      // Its event may still be on the way.
      this.state = { ...this.state, sessions: [...this.state.sessions, session] };
    }
    if (input.acp_session_id !== undefined) this.adopted = new Set([...this.adopted, session.id]);
    this.open(session.id);
  }

  /** Goes on with a conversation that an agent keeps: where it is a session already, there. */
  async goOn(input: SessionCreate, { id, title, session }: AgentConversation): Promise<void> {
    if (session !== null && this.state.sessions.some((known) => known.id === session)) this.open(session);
    else await this.create({ ...input, acp_session_id: id, ...(title === null ? {} : { title }) });
  }

  /** Sends what was written: at once, or after the turn that runs. */
  async send(session: SessionView): Promise<void> {
    const content = this.drafts.take(session.id);
    if (content.length === 0) return;
    const outgoing = this.outgoing(session.id);
    const isSending = outgoing !== null && outgoing.error === null;
    if (!isBusy(session) && !isSending && (session.queue ?? []).length === 0) {
      await this.prompt(session.id, content);
      return;
    }
    try {
      const accepted = await this.backend.call('session_prompt', { session: session.id, content, queue: true });
      this.queued.set(accepted.turn, content);
    } catch (thrown) {
      this.drafts.giveBack(session.id, content);
      this.fail(asBackendError(thrown));
    }
  }

  async prompt(session: string, content: JsonValue[]): Promise<void> {
    const outgoing: Outgoing = {
      requestId: crypto.randomUUID(),
      content,
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
        // Another window may have been faster.
        queue: true,
      });
      settle({ turn: accepted.turn });
      this.queued.set(accepted.turn, content);
      this.accepted = { ...this.accepted, [session]: accepted };
    } catch (thrown) {
      settle({ error: asBackendError(thrown).message });
    }
  }

  /**
   * Stops the running turn. What waits behind it comes back into the message
   * field: whoever says stop does not want to see the next message go.
   */
  async cancel(session: SessionView): Promise<void> {
    const taken: JsonValue[][] = [];
    for (const waiting of session.queue ?? []) {
      const content = await this.drop(session.id, waiting);
      if (content) taken.push(content);
    }
    for (const content of taken) this.drafts.giveBack(session.id, content);
    await this.try('session_cancel', { session: session.id });
  }

  /** Takes a prompt out of the queue; its content, or null when it was sent meanwhile. */
  async drop(session: string, waiting: QueuedPrompt): Promise<JsonValue[] | null> {
    const { turn } = waiting;
    // The news of its end may come before the answer, and takes it away.
    const content = this.queued.get(turn);
    if (!(await this.try('session_queue_drop', { session, turn }))) return null;
    this.queued.delete(turn);
    return content ?? [{ type: 'text', text: waiting.text }];
  }

  /** Adds files to what is being written, as far as the agent takes them. */
  async attach(session: SessionView, files: readonly File[]): Promise<void> {
    for (const file of files) {
      // A folder that was dropped cannot be read.
      const made = await attach(file, session.capabilities).catch(() => ({ problem: t('attach.unreadable', { name: file.name }) }));
      if ('problem' in made) this.toast('bad', made.problem);
      else if (weight([...this.drafts.attachments(session.id), made]) > MOST_ALL) this.toast('bad', t('attach.tooMuch', { name: made.name }));
      else this.drafts.attach(session.id, made);
    }
  }

  /** Deletes a session, in a moment: until then it can be taken back. */
  remove(session: SessionView): void {
    const { id } = session;
    if (id in this.deleting) return;
    const timer = setTimeout(() => void this.deleteNow(id), UNDO);
    this.deleting = { ...this.deleting, [id]: timer };
    if (this.current === id) this.current = null;
    this.toast('good', t('session.deleted', { title: session.title || t('sessions.untitled') }), () => {
      this.open(id);
    });
  }

  private async deleteNow(session: string): Promise<void> {
    clearTimeout(this.deleting[session]);
    await this.try('session_delete', { session });
    this.spare(session);
  }

  /** Nobody can take back any more what was deleted: the page goes, or Gantry does. */
  async settleDeletions(): Promise<void> {
    await Promise.all(Object.keys(this.deleting).map((session) => this.deleteNow(session)));
  }

  async quit(): Promise<void> {
    await this.settleDeletions();
    await this.try('quit', {});
  }

  private spare(session: string): void {
    const { [session]: _, ...deleting } = this.deleting;
    this.deleting = deleting;
  }

  /** The prompt of a session that no turn shows yet. */
  outgoing(session: string): Outgoing | null {
    const outgoing = this.outbox[session];
    if (!outgoing) return null;
    const turns = this.state.transcripts[session]?.turns ?? [];
    const isShown = turns.some((turn) => turn.id === outgoing.turn || turn.requestId === outgoing.requestId);
    // Another window was faster: it waits in the queue, where it is shown.
    const isQueued = this.state.sessions.some(({ id, queue }) => id === session && queue?.some(({ turn }) => turn === outgoing.turn));
    return isShown || isQueued ? null : outgoing;
  }

  /** Takes a failed prompt back into the composer. */
  takeBack(session: string): void {
    const outgoing = this.outbox[session];
    if (!outgoing) return;
    this.drafts.giveBack(session, outgoing.content);
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

  /** Begins a sign-in to a remote server; the page is shown before it is opened. */
  async signIn(name: string): Promise<void> {
    const begun = await this.try('servers_sign_in', { name });
    if (begun) this.openLink(begun.url);
  }

  /** An address of a text that somebody followed: it is shown before it is opened. */
  leaving: URL | null = $state.raw(null);

  /** Asks whether an address of a text is to be opened; one of another kind than web and mail never is. */
  openLink(url: string): void {
    if (/^(https?|mailto):/i.test(url) && URL.canParse(url)) this.leaving = new URL(url);
  }

  /** Hands the address to the system. */
  async leave(): Promise<void> {
    const url = this.leaving?.href;
    this.leaving = null;
    if (url === undefined) return;
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

  toast(tone: Toast['tone'], text: string, undo?: () => void): void {
    if (!undo && this.toasts.some((known) => known.text === text)) return;
    const toast: Toast = { id: ++this.toastCount, tone, text, ...(undo ? { undo } : {}) };
    this.toasts = [...this.toasts.slice(-3), toast];
    if (tone === 'good') setTimeout(() => this.dismiss(toast.id), UNDO);
  }

  dismiss(id: number): void {
    this.toasts = this.toasts.filter((toast) => toast.id !== id);
  }
}
