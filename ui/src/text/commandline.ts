/** A command line taken apart, or why it could not be. */
export type Split = { words: string[] } | { problem: 'quote' };

/**
 * Splits a command line into words as a person means it: single and double
 * quotes hold words together, and a backslash before a quote, a space or a
 * backslash takes away its meaning. Other backslashes stay, for paths of
 * Windows. Nothing is expanded: this is not a shell.
 */
export function splitCommandLine(line: string): Split {
  const words: string[] = [];
  let word: string | null = null;
  let quote: '"' | "'" | null = null;
  for (let i = 0; i < line.length; i++) {
    const char = line[i] as string;
    const next = line[i + 1];
    if (char === '\\' && quote !== "'" && next !== undefined && (next === '"' || next === '\\' || (quote === null && (next === "'" || next === ' ')))) {
      word = (word ?? '') + next;
      i++;
    } else if (quote !== null) {
      if (char === quote) quote = null;
      else word = (word ?? '') + char;
    } else if (char === '"' || char === "'") {
      quote = char;
      word ??= '';
    } else if (/\s/.test(char)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? '') + char;
    }
  }
  if (quote !== null) return { problem: 'quote' };
  if (word !== null) words.push(word);
  return { words };
}

/** The words as one line that `splitCommandLine` takes apart again. */
export function joinCommandLine(words: readonly string[]): string {
  return words
    .map((word) => {
      if (word !== '' && !/[\s"'\\]/.test(word)) return word;
      return `"${word.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
    })
    .join(' ');
}
