import { list, object, text } from '../state/json';
import type { Transcript } from '../state/model';
import { language, t } from '../strings';
import type { JsonValue, SessionSettings } from '../wire';

/** A word about the session beside the composer: its mode, an option, what it has used. */
export interface Chip {
  id: string;
  text: string;
  title: string;
}

/** Something that the agent lets the user choose in a session. */
export interface Choice {
  kind: 'mode' | 'model' | 'option';
  id: string;
  name: string;
  value: string;
  choices: { value: string; name: string }[];
}

/** What can be chosen. Where the agent offers a thing in two ways, the newer one counts. */
export function choicesOf(settings: SessionSettings | undefined): Choice[] {
  const options = (settings?.options ?? []).map(object);
  const found: Choice[] = [];
  for (const option of options) {
    // Options may come in groups.
    const flat = list(option['options']).flatMap((entry) => list(object(entry)['options']).length > 0 ? list(object(entry)['options']) : [entry]);
    const choices = named(flat, 'value');
    const value = text(option['currentValue']);
    const id = text(option['id']);
    if (id && value !== null && choices.length > 1) found.push({ kind: 'option', id, name: text(option['name']) ?? id, value, choices });
  }
  const has = (category: string): boolean => options.some((option) => option['category'] === category);
  const older = (kind: 'mode' | 'model', state: JsonValue | undefined, current: string, all: string, id: string): void => {
    const value = text(object(state ?? null)[current]);
    const choices = named(list(object(state ?? null)[all]), id);
    if (value !== null && choices.length > 1 && !has(kind)) found.push({ kind, id: kind, name: t(kind === 'mode' ? 'chat.modeName' : 'chat.modelName'), value, choices });
  };
  older('mode', settings?.modes, 'currentModeId', 'availableModes', 'id');
  older('model', settings?.models, 'currentModelId', 'availableModels', 'modelId');
  return found;
}

function named(entries: readonly JsonValue[], key: string): { value: string; name: string }[] {
  return entries.flatMap((entry) => {
    const value = text(object(entry)[key]);
    return value === null ? [] : [{ value, name: text(object(entry)['name']) ?? value }];
  });
}

/** What the agent told about the session itself. */
export function chipsOf(transcript: Transcript | undefined): Chip[] {
  const about = transcript?.about ?? {};
  const chips: Chip[] = [];
  const mode = text(object(about['current_mode_update'] ?? null)['currentModeId']);
  if (mode) chips.push({ id: 'mode', text: mode, title: t('chat.mode', { mode }) });
  for (const option of list(object(about['config_option_update'] ?? null)['configOptions'])) {
    const fields = object(option);
    const value = fields['currentValue'];
    if (fields['category'] === 'mode' && mode) continue;
    if (typeof value !== 'string' && typeof value !== 'boolean') continue;
    const choice = list(fields['options']).map(object).find((choice) => choice['value'] === value);
    const name = text(fields['name']) ?? text(fields['id']) ?? '';
    const words = text(choice?.['name'] ?? null) ?? String(value);
    chips.push({ id: `option-${text(fields['id']) ?? name}`, text: words, title: `${name}: ${words}` });
  }
  const usage = object(about['usage_update'] ?? null);
  const { used, size } = usage;
  if (typeof used === 'number' && typeof size === 'number' && size > 0) {
    const number = (n: number): string => n.toLocaleString(language());
    const share = (used / size).toLocaleString(language(), { style: 'percent', maximumFractionDigits: 0 });
    chips.push({ id: 'usage', text: share, title: [t('chat.usage', { used: number(used), size: number(size) }), costOf(usage['cost'])].filter(Boolean).join(' · ') });
  }
  return chips;
}

function costOf(value: unknown): string {
  const { amount, currency } = (value ?? {}) as { amount?: unknown; currency?: unknown };
  if (typeof amount !== 'number' || typeof currency !== 'string') return '';
  try {
    return t('chat.cost', { cost: amount.toLocaleString(language(), { style: 'currency', currency, maximumFractionDigits: 4 }) });
  } catch {
    return t('chat.cost', { cost: `${amount} ${currency}` });
  }
}
