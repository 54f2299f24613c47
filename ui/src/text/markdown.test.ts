import { describe, expect, it } from 'vitest';
import { type Block, markdown, sanitise } from './markdown';

function blocksOf(text: string): Block[] {
  return markdown()(text);
}

function html(text: string): string {
  return blocksOf(text)
    .map((block) => (block.kind === 'html' ? block.html : `[code ${block.language}]`))
    .join('');
}

function dom(text: string): HTMLElement {
  const element = document.createElement('div');
  element.innerHTML = html(text);
  return element;
}

describe('hostile text', () => {
  it('is sanitised at all (a sanitiser without a proper document lets everything through)', () => {
    expect(sanitise('<p>a</p><script>alert(1)</script>')).toBe('<p>a</p>');
    expect(sanitise('<a href="javascript:alert(1)">x</a>')).toBe('<a>x</a>');
  });

  for (const [name, text] of [
    ['a script', 'a <script>alert(1)</script> b'],
    ['an event handler', '<img src=x onerror=alert(1)>'],
    ['a frame', '<iframe src="https://evil.example"></iframe>'],
    ['a form', '<form action="https://evil.example"><input name=p></form>'],
    ['a style', '<style>*{display:none}</style> <p style="position:fixed">x</p>'],
    ['a vector image', '<svg><script>alert(1)</script><a xlink:href="javascript:alert(1)"></a></svg>'],
    ['markup in a table', '| a |\n|---|\n| <img src=x onerror=alert(1)> |'],
    ['markup in a code info', '```"><img src=x onerror=alert(1)>\nx\n```\n\n- ```<b>\n  y\n  ```'],
    ['a nested template', '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">'],
  ] as const) {
    it(`${name} neither runs nor loads`, () => {
      const element = dom(text);
      expect(element.querySelector('script, img, iframe, form, input, style, svg, math, object, embed, link, base')).toBeNull();
      for (const node of element.querySelectorAll('*')) {
        for (const { name } of node.attributes) expect(name).toMatch(/^(align|class|href|start|title)$/);
      }
    });
  }

  it('images become links, nothing is fetched', () => {
    const link = dom('![a cat](https://evil.example/track.png)').querySelector('a');
    expect(link?.getAttribute('href')).toBe('https://evil.example/track.png');
    expect(link?.textContent).toBe('a cat');
  });

  for (const address of ['javascript:alert(1)', 'JaVaScRiPt:alert(1)', 'data:text/html,x', 'vbscript:x', 'file:///etc/passwd', 'java\tscript:alert(1)', '&#106;avascript:alert(1)', '//evil.example', 'tauri://localhost']) {
    it(`a link to ${address} leads nowhere`, () => {
      const element = dom(`[x](<${address}>)`);
      expect(element.querySelector('a[href]')).toBeNull();
      expect(element.textContent).toContain('x');
    });
  }

  it('a link says where it leads', () => {
    expect(dom('[docs](https://docs.example/a)').querySelector('a')?.title).toBe('https://docs.example/a');
  });
});

describe('what is kept', () => {
  it('the alignment of columns, the number a list begins with, and that a point is a task', () => {
    const element = dom('| a | b |\n|--:|:-:|\n| 1 | 2 |\n\n3. x\n\n<!-- -->\n\n- [x] y\n- z');
    expect([...element.querySelectorAll('td')].map((cell) => cell.getAttribute('align'))).toEqual(['right', 'center']);
    expect(element.querySelector('ol')?.getAttribute('start')).toBe('3');
    expect([...element.querySelectorAll('ul li')].map((item) => item.className)).toEqual(['task', '']);
    expect(element.querySelector('li.task')?.textContent?.trim()).toBe('☑ y');
  });
});

describe('blocks', () => {
  it('separates code from the rest and keeps it untouched', () => {
    const blocks = blocksOf('a\n\n```rust ignore\nlet x = "<b>";\n```\n\n| h |\n|---|\n| c |\n');
    expect(blocks.map(({ kind }) => kind)).toEqual(['html', 'code', 'html']);
    expect(blocks[1]).toMatchObject({ language: 'rust', code: 'let x = "<b>";' });
    expect((blocks[2] as Block & { kind: 'html' }).html).toContain('<table>');
  });

  it('renders only what changed', () => {
    const read = markdown();
    const first = read('# One\n\ntwo\n\nthr');
    const second = read('# One\n\ntwo\n\nthree');
    expect(second[0]).toBe(first[0]);
    expect(second[1]).toBe(first[1]);
    expect(second[2]).not.toBe(first[2]);
  });

  it('finds the target of a reference that comes later', () => {
    const read = markdown();
    read('see [it][1]\n\na\n\nb\n\nc');
    const second = read('see [it][1]\n\na\n\nb\n\nc\n\n[1]: https://a.example/');
    expect((second[0] as { html: string }).html).toContain('href="https://a.example/"');
  });

  it('says the same of a text that comes in small pieces as of the whole', { timeout: 30_000 }, () => {
    const whole = [
      '# T\n\npara *one*\nline two\n\n- a\n- b\n\n  more of b\n\n- c\n\n1. x\n   - y\n\n> q\n> r\nlazy\n\n',
      '| a | b |\n|---|--:|\n| 1 | 2 |\n\nSetext\n===\n\n```js\nlet a = `\n\n# not a heading\n```\n\n    indented\n\n\n    more\n\n***\n',
      'a\r\n\r\nb\r\n\tc\n\n~~~\nopen fence\n\n- still code\n',
    ].join('');
    const read = markdown();
    for (let end = 0, piece = 1; end <= whole.length + 4; end += piece, piece = (piece % 4) + 1) {
      const text = whole.slice(0, end);
      expect(read(text)).toEqual(blocksOf(text));
    }
  });

  it('starts over when the text is another one', () => {
    const read = markdown();
    read('one\n\ntwo\n\nthree\n\nfour');
    expect(read('x\n\ntwo').map(({ raw }) => raw.trim())).toEqual(['x', 'two']);
  });

  it('an open code fence is code already while it streams in', () => {
    expect(blocksOf('```js\nlet a')[0]).toMatchObject({ kind: 'code', language: 'js', code: 'let a' });
  });
});
