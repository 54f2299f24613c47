/** One line of a comparison. */
export interface DiffLine {
  sign: ' ' | '+' | '-';
  text: string;
}

/** A row of a comparison in two columns: null where that side has no line. */
export interface DiffRow {
  left: DiffLine | null;
  right: DiffLine | null;
}

const CONTEXT = 3;
/** With more edits than this the middle is shown as replaced as a whole: the search grows with their square. */
const MOST_EDITS = 1500;

/**
 * What changed between two texts, as the fewest removed and added lines, with
 * a few unchanged lines around each change. A gap is a line with the sign ` `
 * and the text `⋯`.
 */
export function diffLines(before: string, after: string): DiffLine[] {
  const old = lines(before);
  const fresh = lines(after);
  let start = 0;
  while (start < old.length && start < fresh.length && old[start] === fresh[start]) start++;
  let end = 0;
  while (end < old.length - start && end < fresh.length - start && old.at(-1 - end) === fresh.at(-1 - end)) end++;
  const middle = edits(old.slice(start, old.length - end), fresh.slice(start, fresh.length - end));
  return shorten([
    ...fresh.slice(0, start).map(as(' ')),
    ...middle,
    ...fresh.slice(fresh.length - end).map(as(' ')),
  ]);
}

/** A comparison in two columns: what was removed beside what came in its place. */
export function diffRows(diff: readonly DiffLine[]): DiffRow[] {
  const rows: DiffRow[] = [];
  let at = 0;
  while (at < diff.length) {
    const line = diff[at] as DiffLine;
    if (line.sign === ' ') {
      rows.push({ left: line, right: line });
      at++;
      continue;
    }
    const removed: DiffLine[] = [];
    const added: DiffLine[] = [];
    for (let next = diff[at]; next && next.sign !== ' '; next = diff[++at]) (next.sign === '-' ? removed : added).push(next);
    for (let n = 0; n < Math.max(removed.length, added.length); n++) {
      rows.push({ left: removed[n] ?? null, right: added[n] ?? null });
    }
  }
  return rows;
}

const as = (sign: DiffLine['sign']) => (text: string): DiffLine => ({ sign, text });

/** The shortest way from one list to the other (Myers, 1986). */
export function edits(old: readonly string[], fresh: readonly string[]): DiffLine[] {
  const whole = (): DiffLine[] => [...old.map(as('-')), ...fresh.map(as('+'))];
  if (old.length === 0 || fresh.length === 0) return whole();
  const most = Math.min(old.length + fresh.length, MOST_EDITS);
  // How far down each diagonal (x − y) one gets with so many edits.
  let reach = new Map<number, number>([[1, 0]]);
  const trace: Map<number, number>[] = [];
  for (let n = 0; n <= most; n++) {
    trace.push(new Map(reach));
    const next = new Map(reach);
    for (let k = -n; k <= n; k += 2) {
      const isDown = k === -n || (k !== n && (next.get(k - 1) ?? -1) < (next.get(k + 1) ?? -1));
      let x = isDown ? (next.get(k + 1) ?? 0) : (next.get(k - 1) ?? 0) + 1;
      let y = x - k;
      while (x < old.length && y < fresh.length && old[x] === fresh[y]) {
        x++;
        y++;
      }
      next.set(k, x);
      if (x >= old.length && y >= fresh.length) return back(old, fresh, trace);
    }
    reach = next;
  }
  return whole();
}

function back(old: readonly string[], fresh: readonly string[], trace: readonly Map<number, number>[]): DiffLine[] {
  const found: DiffLine[] = [];
  let x = old.length;
  let y = fresh.length;
  for (let n = trace.length - 1; n >= 0; n--) {
    const reach = trace[n] as Map<number, number>;
    const k = x - y;
    const isDown = k === -n || (k !== n && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const from = isDown ? k + 1 : k - 1;
    const fromX = n === 0 ? 0 : (reach.get(from) ?? 0);
    const fromY = n === 0 ? 0 : fromX - from;
    while (x > fromX && y > fromY) {
      x--;
      y--;
      found.push({ sign: ' ', text: old[x] as string });
    }
    if (n === 0) break;
    if (isDown) found.push({ sign: '+', text: fresh[--y] as string });
    else found.push({ sign: '-', text: old[--x] as string });
  }
  return found.reverse();
}

/** Leaves out what is far from every change. */
function shorten(diff: readonly DiffLine[]): DiffLine[] {
  const near = new Uint8Array(diff.length);
  diff.forEach(({ sign }, at) => {
    if (sign !== ' ') near.fill(1, Math.max(0, at - CONTEXT), at + CONTEXT + 1);
  });
  const kept: DiffLine[] = [];
  diff.forEach((line, at) => {
    if (near[at]) kept.push(line);
    else if (near[at - 1] && near.indexOf(1, at) >= 0) kept.push({ sign: ' ', text: '⋯' });
  });
  return kept;
}

function lines(text: string): string[] {
  if (text === '') return [];
  return text.replace(/\n$/, '').split('\n');
}
