// What a person does in the user interface, in headless Chromium against
// `gantry serve`.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { BOUND, closeBrowser, onStage, openBrowser, program, until } from './stage.mjs';

before(openBrowser);
after(closeBrowser);

const quoted = (text) => `'${text}'`;

test('a newcomer starts a session, adds a server, sees it become ready and calls its tool', () =>
  onStage('newcomer', async (stage) => {
    const { page } = stage;
    await page.getByTestId('start-page').waitFor();
    await stage.screenshot('start');
    await stage.startSession({ permission: 'all' });
    await stage.say('/help');
    await stage.endOfTurn();

    await stage.addServer('fake', `${quoted(program('fake_mcp'))} --tools 2 --start-delay 800`);
    await stage.serverIn('fake', 'ready');

    // A saved server belongs to the sessions that start after it.
    await stage.startSession({ permission: 'all' });
    await stage.say('/tools');
    const tools = await stage.endOfTurn();
    assert.match(await tools.innerText(), /echo/);
    await stage.say('/call echo {"text":"hello from the card"}');
    await stage.endOfTurn();
    const card = page.getByTestId('tool-card').last();
    await until('the card is completed', async () => (await card.getAttribute('data-status')) === 'completed');
    assert.match(await card.innerText(), /echo/);
    await stage.screenshot('tool-card');

    await page.locator('[data-testid=chat-header] [data-testid=stop-session]').click();
    const yes = page.getByTestId('confirm-yes');
    await until('the session has stopped', async () => {
      if (await yes.isVisible()) await yes.click();
      return (await page.getByTestId('chat-state').getAttribute('data-state')) === 'stopped';
    });
    await stage.screenshot('stopped');
  }));

test('text streams in, Markdown is shown and what is dangerous in it is not', () =>
  onStage('markdown', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    await stage.say(
      [
        'ECHO **bold** and `code` and [bad](javascript:alert(1)) ',
        'ECHO <img src=x onerror="window.harmed=1"><script>window.harmed=1</script>',
        'SLOW 600',
      ].join('\n'),
    );
    // It is there before the turn has ended.
    const text = page.getByTestId('message-text').last();
    await until('the first text', async () => /bold/.test(await text.innerText()));
    const turn = page.getByTestId('turn').last();
    assert.equal((await turn.getAttribute('data-ended')) ?? '', '');
    await stage.endOfTurn();
    assert.equal(await text.locator('strong').first().innerText(), 'bold');
    assert.equal(await page.evaluate(() => window.harmed), undefined);
    assert.equal(await page.locator('[href^="javascript:"]').count(), 0);
  }));

test('a permission is answered in its card, and "no" is the reject option', () =>
  onStage('permission', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'ask' });
    await stage.say('PERMISSION');
    const card = page.getByTestId('tool-card').last();
    const no = card.locator('[data-testid=permission-option][data-kind=reject_once]');
    await no.waitFor();
    const state = page.getByTestId('chat-state');
    await until('it waits for the user', async () => /waiting/.test(await state.getAttribute('data-state')));
    await stage.screenshot('permission');
    // A click that was on its way when the buttons appeared must not count.
    await until('the buttons are armed', async () => (await no.getAttribute('aria-disabled')) !== 'true');
    await no.click();
    const turn = await stage.endOfTurn();
    assert.match(await turn.innerText(), /permission: no/);
    assert.equal(await page.getByTestId('permission-option').count(), 0);
  }));

test('a turn is cancelled and the session goes on', () =>
  onStage('cancel', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    await stage.say('ECHO begun\nHANG');
    await page.getByTestId('cancel-turn').click();
    const turn = await stage.endOfTurn();
    assert.equal(await turn.getAttribute('data-ended'), 'cancelled');
    await stage.say('ECHO and on');
    assert.match(await (await stage.endOfTurn()).innerText(), /and on/);
  }));

test('an agent that ignores the cancel does not hold the session', () =>
  onStage('ignored-cancel', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    await stage.say('IGNORE_CANCEL 60 100');
    await page.getByTestId('message-text').first().waitFor();
    await page.getByTestId('cancel-turn').click();
    const state = page.getByTestId('chat-state');
    await until('it is cancelling', async () => /cancelling/.test(await state.getAttribute('data-state')));
    const turn = await stage.endOfTurn(5_000);
    assert.equal(await turn.getAttribute('data-ended'), 'cancelled');
    await stage.say('ECHO and on');
    assert.match(await (await stage.endOfTurn()).innerText(), /and on/);
    await stage.screenshot('ignored-cancel');
  }));

test('an agent that goes on after its turn was ended can be forced', () =>
  onStage('force', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    await stage.say('IGNORE_CANCEL 600 100');
    await page.getByTestId('message-text').first().waitFor();
    await page.getByTestId('cancel-turn').click();
    await page.getByTestId('force-stop').click();
    const yes = page.getByTestId('confirm-yes');
    await until('the agent is gone', async () => {
      if (await yes.isVisible()) await yes.click();
      return !stage.members().some((row) => row.includes('fake_agent'));
    });
    const state = page.getByTestId('chat-state');
    await until('it has stopped', async () => /stopped/.test(await state.getAttribute('data-state')));
  }));

