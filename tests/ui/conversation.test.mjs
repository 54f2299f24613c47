// What a person does in a conversation: the queue, files, search, long turns, commands.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { closeBrowser, onStage, openBrowser, program, until } from './stage.mjs';

before(openBrowser);
after(closeBrowser);

test('messages wait while the agent works, can be changed, and go in order', () =>
  onStage('queue', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    await stage.say('ECHO first\nSLOW 60000');
    await page.getByTestId('message-text').first().waitFor();
    const composer = page.getByTestId('composer');
    for (const text of ['ECHO second', 'ECHO third', 'ECHO never']) {
      await composer.fill(text);
      await composer.press('Enter');
    }
    const queued = page.getByTestId('queued');
    await until('three wait', async () => (await queued.count()) === 3);
    await queued.nth(2).getByTestId('queue-remove').click();
    await until('two wait', async () => (await queued.count()) === 2);
    await queued.nth(0).getByTestId('queue-edit').click();
    await page.getByTestId('queue-field').fill('ECHO fourth');
    await page.getByTestId('queue-field').press('Enter');
    // It lies in the host: another window sees it too.
    const other = await stage.open();
    await other.getByTestId('session-item').locator('button').first().click();
    await until('the other window sees the change', async () => /fourth/.test(await other.getByTestId('queue').innerText()));
    // What was taken back leaves no trace, there and after a reload neither.
    assert.equal(await other.getByText('ECHO never').count(), 0);
    await stage.screenshot('queue');
    // "Send now" stops what runs; the other one follows by itself.
    await queued.nth(1).getByTestId('queue-now').click();
    await until('all three turns are over', async () => (await page.locator('[data-testid=turn]:not([data-ended=""])').count()) === 3);
    const prompts = await page.getByTestId('prompt-text').allInnerTexts();
    assert.deepEqual(prompts.map((text) => text.trim()).slice(1), ['ECHO third', 'ECHO fourth']);
    assert.equal(await page.getByTestId('queue').count(), 0);

    // A stop means stop: what waits comes back into the message field.
    await stage.say('ECHO fifth\nSLOW 60000');
    await page.getByTestId('message-text').nth(3).waitFor();
    await composer.fill('ECHO back');
    await composer.press('Enter');
    await until('it waits', async () => (await queued.count()) === 1);
    await page.getByTestId('cancel-turn').click();
    await until('it is back', async () => (await composer.inputValue()) === 'ECHO back');
    await stage.endOfTurn();
    await until('the session is idle', async () => (await stage.api('sessions_list', {})).sessions[0].state === 'idle');
    assert.equal(await page.getByTestId('turn').count(), 4);
  }));

