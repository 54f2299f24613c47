// Every screen, in light and dark, wide and small, in both languages: pictures
// as artifacts, every control with a name, no serious finding of axe, nothing
// wider than the window.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { closeBrowser, onStage, openBrowser, program, until } from './stage.mjs';

before(openBrowser);
after(closeBrowser);

// Every pair of theme, size and language; all of their combinations when it may take longer.
const IS_FULL = process.env.GANTRY_TEST_FULL === '1';
const LOOKS = [];
for (const scheme of ['light', 'dark']) {
  for (const [width, height] of [[1280, 800], [900, 600]]) {
    for (const locale of ['en-US', 'zh-CN']) {
      const isPairing = (scheme === 'light') === ((width === 1280) === (locale === 'en-US'));
      // axe is slow: each theme and each width with it.
      const isDeep = isPairing && (IS_FULL || locale === 'en-US');
      if (isPairing || IS_FULL) LOOKS.push({ scheme, width, height, locale, isDeep });
    }
  }
}
// What is left of 1280 × 800 at a zoom of 200 %.
LOOKS.push({ scheme: 'light', width: 640, height: 400, locale: 'en-US', isDeep: true });
/** An agent that keeps conversations. */
const KEEPER = fileURLToPath(new URL('past-agent.mjs', import.meta.url));
/** So many looks at a time. */
const BESIDE = 2;

test('every screen in every look', () =>
  onStage('screens', async (stage) => {
    await stage.knowFakeAgent();
    await stage.api('agents_save', { id: 'keeper', config: { name: 'Keeper', command: process.execPath, args: [KEEPER], env: {} } });
    await stage.api('servers_save', { name: 'fake', config: { command: program('fake_mcp'), args: ['--tools', '2'], persistent: true } });
    await stage.api('servers_save', { name: 'broken', config: { command: 'no-such-program-anywhere', persistent: true } });
    const { session } = await stage.api('session_create', { project_dir: stage.project, agent: 'scripted', title: 'A first look', permission: 'ask' });
    const script = [
      'ECHO # A heading\nECHO \nECHO Some **bold** words and `code`.',
      'ECHO مرحبا بالعالم, and a [link](https://example.org).',
      `UPDATE ${JSON.stringify({ sessionUpdate: 'plan', entries: [{ content: 'Look', status: 'completed', priority: 'high' }, { content: 'Tell', status: 'in_progress', priority: 'high' }] })}`,
      `UPDATE ${JSON.stringify({ sessionUpdate: 'tool_call', toolCallId: 'd', title: 'Edit src/feed.rs', kind: 'edit', status: 'completed', content: [{ type: 'diff', path: 'src/feed.rs', oldText: 'a\nb\n', newText: 'a\nc\n' }] })}`,
      'CALL none {}',
      'PERMISSION',
    ];
    await stage.api('session_prompt', { session: session.id, content: [{ type: 'text', text: script.join('\n') }] });
    await until('it asks', async () => (await stage.api('sessions_list', {})).sessions[0].permissions.length === 1);
    await until('the servers have settled', async () => {
      const { servers } = await stage.api('servers_list', {});
      return servers.every(({ state }) => state === 'ready' || state === 'failed');
    }, 60_000);
    const left = [...LOOKS];
    const go = async () => {
      for (let look = left.shift(); look; look = left.shift()) await tour(stage, look);
    };
    await Promise.all(Array.from({ length: BESIDE }, go));
  }, { motion: 'reduce' }));

