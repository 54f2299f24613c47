import { describe, expect, it } from 'vitest';
import type { Turn } from '../state/model';
import type { LastExit, TreeEnd } from '../wire';
import { byProject, endsWith, recentProjects } from '../state/groups';
import { aServer, aSession } from '../state/recordings';
import { announce } from './announce';
import { Follower } from './follow';
import { lastExitWords } from './last-exit';
import { type Form, formOf, readForm } from './server-form';
import { canStop, olderThan, stopWords } from './session';
import { above, below, distance, MOST, partsOf, type Spot, STEP } from './window';

describe('following the end', () => {
  let now = 0;
  const at = (top: number, height: number) => ({ top, height, inside: 500 });

  it('goes on while text comes between our move and its scroll event', () => {
    const follower = new Follower(() => now);
    follower.moved(at(500, 1000));
    follower.scrolled(at(500, 1400));
    expect(follower.isAtEnd).toBe(true);
    // The browser moved us up a little, because something above became lower.
    follower.scrolled(at(450, 1400));
    expect(follower.isAtEnd).toBe(true);
  });

  it('ends when the reader goes up, and begins again near the end', () => {
    const follower = new Follower(() => now);
    follower.moved(at(500, 1000));
    follower.gesture();
    follower.scrolled(at(300, 1000));
    expect(follower.isAtEnd).toBe(false);
    follower.scrolled(at(400, 1000));
    expect(follower.isAtEnd).toBe(false);
    follower.scrolled(at(450, 1000));
    expect(follower.isAtEnd).toBe(true);
    now += 1000;
    follower.scrolled(at(100, 1000));
    expect(follower.isAtEnd).toBe(false);
  });
});

describe('the window of turns', () => {
  const turn = (number: number, items: number): Turn => ({
    id: `t${number}`, number, prompt: [], startedAt: 1, endedAt: 2, stopReason: 'end_turn', description: null, receipt: [], terminals: [], context: null, requestId: null,
    items: Array.from({ length: items }, () => ({ kind: 'thought', text: 'x', id: null, late: false })),
  });

  const all = [turn(1, 3), turn(2, 700), turn(3, 0), turn(4, STEP), ...Array.from({ length: 60 }, (_, n) => turn(n + 5, n % 7))];

  it('shows a short conversation whole, and a long one from its end', () => {
    const short = [turn(1, 3), turn(2, 3)];
    expect(above(short, null, STEP)).toEqual({ number: 1, item: 0 });
    expect(partsOf(short, { number: 1, item: 0 }, null).map(({ from, to }) => [from, to])).toEqual([[0, null], [0, null]]);
    const long = [turn(1, 5), turn(2, 5000)];
    expect(above(long, null, STEP)).toEqual({ number: 2, item: 5000 - STEP });
    expect(above([], null, STEP)).toEqual({ number: 0, item: 0 });
    // A turn that is a little longer than its place is shown whole.
    expect(above([turn(1, 9), turn(2, STEP + 5)], null, STEP)).toEqual({ number: 2, item: 0 });
  });

  it('goes up to the beginning and down to the end in steps, and is never too large', () => {
    const seen = new Set<string>();
    const look = (start: Spot, end: Spot | null): void => {
      for (const { turn, from, to } of partsOf(all, start, end)) {
        if (from === 0) seen.add(`${turn.number} prompt`);
        for (let item = from; item < (to ?? turn.items.length); item++) seen.add(`${turn.number} ${item}`);
      }
    };
    let start = above(all, null, STEP);
    let end: Spot | null = null;
    let steps = 0;
    for (; start.number > 1 || start.item > 0; steps++) {
      const before = start;
      start = above(all, start, STEP);
      expect(distance(all, start, before)).toBeGreaterThan(0);
      if (distance(all, start, end) > MOST) end = below(all, start, MOST);
      expect(distance(all, start, end)).toBeLessThanOrEqual(MOST + STEP);
      look(start, end);
    }
    const total = all.reduce((sum, { items }) => sum + items.length + 1, 0);
    expect(steps).toBeLessThan((2 * total) / STEP);
    for (let down = 0; end !== null; down++) {
      expect(down).toBeLessThan((2 * total) / STEP);
      end = below(all, end, STEP);
      if (distance(all, start, end) > MOST) start = above(all, end, MOST);
      look(start, end);
    }
    look(above(all, null, STEP), null);
    expect(seen.size).toBe(total);
  });
});

describe('announcements', () => {
  const turn = (text: string, stopReason: string | null = null): Turn => ({
    id: 't', number: 1, prompt: [], startedAt: 1, endedAt: null, stopReason, description: null, receipt: [], terminals: [], context: null, requestId: null,
    items: [{ kind: 'text', from: 'agent', text, id: null, late: false }],
  });

  it('are whole paragraphs, each once, and the rest at the end', () => {
    const first = announce(turn('One tw'), null);
    expect(first.text).toBe('');
    const second = announce(turn('One two.\n\nThree'), first.after);
    expect(second.text).toBe('One two.');
    expect(announce(turn('One two.\n\nThree f'), second.after).text).toBe('');
    expect(announce(turn('One two.\n\nThree four.', 'end_turn'), second.after).text).toBe('Three four.');
  });
});

