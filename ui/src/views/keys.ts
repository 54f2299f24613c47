import type { Key } from '../strings';

/** A shortcut as the list shows it. */
export interface Shortcut {
  keys: string[];
  what: Key;
  /** Only there. */
  only?: 'window';
}

export const KEYS: readonly Shortcut[] = [
  { keys: ['Enter'], what: 'keys.send' },
  { keys: ['Shift', 'Enter'], what: 'keys.line' },
  { keys: ['Esc'], what: 'keys.reject' },
  { keys: ['Ctrl', 'F'], what: 'keys.find' },
  { keys: ['Ctrl', 'K'], what: 'keys.sessions' },
  { keys: ['Alt', 'N'], what: 'keys.new' },
  { keys: ['Alt', 'I'], what: 'keys.inbox' },
  { keys: ['Alt', 'M'], what: 'keys.composer' },
  { keys: ['?'], what: 'keys.list' },
  { keys: ['Ctrl', 'Q'], what: 'keys.quit', only: 'window' },
];

/** What a key press asks of the window as a whole. */
export type Wish = 'new' | 'inbox' | 'composer' | 'find' | 'sessions' | 'keys' | 'quit';

export function wishOf(event: KeyboardEvent): Wish | null {
  if (event.isComposing || event.repeat) return null;
  const isMain = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
  if (isMain) {
    const wishes: Record<string, Wish> = { f: 'find', k: 'sessions', q: 'quit' };
    return wishes[event.key.toLowerCase()] ?? null;
  }
  // By the place of the key: with Alt some layouts give another letter.
  if (event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    const wishes: Record<string, Wish> = { KeyN: 'new', KeyI: 'inbox', KeyM: 'composer' };
    return wishes[event.code] ?? null;
  }
  // Where text is written a question mark is a question mark.
  const isWriting = event.target instanceof Element && event.target.closest('input, textarea, select, [contenteditable]') !== null;
  return event.key === '?' && !isWriting && !event.ctrlKey && !event.metaKey ? 'keys' : null;
}
