import { describe, expect, it } from 'vitest';
import type { Event, History, JsonValue } from '../wire';
import { apply, applyNewest, applyOlder, applyOpening, applySnapshot, homeless, restoredUnseen } from './apply';
import { EMPTY, type Item, type State, type ToolItem, type Turn } from './model';
import { aServer, aSession, aSnapshot, chunk, ended, PERMISSION, recording, started, update } from './recordings';

const NO_TURNS: History = { turns: [], more: false, seq: 0 };

/** A state with one opened, empty session. */
function opened(snapshot = aSnapshot(), page = NO_TURNS): State {
  return applyNewest(applyOpening(applySnapshot(EMPTY, snapshot), 's'), 's', page);
}

function play(state: State, events: Event[]): State {
  return events.reduce(apply, state);
}

function turns(state: State): readonly Turn[] {
  return state.transcripts['s']?.turns ?? [];
}

function items(state: State, turn = -1): readonly Item[] {
  return turns(state).at(turn)?.items ?? [];
}

function texts(state: State, turn = -1): string[] {
  return items(state, turn).map((item) => ('text' in item ? item.text : item.kind));
}

function tool(state: State, turn = -1): ToolItem {
  const found = items(state, turn).find((item) => item.kind === 'tool');
  if (!found) throw new Error('there is no tool card');
  return found;
}

function freeze<T>(value: T): T {
  if (value !== null && typeof value === 'object' && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(freeze);
  }
  return value;
}

