import { describe, expect, it } from 'vitest';
import { findIn } from '../parts/find';
import { matchingSessions } from '../state/groups';
import type { Transcript } from '../state/model';
import { aSession } from '../state/recordings';
import type { ProcessNode, TurnView } from '../wire';
import { chipsOf, choicesOf } from './about';
import { readAgentForm } from './agent-form';
import { matchingConversations, timeOf } from './conversations';
import { wishOf } from './keys';
import { marks } from './marks';
import { isToolOn, readConfig, withTool } from './server-config';
import { linesOf } from './traffic';
import { answerOf } from './transcript';
import { turnOf } from '../state/turns';
import { bytes, memoryOf, memoryOfTree, rowsOf } from './tree';

describe('a configuration as JSON', () => {
  const problem = (json: string): string => {
    const read = readConfig(json);
    return 'problem' in read ? read.problem : '';
  };

  it('is checked field by field', () => {
    expect(problem('{"command": "x",}')).toMatch(/line 1, column/);
    expect(problem('[]')).toMatch(/object/);
    expect(problem('{"command":"x","args":"-y"}')).toMatch(/args/);
    expect(problem('{"command":"x","env":{"A":1}}')).toMatch(/env/);
    expect(problem('{"command":"x","url":"http://a"}')).toMatch(/exactly one/);
    expect(problem('{}')).toMatch(/exactly one/);
  });

  it('keeps what we do not know, and leaves out what is null', () => {
    expect(readConfig('{"command":"x","cwd":null,"args":[],"later":{"a":1}}')).toEqual({ config: { command: 'x', args: [], later: { a: 1 } } });
  });
});

describe('the switch of a tool', () => {
  const known = ['a', 'b', 'c'];

  it('denies it, and allows it again', () => {
    const off = withTool({ command: 'x' }, 'a', false, known);
    expect(off.denyTools).toEqual(['a']);
    expect(isToolOn(off, 'a')).toBe(false);
    expect(isToolOn(withTool(off, 'a', true, known), 'a')).toBe(true);
  });

  it('never turns the last allowed one into "all"', () => {
    const two = { command: 'x', allowTools: ['a', 'b'] };
    const one = withTool(two, 'a', false, known);
    expect(known.filter((tool) => isToolOn(one, tool))).toEqual(['b']);
    const none = withTool(one, 'b', false, known);
    expect(known.filter((tool) => isToolOn(none, tool))).toEqual([]);
    expect(known.filter((tool) => isToolOn(withTool(none, 'c', true, known), tool))).toEqual(['c']);
  });
});

describe('conversations of an agent', () => {
  const one = (id: string, title: string | null, updated_at: string | null = null) => ({ id, title, updated_at, session: null });

  it('are found by their title, or by their id where they have none', () => {
    const all = [one('a', 'Parse the Feed'), one('b', '修复测试'), one('FEED-7', null)];
    const ids = (wanted: string): string[] => matchingConversations(all, wanted).map(({ id }) => id);
    expect(ids(' ')).toEqual(['a', 'b', 'FEED-7']);
    expect(ids('feed')).toEqual(['a', 'FEED-7']);
    expect(ids('feed parse')).toEqual(['a']);
    expect(ids('测试')).toEqual(['b']);
  });

  it('have a time, unless the agent writes none that can be read', () => {
    expect(timeOf(one('a', null, '2026-11-30T10:00:00Z'))).toBe(Date.UTC(2026, 10, 30, 10));
    expect(timeOf(one('a', null, 'lately'))).toBeNull();
    expect(timeOf(one('a', null))).toBeNull();
  });
});

describe('sessions', () => {
  it('are found by words of their title and their folder', () => {
    const sessions = [aSession({ id: 'a', title: 'Parse the Feed', project: '/home/u/rail' }), aSession({ id: 'b', title: '修复测试', project: '/home/u/other' })];
    const ids = (wanted: string): string[] => matchingSessions(sessions, wanted).map(({ id }) => id);
    expect(ids('')).toEqual(['a', 'b']);
    expect(ids('feed RAIL')).toEqual(['a']);
    expect(ids('测试')).toEqual(['b']);
    expect(ids('feed other')).toEqual([]);
  });
});

describe('the traffic', () => {
  const at = 1;
  it('names answers by their question, whoever asked', () => {
    const lines = linesOf([
      { at, from_agent: false, message: { id: 1, method: 'session/prompt', params: { a: 1 } } },
      { at, from_agent: true, message: { id: 1, method: 'session/request_permission', params: {} } },
      { at, from_agent: true, message: { method: 'session/update', params: { update: { sessionUpdate: 'plan' } } } },
      { at, from_agent: false, message: { id: 1, result: { outcome: 'x' } } },
      { at, from_agent: true, message: { id: 1, error: { code: -1, message: 'no' } } },
      { at, from_agent: true, message: 'cut…' },
    ]);
    expect(lines.map(({ method }) => method)).toEqual(['session/prompt', 'session/request_permission', 'plan', 'session/request_permission', 'session/prompt', '…']);
    expect(lines.map(({ isAnswer, isError }) => [isAnswer, isError])).toEqual([[false, false], [false, false], [false, false], [true, false], [true, true], [false, false]]);
    expect(lines[0]?.text).toBe('{"a":1}');
    expect(new Set(lines.map(({ key }) => key)).size).toBe(6);
  });
});

describe('a snippet', () => {
  it('is cut at its matches; a lone bracket is text', () => {
    expect(marks('a «b» c')).toEqual([{ text: 'a ', isMatch: false }, { text: 'b', isMatch: true }, { text: ' c', isMatch: false }]);
    expect(marks('»x« «y»')).toEqual([{ text: '»x« ', isMatch: false }, { text: 'y', isMatch: true }]);
  });
});

