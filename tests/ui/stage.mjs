// A stage for one test in the browser: fresh directories, `gantry serve` on
// them, headless Chromium on its page, and the proof at the end that nothing
// is left. The Rust harness (tests/src) does the same for the other tests.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const TOP = fileURLToPath(new URL('../..', import.meta.url));
const PROGRAMS = process.env.GANTRY_PROGRAMS ?? path.join(TOP, 'target/debug');
const CACHE = process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache');
const NPM = process.env.GANTRY_TESTS_NPM ?? path.join(CACHE, 'gantry-tests/npm');
const ARTIFACTS = process.env.GANTRY_ARTIFACTS ?? path.join(TOP, 'artifacts');
const { chromium } = createRequire(path.join(NPM, 'package.json'))('playwright-core');

// Its bundle is put into the page as a script of the debugger, which the page's policy does not bind.
const AXE = fs.readFileSync(path.join(NPM, 'node_modules/axe-core/axe.min.js'), 'utf8');

/** Longest wait for anything that is not said to take time. */
export const BOUND = 30_000;

export function program(name) {
  const file = path.join(PROGRAMS, name);
  assert.ok(fs.existsSync(file), `${file} is not built; run cargo xtask test`);
  return file;
}

/** Asks `state` every 20 ms until it gives something. */
export async function until(what, state, bound = BOUND) {
  const end = Date.now() + bound;
  for (;;) {
    const value = await state();
    if (value) return value;
    assert.ok(Date.now() < end, `not within ${bound} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

let browser;

/** One browser for all tests of a file. */
export async function openBrowser() {
  browser = await chromium.launch({
    executablePath: findChromium(),
    args: [
      '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync',
      '--disable-background-networking', '--disable-component-update',
    ],
  });
}

export async function closeBrowser() {
  await browser?.close();
}

function findChromium() {
  const named = process.env.GANTRY_TESTS_CHROMIUM;
  const folders = (process.env.PATH ?? '').split(path.delimiter);
  const names = ['chromium', 'chromium-browser', 'google-chrome'];
  const all = names.flatMap((name) => folders.map((folder) => path.join(folder, name)));
  const found = named ?? all.find((file) => fs.existsSync(file));
  assert.ok(found, 'no Chromium in PATH; set GANTRY_TESTS_CHROMIUM');
  return found;
}

/** Runs `body` on a stage; afterwards Gantry quits and nothing may be left. */
export async function onStage(name, body, { viewport = { width: 1280, height: 800 }, scheme, locale = 'en-US', isFirstRun = false, scale, motion } = {}) {
  const stage = new Stage(name);
  await stage.start();
  try {
    // Most tests are about what comes after the first steps.
    if (!isFirstRun) await stage.api('settings_set', { introduced: true });
    const context = await browser.newContext({
      viewport, colorScheme: scheme, locale, deviceScaleFactor: scale, reducedMotion: motion, acceptDownloads: true,
    });
    stage.context = context;
    stage.page = await stage.open();
    await body(stage);
    assert.deepEqual(stage.complaints, [], 'the page complained');
    await context.close();
    await stage.quit();
  } catch (why) {
    await stage.keepEvidence();
    throw why;
  } finally {
    stage.remove();
  }
}

class Stage {
  constructor(name) {
    this.name = name;
    this.complaints = [];
    this.dir = fs.mkdtempSync(path.join(os.tmpdir(), 'gantry-ui-'));
    this.project = path.join(this.dir, 'project');
    this.ledger = path.join(this.dir, 'ledger.jsonl');
    for (const folder of ['home', 'run', 'project']) fs.mkdirSync(path.join(this.dir, folder));
    fs.chmodSync(path.join(this.dir, 'run'), 0o700);
  }

  async start() {
    const env = Object.fromEntries(
      Object.entries(process.env).filter(([key]) => !key.startsWith('GANTRY_')),
    );
    Object.assign(env, {
      HOME: path.join(this.dir, 'home'),
      XDG_CONFIG_HOME: path.join(this.dir, 'home/.config'),
      XDG_DATA_HOME: path.join(this.dir, 'home/.local/share'),
      XDG_CACHE_HOME: path.join(this.dir, 'home/.cache'),
      XDG_RUNTIME_DIR: path.join(this.dir, 'run'),
      GANTRY_DEFAULT_SERVERS: 'none',
      GANTRY_TEST_LEDGER: this.ledger,
    });
    this.log = path.join(this.dir, 'serve.log');
    const args = ['serve', '--data-dir', path.join(this.dir, 'data')];
    this.serve = spawn(program('gantry'), args, {
      env,
      cwd: this.project,
      stdio: ['ignore', 'pipe', fs.openSync(this.log, 'w')],
    });
    this.ended = new Promise((resolve) => this.serve.once('exit', (code) => resolve(code)));
    const lines = createInterface(this.serve.stdout);
    const line = await Promise.race([
      new Promise((resolve) => lines.once('line', resolve)),
      this.ended.then(() => null),
    ]);
    assert.ok(line, `gantry serve ended: ${this.readLog()}`);
    const ready = JSON.parse(line);
    this.url = ready.url.replace(/\/$/, '');
    this.token = fs.readFileSync(ready.token_file, 'utf8').trim();
  }

  /** Opens the user interface in a new tab. */
  async open(token = this.token, context = this.context) {
    const page = await context.newPage();
    page.setDefaultTimeout(BOUND);
    page.on('pageerror', (why) => this.complaints.push(`error: ${why.message}`));
    page.on('console', (message) => {
      if (message.type() === 'error' && !this.expected?.test(message.text())) {
        this.complaints.push(`console: ${message.text()}`);
      }
    });
    // Nothing is ever loaded from elsewhere, whatever agents and servers write.
    page.on('request', (request) => {
      const url = request.url();
      if (!url.startsWith(`${this.url}/`) && !/^(data|blob):/.test(url)) this.complaints.push(`asked for ${url}`);
    });
    await page.goto(`${this.url}/?token=${token}`);
    return page;
  }

  /** A command of the API. */
  async api(command, input) {
    const response = await fetch(`${this.url}/api/${command}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${this.token}`, 'content-type': 'application/json' },
      body: JSON.stringify(input),
    });
    const answer = await response.json();
    assert.equal(answer.ok, true, `${command}: ${JSON.stringify(answer)}`);
    return answer.data;
  }

  /** Makes the scripted agent known. */
  async knowFakeAgent(env = {}) {
    const config = { name: 'Scripted', command: program('fake_agent'), args: [], env };
    await this.api('agents_save', { id: 'scripted', config });
  }

  /** What axe finds serious or critical on the page as it is. */
  async inaccessible(page = this.page) {
    await page.evaluate(AXE);
    const found = await page.evaluate(async () => {
      const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
      return violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 160)} (${failureSummary})`).join('\n')}`);
    });
    return found;
  }

  /** Controls on the page that no screen reader could name. */
  async nameless(page = this.page) {
    return page.evaluate(() => {
      const textOf = (id) => document.getElementById(id)?.innerText ?? '';
      const labels = (node) => [...(node.labels ?? [])].map((label) => label.innerText).join(' ').trim();
      const name = (node) =>
        node.getAttribute('aria-label') ||
        node.getAttribute('title') ||
        labels(node) ||
        (node.getAttribute('aria-labelledby') ?? '').split(' ').map(textOf).join(' ').trim() ||
        (node.matches('input,textarea,select') ? '' : node.innerText.trim());
      return [...document.querySelectorAll('button,a[href],input,textarea,select,[role=button],[role=switch],[role=tab]')]
        .filter((node) => node.checkVisibility({ visibilityProperty: true }) && !name(node))
        .map((node) => node.outerHTML.slice(0, 120));
    });
  }

  async screenshot(name, page = this.page) {
    const folder = path.join(ARTIFACTS, 'ui');
    fs.mkdirSync(folder, { recursive: true });
    await page.screenshot({ path: path.join(folder, `${name}.png`) });
  }

  readLog() {
    return fs.readFileSync(this.log, 'utf8');
  }

  /** Everything alive that inherited our variable or signed into our ledger, without `serve` itself. */
  members() {
    const signed = new Map();
    if (fs.existsSync(this.ledger)) {
      for (const line of fs.readFileSync(this.ledger, 'utf8').split('\n').filter(Boolean)) {
        const { pid, start } = JSON.parse(line);
        signed.set(pid, start);
      }
    }
    const found = [];
    for (const entry of fs.readdirSync('/proc')) {
      const pid = Number(entry);
      if (!Number.isInteger(pid) || pid === this.serve.pid) continue;
      try {
        const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
        if (fields[0] === 'Z') continue;
        const environ = fs.readFileSync(`/proc/${pid}/environ`, 'utf8');
        const tagged = environ.includes(`GANTRY_TEST_LEDGER=${this.ledger}`);
        if (tagged || signed.get(pid) === Number(fields[19])) {
          found.push(`${pid} ${fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')}`);
        }
      } catch {
        // It ended while we looked.
      }
    }
    return found;
  }

  /** Quits and checks the clean end. */
  async quit() {
    const began = Date.now();
    if (this.serve.exitCode === null) this.serve.kill('SIGTERM');
    assert.equal(await this.ended, 0, this.readLog());
    assert.ok(Date.now() - began < 5_200, 'the quit took more than five seconds');
    await until('nothing is left', () => this.members().length === 0, 1_000).catch((why) => {
      throw new Error(`${why.message}: ${this.members().join('\n')}`);
    });
  }

  async keepEvidence() {
    const folder = path.join(ARTIFACTS, 'ui');
    fs.mkdirSync(folder, { recursive: true });
    for (const [index, page] of (this.context?.pages() ?? []).entries()) {
      await page.screenshot({ path: path.join(folder, `${this.name}-failed-${index}.png`) }).catch(() => {});
    }
    fs.copyFileSync(this.log, path.join(folder, `${this.name}.log`));
    await this.context?.close().catch(() => {});
  }

  remove() {
    if (this.serve.exitCode === null) this.serve.kill('SIGKILL');
    fs.rmSync(this.dir, { recursive: true, force: true });
  }

  // What a person does.

  /** Starts a session from the start page. */
  async startSession({ agent, permission } = {}) {
    const { page } = this;
    // Whatever the page shows first: only then is it known whether to ask for the start page.
    const start = page.getByTestId('start-page');
    const first = ['start-page', 'chat-header', 'settings', 'processes', 'inbox'];
    const shown = first.map((id) => `[data-testid="${id}"]:visible`).join(', ');
    await page.locator(shown).first().waitFor();
    if (!(await start.isVisible())) {
      await page.getByTestId('new-session').first().click();
    }
    await page.getByTestId('project-input').fill(this.project);
    if (agent) await page.getByTestId('agent-select').selectOption(agent);
    if (permission) await page.getByTestId('permission-select').selectOption(permission);
    await page.getByTestId('start-session').click();
    await page.getByTestId('composer').waitFor();
  }

  /** Types a prompt and sends it. */
  async say(text) {
    const composer = this.page.getByTestId('composer');
    const turns = await this.page.getByTestId('turn').count();
    await composer.fill(text);
    await composer.press('Enter');
    await until('the turn is shown', async () => (await this.page.getByTestId('turn').count()) > turns);
  }

  /** The last turn, once it has ended. */
  async endOfTurn(bound = BOUND) {
    const last = this.page.getByTestId('turn').last();
    await until('the turn has ended', async () => Boolean(await last.getAttribute('data-ended')), bound);
    return last;
  }

  /** Adds a server by the form. */
  async addServer(name, command) {
    const { page } = this;
    await page.getByTestId('add-server').first().click();
    await page.getByTestId('server-name').fill(name);
    await page.getByTestId('server-kind-command').click();
    await page.getByTestId('server-command').fill(command);
    await page.getByTestId('server-save').click();
  }

  /** Waits until a server shows a state. */
  async serverIn(name, state) {
    const item = this.page.locator(`[data-testid=server-item][data-server=${JSON.stringify(name)}]`);
    const shown = item.locator(`[data-testid=server-state][data-state=${state}]`);
    await shown.first().waitFor();
    return item;
  }
}
