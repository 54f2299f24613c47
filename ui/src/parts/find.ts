/** More places than this are not marked. */
const MOST = 2000;

/**
 * The places of some words in the text of an element, whatever their case.
 * Words may go over the borders of elements (bold in the middle), not over
 * those of blocks.
 */
export function findIn(element: HTMLElement, words: string): Range[] {
  const wanted = words.toLowerCase();
  if (wanted.trim() === '') return [];
  const found: Range[] = [];
  for (const block of blocksOf(element)) {
    const whole = block.map(({ data }) => lower(data)).join('');
    for (let at = whole.indexOf(wanted); at >= 0; at = whole.indexOf(wanted, at + wanted.length)) {
      const range = element.ownerDocument.createRange();
      const [start, startAt] = place(block, at);
      const [end, endAt] = place(block, at + wanted.length - 1);
      range.setStart(start, startAt);
      range.setEnd(end, endAt + 1);
      found.push(range);
      if (found.length >= MOST) return found;
    }
  }
  return found;
}

/** Lower case of the same length: places in it are places in the text. */
function lower(text: string): string {
  const small = text.toLowerCase();
  return small.length === text.length ? small : [...text].map((c) => (c.toLowerCase().length === c.length ? c.toLowerCase() : c)).join('');
}

const INLINE = new Set(['A', 'B', 'BDI', 'CODE', 'DEL', 'EM', 'I', 'S', 'SPAN', 'STRONG', 'SUB', 'SUP', 'MARK', 'KBD']);

/** The text nodes, by the block that they are in. What only screen readers get is left out. */
function blocksOf(element: HTMLElement): Text[][] {
  const blocks: Text[][] = [];
  let last: Element | null = null;
  const walker = element.ownerDocument.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    let block = node.parentElement;
    while (block && block !== element && INLINE.has(block.tagName)) block = block.parentElement;
    if (!block || node.parentElement?.closest('.unseen, button[aria-hidden]')) continue;
    if (block !== last) blocks.push([]);
    last = block;
    blocks.at(-1)?.push(node as Text);
  }
  return blocks;
}

function place(block: readonly Text[], at: number): [Text, number] {
  let rest = at;
  for (const node of block) {
    if (rest < node.length) return [node, rest];
    rest -= node.length;
  }
  throw new RangeError('the place is not in the block');
}
