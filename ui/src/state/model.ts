import type { ContextOutcome, Event, JsonValue, LastExit, PermissionView, QuestionAction, QuestionView, ServerReadiness, ServerView, SessionView, Settings, TerminalView } from '../wire';

/** Everything that the user interface knows. Replaced, never changed in place. */
export interface State {
  /** The number of the last event that is in here. */
  readonly seq: number;
  readonly version: string;
  /** Something that the user should know about the last run. */
  readonly notice: string | null;
  /** The same in detail: how the last run ended, where something was forced or it crashed. */
  readonly lastExit: LastExit | null;
  readonly servers: readonly ServerView[];
  readonly sessions: readonly SessionView[];
  /** Conversations that were opened, by session. */
  readonly transcripts: Readonly<Record<string, Transcript>>;
  /** Grows whenever `agents_list` should be asked again. */
  readonly agentsRevision: number;
  /** What the installation of an agent said last, by agent. */
  readonly installs: Readonly<Record<string, string>>;
  /** What the user chose about the program; null until the host has told. */
  readonly settings: Settings | null;
  /** The phase of the shutdown, once one runs. */
  readonly shutdown: string | null;
  /** How many events could not be understood. */
  readonly ignored: number;
}

/** A conversation: a window of turns that ends with the newest one. */
export interface Transcript {
  /** While a page is on its way, events of the session wait in `pending`. */
  readonly loading: boolean;
  readonly pending: readonly Event[];
  /** Oldest first. */
  readonly turns: readonly Turn[];
  /** Whether there are older turns. */
  readonly more: boolean;
  /** The last update of each kind that concerns the session, not a turn (mode, usage, …). */
  readonly about: Readonly<Record<string, JsonValue>>;
}

/** Prompt → stop reason. */
export interface Turn {
  readonly id: string;
  readonly number: number;
  /** ACP content blocks. */
  readonly prompt: readonly JsonValue[];
  readonly startedAt: number;
  readonly endedAt: number | null;
  /** ACP stop reason, or `error`; null while it runs. */
  readonly stopReason: string | null;
  readonly description: string | null;
  readonly items: readonly Item[];
  /** Commands that Gantry runs for the agent; tool cards name them by id. */
  readonly terminals: readonly TerminalView[];
  /** What the session was told about its servers when the prompt left. */
  readonly receipt: readonly ServerReadiness[];
  /** What became of the conversation when it began; null while that is not known. */
  readonly context: ContextOutcome | null;
  /** The caller's own id. */
  readonly requestId: string | null;
}

/** One thing in a turn. `late`: it came after the turn had ended. */
export type Item =
  | { readonly kind: 'text'; readonly from: 'agent' | 'user'; readonly text: string; readonly id: string | null; readonly late: boolean }
  | { readonly kind: 'thought'; readonly text: string; readonly id: string | null; readonly late: boolean }
  | { readonly kind: 'content'; readonly from: 'agent' | 'user'; readonly block: JsonValue; readonly late: boolean }
  | { readonly kind: 'plan'; readonly entries: readonly PlanEntry[]; readonly late: boolean }
  | ToolItem
  | QuestionItem
  | { readonly kind: 'unknown'; readonly update: JsonValue; readonly late: boolean };

export interface ToolItem {
  readonly kind: 'tool';
  readonly id: string;
  readonly call: ToolCall;
  /** Known only when we saw it happen. */
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** Permission requests about this call, in the order in which they came. */
  readonly requests: readonly Request[];
  readonly late: boolean;
}

/** A question of the agent to the user. */
export interface QuestionItem {
  readonly kind: 'question';
  readonly question: QuestionView;
  /** Null while it waits. */
  readonly outcome: QuestionAction | null;
  /** The values of a form. */
  readonly content: JsonValue | undefined;
  /** Why, when it was not the user who answered. */
  readonly reason: string | null;
  /** The agent said that what a page was for is done. */
  readonly isDone: boolean;
  readonly late: boolean;
}

/** An ACP tool call with all its updates merged; fields that we do not know are kept. */
export interface ToolCall {
  readonly title: string;
  readonly kind: string;
  readonly status: string;
  readonly content: readonly JsonValue[];
  readonly locations: readonly JsonValue[];
  readonly rawInput: JsonValue | undefined;
  readonly rawOutput: JsonValue | undefined;
  readonly other: Readonly<Record<string, JsonValue>>;
}

export interface PlanEntry {
  readonly content: string;
  readonly status: string;
  readonly priority: string;
}

/** A permission request and its answer. */
export interface Request {
  readonly permission: PermissionView;
  /** The chosen `optionId`, or `cancelled`; null while nobody has answered. */
  readonly outcome: string | null;
  /** Why, when it was not the user who answered. */
  readonly reason: string | null;
}

export const EMPTY: State = {
  seq: 0,
  version: '',
  notice: null,
  lastExit: null,
  servers: [],
  sessions: [],
  transcripts: {},
  agentsRevision: 0,
  installs: {},
  settings: null,
  shutdown: null,
  ignored: 0,
};