describe('a turn', () => {
  it('appends pieces of text and keeps thoughts, text and tools in their order', () => {
    const state = play(
      opened(),
      recording(
        1,
        started('t1', 1, 'what is here?'),
        chunk('t1', 'Let me ', 'agent_thought_chunk'),
        chunk('t1', 'see.', 'agent_thought_chunk'),
        chunk('t1', 'I look '),
        chunk('t1', 'around.'),
        update('t1', { sessionUpdate: 'tool_call', toolCallId: 'a', title: 'ls', kind: 'execute' }),
        chunk('t1', 'Done.'),
        ended('t1', 'end_turn'),
      ),
    );
    expect(items(state).map(({ kind }) => kind)).toEqual(['thought', 'text', 'tool', 'text']);
    expect(texts(state)).toEqual(['Let me see.', 'I look around.', 'tool', 'Done.']);
    expect(turns(state)[0]).toMatchObject({ number: 1, stopReason: 'end_turn', endedAt: 1_080 });
  });

  it('starts a new message when the agent gives another id', () => {
    const piece = (messageId: string, text: string) =>
      update('t1', { sessionUpdate: 'agent_message_chunk', messageId, content: { type: 'text', text } });
    const state = play(opened(), recording(1, started('t1', 1), piece('m1', 'a'), piece('m1', 'b'), piece('m2', 'c')));
    expect(texts(state)).toEqual(['ab', 'c']);
  });

  it('merges updates of a tool call by its id and keeps fields that it does not know', () => {
    const state = play(
      opened(),
      recording(
        1,
        started('t1', 1),
        update('t1', { sessionUpdate: 'tool_call', toolCallId: 'a', title: 'Read', kind: 'read', status: 'pending', rawInput: { path: 'x' } }),
        update('t1', { sessionUpdate: 'tool_call', toolCallId: 'b', title: 'Other', kind: 'fetch' }),
        update('t1', { sessionUpdate: 'tool_call_update', toolCallId: 'a', status: 'in_progress', title: null }),
        update('t1', {
          sessionUpdate: 'tool_call_update',
          toolCallId: 'a',
          status: 'completed',
          content: [{ type: 'content', content: { type: 'text', text: 'out' } }],
          colour: 'green',
        }),
      ),
    );
    expect(items(state)).toHaveLength(2);
    expect(tool(state)).toMatchObject({ startedAt: 1_020, endedAt: 1_050 });
    expect(tool(state).call).toMatchObject({ title: 'Read', kind: 'read', status: 'completed', rawInput: { path: 'x' }, other: { colour: 'green' } });
    expect(tool(state).call.content).toHaveLength(1);
  });

  it('shows an update of a tool call that was never announced', () => {
    const state = play(opened(), recording(1, started('t1', 1), update('t1', { sessionUpdate: 'tool_call_update', toolCallId: 'z', status: 'failed' })));
    expect(tool(state)).toMatchObject({ id: 'z', call: { status: 'failed' } });
  });

  it('keeps one plan, the newest, where the first one was', () => {
    const plan = (status: string) => update('t1', { sessionUpdate: 'plan', entries: [{ content: 'one', status, priority: 'high' }] });
    const state = play(opened(), recording(1, started('t1', 1), plan('pending'), chunk('t1', 'x'), plan('completed')));
    expect(items(state)).toHaveLength(2);
    expect(items(state)[0]).toMatchObject({ kind: 'plan', entries: [{ content: 'one', status: 'completed' }] });
  });

  it('keeps an unknown update raw', () => {
    const strange = { sessionUpdate: 'hologram', depth: [1, 2] };
    const state = play(opened(), recording(1, started('t1', 1), update('t1', strange)));
    expect(items(state)).toEqual([{ kind: 'unknown', update: strange, late: false }]);
  });

  it('survives updates of no shape at all', () => {
    const odd: JsonValue[] = [null, 7, 'text', [], {}, { sessionUpdate: 3 }, { sessionUpdate: 'tool_call' }, { sessionUpdate: 'plan', entries: 'no' }, { sessionUpdate: 'agent_message_chunk' }];
    const state = play(opened(), recording(1, started('t1', 1), ...odd.map((value) => update('t1', value)), chunk('t1', 'still here')));
    expect(texts(state).at(-1)).toBe('still here');
  });

  it('keeps what concerns the session out of the turn', () => {
    const state = play(opened(), recording(1, started('t1', 1), update('t1', { sessionUpdate: 'current_mode_update', currentModeId: 'plan' })));
    expect(items(state)).toEqual([]);
    expect(state.transcripts['s']?.about['current_mode_update']).toMatchObject({ currentModeId: 'plan' });
  });

  it('stops what still ran when it ends', () => {
    const state = play(
      opened(),
      recording(1, started('t1', 1), update('t1', { sessionUpdate: 'tool_call', toolCallId: 'a', status: 'in_progress' }), ended('t1', 'cancelled')),
    );
    expect(tool(state).call.status).toBe('cancelled');
  });

  it('marks what comes after its end, and is not revived by it', () => {
    const state = play(
      opened(),
      recording(
        1,
        started('t1', 1),
        chunk('t1', 'before'),
        ended('t1', 'cancelled'),
        chunk('t1', ' after'),
        started('t2', 2),
        chunk('t2', 'new'),
        chunk('t1', ' and later'),
        update(null, { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'nobody knows whose' } }),
      ),
    );
    expect(turns(state)[0]).toMatchObject({ stopReason: 'cancelled' });
    expect(items(state, 0)).toMatchObject([
      { text: 'before', late: false },
      { text: ' after and later', late: true },
    ]);
    expect(items(state, 1)).toMatchObject([
      { text: 'new', late: false },
      { text: 'nobody knows whose', late: true },
    ]);
    expect(turns(state)[1]?.stopReason).toBeNull();
  });

  it('takes the receipt of its servers from its session while it runs', () => {
    const receipt = { name: 'everything', state: 'ready' as const, via: 'bridge' as const, tools: 13, ms: 412, error: null };
    const state = play(
      opened(),
      recording(
        1,
        started('t1', 1),
        { type: 'session_changed', session: aSession({ state: 'working', turn: 't1', servers: [receipt] }) },
        ended('t1', 'end_turn'),
        { type: 'session_changed', session: aSession({ servers: [{ ...receipt, ms: 1 }] }) },
      ),
    );
    expect(turns(state)[0]?.receipt).toEqual([receipt]);
  });
});

