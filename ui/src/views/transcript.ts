import { object, text } from '../state/json';
import type { Item, Turn } from '../state/model';
import { promptText, turnOf } from '../state/turns';
import { t, tOr } from '../strings';
import { plain, pretty } from '../text/plain';
import type { Backend } from '../backend';
import type { SessionView, TurnView } from '../wire';
import { outputOf } from '../parts/content';

/** Turns that are asked for at a time. */
const PAGE = 100;

/** The whole history of a session, oldest first. */
export async function wholeHistory(backend: Backend, session: string): Promise<TurnView[]> {
  let turns: TurnView[] = [];
  for (;;) {
    const before = turns[0]?.number;
    const page = await backend.call('session_history', { session, limit: PAGE, ...(before === undefined ? {} : { before }) });
    turns = [...page.turns, ...turns];
    if (!page.more || page.turns.length === 0) return turns;
  }
}

/** A fence that the text itself does not contain. */
function fenced(code: string, language = ''): string {
  const longest = Math.max(2, ...[...code.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}${language}\n${code.replace(/\n$/, '')}\n${fence}`;
}

function quoted(words: string): string {
  return words.split('\n').map((line) => `> ${line}`.trimEnd()).join('\n');
}

function itemMarkdown(item: Item): string {
  switch (item.kind) {
    case 'text':
      return item.from === 'agent' ? item.text.trim() : '';
    case 'thought':
      return `<details><summary>${t('chat.thought')}</summary>\n\n${quoted(item.text.trim())}\n\n</details>`;
    case 'plan':
      return item.entries.map(({ content, status }) => `- [${status === 'completed' ? 'x' : ' '}] ${content}`).join('\n');
    case 'tool': {
      const { call } = item;
      const parts = [`**${tOr(`tool.kind.${call.kind}`, call.kind)}: ${call.title}** (${tOr(`tool.status.${call.status}`, call.status)})`];
      if (call.rawInput !== undefined && call.rawInput !== null) parts.push(fenced(pretty(call.rawInput), typeof call.rawInput === 'string' ? '' : 'json'));
      for (const piece of outputOf(call)) {
        if (piece.kind === 'text' || piece.kind === 'markdown') parts.push(fenced(plain(piece.text)));
        else if (piece.kind === 'json') parts.push(fenced(piece.text, 'json'));
        else if (piece.kind === 'diff') parts.push(`\`${piece.path}\``, fenced(piece.lines.map(({ sign, text }) => `${sign}${text}`).join('\n'), 'diff'));
        else if (piece.kind === 'link') parts.push(`<${piece.url}>`);
      }
      return parts.join('\n\n');
    }
    case 'content': {
      const block = object(item.block);
      return block['type'] === 'resource_link' ? `<${text(block['uri']) ?? ''}>` : '';
    }
    default:
      return '';
  }
}

/** The agent's answer in a turn: its text alone. */
export function answerOf(turn: Turn): string {
  return turn.items
    .map((item) => (item.kind === 'text' && item.from === 'agent' ? item.text.trim() : ''))
    .filter((part) => part !== '')
    .join('\n\n');
}

/** One turn as Markdown. */
export function turnMarkdown(turn: Turn): string {
  const parts = [`## ${t('chat.you')}`, promptText(turn.prompt).trim(), '## Agent', ...turn.items.map(itemMarkdown)];
  if (turn.stopReason !== null && turn.stopReason !== 'end_turn') {
    const words = tOr(`turn.end.${turn.stopReason}`, t('turn.end.other', { reason: turn.stopReason }));
    parts.push(`*${words}${turn.description ? `: ${turn.description}` : ''}*`);
  }
  return parts.filter((part) => part !== '').join('\n\n');
}

/** A conversation as Markdown. */
export function sessionMarkdown(session: SessionView, turns: readonly TurnView[]): string {
  const head = [`# ${session.title || t('sessions.untitled')}`, `${session.agent} · ${session.project} · ${new Date(session.created_at).toISOString()}`];
  return [...head, ...turns.map((turn) => turnMarkdown(turnOf(turn)))].join('\n\n') + '\n';
}

/** A conversation as JSON, with all updates as the agent sent them. */
export function sessionJson(session: SessionView, turns: readonly TurnView[]): string {
  const { id, title, agent, project, created_at, last_activity } = session;
  return `${JSON.stringify({ format: 'gantry-session/1', session: { id, title, agent, project, created_at, last_activity }, turns }, null, 2)}\n`;
}

/** A name for the file of a conversation, safe on every system. */
export function fileName(session: SessionView, extension: string): string {
  const base = (session.title || 'session').replace(/[\u0000-\u001F<>:"/\\|?*]+/g, ' ').replace(/\s+/g, ' ').trim().slice(0, 60);
  return `${base.replace(/^\.+|[. ]+$/g, '') || 'session'}.${extension}`;
}
