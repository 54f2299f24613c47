// The pages beside the conversation, and what a person does there.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { closeBrowser, onStage, openBrowser, program, until } from './stage.mjs';

before(openBrowser);
after(closeBrowser);

const quoted = (text) => `'${text}'`;

test('the first run leads to a session in three steps', () =>
  onStage('first-run', async (stage) => {
    const { page } = stage;
    fs.mkdirSync(path.join(stage.dir, 'home/.cursor'), { recursive: true });
    fs.writeFileSync(path.join(stage.dir, 'home/.cursor/mcp.json'), JSON.stringify({ mcpServers: { notes: { command: 'no-such-notes' } } }));
    const welcome = page.getByTestId('welcome');
    await welcome.waitFor();
    assert.deepEqual(await stage.inaccessible(), []);
    await stage.screenshot('welcome');
    await page.getByTestId('welcome-next').click();
    assert.equal(await welcome.getAttribute('data-step'), '2');
    // What another application has is shown, and saved only when it is chosen; switched off.
    const row = page.locator('[data-testid=import-row][data-server=notes]');
    // Applications that are not there are answered with an error, which the browser logs.
    stage.expected = /status of 40[04]/;
    await page.getByTestId('import-look').click();
    await row.waitFor();
    assert.deepEqual((await stage.api('servers_list', {})).servers, []);
    await row.locator('input').check();
    await page.getByTestId('import-apply').click();
    await until('it is saved', async () => (await stage.api('servers_list', {})).servers.length === 1);
    const { servers } = await stage.api('servers_list', {});
    assert.deepEqual([servers[0].name, servers[0].enabled], ['notes', false]);
    await stage.screenshot('welcome-servers');
    await page.getByTestId('welcome-next').click();
    await page.getByTestId('project-input').fill(stage.project);
    await page.getByTestId('welcome-start').click();
    await stage.say('/help');
    await stage.endOfTurn();
    await page.getByTestId('new-session').click();
    await page.getByTestId('start-page').waitFor();
    const again = await stage.open();
    await again.getByTestId('chat-header').waitFor();
    assert.equal(await again.getByTestId('welcome').count(), 0, 'it comes back');
  }, { isFirstRun: true }));

test('the language is chosen, kept by the host and seen by another page', () =>
  onStage('language', async (stage) => {
    const { page } = stage;
    await page.getByTestId('nav-settings').click();
    await page.getByTestId('language-select').selectOption('zh');
    await until('the page speaks Chinese', async () => /新建会话/.test(await page.getByTestId('new-session').innerText()));
    assert.equal(await page.locator('html').getAttribute('lang'), 'zh-CN');
    assert.equal((await stage.api('settings_get', {})).language, 'zh');
    const other = await stage.open();
    await until('another page does too', async () => /新建会话/.test(await other.getByTestId('new-session').innerText()));
    await page.getByTestId('theme-select').selectOption('dark');
    await until('the theme comes to the other page', async () => (await other.locator('html').getAttribute('data-theme')) === 'dark');
    await stage.screenshot('settings-zh');
  }));

test('an agent is added and removed in the settings', () =>
  onStage('agents', async (stage) => {
    const { page } = stage;
    await page.getByTestId('nav-settings').click();
    await page.getByTestId('agent-add').click();
    await page.getByTestId('agent-id').fill('my agent');
    await page.getByTestId('agent-command').fill(quoted(program('fake_agent')));
    await page.getByTestId('agent-save').click();
    await page.getByTestId('agent-form-error').waitFor();
    await page.getByTestId('agent-id').fill('my-agent');
    await page.getByTestId('agent-save').click();
    const row = page.locator('[data-testid=agent-row][data-agent=my-agent]');
    await row.waitFor();
    assert.equal(await row.getAttribute('data-installed'), 'true');
    await stage.startSession({ agent: 'my-agent', permission: 'all' });
    await stage.say('ECHO from my agent');
    assert.match(await (await stage.endOfTurn()).innerText(), /from my agent/);
    await page.getByTestId('nav-settings').click();
    await row.getByTestId('agent-remove').click();
    await page.getByTestId('confirm-yes').click();
    await row.waitFor({ state: 'detached' });
  }));