describe('permission requests', () => {
  const asked = recording(
    1,
    started('t1', 1),
    update('t1', { sessionUpdate: 'tool_call', toolCallId: 'call-1', title: 'rm', status: 'pending', rawInput: { command: 'rm -r build' } }),
    { type: 'permission_requested', session: 's', permission: PERMISSION },
  );

  it('belong to the card of their tool call', () => {
    const state = play(opened(), asked);
    expect(items(state)).toHaveLength(1);
    expect(tool(state)).toMatchObject({ call: { title: 'rm -r build', rawInput: { command: 'rm -r build' } }, requests: [{ outcome: null }] });
    expect(state.sessions[0]?.permissions).toEqual([PERMISSION]);
  });

  it('make a card when nobody announced the call', () => {
    const state = play(opened(), recording(1, started('t1', 1), { type: 'permission_requested', session: 's', permission: PERMISSION }));
    expect(tool(state)).toMatchObject({ id: 'call-1', call: { title: 'rm -r build', kind: 'execute' } });
  });

  it('are settled with the option and the reason, whichever event comes first', () => {
    const resolved = { type: 'permission_resolved' as const, session: 's', request: 'r1', outcome: 'cancelled', reason: 'timed out' };
    const changed = { type: 'session_changed' as const, session: aSession({ state: 'working', turn: 't1' }) };
    for (const order of [[resolved, changed], [changed, resolved]]) {
      const state = play(opened(), [...asked, ...recording(4, ...order)]);
      expect(state.sessions[0]?.permissions).toEqual([]);
      expect(tool(state).requests).toMatchObject([{ outcome: 'cancelled', reason: 'timed out' }]);
    }
  });

  it('are found again after a reload, from the snapshot alone', () => {
    const snapshot = aSnapshot({ seq: 9, sessions: [aSession({ state: 'waiting_for_you', turn: 't1', permissions: [PERMISSION] })] });
    const page: History = {
      seq: 9,
      more: false,
      turns: [{ id: 't1', number: 1, prompt: [], started_at: 1, ended_at: null, stop_reason: null, description: null, updates: [] }],
    };
    const state = opened(snapshot, page);
    expect(tool(state).requests).toMatchObject([{ permission: { request: 'r1' }, outcome: null }]);
    expect(homeless(state.sessions[0]!, state.transcripts['s'])).toEqual([]);
  });

  it('two at once for one call are both kept', () => {
    const second = { ...PERMISSION, request: 'r2' };
    const state = play(opened(), [...asked, ...recording(4, { type: 'permission_requested', session: 's', permission: second })]);
    expect(tool(state).requests.map(({ permission }) => permission.request)).toEqual(['r1', 'r2']);
  });

  it('without a turn on the screen are still somewhere', () => {
    const state = play(opened(), recording(1, { type: 'permission_requested', session: 's', permission: { ...PERMISSION, turn: 'unknown' } }));
    expect(homeless(state.sessions[0]!, state.transcripts['s'])).toHaveLength(1);
  });
});

describe('history', () => {
  const turn = (number: number, updates: JsonValue[] = []) => ({
    id: `t${number}`, number, prompt: [], started_at: number, ended_at: number, stop_reason: 'end_turn', description: null, updates,
  });

  it('holds events back until its page is here, and applies only those that the page does not have', () => {
    let state = applyOpening(applySnapshot(EMPTY, aSnapshot({ seq: 10 })), 's');
    state = play(state, recording(11, started('t1', 1), chunk('t1', 'one '), chunk('t1', 'two')));
    expect(turns(state)).toEqual([]);
    const page: History = {
      seq: 12,
      more: false,
      turns: [{ ...turn(1, [{ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'one ' } }]), ended_at: null, stop_reason: null }],
    };
    state = applyNewest(state, 's', page);
    expect(texts(state)).toEqual(['one two']);
  });

  it('goes on where it was after a gap, with the older turns', () => {
    let state = opened(aSnapshot(), { turns: [turn(2), turn(3)], more: true, seq: 0 });
    state = applyOlder(state, 's', { turns: [turn(1)], more: false, seq: 0 });
    expect(turns(state).map(({ number }) => number)).toEqual([1, 2, 3]);
    state = applySnapshot(state, aSnapshot({ seq: 50 }));
    expect(turns(state)).toHaveLength(3);
    state = applyNewest(state, 's', { turns: [turn(3), turn(4)], more: true, seq: 50 });
    expect(turns(state).map(({ number }) => number)).toEqual([1, 2, 3, 4]);
    expect(state.transcripts['s']?.more).toBe(false);
  });

  it('drops older turns rather than show a hole', () => {
    let state = opened(aSnapshot(), { turns: [turn(1), turn(2)], more: false, seq: 0 });
    state = applyNewest(applyOpening(state, 's'), 's', { turns: [turn(30), turn(31)], more: true, seq: 0 });
    expect(turns(state).map(({ number }) => number)).toEqual([30, 31]);
    expect(state.transcripts['s']?.more).toBe(true);
  });

  it('keeps durations and answers that only we saw', () => {
    let state = play(
      opened(),
      recording(
        1,
        started('t1', 1),
        { type: 'permission_requested', session: 's', permission: PERMISSION },
        { type: 'permission_resolved', session: 's', request: 'r1', outcome: 'yes', reason: null },
        update('t1', { sessionUpdate: 'tool_call_update', toolCallId: 'call-1', status: 'completed' }),
      ),
    );
    state = applySnapshot(state, aSnapshot({ seq: 20 }));
    const updates: JsonValue[] = [{ sessionUpdate: 'tool_call', toolCallId: 'call-1', title: 'rm', status: 'completed' }];
    state = applyNewest(state, 's', { turns: [turn(1, updates)], more: false, seq: 20 });
    expect(tool(state)).toMatchObject({ startedAt: 1_020, endedAt: 1_040, requests: [{ outcome: 'yes' }] });
  });

  it('shows a turn that was cut off as failed, and nothing in it as running', () => {
    const state = opened(aSnapshot(), {
      turns: [{ ...turn(1, [{ sessionUpdate: 'tool_call', toolCallId: 'a', status: 'in_progress' }]), stop_reason: null }],
      more: false,
      seq: 0,
    });
    expect(turns(state)[0]?.stopReason).toBe('error');
    expect(tool(state).call.status).toBe('cancelled');
  });
});

