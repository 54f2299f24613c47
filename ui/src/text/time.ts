/** Spans and moments for people. */

import { language, t } from '../strings';

/** A span: `412 ms`, `3.2 s`, `4 min 5 s`. */
export function span(ms: number): string {
  const number = (value: number, digits = 0): string =>
    value.toLocaleString(language(), { maximumFractionDigits: digits });
  if (ms < 1000) return t('span.ms', { n: number(Math.max(0, ms)) });
  if (ms < 10_000) return t('span.s', { n: number(Math.floor(ms / 100) / 10, 1) });
  if (ms < 60_000) return t('span.s', { n: number(Math.floor(ms / 1000)) });
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return t('span.min', { n: minutes, s: Math.floor(ms / 1000) % 60 });
  return t('span.h', { n: Math.floor(minutes / 60), m: minutes % 60 });
}

/** Whole seconds, for a count that runs: it must not jitter. */
export function running(ms: number): string {
  return ms < 60_000 ? t('span.s', { n: Math.max(0, Math.floor(ms / 1000)) }) : span(ms);
}

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
];

/** How long ago: `now`, `5 min`, `yesterday`. */
export function ago(at: number, now: number): string {
  const past = now - at;
  for (const [unit, size] of STEPS) {
    if (past >= size) {
      if (unit === 'day' && past > 7 * size) {
        return new Date(at).toLocaleDateString(language(), { month: 'short', day: 'numeric' });
      }
      return new Intl.RelativeTimeFormat(language(), { style: 'narrow', numeric: 'auto' }).format(-Math.floor(past / size), unit);
    }
  }
  return t('ago.now');
}

/** The full moment, for a tooltip. */
export function moment(at: number): string {
  return new Date(at).toLocaleString(language(), { dateStyle: 'medium', timeStyle: 'short' });
}

/** The time of day to the second, for lines of a log. */
export function clock(at: number): string {
  return new Date(at).toLocaleTimeString(language(), { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });
}