test('a question of the agent is filled in, checked, answered and kept', () =>
  onStage('question', async (stage) => {
    const { page } = stage;
    // The host refuses a value; the browser logs that.
    stage.expected = /status of 400/;
    await stage.api('agents_save', { id: 'asking', config: { name: 'Asking', command: program('fake_agent'), offers: { questions: true } } });
    await page.getByTestId('start-page').waitFor();
    await stage.startSession({ agent: 'asking', permission: 'ask' });
    await stage.say('QUESTION');
    const question = page.getByTestId('question');
    await question.waitFor();
    assert.deepEqual(await stage.inaccessible(), []);
    await stage.screenshot('question');
    // It counts where requests for permission do.
    assert.match(await page.getByTestId('nav-inbox').innerText(), /1/);
    await until('the buttons are alive', async () => (await question.getByTestId('question-accept').getAttribute('aria-disabled')) === 'false');
    const field = (name) => question.locator(`[data-testid=question-field][data-field=${name}]`);
    await question.getByTestId('question-accept').click();
    await until('what is missing is said', async () => (await question.getByTestId('question-problem').count()) === 2);
    await field('name').locator('input').fill('Ada');
    await field('size').locator('input').fill('7');
    await field('mail').locator('input').fill('ada at home');
    await field('colour').locator('select').selectOption('r');
    await field('tags').locator('input[data-choice=two]').check();
    await question.getByTestId('question-accept').click();
    await until('the host says what is wrong', async () => /e-mail/.test(await field('mail').innerText()));
    await field('mail').locator('input').fill('ada@example.com');
    await field('mail').locator('input').press('Enter');
    assert.match(await (await stage.endOfTurn()).innerText(), /accept/);
    assert.match(await page.getByTestId('question-outcome').innerText(), /Name: Ada.*Colour: Red/s);
    const again = await stage.open();
    await again.getByTestId('question-outcome').waitFor();

    // The other ways: Escape declines, and the inbox answers too.
    await stage.say('QUESTION');
    await until('the buttons are alive', async () => (await question.getByTestId('question-decline').getAttribute('aria-disabled')) === 'false');
    await page.getByTestId('composer').press('Escape');
    assert.match(await (await stage.endOfTurn()).innerText(), /decline/);
    await stage.say('QUESTION');
    await question.waitFor();
    await page.getByTestId('nav-inbox').click();
    const inbox = page.getByTestId('inbox-item').getByTestId('question');
    await until('the buttons are alive', async () => (await inbox.getByTestId('question-cancel').getAttribute('aria-disabled')) === 'false');
    await inbox.getByTestId('question-cancel').click();
    await inbox.waitFor({ state: 'detached' });
  }));

test('a list of agents is looked at and taken in in part', () =>
  onStage('agent-import', async (stage) => {
    const { page } = stage;
    stage.expected = /status of 400/;
    const entry = (id, env) => ({ id, name: id.toUpperCase(), version: '1.0.0', description: 'about it', distribution: { npx: { package: `${id}@1.2.3`, env } } });
    const file = path.join(stage.dir, 'agents.json');
    fs.writeFileSync(file, JSON.stringify({ version: '1.0.0', agents: [entry('new-a'), entry('new-b', { REGION: 'eu west', MODE: 'x' }), { id: 'bad' }] }));
    await page.getByTestId('nav-settings').click();
    await page.getByTestId('agent-import-open').click();
    await page.getByTestId('agent-import-from').fill(path.join(stage.dir, 'nothing.json'));
    await page.getByTestId('agent-import-look').click();
    await page.getByTestId('agent-import-error').waitFor();
    await page.getByTestId('agent-import-from').fill(file);
    await page.getByTestId('agent-import-look').click();
    const row = (id) => page.locator(`[data-testid=agent-import-row][data-agent=${id}]`);
    await row('new-b').waitFor();
    assert.deepEqual(await stage.inaccessible(), []);
    await stage.screenshot('agent-import');
    assert.match(await row('new-b').innerText(), /new-b 1\.2\.3/);
    // What is taken over with it is shown, and nothing where there is nothing.
    assert.match(await row('new-b').getByTestId('agent-import-env').innerText(), /REGION=.?eu west.?/);
    assert.match(await row('new-b').getByTestId('agent-import-env').innerText(), /MODE=x/);
    assert.equal(await row('new-a').getByTestId('agent-import-env').count(), 0);
    await row('new-a').locator('input').uncheck();
    await page.getByTestId('agent-import-add').click();
    await page.locator('[data-testid=agent-row][data-agent=new-b]').waitFor();
    assert.equal(await page.locator('[data-testid=agent-row][data-agent=new-a]').count(), 0);
  }));

