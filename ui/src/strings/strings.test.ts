import { afterEach, describe, expect, it } from 'vitest';
import known from '../../../src-tauri/crates/core/src/agents/known.json';
import { language as shownIn, t, tOr } from '.';
import { en } from './en';
import { choose, language } from './language.svelte';
import { zh } from './zh';

afterEach(() => language.set('system'));

const forms = (entry: string | object): string[] => (typeof entry === 'string' ? [entry] : Object.values(entry));
const places = (text: string): string => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort().join(' ');

describe('the languages', () => {
  it('have the same keys, and the same places to fill in', () => {
    expect(Object.keys(zh).sort()).toEqual(Object.keys(en).sort());
    for (const [key, entry] of Object.entries(en)) {
      const wanted = places(forms(entry).at(-1) as string);
      for (const text of forms(zh[key as keyof typeof zh])) {
        expect(text.trim(), key).not.toBe('');
        expect(places(text), key).toBe(wanted);
      }
    }
  });

  it('say of the known agents what the program says', () => {
    for (const { id, about } of known) expect(tOr(`agents.about.${id}`, ''), id).toBe(about);
  });

  it('are chosen by the user, else by what the system wants', () => {
    expect(choose(['fr-FR', 'zh-Hant-TW', 'en'])).toBe('zh');
    expect(choose(['EN-gb'])).toBe('en');
    expect(choose(['ja'])).toBe('en');
    language.set('zh');
    expect(t('tools', { n: 1 })).toBe('1 个工具');
    expect(shownIn()).toBe('zh-CN');
    expect(document.documentElement.lang).toBe('zh-CN');
    language.set('en');
    expect(t('tools', { n: 1 })).toBe('1 tool');
    expect(t('tools', { n: 2 })).toBe('2 tools');
  });
});
