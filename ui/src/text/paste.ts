import type { ServerConfig } from '../wire';
import { firstError } from './jsonplace';

/** Servers that a pasted text holds, or where it cannot be read. */
export type Pasted =
  | { servers: { name: string; config: ServerConfig }[] }
  | { problem: 'empty' | 'none' }
  | { problem: 'json'; line: number; column: number };

/**
 * Reads MCP servers from JSON as people paste it: `{"mcpServers":{…}}` as most
 * applications keep it, `servers`, the bare inside of it, one lone server, or
 * an array with names; with comments, trailing commas and a byte order mark.
 */
export function readPasted(source: string): Pasted {
  const text = source.replace(/^\uFEFF/, '').trim();
  if (text === '') return { problem: 'empty' };
  const clean = plainJson(text);
  let value: unknown;
  try {
    value = JSON.parse(clean);
  } catch {
    // The inside of an object without its braces: `"name": {…}`.
    try {
      value = JSON.parse(`{${clean.replace(/,\s*$/, '')}}`);
    } catch {
      return { problem: 'json', ...lineAndColumn(clean) };
    }
  }
  const servers: { name: string; config: ServerConfig }[] = [];
  for (const [name, entry] of entries(value)) {
    const config = configOf(entry);
    if (config) servers.push({ name, config });
  }
  return servers.length > 0 ? { servers } : { problem: 'none' };
}

function entries(value: unknown): [string, unknown][] {
  if (Array.isArray(value)) {
    return value.map((entry, index) => [String((entry as { name?: unknown })?.name ?? `server-${index + 1}`), entry]);
  }
  if (value === null || typeof value !== 'object') return [];
  const map = value as Record<string, unknown>;
  for (const key of ['mcpServers', 'servers', 'mcp_servers', 'context_servers', 'mcp']) {
    const inner = map[key];
    if (inner !== null && typeof inner === 'object') return entries(inner);
  }
  if (isServer(map)) {
    const name = typeof map['name'] === 'string' ? map['name'] : guessName(map);
    return [[name, map]];
  }
  return Object.entries(map);
}

function isServer(map: Record<string, unknown>): boolean {
  return typeof map['command'] === 'string' || Array.isArray(map['command']) || typeof urlOf(map) === 'string';
}

function urlOf(map: Record<string, unknown>): unknown {
  return map['url'] ?? map['serverUrl'] ?? map['httpUrl'];
}

function guessName(map: Record<string, unknown>): string {
  const url = urlOf(map);
  if (typeof url === 'string' && URL.canParse(url)) return new URL(url).hostname;
  const words = [map['command'], ...(Array.isArray(map['args']) ? map['args'] : [])].flat().filter((word) => typeof word === 'string' && !word.startsWith('-'));
  const last = String(words.at(-1) ?? 'server');
  return last.split(/[\\/]/).at(-1)?.replace(/@[^@]*$/, '') || 'server';
}

function configOf(value: unknown): ServerConfig | null {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return null;
  const { name: _, type, command, serverUrl: __, httpUrl, environment, disabled, ...rest } = value as Record<string, unknown>;
  const map = value as Record<string, unknown>;
  if (!isServer(map)) return null;
  const config: Record<string, unknown> = { ...rest };
  if (typeof command === 'string') config['command'] = command;
  // Some applications keep program and arguments in one array.
  if (Array.isArray(command)) {
    const [program, ...args] = command.map(String);
    config['command'] = program;
    config['args'] = [...args, ...(Array.isArray(rest['args']) ? rest['args'] : [])];
  }
  const url = urlOf(map);
  if (typeof url === 'string') {
    config['url'] = url;
    const kind = String(rest['transport'] ?? type ?? (httpUrl ? 'http' : ''));
    if (kind === 'sse') config['transport'] = 'sse';
    else if (kind !== '') config['transport'] = 'streamable-http';
    else delete config['transport'];
  }
  if (environment !== undefined && config['env'] === undefined) config['env'] = environment;
  for (const key of ['env', 'headers']) {
    const record = config[key];
    if (record !== null && typeof record === 'object') {
      config[key] = Object.fromEntries(Object.entries(record).map(([k, v]) => [k, String(v)]));
    }
  }
  if (typeof disabled === 'boolean') config['enabled'] = !disabled;
  return config as ServerConfig;
}

/** Comments and trailing commas become spaces, so that places in the text stay the same. */
function plainJson(text: string): string {
  let out = '';
  let i = 0;
  while (i < text.length) {
    const char = text[i] as string;
    if (char === '"') {
      let end = i + 1;
      while (end < text.length && text[end] !== '"' && text[end] !== '\n') end += text[end] === '\\' ? 2 : 1;
      out += text.slice(i, end + 1);
      i = end + 1;
    } else if (text.startsWith('//', i)) {
      let end = text.indexOf('\n', i);
      if (end < 0) end = text.length;
      out += ' '.repeat(end - i);
      i = end;
    } else if (text.startsWith('/*', i)) {
      let end = text.indexOf('*/', i + 2);
      end = end < 0 ? text.length : end + 2;
      out += text.slice(i, end).replace(/[^\n]/g, ' ');
      i = end;
    } else {
      out += char;
      i++;
    }
  }
  return dropTrailingCommas(out);
}

function dropTrailingCommas(text: string): string {
  const out = [...text.split('')];
  let inString = false;
  let comma = -1;
  for (let i = 0; i < out.length; i++) {
    const char = out[i] as string;
    if (inString) {
      if (char === '\\') i++;
      else if (char === '"') inString = false;
    } else if (char === '"') {
      inString = true;
      comma = -1;
    } else if (char === ',') {
      comma = i;
    } else if (char === '}' || char === ']') {
      if (comma >= 0) out[comma] = ' ';
      comma = -1;
    } else if (!/\s/.test(char)) {
      comma = -1;
    }
  }
  return out.join('');
}

/** Line and column of the first thing that is not JSON, as editors count. */
export function lineAndColumn(text: string): { line: number; column: number } {
  // Without its braces it is a list of members; the brace that we add is not the user's.
  const isBare = !/^\s*[[{]/.test(text);
  const offset = isBare ? firstError(`{${text}`) - 1 : firstError(text);
  const before = text.slice(0, Math.max(0, offset)).split('\n');
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
}