test('a server is looked into: tools are tried and switched off, its log and configuration are shown', () =>
  onStage('drawer', async (stage) => {
    const { page } = stage;
    await page.getByTestId('start-page').waitFor();
    await stage.addServer('fake', `${quoted(program('fake_mcp'))} --tools 2`);
    const item = await stage.serverIn('fake', 'ready');
    await item.getByTestId('server-expand').click();
    await item.getByTestId('server-details').click();
    await page.getByTestId('server-overview').waitFor();
    await page.getByTestId('server-memory').waitFor();
    await page.getByTestId('tab-tools').click();
    const echo = page.locator('[data-testid=tool-row][data-tool=echo]');
    await echo.getByTestId('tool-try').click();
    await echo.getByTestId('tool-form').locator('input').first().fill('hello form');
    await echo.getByTestId('tool-run').click();
    await until('the result', async () => /hello form/.test(await echo.getByTestId('tool-result').innerText()));
    await stage.screenshot('drawer-tools');
    assert.deepEqual(await stage.inaccessible(), []);

    await echo.getByTestId('tool-switch').click();
    await until('it is off', async () => (await echo.getAttribute('data-on')) === 'false');
    const { servers } = await stage.api('servers_list', {});
    assert.deepEqual(servers[0].config.denyTools, ['echo']);
    await echo.getByTestId('tool-switch').click();
    await until('it is on again', async () => (await echo.getAttribute('data-on')) === 'true');

    await page.getByTestId('tab-log').click();
    await page.getByTestId('log-follow').waitFor();
    await page.getByTestId('tab-config').click();
    const config = page.getByTestId('config-json');
    await config.fill('{"command": 1}');
    await page.getByTestId('config-problem').waitFor();
    assert.ok(await page.getByTestId('config-save').isDisabled());
    const changed = { ...servers[0].config, denyTools: [], persistent: true };
    await config.fill(JSON.stringify(changed));
    await page.getByTestId('config-save').click();
    await until('it is saved', async () => (await stage.api('servers_list', {})).servers[0].lifetime === 'persistent');
    await page.getByTestId('drawer-close').click();
  }));

test('processes are shown as they are, and a session is stopped there', () =>
  onStage('processes', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    await stage.say('ECHO here');
    await stage.endOfTurn();
    await page.getByTestId('nav-processes').click();
    const engine = page.locator('[data-testid=process-row][data-role=engine]');
    await engine.waitFor();
    assert.equal(await page.getByTestId('strays').getAttribute('data-strays'), '0');
    const { sessions } = await stage.api('sessions_list', {});
    assert.equal(Number(await engine.getAttribute('data-pid')), sessions[0].engine.pid);
    assert.deepEqual(await stage.inaccessible(), []);
    await stage.screenshot('processes');
    await engine.getByTestId('process-stop').click();
    await engine.waitFor({ state: 'detached' });
  }));