test('files go along with a message: picked, pasted, dropped and named', () =>
  onStage('attachments', async (stage) => {
    const { page } = stage;
    fs.mkdirSync(path.join(stage.project, 'src'));
    fs.writeFileSync(path.join(stage.project, 'src/feed parser.rs'), '');
    fs.writeFileSync(path.join(stage.project, 'src/secret.log'), '');
    fs.writeFileSync(path.join(stage.project, '.gitignore'), '*.log\n');
    const record = path.join(stage.dir, 'agent.jsonl');
    await stage.knowFakeAgent({ FAKE_AGENT_RECORD: record });
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    const composer = page.getByTestId('composer');
    const attachment = page.getByTestId('attachment');
    const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
    await page.getByTestId('attach-input').setInputFiles([
      { name: 'dot.png', mimeType: 'image/png', buffer: png },
      { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('remember the milk') },
    ]);
    await until('both are there', async () => (await attachment.count()) === 2);
    // What nobody can read is refused with a reason.
    await page.getByTestId('attach-input').setInputFiles([{ name: 'a.bin', mimeType: '', buffer: Buffer.from([0, 1, 2]) }]);
    await page.getByTestId('error-toast').waitFor();
    const give = async (kind, name, text) => {
      const files = await page.evaluateHandle(([name, text]) => {
        const data = new DataTransfer();
        data.items.add(new File([text], name, { type: 'text/plain' }));
        return data;
      }, [name, text]);
      if (kind === 'drop') {
        await page.getByTestId('transcript').dispatchEvent('dragover', { dataTransfer: files });
        await page.getByTestId('transcript').dispatchEvent('drop', { dataTransfer: files });
      } else {
        await composer.evaluate((field, data) => field.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true })), files);
      }
    };
    await give('drop', 'dropped.md', '# dropped');
    await give('paste', 'pasted.md', '# pasted');
    await until('all four are there', async () => (await attachment.count()) === 4);
    await attachment.nth(2).getByTestId('attachment-remove').click();
    await until('three are left', async () => (await attachment.count()) === 3);

    await composer.pressSequentially('ECHO see @fpars');
    const menu = page.getByTestId('composer-menu');
    await until('the file is offered', async () => /feed parser\.rs/.test(await menu.innerText().catch(() => '')));
    await stage.screenshot('mention');
    assert.deepEqual(await stage.inaccessible(), []);
    await composer.press('Enter');
    await until('it is named', async () => (await composer.inputValue()) === 'ECHO see @"src/feed parser.rs" ');
    await composer.pressSequentially('@secret');
    await until('nothing is offered that git ignores', async () => (await menu.count()) === 0);
    await composer.press('Enter');
    const turn = await stage.endOfTurn();
    assert.equal(await attachment.count(), 0);
    assert.equal(await turn.getByTestId('attached').locator('li').count(), 4);
    assert.equal(await turn.getByTestId('attached').locator('img').count(), 1);
    await stage.screenshot('attachments');
    assert.deepEqual(await stage.inaccessible(), []);
    const { turns } = await stage.api('session_history', { session: (await stage.api('sessions_list', {})).sessions[0].id });
    const kinds = turns[0].prompt.map(({ type }) => type);
    assert.deepEqual(kinds, ['text', 'resource_link', 'image', 'resource', 'resource']);
    assert.equal(turns[0].prompt[1].uri, `file://${fs.realpathSync(stage.project)}/src/feed%20parser.rs`);
    assert.equal(turns[0].prompt[3].resource.text, 'remember the milk');
  }));

test('a conversation is searched, exported, deleted, and the deletion is taken back', () =>
  onStage('sessions', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    await stage.say('ECHO a needle in **hay**, another needle');
    await stage.endOfTurn();
    await page.keyboard.press('Control+f');
    await page.getByTestId('find-input').fill('NEEDLE');
    await until('both are found', async () => /of [34]/.test(await page.getByTestId('find-count').innerText()));
    await page.keyboard.press('Escape');

    await page.getByTestId('session-menu').click();
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByTestId('export-json').click()]);
    const exported = JSON.parse(fs.readFileSync(await download.path(), 'utf8'));
    assert.equal(exported.session.agent, 'scripted');
    assert.equal(exported.turns.length, 1);

    const item = page.getByTestId('session-item');
    await page.getByTestId('session-search').fill('no such session');
    await until('none is shown', async () => (await item.count()) === 0);
    await page.getByTestId('session-search').fill('needle');
    await until('it is found', async () => (await item.count()) === 1);
    await page.getByTestId('session-search').fill('');

    await page.getByTestId('delete-session').click();
    await item.waitFor({ state: 'detached' });
    await page.getByTestId('toast-undo').click();
    await item.waitFor();
    assert.equal((await stage.api('sessions_list', {})).sessions.length, 1);
    await page.getByTestId('delete-session').click();
    await until('it is gone for good', async () => (await stage.api('sessions_list', {})).sessions.length === 0);

    // Who leaves the page takes nothing back any more.
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    await page.getByTestId('delete-session').click();
    await item.waitFor({ state: 'detached' });
    await page.close();
    await until('it is gone without its page', async () => (await stage.api('sessions_list', {})).sessions.length === 0, 4_000);
  }));

