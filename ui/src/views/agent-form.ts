import type { Row } from '../parts/rows';
import { t } from '../strings';
import { joinCommandLine, splitCommandLine } from '../text/commandline';
import type { AgentsSave, AgentView, ClientOffers } from '../wire';

/** The form of an agent as it stands. */
export interface AgentForm {
  id: string;
  name: string;
  command: string;
  env: Row[];
  offers: ClientOffers;
}

/** The form of an agent that is there (null: of a new one). Masked values stay what they are. */
export function agentFormOf(agent: AgentView | null): AgentForm {
  return {
    id: agent?.id ?? '',
    name: agent?.name ?? '',
    command: agent ? joinCommandLine([agent.command, ...agent.args]) : '',
    env: Object.entries(agent?.env ?? {}).map(([key, value]) => ({ key, value })),
    offers: { ...agent?.offers },
  };
}

/** The form of our own agent with a model: what Ollama needs, to be changed. */
export function modelFormOf(builtin: AgentView): AgentForm {
  return {
    id: 'gantry-model',
    name: t('agents.modelName'),
    command: joinCommandLine([builtin.command, ...builtin.args]),
    env: [
      { key: 'OPENAI_BASE_URL', value: 'http://localhost:11434/v1' },
      { key: 'OPENAI_MODEL', value: '' },
      { key: 'OPENAI_API_KEY', value: '' },
    ],
    offers: {},
  };
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
  // A variable without a value is one that was left out.
  const env = Object.fromEntries(rows.filter(({ value }) => value !== '').map(({ key, value }) => [key.trim(), value]));
  return { id, config: { name: form.name.trim() || id, command, args, env, offers: form.offers } };
}
