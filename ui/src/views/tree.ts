import type { ProcessNode } from '../wire';

/** A process as a line of a table. */
export interface ProcessRow {
  node: ProcessNode;
  depth: number;
}

/** The trees as lines, each below what started it. */
export function rowsOf(roots: readonly ProcessNode[], depth = 0): ProcessRow[] {
  return roots.flatMap((node) => [{ node, depth }, ...rowsOf(node.children, depth + 1)]);
}

/** What the memory of a process is: its fair share where the system tells, else all it has resident. */
export function memoryOf(node: ProcessNode): number {
  return node.pss ?? node.rss;
}

/** The memory of a process with all that it started; null when it is not in the trees. */
export function memoryOfTree(roots: readonly ProcessNode[], pid: number | null): number | null {
  const rows = rowsOf(roots);
  const at = rows.findIndex(({ node }) => node.pid === pid);
  const root = rows[at];
  return root ? rowsOf([root.node]).reduce((sum, { node }) => sum + memoryOf(node), 0) : null;
}

/** Bytes for people: `512 B`, `812 kB`, `41.5 MB`. */
export function bytes(n: number, language: string): string {
  const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte'] as const;
  let at = 0;
  let value = n;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at++;
  }
  // "byte" as other languages write it does not go with their "kB".
  if (at === 0) return `${value.toLocaleString(language)} B`;
  return new Intl.NumberFormat(language, { style: 'unit', unit: units[at], unitDisplay: 'short', maximumFractionDigits: value < 100 && at > 1 ? 1 : 0 }).format(value);
}
