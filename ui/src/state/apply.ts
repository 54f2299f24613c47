import type { Event, History, PermissionView, SessionView, Snapshot } from '../wire';
import { object, text } from './json';
import type { State, Transcript, Turn } from './model';
import { ABOUT_THE_SESSION, aboutOf, addAnswer, addOutcome, addQuestion, addRequest, addUpdate, finishQuestion, settle, toolCallId, turnOf } from './turns';

/**
 * The one place where the state changes: pure functions from a state and what
 * came to the next state. What they do not understand is counted and left
 * aside, never thrown on: the wire may be newer than this program.
 */

/** A snapshot replaces what it covers. Conversations stay on the screen until their page is here again. */
export function applySnapshot(state: State, snapshot: Snapshot): State {
  const transcripts: Record<string, Transcript> = {};
  for (const { id } of snapshot.sessions) {
    const known = state.transcripts[id];
    if (known) transcripts[id] = { ...known, loading: true, pending: [] };
  }
  return {
    ...state,
    seq: snapshot.seq,
    version: snapshot.version,
    notice: snapshot.notice,
    lastExit: snapshot.last_exit ?? null,
    servers: snapshot.servers,
    sessions: snapshot.sessions,
    transcripts,
    shutdown: null,
  };
}

/** The state after one more event. Events up to `state.seq` are in it already. */
export function apply(state: State, event: Event): State {
  if (event.seq <= state.seq) return state;
  const next = { ...state, seq: event.seq };
  switch (event.type) {
    case 'server_changed':
      // A session may have brought a variant of a saved server under the same name.
      return {
        ...next,
        servers: put(state.servers, event.server, ({ name, saved }) => name === event.server.name && saved === event.server.saved),
      };
    case 'server_removed':
      // All of that name; what is left of them is announced again.
      return { ...next, servers: state.servers.filter((server) => server.name !== event.name) };
    case 'session_changed': {
      // Long lists are left out while they stay as they are.
      const known = state.sessions.find(({ id }) => id === event.session.id)?.settings;
      const session = event.session.settings || !known ? event.session : { ...event.session, settings: known };
      return {
        ...changeTranscript(next, session.id, (transcript) => receive(transcript, session)),
        sessions: put(state.sessions, session, ({ id }) => id === session.id),
      };
    }
    case 'session_removed': {
      const { [event.id]: _, ...transcripts } = state.transcripts;
      return { ...next, transcripts, sessions: state.sessions.filter((session) => session.id !== event.id) };
    }
    case 'turn_started':
    case 'update':
    case 'terminal_changed':
    case 'turn_ended':
      return onTranscript(next, event.session, event);
    case 'permission_requested':
      return onTranscript(
        changeSession(next, event.session, (session) => ({
          ...session,
          permissions: put(session.permissions, event.permission, ({ request }) => request === event.permission.request),
        })),
        event.session,
        event,
      );
    case 'permission_resolved':
      return onTranscript(
        changeSession(next, event.session, (session) => ({
          ...session,
          permissions: session.permissions.filter(({ request }) => request !== event.request),
        })),
        event.session,
        event,
      );
    case 'question_asked':
      return onTranscript(
        changeSession(next, event.session, (session) => ({
          ...session,
          questions: put(session.questions ?? [], event.question, ({ request }) => request === event.question.request),
        })),
        event.session,
        event,
      );
    case 'question_answered':
      return onTranscript(
        changeSession(next, event.session, (session) => ({
          ...session,
          questions: (session.questions ?? []).filter(({ request }) => request !== event.question.request),
        })),
        event.session,
        event,
      );
    case 'question_completed':
      return onTranscript(next, event.session, event);
    case 'agents_changed':
      return { ...next, agentsRevision: state.agentsRevision + 1 };
    case 'agent_install':
      return { ...next, installs: { ...state.installs, [event.id]: event.line } };
    case 'settings_changed':
      return { ...next, settings: event.settings };
    case 'shutting_down':
      return { ...next, shutdown: event.phase };
    default:
      return { ...next, ignored: state.ignored + 1 };
  }
}

/** A conversation is being opened (or opened again): its page is on the way. */
export function applyOpening(state: State, session: string): State {
  const known = state.transcripts[session];
  const transcript: Transcript = known
    ? { ...known, loading: true }
    : { loading: true, pending: [], turns: [], more: false, about: {} };
  return { ...state, transcripts: { ...state.transcripts, [session]: transcript } };
}

