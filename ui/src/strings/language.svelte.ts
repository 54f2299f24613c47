/** A language that the interface has. */
export type Language = 'en' | 'zh';
/** What the user chose; `system`: the first language of theirs that we have. */
export type LanguageChoice = 'system' | Language;

const KEY = 'gantry.language';

function stored(): LanguageChoice {
  const found = localStorage.getItem(KEY);
  return found === 'en' || found === 'zh' ? found : 'system';
}

/** The first of the wanted languages that we have; English when there is none. */
export function choose(wanted: readonly string[]): Language {
  for (const tag of wanted) {
    const base = tag.toLowerCase().split('-')[0];
    if (base === 'en' || base === 'zh') return base;
  }
  return 'en';
}

let chosen: LanguageChoice = $state(stored());
const shown: Language = $derived(chosen === 'system' ? choose(navigator.languages) : chosen);

function tell(): void {
  document.documentElement.lang = shown === 'zh' ? 'zh-CN' : 'en';
}

/** The language of the texts. Whoever reads it on the screen is drawn again when it changes. */
export const language = {
  get choice(): LanguageChoice {
    return chosen;
  },
  get shown(): Language {
    return shown;
  },
  /** Tells the document what was chosen the last time. */
  start: tell,
  set(choice: LanguageChoice): void {
    if (choice === chosen) return;
    chosen = choice;
    // Kept here too, so that the first picture is right before the host has answered.
    if (choice === 'system') localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, choice);
    tell();
  },
};
