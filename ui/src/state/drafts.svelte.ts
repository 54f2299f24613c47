import type { Attachment } from '../parts/attachments';
import { links, type Mention } from '../parts/mention';
import { baseName } from '../text/plain';
import type { JsonValue } from '../wire';
import { object, text } from './json';
import { attachedName, attachmentsOf, promptText } from './turns';

/** What is being written, by session: the text, the files that it names, and those that go along. */
export class Drafts {
  private texts: Record<string, string> = $state({});
  private files: Readonly<Record<string, readonly Attachment[]>> = $state.raw({});
  private named: Readonly<Record<string, readonly Mention[]>> = {};

  text(session: string): string {
    return this.texts[session] ?? '';
  }

  write(session: string, words: string): void {
    this.texts[session] = words;
  }

  attachments(session: string): readonly Attachment[] {
    return this.files[session] ?? [];
  }

  attach(session: string, attachment: Attachment): void {
    this.files = { ...this.files, [session]: [...this.attachments(session), attachment] };
  }

  detach(session: string, id: string): void {
    this.files = { ...this.files, [session]: this.attachments(session).filter((file) => file.id !== id) };
  }

  mention(session: string, mention: Mention): void {
    this.named = { ...this.named, [session]: [...(this.named[session] ?? []), mention] };
  }

  /** Takes what was written as the content of a prompt; empty when there is nothing to send. */
  take(session: string): JsonValue[] {
    const words = this.text(session).trim();
    const content = [
      ...(words === '' ? [] : [{ type: 'text', text: words }]),
      ...links(words, this.named[session] ?? []),
      ...this.attachments(session).map(({ block }) => block),
    ];
    this.texts[session] = '';
    const { [session]: _, ...files } = this.files;
    const { [session]: __, ...named } = this.named;
    this.files = files;
    this.named = named;
    return content;
  }

  /** Puts a content that was not sent back, after what is there. */
  giveBack(session: string, content: readonly JsonValue[]): void {
    const words = [this.text(session).trim(), promptText(content)].filter((part) => part !== '');
    this.texts[session] = words.join('\n\n');
    for (const block of attachmentsOf(content)) {
      const fields = object(block);
      if (fields['type'] === 'resource_link') {
        this.mention(session, { path: text(fields['name']) ?? '', uri: text(fields['uri']) ?? '' });
      } else this.attach(session, attachmentOf(block));
    }
  }

  /** Forgets what was written in sessions that are not there any more. */
  keep(isThere: (session: string) => boolean): void {
    for (const session of Object.keys(this.texts)) if (!isThere(session)) delete this.texts[session];
    this.files = Object.fromEntries(Object.entries(this.files).filter(([session]) => isThere(session)));
  }
}

/** A block of a prompt as the attachment that it was. */
function attachmentOf(block: JsonValue): Attachment {
  const fields = object(block);
  const kind = fields['type'] === 'image' || fields['type'] === 'audio' ? fields['type'] : 'text';
  const uri = text(object(fields['resource'])['uri']);
  const name = attachedName(block) ?? (uri === null ? '' : decodeURIComponent(baseName(uri)));
  return { id: crypto.randomUUID(), name, size: JSON.stringify(block).length, kind, block };
}
