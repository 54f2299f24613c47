// What the interface says of servers that take their time, or that want the user.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { closeBrowser, onStage, openBrowser, program, until } from './stage.mjs';

before(openBrowser);
after(closeBrowser);

// Case 36.
test('a prompt that waits for a server says for which, and then has it', () =>
  onStage('waits', async (stage) => {
    const { page } = stage;
    await stage.knowFakeAgent();
    const config = { command: program('fake_mcp'), args: ['--start-delay', '3000', '--tools', '2'] };
    await stage.api('servers_save', { name: 'slow one', config: { ...config, enabled: false } });
    await stage.api('servers_enable', { name: 'slow one', enabled: true });
    await stage.startSession({ agent: 'scripted', permission: 'all' });
    // Not `say`: the turn is there only when the waiting is over.
    await page.getByTestId('composer').fill('TOOLS');
    await page.getByTestId('composer').press('Enter');
    await page.getByText('Waiting for servers: slow one').first().waitFor();
    await until('the turn is shown', async () => (await page.getByTestId('turn').count()) > 0);
    const turn = await stage.endOfTurn();
    assert.match(await turn.innerText(), /tool_1/);
    const { sessions } = await stage.api('sessions_list', {});
    assert.equal(sessions[0].servers[0].state, 'ready', JSON.stringify(sessions[0].servers));
  }));

/** A remote server that wants a sign-in, its authorization server at the same address. */
async function guarded() {
  const known = { codes: new Map(), declines: true };
  const server = http.createServer(async (request, response) => {
    const at = `http://127.0.0.1:${server.address().port}`;
    const url = new URL(request.url, at);
    let body = '';
    for await (const piece of request) body += piece;
    const answer = (value, status = 200, headers = {}) => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(value === undefined ? '' : JSON.stringify(value));
    };
    switch (url.pathname) {
      case '/.well-known/oauth-protected-resource/mcp':
        return answer({ resource: `${at}/mcp`, authorization_servers: [at] });
      case '/.well-known/oauth-authorization-server':
        return answer({
          issuer: at, authorization_endpoint: `${at}/authorize`, token_endpoint: `${at}/token`,
          registration_endpoint: `${at}/register`, code_challenge_methods_supported: ['S256'], response_types_supported: ['code'],
        });
      case '/register':
        return answer({ client_id: 'c', redirect_uris: JSON.parse(body).redirect_uris }, 201);
      case '/authorize': {
        const back = new URL(url.searchParams.get('redirect_uri'));
        back.searchParams.set('state', url.searchParams.get('state'));
        if (known.declines) back.searchParams.set('error', 'access_denied');
        else back.searchParams.set('code', 'code');
        known.codes.set('code', url.searchParams.get('code_challenge'));
        return answer(undefined, 302, { location: back.href });
      }
      case '/token': {
        const asked = new URLSearchParams(body);
        const verifier = createHash('sha256').update(asked.get('code_verifier')).digest('base64url');
        if (known.codes.get(asked.get('code')) !== verifier) return answer({ error: 'invalid_grant' }, 400);
        return answer({ access_token: 'good', token_type: 'Bearer', expires_in: 3600 });
      }
      case '/mcp': {
        if (request.headers.authorization !== 'Bearer good') return answer(undefined, 401, { 'www-authenticate': 'Bearer' });
        if (request.method !== 'POST') return answer(undefined, 405);
        const { id, method } = JSON.parse(body);
        if (id === undefined) return answer(undefined, 202);
        const result = method === 'initialize'
          ? { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'far', version: '1' } }
          : method === 'tools/list' ? { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] } : {};
        return answer({ jsonrpc: '2.0', id, result });
      }
      default:
        return answer(undefined, 404);
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { known, server, url: `http://127.0.0.1:${server.address().port}/mcp` };
}

test('a remote server is signed in to and out of', () =>
  onStage('sign-in', async (stage) => {
    const { page } = stage;
    const { known, server, url } = await guarded();
    try {
      await stage.api('servers_save', { name: 'far', config: { url, persistent: true } });
      const card = page.locator('[data-testid=server-item][data-server=far]');
      await card.getByText('Needs you to sign in').waitFor();
      const box = card.getByTestId('server-sign-in');
      const open = async () => {
        const [, tab] = await Promise.all([
          page.getByTestId('leaving-yes').click(),
          stage.context.waitForEvent('page'),
        ]);
        await tab.waitForLoadState();
        const said = await tab.innerText('body');
        await tab.close();
        return said;
      };
      assert.deepEqual(await stage.inaccessible(), []);
      await stage.screenshot('server-sign-in');

      // Given up, declined, done.
      await box.getByTestId('server-sign-in-begin').click();
      assert.equal(await page.getByTestId('leaving-host').innerText(), new URL(url).host);
      await page.keyboard.press('Escape');
      await box.getByTestId('server-sign-in-cancel').click();
      await box.getByText('Not signed in: it was given up').waitFor();
      await box.getByTestId('server-sign-in-begin').click();
      assert.match(await open(), /Not signed in/);
      await box.getByText('declined').waitFor();
      known.declines = false;
      await box.getByTestId('server-sign-in-begin').click();
      assert.match(await open(), /Signed in/);
      await stage.serverIn('far', 'ready');
      assert.equal(await box.count(), 0, 'it is still said');

      await card.getByTestId('server-expand').click();
      await card.getByTestId('server-sign-out').click();
      await card.getByText('Needs you to sign in').waitFor();
      await until('the tools are gone', async () => (await stage.api('servers_list', {})).servers[0].state === 'failed');
    } finally {
      server.closeAllConnections();
      server.close();
    }
  }));