test('after a crash the next start says what happened, with a report to copy', () =>
  onStage('crash', async (stage) => {
    await stage.knowFakeAgent({ FAKE_AGENT_SPAWN: 'setsid,daemon' });
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    await stage.say('ECHO here');
    await stage.endOfTurn();
    await stage.page.close();
    stage.serve.kill('SIGKILL');
    await stage.ended;
    // The wardens are still at work, or not: the start makes sure of it.
    await stage.start();
    await stage.context.grantPermissions(['clipboard-read', 'clipboard-write']);
    stage.page = await stage.open();
    const { page } = stage;
    const notice = page.getByTestId('notice');
    assert.match(await notice.innerText(), /Gantry ended unexpectedly/);
    await page.getByTestId('last-exit-details').click();
    const report = await page.getByTestId('last-exit-report').innerText();
    assert.match(report, /Gantry ended unexpectedly[^]*The end of the log:/);
    assert.deepEqual(await stage.inaccessible(), []);
    await stage.screenshot('last-exit');
    await page.getByTestId('last-exit-copy').click();
    await until('it is copied', async () => /Copied/.test(await page.getByTestId('last-exit-copy').innerText()));
    const { last_exit: told } = await stage.api('snapshot', {});
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), told.report);
    await page.getByTestId('drawer-close').click();
    await stage.api('settings_set', { language: 'zh' });
    await until('it is told in Chinese', async () => /意外结束/.test(await notice.innerText()));
    await page.getByTestId('notice-dismiss').click();
    await notice.waitFor({ state: 'detached' });
  }));

test('what was forced at a quit is told by name', () =>
  onStage('forced', async (stage) => {
    await stage.knowFakeAgent({ FAKE_AGENT_STUBBORN: '1' });
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    await stage.say('ECHO here');
    await stage.endOfTurn();
    await stage.page.close();
    await stage.quit();
    await stage.start();
    stage.page = await stage.open();
    const { page } = stage;
    assert.match(await page.getByTestId('notice').innerText(), /were killed: scripted/);
    await page.getByTestId('last-exit-details').click();
    const killed = page.locator('[data-testid=last-exit-tree][data-how=killed]');
    assert.match(await killed.innerText(), /scripted[^]*Agent[^]*Killed/);
    await stage.screenshot('last-exit-forced');
  }));

test('what the agent lets choose is shown, and a refused choice is not taken for chosen', () =>
  onStage('choices', async (stage) => {
    const { page } = stage;
    stage.expected = /status of [45]0/;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    const option = { id: 'model', name: 'Model', category: 'model', type: 'select', currentValue: 'a', options: [{ value: 'a', name: 'Model A' }, { value: 'b', name: 'Model B' }] };
    const usage = { sessionUpdate: 'usage_update', used: 50000, size: 200000 };
    await stage.say(`UPDATE ${JSON.stringify({ sessionUpdate: 'config_option_update', configOptions: [option] })}\nUPDATE ${JSON.stringify(usage)}`);
    await stage.endOfTurn();
    const choice = page.getByTestId('choice-model');
    await choice.waitFor();
    assert.match(await page.getByTestId('chip-usage').innerText(), /25/);
    await stage.screenshot('choices');
    // Nothing leaves the message field, however long the hint is.
    await stage.say('SLOW 60000');
    await page.getByTestId('composer').fill('a message for the queue');
    const row = await page.getByTestId('queue-add').boundingBox();
    const field = await page.getByTestId('composer').boundingBox();
    assert.ok(row.x + row.width <= field.x + field.width, 'the buttons are outside of their box');
    await page.getByTestId('composer').fill('');
    await page.getByTestId('cancel-turn').click();
    await stage.endOfTurn();
    // A title without a space does not push anything out of the window.
    const box = await page.getByTestId('chat-header').boundingBox();
    const main = await page.locator('main').boundingBox();
    assert.ok(box.width <= main.width, 'the header is wider than its place');
    assert.deepEqual(await stage.inaccessible(), []);
    // The scripted agent knows no such request.
    await choice.selectOption('b');
    await page.getByTestId('error-toast').waitFor();
    await until('the old one is shown', async () => (await choice.inputValue()) === 'a');
  }));

