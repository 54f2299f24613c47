import { list, object, text } from '../state/json';
import type { JsonValue } from '../wire';

/** One argument of a tool as a form shows it. What is no plain value is written as JSON. */
export interface Field {
  name: string;
  kind: 'text' | 'number' | 'flag' | 'choice' | 'json';
  isRequired: boolean;
  description: string | null;
  choices: string[];
  /** What the form starts with, as text. */
  initial: string;
}

/** The fields of a JSON schema of an object. */
export function fieldsOf(schema: JsonValue | undefined): Field[] {
  const fields = object(schema ?? null);
  const required = new Set(list(fields['required']).map(String));
  return Object.entries(object(fields['properties'] ?? null)).map(([name, property]): Field => {
    const rules = object(property ?? null);
    const choices = list(rules['enum']).filter((choice) => typeof choice === 'string');
    const kind = choices.length > 0 ? 'choice' : kindOf(rules['type']);
    const value = rules['default'];
    return {
      name,
      kind,
      isRequired: required.has(name),
      description: text(rules['description']),
      choices,
      initial: value === undefined || value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value),
    };
  });
}

function kindOf(type: JsonValue | undefined): Field['kind'] {
  switch (type) {
    case 'string':
      return 'text';
    case 'number':
    case 'integer':
      return 'number';
    case 'boolean':
      return 'flag';
    default:
      return 'json';
  }
}

/** The arguments that a filled form means; the name of the field that cannot be read otherwise. Empty fields are left out. */
export function argumentsOf(fields: readonly Field[], values: Readonly<Record<string, string>>): { arguments: Record<string, JsonValue> } | { bad: string } {
  const found: Record<string, JsonValue> = {};
  for (const { name, kind, isRequired } of fields) {
    const value = values[name] ?? '';
    if (value === '' && !(isRequired && kind === 'text')) {
      if (isRequired) return { bad: name };
      continue;
    }
    if (kind === 'text' || kind === 'choice') found[name] = value;
    else if (kind === 'flag') found[name] = value === 'true';
    else if (kind === 'number') {
      if (!Number.isFinite(Number(value))) return { bad: name };
      found[name] = Number(value);
    } else {
      try {
        found[name] = JSON.parse(value) as JsonValue;
      } catch {
        return { bad: name };
      }
    }
  }
  return { arguments: found };
}

/** About how many tokens a text costs a model: four letters of a Latin script each, CJK about one each. */
export function tokens(text: string): number {
  const wide = text.match(/[\u2E80-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF]/gu)?.length ?? 0;
  return Math.ceil(wide + (text.length - wide) / 4);
}
