/** One message of a stream of server-sent events. */
export interface Message {
  event: string;
  id: string;
  data: string;
}

/**
 * A parser for server-sent events that is fed with pieces of text.
 *
 * The browser's own `EventSource` cannot send a header, so it would put the
 * token into an address; and it hides why a connection was refused.
 */
export function sseParser(emit: (message: Message) => void): (piece: string) => void {
  let rest = '';
  let event = '';
  let id = '';
  let data: string[] = [];

  function line(text: string): void {
    if (text === '') {
      if (data.length > 0) emit({ event: event || 'message', id, data: data.join('\n') });
      event = '';
      data = [];
      return;
    }
    if (text.startsWith(':')) return;
    const colon = text.indexOf(':');
    const field = colon < 0 ? text : text.slice(0, colon);
    let value = colon < 0 ? '' : text.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (field === 'data') data.push(value);
    else if (field === 'event') event = value;
    else if (field === 'id') id = value;
  }

  return (piece) => {
    rest += piece;
    let start = 0;
    for (;;) {
      const end = nextBreak(rest, start);
      if (end < 0) break;
      // A carriage return at the very end may be the first half of a line end.
      if (rest[end] === '\r' && end + 1 === rest.length) break;
      line(rest.slice(start, end));
      start = end + (rest[end] === '\r' && rest[end + 1] === '\n' ? 2 : 1);
    }
    rest = rest.slice(start);
  };
}

function nextBreak(text: string, from: number): number {
  const feed = text.indexOf('\n', from);
  const carriage = text.indexOf('\r', from);
  if (feed < 0) return carriage;
  if (carriage < 0) return feed;
  return Math.min(feed, carriage);
}
