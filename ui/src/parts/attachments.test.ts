import { describe, expect, it } from 'vitest';
import { attachedName, attachmentsOf, promptText } from '../state/turns';
import { attach, MOST_TEXT, readable } from './attachments';
import { askedAt, insert, links, written } from './mention';

const ALL = { image: true, audio: true, embedded: true };
const NONE = { image: false, audio: false, embedded: false };
const file = (name: string, content: BlobPart, type = ''): File => new File([content], name, { type });

describe('attachments', () => {
  it('become the blocks that the agent takes', async () => {
    const image = await attach(file('a.png', new Uint8Array([1, 2, 3]), 'image/png'), ALL);
    expect(image).toMatchObject({ name: 'a.png', kind: 'image', block: { type: 'image', mimeType: 'image/png', data: 'AQID' } });
    expect(await attach(file('a.png', 'x', 'image/png'), undefined)).toHaveProperty('block');
    const text = await attach(file('ä b.txt', 'grüße'), ALL);
    expect(text).toMatchObject({ block: { type: 'resource', resource: { uri: 'attachment:///%C3%A4%20b.txt', text: 'grüße' } } });
  });

  it('are refused with a reason when nobody could read them', async () => {
    for (const [given, can] of [
      [file('a.png', 'x', 'image/png'), NONE],
      [file('a.wav', 'x', 'audio/wav'), NONE],
      [file('a.bin', new Uint8Array([0, 1, 2])), ALL],
      [file('a.txt', 'x'.repeat(MOST_TEXT + 1)), ALL],
    ] as const) {
      expect(await attach(given, can)).toMatchObject({ problem: expect.stringContaining(given.name) });
    }
    expect(readable(new Uint8Array([0xff, 0xfe]))).toBeNull();
  });

  it('are sent in words to an agent that takes no files, and are no part of what the user wrote', async () => {
    const made = await attach(file('notes.md', 'a ``` fence'), NONE);
    if ('problem' in made) throw new Error(made.problem);
    expect(made.block).toMatchObject({ type: 'text', text: 'notes.md:\n````\na ``` fence\n````' });
    const prompt = [{ type: 'text', text: 'see' }, made.block];
    expect(attachedName(made.block)).toBe('notes.md');
    expect(promptText(prompt)).toBe('see');
    expect(attachmentsOf(prompt)).toEqual([made.block]);
  });
});

describe('mentions', () => {
  it('are asked for by an @ that begins a word', () => {
    expect(askedAt('see @src/a', 10)).toEqual({ start: 4, query: 'src/a' });
    expect(askedAt('@', 1)).toEqual({ start: 0, query: '' });
    expect(askedAt('看（@feed', 7)).toEqual({ start: 2, query: 'feed' });
    for (const text of ['me@example.org', '@a b', 'plain', '@"a']) expect(askedAt(text, text.length)).toBeNull();
    // Only what is before the cursor counts.
    expect(askedAt('@abc', 2)).toEqual({ start: 0, query: 'a' });
  });

  it('are put in place of what was written', () => {
    expect(insert('see @fe now', { start: 4, query: 'fe' }, 'src/feed.rs')).toEqual({ text: 'see @src/feed.rs now', cursor: 17 });
    expect(written('a b.md')).toBe('@"a b.md"');
  });

  it('become links as long as the text names them', () => {
    const a = { path: 'src/a.ts', uri: 'file:///p/src/a.ts' };
    const link = { type: 'resource_link', uri: a.uri, name: a.path };
    expect(links('see @src/a.ts.', [a, a])).toEqual([link]);
    expect(links('(@src/a.ts)', [a])).toEqual([link]);
    expect(links('see @src/a.tsx and @src/a.ts.bak', [a])).toEqual([]);
    expect(links('deleted', [a])).toEqual([]);
  });
});
