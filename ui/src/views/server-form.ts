import type { Row } from '../parts/rows';
import { t } from '../strings';
import { splitCommandLine } from '../text/commandline';
import { readPasted } from '../text/paste';
import type { ServerConfig, ServersSave } from '../wire';

export type Kind = 'command' | 'url' | 'json';

/** The form of a new server as it stands. */
export interface Form {
  kind: Kind;
  name: string;
  command: string;
  url: string;
  isSse: boolean;
  json: string;
  env: readonly Row[];
  headers: readonly Row[];
  isPersistent: boolean;
}

/** What the form says, or what is wrong with it in words. */
export type Read = { servers: ServersSave[] } | { problem: string };

export function readForm(form: Form, taken: ReadonlySet<string>): Read {
  if (form.kind === 'json') return readJson(form.json, taken);
  const name = form.name.trim();
  if (name === '') return { problem: t('form.error.name') };
  if (taken.has(name)) return { problem: t('form.error.taken', { name }) };
  const config = form.kind === 'command' ? commandConfig(form) : urlConfig(form);
  return 'problem' in config ? config : { servers: [{ name, config }] };
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
  return { command, args, env, enabled: true, persistent: form.isPersistent };
}

function urlConfig(form: Form): ServerConfig | { problem: string } {
  const url = form.url.trim();
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) return { problem: t('form.error.url') };
  const headers = record(form.headers);
  if (headers === null) return { problem: t('form.error.envKey') };
  return { url, transport: form.isSse ? 'sse' : 'streamable-http', headers, enabled: true };
}

/** Rows as a record; empty ones are left out, a value without a name is null. */
function record(rows: readonly Row[]): Record<string, string> | null {
  const full = rows.filter(({ key, value }) => key.trim() !== '' || value !== '');
  if (full.some(({ key }) => key.trim() === '')) return null;
  return Object.fromEntries(full.map(({ key, value }) => [key.trim(), value]));
}
