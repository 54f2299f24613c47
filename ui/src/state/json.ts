import type { JsonValue } from '../wire';

/** Careful looks at values that other programs wrote. */

export type JsonObject = { readonly [key: string]: JsonValue };

export function object(value: JsonValue | undefined): JsonObject {
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {};
}

export function list(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : [];
}

export function text(value: JsonValue | undefined): string | null {
  return typeof value === 'string' ? value : null;
}
