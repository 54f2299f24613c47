import { list, object, text } from '../state/json';
import { baseName, pretty } from '../text/plain';
import { type DiffLine, diffLines } from '../text/diff';
import type { ToolCall } from '../state/model';
import type { JsonValue } from '../wire';

/** Letters of a long text that are shown before all of it is asked for. */
export const MOST_CUT = 10_000;

/** One piece of content as the screen shows it. */
export type Piece =
  /** As it came; escape sequences of terminals are for whoever shows it. */
  | { kind: 'text'; text: string }
  | { kind: 'markdown'; text: string }
  | { kind: 'image'; source: string }
  | { kind: 'link'; url: string; name: string }
  | { kind: 'diff'; path: string; lines: DiffLine[] }
  | { kind: 'terminal'; id: string }
  | { kind: 'json'; text: string };

/** Only pictures that cannot carry a script. */
const PICTURES = /^image\/(png|jpe?g|gif|webp|avif)$/;

/** An ACP content block. */
export function pieceOf(block: JsonValue): Piece {
  const fields = object(block);
  switch (fields['type']) {
    case 'text':
      return { kind: 'text', text: text(fields['text']) ?? '' };
    case 'image': {
      const mime = text(fields['mimeType']) ?? '';
      const data = text(fields['data']) ?? '';
      if (PICTURES.test(mime) && /^[A-Za-z0-9+/=\s]*$/.test(data)) {
        return { kind: 'image', source: `data:${mime};base64,${data}` };
      }
      return { kind: 'json', text: mime };
    }
    case 'resource_link': {
      const url = text(fields['uri']) ?? '';
      return { kind: 'link', url, name: text(fields['title']) ?? text(fields['name']) ?? baseName(url) };
    }
    case 'resource': {
      const resource = object(fields['resource']);
      const inner = text(resource['text']);
      return inner === null
        ? { kind: 'link', url: text(resource['uri']) ?? '', name: baseName(text(resource['uri']) ?? '') }
        : { kind: 'text', text: inner };
    }
    default:
      return { kind: 'json', text: pretty(block) };
  }
}

/** An entry of the content of a tool call. */
export function partOf(entry: JsonValue): Piece {
  const fields = object(entry);
  switch (fields['type']) {
    case 'content':
      return pieceOf(fields['content'] ?? null);
    case 'diff':
      return {
        kind: 'diff',
        path: text(fields['path']) ?? '',
        lines: diffLines(text(fields['oldText']) ?? '', text(fields['newText']) ?? ''),
      };
    case 'terminal':
      return { kind: 'terminal', id: text(fields['terminalId']) ?? '' };
    default:
      return { kind: 'json', text: pretty(entry) };
  }
}

/** What a tool call gave back: its content, or else its raw output. */
export function outputOf(call: ToolCall): Piece[] {
  if (call.content.length > 0) return call.content.map(partOf);
  const raw = call.rawOutput;
  if (raw === undefined || raw === null) return [];
  if (typeof raw === 'string') return [{ kind: 'text', text: raw }];
  // An MCP result: its content blocks say it better than its JSON.
  const blocks = list(object(raw)['content']);
  if (blocks.length > 0) return blocks.map(pieceOf);
  return [{ kind: 'json', text: pretty(raw) }];
}
