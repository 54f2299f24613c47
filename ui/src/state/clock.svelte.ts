import { createSubscriber } from 'svelte/reactivity';

let timer: ReturnType<typeof setInterval> | undefined;

/** Ticks each second, but only while something on the screen looks at it. */
const watch = createSubscriber((update) => {
  timer = setInterval(update, 1000);
  return () => clearInterval(timer);
});

/** The time in milliseconds since the epoch; whoever reads it is run again each second. */
export function now(): number {
  watch();
  return Date.now();
}
