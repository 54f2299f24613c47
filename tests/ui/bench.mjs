// How quick the interface is: `cargo xtask bench ui`. Headless Chromium, slowed
// down four times, against `gantry serve`. Prints a table; fails when a limit
// of the table is passed by more than the noise of a busy machine explains.

import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { closeBrowser, onStage, openBrowser, until } from './stage.mjs';

const SLOWER = 4;
const ROUNDS = Number(process.env.GANTRY_BENCH_ROUNDS ?? 3);
const AGENT = fileURLToPath(new URL('bench-agent.mjs', import.meta.url));
const sorted = (numbers) => numbers.toSorted((a, b) => a - b);
const quantile = (numbers, share) => sorted(numbers)[Math.min(numbers.length - 1, Math.floor(numbers.length * share))];
const rows = [];
const row = (what, value, unit, limit) => rows.push({ what, value, unit, limit });

/** Sends a prompt by the API and waits for the end of its turn. */
async function turn(stage, session, text) {
  await stage.api('session_prompt', { session, content: [{ type: 'text', text }] });
  await until('the turn is over', async () => {
    const { sessions } = await stage.api('sessions_list', {});
    return sessions.find(({ id }) => id === session).state === 'idle';
  }, 120_000);
}

async function slow(stage, page, rate) {
  const keys = await stage.context.newCDPSession(page);
  await keys.send('Emulation.setCPUThrottlingRate', { rate });
  return keys;
}

await openBrowser();
await onStage('bench', async (stage) => {
  await stage.api('agents_save', { id: 'bench', config: { name: 'Bench', command: process.execPath, args: [AGENT], env: {} } });
  const create = async (title) => (await stage.api('session_create', { project_dir: stage.project, agent: 'bench', title, permission: 'all' })).session.id;
  const long = await create('long');
  await turn(stage, long, 'MANY 5000 big');
  const turns = await create('turns');
  for (let n = 0; n < 50; n++) await turn(stage, turns, n === 49 ? 'MANY 100 big' : 'MANY 100');
  const other = await create('other');
  await turn(stage, other, 'hello');

  const openings = { long: [], turns: [] };
  const strokes = [];
  const usable = [];
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, session] of [['long', long], ['turns', turns]]) {
      const page = await stage.open();
      const item = (id) => page.locator(`[data-testid=session-item][data-session="${id}"] .item`);
      await item(other).click();
      await page.getByTestId('message-text').first().waitFor();
      usable.push(await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN));
      await slow(stage, page, SLOWER);
      await page.evaluate(() => {
        addEventListener('pointerdown', () => (window.began = performance.now()), { capture: true, once: true });
        window.opened = new Promise((done) => {
          const look = () => {
            const turn = [...document.querySelectorAll('[data-testid=turn]')].at(-1);
            if (turn?.dataset.ended && turn.querySelector('[data-testid=tool-card]')) requestAnimationFrame(() => setTimeout(() => done(performance.now() - window.began)));
            else requestAnimationFrame(look);
          };
          requestAnimationFrame(look);
        });
      });
      await item(session).click();
      openings[name].push(await page.evaluate(() => window.opened));
      if (name === 'long') {
        // From the press of a key to the picture that shows its letter.
        await page.evaluate(() => {
          window.strokes = [];
          document.querySelector('[data-testid=composer]').addEventListener('keydown', ({ timeStamp }) => {
            requestAnimationFrame(() => setTimeout(() => window.strokes.push(performance.now() - timeStamp)));
          });
        });
        await page.getByTestId('composer').pressSequentially('What does the parser do with a record that it does not know?', { delay: 40 });
        strokes.push(...(await page.evaluate(() => window.strokes)));
      }
      await page.close();
    }
  }
  row('5,000 updates in one turn, one with 2 MB: opened', quantile(openings.long, 0.5), 'ms', 1000);
  row('5,000 updates in 50 turns, one with 2 MB: opened', quantile(openings.turns, 0.5), 'ms', 1000);
  row('a letter typed there is on the screen, p95', quantile(strokes, 0.95), 'ms', 50);

  for (const rate of [1, SLOWER]) {
    const longest = [];
    for (let round = 0; round < ROUNDS; round++) {
      const session = await create(`stream ${rate} ${round}`);
      const page = await stage.open();
      await page.locator(`[data-testid=session-item][data-session="${session}"] .item`).click();
      await page.getByTestId('composer').waitFor();
      await slow(stage, page, rate);
      await page.evaluate(() => {
        window.longest = 0;
        let last = performance.now();
        const frame = (now) => {
          window.longest = Math.max(window.longest, now - last);
          last = now;
          requestAnimationFrame(frame);
        };
        requestAnimationFrame(() => {
          last = performance.now();
          requestAnimationFrame(frame);
        });
      });
      await turn(stage, session, 'STREAM 1000 8');
      longest.push(await page.evaluate(() => window.longest));
      await page.close();
    }
    row(`1,000 chunks a second for 8 s: longest frame${rate > 1 ? `, ${rate} times slower` : ''}`, quantile(longest, 0.5), 'ms', rate > 1 ? null : 100);
  }
  row('first content on the screen (not slowed down)', quantile(usable, 0.5), 'ms', null);
});
await closeBrowser();

console.log(`\n${'measured in Chromium, slowed down four times unless it says otherwise'.padEnd(64)} ${'median'.padStart(10)} ${'limit'.padStart(8)}`);
for (const { what, value, unit, limit } of rows) {
  console.log(`${what.padEnd(64)} ${`${value.toFixed(0)} ${unit}`.padStart(10)} ${(limit === null ? '–' : `${limit} ${unit}`).padStart(8)}`);
}
if (process.env.GANTRY_ARTIFACTS) fs.writeFileSync(path.join(process.env.GANTRY_ARTIFACTS, 'bench-ui.json'), JSON.stringify(rows, null, 2));
