import { t } from '../strings';
import { running, span } from '../text/time';
import type { ServerView } from '../wire';

/** Whether it waits for the user to sign in. */
export function wantsUser(server: ServerView): boolean {
  return server.enabled && server.sign_in !== undefined && server.sign_in.state !== 'signed_in';
}

/** The light of a server. */
export type Tone = 'off' | 'busy' | 'good' | 'warn' | 'bad';

export function toneOf(server: ServerView): Tone {
  if (!server.enabled && server.state === 'stopped') return 'off';
  switch (server.state) {
    case 'starting':
      return 'busy';
    case 'ready':
      return 'good';
    case 'degraded':
    case 'restarting':
      return 'warn';
    case 'failed':
      return wantsUser(server) ? 'warn' : 'bad';
    default:
      return 'off';
  }
}

/** The state in words. `now` in milliseconds since the epoch. */
export function wordsOf(server: ServerView, now: () => number): string {
  switch (server.state) {
    case 'stopped':
      return server.enabled ? `${t('server.state.stopped')} · ${t('server.stoppedWhat')}` : t('server.off');
    case 'starting':
      return t('server.state.starting', { span: running(now() - server.since) });
    case 'restarting':
      return t('server.state.restarting', { span: running(now() - server.since) });
    case 'ready':
    case 'degraded': {
      // The core shows a server that is being ended like this, with its process still there.
      if (server.error === 'stopping') return t('server.stopping');
      const words = [wantsUser(server) ? t('server.signIn.needed') : t(`server.state.${server.state}`)];
      if (server.tools !== null) words.push(t('tools', { n: server.tools }));
      if (server.state === 'ready' && server.ready_ms !== null) words.push(span(server.ready_ms));
      return words.join(' · ');
    }
    default:
      return wantsUser(server) ? t('server.signIn.needed') : t('server.state.failed');
  }
}
