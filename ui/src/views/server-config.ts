import { t } from '../strings';
import { lineAndColumn } from '../text/paste';
import type { JsonValue, ServerConfig } from '../wire';

type Kind = 'text' | 'number' | 'flag' | 'list' | 'map' | 'oauth';

/** The fields that we know; others are kept as they are. */
const KINDS: Record<string, Kind> = {
  command: 'text', cwd: 'text', url: 'text', transport: 'text', authToken: 'text', isolation: 'text',
  args: 'list', allowTools: 'list', denyTools: 'list',
  env: 'map', headers: 'map',
  enabled: 'flag', persistent: 'flag',
  startTimeoutMs: 'number', callTimeoutMs: 'number',
  oauth: 'oauth',
};

const isText = (value: unknown): boolean => typeof value === 'string';
const isOf: Record<Kind, (value: unknown) => boolean> = {
  text: isText,
  number: (value) => typeof value === 'number' && value >= 0,
  flag: (value) => typeof value === 'boolean',
  list: (value) => Array.isArray(value) && value.every(isText),
  oauth: (value) => typeof value === 'boolean' || (value !== null && typeof value === 'object' && !Array.isArray(value)),
  map: (value) => value !== null && typeof value === 'object' && !Array.isArray(value) && Object.values(value).every(isText),
};

/** A configuration that was written as JSON, or what is wrong with it in words. */
export function readConfig(json: string): { config: ServerConfig } | { problem: string } {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return { problem: t('form.error.json', lineAndColumn(json)) };
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return { problem: t('form.error.object') };
  const fields = value as Record<string, JsonValue>;
  for (const [field, content] of Object.entries(fields)) {
    const kind = KINDS[field];
    if (kind && content !== null && !isOf[kind](content)) {
      return { problem: t('form.error.field', { field, kind: t(`form.kindOf.${kind}`) }) };
    }
  }
  const has = (field: string): boolean => String(fields[field] ?? '').trim() !== '';
  if (has('command') === has('url')) return { problem: t('form.error.both') };
  const written = Object.entries(fields).filter(([, content]) => content !== null);
  return { config: Object.fromEntries(written) as ServerConfig };
}

/** Whether a session may see a tool. */
export function isToolOn(config: ServerConfig, tool: string): boolean {
  const allowed = config.allowTools ?? [];
  return allowed.length > 0 ? allowed.includes(tool) : !(config.denyTools ?? []).includes(tool);
}

/**
 * The configuration with a tool switched on or off. An empty list of allowed
 * tools means "all", so the last one of it cannot simply be taken out: then
 * all that are known are denied instead.
 */
export function withTool(config: ServerConfig, tool: string, isOn: boolean, known: readonly string[]): ServerConfig {
  const allowed = config.allowTools ?? [];
  const denied = config.denyTools ?? [];
  const without = (list: readonly string[]): string[] => list.filter((name) => name !== tool);
  if (allowed.length === 0) return { ...config, denyTools: isOn ? without(denied) : [...without(denied), tool] };
  if (isOn) return { ...config, allowTools: [...without(allowed), tool], denyTools: without(denied) };
  const rest = without(allowed);
  return rest.length > 0 ? { ...config, allowTools: rest } : { ...config, allowTools: [], denyTools: [...new Set([...denied, ...known, tool])] };
}
