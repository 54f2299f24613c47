import { describe, expect, it } from 'vitest';
import { runs } from './ansi';
import { diffLines, diffRows, edits } from './diff';
import { argumentsOf, fieldsOf, tokens } from './schema';

const written = (before: string, after: string): string => diffLines(before, after).map(({ sign, text }) => `${sign}${text}`).join('|');

describe('a comparison', () => {
  it('finds the fewest changes', () => {
    expect(written('a\nb\nc\nd\n', 'a\nx\nc\nd\ne\n')).toBe(' a|-b|+x| c| d|+e');
    expect(written('', 'a\n')).toBe('+a');
    expect(written('a\n', '')).toBe('-a');
    expect(written('a\nb', 'a\nb')).toBe('');
  });

  it('gives back both texts, whatever they are', () => {
    let seed = 7;
    const random = (n: number): number => (seed = (seed * 48271) % 2147483647) % n;
    for (let round = 0; round < 200; round++) {
      const text = (): string[] => Array.from({ length: random(12) }, () => 'abc'[random(3)] as string);
      const [before, after] = [text(), text()];
      const diff = edits(before, after);
      expect(diff.filter(({ sign }) => sign !== '+').map(({ text }) => text)).toEqual(before);
      expect(diff.filter(({ sign }) => sign !== '-').map(({ text }) => text)).toEqual(after);
    }
  });

  it('leaves out what is far from every change', () => {
    const long = Array.from({ length: 40 }, (_, n) => `line ${n}`);
    const diff = diffLines(long.join('\n'), long.with(2, 'new').with(30, 'other').join('\n'));
    expect(diff.filter(({ text }) => text === '⋯')).toHaveLength(1);
    expect(diff.length).toBeLessThan(20);
  });

  it('ends in reasonable time on texts without anything in common', () => {
    const lines = (letter: string): string => Array.from({ length: 20_000 }, (_, n) => `${letter}${n}`).join('\n');
    const began = performance.now();
    expect(diffLines(lines('a'), lines('b'))).toHaveLength(40_000);
    expect(performance.now() - began).toBeLessThan(5000);
  });

  it('puts what was removed beside what came in its place', () => {
    const rows = diffRows(diffLines('a\nb\nc\n', 'a\nx\ny\nc\n'));
    expect(rows.map(({ left, right }) => [left?.text ?? null, right?.text ?? null])).toEqual([['a', 'a'], ['b', 'x'], [null, 'y'], ['c', 'c']]);
  });
});

describe('the colours of terminals', () => {
  it('are read, and other sequences are left out', () => {
    const found = runs('a\u001B[1;31mred\u001B[0m \u001B[2Kb\u001B[38;5;208mx\u001B[38;2;1;2;3my\u001B[39mz');
    expect(found.map(({ text }) => text).join('')).toBe('ared bxyz');
    expect(found.find(({ text }) => text === 'red')).toMatchObject({ look: 'bold ansi-1', colour: null });
    expect(found.find(({ text }) => text === 'x')?.colour).toBe('rgb(255 135 0)');
    expect(found.find(({ text }) => text === 'y')?.colour).toBe('rgb(1 2 3)');
    expect(found.at(-1)).toEqual({ text: 'z', look: '', colour: null });
  });
});

describe('the form of a tool', () => {
  const fields = fieldsOf({
    type: 'object',
    required: ['name', 'n'],
    properties: { name: { type: 'string' }, n: { type: 'integer', default: 3 }, loud: { type: 'boolean' }, mode: { enum: ['a', 'b'] }, list: { type: 'array' } },
  });

  it('has a field for each argument', () => {
    expect(fields.map(({ kind }) => kind)).toEqual(['text', 'number', 'flag', 'choice', 'json']);
    expect(fields[1]?.initial).toBe('3');
    expect(fieldsOf(undefined)).toEqual([]);
  });

  it('means arguments of the right kinds, without the empty ones', () => {
    expect(argumentsOf(fields, { name: '', n: '4', loud: 'false', mode: 'b', list: '[1]' })).toEqual({ arguments: { name: '', n: 4, loud: false, mode: 'b', list: [1] } });
    expect(argumentsOf(fields, { name: 'x', n: '1' })).toEqual({ arguments: { name: 'x', n: 1 } });
    expect(argumentsOf(fields, { name: 'x', n: 'many' })).toEqual({ bad: 'n' });
    expect(argumentsOf(fields, { name: 'x', n: '' })).toEqual({ bad: 'n' });
    expect(argumentsOf(fields, { name: 'x', n: '1', list: '[' })).toEqual({ bad: 'list' });
  });

  it('is weighed in tokens, roughly', () => {
    expect(tokens('')).toBe(0);
    expect(tokens('12345678')).toBe(2);
    expect(tokens('工具工具')).toBe(4);
  });
});
