/** A message that waits until the turn before it is over. */
export interface Queued {
  id: string;
  text: string;
}

const KEY = 'gantry.queue';

/**
 * Messages that wait, by session. They live in the page, where they can still
 * be changed; the tab keeps them over a reload. After a turn that did not end
 * well they are held: what was asked for next may make no sense any more.
 */
export class Queue {
  private lists: Readonly<Record<string, readonly Queued[]>> = $state.raw(stored());
  private held: ReadonlySet<string> = $state.raw(new Set());
  /** Sessions whose running turn was stopped to make room for a message. */
  private readonly urgent = new Set<string>();

  of(session: string): readonly Queued[] {
    return this.lists[session] ?? [];
  }

  isHeld(session: string): boolean {
    return this.held.has(session);
  }

  /** The sessions that have something waiting. */
  get sessions(): string[] {
    return Object.keys(this.lists);
  }

  add(session: string, text: string): void {
    this.put(session, [...this.of(session), { id: crypto.randomUUID(), text }]);
  }

  /** Takes one out; its text, or null when it is not there any more. */
  take(session: string, id: string): string | null {
    const found = this.of(session).find((queued) => queued.id === id);
    if (!found) return null;
    this.put(session, this.of(session).filter((queued) => queued.id !== id));
    return found.text;
  }

  /** Takes the first one out. */
  next(session: string): string | null {
    const first = this.of(session)[0];
    return first && !this.isHeld(session) ? this.take(session, first.id) : null;
  }

  /** Puts one in front, and lets it go also when the turn that runs is stopped for it. */
  hurry(session: string, id: string): void {
    const found = this.of(session).find((queued) => queued.id === id);
    if (!found) return;
    this.put(session, [found, ...this.of(session).filter((queued) => queued.id !== id)]);
    this.urgent.add(session);
    this.release(session);
  }

  release(session: string): void {
    this.held = new Set([...this.held].filter((other) => other !== session));
  }

  hold(session: string): void {
    if (this.of(session).length > 0) this.held = new Set([...this.held, session]);
  }

  /** A turn of the session is over. */
  ended(session: string, reason: string): void {
    const isUrgent = this.urgent.delete(session);
    if (reason !== 'end_turn' && !isUrgent) this.hold(session);
  }

  /** Forgets what waits for sessions that are not there any more. */
  keep(isThere: (session: string) => boolean): void {
    for (const session of this.sessions) if (!isThere(session)) this.put(session, []);
  }

  private put(session: string, list: readonly Queued[]): void {
    const { [session]: _, ...rest } = this.lists;
    this.lists = list.length > 0 ? { ...rest, [session]: list } : rest;
    if (list.length === 0) this.release(session);
    sessionStorage.setItem(KEY, JSON.stringify(this.lists));
  }
}

function stored(): Record<string, readonly Queued[]> {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? '{}');
    return found !== null && typeof found === 'object' ? (found as Record<string, readonly Queued[]>) : {};
  } catch {
    return {};
  }
}
