import type { Turn } from '../state/model';

/** Where the announcements of a turn stand. */
export interface Announced {
  turn: string;
  length: number;
}

/**
 * What a screen reader should hear next: whole paragraphs of the agent's text,
 * not letters as they arrive; the rest when the turn is over.
 */
export function announce(turn: Turn, before: Announced | null): { text: string; after: Announced } {
  const said = turn.items
    .map((item) => (item.kind === 'text' && item.from === 'agent' ? item.text : ''))
    .filter((text) => text !== '')
    .join('\n\n');
  const start = before?.turn === turn.id ? before.length : 0;
  const end = turn.stopReason === null ? said.lastIndexOf('\n\n') : said.length;
  if (end <= start) return { text: '', after: { turn: turn.id, length: start } };
  return { text: said.slice(start, end).trim(), after: { turn: turn.id, length: end } };
}
