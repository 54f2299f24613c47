import { list, object, text } from '../state/json';
import type { Transcript } from '../state/model';
import { language, t } from '../strings';

/** A word about the session beside the composer: its mode, an option, what it has used. */
export interface Chip {
  id: string;
  text: string;
  title: string;
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
