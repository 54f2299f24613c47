import { object, text } from '../state/json';
import type { PermissionView } from '../wire';

/** An option of a permission request. */
export interface Option {
  id: string;
  name: string;
  /** `allow_once`, `allow_always`, `reject_once`, `reject_always`, or something newer. */
  kind: string;
}

/** How long the buttons do nothing after they appeared: nobody can have read them yet. */
export const INERT_MS = 500;

/** The options in the agent's own order. */
export function optionsOf(permission: PermissionView): Option[] {
  return permission.options.map((option) => ({
    id: text(object(option)['optionId']) ?? '',
    name: text(object(option)['name']) ?? text(object(option)['optionId']) ?? '',
    kind: text(object(option)['kind']) ?? '',
  }));
}

/** The option that Escape stands for: the offered "no", never an invented one. */
export function rejection(permission: PermissionView): Option | null {
  const options = optionsOf(permission);
  return options.find(({ kind }) => kind === 'reject_once') ?? options.find(({ kind }) => kind === 'reject_always') ?? null;
}

export function isAllow(option: Option): boolean {
  return option.kind.startsWith('allow');
}
