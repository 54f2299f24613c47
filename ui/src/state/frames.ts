/**
 * Gathers what comes in quick succession and hands it over once a frame, so
 * that a thousand chunks a second cost sixty renderings.
 */
export function perFrame<T>(flush: (batch: T[]) => void): { add(item: T): void; now(): void } {
  let batch: T[] = [];
  let scheduled = false;

  const now = (): void => {
    scheduled = false;
    if (batch.length === 0) return;
    const full = batch;
    batch = [];
    flush(full);
  };
  return {
    add(item) {
      batch.push(item);
      if (scheduled) return;
      scheduled = true;
      // A page that is not visible gets no frames; its state must stay true all the same.
      if (document.hidden) setTimeout(now, 100);
      else requestAnimationFrame(now);
    },
    now,
  };
}
