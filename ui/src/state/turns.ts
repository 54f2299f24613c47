import type { AnsweredQuestion, History, JsonValue, PermissionView, QuestionView, SessionView, TurnView } from '../wire';
import { type JsonObject, list, object, text } from './json';
import type { Item, PlanEntry, ToolCall, ToolItem, Turn } from './model';

/** Updates that concern the session, not a turn. */
export const ABOUT_THE_SESSION = new Set([
  'available_commands_update',
  'current_mode_update',
  'config_option_update',
  'session_info_update',
  'usage_update',
]);

/** The last update of each kind in a page that concerns the session. */
export function aboutOf(page: History): Readonly<Record<string, JsonValue>> {
  const about: Record<string, JsonValue> = {};
  for (const turn of page.turns) {
    for (const update of turn.updates) {
      const kind = text(object(update)['sessionUpdate']) ?? '';
      if (ABOUT_THE_SESSION.has(kind)) about[kind] = update;
    }
  }
  return about;
}

/** A turn of a history page. */
export function turnOf(view: TurnView): Turn {
  const turn: Turn = {
    id: view.id,
    number: view.number,
    prompt: view.prompt,
    startedAt: view.started_at,
    endedAt: null,
    stopReason: null,
    description: view.description,
    items: [],
    terminals: view.terminals ?? [],
    receipt: view.opening?.servers ?? [],
    context: view.opening?.context ?? null,
    requestId: null,
  };
  const items = itemsOf(view);
  const ended = view.ended_at !== null || view.stop_reason !== null;
  return {
    ...turn,
    items: ended ? settle(items) : items,
    endedAt: view.ended_at,
    stopReason: view.stop_reason ?? (view.ended_at === null ? null : 'error'),
  };
}

/** What is in a turn of a history page. */
function itemsOf(view: TurnView): readonly Item[] {
  const read: Item[] = [];
  for (const update of view.updates) put(read, update, { at: null, late: false });
  let items: readonly Item[] = read;
  for (const permission of view.permissions ?? []) {
    items = addRequest(items, permission, { at: null, late: false });
    items = addOutcome(items, permission.request, permission.outcome, permission.reason);
  }
  for (const question of view.questions ?? []) items = addAnswer(items, question);
  const times = view.tools ?? {};
  return items.map((item) => {
    const seen = item.kind === 'tool' ? times[item.id] : undefined;
    return item.kind === 'tool' && seen ? { ...item, startedAt: seen.started_at, endedAt: seen.ended_at } : item;
  });
}

/** When an update came (null: not known), and whether its turn was over by then. */
export interface Moment {
  at: number | null;
  late: boolean;
}

/** The items of a turn after one more ACP update. */
export function addUpdate(items: readonly Item[], update: JsonValue, moment: Moment): readonly Item[] {
  const fields = object(update);
  if (ABOUT_THE_SESSION.has(String(fields['sessionUpdate'])) || isNothing(fields)) return items;
  const next = [...items];
  put(next, update, moment);
  return next;
}

/** A chunk without a letter: it begins no text, and adds nothing to one. */
function isNothing(fields: JsonObject): boolean {
  const block = object(fields['content']);
  return /_chunk$/.test(String(fields['sessionUpdate'])) && block['type'] === 'text' && block['text'] === '';
}

/** Puts one more ACP update into the items of a turn: of a long history without a copy for each. */
function put(items: Item[], update: JsonValue, moment: Moment): void {
  const fields = object(update);
  if (isNothing(fields)) return;
  switch (fields['sessionUpdate']) {
    case 'agent_message_chunk':
      return putChunk(items, fields, 'agent', moment.late);
    case 'user_message_chunk':
      return putChunk(items, fields, 'user', moment.late);
    case 'agent_thought_chunk':
      return putThought(items, fields, moment.late);
    case 'tool_call':
    case 'tool_call_update':
      return putToolCall(items, fields, moment);
    case 'plan':
      return putPlan(items, fields, moment.late);
    default:
      if (!ABOUT_THE_SESSION.has(String(fields['sessionUpdate']))) items.push({ kind: 'unknown', update, late: moment.late });
  }
}