test('a narrow window is used by keyboard: a drawer takes the focus, keeps it and gives it back', () =>
  onStage('drawers', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'ask' });
    await stage.say('PERMISSION');
    await page.getByTestId('permission').waitFor();
    const focus = () => page.evaluate(() => ({ id: document.activeElement.dataset.testid, place: document.activeElement.closest('aside, main')?.className ?? '' }));
    await page.getByTestId('toggle-sessions').focus();
    await page.keyboard.press('Enter');
    await until('it has the focus', async () => /left/.test((await focus()).place));
    for (let n = 0; n < 20; n++) {
      await page.keyboard.press('Tab');
      const { place } = await focus();
      assert.ok(place === '' || /left/.test(place), `the focus went behind the drawer: ${place}`);
    }
    // What lies over it is closed first, and then the drawer; no request is rejected by that.
    await page.getByTestId('keys-list').click();
    await page.getByTestId('keys').waitFor();
    await page.keyboard.press('Escape');
    await page.getByTestId('keys').waitFor({ state: 'detached' });
    assert.equal(await page.locator('aside.left.shown').count(), 1);
    await page.keyboard.press('Escape');
    await until('it is given back', async () => (await focus()).id === 'toggle-sessions');
    assert.equal(await page.getByTestId('permission').count(), 1);

    await page.getByTestId('rename-session').focus();
    await page.keyboard.press('Enter');
    await page.keyboard.insertText('新的名字');
    await page.keyboard.press('Enter');
    await until('it is renamed', async () => (await page.getByTestId('chat-title').innerText().catch(() => '')) === '新的名字');
    await until('the focus is back', async () => (await focus()).id === 'rename-session');
  }, { viewport: { width: 900, height: 600 } }));

test('an open request is answered in the inbox', () =>
  onStage('inbox', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'ask' });
    await stage.say('PERMISSION');
    await page.getByTestId('permission').waitFor();
    await page.getByTestId('nav-inbox').click();
    const item = page.getByTestId('inbox-item');
    const yes = item.locator('[data-testid=permission-option][data-kind=allow_once]');
    // Also while they are inert they must be readable.
    assert.deepEqual(await stage.inaccessible(), []);
    await stage.screenshot('inbox');
    await until('the buttons are armed', async () => (await yes.getAttribute('aria-disabled')) !== 'true');
    await yes.click();
    await item.waitFor({ state: 'detached' });
    await page.getByTestId('session-item').locator('button').first().click();
    await stage.endOfTurn();
  }));

test('the list of shortcuts opens with a question mark, but not while one writes', () =>
  onStage('keys', async (stage) => {
    const { page } = stage;
    await stage.startSession({ permission: 'all' });
    await page.getByTestId('composer').press('?');
    assert.equal(await page.getByTestId('keys').count(), 0);
    await page.getByTestId('transcript').focus();
    await page.keyboard.press('?');
    await page.getByTestId('keys').waitFor();
    assert.deepEqual(await stage.inaccessible(), []);
    await page.keyboard.press('Escape');
    await page.getByTestId('keys').waitFor({ state: 'detached' });
  }));

test('the traffic of a session is shown, with the answers named by their questions', () =>
  onStage('traffic', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    await stage.say('ECHO hello');
    await stage.endOfTurn();
    await page.getByTestId('session-menu').click();
    await page.getByTestId('show-traffic').click();
    const line = (method) => page.locator(`[data-testid=traffic-line][data-method="${method}"]`);
    await until('the prompt and its answer', async () => (await line('session/prompt').count()) === 2);
    await line('agent_message_chunk').first().waitFor();
    await page.getByTestId('traffic-filter').fill('end_turn');
    await until('only the answer is left', async () => (await page.getByTestId('traffic-line').count()) === 1);
    await page.getByTestId('traffic-line').locator('button').first().click();
    assert.match(await page.getByTestId('traffic-line').innerText(), /"stopReason": "end_turn"/);
    await stage.screenshot('traffic');
    assert.deepEqual(await stage.inaccessible(), []);
  }));

