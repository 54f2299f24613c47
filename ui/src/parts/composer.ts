import { object, text } from '../state/json';
import { baseName } from '../text/plain';
import type { JsonValue, ProjectFile } from '../wire';
import type { IconName } from './icons';

/** What a key in the composer means. */
export type KeyMeaning = 'send' | 'newline' | 'composing' | 'held' | 'other';

/**
 * Enter sends; with Shift it starts a line. An Enter that belongs to an input
 * method never sends: some tell so by `isComposing`, others only by the key
 * code 229, because their key event comes after the composition has ended.
 */
export function meaningOf(event: Pick<KeyboardEvent, 'key' | 'shiftKey' | 'isComposing' | 'keyCode' | 'repeat'>): KeyMeaning {
  if (event.isComposing || event.keyCode === 229) return 'composing';
  if (event.key !== 'Enter') return 'other';
  if (event.shiftKey) return 'newline';
  return event.repeat ? 'held' : 'send';
}

/** A slash command of the agent. */
export interface SlashCommand {
  name: string;
  description: string;
  hint: string | null;
}

export function commandsOf(values: readonly JsonValue[]): SlashCommand[] {
  return values
    .map((value) => ({
      name: text(object(value)['name']) ?? '',
      description: text(object(value)['description']) ?? '',
      hint: text(object(object(value)['input'])['hint']),
    }))
    .filter(({ name }) => name !== '');
}

/** The commands that what was written so far may become; none once it is one of them, or more than a word. */
export function matching(written: string, commands: readonly SlashCommand[]): SlashCommand[] {
  const word = /^\/(\S*)$/.exec(written)?.[1]?.toLowerCase();
  if (word === undefined) return [];
  const found = commands.filter(({ name }) => name.toLowerCase().startsWith(word));
  return found.some(({ name }) => name.toLowerCase() === word) ? [] : found;
}

/** Something that the menu of the message field offers. */
export interface Choice {
  key: string;
  title: string;
  hint: string | null;
  about: string;
  icon?: IconName;
  command?: SlashCommand;
  file?: ProjectFile;
}

export function commandChoice(command: SlashCommand): Choice {
  return { key: `/${command.name}`, title: `/${command.name}`, hint: command.hint, about: command.description, command };
}

export function fileChoice(file: ProjectFile): Choice {
  const folder = file.path.split('/').slice(0, -1).join('/');
  return { key: file.uri, title: baseName(file.path), hint: null, about: folder, icon: file.folder ? 'folder' : 'file', file };
}
