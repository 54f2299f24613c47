/** One line of a comparison. */
export interface DiffLine {
  sign: ' ' | '+' | '-';
  text: string;
}

const CONTEXT = 3;

/**
 * What changed between two texts: the part between the common start and the
 * common end, with a few lines around it. Enough for the edits of an agent,
 * which are local; a finer comparison comes with the side-by-side view.
 */
export function diffLines(before: string, after: string): DiffLine[] {
  const old = lines(before);
  const fresh = lines(after);
  let start = 0;
  while (start < old.length && start < fresh.length && old[start] === fresh[start]) start++;
  let end = 0;
  while (end < old.length - start && end < fresh.length - start && old.at(-1 - end) === fresh.at(-1 - end)) end++;
  const as = (sign: DiffLine['sign']) => (text: string) => ({ sign, text });
  return [
    ...fresh.slice(Math.max(0, start - CONTEXT), start).map(as(' ')),
    ...old.slice(start, old.length - end).map(as('-')),
    ...fresh.slice(start, fresh.length - end).map(as('+')),
    ...fresh.slice(fresh.length - end, Math.min(fresh.length, fresh.length - end + CONTEXT)).map(as(' ')),
  ];
}

function lines(text: string): string[] {
  if (text === '') return [];
  return text.replace(/\n$/, '').split('\n');
}
