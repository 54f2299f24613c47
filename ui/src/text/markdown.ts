import DOMPurify from 'dompurify';
import { Marked, type Token, type Tokens } from 'marked';
import { highlight } from './highlight';

/** A top-level piece of a Markdown text. Only the last one changes while text streams in. */
export type Block =
  | { kind: 'html'; raw: string; html: string }
  | { kind: 'code'; raw: string; code: string; language: string };

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

const marked = new Marked({
  gfm: true,
  breaks: false,
  renderer: {
    // Markup in the text is shown, never obeyed.
    html: ({ text }) => escape(text),
    // Nothing is loaded from elsewhere: an image becomes a link to itself.
    image: ({ href, text }) => `<a href="${escape(href)}">${escape(text || href)}</a>`,
    // Below the headings of the conversation: its turns are of the second level.
    heading({ tokens, depth }) {
      const level = Math.min(6, depth + 2);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>`;
    },
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
    listitem(item) {
      return `<li${item.task ? ' class="task"' : ''}>${this.parser.parse(item.tokens)}</li>\n`;
    },
    code: ({ text, lang }) => {
      const inner = highlight(text, languageOf(lang)) ?? escape(text);
      return `<pre class="code"><code>${inner}</code></pre>`;
    },
  },
});

const SANITISE = {
  ALLOWED_TAGS: [
    'a', 'blockquote', 'br', 'code', 'del', 'em', 'h3', 'h4', 'h5', 'h6', 'hr', 'li', 'ol', 'p', 'pre',
    'span', 'strong', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul',
  ],
  ALLOWED_ATTR: ['align', 'class', 'href', 'start'],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  // Those hold no address: the rule above is not theirs.
  ADD_URI_SAFE_ATTR: ['align', 'start'],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};

// A link says where it leads before anybody follows it.
DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  const href = node.tagName === 'A' ? node.getAttribute('href') : null;
  if (href) node.setAttribute('title', href);
});

/** A target of reference links: it may concern any block before it. */
const DEFINITION = /^ {0,3}\[[^\]\n]+\]:/m;
/** How many blocks at the end are read again when text was added: the last one may go on, or join the one before it. */
const OPEN_END = 2;

/**
 * A Markdown text that grows, as blocks of safe HTML and of code. What did not
 * change keeps its identity, and when text was added at the end only the end is
 * read again, so that a long answer does not get slower as it comes.
 */
export function markdown(): (text: string) => Block[] {
  let known: Block[] = [];
  /** Where each block begins in `read`. */
  let starts: number[] = [];
  let read = '';

  return (text) => {
    const isGrown = text.startsWith(read) && !DEFINITION.test(text);
    const kept = isGrown ? Math.max(0, known.length - OPEN_END) : 0;
    const begin = kept > 0 ? (starts[kept] ?? 0) : 0;
    const blocks = known.slice(0, kept);
    const places = starts.slice(0, kept);
    let at = begin;
    for (const token of marked.lexer(text.slice(begin))) {
      if (token.type !== 'space' && token.type !== 'def') {
        const old = known[blocks.length];
        blocks.push(old && old.raw === token.raw && !DEFINITION.test(text) ? old : blockOf(token));
        places.push(at);
      }
      at += token.raw.length;
    }
    // Where the lengths do not add up, the places are not to be trusted.
    known = blocks;
    starts = at === text.length ? places : [];
    read = at === text.length ? text : '\0';
    return blocks;
  };
}

function blockOf(token: Token): Block {
  if (token.type === 'code') {
    const { text, lang, raw } = token as Tokens.Code;
    return { kind: 'code', raw, code: text, language: languageOf(lang) };
  }
  return { kind: 'html', raw: token.raw, html: sanitise(marked.parser([token])) };
}

function languageOf(info: string | undefined): string {
  return (info ?? '').trim().split(/\s/, 1)[0]?.toLowerCase() ?? '';
}

/** The last gate before text of agents and servers becomes markup. */
export function sanitise(html: string): string {
  return DOMPurify.sanitize(html, SANITISE);
}
