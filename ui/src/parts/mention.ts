import type { JsonValue } from '../wire';

/** A file of the project that a message names. */
export interface Mention {
  path: string;
  uri: string;
}

/** What is being written after an `@` just before the cursor. */
export interface Asked {
  /** Where the `@` is. */
  start: number;
  query: string;
}

/** The name that is being written at the cursor; an `@` inside a word (an address) asks for nothing. */
export function askedAt(text: string, cursor: number): Asked | null {
  const found = /(?:^|[\s([{"'“‘（，。])@([^\s@"]*)$/.exec(text.slice(0, cursor));
  const query = found?.[1];
  return query === undefined ? null : { start: cursor - query.length - 1, query };
}

/** How a file is written in a message. */
export function written(path: string): string {
  return /\s/.test(path) ? `@"${path}"` : `@${path}`;
}

/** The text with the file in place of what was written so far, and where the cursor goes. */
export function insert(text: string, asked: Asked, path: string): { text: string; cursor: number } {
  const before = text.slice(0, asked.start) + written(path);
  const after = text.slice(asked.start + 1 + asked.query.length);
  const gap = /^\s/.test(after) ? '' : ' ';
  return { text: before + gap + after, cursor: before.length + 1 };
}

/** The files that the text still names, as content blocks. */
export function links(text: string, mentions: readonly Mention[]): JsonValue[] {
  const seen = new Set<string>();
  return mentions
    .filter(({ path, uri }) => names(text, path) && !seen.has(uri) && seen.add(uri))
    .map(({ path, uri }) => ({ type: 'resource_link', uri, name: path }));
}

function names(text: string, path: string): boolean {
  const mark = written(path);
  for (let at = text.indexOf(mark); at >= 0; at = text.indexOf(mark, at + 1)) {
    // `@src/a.ts` is not named by `@src/a.tsx`.
    if (!/^[\p{L}\p{N}_-]/u.test(text.slice(at + mark.length)) && !/^[./][\p{L}\p{N}]/u.test(text.slice(at + mark.length))) return true;
  }
  return false;
}
