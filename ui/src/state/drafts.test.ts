import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../wire';
import { Drafts } from './drafts.svelte';

const IMAGE = { type: 'image', mimeType: 'image/png', data: 'AAAA' };
const FILE = { type: 'resource', resource: { uri: 'attachment:///a%20b.txt', mimeType: 'text/plain', text: 'x' } };

describe('drafts', () => {
  it('are taken whole, and are empty then', () => {
    const drafts = new Drafts();
    drafts.write('s', ' see @a.ts ');
    drafts.mention('s', { path: 'a.ts', uri: 'file:///p/a.ts' });
    drafts.mention('s', { path: 'gone.ts', uri: 'file:///p/gone.ts' });
    drafts.attach('s', { id: '1', name: 'x', size: 1, kind: 'image', block: IMAGE });
    expect(drafts.take('s')).toEqual([{ type: 'text', text: 'see @a.ts' }, { type: 'resource_link', uri: 'file:///p/a.ts', name: 'a.ts' }, IMAGE]);
    expect(drafts.take('s')).toEqual([]);
  });

  it('get back what was not sent, after what was written meanwhile', () => {
    const drafts = new Drafts();
    const content: JsonValue[] = [{ type: 'text', text: 'see @a.ts' }, { type: 'resource_link', uri: 'file:///p/a.ts', name: 'a.ts' }, IMAGE, FILE];
    drafts.write('s', 'more');
    drafts.giveBack('s', content);
    expect(drafts.text('s')).toBe('more\n\nsee @a.ts');
    expect(drafts.attachments('s').map(({ name, kind }) => [name, kind])).toEqual([['', 'image'], ['a b.txt', 'text']]);
    expect(drafts.take('s').slice(1)).toEqual(content.slice(1));
  });

  it('of sessions that are gone are forgotten', () => {
    const drafts = new Drafts();
    drafts.write('s', 'x');
    drafts.attach('s', { id: '1', name: 'x', size: 1, kind: 'image', block: IMAGE });
    drafts.keep(() => false);
    expect(drafts.take('s')).toEqual([]);
  });
});
