import { flushSync, mount, unmount } from 'svelte';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { aServer, PERMISSION } from '../state/recordings';
import { matching, meaningOf } from './composer';
import Composer from './Composer.svelte';
import { outputOf, pieceOf } from './content';
import Permission from './Permission.svelte';
import { rejection } from './permission';
import { reasonOf } from './reason';
import { toneOf, wordsOf } from './server';

let mounted: Record<string, unknown>[] = [];
afterEach(async () => {
  await Promise.all(mounted.map((component) => unmount(component)));
  mounted = [];
  vi.useRealTimers();
});

function find<T extends HTMLElement>(testid: string): T {
  const element = document.querySelector<T>(`[data-testid="${testid}"]`);
  if (!element) throw new Error(`${testid} is not there`);
  return element;
}

function press(element: HTMLElement, key: string, more: KeyboardEventInit = {}): KeyboardEvent {
  const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more });
  element.dispatchEvent(event);
  flushSync();
  return event;
}

describe('why a server failed', () => {
  const lead = (error: string): string => reasonOf(error).lead;

  it('is what the program said last, where the rest is only its exit', () => {
    const error = 'it exited with code 1; its last words:\ngantry: mcp: the remote server cannot be reached: Connection refused';
    expect(reasonOf(error)).toEqual({ lead: 'the remote server cannot be reached: Connection refused', whole: error });
    const node = 'it exited with code 1; its last words:\nnode:internal/modules/cjs/loader:1210\n  throw err;\n  ^\nError: Cannot find module \'x\'\n    at main (a.js:1:2) {\n  code: \'MODULE_NOT_FOUND\',\n}\n\nNode.js v20.19.0';
    expect(lead(node)).toBe("Error: Cannot find module 'x'");
    expect(lead('it exited with code 3; its last words:\nTraceback:\n  File "a.py", line 1\nKeyError: \'KEY\'\n')).toBe("KeyError: 'KEY'");
    expect(lead('it was killed by signal 9; its last words:\none\n\u001b[31mtwo\u001b[0m\n')).toBe('two');
    expect(reasonOf('it exited with code 4')).toEqual({ lead: 'it exited with code 4', whole: '' });
  });

  it('is the reason itself where that says more', () => {
    const error = 'it answered tools/list with an error: the server `remote` is not running: cannot be reached; its last words:\nShutting down';
    expect(lead(error)).toBe('it answered tools/list with an error: the server `remote` is not running: cannot be reached');
    expect(reasonOf(error).whole).toBe(error);
  });

  it('leaves out the folders that were searched', () => {
    const error = '`uvx` was not found in /usr/local/bin:/usr/bin:/bin; install uv (https://docs.astral.sh/uv), which brings it, or give its full path';
    expect(reasonOf(error)).toEqual({ lead: '`uvx` was not found; install uv (https://docs.astral.sh/uv), which brings it, or give its full path', whole: error });
    // One folder is worth reading.
    expect(reasonOf('`/opt/x` was not found in /opt; install it, or give its full path').whole).toBe('');
  });

  it('is what an agent wrote last, after how it ended', () => {
    const error = 'agent ended with exit code 7: one\nError: KEY missing\n  at main (x.js:1:1)';
    expect(reasonOf(error)).toEqual({ lead: 'agent ended with exit code 7: Error: KEY missing', whole: error });
    expect(reasonOf('agent ended with exit code 7: KEY missing').whole).toBe('');
    expect(lead('agent `gone`: `x` was not found in /usr/bin:/bin; install it, or give its full path')).toBe('agent `gone`: `x` was not found; install it, or give its full path');
  });

  it('is never longer than a card takes', () => {
    expect(lead(`it ${'x'.repeat(5000)}`).length).toBe(220);
    expect(reasonOf(`it exited with code 1; its last words:\n${'\n'.repeat(50)}`).lead).toBe('it exited with code 1');
    expect(reasonOf('').lead).toBe('');
  });
});

