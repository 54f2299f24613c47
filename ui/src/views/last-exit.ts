import { language, t } from '../strings';
import type { EndHow, LastExit } from '../wire';

/** Ends that nobody wants. */
export function isForced(how: EndHow): boolean {
  return how === 'killed' || how === 'left';
}

/** How the last run ended, in a sentence or two of the user's language. */
export function lastExitWords(last: LastExit): string {
  const ended = last.leftovers.filter((one) => one.ended).length;
  const left = last.leftovers.length - ended;
  const forced = last.trees.filter(({ how }) => isForced(how)).map(({ name }) => name);
  const parts: string[] = [];
  if (last.crashed) parts.push(t('last.crashed'));
  else if (last.cut_short) parts.push(t('last.cutShort'));
  if (ended > 0) parts.push(t('last.leftovers', { n: ended }));
  else if (last.crashed && left === 0) parts.push(t('last.noLeftovers'));
  if (forced.length > 0) parts.push(t('last.forced', { names: new Intl.ListFormat(language(), { type: 'unit' }).format(forced) }));
  if (left > 0) parts.push(t('last.left', { n: left }));
  // Something that this page does not know yet: the host's own words.
  return parts.length > 0 ? parts.join(' ') : last.summary;
}
