import { ATTACHMENT } from '../state/turns';
import { t } from '../strings';
import type { JsonValue, PromptCapabilities } from '../wire';

/** A file that goes along with a message. */
export interface Attachment {
  id: string;
  name: string;
  /** Bytes of the file as it was given. */
  size: number;
  kind: 'image' | 'audio' | 'text';
  /** The ACP content block. */
  block: JsonValue;
}

/** The longest text file that is sent whole (bytes). A longer one is better read by the agent itself. */
export const MOST_TEXT = 1024 * 1024;
/** An image of more bytes is made smaller. */
const LARGE_IMAGE = 3 * 1024 * 1024;
/** The longer side of an image that is made smaller (pixels): what models look at. */
const IMAGE_SIDE = 2048;
/** What all attachments of a message may weigh as they are sent: the host takes 10 MiB. */
export const MOST_ALL = 8 * 1024 * 1024;

/** Pictures and sounds that models take. */
const IMAGE = /^image\/(png|jpeg|gif|webp)$/;
const AUDIO = /^audio\/(wav|x-wav|mpeg|mp3|ogg|webm|flac|mp4)$/;

/**
 * Makes an attachment of a file, as the agent takes it; `can` is absent while
 * nobody knows that. The problem is for people.
 */
export async function attach(file: File, can: PromptCapabilities | undefined): Promise<Attachment | { problem: string }> {
  const name = file.name || t('attach.pasted');
  const made = (kind: Attachment['kind'], block: JsonValue): Attachment => ({ id: crypto.randomUUID(), name, size: file.size, kind, block });
  if (IMAGE.test(file.type)) {
    if (can && !can.image) return { problem: t('attach.noImages', { name }) };
    const small = file.size > LARGE_IMAGE ? await shrink(file) : file;
    if (small.size > LARGE_IMAGE * 2) return { problem: t('attach.tooLarge', { name }) };
    return made('image', { type: 'image', mimeType: small.type, data: await base64(small) });
  }
  if (AUDIO.test(file.type)) {
    if (can && !can.audio) return { problem: t('attach.noAudio', { name }) };
    if (file.size > LARGE_IMAGE * 2) return { problem: t('attach.tooLarge', { name }) };
    return made('audio', { type: 'audio', mimeType: file.type, data: await base64(file) });
  }
  if (file.size > MOST_TEXT) return { problem: t('attach.tooLarge', { name }) };
  const words = readable(await bytesOf(file));
  if (words === null) return { problem: t('attach.notText', { name }) };
  return made('text', textBlock(name, file.type, words, can?.embedded !== false));
}

/** A text with its name: as an embedded file, or in words where the agent takes no files. */
function textBlock(name: string, type: string, words: string, embedded: boolean): JsonValue {
  if (embedded) {
    const uri = `attachment:///${encodeURIComponent(name)}`;
    return { type: 'resource', resource: { uri, mimeType: type || 'text/plain', text: words } };
  }
  const longest = Math.max(2, ...[...words.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = '`'.repeat(longest + 1);
  // The mark is for our own eyes: the message shows the file's name in its place.
  return { type: 'text', text: `${name}:\n${fence}\n${words}\n${fence}`, _meta: { [ATTACHMENT]: name } };
}

/** What a message with these weighs, about (bytes). */
export function weight(attachments: readonly Attachment[]): number {
  return attachments.reduce((sum, { block }) => sum + JSON.stringify(block).length, 0);
}

/** The text of a file; null when it is none. */
export function readable(bytes: Uint8Array): string | null {
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

function bytesOf(blob: Blob): Promise<Uint8Array<ArrayBuffer>> {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(new Uint8Array(reader.result as ArrayBuffer));
    reader.onerror = () => fail(reader.error ?? new Error('the file could not be read'));
    reader.readAsArrayBuffer(blob);
  });
}

export async function base64(blob: Blob): Promise<string> {
  const bytes = await bytesOf(blob);
  let binary = '';
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(binary);
}

/** A picture of the size that models look at. What cannot be drawn stays as it is. */
async function shrink(file: Blob): Promise<Blob> {
  try {
    const picture = await createImageBitmap(file);
    const scale = Math.min(1, IMAGE_SIDE / Math.max(picture.width, picture.height));
    const canvas = document.createElement('canvas');
    canvas.width = Math.round(picture.width * scale);
    canvas.height = Math.round(picture.height * scale);
    canvas.getContext('2d')?.drawImage(picture, 0, 0, canvas.width, canvas.height);
    picture.close();
    const drawn = await new Promise<Blob | null>((done) => canvas.toBlob(done, 'image/jpeg', 0.85));
    return drawn && drawn.size < file.size ? drawn : file;
  } catch {
    return file;
  }
}
