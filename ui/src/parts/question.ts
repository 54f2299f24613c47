import { list, object, text } from '../state/json';
import { t } from '../strings';
import type { JsonValue, QuestionView } from '../wire';

/** One thing that can be chosen. */
export interface Choice {
  value: string;
  title: string;
  description: string | null;
}

/** One field of an agent's form. `unknown` is of a newer kind, and not shown as something else. */
export interface Field {
  name: string;
  title: string;
  description: string | null;
  kind: 'text' | 'number' | 'integer' | 'flag' | 'choice' | 'choices' | 'unknown';
  /** The type of the input. */
  input: 'text' | 'email' | 'url' | 'date' | 'datetime-local' | 'password';
  isRequired: boolean;
  choices: Choice[];
  /** Characters of a text, numbers of choices, or the value of a number. */
  least: number | null;
  most: number | null;
  initial: Value;
}

export type Value = string | boolean | string[];

const INPUTS: Record<string, Field['input']> = { email: 'email', uri: 'url', date: 'date', 'date-time': 'datetime-local', password: 'password' };

/** The fields of a question's form, in the agent's order. */
export function fieldsOf(question: QuestionView): Field[] {
  const schema = object(question.schema ?? null);
  const required = new Set(list(schema['required']).map(String));
  return Object.entries(object(schema['properties'] ?? null)).map(([name, property]) => fieldOf(name, object(property ?? null), required.has(name)));
}

function fieldOf(name: string, rules: Record<string, JsonValue>, isRequired: boolean): Field {
  const type = text(rules['type']);
  const choices = choicesOf(type === 'array' ? object(rules['items'] ?? null) : rules);
  const kind = kindOf(type, choices.length > 0);
  const input = kind === 'text' ? (INPUTS[text(rules['format']) ?? ''] ?? 'text') : 'text';
  const [least, most] = kind === 'choices' ? ['minItems', 'maxItems'] : kind === 'text' ? ['minLength', 'maxLength'] : ['minimum', 'maximum'];
  return {
    name,
    title: text(rules['title']) ?? name,
    description: text(rules['description']),
    kind,
    input,
    isRequired,
    choices,
    least: number(rules[least ?? '']),
    most: number(rules[most ?? '']),
    initial: initialOf(kind, input, rules['default'], choices),
  };
}

function kindOf(type: string | null, hasChoices: boolean): Field['kind'] {
  switch (type) {
    case 'string':
      return hasChoices ? 'choice' : 'text';
    case 'number':
    case 'integer':
      return type;
    case 'boolean':
      return 'flag';
    case 'array':
      return hasChoices ? 'choices' : 'unknown';
    default:
      return 'unknown';
  }
}

function choicesOf(rules: Record<string, JsonValue>): Choice[] {
  const plain = list(rules['enum']).filter((value) => typeof value === 'string');
  if (plain.length > 0) return plain.map((value) => ({ value, title: value, description: null }));
  const titled = [...list(rules['oneOf']), ...list(rules['anyOf'])].map((choice) => object(choice));
  return titled.flatMap((choice) => {
    const value = text(choice['const']);
    return value === null ? [] : [{ value, title: text(choice['title']) ?? value, description: text(choice['description']) }];
  });
}

function initialOf(kind: Field['kind'], input: Field['input'], value: JsonValue | undefined, choices: Choice[]): Value {
  const isOffered = (wanted: JsonValue): wanted is string => choices.some((choice) => choice.value === wanted);
  switch (kind) {
    case 'flag':
      return value === true;
    case 'choices':
      return list(value ?? null).filter(isOffered);
    case 'choice':
      return value !== undefined && isOffered(value) ? value : '';
    case 'text':
      return input === 'datetime-local' ? localOf(text(value) ?? '') : (text(value) ?? '');
    default:
      return typeof value === 'number' ? String(value) : '';
  }
}

/** An instant as `datetime-local` shows it; empty when it is none. */
function localOf(instant: string): string {
  const at = new Date(instant);
  if (instant === '' || Number.isNaN(at.getTime())) return '';
  const shifted = new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 16);
}

function number(value: JsonValue | undefined): number | null {
  return typeof value === 'number' ? value : null;
}

/** What a filled form says, or what is wrong with which field. The host looks at patterns and formats once more. */
export function contentOf(fields: readonly Field[], values: Readonly<Record<string, Value>>): { content: Record<string, JsonValue> } | { problems: Record<string, string> } {
  const content: Record<string, JsonValue> = {};
  const problems: Record<string, string> = {};
  for (const field of fields) {
    const value = values[field.name] ?? field.initial;
    const read = read1(field, value);
    if ('problem' in read) problems[field.name] = read.problem;
    else if (read.value !== undefined) content[field.name] = read.value;
  }
  return Object.keys(problems).length > 0 ? { problems } : { content };
}

function read1(field: Field, value: Value): { value: JsonValue | undefined } | { problem: string } {
  const { kind, isRequired, least, most } = field;
  if (typeof value === 'boolean') return { value };
  if (Array.isArray(value)) {
    if (value.length === 0 && !isRequired) return { value: undefined };
    if (least !== null && value.length < least) return { problem: t('question.least', { n: least }) };
    if (most !== null && value.length > most) return { problem: t('question.most', { n: most }) };
    return isRequired && value.length === 0 && least === null ? { problem: t('question.required') } : { value };
  }
  if (kind === 'unknown') return isRequired ? { problem: t('question.unknown') } : { value: undefined };
  const written = kind === 'text' && field.input !== 'url' && field.input !== 'email' ? value : value.trim();
  if (written === '') return isRequired ? { problem: t('question.required') } : { value: undefined };
  if (kind === 'number' || kind === 'integer') {
    const read = Number(written);
    if (!Number.isFinite(read)) return { problem: t('question.number') };
    if (kind === 'integer' && !Number.isInteger(read)) return { problem: t('question.integer') };
    if (least !== null && read < least) return { problem: t('question.minimum', { n: least }) };
    if (most !== null && read > most) return { problem: t('question.maximum', { n: most }) };
    return { value: read };
  }
  if (kind === 'text') {
    // As the host counts: characters, not the halves of surrogate pairs.
    const length = [...written].length;
    if (least !== null && length < least) return { problem: t('question.short', { n: least }) };
    if (most !== null && length > most) return { problem: t('question.long', { n: most }) };
    if (field.input === 'datetime-local') {
      const at = new Date(written);
      return Number.isNaN(at.getTime()) ? { problem: t('question.time') } : { value: at.toISOString() };
    }
  }
  return { value: written };
}

/** The field that the host's refusal is about, and what it says. */
export function refusalOf(message: string): { name: string; problem: string } | null {
  const found = /^content\.(.+?): (.+)$/s.exec(message);
  return found ? { name: found[1] ?? '', problem: found[2] ?? '' } : null;
}

/** What was answered, in a line for people. */
export function answerLine(question: QuestionView, content: JsonValue | undefined): string {
  const fields = fieldsOf(question);
  const titleOf = (field: Field | undefined, value: JsonValue): string => {
    if (Array.isArray(value)) return value.map((one) => titleOf(field, one)).join(', ');
    if (typeof value === 'boolean') return t(value ? 'question.yes' : 'question.no');
    return field?.choices.find((choice) => choice.value === value)?.title ?? String(value);
  };
  return Object.entries(object(content ?? null))
    .map(([name, value]) => {
      const field = fields.find((known) => known.name === name);
      return `${field?.title ?? name}: ${titleOf(field, value ?? null)}`;
    })
    .join(' · ');
}
