import type { Turn } from '../state/model';

/** So many items of a conversation are put on the screen at a time. */
export const STEP = 60;
/** So many when a conversation is opened: its end is on the screen the sooner. */
export const FIRST = 30;
/** More than so many are never on the screen: what is far away from the reader is taken off. */
export const MOST = 240;

/** A place in a conversation: a turn by its number, and an item of it (0: with its prompt). */
export interface Spot {
  readonly number: number;
  readonly item: number;
}

/** A part of a turn that is on the screen. `to` null: to its end, whatever comes. */
export interface Part {
  readonly turn: Turn;
  readonly from: number;
  readonly to: number | null;
}

/** The prompt of a turn counts as an item too. */
const sizeOf = (turn: Turn): number => turn.items.length + 1;

function placeOf(turns: readonly Turn[], spot: Spot): number {
  const place = turns.findIndex(({ number }) => number >= spot.number);
  return place < 0 ? turns.length : place;
}

/** The place so many items above another one (null: the end); the beginning when there are not so many. */
export function above(turns: readonly Turn[], spot: Spot | null, count: number): Spot {
  let left = count;
  let place = spot === null ? turns.length : placeOf(turns, spot);
  if (spot !== null && turns[place]?.number === spot.number && spot.item > 0) {
    if (spot.item > left + STEP / 4) return { number: spot.number, item: spot.item - left };
    left -= spot.item + 1;
    if (left <= 0) return { number: spot.number, item: 0 };
  }
  while (place > 0) {
    place--;
    const turn = turns[place] as Turn;
    const size = sizeOf(turn);
    // A few items of a turn are no good beginning: then rather all of it.
    if (size > left + STEP / 4) return { number: turn.number, item: Math.max(0, turn.items.length - Math.max(1, left)) };
    left -= size;
    if (left <= 0) return { number: turn.number, item: 0 };
  }
  return beginning(turns);
}

/** The place so many items below another one; null when that is the end. */
export function below(turns: readonly Turn[], spot: Spot, count: number): Spot | null {
  let left = count;
  let from = spot.item;
  for (let place = placeOf(turns, spot); place < turns.length; place++) {
    const turn = turns[place] as Turn;
    const rest = turn.items.length - from;
    if (rest > left) return { number: turn.number, item: from + left };
    left -= rest + 1;
    from = 0;
    const next = turns[place + 1];
    if (left <= 0 && next) return { number: next.number, item: 0 };
  }
  return null;
}

export function beginning(turns: readonly Turn[]): Spot {
  return { number: turns[0]?.number ?? 0, item: 0 };
}

/** How many items are between two places. */
export function distance(turns: readonly Turn[], start: Spot, end: Spot | null): number {
  let count = 0;
  for (const { turn, from, to } of partsOf(turns, start, end)) count += (to ?? turn.items.length) - from + 1;
  return count;
}

/** What is on the screen between two places; the end itself is not. */
export function partsOf(turns: readonly Turn[], start: Spot, end: Spot | null): Part[] {
  const parts: Part[] = [];
  for (const turn of turns) {
    if (turn.number < start.number) continue;
    if (end !== null && (turn.number > end.number || (turn.number === end.number && end.item === 0))) break;
    const from = turn.number === start.number ? Math.min(start.item, turn.items.length) : 0;
    parts.push({ turn, from, to: end !== null && turn.number === end.number ? end.item : null });
  }
  return parts;
}
