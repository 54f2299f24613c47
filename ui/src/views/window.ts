import type { Turn } from '../state/model';

/** About how many items of a conversation are put on the screen at a time. */
export const BUDGET = 120;

/**
 * The number of the first turn to show, when the turns up to `last` (inclusive)
 * may have about `BUDGET` items: at least one turn, so that it always goes on.
 */
export function startOf(turns: readonly Turn[], last = turns.length - 1): number {
  let items = 0;
  let place = last;
  while (place > 0) {
    items += (turns[place]?.items.length ?? 0) + 1;
    if (items + (turns[place - 1]?.items.length ?? 0) > BUDGET) break;
    place--;
  }
  return turns[place]?.number ?? 0;
}
