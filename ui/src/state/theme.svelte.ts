/** The theme: as the system, or the user's own choice. */
export type Theme = 'system' | 'light' | 'dark';

const KEY = 'gantry.theme';
const ORDER: Theme[] = ['system', 'light', 'dark'];

let chosen: Theme = $state(stored());

function stored(): Theme {
  const found = localStorage.getItem(KEY);
  return found === 'light' || found === 'dark' ? found : 'system';
}

function show(): void {
  if (chosen === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = chosen;
}

export const theme = {
  get value(): Theme {
    return chosen;
  },
  /** Applies what was chosen the last time. */
  start: show,
  set(next: Theme): void {
    if (next === chosen) return;
    chosen = next;
    // Kept here too, so that the first picture is right before the host has answered.
    if (chosen === 'system') localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, chosen);
    show();
  },
  /** The one after the current one. */
  get following(): Theme {
    return ORDER[(ORDER.indexOf(chosen) + 1) % ORDER.length] as Theme;
  },
};
