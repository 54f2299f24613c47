// An ACP agent that keeps conversations: it lists them, goes on with one and,
// with `load`, tells what was said in it. What it offers is in PAST_CAN (a comma
// list of list, load, resume, refuse); PAST_DELAY (milliseconds) is taken before
// a list and before an opened conversation.

import { createInterface } from 'node:readline';

const can = new Set((process.env.PAST_CAN ?? 'list,load').split(','));
const delay = Number(process.env.PAST_DELAY ?? 0);
const wait = () => new Promise((done) => setTimeout(done, delay));

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const say = (sessionId, sessionUpdate, text) =>
  send({ method: 'session/update', params: { sessionId, update: { sessionUpdate, content: { type: 'text', text } } } });

const offered = (...names) => Object.fromEntries(names.filter((name) => can.has(name)).map((name) => [name, {}]));
let opened = 0;

const answers = {
  initialize: () => ({
    protocolVersion: 1,
    agentInfo: { name: 'past', version: '1.0.0' },
    authMethods: [],
    agentCapabilities: {
      loadSession: can.has('load'),
      sessionCapabilities: offered('list', 'resume'),
      mcpCapabilities: { http: true },
    },
  }),
  'session/new': () => ({ sessionId: `new-${++opened}` }),
  'session/list': async ({ cwd }) => {
    await wait();
    if (can.has('refuse')) throw new Error('the archive is locked');
    return {
      sessions: [
        { sessionId: 'old-1', cwd, title: 'Count the stations', updatedAt: new Date(Date.now() - 3 * 3_600_000).toISOString() },
        { sessionId: 'old-2', cwd },
        { sessionId: 'elsewhere', cwd: '/', title: 'Not of this folder' },
      ],
    };
  },
  'session/load': async ({ sessionId }) => {
    await wait();
    say(sessionId, 'user_message_chunk', 'How many stations are there?');
    say(sessionId, 'agent_message_chunk', 'There are **forty-two** stations.');
    say(sessionId, 'user_message_chunk', 'And without the closed ones?');
    say(sessionId, 'agent_message_chunk', 'Thirty-nine.');
    return {};
  },
  'session/resume': async () => {
    await wait();
    return {};
  },
  'session/prompt': ({ sessionId, prompt }) => {
    say(sessionId, 'agent_message_chunk', `${sessionId} heard: ${prompt.at(-1).text}`);
    return { stopReason: 'end_turn' };
  },
};

createInterface({ input: process.stdin }).on('line', async (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined) return;
  try {
    if (!answers[method]) throw new Error(`no ${method} here`);
    send({ id, result: await answers[method](params) });
  } catch (why) {
    send({ id, error: { code: -32603, message: why.message } });
  }
});
