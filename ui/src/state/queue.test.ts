import { beforeEach, describe, expect, it } from 'vitest';
import { Queue } from './queue.svelte';

const texts = (queue: Queue): string[] => queue.of('s').map(({ text }) => text);

describe('the queue', () => {
  beforeEach(() => sessionStorage.clear());

  it('gives out what came first, and is there again after a reload', () => {
    const queue = new Queue();
    queue.add('s', 'one');
    queue.add('s', 'two');
    queue.add('other', 'three');
    expect(queue.next('s')).toBe('one');
    expect(texts(new Queue())).toEqual(['two']);
    expect(queue.take('s', queue.of('s')[0]?.id ?? '')).toBe('two');
    expect(queue.next('s')).toBeNull();
    expect(queue.sessions).toEqual(['other']);
  });

  it('is held after a turn that did not end well, until it is asked to go on', () => {
    const queue = new Queue();
    queue.add('s', 'one');
    queue.ended('s', 'cancelled');
    expect(queue.isHeld('s')).toBe(true);
    expect(queue.next('s')).toBeNull();
    queue.release('s');
    expect(queue.next('s')).toBe('one');
    queue.add('s', 'two');
    queue.ended('s', 'end_turn');
    expect(queue.next('s')).toBe('two');
  });

  it('lets a hurried one go first, also when the turn before was stopped for it', () => {
    const queue = new Queue();
    queue.add('s', 'one');
    queue.add('s', 'two');
    queue.hurry('s', queue.of('s')[1]?.id ?? '');
    queue.ended('s', 'cancelled');
    expect(queue.next('s')).toBe('two');
    // That was meant for one turn only.
    queue.ended('s', 'cancelled');
    expect(queue.next('s')).toBeNull();
  });

  it('forgets what waits for sessions that are gone, and survives nonsense in the storage', () => {
    const queue = new Queue();
    queue.add('s', 'one');
    queue.keep(() => false);
    expect(queue.sessions).toEqual([]);
    sessionStorage.setItem('gantry.queue', '{nonsense');
    expect(new Queue().sessions).toEqual([]);
  });
});
