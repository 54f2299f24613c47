import { en } from './en';

export type Key = keyof typeof en;

const rules = new Intl.PluralRules('en');

/** The language of the texts, for numbers and dates. */
export function language(): string {
  return 'en';
}

/** A text of the user interface. `n` chooses the plural form. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  const entry: string | { one: string; other: string } = en[key];
  const pattern =
    typeof entry === 'string' ? entry : rules.select(Number(values['n'] ?? 0)) === 'one' ? entry.one : entry.other;
  return pattern.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** A text whose key comes from outside (a state, a kind); `fallback` when there is none. */
export function tOr(key: string, fallback: string, values: Record<string, string | number> = {}): string {
  return key in en ? t(key as Key, values) : fallback;
}
