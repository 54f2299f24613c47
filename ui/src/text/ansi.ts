import { plain } from './plain';

/** A run of text with one look, as a terminal shows it. */
export interface Run {
  text: string;
  /** Classes: `ansi-1` … `ansi-15` (colours), `bold`, `dim`, `italic`, `underline`, `inverse`. */
  look: string;
  /** A colour outside the palette, as CSS. */
  colour: string | null;
}

// SGR: the sequences that choose a look.
// eslint-disable-next-line no-control-regex
const SGR = /\u001B\[([0-9;:]*)m/g;

interface Look {
  colour: number | string | null;
  flags: Set<string>;
}

/** Whether a text chooses colours or weights. */
export function isColoured(text: string): boolean {
  // eslint-disable-next-line no-control-regex
  return /\u001B\[[0-9;:]*m/.test(text);
}

/** A text of a terminal as runs. Other escape sequences are left out. */
export function runs(text: string): Run[] {
  const found: Run[] = [];
  const look: Look = { colour: null, flags: new Set() };
  const add = (piece: string): void => {
    const bare = plain(piece);
    if (bare !== '') found.push({ text: bare, ...written(look) });
  };
  let at = 0;
  for (const match of text.matchAll(SGR)) {
    add(text.slice(at, match.index));
    change(look, (match[1] ?? '').split(/[;:]/).map((code) => Number(code || 0)));
    at = match.index + match[0].length;
  }
  add(text.slice(at));
  return found;
}

const FLAGS: Record<number, string> = { 1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline', 7: 'inverse' };

function change(look: Look, codes: number[]): void {
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at] as number;
    if (code === 0) {
      look.colour = null;
      look.flags.clear();
    } else if (FLAGS[code]) look.flags.add(FLAGS[code]);
    else if (code === 22) ['bold', 'dim'].forEach((flag) => look.flags.delete(flag));
    else if (code > 22 && code < 28) look.flags.delete(FLAGS[code - 20] ?? '');
    else if (code >= 30 && code <= 37) look.colour = code - 30;
    else if (code >= 90 && code <= 97) look.colour = code - 90 + 8;
    else if (code === 39) look.colour = null;
    else if (code === 38 || code === 48) {
      const colour = codes[at + 1] === 5 ? palette(codes[at + 2] ?? 0) : `rgb(${[codes[at + 2], codes[at + 3], codes[at + 4]].map(byte).join(' ')})`;
      at += codes[at + 1] === 5 ? 2 : 4;
      // A background is left out: it may make the text unreadable in the other theme.
      if (code === 38) look.colour = colour;
    }
  }
}

const byte = (value: number | undefined): number => Math.min(255, Math.max(0, value ?? 0));

/** A colour of the palette of 256. */
function palette(n: number): number | string {
  if (n < 16) return n;
  if (n >= 232) return `rgb(${[0, 0, 0].map(() => byte(8 + (n - 232) * 10)).join(' ')})`;
  const level = (part: number): number => (part === 0 ? 0 : 55 + part * 40);
  const cube = n - 16;
  return `rgb(${level(Math.floor(cube / 36) % 6)} ${level(Math.floor(cube / 6) % 6)} ${level(cube % 6)})`;
}

function written({ colour, flags }: Look): Omit<Run, 'text'> {
  const classes = [...flags];
  if (typeof colour === 'number') classes.push(`ansi-${colour}`);
  return { look: classes.join(' '), colour: typeof colour === 'string' ? colour : null };
}
