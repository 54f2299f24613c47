import type { Turn } from '../state/model';

/** The agent's answer in a turn: its text alone. */
export function answerOf(turn: Turn): string {
  return turn.items
    .map((item) => (item.kind === 'text' && item.from === 'agent' ? item.text.trim() : ''))
    .filter((part) => part !== '')
    .join('\n\n');
}
