/** Does something now and again and again while somebody can see it; the answer ends it. */
export function again(ms: number, act: () => void): () => void {
  act();
  const timer = setInterval(() => {
    if (!document.hidden) act();
  }, ms);
  return () => clearInterval(timer);
}
