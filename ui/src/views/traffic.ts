import { object, text } from '../state/json';
import type { JsonValue, TrafficMessage } from '../wire';

/** One message as the list shows it. */
export interface TrafficLine {
  key: string;
  at: number;
  fromAgent: boolean;
  /** Of the request; that of the question for an answer. */
  method: string;
  isAnswer: boolean;
  isError: boolean;
  /** Its inside in one line. */
  text: string;
  message: JsonValue;
}

/** The messages as lines: answers get the method of their question. */
export function linesOf(messages: readonly TrafficMessage[]): TrafficLine[] {
  /** Methods of open questions, by who asked and the id. */
  const asked = new Map<string, string>();
  const seen = new Map<string, number>();
  return messages.map(({ at, from_agent: fromAgent, message }) => {
    const fields = object(message);
    const id = JSON.stringify(fields['id'] ?? null);
    const own = text(fields['method']);
    const isAnswer = own === null && typeof message !== 'string';
    if (own !== null) asked.set(`${fromAgent} ${id}`, own);
    const method = own ?? (isAnswer ? asked.get(`${!fromAgent} ${id}`) : undefined) ?? '…';
    const isError = isAnswer && fields['error'] !== undefined;
    const inside = own !== null ? fields['params'] : isError ? fields['error'] : fields['result'];
    const words = typeof message === 'string' ? message : JSON.stringify((method === 'session/update' ? updateOf(fields) : inside) ?? {});
    // The place in the list moves when old messages go: the key must not.
    const base = `${at} ${fromAgent} ${id} ${method}`;
    const count = (seen.get(base) ?? 0) + 1;
    seen.set(base, count);
    return { key: `${base} ${count}`, at, fromAgent, method: method === 'session/update' ? kindOf(fields) : method, isAnswer, isError, text: words, message };
  });
}

/** What an update says; the session and the kind are known already. */
function updateOf(fields: ReturnType<typeof object>): JsonValue {
  const { sessionUpdate: _, ...rest } = object(object(fields['params'])['update']);
  return rest;
}

/** An update is named by its kind: there are many of them. */
function kindOf(fields: ReturnType<typeof object>): string {
  return text(object(object(fields['params'])['update'])['sessionUpdate']) ?? 'session/update';
}
