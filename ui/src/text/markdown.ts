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
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};

// A link says where it leads before anybody follows it.
DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  const href = node.tagName === 'A' ? node.getAttribute('href') : null;
  if (href) node.setAttribute('title', href);
});

/** A Markdown text as blocks of safe HTML and of code. */
export function blocksOf(text: string, known: readonly Block[] = []): Block[] {
  const blocks: Block[] = [];
  for (const token of marked.lexer(text)) {
    if (token.type === 'space' || token.type === 'def') continue;
    // What did not change is not rendered again, and keeps its identity for the screen.
    const old = known[blocks.length];
    blocks.push(old && old.raw === token.raw && !hasReference(token) ? old : blockOf(token));
  }
  return blocks;
}

/** A reference link may find its target later in the text. */
function hasReference(token: Token): boolean {
  return token.type !== 'code' && token.raw.includes('][');
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