test('deadlines are set, an agent is changed and its secret kept', () =>
  onStage('settings', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent({ API_TOKEN: 'sk-kept', PLAIN: 'one' });
    await page.getByTestId('nav-settings').click();
    const ready = page.getByTestId('setting-ready_timeout_ms');
    await until('the setting is there', async () => (await ready.inputValue()) === '30');
    await ready.fill('45');
    await ready.press('Tab');
    await until('it is kept', async () => (await stage.api('settings_get', {})).ready_timeout_ms === 45_000);
    // What makes no sense is not taken.
    await ready.fill('-3');
    await ready.press('Tab');
    await until('the old one is shown', async () => (await ready.inputValue()) === '45');
    await page.getByTestId('own-engine').click();
    await until('it is on', async () => (await stage.api('settings_get', {})).one_engine_per_session === true);

    const row = page.locator('[data-testid=agent-row][data-agent=scripted]');
    await row.getByTestId('agent-edit').click();
    const values = page.getByTestId('env-value');
    assert.deepEqual(await values.evaluateAll((fields) => fields.map(({ value }) => value)), ['•••', 'one']);
    await values.nth(1).fill('two');
    await page.getByTestId('agent-offer-terminals').click();
    await stage.screenshot('agent-form');
    assert.deepEqual(await stage.inaccessible(), []);
    await page.getByTestId('agent-save').click();
    await page.getByTestId('agent-form').waitFor({ state: 'detached' });
    const { agents } = await stage.api('agents_list', {});
    assert.equal(agents.find(({ id }) => id === 'scripted').offers.terminals, true);
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    await stage.say('ENV API_TOKEN\nECHO \nENV PLAIN');
    assert.match(await (await stage.endOfTurn()).innerText(), /sk-kept[\s\S]*two/);
  }));

test('a link says where it leads before it is followed', () =>
  onStage('link', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    await stage.say('ECHO see [your bank](http://evil.example/login) and ![picture](https://evil.example/track.png)');
    await stage.endOfTurn();
    await page.getByRole('link', { name: 'your bank' }).click();
    assert.equal(await page.getByTestId('leaving-host').innerText(), 'evil.example');
    await stage.screenshot('leaving');
    assert.deepEqual(await stage.inaccessible(), []);
    await page.keyboard.press('Escape');
    await page.getByTestId('leaving').waitFor({ state: 'detached' });
    assert.equal(stage.context.pages().length, 1);
  }));

test('what a server writes about itself is text, never markup', () =>
  onStage('hostile-server', async (stage) => {
    const { page } = stage;
    await page.getByTestId('start-page').waitFor();
    const evil = '<img src=x onerror="window.harmed=1"><script>window.harmed=1</script>';
    await stage.addServer(evil, `${quoted(program('fake_mcp'))} --tools 1`);
    const item = page.getByTestId('server-item');
    await item.locator('[data-testid=server-state][data-state=ready]').waitFor();
    assert.match(await item.innerText(), /<img src=x/);
    await item.getByTestId('server-expand').click();
    await item.getByTestId('server-tools').click();
    const echo = page.locator('[data-testid=tool-row][data-tool=echo]');
    await echo.getByTestId('tool-try').click();
    await echo.getByTestId('tool-form').locator('input').first().fill(evil);
    await echo.getByTestId('tool-run').click();
    await until('the result', async () => /<img src=x/.test(await echo.getByTestId('tool-result').innerText()));
    assert.equal(await page.evaluate(() => window.harmed), undefined);
    assert.equal(await page.locator('img[src="x"]').count(), 0);
  }));

