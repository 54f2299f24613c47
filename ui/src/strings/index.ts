import { en } from './en';
import { language as current } from './language.svelte';
import { zh } from './zh';

export type Key = keyof typeof en;

/** An entry with plural forms: `other`, and those that the language has beside it. */
export type Plural = Partial<Record<Intl.LDMLPluralRule, string>> & { other: string };

/** The texts of one language. A key that is missing does not compile. */
export type Texts = { readonly [K in Key]: (typeof en)[K] extends string ? string : Plural };

const TEXTS: Record<'en' | 'zh', Texts> = { en, zh };
const RULES = { en: new Intl.PluralRules('en'), zh: new Intl.PluralRules('zh') };

/** The language of the texts, for numbers and dates. */
export function language(): string {
  return current.shown === 'zh' ? 'zh-CN' : 'en';
}

/** A text of the user interface. `n` chooses the plural form. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  const entry: string | Plural = TEXTS[current.shown][key];
  const pattern =
    typeof entry === 'string' ? entry : (entry[RULES[current.shown].select(Number(values['n'] ?? 0))] ?? entry.other);
  return pattern.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** A text whose key comes from outside (a state, a kind); `fallback` when there is none. */
export function tOr(key: string, fallback: string, values: Record<string, string | number> = {}): string {
  return key in en ? t(key as Key, values) : fallback;
}