test('a word of any conversation is found, and its turn is shown', () =>
  onStage('search', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    const { session } = await stage.api('session_create', { project_dir: stage.project, agent: 'scripted', title: 'Long ago', permission: 'all' });
    const prompt = async (text) => {
      await stage.api('session_prompt', { session: session.id, content: [{ type: 'text', text }], queue: true });
    };
    await prompt('ECHO the needle is here');
    for (let n = 0; n < 25; n++) await prompt(`ECHO turn ${n}`);
    await until('all is said', async () => {
      const view = (await stage.api('sessions_list', {})).sessions[0];
      return view.state === 'idle' && (view.queue ?? []).length === 0;
    });
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    await stage.say('ECHO something else');
    await stage.endOfTurn();
    await page.getByTestId('session-search').fill('needle');
    const hit = page.locator('[data-testid=search-hit][data-turn="1"]').first();
    await hit.waitFor();
    assert.match(await hit.innerText(), /Long ago/);
    await stage.screenshot('search');
    assert.deepEqual(await stage.inaccessible(), []);
    await hit.click();
    // It is far above what a conversation shows at first.
    await page.locator('[data-testid=turn][data-number="1"]').getByText('the needle is here').last().waitFor();
    await page.getByTestId('to-end').click();
    await page.locator('[data-testid=turn][data-number="26"]').waitFor();
    // What means nothing says so; the browser logs the answer to a half-written search.
    stage.expected = /status of 400/;
    await page.getByTestId('session-search').fill('"open');
    await page.getByTestId('session-search').fill('no-such-word-anywhere');
    await page.getByTestId('search-none').waitFor();
  }));

test('a long turn is a window that moves with the reader', () =>
  onStage('long-turn', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    // Thoughts with names of their own do not become one.
    const thoughts = Array.from({ length: 600 }, (_, n) => `UPDATE ${JSON.stringify({ sessionUpdate: 'agent_thought_chunk', messageId: `m${n}`, content: { type: 'text', text: `thought ${n}` } })}`);
    await stage.say(thoughts.join('\n'));
    await stage.endOfTurn(60_000);
    const items = page.locator('[data-testid=thought]');
    const has = (n) => page.getByText(`thought ${n}`, { exact: true }).first();
    await has(599).waitFor();
    const transcript = page.getByTestId('transcript');
    // How many steps it takes depends on how fast the page is.
    let limit = Date.now() + 60_000;
    while (Date.now() < limit && (await has(0).count()) === 0) {
      await transcript.evaluate((element) => { element.scrollTop = 0; });
      await page.mouse.move(600, 300);
      await page.mouse.wheel(0, -200);
      await page.waitForTimeout(50);
      assert.ok((await items.count()) <= 360, `${await items.count()} items are in the document`);
    }
    await has(0).waitFor();
    assert.equal(await has(599).count(), 0, 'what is far away stayed in the document');
    limit = Date.now() + 60_000;
    while (Date.now() < limit && (await has(599).count()) === 0) {
      await transcript.evaluate((element) => { element.scrollTop = element.scrollHeight; });
      await page.waitForTimeout(50);
    }
    await has(599).waitFor();
    assert.equal(await has(0).count(), 0);
    await transcript.evaluate((element) => { element.scrollTop = 0; });
    await page.getByTestId('to-end').click();
    await until('the end is in view', () => transcript.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight < 5));
  }));

test('a command that the agent runs is shown with what it writes, while it runs and afterwards', () =>
  onStage('terminal', async (stage) => {
    const { page } = stage;
    const config = { name: 'Scripted', command: program('fake_agent'), args: [], env: {}, offers: { terminals: true } };
    await stage.api('agents_save', { id: 'scripted', config });
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    const stop = path.join(stage.dir, 'stop');
    const script = `printf '\\033[32mgreen\\033[0m words\\n'; while [ ! -e '${stop}' ]; do sleep 0.1; done; exit 3`;
    const params = { command: 'sh', args: ['-c', script] };
    await stage.say(`START one ${JSON.stringify(params)}\nWAITFOR one\nRELEASE one`);
    const terminal = page.getByTestId('terminal');
    await until('its words', async () => /green words/.test(await terminal.getByTestId('terminal-output').innerText().catch(() => '')));
    assert.equal(await terminal.getAttribute('data-ended'), 'false');
    // The escape sequence became a colour.
    assert.equal(await terminal.locator('span.ansi-2').innerText(), 'green');
    fs.writeFileSync(stop, '');
    await until('its end', async () => (await terminal.getAttribute('data-ended')) === 'true');
    await stage.endOfTurn();
    assert.match(await terminal.innerText(), /exit code 3/);
    await stage.screenshot('terminal');
    assert.deepEqual(await stage.inaccessible(), []);
    // The history knows it too.
    const other = await stage.open();
    await other.getByTestId('session-item').locator('button').first().click();
    await until('another page shows it', async () => /green words[\s\S]*/.test(await other.getByTestId('terminal').innerText().catch(() => '')));
  }));
