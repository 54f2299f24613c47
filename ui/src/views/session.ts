import { asBackendError } from '../backend';
import { endsWith } from '../state/groups';
import type { Gantry } from '../state/gantry.svelte';
import { t } from '../strings';
import type { AgentView, JsonValue, Policy, QuestionAction, ServerView, SessionState, SessionView } from '../wire';

/** What a session's agent may do without asking, the most careful first. */
export const POLICIES: readonly Policy[] = ['ask', 'reads', 'all'];

/** The light of a session. */
export const TONES: Record<SessionState, 'idle' | 'busy' | 'good' | 'warn' | 'bad' | 'off'> = {
  starting: 'busy',
  idle: 'good',
  working: 'busy',
  waiting_for_you: 'warn',
  cancelling: 'warn',
  stopped: 'off',
  failed: 'bad',
};

/** Lights that breathe: something is happening. */
export const ALIVE: ReadonlySet<SessionState> = new Set(['starting', 'working', 'waiting_for_you', 'cancelling']);

/** The name of an agent. That of our own is a text of ours. */
export function nameOf(agent: AgentView | undefined): string | undefined {
  return agent?.builtin ? t('agent.builtin') : agent?.name;
}

/** How many requests and questions of a session wait for the user; at least one, where it is asked. */
export function waitingIn(session: SessionView): number {
  return session.permissions.length + (session.questions ?? []).length || 1;
}

/** Answers a question; gives what the host says against it, or null when it is settled. */
export async function answerQuestion(gantry: Gantry, session: string, request: string, action: QuestionAction, content?: Record<string, JsonValue>): Promise<string | null> {
  try {
    await gantry.backend.call('session_answer', content === undefined ? { session, request, action } : { session, request, action, content });
    return null;
  } catch (thrown) {
    return asBackendError(thrown).message;
  }
}

/** Whether there is anything to stop. */
export function canStop(session: SessionView): boolean {
  return session.state !== 'stopped' && !(session.state === 'failed' && session.engine === null);
}

/** What a stop of this session ends, for the button's tooltip. */
export function stopWords(session: SessionView, servers: readonly ServerView[]): string {
  const others = (session.engine?.sessions ?? 1) - 1;
  const ending = endsWith(session, servers);
  return [
    others > 0 ? t('session.stopShared', { n: others }) : t('session.stopLast'),
    ending.length > 0 ? t('session.stopServers', { names: ending.join(', ') }) : '',
    t('session.stopKeeps'),
  ]
    .filter((part) => part !== '')
    .join(' ');
}

export async function stopSession(gantry: Gantry, session: string, force = false): Promise<void> {
  const stopped = await gantry.try('session_stop', force ? { session, force } : { session });
  if (!stopped) return;
  const n = stopped.processes_ended;
  gantry.toast('good', n > 0 ? t('session.stoppedProcesses', { n }) : t('session.stopped'));
}

/** Sessions that were at rest for more than so many days; none that runs. */
export function olderThan(sessions: readonly SessionView[], days: number, now: number): SessionView[] {
  const before = now - days * 86_400_000;
  return sessions.filter((session) => session.last_activity < before && !canStop(session));
}
