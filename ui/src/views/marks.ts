/** A piece of a text in which matches are between « and ». */
export interface Marked {
  text: string;
  isMatch: boolean;
}

/** The pieces of a snippet. A lone bracket is a part of the text. */
export function marks(snippet: string): Marked[] {
  const parts: Marked[] = [];
  let at = 0;
  for (const found of snippet.matchAll(/«([^«»]+)»/g)) {
    if (found.index > at) parts.push({ text: snippet.slice(at, found.index), isMatch: false });
    parts.push({ text: found[1] ?? '', isMatch: true });
    at = found.index + found[0].length;
  }
  if (at < snippet.length) parts.push({ text: snippet.slice(at), isMatch: false });
  return parts;
}