test('an Enter that ends a composition sends nothing', () =>
  onStage('composition', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    const composer = page.getByTestId('composer');
    await composer.focus();
    const keys = await stage.context.newCDPSession(page);
    await keys.send('Input.imeSetComposition', { text: 'ni', selectionStart: 2, selectionEnd: 2 });
    const enter = { key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 229 };
    await keys.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', ...enter });
    await keys.send('Input.insertText', { text: '你' });
    await keys.send('Input.dispatchKeyEvent', { type: 'keyUp', ...enter });
    // Some systems deliver the key after the end of the composition.
    await keys.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', ...enter });
    await keys.send('Input.dispatchKeyEvent', { type: 'keyUp', ...enter });
    assert.equal(await composer.inputValue(), '你');
    assert.equal(await page.getByTestId('turn').count(), 0);
    await composer.press('Enter');
    assert.match(await (await stage.endOfTurn()).innerText(), /你/);
    assert.equal(await page.getByTestId('turn').count(), 1);
  }));

test('a reload and a second tab show the same conversation', () =>
  onStage('reload', async (stage) => {
    const { page } = stage;
    // The reloaded page has its token, but cannot send it for the document itself.
    stage.expected = /401/;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    await stage.say('ECHO remember me');
    await stage.endOfTurn();
    for (const other of [page, await stage.open()]) {
      if (other === page) await page.reload();
      await other.getByTestId('session-item').first().click();
      const text = other.getByTestId('message-text').first();
      await until('the text is back', async () => /remember me/.test(await text.innerText()));
    }
    // What happens in one tab is seen in the other.
    await stage.say('ECHO seen in both');
    const second = stage.context.pages().at(-1);
    await until('the other tab', async () => /seen in both/.test(await second.getByTestId('transcript').innerText()));
  }));

test('a server that cannot start says why', () =>
  onStage('broken-server', async (stage) => {
    const { page } = stage;
    await page.getByTestId('start-page').waitFor();
    await stage.addServer('broken', 'no-such-program-anywhere --flag');
    // A server that nobody uses is not started; a restart by hand starts it.
    const item = page.locator('[data-testid=server-item][data-server=broken]');
    await item.waitFor();
    await item.getByTestId('server-expand').click();
    await item.getByTestId('server-restart').click();
    await stage.serverIn('broken', 'failed');
    await until('the reason', async () => /no-such-program-anywhere/.test(await item.innerText()));
    // What to do is in the first line; where it was looked for is in the rest.
    const reason = item.getByTestId('server-error');
    assert.match(await reason.locator('p').innerText(), /was not found; install it/);
    assert.equal(await reason.locator('pre').isVisible(), false);
    await reason.locator('summary').click();
    assert.match(await reason.locator('pre').innerText(), /not found in .*:/);
    await stage.screenshot('broken-server');
    assert.deepEqual(await stage.inaccessible(), []);

    // What a program said before its end is the reason, not that it has ended.
    await stage.addServer('dies', `sh -c "echo hello >&2; echo 'Error: KEY is missing' >&2; exit 3"`);
    const dies = page.locator('[data-testid=server-item][data-server=dies]');
    await dies.getByTestId('server-expand').click();
    await dies.getByTestId('server-restart').click();
    await stage.serverIn('dies', 'failed');
    assert.equal(await dies.getByTestId('server-error').locator('p').innerText(), 'Error: KEY is missing');
    await stage.screenshot('dead-server');
    await item.getByTestId('server-remove').click();
    const yes = page.getByTestId('confirm-yes');
    await until('it is gone', async () => {
      if (await yes.isVisible()) await yes.click();
      return (await item.count()) === 0;
    });
  }));

test('without a valid token the page asks for one', () =>
  onStage('token', async (stage) => {
    stage.expected = /401/;
    const page = await stage.open('wrong');
    const form = page.getByTestId('token-form');
    await form.waitFor({ timeout: BOUND }).catch(() => {
      // The first load itself may be refused.
    });
    if (await form.isVisible()) {
      await page.getByTestId('token-input').fill(stage.token);
      await page.getByTestId('token-save').click();
      await page.getByTestId('start-page').waitFor();
    } else {
      assert.match(await page.locator('body').innerText(), /401|token|unauthori/i);
    }
    assert.ok(!page.url().includes(stage.token), 'the token stays in the address');
    assert.ok(!stage.page.url().includes(stage.token), 'the token stays in the address');
  }));

test('Quit in the page ends everything and says so', () =>
  onStage('quit', async (stage) => {
    const { page } = stage;
    stage.expected = /ERR_|Failed to load|net::/;
    await stage.startSession({ permission: 'all' });
    await stage.say('/help');
    await stage.endOfTurn();
    const quit = page.getByTestId('quit');
    await quit.first().click();
    const yes = page.getByTestId('confirm-yes');
    await until('Gantry ends', async () => {
      if (await yes.isVisible().catch(() => false)) await yes.click();
      return stage.serve.exitCode !== null;
    });
    assert.equal(stage.serve.exitCode, 0, stage.readLog());
    await page.getByTestId('shutdown-overlay').or(page.getByTestId('connection-lost')).first().waitFor();
  }));