describe('the composer', () => {
  const sent: string[] = [];

  function open(change: Record<string, unknown> = {}): HTMLTextAreaElement {
    sent.length = 0;
    mounted.push(
      mount(Composer, {
        target: document.body,
        props: {
          value: '',
          agent: 'Gantry',
          commands: [
            { name: 'tools', description: 'list' },
            { name: 'call', description: 'call', input: { hint: '<tool>' } },
          ],
          isWorking: false,
          isCancelling: false,
          canForce: false,
          isConnected: true,
          onsend: () => sent.push(find<HTMLTextAreaElement>('composer').value.trim()),
          oncancel: () => sent.push('[cancel]'),
          onforce: () => sent.push('[force]'),
          ...change,
        },
      }),
    );
    flushSync();
    return find<HTMLTextAreaElement>('composer');
  }

  function write(field: HTMLTextAreaElement, text: string): void {
    field.value = text;
    field.dispatchEvent(new InputEvent('input', { bubbles: true }));
    flushSync();
  }

  it('sends with Enter', () => {
    const field = open();
    write(field, '  hello ');
    expect(press(field, 'Enter').defaultPrevented).toBe(true);
    expect(sent).toEqual(['hello']);
  });

  it('does not send an Enter that ends a composition, in either of the two ways it shows', () => {
    const field = open();
    write(field, '你好');
    press(field, 'Enter', { isComposing: true });
    press(field, 'Enter', { keyCode: 229 });
    press(field, 'Process', { keyCode: 229 });
    expect(sent).toEqual([]);
    press(field, 'Enter', { keyCode: 13 });
    expect(sent).toEqual(['你好']);
  });

  it('starts a line with Shift, and ignores a held Enter and blank messages', () => {
    const field = open();
    write(field, 'a');
    expect(press(field, 'Enter', { shiftKey: true }).defaultPrevented).toBe(false);
    press(field, 'Enter', { repeat: true });
    write(field, ' \n ');
    press(field, 'Enter');
    expect(sent).toEqual([]);
    expect(find<HTMLButtonElement>('send').disabled).toBe(true);
  });

  it('hands over what was written while the agent works, and offers to stop', () => {
    const field = open({ isWorking: true });
    write(field, 'next');
    press(field, 'Enter');
    expect(sent).toEqual(['next']);
    find('cancel-turn').click();
    expect(sent).toEqual(['next', '[cancel]']);
  });

  it('offers force only when told to', () => {
    open({ isWorking: true, isCancelling: true, canForce: true });
    expect(find<HTMLButtonElement>('cancel-turn').disabled).toBe(true);
    find('force-stop').click();
    expect(sent).toEqual(['[force]']);
  });

  it('completes a command, but sends one that is written out', async () => {
    const field = open();
    write(field, '/c');
    expect(find('composer-menu').textContent).toContain('/call');
    press(field, 'Enter');
    await vi.waitFor(() => expect(field.value).toBe('/call '));
    expect(sent).toEqual([]);
    write(field, '/tools');
    press(field, 'Enter');
    expect(sent).toEqual(['/tools']);
  });

  it('offers files after an @ and puts the chosen one into the text', async () => {
    const asked: string[] = [];
    const mentioned: unknown[] = [];
    const files = [{ path: 'src/a b.ts', uri: 'file:///p/src/a%20b.ts', folder: false }];
    const field = open({
      onlook: (query: string) => (asked.push(query), Promise.resolve(files)),
      onmention: (mention: unknown) => mentioned.push(mention),
    });
    write(field, 'look at @a');
    await vi.waitFor(() => expect(find('composer-menu').textContent).toContain('a b.ts'));
    expect(asked).toEqual(['a']);
    press(field, 'Enter');
    await vi.waitFor(() => expect(field.value).toBe('look at @"src/a b.ts" '));
    expect(mentioned).toEqual([{ path: 'src/a b.ts', uri: 'file:///p/src/a%20b.ts' }]);
    expect(sent).toEqual([]);
  });

  it('sends files without a word, and lets them be taken off', () => {
    const removed: string[] = [];
    const block = { type: 'image', mimeType: 'image/png', data: 'AAAA' };
    const field = open({ files: [{ id: '1', name: 'shot.png', size: 3, kind: 'image', block }], onattach: () => {}, ondetach: (id: string) => removed.push(id) });
    expect(find('attachment').textContent).toContain('shot.png');
    press(field, 'Enter');
    expect(sent).toEqual(['']);
    find('attachment-remove').click();
    expect(removed).toEqual(['1']);
  });

  it('closes the menu with Escape and leaves the text', () => {
    const field = open();
    write(field, '/');
    press(field, 'ArrowDown');
    expect(document.querySelector('[data-testid="composer-option"][aria-selected="true"]')?.textContent).toContain('/call');
    press(field, 'Escape');
    expect(document.querySelector('[data-testid="composer-menu"]')).toBeNull();
    expect(field.value).toBe('/');
  });

  it('knows what a key means', () => {
    const key = { key: 'Enter', shiftKey: false, isComposing: false, keyCode: 13, repeat: false };
    expect(meaningOf(key)).toBe('send');
    expect(meaningOf({ ...key, key: 'a' })).toBe('other');
    expect(matching('/to x', [])).toEqual([]);
  });
});