test('the settings say what is kept, save it, and put the old away', () =>
  onStage('data', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    for (const title of ['old', 'at work']) {
      const { session } = await stage.api('session_create', { project_dir: stage.project, agent: 'scripted', title, permission: 'all' });
      await stage.api('session_prompt', { session: session.id, content: [{ type: 'text', text: `ECHO said in ${title}` }] });
      await until('it has answered', async () => (await stage.api('sessions_list', {})).sessions.find(({ id }) => id === session.id).state === 'idle');
      if (title === 'old') await stage.api('session_stop', { session: session.id });
    }
    // A hundred days later.
    await page.clock.setFixedTime(Date.now() + 100 * 86_400_000);
    await page.getByTestId('nav-settings').click();
    assert.equal(await page.getByTestId('data-folder').innerText(), path.join(stage.dir, 'data'));
    assert.match(await page.getByTestId('data-database').innerText(), /^\d[\d.,]* (kB|MB)$/);
    const saving = page.waitForEvent('download');
    await page.getByTestId('data-export').click();
    const file = await saving;
    assert.match(file.suggestedFilename(), /^gantry-\d{4}-\d\d-\d\d\.json$/);
    const kept = JSON.parse(fs.readFileSync(await file.path(), 'utf8'));
    assert.deepEqual(kept.sessions.map(({ session }) => session.title).sort(), ['at work', 'old']);
    assert.match(JSON.stringify(kept), /said in old/);
    const clear = page.getByTestId('data-clear');
    await page.getByTestId('data-age').selectOption('365');
    assert.equal(await clear.isDisabled(), true);
    await page.getByTestId('data-age').selectOption('90');
    await clear.click();
    await page.getByTestId('confirm-yes').click();
    await until('it is gone', async () => (await stage.api('sessions_list', {})).sessions.length === 1);
    assert.equal((await stage.api('sessions_list', {})).sessions[0].title, 'at work');
    await until('nothing else is old', () => clear.isDisabled());
  }));

test('what new sessions may do without asking is chosen once', () =>
  onStage('policy', async (stage) => {
    const { page } = stage;
    await page.getByTestId('nav-settings').click();
    assert.equal(await page.getByTestId('policy-select').inputValue(), 'ask');
    await page.getByTestId('policy-select').selectOption('reads');
    await until('it is kept', async () => (await stage.api('settings_get', {})).permission === 'reads');
    await page.getByTestId('new-session').click();
    assert.equal(await page.getByTestId('permission-select').inputValue(), 'reads');
  }));

test('what a server and the bridge say to each other is shown, without secrets', () =>
  onStage('server-traffic', async (stage) => {
    const { page } = stage;
    const config = { command: program('fake_mcp'), args: ['--tools', '1'], env: { MY_API_KEY: 'sk-very-secret' }, persistent: true };
    await stage.api('servers_save', { name: 'fake', config });
    const item = await stage.serverIn('fake', 'ready');
    const call = stage.api('servers_call', { name: 'fake', tool: 'env', arguments: { name: 'MY_API_KEY' } });
    assert.match(JSON.stringify(await call), /sk-very-secret/);
    await item.getByTestId('server-expand').click();
    await item.getByTestId('server-log').click();
    await page.getByTestId('log-messages').locator('xpath=..').click();
    const line = (method) => page.locator(`[data-testid=traffic-line][data-method="${method}"]`);
    for (const method of ['initialize', 'tools/list', 'tools/call']) {
      // A question and its answer.
      await until(`${method} is shown`, async () => (await line(method).count()) >= 2);
    }
    await line('tools/call').last().locator('button').first().click();
    assert.match(await line('tools/call').last().innerText(), /•••/);
    assert.doesNotMatch(await page.content(), /sk-very-secret/);
    assert.doesNotMatch(JSON.stringify(await stage.api('servers_traffic', { name: 'fake' })), /sk-very-secret/);
    await page.getByTestId('traffic-filter').fill('tools/list');
    await until('only those are left', async () => (await page.getByTestId('traffic-line').count()) === (await line('tools/list').count()));
    await page.getByTestId('log-stderr').locator('xpath=..').click();
    await page.getByTestId('log-follow').waitFor();
  }));