describe('the answer of a turn', () => {
  it('is its text alone', () => {
    const view: TurnView = {
      id: 't1', number: 1, prompt: [], started_at: 1, ended_at: 2, stop_reason: 'end_turn', description: null,
      updates: [{ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text: 'hm' } }, { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'Hello **you**' } }],
    };
    expect(answerOf(turnOf(view))).toBe('Hello **you**');
  });
});

describe('what the agent tells about the session', () => {
  it('is shown in short', () => {
    const about = {
      current_mode_update: { sessionUpdate: 'current_mode_update', currentModeId: 'plan' },
      usage_update: { sessionUpdate: 'usage_update', used: 50_000, size: 200_000, cost: { amount: 0.5, currency: 'USD' } },
      config_option_update: { configOptions: [{ id: 'model', name: 'Model', type: 'select', currentValue: 'm1', options: [{ value: 'm1', name: 'Model One' }] }] },
    };
    const chips = chipsOf({ loading: false, pending: [], turns: [], more: false, about } as unknown as Transcript);
    expect(chips.map(({ text }) => text)).toEqual(['plan', 'Model One', '25%']);
    expect(chips[2]?.title).toBe('50,000 of 200,000 tokens of context · Cost so far: $0.50');
    expect(chipsOf(undefined)).toEqual([]);
  });
});

describe('what can be chosen in a session', () => {
  it('comes from the newer options first, then from the older modes and models', () => {
    const mode = { currentModeId: 'ask', availableModes: [{ id: 'ask', name: 'Ask' }, { id: 'code', name: 'Code' }] };
    const models = { currentModelId: 'a', availableModels: [{ modelId: 'a', name: 'A' }, { modelId: 'b', name: 'B' }] };
    expect(choicesOf({ modes: mode, models }).map(({ kind, value }) => [kind, value])).toEqual([['mode', 'ask'], ['model', 'a']]);
    const option = { id: 'm', name: 'Mode', category: 'mode', type: 'select', currentValue: 'x', options: [{ group: 'g', name: 'G', options: [{ value: 'x', name: 'X' }, { value: 'y', name: 'Y' }] }] };
    expect(choicesOf({ modes: mode, options: [option] })).toEqual([{ kind: 'option', id: 'm', name: 'Mode', value: 'x', choices: [{ value: 'x', name: 'X' }, { value: 'y', name: 'Y' }] }]);
    expect(choicesOf(undefined)).toEqual([]);
  });
});

describe('the form of an agent', () => {
  it('is read, or says what is wrong', () => {
    const form = { id: 'my-agent', name: '', command: '"/opt/my agent" --acp', env: [{ key: 'K', value: 'v' }], offers: {} };
    expect(readAgentForm(form, new Set())).toEqual({ id: 'my-agent', config: { name: 'my-agent', command: '/opt/my agent', args: ['--acp'], env: { K: 'v' }, offers: {} } });
    for (const bad of [{ ...form, id: 'a b' }, { ...form, command: ' ' }, { ...form, command: '"x' }, { ...form, env: [{ key: '', value: 'v' }] }]) {
      expect(readAgentForm(bad, new Set())).toHaveProperty('problem');
    }
    expect(readAgentForm(form, new Set(['my-agent']))).toHaveProperty('problem');
  });
});

describe('shortcuts', () => {
  const press = (init: KeyboardEventInit, target: HTMLElement = document.body): KeyboardEvent => {
    const event = new KeyboardEvent('keydown', init);
    Object.defineProperty(event, 'target', { value: target });
    return event;
  };

  it('leave writing alone', () => {
    expect(wishOf(press({ key: '?' }))).toBe('keys');
    expect(wishOf(press({ key: '?' }, document.createElement('textarea')))).toBeNull();
    expect(wishOf(press({ key: 'f', ctrlKey: true }, document.createElement('textarea')))).toBe('find');
    expect(wishOf(press({ key: 'f', ctrlKey: true, repeat: true }))).toBeNull();
    expect(wishOf(press({ key: '˜', code: 'KeyN', altKey: true }))).toBe('new');
    expect(wishOf(press({ key: 'n', code: 'KeyN' }))).toBeNull();
  });
});

describe('the tree of processes', () => {
  it('becomes lines, with the fair share of memory where it is known', () => {
    const node = (pid: number, children: ProcessNode[] = []): ProcessNode => ({ pid, children, started: 0, name: 'x', role: 'child', owner: null, cpu: 0, rss: 100, uptime_ms: 0 });
    expect(rowsOf([node(1, [node(2, [node(3)]), node(4)])]).map(({ node, depth }) => [node.pid, depth])).toEqual([[1, 0], [2, 1], [3, 2], [4, 1]]);
    expect(memoryOf(node(1))).toBe(100);
    expect(memoryOf({ ...node(1), pss: 40 })).toBe(40);
    expect(memoryOfTree([node(1, [node(2, [node(3)]), node(4)])], 2)).toBe(200);
    expect(memoryOfTree([node(1)], 7)).toBeNull();
    expect(bytes(41.5 * 1024 * 1024, 'en')).toBe('41.5 MB');
    expect(bytes(512, 'en')).toBe('512 B');
    expect(bytes(512, 'zh')).toBe('512 B');
  });
});

describe('finding', () => {
  it('goes over the borders of inline elements, not of blocks', () => {
    const root = document.createElement('div');
    root.innerHTML = '<p>One <b>Tw</b>o three</p><p>two</p><p class="unseen">two</p>';
    expect(findIn(root, 'two').map((range) => range.toString())).toEqual(['Two', 'two']);
    expect(findIn(root, 'threetwo')).toEqual([]);
    expect(findIn(root, ' ')).toEqual([]);
  });
});