function putChunk(items: Item[], fields: JsonObject, from: 'agent' | 'user', late: boolean): void {
  const block = object(fields['content']);
  const piece = block['type'] === 'text' ? text(block['text']) : null;
  const id = text(fields['messageId']);
  const last = items.at(-1);
  if (piece === null) items.push({ kind: 'content', from, block: fields['content'] ?? null, late });
  else if (last?.kind === 'text' && last.from === from && last.late === late && last.id === id) items[items.length - 1] = { ...last, text: last.text + piece };
  else items.push({ kind: 'text', from, text: piece, id, late });
}

function putThought(items: Item[], fields: JsonObject, late: boolean): void {
  const piece = text(object(fields['content'])['text']);
  const id = text(fields['messageId']);
  const last = items.at(-1);
  if (piece === null) items.push({ kind: 'content', from: 'agent', block: fields['content'] ?? null, late });
  else if (last?.kind === 'thought' && last.late === late && last.id === id) items[items.length - 1] = { ...last, text: last.text + piece };
  else items.push({ kind: 'thought', text: piece, id, late });
}

function putPlan(items: Item[], fields: JsonObject, late: boolean): void {
  const entries: PlanEntry[] = list(fields['entries']).map((entry) => ({
    content: text(object(entry)['content']) ?? '',
    status: text(object(entry)['status']) ?? 'pending',
    priority: text(object(entry)['priority']) ?? 'medium',
  }));
  // An agent sends its whole plan each time: one plan a turn, where it first appeared.
  const place = items.findIndex((item) => item.kind === 'plan');
  items[place < 0 ? items.length : place] = { kind: 'plan', entries, late };
}

const DONE = new Set(['completed', 'failed', 'cancelled']);
const KNOWN = new Set(['sessionUpdate', 'toolCallId', 'title', 'kind', 'status', 'content', 'locations', 'rawInput', 'rawOutput']);

/** Merges a tool call or an update of one by its id; a missing or null field leaves what is there. */
function putToolCall(items: Item[], fields: JsonObject, { at, late }: Moment): void {
  const id = text(fields['toolCallId']) ?? '';
  const place = items.findLastIndex((item) => item.kind === 'tool' && item.id === id);
  if (place < 0) {
    const call = merge({ title: '', kind: 'other', status: 'pending', content: [], locations: [], rawInput: undefined, rawOutput: undefined, other: {} }, fields);
    items.push({ kind: 'tool', id, call, startedAt: at, endedAt: DONE.has(call.status) ? at : null, requests: [], late });
    return;
  }
  const old = items[place] as ToolItem;
  const call = merge(old.call, fields);
  items[place] = { ...old, call, endedAt: DONE.has(call.status) ? (old.endedAt ?? at) : null, late: old.late || late };
}

/**
 * Puts a permission request to the call that it is about. It may know more of
 * the call than the updates so far, or be the first to name it.
 */
export function addRequest(items: readonly Item[], permission: PermissionView, moment: Moment): readonly Item[] {
  const id = toolCallId(permission);
  const fields = { ...object(permission.tool_call), toolCallId: id };
  const next = [...items];
  putToolCall(next, fields, moment);
  return next.map((item) => {
    if (item.kind !== 'tool' || item.id !== id) return item;
    if (item.requests.some((known) => known.permission.request === permission.request)) return item;
    return { ...item, requests: [...item.requests, { permission, outcome: null, reason: null }] };
  });
}

/** Marks a permission request as answered. */
export function addOutcome(items: readonly Item[], request: string, outcome: string, reason: string | null): readonly Item[] {
  return items.map((item) => {
    if (item.kind !== 'tool' || !item.requests.some((known) => known.permission.request === request)) return item;
    const requests = item.requests.map((known) =>
      known.permission.request === request ? { ...known, outcome, reason } : known,
    );
    return { ...item, requests };
  });
}