/** The newest page of a conversation is here. */
export function applyNewest(state: State, session: string, page: History): State {
  const view = state.sessions.find(({ id }) => id === session);
  const known = state.transcripts[session];
  if (!known) return state;
  const first = page.turns[0]?.number ?? 0;
  const before = known.turns.filter((turn) => turn.number < first);
  // Older turns stay only when nothing is missing in between.
  const joined = before.at(-1)?.number === first - 1;
  let turns = page.turns.map((turn) => keepWhatOnlyWeSaw(turnOf(turn), known.turns));
  const last = turns.at(-1);
  if (last && last.receipt.length === 0 && view) {
    turns = turns.with(-1, { ...last, receipt: view.servers });
  }
  const loaded: Transcript = {
    ...known,
    about: { ...aboutOf(page), ...known.about },
    loading: false,
    pending: [],
    turns: joined ? [...before, ...turns] : turns,
    more: joined ? known.more : page.more,
  };
  let next: State = { ...state, transcripts: { ...state.transcripts, [session]: loaded } };
  for (const event of known.pending) {
    if (event.seq > page.seq) next = changeTranscript(next, session, (transcript) => step(transcript, event));
  }
  return view ? changeTranscript(next, session, (transcript) => askAll(transcript, view)) : next;
}

/** An older page of a conversation is here. */
export function applyOlder(state: State, session: string, page: History): State {
  return changeTranscript(state, session, (transcript) => {
    const first = transcript.turns[0]?.number ?? Infinity;
    const older = page.turns.filter((turn) => turn.number < first).map(turnOf);
    return { ...transcript, turns: [...older, ...transcript.turns], more: page.more };
  });
}

/** Opened sessions without a turn whose agent has just brought a conversation along: what was said in it may be there now. */
export function restoredUnseen(before: readonly SessionView[], state: State): string[] {
  const was = new Set(before.filter(({ context }) => context === 'restored').map(({ id }) => id));
  return state.sessions
    .filter(({ id, context }) => context === 'restored' && !was.has(id) && state.transcripts[id]?.turns.length === 0)
    .map(({ id }) => id);
}

/** A conversation is not shown any more; its memory is given back. */
export function applyClosing(state: State, session: string): State {
  const { [session]: _, ...transcripts } = state.transcripts;
  return { ...state, transcripts };
}

/** The open permission requests of a session that none of its cards shows. */
export function homeless(session: SessionView, transcript: Transcript | undefined): readonly PermissionView[] {
  return session.permissions.filter((permission) => {
    const id = toolCallId(permission);
    return !transcript?.turns.some((turn) => turn.items.some((item) => item.kind === 'tool' && item.id === id));
  });
}

function onTranscript(state: State, session: string, event: Event): State {
  return changeTranscript(state, session, (transcript) =>
    transcript.loading
      ? { ...transcript, pending: [...transcript.pending, event] }
      : step(transcript, event),
  );
}

/** A loaded conversation after one more event. */
function step(transcript: Transcript, event: Event): Transcript {
  switch (event.type) {
    case 'turn_started': {
      if (transcript.turns.some((turn) => turn.id === event.turn)) return transcript;
      const turn: Turn = {
        id: event.turn,
        number: event.number,
        prompt: event.prompt,
        startedAt: event.at,
        endedAt: null,
        stopReason: null,
        description: null,
        items: [],
        terminals: [],
        receipt: [],
        context: null,
        requestId: event.request_id,
      };
      return { ...transcript, turns: [...transcript.turns, turn] };
    }
    case 'update': {
      const kind = text(object(event.update)['sessionUpdate']) ?? '';
      if (ABOUT_THE_SESSION.has(kind)) {
        return { ...transcript, about: { ...transcript.about, [kind]: event.update } };
      }
      return changeTurn(transcript, event.turn, (turn) => ({
        ...turn,
        items: addUpdate(turn.items, event.update, { at: event.at, late: turn.endedAt !== null || event.turn === null }),
      }));
    }
    case 'terminal_changed':
      return changeTurn(transcript, event.turn, (turn) => ({
        ...turn,
        terminals: put(turn.terminals, event.terminal, ({ id }) => id === event.terminal.id),
      }));
    case 'permission_requested':
      return ask(transcript, event.permission, event.at);
    case 'permission_resolved':
      return {
        ...transcript,
        turns: transcript.turns.map((turn) =>
          turn.items.some((item) => item.kind === 'tool' && item.requests.some(({ permission }) => permission.request === event.request))
            ? { ...turn, items: addOutcome(turn.items, event.request, event.outcome, event.reason) }
            : turn,
        ),
      };
    case 'question_asked':
      return changeTurn(transcript, event.question.turn, (turn) => ({
        ...turn,
        items: addQuestion(turn.items, event.question, turn.endedAt !== null),
      }));
    case 'question_answered':
      return changeTurn(transcript, event.question.turn, (turn) => ({ ...turn, items: addAnswer(turn.items, event.question) }));
    case 'question_completed':
      return { ...transcript, turns: transcript.turns.map((turn) => ({ ...turn, items: finishQuestion(turn.items, event.request) })) };
    case 'turn_ended':
      return changeTurn(transcript, event.turn, (turn) => ({
        ...turn,
        items: settle(turn.items),
        endedAt: event.at,
        stopReason: event.reason,
        description: event.description,
      }));
    default:
      return transcript;
  }
}

