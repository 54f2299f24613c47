import type { Row } from '../parts/rows';
import { t } from '../strings';
import { splitCommandLine } from '../text/commandline';
import type { AgentsSave } from '../wire';

/** The form of a new agent as it stands. */
export interface AgentForm {
  id: string;
  name: string;
  command: string;
  env: Row[];
}

/** What the form says, or what is wrong with it in words. */
export function readAgentForm(form: AgentForm, taken: ReadonlySet<string>): AgentsSave | { problem: string } {
  const id = form.id.trim();
  if (!/^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(id)) return { problem: t('agents.error.id') };
  if (taken.has(id)) return { problem: t('agents.error.taken') };
  const split = splitCommandLine(form.command);
  if ('problem' in split) return { problem: t('form.error.quote') };
  const [command, ...args] = split.words;
  if (!command) return { problem: t('agents.error.command') };
  const rows = form.env.filter(({ key, value }) => key.trim() !== '' || value !== '');
  if (rows.some(({ key }) => key.trim() === '')) return { problem: t('form.error.envKey') };
  const env = Object.fromEntries(rows.map(({ key, value }) => [key.trim(), value]));
  return { id, config: { name: form.name.trim() || id, command, args, env } };
}