describe('the rest of the state', () => {
  it('keeps the long lists of a session until they are told again', () => {
    const modes = { currentModeId: 'ask', availableModes: [] };
    let state = applySnapshot(EMPTY, aSnapshot({ sessions: [{ ...aSession(), settings: { modes } }] }));
    state = play(state, recording(1, { type: 'session_changed', session: { ...aSession(), title: 'new' } }));
    expect(state.sessions[0]).toMatchObject({ title: 'new', settings: { modes } });
    state = play(state, recording(2, { type: 'session_changed', session: { ...aSession(), settings: {} } }));
    expect(state.sessions[0]!.settings).toEqual({});
  });

  it('follows servers and sessions', () => {
    let state = applySnapshot(EMPTY, aSnapshot({ servers: [aServer()] }));
    state = play(
      state,
      recording(
        1,
        { type: 'server_changed', server: aServer({ state: 'ready', tools: 13 }) },
        { type: 'server_changed', server: aServer({ name: 'second' }) },
        { type: 'session_changed', session: aSession({ id: 'x' }) },
        { type: 'session_removed', id: 's' },
        { type: 'server_removed', name: 'second' },
        { type: 'agents_changed' },
        { type: 'shutting_down', phase: 'doors' },
      ),
    );
    expect(state.servers).toMatchObject([{ name: 'everything', state: 'ready', tools: 13 }]);
    expect(state.sessions.map(({ id }) => id)).toEqual(['x']);
    expect(state).toMatchObject({ agentsRevision: 1, shutdown: 'doors', seq: 7 });
  });

  it('tells a saved server from a variant that a session brought', () => {
    let state = applySnapshot(EMPTY, aSnapshot({ servers: [aServer({ state: 'ready' })] }));
    state = play(state, recording(1, { type: 'server_changed', server: aServer({ saved: false, state: 'starting' }) }));
    expect(state.servers).toMatchObject([{ saved: true, state: 'ready' }, { saved: false, state: 'starting' }]);
    state = play(state, recording(2, { type: 'server_removed', name: 'everything' }, { type: 'server_changed', server: aServer({ state: 'ready' }) }));
    expect(state.servers).toMatchObject([{ saved: true, state: 'ready' }]);
  });

  it('takes each event once', () => {
    const events = recording(1, started('t1', 1), chunk('t1', 'once'));
    const state = play(opened(), [...events, ...events]);
    expect(texts(state)).toEqual(['once']);
  });

  it('leaves aside events that it does not know', () => {
    const strange = { seq: 1, at: 1, type: 'moon_phase', phase: 'full' } as unknown as Event;
    expect(apply(opened(), strange)).toMatchObject({ seq: 1, ignored: 1 });
  });

  it('spends nothing on conversations that nobody has opened', () => {
    const state = play(applySnapshot(EMPTY, aSnapshot()), recording(1, started('t1', 1), chunk('t1', 'x')));
    expect(state.transcripts).toEqual({});
  });

  it('never changes what it was given', () => {
    let state = freeze(opened());
    const events = recording(
      1,
      started('t1', 1),
      chunk('t1', 'a'),
      chunk('t1', 'b'),
      { type: 'permission_requested', session: 's', permission: PERMISSION },
      { type: 'permission_resolved', session: 's', request: 'r1', outcome: 'no', reason: null },
      { type: 'session_changed', session: aSession({ permissions: [PERMISSION] }) },
      { type: 'server_changed', server: aServer() },
      ended('t1', 'end_turn'),
      chunk('t1', 'late'),
    );
    for (const event of events) state = freeze(apply(state, freeze(event)));
    expect(texts(state).at(-1)).toBe('late');
  });

  it('keeps the identity of what did not change', () => {
    const before = play(opened(), recording(1, started('t1', 1), chunk('t1', 'x'), ended('t1', 'end_turn'), started('t2', 2)));
    const after = play(before, recording(5, chunk('t2', 'y')));
    expect(turns(after)[0]).toBe(turns(before)[0]);
    expect(turns(after)[1]).not.toBe(turns(before)[1]);
  });

  it('takes ten thousand pieces of text in little time', () => {
    const pieces = Array.from({ length: 10_000 }, (_, index) => chunk('t1', `${index} `));
    const begin = performance.now();
    const state = play(opened(), recording(1, started('t1', 1), ...pieces));
    expect(texts(state)[0]?.length).toBe(48_890);
    expect(performance.now() - begin).toBeLessThan(2_000);
  });
});