/** The turn with this id; the newest one when there is no id. An unknown id changes nothing. */
function changeTurn(transcript: Transcript, id: string | null, change: (turn: Turn) => Turn): Transcript {
  const place = id === null ? transcript.turns.length - 1 : transcript.turns.findLastIndex((turn) => turn.id === id);
  const turn = transcript.turns[place];
  return turn ? { ...transcript, turns: transcript.turns.with(place, change(turn)) } : transcript;
}

/** While a turn runs, what its session says about its servers is that turn's receipt. */
function receive(transcript: Transcript, session: SessionView): Transcript {
  const last = transcript.turns.at(-1);
  if (transcript.loading || !last) return transcript;
  let next = transcript;
  if (last.id === session.turn && session.servers.length > 0) {
    next = { ...next, turns: next.turns.with(-1, { ...last, receipt: session.servers }) };
  }
  return askAll(next, session);
}

function ask(transcript: Transcript, permission: PermissionView, at: number | null): Transcript {
  return changeTurn(transcript, permission.turn, (turn) => ({
    ...turn,
    items: addRequest(turn.items, permission, { at, late: turn.endedAt !== null }),
  }));
}

/** Requests that we learned from the session itself, not from an event. */
function askAll(transcript: Transcript, session: SessionView): Transcript {
  const known = new Set(
    transcript.turns.flatMap((turn) =>
      turn.items.flatMap((item) => (item.kind === 'tool' ? item.requests.map(({ permission }) => permission.request) : [])),
    ),
  );
  return session.permissions
    .filter(({ request }) => !known.has(request))
    .reduce((next, permission) => ask(next, permission, null), transcript);
}

/** Receipts, times and requests of the running turn are not in the history yet: what we saw ourselves is kept. */
function keepWhatOnlyWeSaw(fresh: Turn, known: readonly Turn[]): Turn {
  const old = known.find((turn) => turn.id === fresh.id);
  if (!old) return fresh;
  return {
    ...fresh,
    receipt: fresh.receipt.length > 0 ? fresh.receipt : old.receipt,
    context: fresh.context ?? old.context,
    requestId: old.requestId,
    items: fresh.items.map((item) => {
      if (item.kind !== 'tool') return item;
      const seen = old.items.find((other) => other.kind === 'tool' && other.id === item.id);
      if (seen?.kind !== 'tool') return item;
      const requests = item.requests.length >= seen.requests.length ? item.requests : seen.requests;
      return { ...item, startedAt: item.startedAt ?? seen.startedAt, endedAt: item.endedAt ?? seen.endedAt, requests };
    }),
  };
}

function changeSession(state: State, session: string, change: (session: SessionView) => SessionView): State {
  return { ...state, sessions: state.sessions.map((known) => (known.id === session ? change(known) : known)) };
}

function changeTranscript(state: State, session: string, change: (transcript: Transcript) => Transcript): State {
  const known = state.transcripts[session];
  if (!known) return state;
  const changed = change(known);
  return changed === known ? state : { ...state, transcripts: { ...state.transcripts, [session]: changed } };
}

/** Replaces the entry that matches, or adds it at the end. */
function put<T>(entries: readonly T[], entry: T, matches: (other: T) => boolean): T[] {
  const place = entries.findIndex(matches);
  return place < 0 ? [...entries, entry] : entries.with(place, entry);
}
