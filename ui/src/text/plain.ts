/** Texts of programs made fit for the screen. */

// CSI sequences (colours, cursor), OSC sequences (titles, links) and two-letter escapes.
// eslint-disable-next-line no-control-regex
const ESCAPES = /\u001B(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001B]*(?:\u0007|\u001B\\)|[@-Z\\-_])/g;

/** Without the escape sequences of terminals; a carriage return overwrites its line, as there. */
export function plain(text: string): string {
  const bare = text.replace(ESCAPES, '').replaceAll('\r\n', '\n');
  if (!bare.includes('\r')) return bare;
  return bare
    .split('\n')
    .map((line) => line.slice(line.lastIndexOf('\r') + 1))
    .join('\n');
}

/** The last part of a path. */
export function baseName(path: string): string {
  return path.split(/[\\/]/).filter((part) => part !== '').at(-1) ?? path;
}

// They turn the letters after them around: a name could say something else than it is.
const TURNING = /[\u202A-\u202E\u2066-\u2069]/g;

/** With what would turn the letters after it around written out. */
function straight(text: string): string {
  return text.replace(TURNING, (mark) => `\\u${mark.charCodeAt(0).toString(16)}`);
}

/** JSON for reading. A text stays as it is. */
export function pretty(value: unknown): string {
  return straight(typeof value === 'string' ? value : JSON.stringify(value, null, 2));
}

/** One line, shortened. */
export function oneLine(text: string, most: number): string {
  const line = straight(text.replace(/\s+/g, ' ').trim());
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}
