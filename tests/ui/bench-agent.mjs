// An ACP agent for the benchmark of the interface. A prompt says what it does:
// `MANY n` sends n updates of all kinds, `MANY n big` with one tool call whose
// output has 2 MB; `STREAM rate seconds` sends so many chunks a second.

import { createInterface } from 'node:readline';

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const WORDS = 'the feed holds three kinds of records and only **one** of them carries a `value` that we need '.split(' ');

function update(sessionId, fields) {
  send({ method: 'session/update', params: { sessionId, update: fields } });
}
const chunk = (sessionId, text) => update(sessionId, { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } });

async function many(sessionId, count, isBig) {
  for (let n = 0; n < count; n++) {
    const id = `call-${Math.floor(n / 10)}`;
    if (n % 10 === 0) {
      update(sessionId, { sessionUpdate: 'tool_call', toolCallId: id, title: `Read src/file-${n}.ts`, kind: 'read', status: 'in_progress', rawInput: { path: `src/file-${n}.ts` } });
    } else if (n % 10 === 1) {
      const size = isBig && n === 1 ? 2 * 1024 * 1024 : 400;
      const text = 'a line of the output, as long as lines are on the average\n'.repeat(Math.ceil(size / 59)).slice(0, size);
      update(sessionId, { sessionUpdate: 'tool_call_update', toolCallId: id, status: 'completed', content: [{ type: 'content', content: { type: 'text', text } }] });
    } else if (n % 10 === 2) {
      update(sessionId, { sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text: `Now I look at step ${n}.` } });
    } else {
      chunk(sessionId, `${WORDS[n % WORDS.length]} ${n % 10 === 9 ? '\n\n```ts\nconst x = 1;\n```\n\n' : ''}`);
    }
    if (n % 200 === 0) await pause(5);
  }
}

async function stream(sessionId, rate, seconds) {
  const began = Date.now();
  let sent = 0;
  while (sent < rate * seconds) {
    const due = Math.min(rate * seconds, Math.floor(((Date.now() - began) / 1000) * rate));
    for (; sent < due; sent++) chunk(sessionId, `${WORDS[sent % WORDS.length]} ${sent % 60 === 59 ? '\n\n' : ''}`);
    await pause(4);
  }
}

async function prompt(id, { sessionId, prompt }) {
  const [word, ...numbers] = String(prompt[0]?.text ?? '').split(' ');
  if (word === 'MANY') await many(sessionId, Number(numbers[0]), numbers[1] === 'big');
  else if (word === 'STREAM') await stream(sessionId, Number(numbers[0]), Number(numbers[1]));
  else chunk(sessionId, 'ready');
  send({ id, result: { stopReason: 'end_turn' } });
}

let sessions = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (method === 'initialize') send({ id, result: { protocolVersion: 1, agentCapabilities: { mcpCapabilities: { http: true } } } });
  else if (method === 'session/new') send({ id, result: { sessionId: `bench-${++sessions}` } });
  else if (method === 'session/prompt') void prompt(id, params);
  else if (id !== undefined && method !== undefined) send({ id, result: {} });
}
