import type { Row } from '../parts/rows';
import { t } from '../strings';
import { joinCommandLine, splitCommandLine } from '../text/commandline';
import { readPasted } from '../text/paste';
import type { ServerConfig, ServersSave, ServerView } from '../wire';

export type Kind = 'command' | 'url' | 'json';

/** The form of a new server as it stands. */
export interface Form {
  kind: Kind;
  name: string;
  command: string;
  url: string;
  isSse: boolean;
  json: string;
  env: Row[];
  headers: Row[];
  isPersistent: boolean;
}

/** An empty form, or that of a server that is to be changed. Masked values stay masked: the core knows them. */
export function formOf(server: ServerView | null): Form {
  const config = server?.config ?? {};
  const rows = (record: Record<string, string> | undefined): Row[] =>
    Object.entries(record ?? {}).map(([key, value]) => ({ key, value }));
  return {
    kind: config.url === undefined ? 'command' : 'url',
    name: server?.name ?? '',
    command: config.command === undefined ? '' : joinCommandLine([config.command, ...(config.args ?? [])]),
    url: config.url ?? '',
    isSse: config.transport === 'sse',
    json: '',
    env: rows(config.env),
    headers: rows(config.headers),
    isPersistent: config.persistent ?? false,
  };
}

/** What the form says, or what is wrong with it in words. */
export type Read = { servers: ServersSave[] } | { problem: string };

/** `old` is the server that is being changed: its name is not taken, and what the form does not show stays. */
export function readForm(form: Form, taken: ReadonlySet<string>, old: ServerView | null = null): Read {
  if (form.kind === 'json') return readJson(form.json, taken);
  const name = form.name.trim();
  if (name === '') return { problem: t('form.error.name') };
  if (taken.has(name) && name !== old?.name) return { problem: t('form.error.taken', { name }) };
  const config = form.kind === 'command' ? commandConfig(form) : urlConfig(form);
  if ('problem' in config) return config;
  return { servers: [{ name, config: { ...keep(old?.config), ...config, enabled: old?.enabled ?? true } }] };
}

/** What the form does not show. Command and address exclude each other, so neither is kept. */
function keep(config: ServerConfig = {}): ServerConfig {
  const { command: _, args: __, url: ___, transport: ____, ...rest } = config;
  return rest;
}

function readJson(json: string, taken: ReadonlySet<string>): Read {
  const read = readPasted(json);
  if ('servers' in read) {
    const clash = read.servers.find(({ name }) => taken.has(name));
    return clash ? { problem: t('form.error.taken', { name: clash.name }) } : read;
  }
  switch (read.problem) {
    case 'empty':
      return { problem: t('form.error.empty') };
    case 'none':
      return { problem: t('form.error.none') };
    case 'json':
      return { problem: t('form.error.json', { line: read.line, column: read.column }) };
  }
}

function commandConfig(form: Form): ServerConfig | { problem: string } {
  const split = splitCommandLine(form.command);
  if ('problem' in split) return { problem: t('form.error.quote') };
  const [command, ...args] = split.words;
  if (!command) return { problem: t('form.error.command') };
  const env = record(form.env);
  if (env === null) return { problem: t('form.error.envKey') };
  return { command, args, env, persistent: form.isPersistent };
}

function urlConfig(form: Form): ServerConfig | { problem: string } {
  const url = form.url.trim();
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) return { problem: t('form.error.url') };
  const headers = record(form.headers);
  if (headers === null) return { problem: t('form.error.envKey') };
  return { url, transport: form.isSse ? 'sse' : 'streamable-http', headers };
}

/** Rows as a record; empty ones are left out, a value without a name is null. */
function record(rows: readonly Row[]): Record<string, string> | null {
  const full = rows.filter(({ key, value }) => key.trim() !== '' || value !== '');
  if (full.some(({ key }) => key.trim() === '')) return null;
  return Object.fromEntries(full.map(({ key, value }) => [key.trim(), value]));
}