describe('sessions', () => {
  const sessions = [
    aSession({ id: 'a', project: '/x', created_at: 1, last_activity: 9 }),
    aSession({ id: 'b', project: '/y', created_at: 2, last_activity: 2 }),
    aSession({ id: 'c', project: '/x', created_at: 3, last_activity: 3 }),
  ];

  it('are grouped by project, the newest first, whatever moves', () => {
    expect(byProject(sessions).map(({ project, sessions }) => [project, sessions.map(({ id }) => id)])).toEqual([
      ['/x', ['c', 'a']],
      ['/y', ['b']],
    ]);
    expect(recentProjects(sessions, 1)).toEqual(['/x']);
  });

  it('say what a stop ends', () => {
    const session = aSession({ engine: { pid: 1, sessions: 1 } });
    const servers = [
      aServer({ name: 'mine', used_by: ['s'] }),
      aServer({ name: 'ours', used_by: ['s', 'other'] }),
      aServer({ name: 'always', lifetime: 'persistent', used_by: ['s'] }),
    ];
    expect(endsWith(session, servers)).toEqual(['mine']);
    expect(stopWords(session, servers)).toMatch(/everything the agent started.*only this session uses end too: mine\./);
    expect(stopWords(aSession({ engine: { pid: 1, sessions: 3 } }), [])).toMatch(/2 other sessions keep the agent running/);
    expect(canStop(aSession({ state: 'stopped' }))).toBe(false);
    expect(canStop(aSession({ state: 'failed', engine: null }))).toBe(false);
    expect(canStop(session)).toBe(true);
  });

  it('is old when it was at rest for so long, never while it runs', () => {
    const day = 86_400_000;
    const now = 1000 * day;
    const at = (days: number, state: 'stopped' | 'idle') => aSession({ id: `${state} ${days}`, state, last_activity: now - days * day });
    const all = [at(91, 'stopped'), at(89, 'stopped'), at(400, 'idle')];
    expect(olderThan(all, 90, now).map(({ id }) => id)).toEqual(['stopped 91']);
  });
});

describe('the form of a server', () => {
  const form: Form = { kind: 'command', name: ' everything ', command: 'npx -y "a b"', url: '', isSse: false, json: '', env: [], headers: [], isPersistent: true };
  const none = new Set<string>();

  it('reads a command line and an environment', () => {
    const env = [{ key: ' K ', value: ' v ' }, { key: '', value: '' }];
    expect(readForm({ ...form, env }, none)).toEqual({
      servers: [{ name: 'everything', config: { command: 'npx', args: ['-y', 'a b'], env: { K: ' v ' }, enabled: true, persistent: true } }],
    });
  });

  it('changes a server without losing what it does not show', () => {
    const old = aServer({
      enabled: false,
      config: { command: 'npx', args: ['-y', 'a b'], env: { KEY: '•••' }, cwd: '/x', allowTools: ['echo'], persistent: true },
    });
    const filled = formOf(old);
    expect(filled).toMatchObject({ kind: 'command', command: 'npx -y "a b"', env: [{ key: 'KEY', value: '•••' }], isPersistent: true });
    expect(readForm(filled, new Set(['everything']), old)).toEqual({ servers: [{ name: 'everything', config: { ...old.config, enabled: false } }] });
    expect(readForm({ ...filled, command: 'uvx x' }, new Set(), old)).toMatchObject({
      servers: [{ config: { command: 'uvx', args: ['x'], cwd: '/x', allowTools: ['echo'] } }],
    });
  });

  it('reads an address', () => {
    expect(readForm({ ...form, kind: 'url', url: 'https://x.example/mcp', isSse: true }, none)).toMatchObject({
      servers: [{ config: { url: 'https://x.example/mcp', transport: 'sse' } }],
    });
  });

  it.each<[Partial<Form>, RegExp]>([
    [{ name: '  ' }, /name/],
    [{ name: 'taken' }, /already/],
    [{ command: ' ' }, /command/],
    [{ command: 'a "b' }, /quotation mark/],
    [{ env: [{ key: '', value: 'x' }] }, /variable/],
    [{ kind: 'url', url: 'ftp://x' }, /http/],
    [{ kind: 'json', json: '{"taken":{"command":"x"}}' }, /already/],
    [{ kind: 'json', json: '{"a":' }, /JSON/],
  ])('says what is wrong with %j', (change, words) => {
    expect(readForm({ ...form, ...change }, new Set(['taken']))).toMatchObject({ problem: expect.stringMatching(words) });
  });
});

describe('the last exit', () => {
  const last = (change: Partial<LastExit>): LastExit => ({ summary: 'its own words', crashed: false, cut_short: false, trees: [], leftovers: [], report: '', ...change });
  const tree = (name: string, how: TreeEnd['how']): TreeEnd => ({ name, role: 'server', how, processes: 2, forced: 0, ms: 5 });
  const found = (pid: number, ended: boolean) => ({ pid, program: 'node', ended });

  it('is told in the words of the language', () => {
    expect(lastExitWords(last({ crashed: true }))).toBe('Gantry ended unexpectedly. No process was left over.');
    expect(lastExitWords(last({ crashed: true, leftovers: [found(1, true), found(2, true)] }))).toBe('Gantry ended unexpectedly. 2 leftover processes were ended.');
    expect(lastExitWords(last({ trees: [tree('a', 'killed'), tree('b', 'exited'), tree('c', 'left')] }))).toContain('were killed: a, c.');
    expect(lastExitWords(last({ leftovers: [found(1, false)] }))).toContain('end it by hand');
    expect(lastExitWords(last({ cut_short: true }))).toContain('could not do everything');
  });

  it('is told in the words of the host when nothing else is known', () => {
    expect(lastExitWords(last({}))).toBe('its own words');
  });
});
