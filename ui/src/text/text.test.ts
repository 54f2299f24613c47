import { describe, expect, it } from 'vitest';
import { joinCommandLine, splitCommandLine } from './commandline';
import { diffLines } from './diff';
import { readPasted } from './paste';
import { oneLine, plain, pretty } from './plain';
import { ago, running, span } from './time';

describe('a command line', () => {
  it.each([
    ['npx -y @modelcontextprotocol/server-everything', ['npx', '-y', '@modelcontextprotocol/server-everything']],
    ['  a   b  ', ['a', 'b']],
    ['a "b c" \'d e\' f', ['a', 'b c', 'd e', 'f']],
    ['a --x="b c"d', ['a', '--x=b cd']],
    ['a "" b', ['a', '', 'b']],
    ['a "say \\"hi\\"" \\"', ['a', 'say "hi"', '"']],
    ['C:\\tools\\run.exe --dir C:\\new', ['C:\\tools\\run.exe', '--dir', 'C:\\new']],
    ["a '\\n' b\\ c", ['a', '\\n', 'b c']],
    ['a 目录/文件 & % $HOME *', ['a', '目录/文件', '&', '%', '$HOME', '*']],
    ['', []],
  ])('%s', (line, words) => {
    expect(splitCommandLine(line)).toEqual({ words });
  });

  it('says when a quote is open', () => {
    expect(splitCommandLine('a "b')).toEqual({ problem: 'quote' });
  });

  it('joins words so that they come apart the same', () => {
    for (const words of [['a', 'b c', '', '"', "'", '\\', 'C:\\a b\\', 'x\ny', '目 录'], ['npx', '-y']]) {
      expect(splitCommandLine(joinCommandLine(words))).toEqual({ words });
    }
  });
});

describe('pasted servers', () => {
  const one = { servers: [{ name: 'a', config: { command: 'x', args: ['y'] } }] };

  it.each([
    ['the common form', '{"mcpServers":{"a":{"command":"x","args":["y"]}}}'],
    ['the form of an editor', '{"servers":{"a":{"type":"stdio","command":"x","args":["y"]}}}'],
    ['without its wrapper', '{"a":{"command":"x","args":["y"]}}'],
    ['without its braces', '"a": {"command":"x","args":["y"]},'],
    ['as an array', '[{"name":"a","command":"x","args":["y"]}]'],
    ['with program and arguments in one', '{"mcp":{"a":{"type":"local","command":["x","y"]}}}'],
    ['with comments, trailing commas and a byte order mark', '\uFEFF{ // mine\n "mcpServers": { /* a\n b */ "a": {"command":"x","args":["y",],}, },\n}'],
  ])('%s', (_, text) => {
    expect(readPasted(text)).toEqual(one);
  });

  it('leaves texts that look like comments alone', () => {
    expect(readPasted('{"a":{"url":"https://x.example/mcp?a=,}//b"}}')).toEqual({
      servers: [{ name: 'a', config: { url: 'https://x.example/mcp?a=,}//b' } }],
    });
  });

  it('keeps fields that it does not know, paths of Windows, and numbers in an environment as text', () => {
    expect(readPasted('{"a":{"command":"C:\\\\x.exe","env":{"PORT":80},"icon":"i"}}')).toEqual({
      servers: [{ name: 'a', config: { command: 'C:\\x.exe', env: { PORT: '80' }, icon: 'i' } }],
    });
  });

  it('reads remote servers', () => {
    expect(readPasted('{"a":{"type":"sse","url":"https://x.example"},"b":{"httpUrl":"https://y.example"}}')).toEqual({
      servers: [
        { name: 'a', config: { url: 'https://x.example', transport: 'sse' } },
        { name: 'b', config: { url: 'https://y.example', transport: 'streamable-http' } },
      ],
    });
  });

  it('names a lone server after its program', () => {
    expect(readPasted('{"command":"npx","args":["-y","@scope/server-x@latest"]}')).toMatchObject({ servers: [{ name: 'server-x' }] });
  });

  it('says where it cannot go on', () => {
    expect(readPasted('{\n  "a": {"command": x}\n}')).toMatchObject({ problem: 'json', line: 2, column: 20 });
    expect(readPasted('{"a": {"command": "x"')).toMatchObject({ line: 1, column: 22 });
    expect(readPasted('"a": {"command": "x" "args"}')).toMatchObject({ line: 1, column: 22 });
    expect(readPasted('npx -y thing')).toMatchObject({ line: 1, column: 1 });
    expect(readPasted('{"a": 1}')).toEqual({ problem: 'none' });
    expect(readPasted('  ')).toEqual({ problem: 'empty' });
  });
});

describe('texts for people', () => {
  it('spans', () => {
    expect([412, 3_260, 45_900, 245_000, 7_500_000].map(span)).toEqual(['412 ms', '3.2 s', '45 s', '4 min 5 s', '2 h 5 min']);
    expect(running(3_900)).toBe('3 s');
  });

  it('moments', () => {
    expect([0, 59_000, 60_000, 3_600_000 * 5].map((past) => ago(1e12 - past, 1e12))).toEqual(['now', 'now', '1m ago', '5h ago']);
  });

  it('output of terminals without its colours, with what a carriage return left', () => {
    expect(plain('\u001b[31merror\u001b[0m: x\r\n10 %\r100 %\n\u001b]0;title\u0007done')).toBe('error: x\n100 %\ndone');
  });

  it('what turns letters around is written out: a name says what it is', () => {
    expect(oneLine('rm \u202Egpj.exe', 40)).toBe('rm \\u202egpj.exe');
    expect(JSON.parse(pretty({ path: 'a\u2066b' }))).toEqual({ path: 'a\u2066b' });
    expect(oneLine('مرحبا', 40)).toBe('مرحبا');
  });

  it('what changed between two texts', () => {
    expect(diffLines('a\nb\nc\n', 'a\nB\nc\n')).toEqual([
      { sign: ' ', text: 'a' },
      { sign: '-', text: 'b' },
      { sign: '+', text: 'B' },
      { sign: ' ', text: 'c' },
    ]);
    expect(diffLines('', 'x\n')).toEqual([{ sign: '+', text: 'x' }]);
    expect(diffLines('same', 'same').every(({ sign }) => sign === ' ')).toBe(true);
  });
});