describe('a permission request', () => {
  const answers: string[] = [];

  beforeEach(() => vi.useFakeTimers());

  function open(): HTMLButtonElement[] {
    answers.length = 0;
    mounted.push(
      mount(Permission, {
        target: document.body,
        props: {
          permission: PERMISSION,
          onanswer: (option: string) => {
            answers.push(option);
            return new Promise<void>(() => {});
          },
        },
      }),
    );
    flushSync();
    return [...document.querySelectorAll<HTMLButtonElement>('[data-testid="permission-option"]')];
  }

  it('shows the options in the order of the agent', () => {
    expect(open().map((button) => button.dataset['option'])).toEqual(['yes', 'no']);
  });

  it('does nothing for half a second after it appeared', () => {
    const [yes] = open();
    yes?.click();
    vi.advanceTimersByTime(499);
    flushSync();
    yes?.click();
    expect(yes?.getAttribute('aria-disabled')).toBe('true');
    expect(answers).toEqual([]);
    vi.advanceTimersByTime(1);
    flushSync();
    yes?.click();
    expect(answers).toEqual(['yes']);
  });

  it('is answered once', () => {
    const [yes, no] = open();
    vi.advanceTimersByTime(500);
    flushSync();
    no?.click();
    flushSync();
    yes?.click();
    expect(answers).toEqual(['no']);
  });

  it('is not answered by a held key', () => {
    const [yes] = open();
    vi.advanceTimersByTime(500);
    flushSync();
    expect(press(yes as HTMLElement, 'Enter', { repeat: true }).defaultPrevented).toBe(true);
    expect(press(yes as HTMLElement, ' ', { repeat: true }).defaultPrevented).toBe(true);
    expect(press(yes as HTMLElement, 'Enter').defaultPrevented).toBe(false);
  });

  it('is rejected with an option that was offered, never with an invented one', () => {
    expect(rejection(PERMISSION)?.id).toBe('no');
    expect(rejection({ ...PERMISSION, options: [{ optionId: 'never', name: 'Never', kind: 'reject_always' }] })?.id).toBe('never');
    expect(rejection({ ...PERMISSION, options: [{ optionId: 'yes', name: 'Yes', kind: 'allow_once' }] })).toBeNull();
  });
});

describe('content', () => {
  it('shows pictures only of kinds that cannot carry a script', () => {
    expect(pieceOf({ type: 'image', mimeType: 'image/png', data: 'iVBORw0=' })).toEqual({ kind: 'image', source: 'data:image/png;base64,iVBORw0=' });
    expect(pieceOf({ type: 'image', mimeType: 'image/svg+xml', data: 'PHN2Zz4=' }).kind).toBe('json');
    expect(pieceOf({ type: 'image', mimeType: 'image/png', data: '"onerror=' }).kind).toBe('json');
  });

  it('reads the result of a tool from its content, else from its raw output', () => {
    const call = { title: '', kind: '', status: 'completed', content: [], locations: [], rawInput: undefined, other: {} };
    expect(outputOf({ ...call, rawOutput: { content: [{ type: 'text', text: 'Echo: hello' }] } })).toEqual([{ kind: 'text', text: 'Echo: hello' }]);
    expect(outputOf({ ...call, rawOutput: { a: 1 } })).toEqual([{ kind: 'json', text: '{\n  "a": 1\n}' }]);
    expect(outputOf({ ...call, rawOutput: undefined })).toEqual([]);
    expect(outputOf({ ...call, rawOutput: undefined, content: [{ type: 'diff', path: '/a', oldText: null, newText: 'x' }] })).toEqual([
      { kind: 'diff', path: '/a', lines: [{ sign: '+', text: 'x' }] },
    ]);
  });
});

describe('the light of a server', () => {
  it.each([
    [aServer({ enabled: false }), 'off', 'Off'],
    [aServer(), 'off', 'Stopped · starts when needed'],
    [aServer({ state: 'starting', since: 1_000 }), 'busy', 'Starting, 3 s'],
    [aServer({ state: 'ready', tools: 13, ready_ms: 412 }), 'good', 'Ready · 13 tools · 412 ms'],
    [aServer({ state: 'ready', tools: 1 }), 'good', 'Ready · 1 tool'],
    [aServer({ state: 'degraded', tools: 2 }), 'warn', 'Has a problem · 2 tools'],
    [aServer({ state: 'failed', error: 'it needs you to sign in', sign_in: { state: 'needed' } }), 'warn', 'Needs you to sign in'],
    [aServer({ state: 'degraded', tools: 2, sign_in: { state: 'waiting' } }), 'warn', 'Needs you to sign in · 2 tools'],
    [aServer({ state: 'failed', error: 'x', sign_in: { state: 'signed_in' } }), 'bad', 'Failed'],
    [aServer({ state: 'restarting', since: 1_000 }), 'warn', 'Restarting, 3 s'],
    [aServer({ state: 'failed', error: 'x' }), 'bad', 'Failed'],
  ])('tells the truth', (server, tone, words) => {
    expect(toneOf(server)).toBe(tone);
    expect(wordsOf(server, () => 4_200)).toBe(words);
  });
});
