// The reference of the commands, opened in a browser, which sends no token by itself.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { closeBrowser, onStage, openBrowser, until } from './stage.mjs';

before(openBrowser);
after(closeBrowser);

test('the reference opens with the token of the tab, of the address, or typed', () =>
  onStage('docs', async (stage) => {
    // The page of a refusal is a refusal, and the browser logs it.
    stage.expected = /status of 401/;
    const { page } = stage;
    const command = (tab) => tab.locator('h3#servers_save');
    // This tab has shown the interface, and has its token.
    await page.goto(`${stage.url}/api/docs`);
    await command(page).waitFor();
    assert.match(await page.title(), /commands/);
    assert.deepEqual(await stage.inaccessible(), []);

    const linked = await stage.context.newPage();
    await linked.goto(`${stage.url}/api/docs?token=${stage.token}#processes`);
    await command(linked).waitFor();
    assert.ok(!linked.url().includes(stage.token), 'the token stays in the address');

    const fresh = await stage.context.newPage();
    await fresh.goto(`${stage.url}/api/docs`);
    const field = fresh.getByLabel('Access token');
    await field.fill('wrong');
    await field.press('Enter');
    await until('it is refused', async () => /not accepted/.test(await fresh.locator('#note').innerText()));
    await field.fill(stage.token);
    await field.press('Enter');
    await command(fresh).waitFor();
  }));
