import { flushSync, mount, unmount } from 'svelte';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { JsonValue, QuestionView } from '../wire';
import { INERT_MS } from './permission';
import { answerLine, contentOf, fieldsOf, refusalOf, type Value } from './question';
import Question from './Question.svelte';

function asked(properties: Record<string, JsonValue>, required: string[] = []): QuestionView {
  return { request: 'q1', turn: null, tool_call: null, mode: 'form', message: 'Where?', asked_at: 1, schema: { type: 'object', properties, required } };
}

const ALL = asked(
  {
    name: { type: 'string', title: 'Name', minLength: 2, maxLength: 3 },
    mail: { type: 'string', format: 'email' },
    at: { type: 'string', format: 'date-time', default: '2026-01-31T12:00:00Z' },
    size: { type: 'integer', minimum: 1, maximum: 9, default: 3 },
    share: { type: 'number' },
    open: { type: 'boolean', default: true },
    colour: { type: 'string', default: 'g', oneOf: [{ const: 'r', title: 'Red' }, { const: 'g', title: 'Green' }] },
    tags: { type: 'array', maxItems: 2, default: ['b', 'gone'], items: { type: 'string', enum: ['a', 'b', 'c'] } },
    new: { type: '_hologram' },
  },
  ['name'],
);

describe('the form of a question', () => {
  it('has a field for each property, with its default', () => {
    const fields = fieldsOf(ALL);
    expect(fields.map(({ kind }) => kind)).toEqual(['text', 'text', 'text', 'integer', 'number', 'flag', 'choice', 'choices', 'unknown']);
    expect(fields.map(({ input }) => input).slice(0, 3)).toEqual(['text', 'email', 'datetime-local']);
    expect(fields.map(({ initial }) => initial).slice(3)).toEqual(['3', '', true, 'g', ['b'], '']);
    expect(fields[6]?.choices.map(({ title }) => title)).toEqual(['Red', 'Green']);
  });

  it('says what was filled in, and leaves out what was not', () => {
    const read = contentOf(fieldsOf(ALL), { name: '语言', share: ' 0.5 ', open: false, tags: ['a', 'c'] });
    expect(read).toEqual({ content: { name: '语言', at: '2026-01-31T12:00:00.000Z', size: 3, share: 0.5, open: false, colour: 'g', tags: ['a', 'c'] } });
  });

  it('says what is wrong with which field', () => {
    const wrong = (change: Record<string, Value>): string[] => {
      const read = contentOf(fieldsOf(ALL), { name: 'abc', ...change });
      return 'problems' in read ? Object.keys(read.problems) : [];
    };
    expect(wrong({})).toEqual([]);
    for (const [name, value] of [['name', ''], ['name', 'a'], ['name', '😀😀😀😀'], ['size', '1.5'], ['size', '12'], ['size', '0'], ['share', 'x'], ['tags', ['a', 'b', 'c']]] as const) {
      expect(wrong({ [name]: value as Value })).toEqual([name]);
    }
    expect(wrong({ name: '😀😀😀' })).toEqual([]);
    expect('problems' in contentOf(fieldsOf(asked({ new: { type: '_hologram' } }, ['new'])), {})).toBe(true);
  });

  it('shows an answer by titles, and finds the field of a refusal', () => {
    expect(answerLine(ALL, { name: 'Ada', open: false, colour: 'r', tags: ['a', 'b'] })).toBe('Name: Ada · open: no · colour: Red · tags: a, b');
    expect(refusalOf('content.name: must match ^a: b$')).toEqual({ name: 'name', problem: 'must match ^a: b$' });
    expect(refusalOf('it is gone')).toBeNull();
  });
});

describe('a question on the screen', () => {
  let mounted: Record<string, unknown> | null = null;
  afterEach(async () => {
    if (mounted) await unmount(mounted);
    mounted = null;
    vi.useRealTimers();
  });

  function find<T extends HTMLElement>(selector: string): T {
    const element = document.querySelector<T>(selector);
    if (!element) throw new Error(`${selector} is not there`);
    return element;
  }

  function open(question: QuestionView, onanswer: (action: string, content?: JsonValue) => string | null, onlink = (_: string): void => {}): void {
    vi.useFakeTimers();
    mounted = mount(Question, { target: document.body, props: { question, onlink, onanswer: (action: string, content?: JsonValue) => Promise.resolve(onanswer(action, content)) } });
    flushSync();
  }
  const ready = (): void => {
    vi.advanceTimersByTime(INERT_MS);
    flushSync();
  };

  it('sends nothing in its first moment and nothing that is wrong, and shows what the host says at its field', async () => {
    const answers: unknown[] = [];
    open(asked({ name: { type: 'string', title: 'Name' } }, ['name']), (action, content) => {
      answers.push([action, content]);
      return answers.length === 1 ? 'content.name: must match ^A' : null;
    });
    const field = find<HTMLInputElement>('[data-field=name] input');
    const accept = find<HTMLButtonElement>('[data-testid=question-accept]');
    find('[data-testid=question-decline]').click();
    expect(answers).toEqual([]);
    ready();
    accept.click();
    await vi.waitFor(() => expect(find('[data-testid=question-problem]').textContent).not.toBe(''));
    expect(field.getAttribute('aria-invalid')).toBe('true');
    expect(answers).toEqual([]);
    field.value = 'Bob';
    field.dispatchEvent(new InputEvent('input', { bubbles: true }));
    accept.click();
    await vi.waitFor(() => expect(find('[data-testid=question-problem]').textContent).toBe('must match ^A'));
    expect(answers).toEqual([['accept', { name: 'Bob' }]]);
    find('[data-testid=question-decline]').click();
    await vi.waitFor(() => expect(answers.length).toBe(2));
    expect(answers[1]).toEqual(['decline', undefined]);
  });

  it('sends nothing with an Enter that ends a composition', () => {
    open(asked({ name: { type: 'string' } }), () => null);
    const field = find<HTMLInputElement>('[data-field=name] input');
    for (const how of [{ isComposing: true }, { keyCode: 229 }, { repeat: true }]) {
      const event = new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true, ...how });
      field.dispatchEvent(event);
      expect(event.defaultPrevented).toBe(true);
    }
  });

  it('shows the whole address of a page and opens it only when it is told to', async () => {
    const answers: string[] = [];
    const links: string[] = [];
    const page: QuestionView = { ...asked({}), mode: 'url', schema: null, url: 'https://example.com/a?b=c' };
    open(page, (action) => {
      answers.push(action);
      return null;
    }, (url) => links.push(url));
    expect(find('[data-testid=question]').textContent).toContain('https://example.com/a?b=c');
    find('[data-testid=question-open]').click();
    expect(links).toEqual([]);
    ready();
    find('[data-testid=question-open]').click();
    await vi.waitFor(() => expect(answers).toEqual(['accept']));
    expect(links).toEqual(['https://example.com/a?b=c']);
  });
});