async function tour(stage, { scheme, width, height, locale, isDeep }) {
  const context = await stage.context.browser().newContext({ viewport: { width, height }, colorScheme: scheme, locale, reducedMotion: 'reduce' });
  const page = await stage.open(stage.token, context);
  const tag = `${width}-${scheme}-${locale.slice(0, 2)}`;
  const isNarrow = width < 1100;
  const look = async (name) => {
    await stage.screenshot(`${name}-${tag}`, page);
    if (isDeep) assert.deepEqual(await stage.inaccessible(page), [], `${name} ${tag}`);
    assert.deepEqual(await stage.nameless(page), [], `${name} ${tag}`);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `${name} is ${overflow} px too wide (${tag})`);
  };
  const left = async (act) => {
    if (isNarrow) await page.getByTestId('toggle-sessions').click();
    await act();
  };
  const closed = (id) => page.getByTestId(id).waitFor({ state: 'detached' });

  await page.getByTestId('permission').waitFor();
  // Whether its buttons are armed yet or not, it must be readable.
  await look('chat');
  await left(async () => {
    await page.getByTestId('session-search').fill('first');
    await page.getByTestId('session-item').waitFor();
    await page.getByTestId('search-none').or(page.getByTestId('search-hit').first()).waitFor();
    await look('search');
    await page.getByTestId('session-search').fill('');
    if (isNarrow) await page.keyboard.press('Escape');
  });
  await page.getByTestId('session-menu').click();
  await page.getByTestId('show-traffic').click();
  await page.getByTestId('traffic-line').first().waitFor();
  await look('traffic');
  await page.keyboard.press('Escape');
  await closed('traffic');

  for (const name of ['inbox', 'processes', 'settings']) {
    await left(() => page.getByTestId(`nav-${name}`).click());
    await page.getByTestId(name).waitFor();
    if (name === 'processes') await page.getByTestId('process-row').first().waitFor();
    await look(name);
  }
  await page.getByTestId('agent-model').click();
  await page.getByTestId('agent-form').waitFor();
  await look('agent-form');
  await page.keyboard.press('Escape');
  await closed('agent-form');
  await page.getByTestId('data-folder').scrollIntoViewIfNeeded();
  await look('data');
  await page.getByTestId('about').scrollIntoViewIfNeeded();
  await look('about');
  await left(() => page.getByTestId('keys-list').click());
  await page.getByTestId('keys').waitFor();
  await look('keys');
  await page.keyboard.press('Escape');
  await closed('keys');
  if (isNarrow) await page.keyboard.press('Escape');
  await left(() => page.getByTestId('new-session').click());
  await page.getByTestId('start-page').waitFor();
  await look('start');
  await page.getByTestId('project-input').fill(stage.project);
  await page.getByTestId('agent-select').selectOption('keeper');
  await page.getByTestId('start-past').click();
  await page.getByTestId('past-row').first().waitFor();
  await look('past');
  await page.keyboard.press('Escape');
  await closed('past');

  if (isNarrow) await page.getByTestId('toggle-servers').click();
  const item = page.locator('[data-testid=server-item][data-server=fake]');
  await item.getByTestId('server-expand').click();
  await look('servers');
  await item.getByTestId('server-details').click();
  await page.getByTestId('server-overview').waitFor();
  await look('server');
  for (const tab of ['tools', 'log', 'config']) {
    await page.getByTestId(`tab-${tab}`).click();
    if (tab === 'tools') await page.getByTestId('tool-row').first().waitFor();
    await look(`server-${tab}`);
    if (tab === 'log') {
      await page.getByTestId('log-messages').locator('xpath=..').click();
      await page.getByTestId('traffic-line').first().waitFor();
      await look('server-messages');
    }
  }
  await page.getByTestId('drawer-close').click();
  await closed('drawer');
  await page.getByTestId('add-server').first().click();
  await page.getByTestId('server-name').waitFor();
  await look('add-server');
  await context.close();
}

test('the first steps in both themes', async () => {
  for (const [scheme, locale, width, height] of [['light', 'zh-CN', 900, 600], ['dark', 'en-US', 1280, 800]]) {
    await onStage(`welcome-${scheme}`, async (stage) => {
      for (const step of [1, 2, 3]) {
        await stage.page.locator(`[data-testid=welcome][data-step="${step}"]`).waitFor();
        await stage.screenshot(`welcome-${step}-${width}-${scheme}-${locale.slice(0, 2)}`);
        assert.deepEqual(await stage.inaccessible(), []);
        if (step < 3) await stage.page.getByTestId('welcome-next').click();
      }
    }, { isFirstRun: true, scheme, locale, viewport: { width, height }, motion: 'reduce' });
  }
});
