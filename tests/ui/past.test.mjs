// Conversations that an agent keeps itself: they are listed, and one goes on here.

import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { closeBrowser, onStage, openBrowser, until } from './stage.mjs';

before(openBrowser);
after(closeBrowser);

const AGENT = fileURLToPath(new URL('past-agent.mjs', import.meta.url));

async function know(stage, id, can, delay = 0) {
  const env = { PAST_CAN: can, PAST_DELAY: String(delay) };
  await stage.api('agents_save', { id, config: { name: `Keeper ${id}`, command: process.execPath, args: [AGENT], env } });
}

/** Opens the list of an agent's conversations on the start page. */
async function ask(stage, agent, project = stage.project) {
  const { page } = stage;
  if (!(await page.getByTestId('start-page').isVisible())) await page.getByTestId('new-session').first().click();
  await page.getByTestId('project-input').fill(project);
  await page.getByTestId('agent-select').selectOption(agent);
  await page.getByTestId('start-past').click();
  await page.getByTestId('past').waitFor();
}

const focused = (page) => page.evaluate(() => document.activeElement?.getAttribute('data-conversation'));

test('a conversation of an agent goes on here, with what was said in it', () =>
  onStage('past', async (stage) => {
    const { page } = stage;
    await know(stage, 'tells', 'list,load,resume', 1500);
    await page.getByTestId('start-page').waitFor();
    await ask(stage, 'tells');
    await page.getByTestId('past-loading').waitFor();
    assert.deepEqual(await stage.inaccessible(), []);
    await stage.screenshot('past-loading');

    const rows = page.getByTestId('past-row');
    await rows.first().waitFor();
    assert.deepEqual(await rows.evaluateAll((all) => all.map(({ dataset }) => dataset.conversation)), ['old-1', 'old-2']);
    assert.match(await rows.nth(0).innerText(), /Count the stations\s+3\s?h/);
    assert.match(await rows.nth(1).innerText(), /old-2/);
    assert.deepEqual(await stage.inaccessible(), []);
    assert.deepEqual(await stage.nameless(), []);
    await stage.screenshot('past-list');

    // By keyboard alone; the focus is in the list already.
    await until('the first has the focus', async () => (await focused(page)) === 'old-1');
    await page.keyboard.press('ArrowDown');
    assert.equal(await focused(page), 'old-2');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('Enter');
    await page.getByTestId('past-opening').waitFor();
    await stage.screenshot('past-opening');
    await until('the past is shown', async () => (await page.getByTestId('turn').count()) === 2);
    assert.equal(await page.getByTestId('past').count(), 0);
    const said = await page.getByTestId('transcript').innerText();
    assert.match(said, /How many stations are there\?[\s\S]*forty-two[\s\S]*without the closed ones[\s\S]*Thirty-nine/);
    assert.match(await page.getByTestId('chat-header').innerText(), /Count the stations/);
    assert.equal(await page.getByTestId('past-unshown').count(), 0);
    await stage.say('and on');
    assert.match(await (await stage.endOfTurn()).innerText(), /old-1 heard: and on/);
    await stage.screenshot('past-goes-on');

    // It is a session now: the list leads there, and begins no other.
    await ask(stage, 'tells');
    await rows.first().waitFor();
    assert.match(await rows.nth(0).innerText(), /session/);
    await rows.nth(0).click();
    await page.getByTestId('composer').waitFor();
    assert.match(await page.getByTestId('transcript').innerText(), /old-1 heard: and on/);
    assert.equal((await stage.api('sessions_list', {})).sessions.length, 1);
  }));

test('an agent that does not tell the past goes on all the same, and it is said', () =>
  onStage('past-untold', async (stage) => {
    const { page } = stage;
    await know(stage, 'knows', 'list,resume');
    await page.getByTestId('start-page').waitFor();
    await ask(stage, 'knows');
    await page.getByTestId('past-row').first().click();
    const note = page.getByTestId('past-unshown');
    await note.waitFor();
    await stage.screenshot('past-untold');
    await stage.say('hello again');
    assert.match(await (await stage.endOfTurn()).innerText(), /old-1 heard: hello again/);
    assert.equal(await note.count(), 1);
    const other = await stage.open();
    await other.getByTestId('turn').waitFor();
    assert.equal(await other.getByTestId('past-unshown').count(), 1);
  }, { locale: 'zh-CN' }));

test('where there is nothing to go on with, it is said why', () =>
  onStage('past-none', async (stage) => {
    const { page } = stage;
    stage.expected = /status of (400|502)/;
    await know(stage, 'mute', 'load');
    await know(stage, 'locked', 'list,load,refuse');
    await page.getByTestId('start-page').waitFor();
    const closed = async () => {
      await page.keyboard.press('Escape');
      await page.getByTestId('past').waitFor({ state: 'detached' });
      await until('the focus is back', async () => (await page.evaluate(() => document.activeElement?.getAttribute('data-testid'))) === 'start-past', 1_000);
    };

    await ask(stage, 'mute');
    await page.getByTestId('past-not-offered').waitFor();
    assert.deepEqual(await stage.inaccessible(), []);
    await stage.screenshot('past-not-offered');
    await closed();

    await ask(stage, 'locked');
    await until('the reason', async () => /the archive is locked/.test(await page.getByTestId('past-error').innerText()));
    assert.deepEqual(await stage.inaccessible(), []);
    await stage.screenshot('past-error');
    await page.getByTestId('past-again').click();
    await page.getByTestId('past-again').waitFor();
    await closed();

    await ask(stage, 'built-in');
    await page.getByTestId('past-none').waitFor();
    await closed();

    await ask(stage, 'built-in', path.join(stage.project, 'nowhere'));
    await until('the folder is named', async () => /nowhere/.test(await page.getByTestId('past-error').innerText()));
  }, { scheme: 'dark', viewport: { width: 640, height: 400 } }));