/** Puts a question where it was asked. */
export function addQuestion(items: readonly Item[], question: QuestionView, late: boolean): readonly Item[] {
  if (items.some((item) => item.kind === 'question' && item.question.request === question.request)) return items;
  return [...items, { kind: 'question', question, outcome: null, content: undefined, reason: null, isDone: false, late }];
}

/** Marks a question as answered; one that was not seen before is added. */
export function addAnswer(items: readonly Item[], answered: AnsweredQuestion): readonly Item[] {
  const { outcome, content, reason } = answered;
  return addQuestion(items, answered, false).map((item) =>
    item.kind === 'question' && item.question.request === answered.request ? { ...item, outcome, content, reason } : item,
  );
}

/** Marks what a page was for as done. */
export function finishQuestion(items: readonly Item[], request: string): readonly Item[] {
  return items.map((item) => (item.kind === 'question' && item.question.request === request ? { ...item, isDone: true } : item));
}

/** The tool call that a permission request is about; a request without one stands for itself. */
export function toolCallId(permission: PermissionView): string {
  return text(object(permission.tool_call)['toolCallId']) ?? permission.request;
}

function merge(call: ToolCall, fields: JsonObject): ToolCall {
  const other: Record<string, JsonValue> = { ...call.other };
  for (const [key, value] of Object.entries(fields)) if (!KNOWN.has(key)) other[key] = value;
  const content = fields['content'];
  const locations = fields['locations'];
  return {
    title: text(fields['title']) ?? call.title,
    kind: text(fields['kind']) ?? call.kind,
    status: text(fields['status']) ?? call.status,
    content: Array.isArray(content) ? content : call.content,
    locations: Array.isArray(locations) ? locations : call.locations,
    rawInput: fields['rawInput'] ?? call.rawInput,
    rawOutput: fields['rawOutput'] ?? call.rawOutput,
    other,
  };
}

/** What still ran when the turn ended will not go on: a card must not turn for ever. */
export function settle(items: readonly Item[]): readonly Item[] {
  if (!items.some((item) => item.kind === 'tool' && !DONE.has(item.call.status))) return items;
  return items.map((item) =>
    item.kind === 'tool' && !DONE.has(item.call.status)
      ? { ...item, call: { ...item.call, status: 'cancelled' } }
      : item,
  );
}

/** In `_meta` of a text block: the name of the file that it holds. */
export const ATTACHMENT = 'gantry.attachment';

/** The name of the attached file that a text block holds; null for what the user wrote. */
export function attachedName(block: JsonValue): string | null {
  return text(object(object(block)['_meta'])[ATTACHMENT]);
}

/** What goes along with the text of a prompt. */
export function attachmentsOf(prompt: readonly JsonValue[]): JsonValue[] {
  return prompt.filter((block) => object(block)['type'] !== 'text' || attachedName(block) !== null);
}

/** The plain text of a prompt. */
export function promptText(prompt: readonly JsonValue[]): string {
  return prompt
    .map((block) => (object(block)['type'] === 'text' && attachedName(block) === null ? (text(object(block)['text']) ?? '') : ''))
    .filter((piece) => piece !== '')
    .join('\n');
}

/** Whether a session has a turn: one that runs, or one that is on its way. */
export function isBusy(session: SessionView): boolean {
  switch (session.state) {
    case 'working':
    case 'waiting_for_you':
    case 'cancelling':
      return true;
    case 'starting':
      return session.turn !== null;
    default:
      return false;
  }
}

/** Whether a turn was never sent: it was taken out of the queue, or its session was stopped first. */
export function isUnsent(turn: Turn): boolean {
  return turn.stopReason === 'cancelled' && turn.description !== null && turn.items.length === 0;
}