describe('a question of the agent', () => {
  const QUESTION = { request: 'question-1', turn: 't1', tool_call: null, mode: 'form' as const, message: 'Where?', schema: { properties: {} }, asked_at: 5 };
  const asked = { type: 'question_asked' as const, session: 's', question: QUESTION };
  const answered = { type: 'question_answered' as const, session: 's', question: { ...QUESTION, outcome: 'accept' as const, content: { name: 'Ada' }, reason: null, answered_at: 6 } };
  const completed = { type: 'question_completed' as const, session: 's', request: 'question-1' };
  const item = (state: State) => items(state).find(({ kind }) => kind === 'question');

  it('waits in the session, and stands in the turn with its answer', () => {
    const open = play(opened(), recording(1, started('t1', 1), asked, asked));
    expect(open.sessions[0]?.questions).toEqual([QUESTION]);
    expect(items(open).length).toBe(1);
    expect(item(open)).toMatchObject({ outcome: null });
    const done = play(open, recording(9, answered, completed));
    expect(done.sessions[0]?.questions).toEqual([]);
    expect(item(done)).toMatchObject({ outcome: 'accept', content: { name: 'Ada' }, isDone: true });
  });

  it('comes from a page of history too', () => {
    const page: History = {
      more: false,
      seq: 3,
      turns: [{ id: 't1', number: 1, prompt: [], started_at: 1, ended_at: 2, stop_reason: 'end_turn', description: null, updates: [], questions: [{ ...answered.question, outcome: 'decline' }] }],
    };
    expect(item(opened(aSnapshot(), page))).toMatchObject({ outcome: 'decline' });
  });
});

describe('a conversation that an agent brings along', () => {
  const restored = (id: string) => aSession({ id, context: 'restored' });
  const changed = (id: string): Event => ({ type: 'session_changed', session: restored(id), seq: 1, at: 1 });

  it('is looked at anew once, where it is open and nothing of it is shown', () => {
    const before = opened();
    const after = apply(before, changed('s'));
    expect(restoredUnseen(before.sessions, after)).toEqual(['s']);
    expect(restoredUnseen(after.sessions, after)).toEqual([]);
  });

  it('is left alone where something is shown, or nobody looks', () => {
    const before = play(opened(), recording(1, started('t1', 1), ended('t1', 'end_turn')));
    expect(restoredUnseen(before.sessions, apply(before, { ...changed('s'), seq: 9 }))).toEqual([]);
    const closed = applySnapshot(EMPTY, aSnapshot());
    expect(restoredUnseen(closed.sessions, apply(closed, changed('s')))).toEqual([]);
  });
});
